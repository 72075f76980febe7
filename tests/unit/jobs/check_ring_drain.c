/* SPDX-License-Identifier: MIT */
/* drain: taking words off the rings, in a whole pool: chains, and each tenant's share. */
#include "common/util.h"
#include "daemon/jobs/ring_drain.h"
#include "daemon/jobs/job_batches.h"
#include "daemon/jobs/pending.h"
#include "shm/ledger.h"
#include "tests/support/intake_rig.h"

static uint64_t refused(void)
{
	return rig_counter(&rig, jobs_refused);
}

START_TEST(chain_of_all_records_runs_each_once)
{
	for (uint32_t workers = 1; workers <= 2; workers++) {
		start(workers);
		for (uint32_t round = 1; round <= 20; round++) {
			/* In reverse order of the table; weights of all kinds. */
			for (uint32_t i = 0; i < RIG_JOBS; i++)
				atomic_store(&fill(i, "intake:count", i ? i - 1 : LAST)->weight,
					     i * i * i);
			publish(RIG_JOBS - 1, round % workers);
			rig_all_done(&rig, 0, RIG_JOBS);
			ck_assert_uint_eq(atomic_load(&ran), round * RIG_JOBS);
		}
		ck_assert_uint_eq(refused(), 0);
		ck_assert_uint_eq(rig_counter(&rig, malformed_slots), 0);
		ck_assert_uint_eq(rig_counter(&rig, drained), 20 * RIG_JOBS);
		rig_stop(&rig);
	}
}
END_TEST

START_TEST(drain_resumes_where_the_last_one_stopped)
{
	start(1);
	/* The first words use some of the steps of a drain, so the chain needs two drains. */
	atomic_store(&flag, 0);
	submit(0, "intake:hold", 0);
	while (!rig_counter(&rig, jobs_started))
		sched_yield();
	for (uint32_t i = 1; i < 100; i++) {
		submit(i, "intake:count", 0);
	}
	chain(100, RIG_JOBS, "intake:count", 0);
	publish(100, 0);
	/* A second time, as a hostile client: each job is refused, and nothing else happens. */
	publish(100, 0);
	atomic_store(&flag, 1);
	rig_all_done(&rig, 0, RIG_JOBS);
	submit(0, "intake:count", 0);
	ck_assert_uint_eq(rig_wait(&rig, 0), JOB_DONE);
	ck_assert_uint_eq(atomic_load(&ran), RIG_JOBS);
	ck_assert_uint_eq(refused(), RIG_JOBS - 100);
	rig_stop(&rig);
}
END_TEST

START_TEST(circular_chain_ends)
{
	start(1);
	fill(0, "intake:count", 1);
	fill(1, "intake:count", 2);
	fill(2, "intake:count", 0);
	fill(3, "intake:count", 3);
	publish(0, 0);
	publish(3, 0);
	submit(4, "intake:count", 0);
	rig_all_done(&rig, 0, 5);
	ck_assert_uint_eq(atomic_load(&ran), 5);
	/* Each chain is followed for as many steps as there are records. */
	ck_assert_uint_eq(refused(), RIG_JOBS - 3 + RIG_JOBS - 1);
	ck_assert_uint_eq(rig_counter(&rig, malformed_slots), 2);
	rig_stop(&rig);
}
END_TEST

START_TEST(chain_with_an_invalid_next_ends_there)
{
	static const uint32_t nowhere[] = { RIG_JOBS, RIG_JOBS + 1, 0x7fffffff, UINT32_MAX - 1 };

	start(1);
	for (uint32_t i = 0; i < ARRAY_SIZE(nowhere); i++) {
		fill(0, "intake:count", 1);
		fill(1, "intake:count", nowhere[i]);
		publish(0, 0);
		rig_all_done(&rig, 0, 2);
	}
	submit(0, "intake:count", 0);
	ck_assert_uint_eq(rig_wait(&rig, 0), JOB_DONE);
	ck_assert_uint_eq(rig_counter(&rig, malformed_slots), ARRAY_SIZE(nowhere));
	rig_stop(&rig);
}
END_TEST

START_TEST(chains_that_share_records_run_each_once)
{
	start(2);
	for (uint32_t round = 0; round < 50; round++) {
		chain(0, 100, "intake:count", 0);
		publish(0, 0);
		publish(50, 1);
		rig_all_done(&rig, 0, 100);
		/* Both words have been taken off the rings. */
		while (intake_pending(rig.pool))
			sched_yield();
	}
	ck_assert_uint_eq(atomic_load(&ran), 50 * 100);
	rig_stop(&rig);
}
END_TEST

static uint32_t passed(struct ledger_ring *side)
{
	return (uint32_t)atomic_load(&side->head);
}

/* Before the workers start: this thread drains, as the dispatcher does. */
static void drain_by_hand(struct pool *pool)
{
	struct ledger_ring *sides[2] = { &pool->arena->rings[0][0], &pool->arena->rings[0][1] };
	struct tenant_segment *tenant = pool->clients.tenants[0].segment;
	uint64_t wasted = 0, position;
	uint32_t drains = 0;

	for (uint32_t ring = 0; ring < 2; ring++) {
		for (uint32_t i = 0; i < RING_SLOTS - 1; i++)
			ck_assert_int_eq(ring_push(&tenant->rings[ring], ring_payload(0, 7, i),
						   &position),
					 RING_OK);
		tenant_mark(tenant, ring);
	}
	while (drain_rings_pending(pool)) {
		uint32_t before = passed(sides[0]) + passed(sides[1]);

		intake_collect(pool, drains++);
		ck_assert_uint_le(passed(sides[0]) + passed(sides[1]) - before, DRAIN_SHARE);
		ck_assert_uint_lt(drains, 20);
	}
	wasted = atomic_load(&pool->fair->tenants[0].wasted);
	ck_assert_uint_ge(wasted, 2 * (RING_SLOTS - 1) * DRAIN_STEP_NS);

	/* Looking at all slots counts as steps, too. */
	ring_set_astray(&tenant->rings[0]);
	tenant_mark(tenant, 0);
	intake_collect(pool, drains);
	ck_assert_uint_ge(atomic_load(&pool->fair->tenants[0].wasted),
			  wasted + DRAIN_MEND * DRAIN_STEP_NS);
	ck_assert(!drain_rings_pending(pool));
}

START_TEST(tenant_gets_a_share_of_a_drain_and_malformed_words_count)
{
	rig_prepare = drain_by_hand;
	start(2);
	ck_assert_uint_eq(rig_counter(&rig, malformed_slots), 2 * (RING_SLOTS - 1));
	submit(0, "intake:count", 0);
	ck_assert_uint_eq(rig_wait(&rig, 0), JOB_DONE);
	rig_stop(&rig);
}
END_TEST

/* A chain of three shares, and a job after it in the same ring. */
static void drain_chain_by_hand(struct pool *pool)
{
	struct tenant_segment *tenant = pool->clients.tenants[0].segment;
	uint64_t position;

	chain(0, 3 * DRAIN_SHARE, "intake:count", 0);
	fill(3 * DRAIN_SHARE, "intake:count", LAST);
	ck_assert_int_eq(ring_push(&tenant->rings[0], ring_payload(0, 1, 0), &position), RING_OK);
	ck_assert_int_eq(ring_push(&tenant->rings[0], ring_payload(0, 1, 3 * DRAIN_SHARE),
				   &position),
			 RING_OK);
	tenant_mark(tenant, 0);
	intake_collect(pool, 0);
	ck_assert_uint_eq(passed(&pool->arena->rings[0][0]), 2);
	ck_assert_uint_eq(fair_queued(pool->fair), 3 * DRAIN_SHARE + 1);
	ck_assert(!drain_rings_pending(pool));
}

START_TEST(job_after_a_long_chain_of_its_uid_is_in_the_same_drain)
{
	rig_prepare = drain_chain_by_hand;
	start(2);
	rig_all_done(&rig, 0, 3 * DRAIN_SHARE + 1);
	ck_assert_uint_eq(atomic_load(&ran), 3 * DRAIN_SHARE + 1);
	rig_stop(&rig);
}
END_TEST

CHECK_MAIN("drain")
