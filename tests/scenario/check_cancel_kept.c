/* SPDX-License-Identifier: MIT */
/*
 * cancel_kept: a cancel that is lost with its pool is found again in the job's record (shm/job.h,
 * I5)
 *
 * The pool is stopped with SIGSTOP before the request, and killed when the manager has passed the
 * message on. So no pool ever acts on the message. A group of all jobs counts each outcome once.
 */
#include <errno.h>
#include <linux/sockios.h>
#include <signal.h>
#include <sys/ioctl.h>

#include "client/lib/client.h"
#include "common/util.h"
#define CHECK_TIMEOUT 120
#include "tests/support/check_unit.h"
#include "tests/support/jobs.h"

#define N	8u
#define FOREVER INT64_C(100000000) /* ms */

static struct daemon d;
static fk_client *c;
static fk_group group;
static volatile uint8_t *gate; /* in the client's heap: 0 while hold() must keep its worker */

static void begin(const char *workers)
{
	c = JOBS_BEGIN(&d, workers, NULL);
	ck_assert_int_eq(fk_group_new(c, &group), 0);
}

/* An outcome is stored first and counted later. If it were counted twice, the count would stay
 * negative. */
static bool all_counted(void)
{
	return group_count(group_load(&c->groups[group & 0xffffu])) == 0;
}

static void end(void)
{
	ck_assert_int_eq(fk_group_wait(c, group, DAEMON_PATIENCE * NSEC_PER_SEC), 0);
	DAEMON_AWAIT(all_counted());
	fk_close(c);
	(void)daemon_stop(&d);
}

static fk_job submit(const char *name, int64_t argument)
{
	return jobs_submit_in(c, name, FK_IDEMPOTENT, argument, group);
}

/* Returns true if a worker runs it. */
static bool runs(fk_job job)
{
	/* Drained as this job, not as the record's last job. */
	if (atomic_load(&client_job(c, job)->drained_ns) < client_slot(c, job)->submitted_ns)
		return false;
	for (uint32_t i = 0; i < LIMIT_WORKERS; i++) {
		uint32_t row = atomic_load(&d.board->running[i].job);

		if (row != UINT32_MAX && row % d.board->manager.jobs_max == (job & 0xffffu))
			return true;
	}
	return false;
}

/* A job that never forks; it runs until *gate is 1. */
static fk_job hold(void)
{
	fk_job job = jobs_hold(c, FK_IDEMPOTENT, &gate);

	DAEMON_AWAIT(runs(job));
	return job;
}

static pid_t stop_pool(void)
{
	pid_t pool = daemon_pool(&d);

	daemon_suspend(pool);
	return pool;
}

/* Returns true if the manager has read all that the client sent; it passes messages on at once. */
static bool is_passed_on(void)
{
	int bytes = -1;

	ck_assert_int_eq(ioctl(c->fd, SIOCOUTQ, &bytes), 0);
	return bytes == 0;
}

static void kill_pool(pid_t pool)
{
	DAEMON_AWAIT(is_passed_on());
	ck_assert_int_eq(kill(pool, SIGKILL), 0);
}

START_TEST(cancelled_endless_job_ends_as_cancelled_in_the_next_pool)
{
	fk_job endless, twin, others[N];
	pid_t pool;

	begin("--workers=2");
	twin = hold();
	endless = submit("crash:spin", FOREVER);
	DAEMON_AWAIT(runs(endless));
	pool = stop_pool();
	/* Not before: if a pool is killed between a job's end and the count of its group, the count
	 * stays too high (shm/group.h, I4). */
	for (uint32_t i = 0; i < N; i++)
		others[i] = submit("fib:fib", 10);
	ck_assert_int_eq(fk_cancel(c, endless), 0);
	kill_pool(pool);
	jobs_see_end(c, endless, "CANCELLED");
	ck_assert_int_eq(fk_result(c, endless, NULL, 0), -ECANCELED);
	/* The others were in the same state, without a cancel. */
	for (uint32_t i = 0; i < N; i++)
		jobs_see_end(c, others[i], "DONE");
	*gate = 1;
	jobs_see_end(c, twin, "DONE");
	daemon_call_fib(&d);
	end();
}
END_TEST

/* In the ledger, and in a ring: a stopped pool takes nothing off it. Cancelled jobs do not wait for
 * the worker. */
START_TEST(cancelled_queued_job_never_starts)
{
	fk_job first, waits[N], in_ring[N];
	pid_t pool;

	begin("--workers=1");
	first = hold();
	for (uint32_t i = 0; i < N; i++)
		waits[i] = submit(i % 2 ? "fib:fib" : "crash:spin", i % 2 ? 10 : FOREVER);
	DAEMON_AWAIT(daemon_counter(&d, "drained") == 1 + N);
	pool = stop_pool();
	for (uint32_t i = 0; i < N; i++)
		in_ring[i] = submit(i % 2 ? "fib:fib" : "crash:spin", i % 2 ? 10 : FOREVER);
	for (uint32_t i = 0; i < N; i += 2) {
		ck_assert_int_eq(fk_cancel(c, waits[i]), 0);
		ck_assert_int_eq(fk_cancel(c, in_ring[i]), 0);
		DAEMON_AWAIT(is_passed_on());
	}
	kill_pool(pool);
	for (uint32_t i = 0; i < N; i += 2) {
		jobs_see_end(c, waits[i], "CANCELLED");
		jobs_see_end(c, in_ring[i], "CANCELLED");
	}
	*gate = 1;
	jobs_see_end(c, first, "DONE");
	for (uint32_t i = 1; i < N; i += 2) {
		jobs_see_end(c, waits[i], "DONE");
		jobs_see_end(c, in_ring[i], "DONE");
	}
	end();
}
END_TEST

/* The message was never sent: the word alone ends the job, when it is taken off its ring, or when
 * it is picked. */
START_TEST(cancel_word_in_the_record_needs_no_message)
{
	fk_job job, first;
	pid_t pool;

	begin("--workers=1");
	pool = stop_pool();
	job = submit("crash:spin", FOREVER);
	ck_assert_int_eq(job_want_end(client_job(c, job), (uint32_t)(job >> 16)), 1);
	ck_assert_int_eq(kill(pool, SIGCONT), 0);
	jobs_see_end(c, job, "CANCELLED");
	first = hold();
	job = submit("crash:spin", FOREVER);
	DAEMON_AWAIT(daemon_counter(&d, "drained") == 3);
	ck_assert_int_eq(job_want_end(client_job(c, job), (uint32_t)(job >> 16)), 1);
	*gate = 1;
	jobs_see_end(c, first, "DONE");
	jobs_see_end(c, job, "CANCELLED");
	end();
}
END_TEST

/* Generations wrap after 16 million uses of a record; here the client sets them. */
START_TEST(no_later_job_of_the_record_is_cancelled)
{
	uint32_t generation;
	fk_job job, next;
	pid_t pool;

	begin("--workers=1");
	for (int round = 0; round < 3; round++) {
		job = submit("crash:spin", FOREVER);
		DAEMON_AWAIT(runs(job));
		pool = stop_pool();
		ck_assert_int_eq(fk_cancel(c, job), 0);
		kill_pool(pool);
		jobs_drop(c, job, "CANCELLED");
		DAEMON_AWAIT(all_counted());
		generation = (uint32_t)(job >> 16);
		for (int i = 0; i < 3; i++) {
			next = submit("fib:fib", 10);
			ck_assert_uint_eq(next & 0xffffu, job & 0xffffu);
			jobs_drop(c, next, "DONE");
			if (i == 1)
				atomic_store(&c->slots[next & 0xffffu].generation, generation);
		}
		/* The next pool must not be killed in this state (shm/group.h, I4): the dispatcher
		 * may take a job off its ring while the worker ends the previous one. */
		DAEMON_AWAIT(all_counted());
		ck_assert_uint_eq(next >> 16, generation);
	}
	end();
}
END_TEST

/* A client can only cancel its own jobs by this word. */
START_TEST(malformed_words_cancel_no_job_of_another_client)
{
	static const uint32_t words[] = { 0, UINT32_MAX, JOB_GEN_MASK, 1u << 31, 1, 2, 3 };
	fk_client *other;
	uint32_t cancelled = 0;

	begin("--workers=2");
	other = daemon_open(&d);
	for (uint32_t round = 0; round < 10 * ARRAY_SIZE(words); round++) {
		fk_job mine[N], theirs[N];

		for (uint32_t i = 0; i < c->n_jobs; i++)
			atomic_store(&c->jobs[i].cancel, words[(round + i) % ARRAY_SIZE(words)]);
		for (uint32_t i = 0; i < N; i++) {
			mine[i] = submit("fib:fib", 10);
			theirs[i] = jobs_submit_in(other, "fib:fib", FK_IDEMPOTENT, 10, 0);
			atomic_store(&client_job(c, mine[i])->cancel,
				     (uint32_t)(mine[i] >> 16) + (round + i) % 3 * (1u << 24));
		}
		for (uint32_t i = 0; i < N; i++) {
			int is = jobs_outcome(c, mine[i], NULL);

			ck_assert(is == FK_DONE || is == FK_CANCELLED);
			cancelled += is == FK_CANCELLED;
			jobs_see_end(other, theirs[i], "DONE");
		}
		ck_assert_int_eq(fk_release_batch(c, mine, N), 0);
		ck_assert_int_eq(fk_release_batch(other, theirs, N), 0);
	}
	ck_assert_uint_le(cancelled, 10 * ARRAY_SIZE(words) * N);
	fk_close(other);
	end();
}
END_TEST

CHECK_MAIN("cancel_kept")
