/* SPDX-License-Identifier: MIT */
/* scope.h - a root fiber, and all fibers that it and they have spawned */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/core/pool_state.h"
#include "daemon/fiber/fiber_types.h"

struct fiber_plan;

/* Returns the bucket of a job's scopes. */
static inline struct fiber_bucket *fiber_bucket(struct pool *pool, uint32_t row)
{
	return &pool->fibers->buckets[row % FIBER_BUCKETS];
}

/* plan: of the root, with room for the scope. Returns 0 or a negative errno. */
int scope_new(struct worker *worker, struct fk_frame *owner, const struct fiber_plan *plan,
	      struct scope **ret_scope);

/* A fiber of the scope has ended. Returns the owner frame if it was the last one, or NULL. */
struct fk_frame *scope_leave(struct worker *worker, struct scope *scope);

/* True if the job of this row has fibers that have not ended. Any thread of the pool. */
bool fibers_has_scope(struct pool *pool, uint32_t row);
