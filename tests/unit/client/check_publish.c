/* SPDX-License-Identifier: MIT */
/* publish: the ring of a job, and the thread that is woken for it. */
#include "client/lib/publish.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client/lib/long_job_hint.h"
#include "client/lib/wake_worker.h"
#include "common/clock.h"
#include "common/util.h"
#include "shm/futex.h"
#include "shm/proto.h"
#include "shm/wake.h"
#include "tests/support/check_unit.h"
#include "tests/support/fake.h"
#include "tests/support/local.h"
#include "tests/support/refuse.h"

static void set_words(const uint32_t *states, uint32_t n)
{
	fake_segments(n);
	for (uint32_t i = 0; i < n; i++)
		atomic_store(&fake.board->workers[i].wake, WAKE_SEQ * 5 | states[i]);
}

START_TEST(last_worker_is_chosen_while_it_searches)
{
	set_words((uint32_t[]){ WAKE_LOOKING, WAKE_SLEEPING, WAKE_LOOKING, WAKE_BUSY }, 4);
	ck_assert_uint_eq(publish_pick(fake.board, fake.tenant, 4, 2, 0), 2);
	ck_assert_uint_eq(publish_pick(fake.board, fake.tenant, 4, 0, 0), 0);
	/* It does not search: another searching worker is preferred to a sleeping one. */
	ck_assert_uint_eq(publish_pick(fake.board, fake.tenant, 4, 1, 0), 2);
	ck_assert_uint_eq(publish_pick(fake.board, fake.tenant, 4, 3, 0), 0);
	/* A hint that is not a worker. */
	ck_assert_uint_eq(publish_pick(fake.board, fake.tenant, 4, 99, 0), 0);
}
END_TEST

START_TEST(sleeping_worker_is_chosen_before_busy_ones)
{
	set_words((uint32_t[]){ WAKE_BUSY, WAKE_BUSY, WAKE_SLEEPING, WAKE_BUSY }, 4);
	for (uint32_t last = 0; last < 4; last++)
		ck_assert_uint_eq(publish_pick(fake.board, fake.tenant, 4, last, 0), 2);
}
END_TEST

START_TEST(offline_worker_is_not_woken)
{
	set_words((uint32_t[]){ WAKE_PARKED, WAKE_PARKED, WAKE_LOOKING, WAKE_PARKED }, 4);
	ck_assert_uint_eq(publish_pick(fake.board, fake.tenant, 4, 0, 0), 2);
	ck_assert_uint_eq(waker_wake(fake.board, 4, 0, NULL), 2);
	/* No worker can be woken: the dispatcher handles it, which is awake here. */
	set_words((uint32_t[]){ WAKE_PARKED, WAKE_BUSY, WAKE_PARKED }, 3);
	atomic_store(&fake.board->dispatcher, WAKE_LOOKING);
	ck_assert_uint_eq(waker_wake(fake.board, 3, 0, NULL), 3);
	/* For a node with only offline workers any ring is used. */
	for (uint32_t i = 0; i < 3; i++)
		atomic_store(&fake.board->workers[i].node, i / 2);
	ck_assert_uint_eq(publish_pick_node(fake.board, fake.tenant, 3, 1, 0), 2);
	ck_assert_uint_eq(publish_pick_node(fake.board, fake.tenant, 3, 5, 0), 3);
}
END_TEST

START_TEST(shorter_ring_of_two_busy_workers_is_chosen)
{
	uint64_t position;

	set_words((uint32_t[]){ WAKE_BUSY, WAKE_BUSY, WAKE_BUSY, WAKE_BUSY }, 4);
	for (int i = 0; i < 10; i++)
		ck_assert_int_eq(ring_push(&fake.tenant->rings[1], 1, &position), RING_OK);
	ck_assert_int_eq(ring_push(&fake.tenant->rings[3], 1, &position), RING_OK);
	ck_assert_uint_eq(publish_pick(fake.board, fake.tenant, 4, 0, 1 | 3 << 16), 3);
	ck_assert_uint_eq(publish_pick(fake.board, fake.tenant, 4, 0, 3 | 1 << 16), 3);
	ck_assert_uint_eq(publish_pick(fake.board, fake.tenant, 4, 0, 3 | 2 << 16), 2);
}
END_TEST

START_TEST(length_of_a_ring_is_estimated_within_a_factor_of_two)
{
	struct ring *ring;
	uint64_t head = 0;
	uint64_t position;

	set_words((uint32_t[]){ WAKE_BUSY }, 1);
	ring = &fake.tenant->rings[0];
	/* Over several laps. */
	for (uint64_t step = 0; step < 5000; step++) {
		uint64_t length = step * 7919 % (RING_SLOTS + 1);
		uint64_t tail = atomic_load(&ring->tail);

		while (tail - head < length) {
			ck_assert_int_eq(ring_push(ring, 1, &position), RING_OK);
			tail++;
		}
		while (tail - head > length)
			ring_consume(ring, head++);
		ck_assert_uint_le(publish_length(ring), length);
		ck_assert_uint_ge(publish_length(ring) * 2, length);
	}
}
END_TEST

struct sleeper {
	pthread_t thread;
	_Atomic uint32_t tid;
	_Atomic uint32_t *word;
	int result;
};

static void *sleep_on_word(void *argument)
{
	struct sleeper *s = argument;

	atomic_store(&s->tid, (uint32_t)gettid());
	s->result = futex_wait(s->word, atomic_load(s->word), clock_ns() + 60 * NSEC_PER_SEC);
	return NULL;
}

START_TEST(job_for_a_busy_worker_wakes_only_one_sleeper)
{
	struct sleeper s = { .result = 1 };

	set_words((uint32_t[]){ WAKE_BUSY, WAKE_BUSY, WAKE_SLEEPING }, 3);
	s.word = &fake.board->workers[2].wake;
	/* The thread may or may not sleep yet: waker_wake() must find it in either case. */
	pthread_create(&s.thread, NULL, sleep_on_word, &s);
	while (waker_wake(fake.board, 3, 0, NULL) == 3)
		;
	pthread_join(s.thread, NULL);
	ck_assert_int_eq(s.result, 0);
}
END_TEST

START_TEST(job_in_the_ring_of_a_sleeping_worker_wakes_it)
{
	struct sleeper s = { .result = 1 };

	set_words((uint32_t[]){ WAKE_LOOKING, WAKE_SLEEPING }, 2);
	s.word = &fake.board->workers[1].wake;
	pthread_create(&s.thread, NULL, sleep_on_word, &s);
	/* If it cannot be woken after thousands of tries, the searching worker has the wake
	 * duty. */
	while (waker_wake(fake.board, 2, 1, NULL) != 1)
		;
	pthread_join(s.thread, NULL);
	ck_assert_int_eq(s.result, 0);
}
END_TEST

START_TEST(dispatcher_is_woken_if_all_workers_are_busy)
{
	struct sleeper s = { .result = 1 };
	uint64_t tries = 0;

	set_words((uint32_t[]){ WAKE_BUSY, WAKE_BUSY, WAKE_BUSY }, 3);
	atomic_store(&fake.board->dispatcher, WAKE_SLEEPING | WAKE_SEQ);
	s.word = &fake.board->dispatcher;
	pthread_create(&s.thread, NULL, sleep_on_word, &s);
	do {
		ck_assert_uint_eq(waker_wake(fake.board, 3, 1, NULL), 3);
		tries++;
	} while (pthread_tryjoin_np(s.thread, NULL) != 0);
	ck_assert_int_eq(s.result, 0);
	ck_assert_uint_ge(tries, 1);
}
END_TEST

/* Returns the number of ring requests in the socket, and removes them. */
static uint32_t rings(int fd)
{
	union proto_message message;
	uint32_t n = 0;
	int r;

	while ((r = proto_recv_plain(fd, &message, MSG_DONTWAIT)) > 0) {
		ck_assert_int_eq(r, sizeof(message.head));
		ck_assert_uint_eq(message.head.type, PROTO_RING);
		n++;
	}
	ck_assert_int_eq(r, -EAGAIN);
	return n;
}

/* Returns when s sleeps on the dispatcher's word. */
static void sleep_as_dispatcher(struct sleeper *s)
{
	*s = (struct sleeper){ .word = &fake.board->dispatcher, .result = 1 };
	pthread_create(&s->thread, NULL, sleep_on_word, s);
	fake_await_sleep(&s->tid);
}

/* The same with the word DOZING. */
static void doze(struct sleeper *s)
{
	(void)wake_dozing(&fake.board->dispatcher);
	sleep_as_dispatcher(s);
}

/* As if the client had slept until two of its jobs of 100 ms ended. */
static void have_waited(uint32_t task)
{
	struct job job = { .task = task, .started_ns = 1, .ended_ns = 1 + LONG_JOB_NS };

	long_job_learn(&client->long_job, &job);
	long_job_learn(&client->long_job, &job);
}

static void submit_some(const struct fk_request *request, uint32_t n)
{
	const struct fk_request requests[2] = { *request, *request };
	fk_job jobs[2];

	ck_assert_int_eq(fk_submit_batch(client, requests, n, 0, jobs), 0);
}

/* Submits; the sleeper must be woken without a ring request. waited: after the client has
 * waited. */
static void must_wake(struct sleeper *s, const struct fk_request *request, uint32_t n, bool waited)
{
	if (waited)
		have_waited(request->task->index);
	submit_some(request, n);
	ck_assert_uint_eq(rings(fake.connections[0]), 0);
	pthread_join(s->thread, NULL);
	ck_assert_int_eq(s->result, 0);
}

START_TEST(job_that_can_wait_does_not_wake_a_dozing_dispatcher)
{
	struct fk_request request = { 0 }, late;
	struct sleeper s;

	LOCAL_REFUSE("a dispatcher that is a thread of the test");
	fake_open(1, 0);
	request.task = must_find(client, "test:drop");
	atomic_store(&fake.board->workers[0].wake, WAKE_BUSY);
	/* The length of the job is unknown. */
	doze(&s);
	must_wake(&s, &request, 1, false);

	doze(&s);
	have_waited(request.task->index);
	submit_some(&request, 1);
	/* It is still asleep. */
	ck_assert_int_eq(futex_wake(s.word, 1), 1);
	pthread_join(s.thread, NULL);

	/* The second job, a chain and a job with a deadline cannot wait; */
	doze(&s);
	must_wake(&s, &request, 1, false);
	doze(&s);
	must_wake(&s, &request, 2, true);
	late = request;
	late.options.timeout_ns = 3600 * NSEC_PER_SEC;
	doze(&s);
	must_wake(&s, &late, 1, true);
	/* nor can a job while the dispatcher sleeps and no timer is set. */
	atomic_store(s.word, WAKE_SLEEPING);
	sleep_as_dispatcher(&s);
	must_wake(&s, &request, 1, true);
	fake_close();
}
END_TEST

START_TEST(searching_worker_gets_no_wake)
{
	set_words((uint32_t[]){ WAKE_BUSY, WAKE_SLEEPING, WAKE_LOOKING }, 3);
	/* No thread sleeps on the word of worker 1, so a wake of it would not return quickly. */
	ck_assert_uint_eq(waker_wake(fake.board, 3, 0, NULL), 2);
	ck_assert_uint_eq(waker_wake(fake.board, 3, 2, NULL), 2);
	atomic_store(&fake.board->dispatcher, WAKE_LOOKING);
	atomic_store(&fake.board->workers[1].wake, WAKE_BUSY);
	atomic_store(&fake.board->workers[2].wake, WAKE_BUSY);
	ck_assert_uint_eq(waker_wake(fake.board, 3, 0, NULL), 3);
}
END_TEST

START_TEST(wake_duty_is_passed_on_if_the_sleeper_never_sleeps)
{
	/* A pool that died: its words stay SLEEPING forever, and there is no thread to wake. */
	set_words((uint32_t[]){ WAKE_SLEEPING, WAKE_SLEEPING }, 2);
	atomic_store(&fake.board->dispatcher, WAKE_SLEEPING);
	ck_assert_uint_eq(waker_wake(fake.board, 2, 0, NULL), 2);
}
END_TEST

START_TEST(each_sleep_is_woken_once_per_pool)
{
	struct waker waker = { .fd = -1 };
	struct sleeper s = { .result = 1 };

	set_words((uint32_t[]){ WAKE_SLEEPING }, 1);
	atomic_store(&fake.board->dispatcher, WAKE_LOOKING);
	s.word = &fake.board->workers[0].wake;
	pthread_create(&s.thread, NULL, sleep_on_word, &s);
	while (waker_wake(fake.board, 1, 0, &waker) != 0)
		;
	pthread_join(s.thread, NULL);
	ck_assert_int_eq(s.result, 0);
	/* The word is still SLEEPING, as if the woken worker had not run yet. */
	ck_assert_uint_eq(waker_wake(fake.board, 1, 0, &waker), 0);
	/* The same number in another pool is another sleep, which was not woken. */
	atomic_store(&fake.board->manager.pool_generation, 1);
	ck_assert_uint_eq(waker_wake(fake.board, 1, 0, &waker), 1);
	/* And so is the next number. */
	atomic_store(&fake.board->manager.pool_generation, 0);
	atomic_fetch_add(s.word, WAKE_SEQ);
	ck_assert_uint_eq(waker_wake(fake.board, 1, 0, &waker), 1);
}
END_TEST

/* Gives a socket to a client that has woken no thread; the manager's end is ends[1]. */
static void waker_begin(struct waker *waker, int ends[2])
{
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	*waker = (struct waker){ .fd = ends[0] };
}

START_TEST(client_that_finds_no_sleeper_sends_one_ring_request)
{
	struct waker waker;
	int ends[2];

	waker_begin(&waker, ends);
	set_words((uint32_t[]){ WAKE_SLEEPING, WAKE_BUSY }, 2);
	ck_assert_uint_eq(waker_wake(fake.board, 2, 0, &waker), 0);
	ck_assert_uint_eq(rings(ends[1]), 1);
	/* The same sleep: in doubt only after some time. */
	ck_assert_uint_eq(waker_wake(fake.board, 2, 0, &waker), 0);
	atomic_fetch_sub(&waker.since_ns, WAKER_DOUBT);
	ck_assert_uint_ge(waker_unsure(fake.board, &waker, clock_ns()), WAKER_DOUBT);
	ck_assert_uint_eq(waker_wake(fake.board, 2, 0, &waker), 0);
	/* One unread request is enough, even for another sleep. */
	atomic_fetch_add(&fake.board->workers[0].wake, WAKE_SEQ);
	ck_assert_uint_eq(waker_unsure(fake.board, &waker, clock_ns()), WAKER_SURE);
	ck_assert_uint_eq(waker_wake(fake.board, 2, 0, &waker), 0);
	ck_assert_uint_eq(rings(ends[1]), 1);
	/* An unread cancel is not a ring request. */
	atomic_store(&waker.cancels, 1);
	for (int i = 0; i < 2; i++) {
		atomic_fetch_add(&fake.board->workers[0].wake, WAKE_SEQ);
		ck_assert_uint_eq(waker_wake(fake.board, 2, 0, &waker), 0);
	}
	ck_assert_uint_eq(rings(ends[1]), 2);
	/* The dispatcher's sleep. */
	atomic_store(&fake.board->workers[0].wake, WAKE_BUSY);
	atomic_store(&fake.board->dispatcher, WAKE_SLEEPING);
	ck_assert_uint_eq(waker_wake(fake.board, 2, 0, &waker), 2);
	ck_assert_uint_eq(rings(ends[1]), 1);
	/* Without a manager the word counts as BUSY. */
	(void)close(ends[1]);
	atomic_store(&fake.board->workers[0].wake, 7 * WAKE_SEQ | WAKE_SLEEPING);
	ck_assert_uint_eq(waker_wake(fake.board, 2, 0, &waker), 2);
	(void)close(ends[0]);
}
END_TEST

START_TEST(ring_requests_for_a_doubtful_sleeper_are_rate_limited)
{
	struct waker waker;
	int ends[2];

	waker_begin(&waker, ends);
	set_words((uint32_t[]){ WAKE_SLEEPING }, 1);
	ck_assert_uint_eq(waker_wake(fake.board, 1, 0, &waker), 0);
	ck_assert_uint_eq(rings(ends[1]), 1);
	atomic_store(&waker.since_ns, 0);
	ck_assert_uint_eq(waker_wake(fake.board, 1, 0, &waker), 0);
	ck_assert_uint_eq(rings(ends[1]), 1);
	/* As if no time had passed since. */
	atomic_store(&waker.rung_ns, clock_ns() + 3600 * NSEC_PER_SEC);
	ck_assert_uint_eq(waker_wake(fake.board, 1, 0, &waker), 0);
	ck_assert_uint_eq(rings(ends[1]), 0);
	atomic_store(&waker.rung_ns, 0);
	ck_assert_uint_eq(waker_wake(fake.board, 1, 0, &waker), 0);
	ck_assert_uint_eq(rings(ends[1]), 1);
	(void)close(ends[1]);
	(void)close(ends[0]);
}
END_TEST

START_TEST(full_ring_is_skipped_until_all_are_full)
{
	set_words((uint32_t[]){ WAKE_LOOKING, WAKE_LOOKING }, 2);
	for (uint32_t i = 0; i < RING_SLOTS; i++)
		ck_assert_int_eq(publish(fake.board, fake.tenant, 2, 0, 0, i, NULL), 0);
	for (uint32_t i = 0; i < RING_SLOTS; i++)
		ck_assert_int_eq(publish(fake.board, fake.tenant, 2, 0, 0, i, NULL), 1);
	ck_assert_int_eq(publish(fake.board, fake.tenant, 2, 0, 0, 0, NULL), -FK_E_RINGS_FULL);
	ck_assert_uint_eq(atomic_load(&fake.tenant->summary[0]), 3);
}
END_TEST

static _Atomic uint32_t submitted;

/* From now on every system call of this thread except exit ends it. (The strict mode of seccomp
 * would also forbid the time stamp counter.) */
static bool forbid_system_calls(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_THREAD),
	};

	return refuse_by(filter, ARRAY_SIZE(filter));
}

static void *submit_without_system_calls(void *unused)
{
	const fk_task *task = must_find(client, "test:add");
	fk_job job;

	(void)unused;
	/* A sanitizer's runtime makes its own calls. */
#ifndef FK_SANITIZE
	if (!forbid_system_calls())
		return NULL;
#else
	(void)forbid_system_calls;
#endif
	for (int i = 0; i < 50; i++) {
		if (!fk_submit(client, task, 0, &job, (int64_t)i, (int64_t)1))
			atomic_fetch_add(&submitted, 1);
	}
#ifndef FK_SANITIZE
	syscall(SYS_exit, 0);
#endif
	return NULL;
}

START_TEST(submission_makes_no_system_call_while_a_worker_is_awake)
{
	pthread_t thread;

	LOCAL_REFUSE("the word of a worker without a thread");
	fake_start(2, 0);
	atomic_store(&fake.board->workers[1].wake, WAKE_LOOKING);
	client = must_open();
	ck_assert_int_eq(pthread_create(&thread, NULL, submit_without_system_calls, NULL), 0);
	pthread_join(thread, NULL);
	ck_assert_uint_eq(atomic_load(&submitted), 50);
	fake_stop();
}
END_TEST

CHECK_MAIN("publish")
