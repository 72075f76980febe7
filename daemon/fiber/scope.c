/* SPDX-License-Identifier: MIT */
/*
 * scope.c - how scopes of fibers begin and end
 *
 * A frame, the owner, runs the root fiber of a scope. It is suspended until the scope's last fiber
 * has ended. So a job has no fibers when its tasks have ended, and job.c does not depend on fibers.
 * Live scopes are in lists by their job's row; their waiting fibers are in lists of the scope
 * (parked.c), where cancel.c finds them.
 *
 * INVARIANTS
 *   I1. A scope is in the list of its row's bucket from before its first fiber runs until all have
 *       ended. A thread that cancels finds it there with the lock of the bucket held, and sets
 *       `cancelling` before it releases the lock. A worker that would remove the scope waits until
 *       it is cleared. So the scope stays alive. It is on its root's stack, which is given back
 *       after that.
 *   I2. live counts the fibers that have not ended; only a live fiber increments it for another.
 *       The fiber that decrements it to 0 sees the work of all of them (ORDER fiber/scope [B5]),
 *       and resumes the owner.
 *
 * LOCKS
 *   A bucket's, then a shard's, then an inbox's.
 */
#include "daemon/fiber/scope.h"

#include "common/list.h"
#include "daemon/core/pool_state.h"
#include "daemon/core/worker.h"
#include "daemon/engine/engine_internal.h"
#include "daemon/fiber/create.h"

int scope_new(struct worker *w, struct fk_frame *owner, const struct fiber_plan *plan,
	      struct scope **ret_scope)
{
	struct fiber_bucket *bucket = fiber_bucket(w->pool, owner->job);
	struct scope *scope;
	struct fiber *root;
	int r = fiber_new(w, NULL, plan, &root);

	if (r < 0)
		return r;
	scope = (struct scope *)(void *)root - 1;
	scope->owner = owner;
	scope->cancelled = scope->cancelling = false;
	scope->depth = scope->same_depth_ns = 0;
	scope->root = root;
	root->scope = scope;
	atomic_init(&scope->live, 1);
	atomic_init(&scope->held, 0);
	atomic_init(&scope->stuck_ns, 0);
	for (uint32_t i = 0; i < FIBER_SHARDS; i++) {
		pthread_mutex_init(&scope->shards[i].lock, NULL);
		list_init(&scope->shards[i].parked);
		list_init(&scope->shards[i].cancelled);
	}
	pthread_mutex_lock(&bucket->lock);
	list_add_first(&bucket->scopes, &scope->link);
	pthread_mutex_unlock(&bucket->lock);
	*ret_scope = scope;
	return 0;
}

struct fk_frame *scope_leave(struct worker *w, struct scope *scope)
{
	struct fk_frame *owner = scope->owner;
	struct fiber_bucket *bucket = fiber_bucket(w->pool, owner->job);

	/* ORDER fiber/scope [B5]: release, the fiber's work comes before; acquire, the last one
	 * sees the work of all. Pairs with itself. */
	if (atomic_fetch_sub_explicit(&scope->live, 1, memory_order_acq_rel) != 1)
		return NULL;
	pthread_mutex_lock(&bucket->lock);
	while (scope->cancelling) /* short: no fiber waits any more */
		pthread_cond_wait(&bucket->cancelled, &bucket->lock);
	list_remove(&scope->link);
	pthread_mutex_unlock(&bucket->lock);
	for (uint32_t i = 0; i < FIBER_SHARDS; i++)
		pthread_mutex_destroy(&scope->shards[i].lock);
	fiber_free(w, scope->root);
	strand_adopt(w, owner);
	return owner;
}

bool fibers_has_scope(struct pool *pool, uint32_t row)
{
	struct fiber_bucket *bucket = fiber_bucket(pool, row);
	struct scope *scope;

	pthread_mutex_lock(&bucket->lock);
	list_for_each (scope, &bucket->scopes, link)
		if (scope->owner->job == row)
			break;
	pthread_mutex_unlock(&bucket->lock);
	return scope;
}
