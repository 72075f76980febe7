/* SPDX-License-Identifier: MIT */
/*
 * intake_rig.h - a rig whose client fills its records and its rings step by step
 *
 * rig_submit() submits one job. These functions make chains of any shape, with places, deadlines
 * and weights, and words with any payload. Each task counts itself in `ran`, or waits for `flag`.
 */
#pragma once

#include <sched.h>

#include <forkd/task.h>

#include "daemon/core/worker.h"
#include "shm/futex.h"
#include "shm/ledger.h"
#include "shm/wake.h"
#define CHECK_TIMEOUT 60
#include "daemon/core/wakeup.h"
#include "daemon/jobs/membership.h"
#include "daemon/sched/wake.h"
#include "tests/support/check_unit.h"
#include "tests/support/rig.h"

#define LAST UINT32_MAX

#define STRICT(index) job_place(JOB_PLACE_WORKER, index, 1)

static struct rig rig;
static _Atomic uint64_t ran;
static _Atomic uint32_t flag;

FK_LEAF_TASK(fk_void, count, ())
{
	atomic_fetch_add(&ran, 1);
}

FK_LEAF_TASK(fk_void, set, ())
{
	atomic_fetch_add(&ran, 1);
	atomic_store(&flag, 1);
}

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

/* Occupies its worker without a fork until the flag is set. */
FK_LEAF_TASK(fk_void, hold, ())
{
	while (!atomic_load(&flag))
		;
}

FK_EXPORT(count, 0, "Counts that it ran")
FK_EXPORT(set, 0, "Sets the flag")
FK_EXPORT(await, 0, "Forks until the flag is set")
FK_EXPORT(hold, 0, "Waits for the flag")
FK_MODULE(intake, "What the tests of the intake run")

static inline void start(uint32_t workers)
{
	atomic_store(&ran, 0);
	atomic_store(&flag, 0);
	rig_start(&rig, workers, &fk_module, false);
}

/* Fills a record; next: the chain's next record, or LAST. */
static inline struct job *fill(uint32_t index, const char *task, uint32_t next)
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

/* Puts one word into a ring. */
static inline void publish(uint32_t index, uint32_t ring)
{
	uint64_t position;

	while (ring_push(&rig.tenant->rings[ring], ring_payload(0, 1, index), &position) != RING_OK)
		sched_yield();
	tenant_mark(rig.tenant, ring);
	wake_published();
	if (!worker_wake_one(rig.pool, NULL))
		pool_wake_dispatcher(rig.pool);
}

/* Submits one job. */
static inline void submit(uint32_t index, const char *task, uint32_t ring)
{
	fill(index, task, LAST);
	publish(index, ring);
}

/* Submits one job with a place. */
static inline void submit_placed(uint32_t index, const char *task, uint32_t place, uint32_t ring)
{
	atomic_store(&fill(index, task, LAST)->place, place);
	publish(index, ring);
}

/* Fills records first to end - 1 as a chain. */
static inline void chain(uint32_t first, uint32_t end, const char *task, uint32_t place)
{
	for (uint32_t i = first; i < end; i++)
		atomic_store(&fill(i, task, i + 1 < end ? i + 1 : LAST)->place, place);
}

/* Puts a word into a ring and wakes no thread. */
static inline void leave(uint32_t index, uint32_t ring)
{
	uint64_t position;

	ck_assert_int_eq(ring_push(&rig.tenant->rings[ring], ring_payload(0, 1, index), &position),
			 RING_OK);
	tenant_mark(rig.tenant, ring);
}

/* Gives records first to last, one word each, to worker 0 as its next jobs. */
static inline void words(uint32_t first, uint32_t last)
{
	for (uint32_t i = first; i <= last; i++) {
		fill(i, "intake:count", LAST);
		leave(i, 0);
	}
}

/* Actions of the test before the workers start; they find nothing to run then. */
static inline void by_hand(uint32_t workers, void (*act)(struct pool *pool))
{
	rig_prepare = act;
	start(workers);
	ck_assert_uint_eq(atomic_load(&ran), 0);
	rig_stop(&rig);
}

/* Marks the dispatcher as asleep; was_woken() tells if it was woken since. */
static inline void let_dispatcher_sleep(struct pool *pool)
{
	(void)wake_prepare(&pool->board->dispatcher);
}

static inline bool dispatcher_was_woken(struct pool *pool)
{
	return !wake_rests(wake_load(&pool->board->dispatcher));
}

/* A second client, of another uid or of the same one. */
struct other {
	int tenant_fd, client_fd;
	struct tenant_segment *tenant;
	struct job *jobs;
	uint32_t slot;
};

static inline struct other other_client(bool same_uid)
{
	struct other o = { .slot = 1 };
	uint64_t size = client_segment_heap_offset(RIG_JOBS) + 4096;
	uint32_t tenant = same_uid ? 0 : 1;
	const struct intake_newcomer client = {
		.slot = o.slot,
		.generation = 1,
		.tenant = tenant,
		.weight = FAIR_WEIGHT,
		.n_jobs = RIG_JOBS,
	};

	o.tenant_fd = segment_create("tenant", SEGMENT_TENANT,
				     tenant_segment_size(rig.pool->n_workers), 1, 0, 0600);
	o.client_fd = segment_create("client", SEGMENT_CLIENT, size, 1, 0, 0600);
	ck_assert_int_ge(o.tenant_fd, 0);
	ck_assert_int_ge(o.client_fd, 0);
	if (tenant)
		ck_assert_int_eq(intake_add_tenant(rig.pool, tenant, FAIR_WEIGHT,
						   ATTACH_FILE(o.tenant_fd)),
				 0);
	rig.pool->arena->heap_sizes[o.slot] = 4096;
	ck_assert_int_eq(intake_add_client(rig.pool, &client, ATTACH_FILE(o.client_fd)), 0);
	o.tenant = rig.pool->clients.tenants[tenant].segment;
	o.jobs = rig.pool->clients.entries[o.slot].jobs;
	return o;
}

static inline void other_submit(struct other *o, uint32_t index, const char *task, uint32_t place)
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

static inline void other_wait(struct other *o, uint32_t index, uint32_t outcome)
{
	struct job *job = &o->jobs[index];
	uint32_t value;

	while ((value = job_announce_waiter(job)))
		futex_wait(&job->state, value, 0);
	ck_assert_uint_eq(job_outcome(job), outcome);
}

static inline void other_end(struct other *o)
{
	close(o->tenant_fd);
	close(o->client_fd);
}
