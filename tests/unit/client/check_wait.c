/* SPDX-License-Identifier: MIT */
/* wait: each wait and poll detects that the daemon has ended, and wakes a thread that must be
 * awake. Uses tests/support/fake.h. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/time.h>

#include "client/lib/long_job_hint.h"
#include "common/clock.h"
#include "shm/futex.h"
#include "shm/proto.h"
#include "shm/wake.h"
#include "tests/support/check_unit.h"
#include "tests/support/fake.h"
#include "tests/support/local.h"

static void await_waiter(struct job *job)
{
	while (!(atomic_load(&job->state) & JOB_WAITER))
		sched_yield();
}

static void *hang_up_when_waited_for(void *job)
{
	await_waiter(job);
	fake_hang_up();
	return NULL;
}

/* Waits for a job that never ends, until another thread calls end(). */
static fk_job wait_in_vain(void *(*end)(void *job))
{
	fk_job job = must_drop();
	pthread_t thread;

	pthread_create(&thread, NULL, end, client_job(client, job));
	ck_assert_int_eq(fk_wait(client, job, FK_FOREVER), -ECONNRESET);
	pthread_join(thread, NULL);
	return job;
}

START_TEST(waiter_detects_the_end_of_the_daemon)
{
	fk_job job = wait_in_vain(hang_up_when_waited_for);

	ck_assert_int_eq(fk_poll(client, job), -ECONNRESET);
	ck_assert_int_eq(fk_wait(client, job, 0), -ECONNRESET);
	ck_assert_int_eq(fk_release(client, job), 0);
	ck_assert_int_eq(fk_submit(client, must_find(client, "test:drop"), FK_WAIT_ROOM, &job),
			 -ECONNRESET);
	fake_close();
}
END_TEST

static void *dismiss_when_waited_for(void *job)
{
	struct proto_error error = { .head = { PROTO_MAGIC, PROTO_ERROR }, .code = -EIO };

	LOCAL_REFUSE("a socket");
	await_waiter(job);
	/* And then the end of the connection. */
	ck_assert_int_eq(proto_send(fake.connections[0], &error, sizeof(error), NULL, 0), 0);
	return NULL;
}

START_TEST(waiter_detects_a_dismissal_by_the_daemon)
{
	fk_job job = wait_in_vain(dismiss_when_waited_for);

	ck_assert_int_eq(fk_submit(client, must_find(client, "test:drop"), 0, &job), -ECONNRESET);
	fake_close();
}
END_TEST

/* As if the worker had woken up for the job. A client with a doubtful wake already checks after
 * WAKER_DOUBT, and a thread of the fake pool may get no CPU time for that long. */
static void no_doubt(void)
{
	atomic_store(&client->waker.woken[atomic_load(&client->waker.last)], 0);
	ck_assert_uint_eq(waker_unsure(client->board, &client->waker, clock_ns()), WAKER_SURE);
}

/* Any check of the socket would detect this at once. */
static int lose_socket(void)
{
	int fd = client->fd;

	LOCAL_REFUSE("a socket");
	client->fd = -1;
	return fd;
}

START_TEST(polls_and_short_waits_check_the_socket_at_intervals)
{
	const fk_task *task;
	fk_group group;
	struct fk_request request;
	_Atomic uint64_t *looked_at_group;
	uint64_t later;
	fk_job job;
	int fd;

	fake_open(1, 1);
	task = must_find(client, "test:drop");
	ck_assert_int_eq(fk_group_new(client, &group), 0);
	request = (struct fk_request){ .task = task, .options.group = group };
	ck_assert_int_eq(fk_submit_batch(client, &request, 1, 0, &job), 0);
	no_doubt();
	looked_at_group = &client->group[group & 0xffff].looked_ns;
	fd = lose_socket();
	/* The last check was in the future: no time has passed since. */
	later = clock_ns() + 3600 * NSEC_PER_SEC;
	atomic_store(&client->looked_ns, later);
	atomic_store(looked_at_group, later);
	for (int i = 0; i < 5000; i++) {
		ck_assert_int_eq(fk_poll(client, job), 0);
		ck_assert_int_eq(fk_wait(client, job, 0), -ETIMEDOUT);
		ck_assert_int_eq(fk_group_wait(client, group, 0), -ETIMEDOUT);
	}
	for (int i = 0; i < 20; i++) {
		ck_assert_int_eq(fk_wait(client, job, 100 * NSEC_PER_USEC), -ETIMEDOUT);
		ck_assert_int_eq(fk_group_wait(client, group, 100 * NSEC_PER_USEC), -ETIMEDOUT);
	}
	ck_assert_uint_eq(atomic_load(&client->looked_ns), later);
	ck_assert_uint_eq(atomic_load(&client->gone), 0);
	/* Much time has passed. */
	atomic_store(&client->looked_ns, 0);
	ck_assert_int_eq(fk_wait(client, job, 100 * NSEC_PER_USEC), -ECONNRESET);
	ck_assert_uint_gt(atomic_load(&client->looked_ns), 0);
	/* The last two have expired before they would sleep. */
	for (int i = 0; i < 5; i++) {
		atomic_store(&client->gone, 0);
		atomic_store(&client->looked_ns, 0);
		ck_assert_int_eq(i == 0	  ? fk_poll(client, job)
				 : i == 1 ? fk_wait(client, job, 0)
				 : i == 2 ? fk_group_wait(client, group, 0)
				 : i == 3 ? fk_wait(client, job, 1)
					  : fk_group_wait(client, group, 1),
				 -ECONNRESET);
	}
	client->fd = fd;
	fake_close();
}
END_TEST

START_TEST(poll_and_wait_for_room_end_when_the_daemon_is_gone)
{
	const fk_task *task;
	fk_job job;
	int r = 0;

	fake_start(1, 1);
	fake.n_jobs = 1;
	client = must_open();
	task = must_find(client, "test:drop");
	ck_assert_int_eq(fk_submit(client, task, 0, &job), 0);
	fake_hang_up();
	ck_assert_int_eq(fk_submit(client, task, FK_WAIT_ROOM, &job), -ECONNRESET);
	atomic_store(&client->gone, 0);
	while (!r)
		r = fk_poll(client, job);
	ck_assert_int_eq(r, -ECONNRESET);
	fake_close();
}
END_TEST

static _Atomic uint32_t interruptions;

static void interrupt(int signo)
{
	(void)signo;
	atomic_fetch_add(&interruptions, 1);
}

/* A signal arrives far more often than the client checks its socket. */
START_TEST(wait_interrupted_by_signals_detects_the_end)
{
	struct itimerval often = { { .tv_usec = 20000 }, { .tv_usec = 20000 } };
	struct sigaction action = { .sa_handler = interrupt, .sa_flags = SA_RESTART };
	struct fk_request request;
	fk_group group;
	sigset_t set;
	fk_job jobs[2];

	/* The threads of the fake daemon block the signal, so this one gets it. */
	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	fake_start(1, 1);
	fake.n_jobs = 1;
	client = must_open();
	ck_assert_int_eq(fk_group_new(client, &group), 0);
	request = (struct fk_request){ .task = must_find(client, "test:drop"),
				       .options.group = group };
	ck_assert_int_eq(fk_submit_batch(client, &request, 1, 0, jobs), 0);
	no_doubt();
	fake_hang_up();
	sigaction(SIGALRM, &action, NULL);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	ck_assert_int_eq(setitimer(ITIMER_REAL, &often, NULL), 0);
	for (int i = 0; i < 3; i++) {
		uint32_t before = atomic_load(&interruptions);

		/* The last check was just before that. */
		atomic_store(&client->gone, 0);
		atomic_store(&client->looked_ns, clock_ns());
		ck_assert_int_eq(i == 0	  ? fk_wait(client, jobs[0], FK_FOREVER)
				 : i == 1 ? fk_group_wait(client, group, FK_FOREVER)
					  : fk_submit_batch(client, &request, 1, FK_WAIT_ROOM,
							    &jobs[1]),
				 -ECONNRESET);
		ck_assert_uint_gt(atomic_load(&interruptions), before);
	}
	fake_close();
}
END_TEST

struct late_worker {
	uint32_t value;
	_Atomic uint32_t woken;
	_Atomic uint32_t tid;
};

static void *sleep_late(void *argument)
{
	struct late_worker *worker = argument;

	atomic_store(&worker->tid, (uint32_t)gettid());
	while (futex_wait(&fake.board->workers[0].wake, worker->value, 0))
		continue;
	atomic_store(&worker->woken, 1);
	return NULL;
}

/* Another process took the wake on the worker's word, and the client assumes that this sleep was
 * woken. */
START_TEST(poll_repeats_a_wake_taken_by_another_process)
{
	_Atomic uint32_t *word;
	struct fk_request request;
	fk_group group;
	fk_job job;

	LOCAL_REFUSE("a worker that is a thread of the test");
	fake_start(1, 0);
	word = &fake.board->workers[0].wake;
	client = must_open();
	ck_assert_int_eq(fk_group_new(client, &group), 0);
	request = (struct fk_request){ .task = must_find(client, "test:drop"),
				       .options.group = group };
	for (int i = 0; i < 3; i++) {
		struct late_worker worker = { .value = wake_prepare(word) };
		pthread_t thread;

		atomic_store(&client->waker.woken[0], worker.value);
		pthread_create(&thread, NULL, sleep_late, &worker);
		ck_assert_int_eq(fk_submit_batch(client, &request, 1, 0, &job), 0);
		while (!atomic_load(&worker.woken))
			ck_assert_int_eq(i == 0	  ? fk_poll(client, job)
					 : i == 1 ? fk_wait(client, job, 0)
						  : fk_group_wait(client, group, 0),
					 i == 0 ? 0 : -ETIMEDOUT);
		pthread_join(thread, NULL);
	}
	fake_close();
}
END_TEST

START_TEST(wait_for_jobs_taken_off_the_rings_sends_no_wake)
{
	struct late_worker worker = { 0 };
	_Atomic uint32_t *word;
	pthread_t thread;
	fk_job job;

	LOCAL_REFUSE("a worker that is a thread of the test");
	fake_start(1, 0);
	word = &fake.board->workers[0].wake;
	wake_store(word, WAKE_LOOKING);
	client = must_open();
	ck_assert_int_eq(fk_submit(client, must_find(client, "test:drop"), 0, &job), 0);
	tenant_clear(fake.tenant, 0);
	worker.value = wake_prepare(word);
	pthread_create(&thread, NULL, sleep_late, &worker);
	fake_await_sleep(&worker.tid);
	atomic_store(&client->looked_ns, 0);
	ck_assert_int_eq(fk_poll(client, job), 0);
	ck_assert_uint_gt(atomic_load(&client->looked_ns), 0);
	/* It is still asleep. */
	ck_assert_int_eq(futex_wake(word, 1), 1);
	pthread_join(thread, NULL);
	fake_close();
}
END_TEST

/* A job of 100 ms: of a local pool, or according to its record. */
static void *end_a_long_job(void *argument)
{
	const struct timespec nap = { .tv_nsec = LONG_JOB_NS };
	fk_job handle = *(const fk_job *)argument;
	struct job *job = client_job(client, handle);

	await_waiter(job);
	fake_await_begun(handle);
	if (local_is_on()) {
		(void)nanosleep(&nap, NULL);
		fake_end(handle, JOB_DONE);
		return NULL;
	}
	atomic_store(&job->started_ns, 1);
	atomic_store(&job->ended_ns, 1 + LONG_JOB_NS);
	(void)fake_finish(handle, JOB_DONE);
	return NULL;
}

START_TEST(client_that_slept_for_long_jobs_marks_the_next_one_as_long)
{
	const fk_task *task;

	fake_open(1, 1);
	task = must_find(client, "test:drop");
	for (int i = 0; i < 2; i++) {
		pthread_t thread;
		fk_job job;

		ck_assert_int_eq(fk_submit(client, task, 0, &job), 0);
		ck_assert(!long_job_spends(&client->long_job, client_job(client, job)));
		pthread_create(&thread, NULL, end_a_long_job, &job);
		ck_assert_int_eq(fk_wait(client, job, FK_FOREVER), 0);
		pthread_join(thread, NULL);
		if (i)
			ck_assert(long_job_spends(&client->long_job, client_job(client, job)));
	}
	fake_close();
}
END_TEST

/* The last check was long ago, or just now: a sleep that begins now lasts beyond the next check. */
START_TEST(sleep_checks_the_connection_after_a_tick_and_not_sooner)
{
	uint64_t end;
	fk_job job;

	job = must_drop();
	no_doubt();
	end = clock_ns() + CLIENT_TICK_NS / 5;
	atomic_store(&client->looked_ns, clock_ns() - CLIENT_TICK_NS * 9 / 10);
	ck_assert_int_eq(fk_wait(client, job, CLIENT_TICK_NS / 5), -ETIMEDOUT);
	/* At the end of the wait, and not in the middle of the sleep. */
	ck_assert_uint_ge(atomic_load(&client->looked_ns), end);
	fake_hang_up();
	/* No other thread would check for an hour. */
	atomic_store(&client->looked_ns, clock_ns() + 3600 * NSEC_PER_SEC);
	ck_assert_int_eq(fk_wait(client, job, FK_FOREVER), -ECONNRESET);
	fake_close();
}
END_TEST

START_TEST(last_outcome_of_an_ended_daemon_counts)
{
	fk_job job = must_drop();

	(void)fake_finish(job, JOB_CANCELLED);
	fake_hang_up();
	ck_assert_int_eq(fk_wait(client, job, FK_FOREVER), 0);
	ck_assert_int_eq(fk_outcome(client, job, NULL, NULL), FK_CANCELLED);
	fake_close();
}
END_TEST

CHECK_MAIN("wait")
