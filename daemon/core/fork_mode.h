/* SPDX-License-Identifier: MIT */
/* fork_mode.h - special treatment of forks, for forkctl check and profile, and debug builds */
#pragma once

#include <stdbool.h>

#include "daemon/core/pool_state.h"

/* Sets the fork mode by the options; n_workers must be set. Returns 0 or a negative errno. */
int pool_set_fork_mode(struct pool *pool);

/* With fork-mode=auto: changes to the mode late if a loaded module was compiled with
 * FK_DEBUG_STEALS. Returns the name of one of its tasks, or NULL. */
const char *pool_set_debug_steals(struct pool *pool);

/* True if the C stack is overwritten between strands, so that local variables do not survive. Not
 * in a profile, where it would disturb the caches. */
static inline bool pool_scribbles(const struct pool *pool)
{
	return (pool->mode.force_steals && !pool->mode.profile) || pool->mode.fuzz_seed;
}
