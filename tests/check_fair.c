/* SPDX-License-Identifier: MIT */
/* check_fair.c - unit: who goes first. All times are virtual: the test is the clock. */
#define CHECK_SETUP    setup
#define CHECK_TEARDOWN teardown

#include "daemon/fair.h"

#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "tests/check_unit.h"

#define CLIENTS 16u
#define JOBS	4096u
#define TENANTS 8u
#define WORKERS 2u
#define US	NSEC_PER_USEC
#define MS	NSEC_PER_MSEC

static struct fair fair;
static struct board_client *board;
static struct account accounts[WORKERS];
static uint64_t now;
static uint32_t next_job[CLIENTS]; /* records, used in turn */

static void setup(void)
{
	board = calloc(CLIENTS, sizeof(*board));
	ck_assert_ptr_nonnull(board);
	ck_assert_int_eq(fair_init(&fair, board, CLIENTS, JOBS, TENANTS, WORKERS), 0);
	for (uint32_t i = 0; i < WORKERS; i++)
		fair_add_account(&fair, i, i, &accounts[i]);
	memset(accounts, 0, sizeof(accounts));
	memset(next_job, 0, sizeof(next_job));
	now = 5 * NSEC_PER_SEC;
}

static void teardown(void)
{
	fair_fini(&fair);
	free(board);
}

static void tenant(uint32_t slot, uint32_t weight)
{
	ck_assert_int_eq(fair_add_tenant(&fair, slot, weight), 0);
}

static void client(uint32_t slot, uint32_t of, uint32_t weight)
{
	fair_add_client(&fair, slot, of, weight);
}

static uint32_t row_of(uint32_t slot, uint32_t job)
{
	return slot * JOBS + job;
}

/* Queues n jobs of a client for a place. Returns the first one's row; the others follow, modulo
 * JOBS. */
static uint32_t submit_to(uint32_t slot, uint32_t n, uint32_t weight, uint32_t place)
{
	uint32_t first = 0, before = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t row = row_of(slot, next_job[slot]++ % JOBS);

		fair_prepare(&fair, row, weight, place);
		if (i)
			fair.rows[before].next = row + 1;
		else
			first = row;
		before = row;
	}
	fair_lock(&fair);
	fair_push(&fair, first, n, now);
	fair_unlock(&fair);
	return first;
}

static uint32_t submit(uint32_t slot, uint32_t n, uint32_t weight)
{
	return submit_to(slot, n, weight, FAIR_ANYWHERE);
}

static uint32_t pick_on(uint32_t worker, uint32_t *rows, uint32_t max, bool *ret_placed)
{
	uint32_t n;

	fair_lock(&fair);
	n = fair_pick(&fair, worker, rows, max, now, ret_placed);
	fair_unlock(&fair);
	return n;
}

static uint32_t pick(uint32_t *rows, uint32_t max)
{
	bool placed;
	uint32_t n = pick_on(0, rows, max, &placed);

	ck_assert(!placed);
	return n;
}

static bool cut(uint32_t row)
{
	bool was;

	fair_lock(&fair);
	was = fair_cut(&fair, row);
	fair_unlock(&fair);
	return was;
}

static void settle(void)
{
	fair_lock(&fair);
	fair_settle(&fair, now);
	fair_unlock(&fair);
}

/* A job has run for so long, and ended. */
static void run(uint32_t row, uint64_t ns)
{
	now += ns;
	fair_charge(&fair, row, ns, true);
	atomic_fetch_add(&board[row / JOBS].jobs, 1);
}

static uint64_t cpu(uint32_t slot)
{
	return atomic_load(&board[slot].cpu_ns);
}

/* For so long, one worker runs what goes first, while these clients always have jobs queued, each
 * with its own length. */
static void keep_busy(uint32_t slots, uint64_t ns, const uint64_t *lengths)
{
	uint64_t end = now + ns;
	uint32_t rows[FAIR_BATCH_JOBS];

	while (now < end) {
		uint32_t n;

		for (uint32_t slot = 0; slot < CLIENTS; slot++)
			if (slots >> slot & 1 && fair.clients[slot].queued < 100)
				submit(slot, 100, 0);
		n = pick(rows, FAIR_BATCH_JOBS);
		ck_assert_uint_gt(n, 0);
		for (uint32_t i = 0; i < n; i++)
			run(rows[i], lengths[rows[i] / JOBS]);
	}
}

static void assert_ratio(uint64_t a, uint64_t b, double low, double high)
{
	double ratio = (double)a / (double)b;

	ck_assert_msg(ratio >= low && ratio <= high, "%llu / %llu = %.3f, not from %.3f to %.3f",
		      (unsigned long long)a, (unsigned long long)b, ratio, low, high);
}

START_TEST(uids_share_by_their_weights_whatever_their_jobs_lengths)
{
	const uint64_t lengths[CLIENTS] = { 3 * US, 170 * US };

	tenant(0, 100);
	tenant(1, 300);
	client(0, 0, 100);
	client(1, 1, 100);
	keep_busy(3, 400 * MS, lengths);
	assert_ratio(cpu(1), cpu(0), 2.9, 3.1);
}
END_TEST

START_TEST(connections_of_a_uid_share_by_their_weights)
{
	const uint64_t lengths[CLIENTS] = { 20 * US, 5 * US, 40 * US };

	tenant(0, 100);
	client(0, 0, 100);
	client(1, 0, 200);
	client(2, 0, 400);
	keep_busy(7, 700 * MS, lengths);
	assert_ratio(cpu(1), cpu(0), 1.95, 2.05);
	assert_ratio(cpu(2), cpu(0), 3.9, 4.1);
}
END_TEST

START_TEST(many_connections_of_one_uid_get_no_more_than_one_of_another)
{
	const uint64_t lengths[CLIENTS] = { 10 * US, 10 * US, 10 * US, 10 * US };

	tenant(0, 100);
	tenant(1, 100);
	for (uint32_t i = 0; i < 3; i++)
		client(i, 0, 100);
	client(3, 1, 100);
	keep_busy(15, 600 * MS, lengths);
	assert_ratio(cpu(3), cpu(0) + cpu(1) + cpu(2), 0.97, 1.03);
	assert_ratio(cpu(0), cpu(1), 0.97, 1.03);
	assert_ratio(cpu(2), cpu(1), 0.97, 1.03);
}
END_TEST

START_TEST(a_uid_of_weight_1_is_not_shut_out_by_one_of_10000)
{
	const uint64_t lengths[CLIENTS] = { 10 * US, 10 * US };

	tenant(0, 1);
	tenant(1, UINT32_MAX); /* clamped */
	client(0, 0, 0);       /* so is this */
	client(1, 1, 100);
	ck_assert_uint_eq(fair.tenants[1].node.weight, FAIR_WEIGHT_MAX);
	ck_assert_uint_eq(fair.clients[0].node.weight, 1);
	keep_busy(3, 3 * NSEC_PER_SEC, lengths);
	/* 300 us are its share; it runs whole jobs. */
	assert_ratio(cpu(0), 300 * US, 0.5, 2.0);
}
END_TEST

START_TEST(who_used_the_pool_alone_does_not_pay_for_it)
{
	const uint64_t lengths[CLIENTS] = { 10 * US, 10 * US };
	uint64_t before;

	tenant(0, 100);
	client(0, 0, 100);
	client(1, 0, 100);
	keep_busy(1, NSEC_PER_SEC, lengths);
	before = cpu(0);
	keep_busy(3, 20 * MS, lengths);
	assert_ratio(cpu(0) - before, cpu(1), 0.9, 1.1);
}
END_TEST

START_TEST(who_was_alone_past_the_queues_does_not_pay_for_it_either)
{
	const uint64_t lengths[CLIENTS] = { 10 * US, 10 * US };
	uint32_t rows[FAIR_BATCH_JOBS];
	uint64_t before;

	tenant(0, 100);
	tenant(1, 100);
	client(0, 0, 100);
	client(1, 1, 100);
	submit(0, 1, 0);
	ck_assert_uint_eq(pick(rows, 1), 1);
	run(rows[0], 10 * US);
	for (uint32_t i = 1; i < 1000; i++) {
		fair_prepare(&fair, row_of(0, i), 0, FAIR_ANYWHERE);
		ck_assert(fair_direct(&fair, 0, 1));
		run(row_of(0, i), MS);
	}
	/* The other comes in a moment when it has nothing. */
	submit(1, 1, 0);
	before = cpu(0);
	keep_busy(3, 20 * MS, lengths);
	assert_ratio(cpu(0) - before, cpu(1), 0.9, 1.1);
}
END_TEST

START_TEST(sleeping_gives_no_credit)
{
	const uint64_t lengths[CLIENTS] = { 10 * US, 10 * US, 10 * US };
	uint32_t rows[FAIR_BATCH_JOBS], n;
	uint64_t before[3];

	tenant(0, 100);
	tenant(1, 100);
	client(0, 0, 100);
	client(1, 0, 100); /* of the same uid */
	client(2, 1, 100);
	keep_busy(7, 10 * MS, lengths);
	/* 1 and 2 have nothing for a second. */
	while (fair_queued(&fair)) {
		n = pick(rows, FAIR_BATCH_JOBS);
		for (uint32_t i = 0; i < n; i++)
			run(rows[i], 10 * US);
	}
	keep_busy(1, NSEC_PER_SEC, lengths);
	for (uint32_t i = 0; i < 3; i++)
		before[i] = cpu(i);
	keep_busy(7, 20 * MS, lengths);
	assert_ratio(cpu(2) - before[2], cpu(0) - before[0] + cpu(1) - before[1], 0.9, 1.1);
	assert_ratio(cpu(1) - before[1], cpu(0) - before[0], 0.9, 1.1);
}
END_TEST

START_TEST(two_that_are_always_busy_are_never_further_apart_than_a_batch)
{
	uint32_t rows[FAIR_BATCH_JOBS];

	tenant(0, 100);
	client(0, 0, 100);
	client(1, 0, 100);
	for (uint32_t i = 0; i < 3000; i++) {
		uint32_t n;

		for (uint32_t slot = 0; slot < 2; slot++)
			if (fair.clients[slot].queued < 100)
				submit(slot, 100, 0);
		n = pick(rows, FAIR_BATCH_JOBS);
		for (uint32_t k = 0; k < n; k++)
			run(rows[k], rows[k] / JOBS ? 7 * US : 31 * US);
		if (i < 100)
			continue; /* lengths are not known yet */
		ck_assert_uint_le(cpu(0), cpu(1) + FAIR_BATCH + 31 * US);
		ck_assert_uint_le(cpu(1), cpu(0) + FAIR_BATCH + 31 * US);
	}
}
END_TEST

START_TEST(a_job_waits_behind_one_batch_of_a_flood_and_no_more)
{
	uint32_t rows[FAIR_BATCH_JOBS], flood[2];

	for (uint32_t other = 0; other < 2; other++) { /* another uid's, or the same one's */
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
		teardown();
		setup();
	}
}
END_TEST

START_TEST(among_equals_the_one_that_was_chosen_longer_ago_goes_first)
{
	uint32_t rows[FAIR_BATCH_JOBS], row;

	tenant(0, 100);
	client(0, 0, 100);
	client(1, 0, 100);
	submit(0, 1, 0);
	ck_assert_uint_eq(pick(rows, 1), 1);
	run(rows[0], 2 * MS);
	settle();
	submit(0, 1, 0);
	row = submit(1, 1, 0);
	ck_assert_uint_eq(fair.clients[0].node.v, fair.clients[1].node.v);
	ck_assert_uint_eq(pick(rows, 1), 1);
	ck_assert_uint_eq(rows[0], row);
}
END_TEST

START_TEST(a_batch_is_as_long_as_its_jobs_are_known_to_be)
{
	static const struct {
		uint64_t ns;
		uint32_t n;
	} rows[] = {
		{ 100, 64 }, { 2 * US, 50 }, { 30 * US, 3 }, { 99 * US, 1 }, { 50 * MS, 1 },
	};

	for (uint32_t i = 0; i < ARRAY_SIZE(rows); i++) {
		uint32_t batch[FAIR_BATCH_JOBS], n;

		tenant(0, 100);
		client(0, 0, 100);
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
		teardown();
		setup();
	}
}
END_TEST

/* A job that was cut out ended, and took no time. */
START_TEST(jobs_that_never_started_teach_nothing_of_their_length)
{
	uint32_t batch[FAIR_BATCH_JOBS];

	tenant(0, 100);
	client(0, 0, 100);
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

/* One connection stays, two of the same uid are new ones for each of their jobs. */
START_TEST(connections_that_come_and_go_take_nothing_from_one_that_stays)
{
	uint64_t ran[3] = { 0 };
	bool queued[3] = { false };

	tenant(0, 100);
	for (uint32_t slot = 0; slot < 3; slot++)
		client(slot, 0, 100);
	submit(0, 2000, 0);
	for (uint32_t i = 0; i < 3000; i++) {
		uint32_t row, slot;

		for (slot = 1; slot < 3; slot++) {
			if (queued[slot])
				continue;
			atomic_store(&board[slot].jobs, 0);
			atomic_store(&board[slot].cpu_ns, 0);
			client(slot, 0, 100);
			submit(slot, 1, 0);
			queued[slot] = true;
		}
		ck_assert_uint_eq(pick(&row, 1), 1);
		slot = row / JOBS;
		run(row, 10 * MS);
		ran[slot]++;
		queued[slot] = false;
		if (slot)
			fair_remove_client(&fair, slot);
	}
	assert_ratio(ran[0], ran[1], 0.9, 1.1);
	assert_ratio(ran[0], ran[2], 0.9, 1.1);
}
END_TEST

/* Who has read the clock before another settled does not settle again. */
START_TEST(an_older_clock_settles_nothing)
{
	settle();
	fair_lock(&fair);
	fair_settle_sometimes(&fair, now - 1);
	fair_unlock(&fair);
	ck_assert_uint_eq(fair.settled_at, now);
}
END_TEST

START_TEST(jobs_of_one_connection_come_in_their_order_and_heavy_ones_before)
{
	uint32_t rows[FAIR_BATCH_JOBS];
	uint32_t light, heavy;

	tenant(0, 100);
	client(0, 0, 100);
	light = submit(0, 10, 0);
	heavy = submit(0, 2, 1000);
	for (uint32_t i = 0; i < 12; i++) {
		ck_assert_uint_eq(pick(rows, 1), 1);
		ck_assert_uint_eq(rows[0], i < 2 ? heavy + i : light + i - 2);
		run(rows[0], 10 * US);
	}
	ck_assert_uint_eq(fair_queued(&fair), 0);
}
END_TEST

START_TEST(light_jobs_are_not_shut_out_by_heavy_ones)
{
	uint32_t rows[FAIR_BATCH_JOBS], light, heavy = 0;

	tenant(0, 100);
	client(0, 0, 100);
	light = submit(0, 1, 10);
	/* Four of weight 1000 are always there; at ten times the weight a job's end is its start
	 * and a tenth of its length, so the light one's is passed after so many. */
	submit(0, 4, 1000);
	for (;;) {
		ck_assert_uint_eq(pick(rows, 1), 1);
		if (rows[0] == light)
			break;
		run(rows[0], 100 * US);
		submit(0, 1, 1000);
		ck_assert_uint_lt(++heavy, 1000);
	}
	ck_assert_uint_gt(heavy, 100);
}
END_TEST

START_TEST(a_jobs_weight_takes_nothing_from_other_connections)
{
	uint32_t rows[FAIR_BATCH_JOBS];

	tenant(0, 100);
	client(0, 0, 100);
	client(1, 0, 100);
	for (uint32_t i = 0; i < 4000; i++) {
		if (!fair.clients[0].queued)
			submit(0, 10, UINT32_MAX);
		if (!fair.clients[1].queued)
			submit(1, 10, 1);
		ck_assert_uint_eq(pick(rows, 1), 1);
		run(rows[0], 10 * US);
	}
	assert_ratio(cpu(0), cpu(1), 0.97, 1.03);
}
END_TEST

/*
 * A job that runs for ever on the one worker there is, of client 0, and a flood of small ones that
 * client slot always has queued. Each tick one looks whether a queued one goes first.
 */
static void giant_and_flood(uint32_t slot, uint64_t small, uint64_t ns)
{
	uint32_t rows[FAIR_BATCH_JOBS], giant = submit(0, 1, 0), moved = 0;
	uint64_t since, end = now + ns;
	bool placed;

	ck_assert_uint_eq(pick(rows, 1), 1);
	account_open(&accounts[0], giant, now);
	since = now;
	while (now < end) {
		uint32_t n = 0, row;

		now += 200 * US;
		if (fair.clients[slot].queued < 10)
			submit(slot, 100, 0);
		fair_lock(&fair);
		fair_settle(&fair, now);
		if (fair_claims(&fair, 0, giant, now - since))
			n = fair_pick(&fair, 0, rows, FAIR_BATCH_JOBS, now, &placed);
		fair_unlock(&fair);
		if (!n)
			continue;
		moved++;
		fair_charge(&fair, giant, account_close(&accounts[0], now, &row), false);
		for (uint32_t i = 0; i < n; i++)
			run(rows[i], small);
		account_open(&accounts[0], giant, now);
		since = now;
	}
	ck_assert_uint_gt(moved, 100);
}

START_TEST(a_giant_job_and_a_flood_of_another_connection_share_the_worker)
{
	tenant(0, 100);
	client(0, 0, 100);
	client(1, 0, 100);
	giant_and_flood(1, 50 * US, 200 * MS);
	assert_ratio(cpu(0), cpu(1), 0.6, 2.2);
}
END_TEST

START_TEST(a_giant_job_and_a_flood_of_another_uid_share_by_weight)
{
	tenant(0, 400);
	tenant(1, 100);
	client(0, 0, 100);
	client(1, 1, 100);
	giant_and_flood(1, 50 * US, 400 * MS);
	assert_ratio(cpu(0), cpu(1), 3.5, 4.5);
}
END_TEST

START_TEST(a_giant_job_is_not_shut_out_by_small_ones_of_its_own_connection)
{
	tenant(0, 100);
	client(0, 0, 100);
	giant_and_flood(0, 50 * US, 400 * MS);
	/* It is one of about a hundred jobs; but it cannot be set aside where it has not run. */
	ck_assert_uint_gt(atomic_load(&fair.rows[row_of(0, 0)].used), 4 * MS);
	ck_assert_uint_lt(atomic_load(&fair.rows[row_of(0, 0)].used), 396 * MS);
}
END_TEST

START_TEST(a_new_job_goes_before_a_giant_that_was_alone)
{
	uint32_t rows[2], giant;
	bool claims;

	tenant(0, 100);
	tenant(1, 100);
	client(0, 0, 100);
	client(1, 1, 100);
	giant = submit(0, 1, 0);
	ck_assert_uint_eq(pick(rows, 1), 1);
	account_open(&accounts[0], giant, now);
	account_open(&accounts[1], giant, now);
	now += NSEC_PER_SEC;
	submit(1, 1, 0);
	fair_lock(&fair);
	fair_settle(&fair, now);
	claims = fair_claims(&fair, 0, giant, FAIR_QUANTUM);
	ck_assert(!fair_claims(&fair, 0, giant, FAIR_QUANTUM - 1)); /* has just been resumed */
	fair_unlock(&fair);
	ck_assert(claims);
	/* Time of both workers is the giant's. */
	ck_assert_uint_ge(cpu(0), 2 * NSEC_PER_SEC - 2 * US);
	ck_assert_uint_eq(atomic_load(&fair.rows[giant].used), cpu(0));
	/* The new one had no credit for the second: after 5 ms, while the giant does not run, it is
	 * the giant's turn. */
	ck_assert_uint_eq(pick(rows, 1), 1);
	(void)account_close(&accounts[0], now, rows + 1);
	(void)account_close(&accounts[1], now, rows + 1);
	run(rows[0], 5 * MS);
	submit(1, 1, 0);
	fair_lock(&fair);
	fair_settle(&fair, now);
	claims = fair_claims(&fair, 0, giant, FAIR_QUANTUM);
	fair_unlock(&fair);
	ck_assert(!claims);
}
END_TEST

START_TEST(a_running_client_that_is_behind_is_said_to_be)
{
	uint32_t rows[FAIR_BATCH_JOBS], giant;

	tenant(0, 100);
	client(0, 0, 100);
	client(1, 0, 100);
	giant = submit(0, 1, 0);
	ck_assert_uint_eq(pick(rows, 1), 1);
	account_open(&accounts[0], giant, now);
	ck_assert(!fair_behind(&fair));
	/* The other one's jobs run on another worker, three times as fast as the giant. */
	for (uint32_t i = 0; i < 100; i++) {
		submit(1, 2, 0);
		ck_assert_uint_gt(pick(rows, 1), 0);
		fair_charge(&fair, rows[0], 150 * US, true);
		atomic_fetch_add(&board[1].jobs, 1);
		now += 50 * US;
	}
	settle();
	ck_assert(fair_behind(&fair));
	now += NSEC_PER_SEC;
	settle();
	ck_assert(!fair_behind(&fair));
}
END_TEST

START_TEST(only_who_is_alone_and_no_flood_goes_past_the_queues)
{
	uint32_t rows[FAIR_BATCH_JOBS];

	tenant(0, 100);
	client(0, 0, 100);
	client(1, 0, 100);
	ck_assert(!fair_direct(&fair, 0, 1)); /* the first time it is not known */
	submit(0, 1, 0);
	ck_assert(!fair_direct(&fair, 0, 1)); /* one is queued */
	ck_assert_uint_eq(pick(rows, 8), 1);
	ck_assert(fair_direct(&fair, 0, 1));
	ck_assert(fair_direct(&fair, 0, FAIR_BATCH / FAIR_GUESS));
	ck_assert(!fair_direct(&fair, 0, FAIR_BATCH / FAIR_GUESS + 1));
	ck_assert(!fair_direct(&fair, 1, 1));
	submit(1, 1, 0);
	ck_assert_uint_eq(pick(rows, 8), 1);
	ck_assert(!fair_direct(&fair, 0, 1));
	ck_assert(!fair_direct(&fair, 1, 1)); /* 0 has jobs that have not ended */
}
END_TEST

START_TEST(rows_that_were_given_back_come_again_in_their_order)
{
	uint32_t rows[FAIR_BATCH_JOBS], again[FAIR_BATCH_JOBS], n;
	uint64_t v;

	tenant(0, 100);
	client(0, 0, 100);
	client(1, 0, 100);
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

START_TEST(jobs_that_are_cut_out_are_picked_no_more)
{
	uint32_t rows[FAIR_BATCH_JOBS], first, other, n = 0, some;

	tenant(0, 100);
	client(0, 0, 100);
	client(1, 0, 100);
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
START_TEST(jobs_for_one_worker_go_before_nobody)
{
	uint32_t rows[FAIR_BATCH_JOBS];
	bool placed;

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
				ck_assert_uint_eq(pick_on(0, rows, FAIR_BATCH_JOBS, &placed), 1);
				ck_assert(placed);
				run(rows[0], 20 * US);
			}
			row = submit_to(1, 1, 0, places[where]);
			do {
				ck_assert_uint_eq(pick_on(0, rows, FAIR_BATCH_JOBS, &placed), 1);
				run(rows[0], 20 * US);
				before++;
			} while (rows[0] != row);
			ck_assert_uint_le(before, 1);
			ck_assert_uint_eq(placed, where > 0);
			teardown();
			setup();
		}
}
END_TEST

START_TEST(jobs_for_one_worker_are_nobody_elses)
{
	uint32_t rows[FAIR_BATCH_JOBS], mine, groups, any;
	bool placed;

	tenant(0, 100);
	client(0, 0, 100);
	mine = submit_to(0, 1, 0, FAIR_WORKER(1));
	ck_assert_uint_eq(pick_on(0, rows, FAIR_BATCH_JOBS, &placed), 0);
	ck_assert(!fair_direct(&fair, 0, 1));
	groups = submit_to(0, 1, 0, FAIR_GROUP(1));
	any = submit(0, 3, 0);
	ck_assert_uint_eq(fair_waits(&fair, FAIR_WORKER(1)), 1);
	ck_assert_uint_eq(fair_waits(&fair, FAIR_GROUP(1)), 1);
	ck_assert_uint_eq(fair_waits(&fair, FAIR_WORKER(0)), 0);
	/* Never together with those that others may take. */
	ck_assert_uint_eq(pick_on(1, rows, FAIR_BATCH_JOBS, &placed), 3);
	ck_assert(!placed);
	ck_assert_uint_eq(rows[0], any);
	ck_assert_uint_eq(pick_on(1, rows, FAIR_BATCH_JOBS, &placed), 1);
	ck_assert(placed);
	ck_assert_uint_eq(rows[0], mine);
	fair_lock(&fair);
	fair_return(&fair, rows, 1, now);
	ck_assert(fair_claims(&fair, 1, any, FAIR_QUANTUM));
	ck_assert(!fair_claims(&fair, 0, any, FAIR_QUANTUM));
	fair_unlock(&fair);
	ck_assert_uint_eq(pick_on(1, rows, FAIR_BATCH_JOBS, &placed), 1);
	ck_assert_uint_eq(rows[0], mine);
	ck_assert_uint_eq(pick_on(1, rows, FAIR_BATCH_JOBS, &placed), 1);
	ck_assert_uint_eq(rows[0], groups);
	ck_assert_uint_eq(fair_placed(&fair), 0);
}
END_TEST

/* As after years of CPU time: more than half of all numbers on. */
START_TEST(who_comes_late_or_was_away_for_ever_is_not_shut_out)
{
	const uint64_t lengths[CLIENTS] = { 10 * US, 10 * US, 10 * US, 10 * US };
	const uint64_t far = UINT64_C(1) << 59;
	uint32_t rows[FAIR_BATCH_JOBS];
	uint64_t before[4];

	tenant(0, 100);
	tenant(1, 100);
	client(0, 0, 100);
	client(1, 0, 100);
	client(2, 1, 100);
	/* 1 and 2 are there, and leave; 0 goes on alone. */
	keep_busy(7, MS, lengths);
	while (fair_queued(&fair)) {
		uint32_t n = pick(rows, FAIR_BATCH_JOBS);

		for (uint32_t i = 0; i < n; i++)
			run(rows[i], 10 * US);
	}
	for (uint32_t i = 0; i < 24; i++) {
		keep_busy(1, MS, lengths);
		fair.clients[0].node.v += far;
		fair.tenants[0].node.v += far;
		settle();
	}
	keep_busy(1, MS, lengths);
	/* A third uid is new. */
	tenant(2, 100);
	client(3, 2, 100);
	for (uint32_t i = 0; i < 4; i++)
		before[i] = cpu(i);
	keep_busy(15, 40 * MS, lengths);
	assert_ratio(cpu(2) - before[2], cpu(3) - before[3], 0.9, 1.1);
	assert_ratio(cpu(0) - before[0], cpu(1) - before[1], 0.9, 1.1);
	assert_ratio(cpu(0) - before[0] + cpu(1) - before[1], cpu(3) - before[3], 0.9, 1.1);
}
END_TEST

START_TEST(what_was_no_job_is_charged_to_its_uid)
{
	const uint64_t lengths[CLIENTS] = { 10 * US, 10 * US };

	tenant(0, 100);
	tenant(1, 100);
	client(0, 0, 100);
	client(1, 1, 100);
	keep_busy(3, 10 * MS, lengths);
	uint64_t before[2] = { cpu(0), cpu(1) };

	fair_waste(&fair, 0, 5 * MS);
	keep_busy(3, 20 * MS, lengths);
	assert_ratio(cpu(1) - before[1] - 5 * MS, cpu(0) - before[0], 0.9, 1.1);
}
END_TEST

START_TEST(a_strand_of_many_hours_is_charged_for_all_of_them)
{
	const uint64_t hour = 3600 * NSEC_PER_SEC;
	struct account account = { 0 };
	uint64_t sum = 0, ns;
	uint32_t row;

	account_open(&account, 7, now);
	/* A look each hour, as the dispatcher's, and none for four. */
	for (uint32_t i = 1; i <= 40; i++) {
		sum += account_settle(&account, now + i * hour, &row);
		ck_assert_uint_eq(row, 7);
	}
	ns = account_close(&account, now + 44 * hour, &row);
	ck_assert_uint_eq(row, 7);
	ck_assert_uint_ge(sum + ns, 44 * hour - 4096);
	ck_assert_uint_le(sum + ns, 44 * hour + 4096);
	/* A clock that was read before. */
	account_open(&account, 7, now + 1000);
	ck_assert_uint_eq(account_close(&account, now, &row), 0);
}
END_TEST

START_TEST(a_slot_is_used_again_while_its_end_was_not_seen)
{
	uint32_t rows[FAIR_BATCH_JOBS];

	tenant(0, 100);
	client(0, 0, 100);
	client(1, 0, 100);
	submit(0, 1, 0);
	submit(1, 1, 0);
	ck_assert_uint_eq(pick(rows, FAIR_BATCH_JOBS), 2);
	run(rows[0], US);
	run(rows[1], US);
	fair_remove_client(&fair, 0);
	fair_remove_client(&fair, 1);
	ck_assert_uint_eq(fair.n_active, 0);
	ck_assert_uint_ge(fair.tenants[0].node.v, 2 * US * FAIR_ONE / 100);
	client(0, 0, 100);
	client(1, 0, 100);
	submit(0, 1, 0);
	ck_assert_uint_eq(pick(rows, FAIR_BATCH_JOBS), 1);
}
END_TEST

/* A job that was set aside was stolen, has ended, and its client is gone. */
START_TEST(a_dead_row_makes_nobody_active)
{
	uint32_t rows[2], dead;

	tenant(0, 100);
	client(0, 0, 100);
	client(1, 0, 100);
	dead = submit(0, 1, 0);
	submit(1, 1, 0);
	ck_assert_uint_eq(pick(rows, 2), 2);
	run(dead, 10 * US);
	fair_remove_client(&fair, 0);
	ck_assert_uint_eq(fair.n_active, 1);
	fair_lock(&fair);
	(void)fair_turn(&fair, rows[1], &dead, 1);
	(void)fair_claims(&fair, 0, dead, FAIR_QUANTUM);
	fair_unlock(&fair);
	ck_assert_uint_eq(fair.n_active, 1);
	client(0, 0, 100);
	settle();
	ck_assert_uint_eq(fair.n_active, 1);
	ck_assert_uint_eq(fair.tenants[0].level.n_active, 1);
	ck_assert(fair_direct(&fair, 1, 1));
}
END_TEST

/* The slot is taken again while it stands among the active ones. */
START_TEST(a_new_client_in_an_active_slot_leaves_no_ghost)
{
	uint32_t rows[2];

	tenant(0, 100);
	client(0, 0, 100);
	client(1, 0, 100);
	submit(0, 1, 0);
	submit(1, 1, 0);
	ck_assert_uint_eq(pick(rows, 2), 2);
	run(rows[0], 10 * US);
	client(0, 0, 100);
	ck_assert_uint_eq(fair.n_active, 1);
	run(rows[1], 10 * US);
	settle();
	ck_assert_uint_eq(fair.n_active, 0);
	ck_assert_uint_eq(fair.level.n_active, 0);
	ck_assert_uint_eq(fair.tenants[0].weights, 0);
}
END_TEST

/* Whatever happens: each row comes once, and the structures hold together. */
START_TEST(every_row_comes_once_whatever_happens)
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

CHECK_MAIN("fair", uids_share_by_their_weights_whatever_their_jobs_lengths,
	   connections_of_a_uid_share_by_their_weights,
	   many_connections_of_one_uid_get_no_more_than_one_of_another,
	   a_uid_of_weight_1_is_not_shut_out_by_one_of_10000,
	   who_used_the_pool_alone_does_not_pay_for_it,
	   who_was_alone_past_the_queues_does_not_pay_for_it_either, sleeping_gives_no_credit,
	   two_that_are_always_busy_are_never_further_apart_than_a_batch,
	   a_job_waits_behind_one_batch_of_a_flood_and_no_more,
	   among_equals_the_one_that_was_chosen_longer_ago_goes_first,
	   a_batch_is_as_long_as_its_jobs_are_known_to_be,
	   jobs_that_never_started_teach_nothing_of_their_length,
	   connections_that_come_and_go_take_nothing_from_one_that_stays,
	   an_older_clock_settles_nothing,
	   jobs_of_one_connection_come_in_their_order_and_heavy_ones_before,
	   light_jobs_are_not_shut_out_by_heavy_ones,
	   a_jobs_weight_takes_nothing_from_other_connections,
	   a_giant_job_and_a_flood_of_another_connection_share_the_worker,
	   a_giant_job_and_a_flood_of_another_uid_share_by_weight,
	   a_giant_job_is_not_shut_out_by_small_ones_of_its_own_connection,
	   a_new_job_goes_before_a_giant_that_was_alone,
	   a_running_client_that_is_behind_is_said_to_be,
	   only_who_is_alone_and_no_flood_goes_past_the_queues,
	   rows_that_were_given_back_come_again_in_their_order,
	   jobs_that_are_cut_out_are_picked_no_more, jobs_for_one_worker_go_before_nobody,
	   jobs_for_one_worker_are_nobody_elses,
	   who_comes_late_or_was_away_for_ever_is_not_shut_out,
	   what_was_no_job_is_charged_to_its_uid, a_strand_of_many_hours_is_charged_for_all_of_them,
	   a_slot_is_used_again_while_its_end_was_not_seen, a_dead_row_makes_nobody_active,
	   a_new_client_in_an_active_slot_leaves_no_ghost, every_row_comes_once_whatever_happens)
