/* SPDX-License-Identifier: MIT */
/*
 * cancel.c - the fibers of a job that is over wait no more
 *
 * INVARIANTS
 *   I1. A scope is told once, for its job is over for good. It lives meanwhile (scope.c,
 *       I1).
 *   I2. A fiber is in the list of a shard before it looks at its job's verdict and then parks. The
 *       thread that cancels has put the verdict there before it looks at the list. Both take the
 *       shard's lock in between: one sees the other. The thread takes FIBER_TELL of them at a time
 *       off the list, into another one, so that fibers which go on come in between. If those were
 *       fewer the list was empty, and a fiber that comes later sees the verdict.
 */
#include "daemon/fiber/cancel.h"

#include "common/list.h"
#include "daemon/core/pool_state.h"
#include "daemon/core/job_abort.h"
#include "daemon/fiber/blocking_section.h"
#include "daemon/fiber/scope.h"
#include "daemon/fiber/io.h"
#include "daemon/fiber/ready.h"

#define FIBER_TELL 64u /* that are cancelled with the lock held */

/* Cancels some of those that wait. False: these were all. */
static bool fiber_shard_cancel(struct pool *pool, struct fiber_shard *shard)
{
	uint32_t n = 0;
	struct fiber *f;

	pthread_mutex_lock(&shard->lock);
	for (; n < FIBER_TELL && (f = list_first(&shard->parked, struct fiber, link)); n++) {
		list_remove(&f->link);
		list_add(&shard->told, &f->link);
		if (f->does_io)
			fiber_io_end(pool, f, -ECANCELED);
		if (fiber_park_cancel(&f->park) == FIBER_RUN)
			fiber_ready(NULL, f);
	}
	pthread_mutex_unlock(&shard->lock);
	return n == FIBER_TELL;
}

/* A scope of this job that has not been told, or NULL. Lock held. */
static struct scope *scope_to_tell(struct fiber_bucket *bucket, uint32_t row)
{
	struct scope *scope;

	list_for_each (scope, &bucket->scopes, link)
		if (scope->front->job == row && !scope->told)
			break;
	return scope;
}

void fibers_cancel(struct pool *pool, uint32_t row)
{
	struct fiber_bucket *bucket = fiber_bucket(pool, row);
	struct scope *scope;

	pthread_mutex_lock(&bucket->lock);
	/* The job may have ended since, and the row be another's: that has no verdict. */
	while ((scope = scope_to_tell(bucket, row)) && abort_get(pool, row).outcome) {
		scope->told = scope->telling = true;
		pthread_mutex_unlock(&bucket->lock);
		for (uint32_t i = 0; i < FIBER_SHARDS; i++)
			while (fiber_shard_cancel(pool, &scope->shards[i]))
				;
		pthread_mutex_lock(&bucket->lock);
		scope->telling = false;
		pthread_cond_broadcast(&bucket->told);
	}
	pthread_mutex_unlock(&bucket->lock);
	fiber_blocks_cancel(pool, row);
}
