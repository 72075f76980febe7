/* SPDX-License-Identifier: MIT */
/* check_intake.c - from ring to root deque, in a whole pool: chains, deadlines, batches */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <forkd/task.h>

#include "common/clock.h"
#include "common/util.h"
#include "daemon/drain.h"
#include "daemon/root.h"
#include "shm/futex.h"
#include "shm/wake.h"
#define CHECK_TIMEOUT 60
#include "tests/check_unit.h"
#include "tests/rig.h"

#define LAST UINT32_MAX

static struct rig rig;
static _Atomic uint64_t ran;
static _Atomic uint32_t flag;
static uint32_t collected;

FK_TASK(fk_void, count, (), )
{
	atomic_fetch_add(&ran, 1);
	FK_LEAF();
}
FK_BODY(count)
{
	FK_RETURN();
}
FK_END(count)

FK_TASK(fk_void, set, (), )
{
	atomic_fetch_add(&ran, 1);
	atomic_store(&flag, 1);
	FK_LEAF();
}
FK_BODY(set)
{
	FK_RETURN();
}
FK_END(set)

/* Forks until a queued job has set the flag. */
FK_TASK(fk_void, await, (), )
FK_NO_LEAF(await)
{
	while (!atomic_load(&flag)) {
		FK_FORK_VOID(count);
		FK_JOIN();
	}
	FK_RETURN();
}
FK_END(await)

/* Keeps its worker, and looks at nothing, until the flag is set. */
FK_TASK(fk_void, hold, (), )
{
	while (!atomic_load(&flag))
		;
	FK_LEAF();
}
FK_BODY(hold)
{
	FK_RETURN();
}
FK_END(hold)

/* Where a strict job runs, and how many of the flood had run when the other client's job began. */
static _Atomic uint32_t on_worker, on_group;
static _Atomic uint64_t before_other;

FK_TASK(fk_void, strict, (), )
{
	if (worker_self()->index == atomic_load(&on_worker))
		atomic_fetch_add(&ran, 1);
	FK_LEAF();
}
FK_BODY(strict)
{
	FK_RETURN();
}
FK_END(strict)

FK_TASK(fk_void, near, (), )
{
	if (worker_self()->group == atomic_load(&on_group))
		atomic_fetch_add(&ran, 1);
	FK_LEAF();
}
FK_BODY(near)
{
	FK_RETURN();
}
FK_END(near)

FK_TASK(fk_void, other, (), )
{
	atomic_store(&before_other, atomic_load(&ran));
	FK_LEAF();
}
FK_BODY(other)
{
	FK_RETURN();
}
FK_END(other)

FK_EXPORT(strict, "-> ", 0, "Counts where it ran")
FK_EXPORT(near, "-> ", 0, "Counts in which group it ran")
FK_EXPORT(other, "-> ", 0, "Notes how many have run")
FK_EXPORT(count, "-> ", 0, "Counts that it ran")
FK_EXPORT(set, "-> ", 0, "Sets the flag")
FK_EXPORT(await, "-> ", 0, "Forks until the flag is set")
FK_EXPORT(hold, "-> ", 0, "Waits for the flag")
FK_MODULE(intake, "What check_intake runs")

static void start(uint32_t workers)
{
	atomic_store(&ran, 0);
	atomic_store(&flag, 0);
	rig_start(&rig, workers, &fk_module, false);
}

/* Fills a record; next: the chain's next one, or LAST. */
static struct job *fill(uint32_t index, const char *task, uint32_t next)
{
	struct job *job = &rig.jobs[index];
	int t = board_find_task(rig.pool->board, task);

	ck_assert_int_ge(t, 0);
	rig.generation[index]++;
	atomic_store(&job->task, (uint32_t)t);
	atomic_store(&job->task_hash, rig.pool->board->tasks[t].hash);
	atomic_store(&job->generation, rig.generation[index]);
	atomic_store(&job->args_size, 0);
	atomic_store(&job->deadline_ns, 0);
	atomic_store(&job->weight, 0);
	atomic_store(&job->place, 0);
	atomic_store(&job->next, next == LAST ? 0 : next + 1);
	atomic_store(&job->state, job_state(rig.generation[index], JOB_PENDING));
	return job;
}

/* One word for a ring. */
static void publish(uint32_t index, uint32_t ring)
{
	uint64_t position;

	while (ring_push(&rig.tenant->rings[ring], ring_payload(0, 1, index), &position) != RING_OK)
		sched_yield();
	tenant_mark(rig.tenant, ring);
	wake_published();
	if (!worker_wake_one(rig.pool, NULL))
		pool_wake_dispatcher(rig.pool);
}

/* A second client, of another uid or of the same one. */
struct other {
	int tenant_fd, client_fd;
	struct tenant_segment *tenant;
	struct job *jobs;
	uint32_t slot;
};

static struct other other_client(bool same_uid)
{
	struct other o = { .slot = 1 };
	uint64_t size = client_segment_heap_offset(RIG_JOBS) + 4096;
	uint32_t tenant = same_uid ? 0 : 1;

	o.tenant_fd = segment_create("tenant", SEGMENT_TENANT,
				     tenant_segment_size(rig.pool->n_workers), 1, 0, 0600);
	o.client_fd = segment_create("client", SEGMENT_CLIENT, size, 1, 0, 0600);
	ck_assert_int_ge(o.tenant_fd, 0);
	ck_assert_int_ge(o.client_fd, 0);
	if (tenant)
		ck_assert_int_eq(intake_add_tenant(rig.pool, tenant, 1, o.tenant_fd), 0);
	ck_assert_int_eq(
		intake_add_client(rig.pool, o.slot, 1, tenant, tenant, RIG_JOBS, o.client_fd), 0);
	o.tenant = rig.pool->registry.tenants[tenant].segment;
	o.jobs = rig.pool->registry.clients[o.slot].jobs;
	return o;
}

static void other_submit(struct other *o, uint32_t index, const char *task, uint32_t place)
{
	int t = board_find_task(rig.pool->board, task);
	struct job *job = &o->jobs[index];
	uint64_t position;

	ck_assert_int_ge(t, 0);
	atomic_store(&job->task, (uint32_t)t);
	atomic_store(&job->task_hash, rig.pool->board->tasks[t].hash);
	atomic_store(&job->generation, atomic_load(&job->generation) + 1);
	atomic_store(&job->place, place);
	atomic_store(&job->state, job_state(atomic_load(&job->generation), JOB_PENDING));
	ck_assert_int_eq(ring_push(&o->tenant->rings[0], ring_payload(o->slot, 1, index),
				   &position),
			 RING_OK);
	tenant_mark(o->tenant, 0);
	wake_published();
	if (!worker_wake_one(rig.pool, NULL))
		pool_wake_dispatcher(rig.pool);
}

static void other_wait(struct other *o, uint32_t index, uint32_t outcome)
{
	struct job *job = &o->jobs[index];
	uint32_t value;

	while ((value = job_announce_waiter(job)))
		futex_wait(&job->state, value, 0);
	ck_assert_uint_eq(job_outcome(job), outcome);
}

static void other_end(struct other *o)
{
	close(o->tenant_fd);
	close(o->client_fd);
}

static uint64_t refused(void)
{
	return rig_counter(&rig, refused);
}

START_TEST(a_chain_of_all_records_is_one_word_and_each_runs_once)
{
	for (uint32_t workers = 1; workers <= 2; workers++) {
		start(workers);
		for (uint32_t round = 1; round <= 20; round++) {
			/* Against their order in the table; weights of all kinds. */
			for (uint32_t i = 0; i < RIG_JOBS; i++)
				atomic_store(&fill(i, "intake:count", i ? i - 1 : LAST)->weight,
					     i * i * i);
			publish(RIG_JOBS - 1, round % workers);
			for (uint32_t i = 0; i < RIG_JOBS; i++)
				ck_assert_uint_eq(rig_wait(&rig, i), JOB_DONE);
			ck_assert_uint_eq(atomic_load(&ran), round * RIG_JOBS);
		}
		ck_assert_uint_eq(refused(), 0);
		ck_assert_uint_eq(rig_counter(&rig, garbage), 0);
		ck_assert_uint_eq(rig_counter(&rig, drained), 20 * RIG_JOBS);
		rig_stop(&rig);
	}
}
END_TEST

START_TEST(a_walk_goes_on_where_it_was_left)
{
	start(1);
	/* The first words use up some of the steps of a drain, so the chain takes two. */
	atomic_store(&flag, 0);
	fill(0, "intake:hold", LAST);
	publish(0, 0);
	while (!rig_counter(&rig, roots))
		sched_yield();
	for (uint32_t i = 1; i < 100; i++) {
		fill(i, "intake:count", LAST);
		publish(i, 0);
	}
	for (uint32_t i = 100; i < RIG_JOBS; i++)
		fill(i, "intake:count", i + 1 < RIG_JOBS ? i + 1 : LAST);
	publish(100, 0);
	/* A second time, as a client that is up to no good: each is refused, and nothing else. */
	publish(100, 0);
	atomic_store(&flag, 1);
	for (uint32_t i = 0; i < RIG_JOBS; i++)
		ck_assert_uint_eq(rig_wait(&rig, i), JOB_DONE);
	fill(0, "intake:count", LAST);
	publish(0, 0);
	ck_assert_uint_eq(rig_wait(&rig, 0), JOB_DONE);
	ck_assert_uint_eq(atomic_load(&ran), RIG_JOBS);
	ck_assert_uint_eq(refused(), RIG_JOBS - 100);
	rig_stop(&rig);
}
END_TEST

START_TEST(a_chain_that_is_a_ring_ends)
{
	start(1);
	fill(0, "intake:count", 1);
	fill(1, "intake:count", 2);
	fill(2, "intake:count", 0);
	fill(3, "intake:count", 3);
	publish(0, 0);
	publish(3, 0);
	fill(4, "intake:count", LAST);
	publish(4, 0);
	for (uint32_t i = 0; i < 5; i++)
		ck_assert_uint_eq(rig_wait(&rig, i), JOB_DONE);
	ck_assert_uint_eq(atomic_load(&ran), 5);
	/* As many steps as there are records, each. */
	ck_assert_uint_eq(refused(), RIG_JOBS - 3 + RIG_JOBS - 1);
	ck_assert_uint_eq(rig_counter(&rig, garbage), 2);
	rig_stop(&rig);
}
END_TEST

START_TEST(a_chain_that_leads_nowhere_ends_there)
{
	static const uint32_t nowhere[] = { RIG_JOBS, RIG_JOBS + 1, 0x7fffffff, UINT32_MAX - 1 };

	start(1);
	for (uint32_t i = 0; i < ARRAY_SIZE(nowhere); i++) {
		fill(0, "intake:count", 1);
		fill(1, "intake:count", nowhere[i]);
		publish(0, 0);
		ck_assert_uint_eq(rig_wait(&rig, 0), JOB_DONE);
		ck_assert_uint_eq(rig_wait(&rig, 1), JOB_DONE);
	}
	fill(0, "intake:count", LAST);
	publish(0, 0);
	ck_assert_uint_eq(rig_wait(&rig, 0), JOB_DONE);
	ck_assert_uint_eq(rig_counter(&rig, garbage), ARRAY_SIZE(nowhere));
	rig_stop(&rig);
}
END_TEST

START_TEST(chains_that_share_records_run_each_once)
{
	start(2);
	for (uint32_t round = 0; round < 50; round++) {
		for (uint32_t i = 0; i < 100; i++)
			fill(i, "intake:count", i < 99 ? i + 1 : LAST);
		publish(0, 0);
		publish(50, 1);
		for (uint32_t i = 0; i < 100; i++)
			ck_assert_uint_eq(rig_wait(&rig, i), JOB_DONE);
		/* Both words are off the rings. */
		while (intake_pending(rig.pool))
			sched_yield();
	}
	ck_assert_uint_eq(atomic_load(&ran), 50 * 100);
	rig_stop(&rig);
}
END_TEST

START_TEST(a_queued_job_past_its_deadline_expires_and_does_not_run)
{
	struct job *late, *early;

	start(1);
	late = fill(0, "intake:count", LAST);
	atomic_store(&late->deadline_ns, 1);
	publish(0, 0);
	ck_assert_uint_eq(rig_wait(&rig, 0), JOB_EXPIRED);
	early = fill(1, "intake:count", LAST);
	atomic_store(&early->deadline_ns, UINT64_MAX);
	publish(1, 0);
	ck_assert_uint_eq(rig_wait(&rig, 1), JOB_DONE);
	ck_assert_uint_eq(atomic_load(&ran), 1);
	ck_assert_uint_eq(rig_counter(&rig, jobs_failed) + rig_counter(&rig, dropped), 1);
	rig_stop(&rig);
}
END_TEST

/* The job that ends it stands behind it in the same batch: nobody else can come to it. */
START_TEST(a_job_behind_another_of_its_batch_is_taken_back_and_goes_before_it)
{
	start(1);
	fill(0, "intake:await", 1);
	fill(1, "intake:set", LAST);
	publish(0, 0);
	ck_assert_uint_eq(rig_wait(&rig, 1), JOB_DONE);
	ck_assert_uint_eq(rig_wait(&rig, 0), JOB_DONE);
	ck_assert_uint_ge(rig_counter(&rig, moved), 1);
	rig_stop(&rig);
}
END_TEST

/* Its worker never looks; the idle one takes half of the batch in one step, then the rest. */
START_TEST(jobs_behind_one_that_keeps_its_worker_go_to_another)
{
	start(2);
	fill(0, "intake:hold", 1);
	for (uint32_t i = 1; i < 100; i++)
		fill(i, "intake:count", i < 99 ? i + 1 : LAST);
	publish(0, 0);
	for (uint32_t i = 1; i < 100; i++)
		ck_assert_uint_eq(rig_wait(&rig, i), JOB_DONE);
	ck_assert_uint_eq(job_outcome(&rig.jobs[0]), JOB_PENDING);
	atomic_store(&flag, 1);
	ck_assert_uint_eq(rig_wait(&rig, 0), JOB_DONE);
	rig_stop(&rig);
}
END_TEST

START_TEST(what_a_job_used_is_charged_to_its_client)
{
	struct board_client *board;
	uint64_t before;

	start(2);
	board = &rig.pool->board->clients[0];
	before = atomic_load(&board->cpu_ns);
	fill(0, "intake:await", LAST);
	publish(0, 0);
	while (account_row(&rig.pool->workers[0].account) == ACCOUNT_NOBODY &&
	       account_row(&rig.pool->workers[1].account) == ACCOUNT_NOBODY)
		sched_yield();
	/* A whole job of one worker, by the clock that both have. */
	uint64_t from = clock_ns();

	while (clock_ns() < from + NSEC_PER_MSEC)
		sched_yield();
	fill(1, "intake:set", LAST);
	publish(1, 0);
	ck_assert_uint_eq(rig_wait(&rig, 0), JOB_DONE);
	ck_assert_uint_eq(rig_wait(&rig, 1), JOB_DONE);
	ck_assert_uint_ge(atomic_load(&board->cpu_ns) - before, NSEC_PER_MSEC);
	rig_stop(&rig);
}
END_TEST

#define STRICT(index) job_place(JOB_PLACE_WORKER, index, 1)

/* Each on its worker, whoever takes them off the rings; sleepers are woken. */
START_TEST(strict_jobs_run_where_they_are_to)
{
	start(4);
	for (uint32_t round = 0; round < 40; round++) {
		atomic_store(&ran, 0);
		atomic_store(&on_worker, round % 4);
		for (uint32_t i = 0; i < 100; i++)
			atomic_store(&fill(i, "intake:strict", i < 99 ? i + 1 : LAST)->place,
				     STRICT(round % 4));
		publish(0, round * 7 % 4);
		for (uint32_t i = 0; i < 100; i++)
			ck_assert_uint_eq(rig_wait(&rig, i), JOB_DONE);
		ck_assert_uint_eq(atomic_load(&ran), 100);
	}
	/* Nowhere. */
	atomic_store(&fill(0, "intake:strict", LAST)->place, STRICT(4));
	publish(0, 0);
	ck_assert_uint_eq(rig_wait(&rig, 0), JOB_FAILED);
	ck_assert_int_eq(atomic_load(&rig.jobs[0].code), -EINVAL);
	ck_assert_uint_eq(fair_placed(&rig.pool->intake.fair), 0);
	rig_stop(&rig);
}
END_TEST

/* In any worker of the group that its node is, whoever takes them off the rings. */
START_TEST(strict_jobs_of_a_node_run_on_its_workers)
{
	atomic_store(&ran, 0);
	atomic_store(&flag, 0);
	rig_start_on(&rig, "numa:2 core:2 pu:1", 4, &fk_module, false);
	for (uint32_t round = 0; round < 20; round++) {
		atomic_store(&ran, 0);
		atomic_store(&on_group, round % 2);
		for (uint32_t i = 0; i < 100; i++)
			atomic_store(&fill(i, "intake:near", i < 99 ? i + 1 : LAST)->place,
				     job_place(JOB_PLACE_NODE, round % 2, 1));
		publish(0, round % 4);
		for (uint32_t i = 0; i < 100; i++)
			ck_assert_uint_eq(rig_wait(&rig, i), JOB_DONE);
		ck_assert_uint_eq(atomic_load(&ran), 100);
	}
	/* A node that is not there. */
	atomic_store(&fill(0, "intake:near", LAST)->place, job_place(JOB_PLACE_NODE, 2, 1));
	publish(0, 0);
	ck_assert_uint_eq(rig_wait(&rig, 0), JOB_FAILED);
	ck_assert_int_eq(atomic_load(&rig.jobs[0].code), -EINVAL);
	rig_stop(&rig);
}
END_TEST

/* One worker in a leaf while a flood for it comes, and then another client's job. */
START_TEST(a_flood_of_strict_jobs_lets_other_clients_pass)
{
	for (int same_uid = 0; same_uid < 2; same_uid++)
		for (int strict = 0; strict < 2; strict++) {
			struct other o;

			start(1);
			o = other_client(same_uid);
			atomic_store(&on_worker, 0);
			fill(0, "intake:hold", LAST);
			publish(0, 0);
			while (!rig_counter(&rig, roots))
				sched_yield();
			for (uint32_t i = 1; i < 900; i++)
				atomic_store(
					&fill(i, "intake:strict", i < 899 ? i + 1 : LAST)->place,
					STRICT(0));
			publish(1, 0);
			/* By the dispatcher: the worker does not come to it. */
			while (fair_placed(&rig.pool->intake.fair) < 899)
				sched_yield();
			other_submit(&o, 0, "intake:other", strict ? STRICT(0) : 0);
			while (fair_placed(&rig.pool->intake.fair) +
				       fair_queued(&rig.pool->intake.fair) <
			       900)
				sched_yield();
			atomic_store(&flag, 1);
			other_wait(&o, 0, JOB_DONE);
			for (uint32_t i = 0; i < 900; i++)
				ck_assert_uint_eq(rig_wait(&rig, i), JOB_DONE);
			ck_assert_uint_eq(atomic_load(&ran), 899);
			ck_assert_uint_le(atomic_load(&before_other), 2);
			rig_stop(&rig);
			other_end(&o);
		}
}
END_TEST

/* It runs without end, and has had more than the other client: it makes way at a fork. */
START_TEST(a_strict_job_goes_before_a_giant_on_its_worker)
{
	struct other o;

	start(2);
	o = other_client(false);
	/* Nobody steals it. */
	atomic_store(&fill(1, "intake:hold", LAST)->place, STRICT(0));
	publish(1, 0);
	while (!rig_counter(&rig, roots))
		sched_yield();
	atomic_store(&fill(0, "intake:await", LAST)->place, STRICT(1));
	publish(0, 0);
	while (rig_counter(&rig, roots) < 2)
		sched_yield();
	other_submit(&o, 0, "intake:set", STRICT(1));
	other_wait(&o, 0, JOB_DONE);
	ck_assert_uint_eq(rig_wait(&rig, 0), JOB_DONE);
	ck_assert_uint_eq(rig_wait(&rig, 1), JOB_DONE);
	ck_assert_uint_ge(rig_counter(&rig, moved), 1);
	rig_stop(&rig);
	other_end(&o);
}
END_TEST

static uint32_t passed(struct ledger_ring *side)
{
	return (uint32_t)atomic_load(&side->head);
}

/* Before there are workers: this thread drains, as the dispatcher would. */
static void drain_by_hand(struct pool *pool)
{
	struct ledger_ring *sides[2] = { &pool->arena->rings[0][0], &pool->arena->rings[0][1] };
	struct tenant_segment *tenant = pool->registry.tenants[0].segment;
	uint64_t wasted = 0, position;

	for (uint32_t ring = 0; ring < 2; ring++) {
		for (uint32_t i = 0; i < RING_SLOTS - 1; i++)
			ck_assert_int_eq(ring_push(&tenant->rings[ring], ring_payload(0, 7, i),
						   &position),
					 RING_OK);
		tenant_mark(tenant, ring);
	}
	for (uint32_t drains = 1; drain_rings_pending(pool); drains++) {
		uint32_t before = passed(sides[0]) + passed(sides[1]);

		intake_collect(pool, collected++);
		ck_assert_uint_le(passed(sides[0]) + passed(sides[1]) - before, DRAIN_SHARE);
		ck_assert_uint_lt(drains, 20);
	}
	wasted = atomic_load(&pool->intake.fair.tenants[0].wasted);
	ck_assert_uint_ge(wasted, 2 * (RING_SLOTS - 1) * DRAIN_STEP_NS);

	/* Looking at all slots counts, too. */
	atomic_store(&tenant->rings[0].astray, 1);
	tenant_mark(tenant, 0);
	intake_collect(pool, collected++);
	ck_assert_uint_ge(atomic_load(&pool->intake.fair.tenants[0].wasted),
			  wasted + DRAIN_MEND * DRAIN_STEP_NS);
	ck_assert(!drain_rings_pending(pool));
}

START_TEST(a_tenant_takes_a_share_of_a_drain_and_is_charged_for_what_is_no_job)
{
	rig_prepare = drain_by_hand;
	start(2);
	ck_assert_uint_eq(rig_counter(&rig, garbage), 2 * (RING_SLOTS - 1));
	fill(0, "intake:count", LAST);
	publish(0, 0);
	ck_assert_uint_eq(rig_wait(&rig, 0), JOB_DONE);
	rig_stop(&rig);
}
END_TEST

/* The dispatcher sleeps; true if it was woken since. */
static void let_dispatcher_sleep(struct pool *pool)
{
	(void)wake_prepare(&pool->board->dispatcher);
}

static bool dispatcher_was_woken(struct pool *pool)
{
	return wake_state(wake_load(&pool->board->dispatcher)) != WAKE_SLEEPING;
}

/* Records first to last, a word each, as the only worker's next jobs. */
static void words(uint32_t first, uint32_t last)
{
	uint64_t position;

	for (uint32_t i = first; i <= last; i++) {
		fill(i, "intake:count", LAST);
		ck_assert_int_eq(ring_push(&rig.tenant->rings[0], ring_payload(0, 1, i), &position),
				 RING_OK);
	}
	tenant_mark(rig.tenant, 0);
}

/* Before there are workers: this thread is the only one, busy, and nobody else looks. */
static void take_by_hand(struct pool *pool)
{
	struct worker *w = &pool->workers[0];
	uint32_t row = LAST;

	/* A lone one is for nobody else. */
	words(0, 0);
	let_dispatcher_sleep(pool);
	ck_assert(intake_drain(w, &row));
	ck_assert_uint_eq(row, 0);
	ck_assert_uint_eq(w->roots.split, 0);
	ck_assert_uint_eq(pool->root_words[0], 0);
	ck_assert(!dispatcher_was_woken(pool));
	root_drop(pool, row, JOB_CANCELLED, 0);

	/* Of more, somebody is told. */
	words(1, 3);
	let_dispatcher_sleep(pool);
	ck_assert(intake_drain(w, &row));
	ck_assert_uint_eq(row, 1);
	ck_assert_uint_eq(deque_size(&w->roots), 2);
	ck_assert(dispatcher_was_woken(pool));

	/* The worker runs that one: those behind it are taken back, and go before it. */
	let_dispatcher_sleep(pool);
	w->job = row;
	ck_assert(intake_preempt(w));
	ck_assert_uint_eq(w->preempted, row);
	ck_assert_uint_eq(deque_size(&w->roots), 2);
	ck_assert(dispatcher_was_woken(pool));

	/* More of them, for which it makes way. */
	for (uint32_t i = 0; i < 2; i++) {
		uint64_t taken, n;

		ck_assert_int_eq(deque_steal(&w->roots, &taken, 1, &n), DEQUE_STOLEN);
		root_drop(pool, (uint32_t)taken, JOB_CANCELLED, 0);
	}
	words(4, 6);
	intake_collect(pool, collected++);
	let_dispatcher_sleep(pool);
	ck_assert(intake_again(w, &row));
	ck_assert_uint_eq(row, 4);
	ck_assert_uint_eq(deque_size(&w->roots), 2);
	ck_assert(dispatcher_was_woken(pool));
	root_drop(pool, 1, JOB_CANCELLED, 0);
	root_drop(pool, row, JOB_CANCELLED, 0);
	w->job = WORKER_NO_JOB;
	/* Each counts where it alone stores. */
	ck_assert_uint_eq(w->counters->drained, 4);
	ck_assert_uint_eq(w->counters->dropped, 0);
	ck_assert_uint_eq(pool->board->counters[BOARD_POOL].drained, 3);
	ck_assert_uint_eq(pool->board->counters[BOARD_POOL].dropped, 5);
	wake_store(&pool->board->dispatcher, WAKE_LOOKING);
}

START_TEST(who_takes_more_than_it_starts_tells_somebody)
{
	rig_prepare = take_by_hand;
	start(1);
	ck_assert_uint_eq(rig_wait(&rig, 5), JOB_DONE);
	ck_assert_uint_eq(rig_wait(&rig, 6), JOB_DONE);
	ck_assert_uint_eq(atomic_load(&ran), 2);
	rig_stop(&rig);
}
END_TEST

/* Before there are workers: a client that leaves a full queue. */
static void leave_by_hand(struct pool *pool)
{
	words(0, 2 * INTAKE_CUT);
	intake_collect(pool, 0);
	ck_assert_uint_eq(fair_queued(&pool->intake.fair), 2 * INTAKE_CUT + 1);
	registry_gone(pool, 0, 1);
	/* Some at a time, and at once again as long as there may be more. */
	ck_assert_int_eq(intake_release(pool), INTAKE_MORE);
	ck_assert_uint_eq(fair_queued(&pool->intake.fair), INTAKE_CUT + 1);
	ck_assert_int_eq(intake_release(pool), INTAKE_MORE);
	ck_assert_uint_eq(pool->registry.clients[0].state, CLIENT_DYING);
	ck_assert_int_eq(intake_release(pool), INTAKE_NONE);
	ck_assert_uint_eq(pool->registry.clients[0].state, CLIENT_NONE);
	ck_assert_uint_eq(pool->board->counters[BOARD_POOL].dropped, 2 * INTAKE_CUT + 1);
}

START_TEST(jobs_of_a_client_that_left_end_some_at_a_time_without_a_pause)
{
	rig_prepare = leave_by_hand;
	start(1);
	ck_assert_uint_eq(atomic_load(&ran), 0);
	rig_stop(&rig);
}
END_TEST

/* A chain of three shares, and a job behind it in the same ring. */
static void drain_chain_by_hand(struct pool *pool)
{
	struct tenant_segment *tenant = pool->registry.tenants[0].segment;
	uint64_t position;

	for (uint32_t i = 0; i < 3 * DRAIN_SHARE; i++)
		fill(i, "intake:count", i + 1 < 3 * DRAIN_SHARE ? i + 1 : LAST);
	fill(3 * DRAIN_SHARE, "intake:count", LAST);
	ck_assert_int_eq(ring_push(&tenant->rings[0], ring_payload(0, 1, 0), &position), RING_OK);
	ck_assert_int_eq(ring_push(&tenant->rings[0], ring_payload(0, 1, 3 * DRAIN_SHARE),
				   &position),
			 RING_OK);
	tenant_mark(tenant, 0);
	intake_collect(pool, 0);
	ck_assert_uint_eq(passed(&pool->arena->rings[0][0]), 2);
	ck_assert_uint_eq(fair_queued(&pool->intake.fair), 3 * DRAIN_SHARE + 1);
	ck_assert(!drain_rings_pending(pool));
}

START_TEST(a_job_behind_a_long_chain_of_its_own_uid_comes_in_the_same_drain)
{
	rig_prepare = drain_chain_by_hand;
	start(2);
	for (uint32_t i = 0; i <= 3 * DRAIN_SHARE; i++)
		ck_assert_uint_eq(rig_wait(&rig, i), JOB_DONE);
	ck_assert_uint_eq(atomic_load(&ran), 3 * DRAIN_SHARE + 1);
	rig_stop(&rig);
}
END_TEST

/* What a worker has in hand, or has set aside, is not forgotten by a pool that drains. */
START_TEST(a_pool_that_drains_is_not_empty_before_the_last_job_has_ended)
{
	start(2);
	fill(0, "intake:hold", LAST);
	atomic_store(&fill(1, "intake:count", LAST)->place, STRICT(0));
	atomic_store(&fill(2, "intake:count", LAST)->place, STRICT(1));
	publish(0, 0);
	publish(1, 0);
	publish(2, 0);
	ck_assert(!intake_is_empty(rig.pool));
	while (!rig_counter(&rig, roots))
		sched_yield();
	/* One of these two waits for the worker that holds. */
	while (rig_counter(&rig, jobs_done) < 1)
		sched_yield();
	ck_assert(!intake_is_empty(rig.pool));
	atomic_store(&flag, 1);
	for (uint32_t i = 0; i < 3; i++)
		ck_assert_uint_eq(rig_wait(&rig, i), JOB_DONE);
	while (!intake_is_empty(rig.pool))
		sched_yield();
	rig_stop(&rig);
}
END_TEST

CHECK_MAIN("intake", a_chain_of_all_records_is_one_word_and_each_runs_once,
	   a_walk_goes_on_where_it_was_left, a_chain_that_is_a_ring_ends,
	   a_chain_that_leads_nowhere_ends_there, chains_that_share_records_run_each_once,
	   a_queued_job_past_its_deadline_expires_and_does_not_run,
	   a_job_behind_another_of_its_batch_is_taken_back_and_goes_before_it,
	   jobs_behind_one_that_keeps_its_worker_go_to_another,
	   what_a_job_used_is_charged_to_its_client, strict_jobs_run_where_they_are_to,
	   strict_jobs_of_a_node_run_on_its_workers, a_flood_of_strict_jobs_lets_other_clients_pass,
	   a_strict_job_goes_before_a_giant_on_its_worker,
	   a_tenant_takes_a_share_of_a_drain_and_is_charged_for_what_is_no_job,
	   a_job_behind_a_long_chain_of_its_own_uid_comes_in_the_same_drain,
	   who_takes_more_than_it_starts_tells_somebody,
	   jobs_of_a_client_that_left_end_some_at_a_time_without_a_pause,
	   a_pool_that_drains_is_not_empty_before_the_last_job_has_ended)
