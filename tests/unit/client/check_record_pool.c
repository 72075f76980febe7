/* SPDX-License-Identifier: MIT */
/* record_pool: the owners of a client's records, and threads that wait for free records. Uses
 * tests/support/fake.h. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>

#include "client/lib/record_pool.h"
#include "common/util.h"
#include "tests/support/requests.h"
#include "tests/support/threads.h"

#define THREADS 4

static void run_threads(void *(*run)(void *number))
{
	pthread_t threads[THREADS];

	threads_start(threads, THREADS, run);
	threads_join(threads, THREADS);
}

static _Atomic uint32_t owners[JOBS];

static void *take_and_give(void *arg)
{
	uint32_t random = (uint32_t)(uintptr_t)arg * 2654435761u + 99;

	for (int round = 0; round < 20000; round++) {
		uint32_t n, index, last = 0;
		int first;

		random = random * 1664525u + 1013904223u;
		n = random >> 16 & 31;
		first = n ? records_take_chain(client, n) : records_take(client);
		if (first < 0)
			continue;
		index = (uint32_t)first;
		for (uint32_t i = 0; i < max(n, 1u); i++) {
			if (atomic_fetch_add(&owners[index], 1))
				return arg;
			last = index;
			index = atomic_load_explicit(&client->slots[index].next,
						     memory_order_relaxed) -
				1;
		}
		index = (uint32_t)first;
		for (uint32_t i = 0; i < max(n, 1u); i++) {
			atomic_store(&owners[index], 0);
			index = atomic_load_explicit(&client->slots[index].next,
						     memory_order_relaxed) -
				1;
		}
		if (n)
			records_give_chain(client, (uint32_t)first, last);
		else
			records_give(client, (uint32_t)first);
	}
	return NULL;
}

START_TEST(every_slot_has_one_owner)
{
	start(1, 0);
	run_threads(take_and_give);
	stop();
}
END_TEST

static fk_job waited;

static void *submit_with_room(void *unused)
{
	(void)unused;
	return (void *)(intptr_t)fk_submit(client, must_find(client, "test:add"), FK_WAIT_ROOM,
					   &waited, (int64_t)1, (int64_t)2);
}

START_TEST(full_table_of_pending_jobs_is_an_error_or_a_wait)
{
	const fk_task *task;
	pthread_t thread;
	int64_t length[2];
	fk_job job;

	fake_open(1, 0);
	task = must_find(client, "test:len");
	for (size_t i = 0; i < ARRAY_SIZE(jobs); i++)
		ck_assert_int_eq(fk_submit(client, task, 0, &jobs[i], "abc"), 0);
	ck_assert_int_eq(fk_submit(client, task, 0, &job, "abc"), -FK_E_NO_RECORD);
	/* The string of the failed submission was freed. */
	ck_assert_uint_eq(heap_used(&client->heap), 64 * 64);
	threads_start(&thread, 1, submit_with_room);
	while (!atomic_load(&client->room_waiters))
		sched_yield();
	/* Its end is enough: it is not released. */
	run_one();
	threads_join(&thread, 1);
	ck_assert_uint_eq(waited & 0xffff, jobs[0] & 0xffff);
	ck_assert_int_eq(fk_result(client, jobs[0], length, sizeof(length)), 0);
	ck_assert_int_eq(length[0], 3);
	ck_assert_int_eq(fk_release(client, jobs[0]), 0);
	run_all();
	ck_assert_int_eq(fk_wait(client, waited, FK_FOREVER), 0);
	fake_close();
}
END_TEST

#define ROUNDS 300

/* Batches that fit into the table only one at a time, and single jobs between them. */
static void *submit_often(void *arg)
{
	uint32_t id = (uint32_t)(uintptr_t)arg;
	uint32_t n = id == 1 ? 1 : 40 + id;
	fk_job mine[JOBS];

	for (uint32_t round = 0; round < ROUNDS; round++) {
		if (fk_submit_batch(client, requests, n, FK_WAIT_ROOM, mine))
			return arg;
		for (uint32_t i = 0; i < n; i++) {
			int64_t sum;

			if (fk_wait(client, mine[i], FK_FOREVER) ||
			    fk_result(client, mine[i], &sum, sizeof(sum)) || sum != i + 1000)
				return arg;
		}
		if (fk_release_batch(client, mine, n))
			return arg;
	}
	return NULL;
}

START_TEST(batches_that_wait_for_room_do_not_wait_for_each_other)
{
	start(3, 3);
	run_threads(submit_often);
	ck_assert_uint_eq(words(), THREADS * ROUNDS);
	stop();
}
END_TEST

static _Atomic uint32_t large_done;

static void *submit_sixty(void *unused)
{
	fk_job mine[60];
	intptr_t err = fk_submit_batch(client, requests, 60, FK_WAIT_ROOM, mine);

	(void)unused;
	for (int i = 0; i < 60 && !err; i++)
		err = fk_wait(client, mine[i], FK_FOREVER);
	if (!err)
		err = fk_release_batch(client, mine, 60);
	atomic_fetch_add(&large_done, 1);
	return (void *)err;
}

/* Free records stay free for other threads, whose jobs could not end without them. */
START_TEST(batch_that_waits_for_room_holds_no_records)
{
	pthread_t threads[2];
	fk_job more[24];
	uint32_t payload;
	const fk_task *drop;

	start(1, 0);
	drop = must_find(client, "test:drop");
	for (int i = 0; i < 40; i++)
		ck_assert_int_eq(fk_submit(client, drop, 0, &jobs[i]), 0);
	threads_start(threads, 2, submit_sixty);
	while (atomic_load(&client->room_waiters) != 2 * CLIENT_ROOM_CHAIN)
		sched_yield();
	for (int round = 0; round < 100; round++) {
		ck_assert_int_eq(fk_submit_batch(client, requests, 24, 0, more), 0);
		run_all();
		ck_assert_int_eq(fk_release_batch(client, more, 24), 0);
	}
	/* Each job separately, so that no wake covers several jobs. */
	for (int i = 0; i < 40; i++)
		fake_end(jobs[i], JOB_CANCELLED);
	/* One of the two is submitted, and then the other. */
	while (atomic_load(&large_done) < 2) {
		if (fake_take(&payload) >= 0)
			fake_run(payload);
		else
			sched_yield();
	}
	threads_join(threads, 2);
	ck_assert_int_eq(fk_release_batch(client, jobs, 40), 0);
	stop();
}
END_TEST

START_TEST(wait_for_records_ends_when_the_daemon_is_gone)
{
	fk_job more[2];

	start(1, 0);
	ck_assert_int_eq(fk_submit_batch(client, requests, JOBS - 1, 0, jobs), 0);
	fake_hang_up();
	ck_assert_int_eq(fk_submit_batch(client, requests, 2, FK_WAIT_ROOM, more), -ECONNRESET);
	ck_assert_int_eq(fk_release_batch(client, jobs, JOBS - 1), 0);
	fake_close();
}
END_TEST

CHECK_MAIN("record_pool")
