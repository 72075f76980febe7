/* SPDX-License-Identifier: MIT */
/* strict: jobs that only one worker may start, or only workers of one node, in a whole pool: where
 * they run, and which runs first. check_fair_queue.c has the choice alone. */
#include <errno.h>
#include <unistd.h>

#include <forkd/client.h>

#include "common/clock.h"
#include "daemon/core/worker.h"
#include "daemon/sched/virtual_time.h"
#include "tests/support/intake_rig.h"

/* Place of a strict job, and the number of flood jobs that had run when the other client's job
 * began. */
static _Atomic uint32_t on_worker, on_group;
static _Atomic uint64_t before_other;

FK_LEAF_TASK(fk_void, strict, ())
{
	if (worker_self()->index == atomic_load(&on_worker))
		atomic_fetch_add(&ran, 1);
}

FK_LEAF_TASK(fk_void, near, ())
{
	if (worker_self()->group == atomic_load(&on_group))
		atomic_fetch_add(&ran, 1);
}

FK_LEAF_TASK(fk_void, other, ())
{
	atomic_store(&before_other, atomic_load(&ran));
}

FK_EXPORT(strict, 0, "Counts where it ran")
FK_EXPORT(near, 0, "Counts in which group it ran")
FK_EXPORT(other, 0, "Notes how many have run")

/* Each job runs on its worker, whichever thread takes it off the ring; sleeping workers are
 * woken. */
START_TEST(strict_jobs_run_on_their_worker)
{
	start(4);
	for (uint32_t round = 0; round < 40; round++) {
		atomic_store(&ran, 0);
		atomic_store(&on_worker, round % 4);
		chain(0, 100, "intake:strict", STRICT(round % 4));
		publish(0, round * 7 % 4);
		rig_all_done(&rig, 0, 100);
		ck_assert_uint_eq(atomic_load(&ran), 100);
	}
	/* An invalid worker. */
	submit_placed(0, "intake:strict", STRICT(4), 0);
	rig_fails(&rig, 0, -FK_E_PLACE);
	ck_assert_uint_eq(fair_placed(rig.pool->fair), 0);
	rig_stop(&rig);
}
END_TEST

/* On any worker of the node's group, whichever thread takes the job off the ring. */
START_TEST(strict_jobs_of_a_node_run_on_its_workers)
{
	atomic_store(&ran, 0);
	atomic_store(&flag, 0);
	rig_start_on(&rig, "numa:2 core:2 pu:1", 4, &fk_module, false);
	for (uint32_t round = 0; round < 20; round++) {
		atomic_store(&ran, 0);
		atomic_store(&on_group, round % 2);
		chain(0, 100, "intake:near", job_place(JOB_PLACE_NODE, round % 2, 1));
		publish(0, round % 4);
		rig_all_done(&rig, 0, 100);
		ck_assert_uint_eq(atomic_load(&ran), 100);
	}
	/* An invalid node. */
	submit_placed(0, "intake:near", job_place(JOB_PLACE_NODE, 2, 1), 0);
	rig_fails(&rig, 0, -FK_E_PLACE);
	rig_stop(&rig);
}
END_TEST

/* Returns true once the first client has been charged for more than a job's end refunds. It stays
 * ahead by that then, because the worker runs only the first client's jobs. */
static bool is_ahead_of(const struct other *o)
{
	struct fair *fair = rig.pool->fair;
	const struct vheap_node *first, *second;
	bool ahead;

	fair_lock(fair);
	fair_settle(fair, clock_ns());
	ck_assert(vtime_part(&fair->clients[0], &fair->clients[o->slot], &first, &second));
	ahead = vtime_ahead(first->v, second->v) > (int64_t)vtime_of(2 * FAIR_BATCH, FAIR_WEIGHT);
	fair_unlock(fair);
	return ahead;
}

/* One worker runs a leaf while a flood of jobs for it arrives, and then another client's job. That
 * job starts at the virtual time of the leaf's client. It runs first as soon as the leaf has used
 * more. */
START_TEST(flood_of_strict_jobs_does_not_delay_other_clients)
{
	for (int same_uid = 0; same_uid < 2; same_uid++)
		for (int strict = 0; strict < 2; strict++) {
			struct other o;

			start(1);
			o = other_client(same_uid);
			atomic_store(&on_worker, 0);
			submit(0, "intake:hold", 0);
			while (!rig_counter(&rig, jobs_started))
				sched_yield();
			chain(1, 900, "intake:strict", STRICT(0));
			publish(1, 0);
			/* The dispatcher does this: the worker never gets there. */
			while (fair_placed(rig.pool->fair) < 899)
				sched_yield();
			other_submit(&o, 0, "intake:other", strict ? STRICT(0) : 0);
			while (fair_placed(rig.pool->fair) + fair_queued(rig.pool->fair) < 900)
				sched_yield();
			while (!is_ahead_of(&o))
				sched_yield();
			atomic_store(&flag, 1);
			other_wait(&o, 0, JOB_DONE);
			rig_all_done(&rig, 0, 900);
			ck_assert_uint_eq(atomic_load(&ran), 899);
			ck_assert_uint_eq(atomic_load(&before_other), 0);
			rig_stop(&rig);
			other_end(&o);
		}
}
END_TEST

/* It is endless, and has used more than the other client: it yields at a fork. */
START_TEST(strict_job_preempts_a_giant_on_its_worker)
{
	struct other o;

	start(2);
	o = other_client(false);
	/* No worker steals it. */
	submit_placed(1, "intake:hold", STRICT(0), 0);
	while (!rig_counter(&rig, jobs_started))
		sched_yield();
	submit_placed(0, "intake:await", STRICT(1), 0);
	while (rig_counter(&rig, jobs_started) < 2)
		sched_yield();
	other_submit(&o, 0, "intake:set", STRICT(1));
	other_wait(&o, 0, JOB_DONE);
	rig_all_done(&rig, 0, 2);
	ck_assert_uint_ge(rig_counter(&rig, frames_suspended), 1);
	rig_stop(&rig);
	other_end(&o);
}
END_TEST

CHECK_MAIN("strict")
