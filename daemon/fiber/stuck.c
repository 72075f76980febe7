/* SPDX-License-Identifier: MIT */
/*
 * stuck.c - fibers that wait for each other's end
 *
 * WHAT IT IS
 *   A wait that is cut short continues until the others have ended, because they may use what
 *   is on the waiting fiber's stack. Fibers that wait for each other's end would do so for
 *   ever. A fiber that begins such a wait has the dispatcher look, and the dispatcher looks
 *   again until there is no such wait. A family is stuck if all of its fibers are in such
 *   waits. Then some of these waits end with -ECANCELED: of the fibers whose counter is not on
 *   their own stack those that are deepest in the tree of spawns.
 *   No fiber that is left uses a stack that goes, if what is on the stack of a fiber, a counter
 *   too, is used by that fiber and its descendants alone: forkd-fibers(7) demands it.
 *   Descendants are deeper, so fibers of equal depth use nothing of each other. And no fiber is
 *   deeper than those that are parted: the deepest of all would wait for a counter on its own
 *   stack. That counts a fiber that has not ended, and which the owner or a descendant has
 *   spawned: a deeper one. So in each stuck family there is a fiber to part. Then the others'
 *   waits end as usual, or the next look finds those that are the deepest now.
 *   A look compares two: no such wait began or ended between them, and none during the second.
 *   A body that waits again each time keeps its family stuck: after hang-limit the pool ends,
 *   with this job to blame.
 *   Where the job has several families, one may wait for fibers of another: it counts as stuck
 *   after hang-limit.
 */
#include "daemon/fiber/stuck.h"

#include <inttypes.h>

#include "common/clock.h"
#include "common/list.h"
#include "common/log.h"
#include "common/relaxed.h"
#include "daemon/core/crash_handler.h"
#include "daemon/core/worker.h"
#include "daemon/fiber/fiber_types.h"
#include "daemon/fiber/parked.h"
#include "daemon/fiber/ready.h"
#include "daemon/core/hooks.h"
#include "daemon/core/pool_settings.h"
#include "daemon/core/pool_state.h"
#include "daemon/core/wakeup.h"
#include "shm/ledger.h"

#define FIBER_STUCK (10 * NSEC_PER_SEC)	 /* as hang-limit, if there is none */
#define FIBER_LOOK  (10 * NSEC_PER_MSEC) /* while fibers only wait for others to end */
#define FIBER_REST  16u			 /* times as long as a look took, before the next */

/* Relaxed throughout: the dispatcher looks more than once. */
static void fiber_held_count(struct fiber_family *family, uint64_t n)
{
	add_relaxed(&family->held, n);
	store_relaxed(&family->stuck_ns, 0);
}

void fiber_held_begin(struct fiber *f)
{
	struct pool *pool = f->head.worker->pool;

	fiber_enlist(f, true);
	fiber_held_count(f->family, 1);
	if (load_relaxed(&pool->fibers->look_ns))
		return;
	store_relaxed(&pool->fibers->look_ns, clock_ns() + FIBER_LOOK);
	pool_wake_dispatcher(pool);
}

void fiber_held_end(struct fiber *f)
{
	fiber_held_count(f->family, -UINT64_C(1));
	fiber_wait_end(f);
}

/* The counter that it waits for is not on its own stack. */
static bool fiber_waits_elsewhere(const struct fiber *f)
{
	return f->shared || (uintptr_t)f->waits.node.counter - (uintptr_t)f->head.stack->low >=
				    f->head.stack->size;
}

/* Looks at the fibers of a family that only wait for others to end. Returns how many they are, 0 if
 * one of them runs; and of those that wait elsewhere the depth of the deepest + 1, 0: there is
 * none. */
static uint64_t fiber_family_survey(struct fiber_family *family, uint64_t *ret_depth)
{
	bool runs = false;
	struct fiber *f;
	uint64_t n = 0;

	*ret_depth = 0;
	for (uint32_t i = 0; i < FIBER_SHARDS; i++) {
		struct fiber_shard *shard = &family->shards[i];

		pthread_mutex_lock(&shard->lock);
		list_for_each (f, &shard->told, link) {
			n++;
			if (!fiber_park_holds(&f->park))
				runs = true;
			else if (fiber_waits_elsewhere(f))
				*ret_depth = max(*ret_depth, f->depth + 1);
		}
		pthread_mutex_unlock(&shard->lock);
	}
	return runs ? 0 : n;
}

/* Ends the waits of those of this depth that wait elsewhere. */
static void fiber_family_part(struct fiber_family *family, uint64_t depth)
{
	struct fiber *f;

	for (uint32_t i = 0; i < FIBER_SHARDS; i++) {
		struct fiber_shard *shard = &family->shards[i];

		pthread_mutex_lock(&shard->lock);
		list_for_each (f, &shard->told, link) {
			uint64_t generation = fiber_park_holds(&f->park);

			if (generation && f->depth == depth && fiber_waits_elsewhere(f) &&
			    fiber_park_wake(&f->park, generation, FIBER_CANCEL) == FIBER_RUN)
				fiber_ready(NULL, f);
		}
		pthread_mutex_unlock(&shard->lock);
	}
}

/* ns that it has to be stuck for: none, if nothing but its own fibers can end its waits. */
static uint64_t fiber_family_patience(struct pool *pool, const struct fiber_bucket *bucket,
				      const struct fiber_family *family)
{
	const struct fiber_family *other;
	uint64_t limit = pool_hang_limit(pool);

	list_for_each (other, &bucket->families, link)
		if (other != family && other->front->job == family->front->job)
			break;
	if (!other)
		return 0;
	return limit ? limit : FIBER_STUCK;
}

/*
 * Waits of this depth are about to be ended. The depth falls each time, for the fibers that did not
 * wait for others have ended by then. If it does not fall for hang-limit, a body goes back to its
 * wait each time, and would do so for ever.
 */
static bool fiber_family_hangs(struct pool *pool, struct fiber_family *family, uint64_t depth,
			       uint64_t now)
{
	if (!family->depth || depth < family->depth) {
		family->depth = depth;
		family->vain_ns = 0;
	} else {
		/* Looks that come late do not count for more. */
		family->vain_ns += min(now - family->parted_ns, 4 * FIBER_LOOK);
	}
	family->parted_ns = now;
	return pool->hooks->hang_is_reached(pool, &family->vain_ns);
}

/* Bucket locked. Returns whether it is to be looked at again. */
static bool fiber_family_look(struct pool *pool, const struct fiber_bucket *bucket,
			      struct fiber_family *family, uint64_t now)
{
	static struct log_limit limit = LOG_LIMIT_INIT;
	uint32_t row = family->front->job;
	uint64_t depth;
	uint64_t held = load_relaxed(&family->held);
	uint64_t since = load_relaxed(&family->stuck_ns);

	if (held < load_relaxed(&family->live) || !held) {
		store_relaxed(&family->stuck_ns, 0);
		return held;
	}
	if (!since) {
		store_relaxed(&family->stuck_ns, now);
		return true;
	}
	/* One that runs has begun or ended such a wait, or is about to. */
	if (now - since < fiber_family_patience(pool, bucket, family) ||
	    fiber_family_survey(family, &depth) != held || !depth ||
	    load_relaxed(&family->stuck_ns) != since)
		return true;
	if (fiber_family_hangs(pool, family, depth, now))
		fault_hang(pool, ledger_row(pool->arena, row).worker % pool->n_workers, row,
			   ledger_row(pool->arena, row).generation, family->vain_ns);
	log_limited(&limit, LOG_LEVEL_WARNING,
		    "job %u of client %u is over: %" PRIu64 " fibers wait for each other's end: "
		    "waits end with ECANCELED",
		    row % pool->max_jobs, row / pool->max_jobs, held);
	fiber_family_part(family, depth - 1);
	return true;
}

uint64_t fibers_look(struct pool *pool)
{
	_Atomic uint64_t *look_ns = &pool->fibers->look_ns;
	uint64_t at = load_relaxed(look_ns), now;
	struct fiber_family *family;
	bool again = false;

	if (!at || (now = clock_ns()) < at)
		return at;
	/* Before the look: who begins a wait behind it finds 0. */
	store_relaxed(look_ns, 0);
	for (uint32_t i = 0; i < FIBER_BUCKETS; i++) {
		struct fiber_bucket *bucket = &pool->fibers->buckets[i];

		pthread_mutex_lock(&bucket->lock);
		list_for_each (family, &bucket->families, link)
			again |= fiber_family_look(pool, bucket, family, now);
		pthread_mutex_unlock(&bucket->lock);
	}
	if (!again)
		return load_relaxed(look_ns);
	/* Many families take long, and this thread has more to do. */
	at = now + max(FIBER_LOOK, FIBER_REST * (clock_ns() - now));
	store_relaxed(look_ns, at);
	return at;
}
