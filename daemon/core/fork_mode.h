/* SPDX-License-Identifier: MIT */
/* fork_mode.h - how forks are treated for forkctl check and profile */
#pragma once

#include <stdbool.h>

#include "daemon/core/pool_state.h"

/* How forks are treated, as the options say; n_workers is set. Returns 0 or a negative errno. */
int pool_set_fork_mode(struct pool *pool);

/* The C stack is overwritten between strands: a local variable does not survive. Not in a profile,
 * where it would cost the caches. */
static inline bool pool_scribbles(const struct pool *pool)
{
	return (pool->mode.force_steals && !pool->mode.profile) || pool->mode.fuzz_seed;
}
