/* SPDX-License-Identifier: MIT */
/*
 * stuck.c - fibers that wait for each other's end
 *
 * A cancelled wait continues until the other fibers have ended, because they may use the waiting
 * fiber's stack. Fibers that wait for each other's end would deadlock. A fiber that begins such a
 * wait makes the dispatcher check its scope, repeatedly while there is such a wait. A scope is
 * stuck if all of its fibers are in such waits. Then some of these waits end with -ECANCELED: those
 * of the fibers that are deepest in the tree of spawns, among the fibers whose counter is not on
 * their own stack.
 *
 * That is safe: no remaining fiber uses the stack of a fiber that continues. Data on the stack of a
 * fiber, counters included, may be used by that fiber and its descendants alone: forkd-fibers(7)
 * demands it. Descendants are deeper, so fibers of equal depth use nothing of each other. And no
 * fiber is deeper than those whose waits end: the deepest of all would wait for a counter on its
 * own stack. That counts a fiber that has not ended and that the owner of the stack or a descendant
 * has spawned: a deeper one. So each stuck scope has such a fiber. Afterwards the others' waits end
 * as usual, or the next check finds the fibers that are deepest then. A check compares two
 * observations: no such wait began or ended between them, and none during the second.
 *
 * A body that waits again each time keeps its scope stuck: after hang-timeout the pool ends, with
 * this job to blame. If the job has several scopes, one may wait for fibers of another: it counts
 * as stuck only after hang-timeout.
 */
#include "daemon/fiber/stuck.h"

#include <inttypes.h>

#include "common/clock.h"
#include "common/list.h"
#include "common/log.h"
#include "common/relaxed.h"
#include "daemon/fiber/fiber_types.h"
#include "daemon/fiber/parked.h"
#include "daemon/fiber/ready.h"
#include "daemon/core/hooks.h"
#include "daemon/core/pool_settings.h"
#include "daemon/core/pool_state.h"
#include "daemon/core/wakeup.h"
#include "shm/job.h"
#include "shm/ledger.h"

#define FIBER_STUCK (10 * NSEC_PER_SEC)	 /* used if hang-timeout is 0 */
#define FIBER_LOOK  (10 * NSEC_PER_MSEC) /* between checks */
#define FIBER_REST  16u			 /* pause, in multiples of the duration of a check */

/* Relaxed throughout: the dispatcher checks repeatedly. */
static void fiber_held_count(struct scope *scope, uint64_t n)
{
	add_relaxed(&scope->held, n);
	store_relaxed(&scope->stuck_ns, 0);
}

void fiber_held_begin(struct fiber *f)
{
	struct pool *pool = f->head.worker->pool;

	fiber_enlist(f, true);
	fiber_held_count(f->scope, 1);
	if (load_relaxed(&pool->fibers->look_ns))
		return;
	store_relaxed(&pool->fibers->look_ns, clock_ns() + FIBER_LOOK);
	pool_wake_dispatcher(pool);
}

void fiber_held_end(struct fiber *f)
{
	fiber_held_count(f->scope, -UINT64_C(1));
	fiber_wait_end(f);
}

/* True if the fiber's counter is not on its own stack. */
static bool fiber_waits_elsewhere(const struct fiber *f)
{
	return f->shared || (uintptr_t)f->waits.node.counter - (uintptr_t)f->head.stack->low >=
				    f->head.stack->size;
}

/* Returns the number of fibers of a scope that only wait for others to end, 0 if one of them runs.
 * Sets *ret_depth to 1 + the largest depth of those with a counter elsewhere, 0: none. */
static uint64_t scope_survey(struct scope *scope, uint64_t *ret_depth)
{
	bool runs = false;
	struct fiber *f;
	uint64_t n = 0;

	*ret_depth = 0;
	for (uint32_t i = 0; i < FIBER_SHARDS; i++) {
		struct fiber_shard *shard = &scope->shards[i];

		pthread_mutex_lock(&shard->lock);
		list_for_each (f, &shard->cancelled, link) {
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

/* Ends the waits at this depth whose counters are elsewhere. */
static void scope_end_waits(struct scope *scope, uint64_t depth)
{
	struct fiber *f;

	for (uint32_t i = 0; i < FIBER_SHARDS; i++) {
		struct fiber_shard *shard = &scope->shards[i];

		pthread_mutex_lock(&shard->lock);
		list_for_each (f, &shard->cancelled, link) {
			uint64_t generation = fiber_park_holds(&f->park);

			if (generation && f->depth == depth && fiber_waits_elsewhere(f) &&
			    fiber_park_wake(&f->park, generation, FIBER_CANCEL) == FIBER_RUN)
				fiber_ready(NULL, f);
		}
		pthread_mutex_unlock(&shard->lock);
	}
}

/* Returns how long the scope must be stuck, ns: 0 if only its own fibers can end its waits. */
static uint64_t scope_patience(struct pool *pool, const struct fiber_bucket *bucket,
			       const struct scope *scope)
{
	const struct scope *other;
	uint64_t limit = pool_hang_timeout(pool);

	list_for_each (other, &bucket->scopes, link)
		if (other != scope && other->owner->job == scope->owner->job)
			break;
	if (!other)
		return 0;
	return limit ? limit : FIBER_STUCK;
}

/* Waits at this depth are about to be ended. The depth decreases each time, because fibers that did
 * not wait for others have ended by then. If it does not for hang-timeout, a body waits again each
 * time, and would do so forever. */
static bool scope_hangs(struct pool *pool, struct scope *scope, uint64_t depth, uint64_t now)
{
	if (!scope->depth || depth < scope->depth) {
		scope->depth = depth;
		scope->same_depth_ns = 0;
	} else {
		/* A delayed check must not count for more. */
		scope->same_depth_ns += min(now - scope->ended_ns, 4 * FIBER_LOOK);
	}
	scope->ended_ns = now;
	return pool->hooks->hang_is_reached(pool, &scope->same_depth_ns);
}

/* Bucket locked. Checks a scope. True: it must be checked again. */
static bool scope_look(struct pool *pool, const struct fiber_bucket *bucket, struct scope *scope,
		       uint64_t now)
{
	static struct log_limit limit = LOG_LIMIT_INIT;
	uint32_t row = scope->owner->job;
	uint64_t depth;
	uint64_t held = load_relaxed(&scope->held);
	uint64_t since = load_relaxed(&scope->stuck_ns);

	if (held < load_relaxed(&scope->live) || !held) {
		store_relaxed(&scope->stuck_ns, 0);
		return held;
	}
	if (!since) {
		store_relaxed(&scope->stuck_ns, now);
		return true;
	}
	/* A fiber that runs has begun or ended such a wait, or will. */
	if (now - since < scope_patience(pool, bucket, scope) ||
	    scope_survey(scope, &depth) != held || !depth ||
	    load_relaxed(&scope->stuck_ns) != since)
		return true;
	if (scope_hangs(pool, scope, depth, now))
		pool->crash->hang(pool, ledger_row(pool->arena, row).worker % pool->n_workers, row,
				  ledger_row(pool->arena, row).generation, scope->same_depth_ns);
	log_limited(&limit, LOG_LEVEL_WARNING,
		    "job %u.%" PRIu64 ": deadlock: %" PRIu64
		    " fibers wait for each other's end: their waits return ECANCELED",
		    row / pool->jobs_max,
		    job_handle(ledger_row(pool->arena, row).generation, row % pool->jobs_max),
		    held);
	scope_end_waits(scope, depth - 1);
	return true;
}

uint64_t fibers_look(struct pool *pool)
{
	_Atomic uint64_t *look_ns = &pool->fibers->look_ns;
	uint64_t at = load_relaxed(look_ns), now;
	struct scope *scope;
	bool again = false;

	if (!at || (now = clock_ns()) < at)
		return at;
	/* Before the checks: a fiber that begins a wait afterwards finds 0. */
	store_relaxed(look_ns, 0);
	for (uint32_t i = 0; i < FIBER_BUCKETS; i++) {
		struct fiber_bucket *bucket = &pool->fibers->buckets[i];

		pthread_mutex_lock(&bucket->lock);
		list_for_each (scope, &bucket->scopes, link)
			again |= scope_look(pool, bucket, scope, now);
		pthread_mutex_unlock(&bucket->lock);
	}
	if (!again)
		return load_relaxed(look_ns);
	/* Many scopes take long, and this thread has other work. */
	at = now + max(FIBER_LOOK, FIBER_REST * (clock_ns() - now));
	store_relaxed(look_ns, at);
	return at;
}
