/* SPDX-License-Identifier: MIT */
/*
 * tests/check_client.c - libforkclient against a daemon that is threads of the test
 *
 * The fake daemon answers HELLO with real segments, and its workers drain the rings by the rules of
 * shm/wake.h, so both ends of every protocol run here, and ThreadSanitizer sees them. Its tasks:
 * add, len, inc work; fail and crash end badly; hold keeps its worker busy until it is let go; drop
 * never ends.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/client.h"
#include "common/clock.h"
#include "common/util.h"
#include "shm/futex.h"
#include "shm/layout.h"
#include "shm/proto.h"
#include "shm/wake.h"
#include "tests/check_unit.h"

#define CLIENTS 4u
#define WORKERS 4u
#define EPOCH	77u

static const struct {
	const char *name;
	const char *signature;
} tasks[] = {
	{ "test:add", "a:i64, b:i64 -> i64" },
	{ "test:len", "t:str -> i64, f64" },
	{ "test:inc", "d:iobuf ->" },
	{ "test:fail", "code:i64 -> i64" },
	{ "test:crash", "->" },
	{ "test:hold", "->" },
	{ "test:drop", "->" },
	{ "test:odd", "n:i65 ->" },
};

struct fake {
	char folder[32];
	char path[64];
	int listen_fd;
	int connections[CLIENTS];
	_Atomic uint32_t n_connections;
	uint32_t n_workers;
	uint32_t n_running; /* threads; 0 leaves the words to the test */
	int fds[2];	    /* board, tenant */
	struct board *board;
	struct tenant_segment *tenant;
	_Atomic(struct client_segment *) clients[CLIENTS];
	uint64_t heads[WORKERS];
	pthread_mutex_t lock; /* of the heads: the consumer role */
	_Atomic uint32_t stop;
	_Atomic uint32_t hold; /* 1: jobs of test:hold stay */
	_Atomic uint32_t held;
	_Atomic uint32_t dispatched;
	pthread_t acceptor;
	pthread_t workers[WORKERS];
	pthread_t dispatcher;
	const char *refuse; /* answer HELLO with this text */
	uint32_t n_jobs;
};

static struct fake fake;

static void *must_map(int fd, uint32_t kind)
{
	void *base;

	ck_assert_int_eq(segment_map(fd, kind, 1, EPOCH, &base, NULL), 0);
	return base;
}

static void welcome(int fd, uint32_t id)
{
	struct proto_welcome message = {
		.head = { PROTO_MAGIC, PROTO_WELCOME },
		.client = id,
		.epoch = EPOCH,
	};
	uint64_t heap_offset = client_segment_heap_offset(fake.n_jobs);
	int client_fd =
		segment_create("check-client", SEGMENT_CLIENT, heap_offset + 65536, EPOCH, 1, 0600);
	int read_only = segment_reopen_readonly(fake.fds[0]);
	int fds[3] = { read_only, fake.fds[1], client_fd };
	struct client_segment *segment = must_map(client_fd, SEGMENT_CLIENT);

	segment->client = id;
	segment->n_jobs = fake.n_jobs;
	segment->jobs_offset = sizeof(*segment);
	segment->heap_offset = heap_offset;
	segment->heap_size = 65536;
	atomic_store(&fake.clients[id], segment);
	ck_assert_int_eq(proto_send(fd, &message, sizeof(message), fds, 3), 0);
	close(client_fd);
	close(read_only);
}

static void *accept_clients(void *unused)
{
	(void)unused;
	for (;;) {
		int fd = accept4(fake.listen_fd, NULL, NULL, SOCK_CLOEXEC);
		uint32_t id = atomic_load(&fake.n_connections);
		union proto_message message;
		int fds[PROTO_MAX_FDS];
		uint32_t n_fds;

		if (fd < 0)
			return NULL;
		if (proto_recv(fd, &message, fds, &n_fds, 0) != sizeof(message.hello) ||
		    id == CLIENTS) {
			close(fd);
			continue;
		}
		ck_assert_uint_eq(message.hello.version, PROTO_VERSION);
		ck_assert_uint_eq(message.hello.layout_hash, LAYOUT_HASH);
		if (fake.refuse) {
			struct proto_error error = {
				.head = { PROTO_MAGIC, PROTO_ERROR },
				.code = -EUSERS,
			};

			(void)strcpy(error.text, fake.refuse);
			(void)proto_send(fd, &error, sizeof(error), NULL, 0);
			close(fd);
			continue;
		}
		fake.connections[id] = fd;
		/* Before the client can go on. */
		atomic_store(&fake.n_connections, id + 1);
		welcome(fd, id);
	}
}

/* Ends a job as the pool would; drop ends none. */
static void run(uint32_t payload)
{
	struct client_segment *segment = atomic_load(&fake.clients[ring_payload_client(payload)]);
	struct job *job = (struct job *)(segment + 1) + ring_payload_job(payload);
	char *heap = (char *)segment + segment->heap_offset;
	uint32_t outcome = JOB_DONE;
	struct job_ref ref;
	int64_t numbers[2];
	double half;

	atomic_store_explicit(&job->started_ns, clock_ns(), memory_order_relaxed);
	memcpy(numbers, job->args, sizeof(numbers));
	memcpy(&ref, job->args, sizeof(ref));
	ck_assert(job->task_hash == fake.board->tasks[job->task].hash);
	switch (atomic_load(&job->task)) {
	case 0:
		numbers[0] += numbers[1];
		memcpy(job->result, numbers, 8);
		break;
	case 1:
		numbers[0] = (int64_t)strlen(heap + ref.offset);
		ck_assert_int_eq(numbers[0], (int64_t)ref.size);
		half = (double)numbers[0] / 2;
		memcpy(job->result, numbers, 8);
		memcpy(job->result + 8, &half, 8);
		break;
	case 2:
		for (uint64_t i = 0; i < ref.size; i++)
			heap[ref.offset + i]++;
		break;
	case 3:
		outcome = JOB_FAILED;
		atomic_store(&job->code, (int32_t)numbers[0]);
		break;
	case 4:
		outcome = JOB_CRASHED;
		atomic_store(&job->signo, SIGSEGV);
		break;
	case 5:
		atomic_fetch_add(&fake.held, 1);
		(void)futex_wake(&fake.held, 1);
		while (atomic_load(&fake.hold))
			(void)futex_wait(&fake.hold, 1, 0);
		break;
	default:
		return;
	}
	atomic_store_explicit(&job->ended_ns, clock_ns(), memory_order_relaxed);
	if (job_finish(job, job->generation, outcome))
		(void)futex_wake(&job->state, INT32_MAX);
}

/* Takes a job off any ring, or with ret_payload NULL says whose ring has one. -1: none has. */
static int take(uint32_t *ret_payload)
{
	int found = -1;

	pthread_mutex_lock(&fake.lock);
	for (uint32_t i = 0; i < fake.n_workers && found < 0; i++) {
		struct ring *ring = &fake.tenant->rings[i];
		uint32_t payload;

		if (ring_peek(ring, fake.heads[i], &payload) != RING_OK)
			continue;
		found = (int)i;
		if (ret_payload) {
			*ret_payload = payload;
			ring_consume(ring, fake.heads[i]++);
		}
	}
	pthread_mutex_unlock(&fake.lock);
	return found;
}

static void *work(void *number)
{
	_Atomic uint32_t *word = &fake.board->workers[(uintptr_t)number].wake;

	while (!atomic_load(&fake.stop)) {
		uint32_t payload;
		uint32_t value;
		int ring;

		wake_store(word, WAKE_LOOKING);
		if (take(&payload) >= 0) {
			wake_busy(word);
			ring = take(NULL);
			if (ring >= 0)
				(void)submit_wake(fake.board, fake.n_workers, (uint32_t)ring, NULL);
			run(payload);
			continue;
		}
		value = wake_prepare(word);
		if (take(NULL) < 0 && !atomic_load(&fake.stop))
			(void)futex_wait(word, value, 0);
	}
	return NULL;
}

static void *dispatch(void *unused)
{
	_Atomic uint32_t *word = &fake.board->dispatcher;

	(void)unused;
	while (!atomic_load(&fake.stop)) {
		uint32_t value = wake_prepare(word);

		/* A worker that ends its strand looks by itself; nothing is to be done here. */
		if (!atomic_load(&fake.stop) && futex_wait(word, value, 0) == 0)
			atomic_fetch_add(&fake.dispatched, 1);
		wake_store(word, WAKE_LOOKING);
	}
	return NULL;
}

static void make_segments(uint32_t n_workers)
{
	fake.n_workers = n_workers;
	fake.fds[0] =
		segment_create("check-board", SEGMENT_BOARD, sizeof(struct board), EPOCH, 1, 0600);
	fake.fds[1] = segment_create("check-tenant", SEGMENT_TENANT, tenant_segment_size(n_workers),
				     EPOCH, 1, 0600);
	fake.board = must_map(fake.fds[0], SEGMENT_BOARD);
	fake.tenant = must_map(fake.fds[1], SEGMENT_TENANT);
	fake.board->manager.n_workers = n_workers;
	fake.tenant->n_rings = n_workers;
	for (size_t i = 0; i < ARRAY_SIZE(tasks); i++) {
		struct board_task *task = &fake.board->tasks[i];

		(void)strcpy(task->name, tasks[i].name);
		(void)strcpy(task->signature, tasks[i].signature);
		task->hash = signature_hash(task->name, task->signature);
	}
	atomic_store(&fake.board->n_tasks, ARRAY_SIZE(tasks));
}

static void fake_listen(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	(void)strcpy(fake.folder, "/tmp/check-client-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(fake.folder));
	(void)snprintf(fake.path, sizeof(fake.path), "%s/sock", fake.folder);
	(void)strcpy(address.sun_path, fake.path);
	fake.listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(bind(fake.listen_fd, (struct sockaddr *)&address, sizeof(address)), 0);
	ck_assert_int_eq(listen(fake.listen_fd, 8), 0);
}

static void fake_start(uint32_t n_workers, uint32_t n_running)
{
	fake.n_jobs = 64;
	fake.n_running = n_running;
	pthread_mutex_init(&fake.lock, NULL);
	make_segments(n_workers);
	fake_listen();
	pthread_create(&fake.acceptor, NULL, accept_clients, NULL);
	for (uintptr_t i = 0; i < n_running; i++)
		pthread_create(&fake.workers[i], NULL, work, (void *)i);
	if (n_running)
		pthread_create(&fake.dispatcher, NULL, dispatch, NULL);
}

static void fake_hang_up(void)
{
	for (uint32_t i = 0; i < atomic_load(&fake.n_connections); i++) {
		close(fake.connections[i]);
		fake.connections[i] = -1;
	}
}

static void wake_until_joined(pthread_t thread, _Atomic uint32_t *word)
{
	struct timespec soon;

	do {
		(void)futex_wake(word, 1);
		clock_gettime(CLOCK_REALTIME, &soon);
		soon.tv_nsec = min(soon.tv_nsec + 1000000, 999999999L);
	} while (pthread_timedjoin_np(thread, NULL, &soon) != 0);
}

static void fake_stop(void)
{
	atomic_store(&fake.stop, 1);
	(void)shutdown(fake.listen_fd, SHUT_RDWR);
	pthread_join(fake.acceptor, NULL);
	for (uint32_t i = 0; i < fake.n_running; i++)
		wake_until_joined(fake.workers[i], &fake.board->workers[i].wake);
	if (fake.n_running)
		wake_until_joined(fake.dispatcher, &fake.board->dispatcher);
	unlink(fake.path);
	rmdir(fake.folder);
}

static fk_client *must_open(void)
{
	fk_client *client = NULL;

	ck_assert_msg(fk_open(fake.path, NULL, &client) == 0, "%s", fk_open_error());
	/* One mapping for both ends, or ThreadSanitizer takes them for different memory. The
	 * client's own mappings stay behind; with a size of 0 fk_close() unmaps nothing. */
	client->tenant = fake.tenant;
	client->tenant_size = 0;
	client->segment = atomic_load(&fake.clients[client->id]);
	client->segment_size = 0;
	client->jobs = (struct job *)(client->segment + 1);
	client->heap.base = (char *)client->segment + client->segment->heap_offset;
	return client;
}

static const fk_task *must_find(fk_client *client, const char *name)
{
	const fk_task *task = NULL;

	ck_assert_int_eq(fk_task_find(client, name, &task), 0);
	return task;
}

/* ------------------------------------------------------------------ choosing and waking */

static void set_words(const uint32_t *states, uint32_t n)
{
	make_segments(n);
	for (uint32_t i = 0; i < n; i++)
		atomic_store(&fake.board->workers[i].wake, WAKE_SEQ * 5 | states[i]);
}

START_TEST(the_last_worker_is_chosen_while_it_looks)
{
	set_words((uint32_t[]){ WAKE_LOOKING, WAKE_SLEEPING, WAKE_LOOKING, WAKE_BUSY }, 4);
	ck_assert_uint_eq(submit_pick(fake.board, fake.tenant, 4, 2, 0), 2);
	ck_assert_uint_eq(submit_pick(fake.board, fake.tenant, 4, 0, 0), 0);
	/* Not looking: whoever else looks goes before a sleeper. */
	ck_assert_uint_eq(submit_pick(fake.board, fake.tenant, 4, 1, 0), 2);
	ck_assert_uint_eq(submit_pick(fake.board, fake.tenant, 4, 3, 0), 0);
	/* A hint that is no worker. */
	ck_assert_uint_eq(submit_pick(fake.board, fake.tenant, 4, 99, 0), 0);
}
END_TEST

START_TEST(a_sleeper_is_chosen_before_the_busy)
{
	set_words((uint32_t[]){ WAKE_BUSY, WAKE_BUSY, WAKE_SLEEPING, WAKE_BUSY }, 4);
	for (uint32_t last = 0; last < 4; last++)
		ck_assert_uint_eq(submit_pick(fake.board, fake.tenant, 4, last, 0), 2);
}
END_TEST

START_TEST(of_two_busy_ones_the_shorter_ring_is_chosen)
{
	uint64_t position;

	set_words((uint32_t[]){ WAKE_BUSY, WAKE_BUSY, WAKE_BUSY, WAKE_BUSY }, 4);
	for (int i = 0; i < 10; i++)
		ck_assert_int_eq(ring_push(&fake.tenant->rings[1], 1, &position), RING_OK);
	ck_assert_int_eq(ring_push(&fake.tenant->rings[3], 1, &position), RING_OK);
	ck_assert_uint_eq(submit_pick(fake.board, fake.tenant, 4, 0, 1 | 3 << 16), 3);
	ck_assert_uint_eq(submit_pick(fake.board, fake.tenant, 4, 0, 3 | 1 << 16), 3);
	ck_assert_uint_eq(submit_pick(fake.board, fake.tenant, 4, 0, 3 | 2 << 16), 2);
}
END_TEST

START_TEST(the_length_of_a_ring_is_seen_within_a_factor_of_two)
{
	struct ring *ring;
	uint64_t head = 0;
	uint64_t position;

	set_words((uint32_t[]){ WAKE_BUSY }, 1);
	ring = &fake.tenant->rings[0];
	/* Through several laps. */
	for (uint64_t step = 0; step < 5000; step++) {
		uint64_t length = step * 7919 % (RING_SLOTS + 1);
		uint64_t tail = atomic_load(&ring->tail);

		while (tail - head < length) {
			ck_assert_int_eq(ring_push(ring, 1, &position), RING_OK);
			tail++;
		}
		while (tail - head > length)
			ring_consume(ring, head++);
		ck_assert_uint_le(submit_length(ring), length);
		ck_assert_uint_ge(submit_length(ring) * 2, length);
	}
}
END_TEST

struct sleeper {
	pthread_t thread;
	_Atomic uint32_t *word;
	int result;
};

static void *sleep_on_word(void *argument)
{
	struct sleeper *s = argument;

	s->result = futex_wait(s->word, atomic_load(s->word), clock_ns() + 5 * NSEC_PER_SEC);
	return NULL;
}

START_TEST(a_busy_workers_job_wakes_a_sleeper_and_nobody_else)
{
	struct sleeper s = { .result = 1 };

	set_words((uint32_t[]){ WAKE_BUSY, WAKE_BUSY, WAKE_SLEEPING }, 3);
	s.word = &fake.board->workers[2].wake;
	/* Not asleep yet or already: submit_wake() has to find it in either case. */
	pthread_create(&s.thread, NULL, sleep_on_word, &s);
	while (submit_wake(fake.board, 3, 0, NULL) == 3)
		;
	pthread_join(s.thread, NULL);
	ck_assert_int_eq(s.result, 0);
}
END_TEST

START_TEST(a_job_in_a_sleepers_ring_wakes_it)
{
	struct sleeper s = { .result = 1 };

	set_words((uint32_t[]){ WAKE_LOOKING, WAKE_SLEEPING }, 2);
	s.word = &fake.board->workers[1].wake;
	pthread_create(&s.thread, NULL, sleep_on_word, &s);
	/* If it cannot be woken after thousands of tries, the one that looks has the duty. */
	while (submit_wake(fake.board, 2, 1, NULL) != 1)
		;
	pthread_join(s.thread, NULL);
	ck_assert_int_eq(s.result, 0);
}
END_TEST

START_TEST(with_all_busy_the_dispatcher_is_woken)
{
	struct sleeper s = { .result = 1 };
	uint64_t tries = 0;

	set_words((uint32_t[]){ WAKE_BUSY, WAKE_BUSY, WAKE_BUSY }, 3);
	atomic_store(&fake.board->dispatcher, WAKE_SLEEPING | WAKE_SEQ);
	s.word = &fake.board->dispatcher;
	pthread_create(&s.thread, NULL, sleep_on_word, &s);
	do {
		ck_assert_uint_eq(submit_wake(fake.board, 3, 1, NULL), 3);
		tries++;
	} while (pthread_tryjoin_np(s.thread, NULL) != 0);
	ck_assert_int_eq(s.result, 0);
	ck_assert_uint_ge(tries, 1);
}
END_TEST

START_TEST(who_looks_needs_no_wake)
{
	set_words((uint32_t[]){ WAKE_BUSY, WAKE_SLEEPING, WAKE_LOOKING }, 3);
	/* Nobody sleeps on the word of worker 1, so a wake of it would not come back quickly. */
	ck_assert_uint_eq(submit_wake(fake.board, 3, 0, NULL), 2);
	ck_assert_uint_eq(submit_wake(fake.board, 3, 2, NULL), 2);
	atomic_store(&fake.board->dispatcher, WAKE_LOOKING);
	atomic_store(&fake.board->workers[1].wake, WAKE_BUSY);
	atomic_store(&fake.board->workers[2].wake, WAKE_BUSY);
	ck_assert_uint_eq(submit_wake(fake.board, 3, 0, NULL), 3);
}
END_TEST

START_TEST(a_sleeper_that_never_sleeps_passes_the_duty_on)
{
	/* A pool that died: its words say SLEEPING for ever, and nobody is there to be woken. */
	set_words((uint32_t[]){ WAKE_SLEEPING, WAKE_SLEEPING }, 2);
	atomic_store(&fake.board->dispatcher, WAKE_SLEEPING);
	ck_assert_uint_eq(submit_wake(fake.board, 2, 0, NULL), 2);
}
END_TEST

START_TEST(a_sleep_is_woken_once_and_the_next_pools_again)
{
	_Atomic uint64_t woken[1] = { 0 };
	struct sleeper s = { .result = 1 };

	set_words((uint32_t[]){ WAKE_SLEEPING }, 1);
	atomic_store(&fake.board->dispatcher, WAKE_LOOKING);
	s.word = &fake.board->workers[0].wake;
	pthread_create(&s.thread, NULL, sleep_on_word, &s);
	while (submit_wake(fake.board, 1, 0, woken) != 0)
		;
	pthread_join(s.thread, NULL);
	ck_assert_int_eq(s.result, 0);
	/* The word still says SLEEPING, as if the worker had not run yet: on its way. */
	ck_assert_uint_eq(submit_wake(fake.board, 1, 0, woken), 0);
	/* The same number in another pool is another sleep, which nobody woke. */
	atomic_store(&fake.board->manager.pool_generation, 1);
	ck_assert_uint_eq(submit_wake(fake.board, 1, 0, woken), 1);
	/* And so is the next number. */
	atomic_store(&fake.board->manager.pool_generation, 0);
	atomic_fetch_add(s.word, WAKE_SEQ);
	ck_assert_uint_eq(submit_wake(fake.board, 1, 0, woken), 1);
}
END_TEST

START_TEST(a_full_ring_gives_way_to_the_next_until_all_are_full)
{
	set_words((uint32_t[]){ WAKE_LOOKING, WAKE_LOOKING }, 2);
	for (uint32_t i = 0; i < RING_SLOTS; i++)
		ck_assert_int_eq(submit_publish(fake.board, fake.tenant, 2, 0, 0, i, NULL), 0);
	for (uint32_t i = 0; i < RING_SLOTS; i++)
		ck_assert_int_eq(submit_publish(fake.board, fake.tenant, 2, 0, 0, i, NULL), 1);
	ck_assert_int_eq(submit_publish(fake.board, fake.tenant, 2, 0, 0, 0, NULL), -EAGAIN);
	ck_assert_uint_eq(atomic_load(&fake.tenant->summary[0]), 3);
}
END_TEST

static _Atomic uint32_t submitted;

/* From now on every system call of this thread but exit is its end. (The strict mode of seccomp
 * would forbid the time stamp counter as well.) */
static int forbid_system_calls(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_THREAD),
	};
	struct sock_fprog program = { .len = ARRAY_SIZE(filter), .filter = filter };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0 ? -errno : 0;
}

static void *submit_without_system_calls(void *argument)
{
	fk_client *client = argument;
	const fk_task *task = must_find(client, "test:add");
	fk_job job;

	/* What a sanitizer's runtime calls is not ours. */
#ifndef FK_SANITIZE
	if (forbid_system_calls() < 0)
		return argument;
#else
	(void)forbid_system_calls;
#endif
	for (int i = 0; i < 50; i++) {
		if (!fk_submitv(client, task, 0, &job, (int64_t)i, (int64_t)1))
			atomic_fetch_add(&submitted, 1);
	}
#ifndef FK_SANITIZE
	syscall(SYS_exit, 0);
#endif
	return NULL;
}

START_TEST(submitting_makes_no_system_call_where_a_worker_is_awake)
{
	fk_client *client;
	pthread_t thread;

	fake_start(2, 0);
	atomic_store(&fake.board->workers[1].wake, WAKE_LOOKING);
	client = must_open();
	ck_assert_int_eq(pthread_create(&thread, NULL, submit_without_system_calls, client), 0);
	pthread_join(thread, NULL);
	ck_assert_uint_eq(atomic_load(&submitted), 50);
	fake_stop();
}
END_TEST

/* ------------------------------------------------------------------ jobs */

START_TEST(a_call_gives_the_result)
{
	struct {
		int64_t length;
		double half;
	} two;
	fk_client *client;
	int64_t sum = 0;
	char *data;
	void *memory;

	fake_start(2, 2);
	client = must_open();
	ck_assert_int_eq(fk_call(client, "test:add", &sum, (int64_t)40, (int64_t)-2), 0);
	ck_assert_int_eq(sum, 38);
	ck_assert_int_eq(fk_call(client, "test:len", &two, "seven_7"), 0);
	ck_assert_int_eq(two.length, 7);
	ck_assert_double_eq(two.half, 3.5);
	ck_assert_int_eq(fk_alloc(client, 3, &memory), 0);
	data = memory;
	memcpy(data, "abc", 3);
	ck_assert_int_eq(fk_call(client, "test:inc", NULL, (struct fk_buffer){ data, 3 }), 0);
	ck_assert_int_eq(memcmp(data, "bcd", 3), 0);
	ck_assert_int_eq(fk_free(client, data), 0);
	ck_assert_int_eq(fk_free(client, data), -EINVAL);
	ck_assert_uint_eq(heap_used(&client->heap), 0);
	ck_assert_int_eq(fk_close(client), 0);
	fake_stop();
}
END_TEST

START_TEST(every_outcome_has_its_error)
{
	const fk_task *task;
	fk_client *client;
	int64_t result = 5;
	int code = 1;
	int signo = 1;
	fk_job job;

	fake_start(2, 2);
	client = must_open();
	ck_assert_int_eq(fk_call(client, "test:fail", &result, (int64_t)-ERANGE), -ERANGE);
	ck_assert_int_eq(fk_call(client, "test:fail", &result, (int64_t)42), -EREMOTEIO);
	ck_assert_int_eq(result, 5);
	ck_assert_int_eq(fk_call(client, "test:crash", NULL), -ENOTRECOVERABLE);
	task = must_find(client, "test:crash");
	ck_assert_int_eq(fk_submitv(client, task, 0, &job), 0);
	ck_assert_int_eq(fk_wait(client, job, FK_FOREVER), 0);
	ck_assert_int_eq(fk_outcome(client, job, &code, &signo), FK_CRASHED);
	ck_assert_int_eq(code, 0);
	ck_assert_int_eq(signo, SIGSEGV);
	ck_assert_int_eq(error_of_outcome(JOB_LOST, 0), -EOWNERDEAD);
	ck_assert_int_eq(error_of_outcome(JOB_CANCELLED, 0), -ECANCELED);
	ck_assert_int_eq(error_of_outcome(JOB_EXPIRED, 0), -ETIME);
	for (int outcome = FK_PENDING; outcome <= FK_LOST; outcome++)
		ck_assert_str_ne(fk_outcome_name(outcome), "?");
	ck_assert_str_eq(fk_outcome_name(FK_LOST + 1), "?");
	ck_assert_str_eq(fk_outcome_name(-1), "?");
	ck_assert_str_eq(fk_strerror(-ESTALE), fk_strerror(ESTALE));
	ck_assert_ptr_nonnull(fk_strerror(INT32_MIN));
	fk_close(client);
	fake_stop();
}
END_TEST

START_TEST(what_does_not_fit_the_signature_is_refused)
{
	union fk_value values[3] = { { .i64 = 1 }, { .i64 = 2 } };
	int64_t packed[3] = { 1, 2, 3 };
	const fk_task *task;
	fk_client *client;
	char local[4];
	int64_t sum;
	fk_job job = 7;

	fake_start(1, 1);
	client = must_open();
	ck_assert_int_eq(fk_task_find(client, "test:none", &task), -ENOENT);
	ck_assert_int_eq(fk_task_find(client, "test:odd", &task), -EPROTO);
	task = must_find(client, "test:add");
	ck_assert_str_eq(fk_task_name(task), "test:add");
	ck_assert_str_eq(fk_task_signature(task), "a:i64, b:i64 -> i64");
	ck_assert_ptr_eq(task, must_find(client, "test:add"));
	ck_assert_int_eq(fk_submit(client, task, packed, 24, 0, &job), -EINVAL);
	ck_assert_int_eq(fk_submit(client, task, packed, 8, 0, &job), -EINVAL);
	ck_assert_int_eq(fk_submit(client, task, packed, 16, 4, &job), -EINVAL);
	ck_assert_int_eq(fk_submit_values(client, task, values, 3, 0, &job), -EINVAL);
	ck_assert_int_eq(fk_call(client, "test:inc", NULL, (struct fk_buffer){ local, 4 }),
			 -EFAULT);
	ck_assert_uint_eq(job, 7);
	ck_assert_int_eq(fk_submit(client, task, packed, 16, FK_IDEMPOTENT, &job), 0);
	ck_assert_int_eq(fk_wait(client, job, FK_FOREVER), 0);
	ck_assert_uint_eq(client_job(client, job)->flags, JOB_IDEMPOTENT);
	ck_assert_int_eq(fk_result(client, job, &sum, 4), -EINVAL);
	ck_assert_int_eq(fk_result(client, job, &sum, 8), 0);
	ck_assert_int_eq(sum, 3);
	atomic_store(&fake.board->tasks[0].flags, TASK_GONE);
	ck_assert_int_eq(fk_submit(client, task, packed, 16, 0, &job), -ENOENT);
	ck_assert_int_eq(fk_call(client, "test:add", &sum, (int64_t)1, (int64_t)2), -ENOENT);
	fk_close(client);
	fake_stop();
}
END_TEST

START_TEST(a_handle_ends_with_its_release)
{
	struct fk_timings timings;
	const fk_task *task;
	fk_client *client;
	fk_job job;
	fk_job next;

	fake_start(1, 1);
	client = must_open();
	atomic_store(&fake.hold, 1);
	task = must_find(client, "test:hold");
	ck_assert_int_eq(fk_submitv(client, task, 0, &job), 0);
	ck_assert_int_eq(fk_release(client, job), -EBUSY);
	ck_assert_int_eq(fk_poll(client, job), 0);
	ck_assert_int_eq(fk_outcome(client, job, NULL, NULL), FK_PENDING);
	ck_assert_int_eq(fk_result(client, job, NULL, 0), -EINPROGRESS);
	ck_assert_int_eq(fk_timings(client, job, &timings), -EINPROGRESS);
	ck_assert_int_eq(fk_wait(client, job, 0), -ETIMEDOUT);
	ck_assert_int_eq(fk_wait(client, job, 2 * NSEC_PER_MSEC), -ETIMEDOUT);
	atomic_store(&fake.hold, 0);
	(void)futex_wake(&fake.hold, 1);
	ck_assert_int_eq(fk_wait(client, job, FK_FOREVER), 0);
	ck_assert_int_eq(fk_poll(client, job), 1);
	ck_assert_int_eq(fk_timings(client, job, &timings), 0);
	ck_assert_uint_ge(timings.run_ns, NSEC_PER_MSEC);
	ck_assert_int_eq(fk_release(client, job), 0);
	ck_assert_int_eq(fk_release(client, job), -ESTALE);
	ck_assert_int_eq(fk_wait(client, job, 0), -ESTALE);
	ck_assert_int_eq(fk_outcome(client, job, NULL, NULL), -ESTALE);
	ck_assert_int_eq(fk_submitv(client, must_find(client, "test:crash"), 0, &next), 0);
	ck_assert_uint_eq(next & 0xffff, job & 0xffff);
	ck_assert_uint_ne(next, job);
	ck_assert_int_eq(fk_poll(client, job), -ESTALE);
	ck_assert_int_eq(fk_poll(client, 0), -ESTALE);
	ck_assert_int_eq(fk_poll(client, UINT64_MAX), -ESTALE);
	fk_close(client);
	fake_stop();
}
END_TEST

START_TEST(generations_go_round_without_zero)
{
	const fk_task *task;
	fk_client *client;
	fk_job job;

	fake_start(1, 1);
	fake.n_jobs = 1;
	client = must_open();
	task = must_find(client, "test:crash");
	atomic_store(&client->slots[0].generation, JOB_GEN_MASK);
	ck_assert_int_eq(fk_submitv(client, task, 0, &job), 0);
	ck_assert_int_eq(fk_wait(client, job, FK_FOREVER), 0);
	ck_assert_int_eq(fk_release(client, job), 0);
	ck_assert_int_eq(fk_submitv(client, task, 0, &job), 0);
	ck_assert_uint_eq(job, 1 << 16);
	ck_assert_int_eq(fk_wait(client, job, FK_FOREVER), 0);
	fk_close(client);
	fake_stop();
}
END_TEST

struct room {
	fk_client *client;
	fk_job job;
	int err;
};

static void *submit_with_room(void *argument)
{
	struct room *room = argument;

	room->err = fk_submitv(room->client, must_find(room->client, "test:add"), FK_WAIT_ROOM,
			       &room->job, (int64_t)1, (int64_t)2);
	return NULL;
}

START_TEST(a_full_table_is_an_error_or_waited_for)
{
	const fk_task *task;
	struct room room;
	pthread_t thread;
	fk_job jobs[64];
	fk_job job;

	fake_start(1, 1);
	room.client = must_open();
	task = must_find(room.client, "test:len");
	for (size_t i = 0; i < ARRAY_SIZE(jobs); i++)
		ck_assert_int_eq(fk_submitv(room.client, task, 0, &jobs[i], "abc"), 0);
	ck_assert_int_eq(fk_submitv(room.client, task, 0, &job, "abc"), -EAGAIN);
	/* The string of the one that failed is back. */
	ck_assert_uint_eq(heap_used(&room.client->heap), 64 * 64);
	pthread_create(&thread, NULL, submit_with_room, &room);
	while (!atomic_load(&room.client->room_waiters))
		sched_yield();
	ck_assert_int_eq(fk_wait(room.client, jobs[5], FK_FOREVER), 0);
	ck_assert_int_eq(fk_release(room.client, jobs[5]), 0);
	pthread_join(thread, NULL);
	ck_assert_int_eq(room.err, 0);
	ck_assert_uint_eq(room.job & 0xffff, jobs[5] & 0xffff);
	ck_assert_int_eq(fk_wait(room.client, room.job, FK_FOREVER), 0);
	fk_close(room.client);
	fake_stop();
}
END_TEST

#define THREADS 4
#define CALLS	2000

static void *call_often(void *argument)
{
	fk_client *client = argument;

	for (int64_t i = 0; i < CALLS; i++) {
		int64_t sum;

		if (fk_call(client, "test:add", &sum, i, i) || sum != 2 * i)
			return argument;
	}
	return NULL;
}

START_TEST(threads_may_share_a_client)
{
	pthread_t threads[THREADS];
	fk_client *client;

	fake_start(3, 3);
	client = must_open();
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, call_often, client);
	for (int i = 0; i < THREADS; i++) {
		void *failed;

		pthread_join(threads[i], &failed);
		ck_assert_ptr_null(failed);
	}
	/* Every slot is back, each once. */
	for (uint32_t i = 0; i < client->n_jobs; i++)
		ck_assert_int_ge(slots_take(client), 0);
	ck_assert_int_eq(slots_take(client), -EAGAIN);
	fk_close(client);
	fake_stop();
}
END_TEST

START_TEST(a_job_behind_a_busy_worker_is_run_by_another)
{
	const fk_task *task;
	fk_client *client;
	int64_t sum;
	fk_job job;

	fake_start(2, 2);
	client = must_open();
	atomic_store(&fake.hold, 1);
	task = must_find(client, "test:hold");
	ck_assert_int_eq(fk_submitv(client, task, 0, &job), 0);
	while (!atomic_load(&fake.held))
		(void)futex_wait(&fake.held, 0, 0);
	for (int64_t i = 0; i < 100; i++)
		ck_assert_int_eq(fk_call(client, "test:add", &sum, i, i), 0);
	atomic_store(&fake.hold, 0);
	(void)futex_wake(&fake.hold, INT32_MAX);
	ck_assert_int_eq(fk_wait(client, job, FK_FOREVER), 0);
	fk_close(client);
	fake_stop();
}
END_TEST

/* ------------------------------------------------------------------ ends */

static void *hang_up_when_waited_for(void *argument)
{
	struct job *job = argument;

	while (!(atomic_load(&job->state) & JOB_WAITER))
		sched_yield();
	fake_hang_up();
	return NULL;
}

START_TEST(a_waiter_finds_out_that_the_daemon_is_gone)
{
	const fk_task *task;
	fk_client *client;
	pthread_t thread;
	uint64_t start;
	fk_job job;

	fake_start(1, 1);
	client = must_open();
	task = must_find(client, "test:drop");
	ck_assert_int_eq(fk_submitv(client, task, 0, &job), 0);
	pthread_create(&thread, NULL, hang_up_when_waited_for, client_job(client, job));
	start = clock_ns();
	ck_assert_int_eq(fk_wait(client, job, FK_FOREVER), -ECONNRESET);
	ck_assert_uint_lt(clock_ns() - start, 20 * NSEC_PER_SEC);
	pthread_join(thread, NULL);
	ck_assert_int_eq(fk_poll(client, job), -ECONNRESET);
	ck_assert_int_eq(fk_wait(client, job, 0), -ECONNRESET);
	ck_assert_int_eq(fk_release(client, job), 0);
	ck_assert_int_eq(fk_submitv(client, task, FK_WAIT_ROOM, &job), -ECONNRESET);
	ck_assert_int_eq(fk_close(client), 0);
	fake_stop();
}
END_TEST

START_TEST(who_polls_or_waits_for_room_finds_it_out_too)
{
	const fk_task *task;
	fk_client *client;
	fk_job job;
	int r = 0;

	fake_start(1, 1);
	fake.n_jobs = 1;
	client = must_open();
	task = must_find(client, "test:drop");
	ck_assert_int_eq(fk_submitv(client, task, 0, &job), 0);
	fake_hang_up();
	ck_assert_int_eq(fk_submitv(client, task, FK_WAIT_ROOM, &job), -ECONNRESET);
	atomic_store(&client->gone, 0);
	while (!r)
		r = fk_poll(client, job);
	ck_assert_int_eq(r, -ECONNRESET);
	fk_close(client);
	fake_stop();
}
END_TEST

START_TEST(an_outcome_that_was_the_daemons_last_act_counts)
{
	const fk_task *task;
	fk_client *client;
	fk_job job;

	fake_start(1, 1);
	client = must_open();
	task = must_find(client, "test:drop");
	ck_assert_int_eq(fk_submitv(client, task, 0, &job), 0);
	(void)job_finish(client_job(client, job), (uint32_t)(job >> 16), JOB_CANCELLED);
	fake_hang_up();
	ck_assert_int_eq(fk_wait(client, job, FK_FOREVER), 0);
	ck_assert_int_eq(fk_outcome(client, job, NULL, NULL), FK_CANCELLED);
	fk_close(client);
	fake_stop();
}
END_TEST

START_TEST(a_child_of_fork_may_not_use_the_parents_client)
{
	const fk_task *task;
	fk_client *client;
	int64_t sum;
	int block[2];
	fk_job job;
	int status;
	pid_t pid;
	char byte;

	fake_start(1, 1);
	client = must_open();
	ck_assert_int_eq(fk_call(client, "test:add", &sum, (int64_t)1, (int64_t)2), 0);
	task = must_find(client, "test:crash");
	ck_assert_int_eq(fk_submitv(client, task, 0, &job), 0);
	ck_assert_int_eq(pipe(block), 0);
	pid = fork();
	if (!pid) {
		struct fk_ref ref;
		void *data;
		int bad = 0;

		bad |= fk_submitv(client, task, 0, &job) != -EPERM;
		bad |= fk_call(client, "test:add", &sum, (int64_t)1, (int64_t)2) != -EPERM;
		bad |= fk_wait(client, job, FK_FOREVER) != -EPERM;
		bad |= fk_poll(client, job) != -EPERM;
		bad |= fk_release(client, job) != -EPERM;
		bad |= fk_alloc(client, 1, &data) != -EPERM;
		bad |= fk_buffer_ref(client, (struct fk_buffer){ NULL, 0 }, &ref) != -EPERM;
		bad |= fk_close(client) != -EPERM;
		bad |= client->fd != -1;
		close(block[1]);
		/* Lives until the parent is done: the daemon must see the end all the same. */
		(void)!read(block[0], &byte, 1);
		_exit(bad);
	}
	ck_assert_int_eq(fk_wait(client, job, FK_FOREVER), 0);
	ck_assert_int_eq(fk_close(client), 0);
	ck_assert_int_eq(recv(fake.connections[0], &byte, 1, 0), 0);
	close(block[1]);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	fake_stop();
}
END_TEST

START_TEST(two_clients_of_a_process_do_not_disturb_each_other)
{
	fk_client *a;
	fk_client *b;
	int64_t sum;

	fake_start(2, 2);
	a = must_open();
	b = must_open();
	ck_assert_int_eq(fk_call(a, "test:add", &sum, (int64_t)1, (int64_t)1), 0);
	ck_assert_int_eq(fk_call(b, "test:add", &sum, (int64_t)2, (int64_t)2), 0);
	ck_assert_int_eq(fk_close(a), 0);
	ck_assert_int_eq(fk_call(b, "test:add", &sum, (int64_t)3, (int64_t)3), 0);
	ck_assert_int_eq(sum, 6);
	ck_assert_int_eq(fk_close(b), 0);
	ck_assert_int_eq(fk_close(NULL), 0);
	fake_stop();
}
END_TEST

/* ------------------------------------------------------------------ opening */

static void must_fail(const char *path, int err, const char *text)
{
	fk_client *client = NULL;
	int r = fk_open(path, NULL, &client);

	ck_assert_msg(r == err, "%s: %d, not %d: %s", path, r, err, fk_open_error());
	ck_assert_msg(strstr(fk_open_error(), text) != NULL, "%s", fk_open_error());
	ck_assert_ptr_null(client);
}

START_TEST(who_cannot_connect_is_told_what_to_do)
{
	char path[200];

	fake_start(1, 1);
	(void)snprintf(path, sizeof(path), "%s/none", fake.folder);
	must_fail(path, -ENOENT, "forkctl session -- COMMAND");
	must_fail(path, -ENOENT, path);
	must_fail("", -EINVAL, "empty");
	memset(path, 'x', sizeof(path) - 1);
	path[sizeof(path) - 1] = '\0';
	must_fail(path, -ENAMETOOLONG, "199 bytes");
	fake.refuse = "forkd has 256 clients and takes no more (max-clients in forkd.conf)";
	must_fail(fake.path, -EUSERS, "max-clients in forkd.conf");
	fake.refuse = NULL;
	ck_assert_int_eq(setenv("FORKD_SOCKET", fake.path, 1), 0);
	fake.fds[0] = fake.fds[1];
	must_fail(NULL, -EPROTO, "different versions");
	fake_stop();
	/* The socket's file without anybody behind it. */
	fake_listen();
	close(fake.listen_fd);
	must_fail(fake.path, -ECONNREFUSED, "systemctl start forkd");
	unlink(fake.path);
	rmdir(fake.folder);
}
END_TEST

START_TEST(permissions_are_named_when_they_are_what_is_wrong)
{
	fake_listen();
	ck_assert_int_eq(chmod(fake.path, 0), 0);
	if (geteuid() == 0) {
		ck_assert_int_eq(chmod(fake.folder, 0755), 0);
		ck_assert_int_eq(seteuid(65534), 0);
	}
	must_fail(fake.path, -EACCES, "socket-mode");
	if (getuid() == 0)
		ck_assert_int_eq(seteuid(0), 0);
	unlink(fake.path);
	rmdir(fake.folder);
}
END_TEST

CHECK_MAIN("client", the_last_worker_is_chosen_while_it_looks, a_sleeper_is_chosen_before_the_busy,
	   of_two_busy_ones_the_shorter_ring_is_chosen,
	   the_length_of_a_ring_is_seen_within_a_factor_of_two,
	   a_busy_workers_job_wakes_a_sleeper_and_nobody_else, a_job_in_a_sleepers_ring_wakes_it,
	   with_all_busy_the_dispatcher_is_woken, who_looks_needs_no_wake,
	   a_sleeper_that_never_sleeps_passes_the_duty_on,
	   a_sleep_is_woken_once_and_the_next_pools_again,
	   a_full_ring_gives_way_to_the_next_until_all_are_full,
	   submitting_makes_no_system_call_where_a_worker_is_awake, a_call_gives_the_result,
	   every_outcome_has_its_error, what_does_not_fit_the_signature_is_refused,
	   a_handle_ends_with_its_release, generations_go_round_without_zero,
	   a_full_table_is_an_error_or_waited_for, threads_may_share_a_client,
	   a_job_behind_a_busy_worker_is_run_by_another, a_waiter_finds_out_that_the_daemon_is_gone,
	   who_polls_or_waits_for_room_finds_it_out_too,
	   an_outcome_that_was_the_daemons_last_act_counts,
	   a_child_of_fork_may_not_use_the_parents_client,
	   two_clients_of_a_process_do_not_disturb_each_other,
	   who_cannot_connect_is_told_what_to_do, permissions_are_named_when_they_are_what_is_wrong)
