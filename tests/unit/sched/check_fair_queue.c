/* SPDX-License-Identifier: MIT */
/* check_fair_queue.c - order, batches, places: which job is next; each job is picked once. */
#include "common/util.h"
#include "tests/support/fair_clock.h"

START_TEST(job_waits_for_at_most_one_batch_of_a_flood)
{
	uint32_t rows[FAIR_BATCH_JOBS], flood[2];

	for (uint32_t other = 0; other < 2; other++) { /* of another uid, or of the same one */
		uint32_t row;

		tenant(0, 100);
		tenant(1, 100);
		client(0, 0, 100);
		client(1, 1 - other, 100);
		submit(0, 4000, 0);
		/* Both workers have a batch. */
		for (uint32_t w = 0; w < WORKERS; w++) {
			flood[w] = pick(rows, FAIR_BATCH_JOBS);
			ck_assert_uint_gt(flood[w], 0);
			ck_assert_uint_le(flood[w], FAIR_BATCH / FAIR_GUESS);
		}
		row = submit(1, 1, 0);
		ck_assert_uint_gt(pick(rows, FAIR_BATCH_JOBS), 0);
		ck_assert_uint_eq(rows[0], row);
		again();
	}
}
END_TEST

START_TEST(of_equals_the_least_recently_chosen_runs_first)
{
	uint32_t row;

	one_uid(2);
	submit(0, 1, 0);
	run(pick_one(), 2 * MS);
	settle();
	submit(0, 1, 0);
	row = submit(1, 1, 0);
	ck_assert_uint_eq(fair.clients[0].node.v, fair.clients[1].node.v);
	ck_assert_uint_eq(pick_one(), row);
}
END_TEST

START_TEST(batch_size_follows_from_the_known_job_length)
{
	static const struct {
		uint64_t ns;
		uint32_t n;
	} rows[] = {
		{ 100, 64 }, { 2 * US, 50 }, { 30 * US, 3 }, { 99 * US, 1 }, { 50 * MS, 1 },
	};

	for (uint32_t i = 0; i < ARRAY_SIZE(rows); i++) {
		uint32_t batch[FAIR_BATCH_JOBS], n;

		one_uid(1);
		for (uint32_t k = 0; k < 200; k++) {
			submit(0, 1, 0);
			n = pick(batch, FAIR_BATCH_JOBS);
			ck_assert_uint_eq(n, 1);
			run(batch[0], rows[i].ns);
			now += MS;
		}
		settle();
		submit(0, 1000, 0);
		ck_assert_uint_eq(pick(batch, FAIR_BATCH_JOBS), rows[i].n);
		again();
	}
}
END_TEST

/* A job that was cut out has ended without using time. */
START_TEST(jobs_that_never_started_do_not_count_for_the_length)
{
	uint32_t batch[FAIR_BATCH_JOBS];

	one_uid(1);
	for (uint32_t k = 0; k < 100; k++) {
		submit(0, 1, 0);
		ck_assert_uint_eq(pick(batch, FAIR_BATCH_JOBS), 1);
		run(batch[0], 150 * US);
		settle();
	}
	for (uint32_t k = 0; k < 100; k++) {
		uint32_t row = submit(0, 1, 0);

		ck_assert(cut(row));
		run(row, 0);
		now += MS;
		settle();
	}
	submit(0, 200, 0);
	ck_assert_uint_eq(pick(batch, FAIR_BATCH_JOBS), 1);
}
END_TEST

START_TEST(jobs_of_a_connection_run_in_order_and_heavy_ones_first)
{
	uint32_t row, light, heavy;

	one_uid(1);
	light = submit(0, 10, 0);
	heavy = submit(0, 2, 1000);
	for (uint32_t i = 0; i < 12; i++) {
		row = pick_one();
		ck_assert_uint_eq(row, i < 2 ? heavy + i : light + i - 2);
		run(row, 10 * US);
	}
	ck_assert_uint_eq(fair_queued(&fair), 0);
}
END_TEST

START_TEST(light_jobs_are_not_starved_by_heavy_ones)
{
	uint32_t row, light, heavy = 0;

	one_uid(1);
	light = submit(0, 1, 10);
	/* Four jobs of weight 1000 are always queued. With ten times the weight, a job's virtual
	 * end is its start plus a tenth of its length. So the light job is passed only a bounded
	 * number of times. */
	submit(0, 4, 1000);
	while ((row = pick_one()) != light) {
		run(row, 100 * US);
		submit(0, 1, 1000);
		ck_assert_uint_lt(++heavy, 1000);
	}
	ck_assert_uint_gt(heavy, 100);
}
END_TEST

START_TEST(only_a_single_client_without_a_flood_bypasses_the_queues)
{
	uint32_t rows[FAIR_BATCH_JOBS];

	one_uid(2);
	ck_assert(!fair_direct(&fair, 0, 1)); /* unknown the first time */
	submit(0, 1, 0);
	ck_assert(!fair_direct(&fair, 0, 1)); /* one job is queued */
	ck_assert_uint_eq(pick(rows, 8), 1);
	ck_assert(fair_direct(&fair, 0, 1));
	ck_assert(fair_direct(&fair, 0, FAIR_BATCH / FAIR_GUESS));
	ck_assert(!fair_direct(&fair, 0, FAIR_BATCH / FAIR_GUESS + 1));
	ck_assert(!fair_direct(&fair, 1, 1));
	submit(1, 1, 0);
	ck_assert_uint_eq(pick(rows, 8), 1);
	ck_assert(!fair_direct(&fair, 0, 1));
	ck_assert(!fair_direct(&fair, 1, 1)); /* client 0 has jobs that have not ended */
}
END_TEST

START_TEST(returned_rows_are_picked_again_in_order)
{
	uint32_t rows[FAIR_BATCH_JOBS], again[FAIR_BATCH_JOBS], n;
	uint64_t v;

	one_uid(2);
	submit(0, 10, 0);
	submit(1, 10, 700);
	v = fair.clients[0].node.v + fair.clients[1].node.v;
	n = pick(rows, FAIR_BATCH_JOBS);
	ck_assert_uint_gt(n, 1);
	fair_lock(&fair);
	fair_return(&fair, rows, n, now);
	fair_unlock(&fair);
	ck_assert_uint_eq(fair_queued(&fair), 20);
	ck_assert_uint_eq(fair.clients[0].node.v + fair.clients[1].node.v, v);
	ck_assert_uint_eq(pick(again, FAIR_BATCH_JOBS), n);
	for (uint32_t slot = 0; slot < 2; slot++) {
		uint32_t expected = row_of(slot, 0);

		for (uint32_t i = 0; i < n; i++)
			if (again[i] / JOBS == slot)
				ck_assert_uint_eq(again[i], expected++);
	}
}
END_TEST

START_TEST(jobs_that_are_cut_out_are_not_picked)
{
	uint32_t rows[FAIR_BATCH_JOBS], first, other, n = 0, some;

	one_uid(2);
	first = submit(0, 90, 0);
	submit_to(0, 5, 0, FAIR_WORKER(1));
	submit_to(0, 5, 0, FAIR_GROUP(0));
	other = submit(1, 1, 0);
	/* In the middle, at the front, at the end; once. */
	ck_assert(cut(first + 7));
	ck_assert(!cut(first + 7));
	ck_assert(cut(first));
	ck_assert(cut(first + 89));
	ck_assert(cut(first + 94));
	ck_assert_uint_eq(fair_queued(&fair), 88);
	ck_assert_uint_eq(fair_placed(&fair), 9);
	do {
		fair_lock(&fair);
		some = fair_cut_client(&fair, 0, rows, 10);
		fair_unlock(&fair);
		ck_assert_uint_le(some, 10);
		for (uint32_t i = 0; i < some; i++)
			ck_assert_uint_eq(rows[i] / JOBS, 0);
		n += some;
	} while (some);
	ck_assert_uint_eq(n, 96);
	ck_assert_uint_eq(fair_placed(&fair), 0);
	ck_assert_uint_eq(pick(rows, FAIR_BATCH_JOBS), 1);
	ck_assert_uint_eq(rows[0], other);
	ck_assert_uint_eq(fair_queued(&fair), 0);
	/* They end like all others. */
	for (uint32_t i = 0; i < 100; i++)
		run(first + i, 0);
	run(other, US);
	settle();
	ck_assert_uint_eq(fair.n_active, 0);
	client(0, 0, 100);
	submit(0, 1, 0);
	ck_assert_uint_eq(pick(rows, FAIR_BATCH_JOBS), 1);
}
END_TEST

/* A flood for one worker, of client 0, and a job of client 1: for that worker too, and for any. */
START_TEST(jobs_for_one_worker_have_no_priority)
{
	uint32_t rows[FAIR_BATCH_JOBS];

	for (uint32_t other = 0; other < 2; other++)
		for (uint32_t where = 0; where < 3; where++) {
			static const uint32_t places[] = { FAIR_ANYWHERE, FAIR_WORKER(0),
							   FAIR_GROUP(0) };
			uint32_t row, before = 0;

			tenant(0, 100);
			tenant(1, 100);
			client(0, 0, 100);
			client(1, 1 - other, 100);
			submit_to(0, 1000, 0, FAIR_WORKER(0));
			for (uint32_t i = 0; i < 5; i++) {
				ck_assert_uint_eq(pick_on(0, rows, FAIR_BATCH_JOBS), 1);
				ck_assert(is_placed(rows[0]));
				run(rows[0], 20 * US);
			}
			row = submit_to(1, 1, 0, places[where]);
			do {
				ck_assert_uint_eq(pick_on(0, rows, FAIR_BATCH_JOBS), 1);
				run(rows[0], 20 * US);
				before++;
			} while (rows[0] != row);
			ck_assert_uint_le(before, 1);
			again();
		}
}
END_TEST

START_TEST(jobs_for_one_worker_are_picked_by_it_alone)
{
	uint32_t rows[FAIR_BATCH_JOBS], mine, groups, any;

	one_uid(1);
	mine = submit_to(0, 1, 0, FAIR_WORKER(1));
	ck_assert_uint_eq(pick_on(0, rows, FAIR_BATCH_JOBS), 0);
	ck_assert(!fair_direct(&fair, 0, 1));
	groups = submit_to(0, 1, 0, FAIR_GROUP(1));
	any = submit(0, 3, 0);
	ck_assert_uint_eq(fair_waits(&fair, FAIR_WORKER(1)), 1);
	ck_assert_uint_eq(fair_waits(&fair, FAIR_GROUP(1)), 1);
	ck_assert_uint_eq(fair_waits(&fair, FAIR_WORKER(0)), 0);
	/* Never together with jobs that other workers may take. */
	ck_assert_uint_eq(pick_on(1, rows, FAIR_BATCH_JOBS), 3);
	ck_assert_uint_eq(rows[0], any);
	ck_assert_uint_eq(pick_on(1, rows, FAIR_BATCH_JOBS), 1);
	ck_assert_uint_eq(rows[0], mine);
	fair_lock(&fair);
	fair_return(&fair, rows, 1, now);
	ck_assert(fair_claims(&fair, 1, any, FAIR_QUANTUM));
	ck_assert(!fair_claims(&fair, 0, any, FAIR_QUANTUM));
	fair_unlock(&fair);
	ck_assert_uint_eq(pick_on(1, rows, FAIR_BATCH_JOBS), 1);
	ck_assert_uint_eq(rows[0], mine);
	ck_assert_uint_eq(pick_on(1, rows, FAIR_BATCH_JOBS), 1);
	ck_assert_uint_eq(rows[0], groups);
	ck_assert_uint_eq(fair_placed(&fair), 0);
}
END_TEST

/* Random operations: each row is picked once, and the structures stay consistent. */
START_TEST(random_operations_pick_each_row_once)
{
	static bool queued[CLIENTS * JOBS];
	uint32_t rows[FAIR_BATCH_JOBS], n, seed = 4711, left = 0;

	memset(queued, 0, sizeof(queued));
	for (uint32_t i = 0; i < TENANTS; i++)
		tenant(i, 1u << i);
	for (uint32_t i = 0; i < CLIENTS; i++)
		client(i, i % TENANTS, 1u << (i % 14));
	for (uint32_t step = 0; step < 40000; step++) {
		uint32_t slot;

		seed = seed * 1664525u + 1013904223u;
		slot = seed >> 8 & (CLIENTS - 1);
		now += seed >> 20;
		switch (seed >> 28) {
		case 0 ... 5:
			n = (seed >> 12 & 7) + 1;
			if (fair.clients[slot].queued + n > JOBS / 2)
				break;
			for (uint32_t i = 0; i < n; i++) {
				uint32_t row = submit(slot, 1, seed);

				ck_assert(!queued[row]);
				queued[row] = true;
				left++;
			}
			break;
		case 6:
			fair_lock(&fair);
			n = fair_cut_client(&fair, slot, rows, seed >> 16 & 63);
			fair_unlock(&fair);
			for (uint32_t i = 0; i < n; i++) {
				ck_assert(queued[rows[i]]);
				queued[rows[i]] = false;
				run(rows[i], 0);
				left--;
			}
			break;
		case 7:
			settle();
			break;
		default:
			n = pick(rows, seed >> 16 & 63);
			if (seed >> 28 == 15) {
				fair_lock(&fair);
				fair_return(&fair, rows, n, now);
				fair_unlock(&fair);
				break;
			}
			for (uint32_t i = 0; i < n; i++) {
				ck_assert(queued[rows[i]]);
				queued[rows[i]] = false;
				run(rows[i], seed >> 10 & 0xffff);
				left--;
			}
			break;
		}
		ck_assert_uint_eq(fair_queued(&fair), left);
	}
	while ((n = pick(rows, FAIR_BATCH_JOBS))) {
		left -= n;
		for (uint32_t i = 0; i < n; i++)
			run(rows[i], US);
	}
	ck_assert_uint_eq(left, 0);
	now += MS;
	settle();
	ck_assert_uint_eq(fair.n_active, 0);
	ck_assert_uint_eq(fair.level.n_active, 0);
	ck_assert_uint_eq(fair.heap.n, 0);
	for (uint32_t i = 0; i < CLIENTS; i++) {
		ck_assert_uint_eq(fair.clients[i].weights, 0);
		ck_assert_uint_eq(fair.clients[i].weights_given, 0);
		ck_assert_uint_eq(fair.clients[i].ahead, 0);
	}
}
END_TEST

CHECK_MAIN("fair_queue")
