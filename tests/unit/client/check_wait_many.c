/* SPDX-License-Identifier: MIT */
/* wait_many: waiting for any, and for all, of many jobs. Uses tests/support/fake.h;
 * tests/model/watch.c has the interleavings of the count of ends. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "shm/futex.h"
#include "tests/support/requests.h"

/* Waits until a thread sleeps on the count of ends. The thread is woken and sleeps again. */
static void await_sleeper(struct watch *watch)
{
	while (futex_wake(&watch->ended, 1) != 1)
		sched_yield();
}

static struct watch *watch_of_client(void)
{
	return watch_of(client->groups);
}

/* Returns how a job is waited for. */
static uint32_t waiters(fk_job job)
{
	return atomic_load(&client_job(client, job)->state) & (JOB_WAITER | JOB_WATCHED);
}

/* ------------------------------------------------------------------------ any */

#define MANY 600u

static fk_job many[MANY];

struct any {
	size_t n;
	uint64_t timeout_ns;
	int err;
	size_t index;
};

static void *wait_for_any(void *argument)
{
	struct any *any = argument;

	any->err = fk_wait_any(client, many, any->n, any->timeout_ns, &any->index);
	return NULL;
}

/* Only the test runs the jobs. */
static void start_many(void)
{
	static struct fk_request drops[MANY];

	fake_start(1, 0);
	fake.n_jobs = MANY;
	client = must_open();
	for (uint32_t i = 0; i < MANY; i++)
		drops[i].task = must_find(client, "test:drop");
	ck_assert_int_eq(fk_submit_batch(client, drops, MANY, 0, many), 0);
}

/* Far more jobs than futex_waitv() accepts. A tick between an outcome and its wake ends the wait
 * first, and no thread sleeps there any more. */
START_TEST(end_of_any_of_600_jobs_wakes_the_thread_that_waits_for_any)
{
	static const uint32_t order[] = { 599, 0, 130, 127, 300 };
	struct watch *watch;
	int wakes = 0;

	start_many();
	watch = watch_of_client();
	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
		struct any any = { .n = MANY, .timeout_ns = FK_FOREVER, .index = MANY };
		pthread_t thread;

		pthread_create(&thread, NULL, wait_for_any, &any);
		await_sleeper(watch);
		ck_assert_uint_eq(waiters(many[order[i]]), JOB_WATCHED);
		wakes += atomic_load(&watch->sleepers) != 0;
		fake_end(many[order[i]], JOB_DONE);
		pthread_join(thread, NULL);
		ck_assert_int_eq(any.err, 0);
		ck_assert_uint_eq(any.index, order[i]);
		ck_assert_uint_eq(atomic_load(&watch->sleepers), 0);
		/* The next wait is for the others, and another job that is watched. */
		ck_assert_int_eq(fk_release(client, many[order[i]]), 0);
		ck_assert_int_eq(
			fk_submit(client, must_find(client, "test:drop"), 0, &many[order[i]]), 0);
	}
	ck_assert_int_gt(wakes, 0);
	fake_close();
}
END_TEST

/* A pool that died between the outcome and the wake: there is no wake, and the tick detects the
 * end. */
START_TEST(uncounted_end_is_found)
{
	struct any any = { .n = MANY, .timeout_ns = FK_FOREVER };
	pthread_t thread;

	start_many();
	pthread_create(&thread, NULL, wait_for_any, &any);
	await_sleeper(watch_of_client());
	ck_assert_uint_eq(fake_finish(many[77], JOB_DONE), JOB_WATCHED);
	pthread_join(thread, NULL);
	ck_assert_int_eq(any.err, 0);
	ck_assert_uint_eq(any.index, 77);
	fake_close();
}
END_TEST

START_TEST(single_wait_and_wait_for_any_are_both_woken)
{
	struct any any = { .n = 2, .timeout_ns = FK_FOREVER };
	pthread_t thread;

	start_many();
	pthread_create(&thread, NULL, wait_for_any, &any);
	await_sleeper(watch_of_client());
	ck_assert_int_eq(fk_wait(client, many[1], 1000 * NSEC_PER_USEC), -ETIMEDOUT);
	ck_assert_uint_eq(waiters(many[1]), JOB_WAITER | JOB_WATCHED);
	fake_end(many[1], JOB_DONE);
	pthread_join(thread, NULL);
	ck_assert_uint_eq(any.index, 1);
	fake_close();
}
END_TEST

START_TEST(first_ended_job_is_returned)
{
	size_t index = 99;

	start_many();
	ck_assert_int_eq(fk_wait_any(client, many, MANY, 0, &index), -ETIMEDOUT);
	ck_assert_int_eq(fk_wait_any(client, many, MANY, 1000, &index), -ETIMEDOUT);
	ck_assert_int_eq(fk_wait_any(client, many, MANY, 100 * NSEC_PER_USEC, &index), -ETIMEDOUT);
	ck_assert_int_eq(fk_wait_any(client, many, 0, FK_FOREVER, &index), -FK_E_NO_JOBS);
	ck_assert_uint_eq(index, 99);
	fake_end(many[400], JOB_DONE);
	fake_end(many[200], JOB_DONE);
	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(fk_wait_any(client, many, MANY,
					     i == 0   ? 0
					     : i == 1 ? 1000
						      : FK_FOREVER,
					     &index),
				 0);
		ck_assert_uint_eq(index, 200);
	}
	ck_assert_int_eq(fk_wait_any(client, many, 200, 0, &index), -ETIMEDOUT);
	/* A released job is an error, at any index. */
	ck_assert_int_eq(fk_release(client, many[400]), 0);
	ck_assert_int_eq(fk_wait_any(client, many, MANY, FK_FOREVER, &index), -ESTALE);
	ck_assert_int_eq(fk_wait_all(client, many, MANY, FK_FOREVER), -ESTALE);
	ck_assert_int_eq(fk_wait_any(client, many, 400, FK_FOREVER, &index), 0);
	fake_close();
}
END_TEST

/* Each thread takes its own jobs as they end; it may sleep, spin or find them ended. */
struct taker {
	uint32_t first;
	uint32_t bad;
};

#define TAKERS 3u
#define SHARE  (JOBS / TAKERS)

static void *take_each_once(void *argument)
{
	struct taker *taker = argument;
	uint32_t which[SHARE];
	fk_job mine[SHARE];

	for (uint32_t i = 0; i < SHARE; i++) {
		which[i] = taker->first + i;
		mine[i] = jobs[which[i]];
	}
	for (uint32_t left = SHARE; left; left--) {
		size_t i = SHARE;
		int64_t sum = 0;

		if (fk_wait_any(client, mine, left, FK_FOREVER, &i) ||
		    fk_result(client, mine[i], &sum, sizeof(sum)) || sum != which[i] + 1000)
			taker->bad++;
		mine[i] = mine[left - 1];
		which[i] = which[left - 1];
	}
	return NULL;
}

START_TEST(threads_that_wait_for_any_see_each_result_once)
{
	start(3, 3);
	for (uint32_t round = 0; round < 100; round++) {
		struct taker takers[TAKERS];
		pthread_t threads[TAKERS];

		ck_assert_int_eq(fk_submit_batch(client, requests, JOBS, 0, jobs), 0);
		for (uint32_t i = 0; i < TAKERS; i++) {
			takers[i] = (struct taker){ .first = i * SHARE };
			pthread_create(&threads[i], NULL, take_each_once, &takers[i]);
		}
		for (uint32_t i = 0; i < TAKERS; i++) {
			pthread_join(threads[i], NULL);
			ck_assert_uint_eq(takers[i].bad, 0);
		}
		ck_assert_int_eq(fk_wait_all(client, jobs, JOBS, FK_FOREVER), 0);
		ck_assert_int_eq(fk_release_batch(client, jobs, JOBS), 0);
	}
	ck_assert_uint_eq(atomic_load(&watch_of_client()->sleepers), 0);
	stop();
}
END_TEST

/* ------------------------------------------------------------------------ all */

START_TEST(wait_for_all_ends_with_the_last_job)
{
	start(1, 0);
	ck_assert_int_eq(fk_wait_all(client, NULL, 0, FK_FOREVER), 0);
	ck_assert_int_eq(fk_submit_batch(client, requests, 8, 0, jobs), 0);
	for (uint32_t left = 8; left; left--) {
		ck_assert_int_eq(fk_wait_all(client, jobs, 8, 0), -ETIMEDOUT);
		ck_assert_int_eq(fk_wait_all(client, jobs, 8, 1000), -ETIMEDOUT);
		run_one();
	}
	ck_assert_int_eq(fk_wait_all(client, jobs, 8, 0), 0);
	ck_assert_int_eq(fk_wait_all(client, jobs, 8, 1000), 0);
	ck_assert_int_eq(fk_wait_all(client, jobs, 8, FK_FOREVER), 0);
	ck_assert_int_eq(fk_release_batch(client, jobs, 8), 0);
	stop();
}
END_TEST

START_TEST(all_results_are_visible_after_a_wait_for_all)
{
	start(3, 3);
	for (uint32_t round = 0; round < 200; round++) {
		ck_assert_int_eq(fk_submit_batch(client, requests, JOBS, 0, jobs), 0);
		ck_assert_int_eq(fk_wait_all(client, jobs, JOBS, FK_FOREVER), 0);
		must_be_sums(jobs, JOBS);
		ck_assert_int_eq(fk_release_batch(client, jobs, JOBS), 0);
	}
	stop();
}
END_TEST

/* ------------------------------------------------------------------------ the daemon's end */

START_TEST(wait_for_any_or_all_ends_when_the_daemon_is_gone)
{
	struct any any = { .n = MANY, .timeout_ns = FK_FOREVER };
	pthread_t thread;
	size_t index = 0;

	start_many();
	pthread_create(&thread, NULL, wait_for_any, &any);
	await_sleeper(watch_of_client());
	fake_hang_up();
	pthread_join(thread, NULL);
	ck_assert_int_eq(any.err, -ECONNRESET);
	ck_assert_int_eq(fk_wait_all(client, many, MANY, FK_FOREVER), -ECONNRESET);
	for (int i = 0; i < 2; i++) {
		atomic_store(&client->gone, 0);
		atomic_store(&client->looked_ns, 0);
		ck_assert_int_eq(i == 0 ? fk_wait_any(client, many, MANY, 0, &index)
					: fk_wait_all(client, many, MANY, 0),
				 -ECONNRESET);
	}
	/* A job without an outcome returns an error; an outcome that was stored counts. */
	ck_assert_int_eq(fk_outcome(client, many[3], NULL, NULL), -ECONNRESET);
	ck_assert_int_eq(fk_result(client, many[3], NULL, 0), -ECONNRESET);
	(void)fake_finish(many[3], JOB_DONE);
	ck_assert_int_eq(fk_wait_any(client, many, MANY, FK_FOREVER, &index), 0);
	ck_assert_uint_eq(index, 3);
	ck_assert_int_eq(fk_outcome(client, many[3], NULL, NULL), FK_DONE);
	fake_close();
}
END_TEST

CHECK_MAIN("wait_many")
