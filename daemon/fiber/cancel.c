/* SPDX-License-Identifier: MIT */
/*
 * cancel.c - ends the waits of fibers whose job has an outcome
 *
 * INVARIANTS
 *   I1. A scope is cancelled once, because a job's outcome is final. It stays alive until that is
 *       done (scope.c, I1).
 *   I2. A fiber is in the list of a shard before it checks its job's verdict and then parks. A
 *       thread that cancels has stored the verdict before it reads the list. Both take the shard's
 *       lock in between: one sees the other. The thread moves FIBER_CANCELS fibers at a time to
 *       another list, so that resumed fibers get the lock in between. If it moved fewer, the list
 *       was empty, and a later fiber sees the verdict.
 */
#include "daemon/fiber/cancel.h"

#include "common/list.h"
#include "daemon/core/pool_state.h"
#include "daemon/core/job_abort.h"
#include "daemon/fiber/blocking_section.h"
#include "daemon/fiber/scope.h"
#include "daemon/fiber/io.h"
#include "daemon/fiber/ready.h"

#define FIBER_CANCELS 64u /* that are cancelled in one lock period */

/* Cancels some of the waiting fibers. False: there are no more. */
static bool fiber_shard_cancel(struct pool *pool, struct fiber_shard *shard)
{
	uint32_t n = 0;
	struct fiber *f;

	pthread_mutex_lock(&shard->lock);
	for (; n < FIBER_CANCELS && (f = list_first(&shard->parked, struct fiber, link)); n++) {
		list_remove(&f->link);
		list_add(&shard->cancelled, &f->link);
		if (f->does_io)
			fiber_io_end(pool, f, -ECANCELED);
		if (fiber_park_cancel(&f->park) == FIBER_RUN)
			fiber_ready(NULL, f);
	}
	pthread_mutex_unlock(&shard->lock);
	return n == FIBER_CANCELS;
}

/* Returns a scope of this job that is not cancelled yet, or NULL. Lock held. */
static struct scope *scope_to_cancel(struct fiber_bucket *bucket, uint32_t row)
{
	struct scope *scope;

	list_for_each (scope, &bucket->scopes, link)
		if (scope->owner->job == row && !scope->cancelled)
			break;
	return scope;
}

void fibers_cancel(struct pool *pool, uint32_t row)
{
	struct fiber_bucket *bucket = fiber_bucket(pool, row);
	struct scope *scope;

	pthread_mutex_lock(&bucket->lock);
	/* The row may belong to another job by now, which has no verdict. */
	while ((scope = scope_to_cancel(bucket, row)) && abort_get(pool, row).outcome) {
		scope->cancelled = scope->cancelling = true;
		pthread_mutex_unlock(&bucket->lock);
		for (uint32_t i = 0; i < FIBER_SHARDS; i++)
			while (fiber_shard_cancel(pool, &scope->shards[i]))
				;
		pthread_mutex_lock(&bucket->lock);
		scope->cancelling = false;
		pthread_cond_broadcast(&bucket->cancelled);
	}
	pthread_mutex_unlock(&bucket->lock);
	fiber_blocks_cancel(pool, row);
}
