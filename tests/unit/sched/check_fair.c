/* SPDX-License-Identifier: MIT */
/* check_fair.c - the share of each client, and which clients are active. */
#include "tests/support/fair_clock.h"

START_TEST(uids_share_by_weight_for_any_job_lengths)
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

START_TEST(connections_of_a_uid_share_by_weight)
{
	const uint64_t lengths[CLIENTS] = { 20 * US, 5 * US, 40 * US };

	one_uid(1);
	client(1, 0, 200);
	client(2, 0, 400);
	keep_busy(7, 700 * MS, lengths);
	assert_ratio(cpu(1), cpu(0), 1.95, 2.05);
	assert_ratio(cpu(2), cpu(0), 3.9, 4.1);
}
END_TEST

START_TEST(many_connections_of_a_uid_get_no_more_than_one_connection)
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

START_TEST(uid_of_weight_1_is_not_starved_by_one_of_10000)
{
	const uint64_t lengths[CLIENTS] = { 10 * US, 10 * US };

	tenant(0, 1);
	tenant(1, UINT32_MAX); /* clamped */
	client(0, 0, 0);       /* so is this */
	client(1, 1, 100);
	ck_assert_uint_eq(fair.tenants[1].node.weight, FAIR_WEIGHT_MAX);
	ck_assert_uint_eq(fair.clients[0].node.weight, 1);
	keep_busy(3, 3 * NSEC_PER_SEC, lengths);
	/* Its share is 300 us; it runs whole jobs. */
	assert_ratio(cpu(0), 300 * US, 0.5, 2.0);
}
END_TEST

START_TEST(client_that_used_the_pool_alone_is_not_penalized)
{
	const uint64_t lengths[CLIENTS] = { 10 * US, 10 * US };
	uint64_t before;

	one_uid(2);
	keep_busy(1, NSEC_PER_SEC, lengths);
	before = cpu(0);
	keep_busy(3, 20 * MS, lengths);
	assert_ratio(cpu(0) - before, cpu(1), 0.9, 1.1);
}
END_TEST

START_TEST(client_alone_past_the_queues_is_not_penalized)
{
	const uint64_t lengths[CLIENTS] = { 10 * US, 10 * US };
	uint64_t before;

	two_uids();
	submit(0, 1, 0);
	run(pick_one(), 10 * US);
	for (uint32_t i = 1; i < 1000; i++) {
		fair_prepare(&fair, row_of(0, i), 0, FAIR_ANYWHERE);
		ck_assert(fair_direct(&fair, 0, 1));
		run(row_of(0, i), MS);
	}
	/* The other client submits while this one has no job. */
	submit(1, 1, 0);
	before = cpu(0);
	keep_busy(3, 20 * MS, lengths);
	assert_ratio(cpu(0) - before, cpu(1), 0.9, 1.1);
}
END_TEST

START_TEST(sleeping_gives_no_credit)
{
	const uint64_t lengths[CLIENTS] = { 10 * US, 10 * US, 10 * US };
	uint64_t before[3];

	tenant(0, 100);
	tenant(1, 100);
	client(0, 0, 100);
	client(1, 0, 100); /* of the same uid */
	client(2, 1, 100);
	keep_busy(7, 10 * MS, lengths);
	/* Clients 1 and 2 have no jobs for a second. */
	run_queued(10 * US);
	keep_busy(1, NSEC_PER_SEC, lengths);
	for (uint32_t i = 0; i < 3; i++)
		before[i] = cpu(i);
	keep_busy(7, 20 * MS, lengths);
	assert_ratio(cpu(2) - before[2], cpu(0) - before[0] + cpu(1) - before[1], 0.9, 1.1);
	assert_ratio(cpu(1) - before[1], cpu(0) - before[0], 0.9, 1.1);
}
END_TEST

START_TEST(two_busy_clients_differ_by_at_most_a_batch)
{
	uint32_t rows[FAIR_BATCH_JOBS];

	one_uid(2);
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

/* One connection stays; two of the same uid are new ones for each of their jobs. */
START_TEST(short_lived_connections_take_no_share_from_a_lasting_one)
{
	uint64_t ran[3] = { 0 };
	bool queued[3] = { false };

	one_uid(3);
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
		row = pick_one();
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

/* A thread that has read the clock before another thread settled must not settle again. */
START_TEST(older_clock_settles_nothing)
{
	settle();
	fair_lock(&fair);
	fair_settle_sometimes(&fair, now - 1);
	fair_unlock(&fair);
	ck_assert_uint_eq(fair.settled_at, now);
}
END_TEST

START_TEST(job_weight_takes_no_share_from_other_connections)
{
	one_uid(2);
	for (uint32_t i = 0; i < 4000; i++) {
		if (!fair.clients[0].queued)
			submit(0, 10, UINT32_MAX);
		if (!fair.clients[1].queued)
			submit(1, 10, 1);
		run(pick_one(), 10 * US);
	}
	assert_ratio(cpu(0), cpu(1), 0.97, 1.03);
}
END_TEST

/* As after years of CPU time: virtual times beyond half of the number range. */
START_TEST(late_or_long_absent_client_is_not_starved)
{
	const uint64_t lengths[CLIENTS] = { 10 * US, 10 * US, 10 * US, 10 * US };
	const uint64_t far = UINT64_C(1) << 59;
	uint64_t before[4];

	tenant(0, 100);
	tenant(1, 100);
	client(0, 0, 100);
	client(1, 0, 100);
	client(2, 1, 100);
	/* Clients 1 and 2 run and leave; client 0 continues alone. */
	keep_busy(7, MS, lengths);
	run_queued(10 * US);
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

/* While client 1, of large weight, has only a running strand, the floor advances as slowly as its
 * virtual time. The clients of small weights get far beyond the floor, but do not wrap. */
static void strand_beside_floods(void)
{
	const uint64_t lengths[CLIENTS] = { MS, 0, 250 * US };
	const uint64_t far = UINT64_C(1) << 45;
	uint32_t row, strand = submit(1, 1, 0);
	uint64_t before[3];

	ck_assert_uint_eq(pick_one(), strand);
	/* They always have one queued job. */
	submit(0, 1, 0);
	submit(2, 1, 0);
	for (uint32_t i = 0; i < 100; i++) {
		/* On many workers: twice the time for twice the weight. */
		submit(0, 1, 0);
		submit(2, 1, 0);
		for (uint32_t k = 0; k < 2; k++) {
			row = pick_one();
			run(row, row / JOBS ? 2 * far : far);
		}
		fair_charge(&fair, strand, US, false);
		settle();
		submit(1, 1, 0);
		row = pick_one();
		ck_assert_uint_eq(row / JOBS, 1);
		run(row, 10 * US);
	}
	/* Until they are level. */
	keep_busy(5, 4 * WORKERS * FAIR_CREDIT, lengths);
	for (uint32_t i = 0; i < 3; i++)
		before[i] = cpu(i);
	keep_busy(5, 2 * NSEC_PER_SEC, lengths);
	assert_ratio(cpu(2) - before[2], cpu(0) - before[0], 1.9, 2.1);
	/* All charged at one settlement. */
	fair_charge(&fair, row_of(0, 0), UINT64_C(1) << 50, false);
	settle();
	submit(1, 1, 0);
	ck_assert_uint_eq(pick_one() / JOBS, 1);
}

START_TEST(client_with_a_strand_of_days_runs_before_floods)
{
	static const uint32_t weights[] = { 1, FAIR_WEIGHT_MAX, 2 };

	for (uint32_t i = 0; i < 3; i++) {
		tenant(i, weights[i]);
		client(i, i, 100);
	}
	strand_beside_floods();
	again();
	tenant(0, 100);
	for (uint32_t i = 0; i < 3; i++)
		client(i, 0, weights[i]);
	strand_beside_floods();
}
END_TEST

/* The other client had all workers except one for an hour. The first client gets limited credit for
 * that, not an hour. */
static void credit_of_a_strand(void)
{
	const uint64_t lengths[CLIENTS] = { 20 * MS, 20 * MS };
	const uint64_t credit = WORKERS * FAIR_CREDIT;
	uint32_t row, strand = submit(1, 1, 0);
	uint64_t before[2];

	ck_assert_uint_eq(pick_one(), strand);
	for (uint32_t i = 0; i < 3600; i++) {
		submit(0, 1, 0);
		row = pick_one();
		fair_charge(&fair, strand, NSEC_PER_SEC / 63, false);
		run(row, NSEC_PER_SEC);
		settle();
	}
	for (uint32_t i = 0; i < 2; i++)
		before[i] = cpu(i);
	keep_busy(3, 3 * credit, lengths);
	assert_ratio(cpu(0) - before[0], credit, 0.95, 1.05);
	assert_ratio(cpu(1) - before[1], 2 * credit, 0.95, 1.05);
}

/* Leaves of a second on all of 16 workers, with small jobs at the same time, for several
 * weights. */
START_TEST(long_leaves_are_charged)
{
	static const uint32_t weights[] = { 1, 100, FAIR_WEIGHT_MAX };
	const uint64_t lengths[CLIENTS] = { 16 * NSEC_PER_SEC, 10 * MS };
	uint64_t before[2];

	for (uint32_t i = 0; i < 6; i++) {
		if (i)
			again();
		tenant(0, i < 3 ? weights[i] : 100);
		tenant(1, i < 3 ? weights[i] : 100);
		client(0, 0, i < 3 ? 100 : weights[i - 3]);
		client(1, i < 3, i < 3 ? 100 : weights[i - 3]);
		keep_busy(3, 100 * NSEC_PER_SEC, lengths);
		for (uint32_t k = 0; k < 2; k++)
			before[k] = cpu(k);
		keep_busy(3, 640 * NSEC_PER_SEC, lengths);
		assert_ratio(cpu(0) - before[0], cpu(1) - before[1], 0.9, 1.15);
	}
}
END_TEST

START_TEST(client_that_could_not_use_its_share_gets_limited_credit)
{
	two_uids();
	credit_of_a_strand();
	again();
	one_uid(2);
	credit_of_a_strand();
}
END_TEST

/* Each job has ended before a thread looks. */
START_TEST(absent_client_is_not_starved_after_unobserved_jobs)
{
	const uint64_t lengths[CLIENTS] = { 10 * US, 10 * US };
	const uint64_t far = UINT64_C(1) << 48;
	uint32_t rows[FAIR_BATCH_JOBS];
	uint64_t before[2];

	tenant(0, 1);
	tenant(1, 1);
	for (uint32_t others = 0; others < 2; others++) {
		client(0, 0, 1);
		client(1, others, 1);
		for (uint32_t times = 1; times < 8; times++) {
			for (uint32_t i = 0; i < times; i++) {
				submit(0, 1, 0);
				ck_assert_uint_eq(pick(rows, FAIR_BATCH_JOBS), 1);
				run(rows[0], far);
				settle();
				ck_assert_uint_eq(fair.n_active, 0);
			}
			for (uint32_t i = 0; i < 2; i++)
				before[i] = cpu(i);
			keep_busy(3, 4 * MS, lengths);
			assert_ratio(cpu(0) - before[0], cpu(1) - before[1], 0.8, 1.2);
			run_queued(10 * US);
			settle();
		}
	}
}
END_TEST

START_TEST(work_outside_jobs_is_charged_to_its_uid)
{
	const uint64_t lengths[CLIENTS] = { 10 * US, 10 * US };

	two_uids();
	keep_busy(3, 10 * MS, lengths);
	uint64_t before[2] = { cpu(0), cpu(1) };

	fair_waste(&fair, 0, 5 * MS);
	keep_busy(3, 20 * MS, lengths);
	assert_ratio(cpu(1) - before[1] - 5 * MS, cpu(0) - before[0], 0.9, 1.1);
}
END_TEST

START_TEST(slot_is_reused_before_its_end_was_seen)
{
	uint32_t rows[FAIR_BATCH_JOBS];

	one_uid(2);
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

/* The slot is reused while it is among the active ones. */
START_TEST(new_client_in_an_active_slot_leaves_no_stale_entry)
{
	uint32_t rows[2];

	one_uid(2);
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

/* A uid whose weight is high while jobs are picked and low when they end gets no advantage; nor the
 * other way round. */
START_TEST(weight_change_refunds_only_what_was_charged)
{
	static const uint32_t weights[2][2] = { { FAIR_WEIGHT_MAX, 1 }, { 1, FAIR_WEIGHT_MAX } };

	for (uint32_t i = 0; i < 2; i++) {
		uint32_t rows[8], n;
		uint64_t v;

		again();
		tenant(0, weights[i][0]);
		tenant(1, 100);
		client(0, 0, 100);
		client(1, 1, 100);
		submit(0, 8, 0);
		v = fair.tenants[0].node.v;
		n = pick(rows, 8);
		ck_assert_uint_gt(n, 1);
		ck_assert_uint_gt(fair.tenants[0].node.v, v);
		tenant(0, weights[i][1]);
		ck_assert_uint_eq(fair.tenants[0].node.weight, weights[i][1]);
		/* No time was used. */
		for (uint32_t k = 0; k < n; k++)
			run(rows[k], 0);
		settle();
		ck_assert_uint_eq(fair.tenants[0].node.v, v);
	}
}
END_TEST

/* From then on, also for queued jobs. */
START_TEST(weight_change_applies_from_then_on)
{
	const uint64_t lengths[CLIENTS] = { 10 * US, 10 * US };
	uint64_t before;

	two_uids();
	keep_busy(3, 100 * MS, lengths);
	assert_ratio(cpu(1), cpu(0), 0.97, 1.03);
	before = cpu(1);
	tenant(1, 300);
	keep_busy(3, 400 * MS, lengths);
	assert_ratio(cpu(1) - before, 300 * MS, 0.95, 1.05);
}
END_TEST

CHECK_MAIN("fair")
