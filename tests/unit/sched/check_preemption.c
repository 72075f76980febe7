/* SPDX-License-Identifier: MIT */
/* check_preemption.c - running jobs: which one has the best claim, and which one yields. */
#include "daemon/sched/virtual_time.h"
#include "tests/support/fair_clock.h"

/* An endless job of client 0 on the only worker, and a flood of small jobs of client `slot`, which
 * always has queued ones. Each tick checks whether a queued job preempts the giant. */
static void giant_and_flood(uint32_t slot, uint64_t small, uint64_t ns)
{
	uint32_t rows[FAIR_BATCH_JOBS], giant = submit(0, 1, 0), moved = 0;
	uint64_t since, end = now + ns;

	(void)pick_one();
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
			n = fair_pick(&fair, 0, rows, FAIR_BATCH_JOBS, now);
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

START_TEST(giant_job_and_flood_of_another_connection_share_the_worker)
{
	one_uid(2);
	giant_and_flood(1, 50 * US, 200 * MS);
	assert_ratio(cpu(0), cpu(1), 0.6, 2.2);
}
END_TEST

START_TEST(giant_job_and_flood_of_another_uid_share_by_weight)
{
	tenant(0, 400);
	tenant(1, 100);
	client(0, 0, 100);
	client(1, 1, 100);
	giant_and_flood(1, 50 * US, 400 * MS);
	assert_ratio(cpu(0), cpu(1), 3.5, 4.5);
}
END_TEST

START_TEST(giant_job_is_not_starved_by_small_ones_of_its_connection)
{
	uint64_t used;

	one_uid(1);
	giant_and_flood(0, 50 * US, 400 * MS);
	/* It is one of about a hundred jobs, but runs for a tick each time, followed by one small
	 * job: four fifths of the time are its own. */
	used = atomic_load(&fair.rows[row_of(0, 0)].used);
	assert_ratio(used, 320 * MS, 0.5, 2);
	assert_ratio(cpu(0) - used, 80 * MS, 0.5, 2);
}
END_TEST

static bool claims(uint32_t row)
{
	bool is;

	fair_lock(&fair);
	fair_settle(&fair, now);
	fair_count(&fair);
	is = fair_claims(&fair, 0, row, FAIR_QUANTUM);
	fair_unlock(&fair);
	return is;
}

START_TEST(new_job_preempts_a_giant_that_was_alone)
{
	uint32_t row, giant, left;

	two_uids();
	giant = submit(0, 1, 0);
	(void)pick_one();
	account_open(&accounts[0], giant, now);
	account_open(&accounts[1], giant, now);
	now += NSEC_PER_SEC;
	submit(1, 1, 0);
	ck_assert(claims(giant));
	/* The giant is charged for the time of both workers. */
	ck_assert_uint_ge(cpu(0), 2 * NSEC_PER_SEC - 2 * US);
	ck_assert_uint_eq(atomic_load(&fair.rows[giant].used), cpu(0));
	/* The new job had no credit for that second: after its warp and some ms, during which the
	 * giant does not run, the giant has the better claim. */
	row = pick_one();
	(void)account_close(&accounts[0], now, &left);
	(void)account_close(&accounts[1], now, &left);
	run(row, FAIR_SHORT - MS);
	submit(1, 1, 0);
	ck_assert(!claims(giant));
}
END_TEST

START_TEST(running_client_that_is_behind_is_reported)
{
	uint32_t rows[FAIR_BATCH_JOBS], giant;

	one_uid(2);
	giant = submit(0, 1, 0);
	(void)pick_one();
	account_open(&accounts[0], giant, now);
	ck_assert(!fair_behind(&fair));
	/* The other client's jobs run on another worker, three times as fast as the giant. */
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

/* Lock not held. Returns the row with the best claim after the running job has used ns more. */
static uint32_t turn_after(uint32_t running, uint64_t ns, uint32_t waits)
{
	uint32_t row;

	fair_charge(&fair, running, ns, false);
	now += ns;
	fair_lock(&fair);
	fair_settle(&fair, now);
	row = fair_turn(&fair, running, &waits, 1);
	fair_unlock(&fair);
	return row;
}

START_TEST(job_runs_for_a_time_slice_before_it_yields)
{
	uint32_t rows[2], giant, last;

	one_uid(2);
	giant = submit(0, 1, 0);
	last = submit(1, 1, 0);
	ck_assert_uint_eq(pick(rows, 2), 2);
	ck_assert_uint_eq(turn_after(last, FAIR_TURN / 2, giant), last);
	ck_assert_uint_eq(turn_after(last, FAIR_TURN, giant), giant);
	/* And the other way round: they alternate in time slices. */
	ck_assert_uint_eq(turn_after(giant, FAIR_TURN * 2, last), giant);
	ck_assert_uint_eq(turn_after(giant, FAIR_TURN, last), last);
}
END_TEST

/* Two connections whose jobs have these known lengths. The first one's job runs on worker 0, the
 * other one's is queued, and neither is ahead. Sets the rows. */
static void long_jobs(uint64_t first, uint64_t second, uint32_t *ret_runs, uint32_t *ret_waits)
{
	uint32_t rows[2];

	one_uid(2);
	for (uint32_t i = 0; i < 2; i++)
		submit(i, 1, 0);
	ck_assert_uint_eq(pick(rows, 2), 2);
	for (uint32_t i = 0; i < 2; i++)
		run(rows[i], rows[i] / JOBS ? second : first);
	settle();
	*ret_runs = submit(0, 1, 0);
	(void)pick_one();
	account_open(&accounts[0], *ret_runs, now);
	*ret_waits = submit(1, 1, 0);
	fair.clients[0].node.v = fair.clients[1].node.v;
}

START_TEST(long_job_claims_a_worker_after_the_others_time_slice)
{
	uint32_t runs, waits, row;
	uint64_t in;

	long_jobs(100 * MS, 100 * MS, &runs, &waits);
	now += FAIR_TURN_LONG / 2;
	ck_assert(!claims(runs));
	/* No thread need check before that time. */
	in = fair_claims_in(&fair, 0, runs);
	ck_assert_uint_ge(in, FAIR_TURN_LONG / 2 - 10 * US);
	ck_assert_uint_le(in, FAIR_TURN_LONG / 2 + 10 * US);
	now += in - 10 * US;
	ck_assert(!claims(runs));
	now += 20 * US;
	ck_assert(claims(runs));
	ck_assert_uint_eq(fair_claims_in(&fair, 0, runs), 0);
	/* Half the time if another worker runs the job, too. */
	again();
	long_jobs(100 * MS, 100 * MS, &runs, &waits);
	account_open(&accounts[1], runs, now);
	ck_assert(!claims(runs));
	ck_assert_uint_le(fair_claims_in(&fair, 0, runs), FAIR_TURN_LONG / 2 + 10 * US);
	/* Or another job of its connection, while its own worker's account is not open yet. */
	again();
	long_jobs(100 * MS, 100 * MS, &runs, &waits);
	(void)account_close(&accounts[0], now, &row);
	account_open(&accounts[1], row_of(0, JOBS - 1), now);
	settle();
	fair_count(&fair);
	ck_assert_uint_le(fair_claims_in(&fair, 0, runs), FAIR_TURN_LONG / 2 + 10 * US);
}
END_TEST

START_TEST(short_job_claims_the_worker_of_a_long_one_at_once)
{
	uint32_t runs, waits;

	long_jobs(100 * MS, 100 * US, &runs, &waits);
	now += FAIR_QUANTUM;
	ck_assert(claims(runs));
	/* And it keeps the worker against a long job: for its warp, and a time slice. */
	again();
	long_jobs(100 * US, 100 * MS, &runs, &waits);
	now += 5 * MS + FAIR_TURN / 2;
	ck_assert(!claims(runs));
	now += FAIR_TURN / 2;
	ck_assert(claims(runs));
	/* A job that has used as much as a long one has no warp any more. */
	again();
	long_jobs(100 * US, 100 * MS, &runs, &waits);
	fair_charge(&fair, runs, FAIR_SHORT, false);
	settle();
	fair.clients[0].node.v = fair.clients[1].node.v + vtime_of(FAIR_TURN, FAIR_WEIGHT);
	ck_assert(claims(runs));
}
END_TEST

START_TEST(resumed_job_is_not_preempted_by_an_equal)
{
	uint32_t runs, waits;

	long_jobs(100 * US, 100 * US, &runs, &waits);
	fair_lock(&fair);
	ck_assert(!fair_claims(&fair, 0, runs, FAIR_QUANTUM - 1));
	ck_assert(fair_claims(&fair, 0, runs, FAIR_QUANTUM));
	fair_unlock(&fair);
}
END_TEST

/* Three connections, of one uid or of one each: the first two have long jobs, the third one short
 * ones. The first runs; the others wait, and are ahead by this many ms (negative: behind). */
static void short_behind_long(bool uids, int64_t lead_2, int64_t lead_3, uint32_t *ret_runs)
{
	uint32_t rows[3];

	for (uint32_t i = 0; i < 3; i++) {
		tenant(uids ? i : 0, 100);
		client(i, uids ? i : 0, 100);
		submit(i, 1, 0);
	}
	ck_assert_uint_eq(pick(rows, 3), 3);
	for (uint32_t i = 0; i < 3; i++)
		run(rows[i], rows[i] / JOBS == 2 ? MS : 100 * MS);
	settle();
	*ret_runs = submit(0, 1, 0);
	ck_assert_uint_eq(pick(rows, 3), 1);
	account_open(&accounts[0], *ret_runs, now);
	for (uint32_t i = 1; i < 3; i++) {
		int64_t lead = i == 1 ? lead_2 : lead_3;
		struct vheap_node *node = uids ? &fair.tenants[i].node : &fair.clients[i].node;

		submit(i, 1, 0);
		node->v = (uids ? fair.tenants[0].node.v : fair.clients[0].node.v) +
			  (uint64_t)(lead * (int64_t)vtime_of(MS, FAIR_WEIGHT));
		vheap_moved(uids ? &fair.heap : &fair.tenants[0].heap, node);
	}
}

START_TEST(short_job_does_not_wait_for_long_ones)
{
	uint32_t runs, row;

	for (int uids = 0; uids < 2; uids++) {
		/* The long queued job is behind, but by less than a time slice. */
		short_behind_long(uids, -1, 0, &runs);
		fair_lock(&fair);
		row = fair_first(&fair, 0);
		fair_unlock(&fair);
		ck_assert_uint_eq(row / JOBS, 2);
		ck_assert(claims(runs));
		/* It is ahead of both, by less than a warp. */
		again();
		short_behind_long(uids, -1, 4, &runs);
		ck_assert(claims(runs));
		/* And by more. */
		again();
		short_behind_long(uids, -1, 6, &runs);
		ck_assert(!claims(runs));
		again();
	}
}
END_TEST

START_TEST(flood_of_short_jobs_gets_ahead_of_a_long_one_once)
{
	uint32_t rows[FAIR_BATCH_JOBS], runs, row;
	int64_t ahead, least = INT64_MAX, most = INT64_MIN;
	uint64_t used[2];

	/* The long job runs whenever no short one claims its worker. */
	short_behind_long(false, 1000, 0, &runs);
	used[0] = cpu(0);
	used[1] = cpu(2);
	for (uint32_t i = 0; i < 4000; i++) {
		now += 100 * US;
		if (fair.clients[2].queued < 10)
			submit(2, 100, 0);
		if (!claims(runs))
			continue;
		fair_charge(&fair, runs, account_close(&accounts[0], now, &row), false);
		do {
			for (uint32_t n = pick(rows, FAIR_BATCH_JOBS); n;)
				run(rows[--n], 50 * US);
		} while (fair.clients[2].queued && claims(runs));
		account_open(&accounts[0], runs, now);
		ahead = (int64_t)(cpu(2) - used[1] - (cpu(0) - used[0]));
		if (i >= 1000) {
			least = min(least, ahead);
			most = max(most, ahead);
		}
	}
	/* By a warp, and then both advance equally. */
	ck_assert_int_ge(least, (int64_t)(4 * MS));
	ck_assert_int_le(most, (int64_t)(6 * MS));
}
END_TEST

START_TEST(time_slices_of_long_jobs_are_long)
{
	uint32_t rows[1], runs, waits;
	uint64_t in;

	long_jobs(100 * MS, 100 * MS, &runs, &waits);
	ck_assert_uint_eq(pick_one(), waits);
	/* Time charged in advance does not count. */
	fair.clients[1].node.v = fair.clients[0].node.v;
	(void)account_close(&accounts[0], now, rows);
	ck_assert_uint_eq(turn_after(runs, FAIR_TURN_LONG / 2, waits), runs);
	account_open(&accounts[0], runs, now);
	fair_count(&fair);
	in = fair_turn_in(&fair, runs, &waits, 1);
	ck_assert_uint_ge(in, FAIR_TURN_LONG / 2 - 10 * US);
	ck_assert_uint_le(in, FAIR_TURN_LONG / 2 + 10 * US);
	(void)account_close(&accounts[0], now, rows);
	ck_assert_uint_eq(turn_after(runs, in + 10 * US, waits), waits);
	ck_assert_uint_eq(fair_turn_in(&fair, runs, &waits, 0), FAIR_NEVER);
}
END_TEST

/* A suspended job was stolen, has ended, and its client has left. */
START_TEST(row_of_a_dead_client_makes_no_client_active)
{
	uint32_t rows[2], dead;

	one_uid(2);
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

CHECK_MAIN("fair_claim")
