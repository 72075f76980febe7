/* SPDX-License-Identifier: MIT */
#include "daemon/core/fork_mode.h"

#include <errno.h>

#include "common/options.h"
#include "common/util.h"
#include "daemon/core/work_span.h"

const char *pool_set_debug_steals(struct pool *pool)
{
	const struct module_task *task = modules_debug_steals(&pool->modules, 0);

	if (!task || pool->options->fork_mode != OPTIONS_FORK_AUTO)
		return NULL;
	pool->mode.force_steals = pool->mode.late_children = true;
	return task->name;
}

int pool_set_fork_mode(struct pool *pool)
{
	const struct options *options = pool->options;
	uint32_t mode = options->fork_mode;
	struct profile_clock clock;

	pool->mode.late_children = mode == OPTIONS_FORK_LATE;
	pool->mode.force_steals = mode == OPTIONS_FORK_STOLEN || pool->mode.late_children ||
				  mode == OPTIONS_FORK_PROFILE;
	pool->mode.no_steals = mode == OPTIONS_FORK_KEPT;
	pool->mode.fuzz_seed = mode == OPTIONS_FORK_RANDOM ? max(options->fork_seed, 1u) : 0;
	if (mode != OPTIONS_FORK_PROFILE)
		return 0;
	if (pool->n_workers != 1)
		return -EINVAL;
	clock = profile_processor_clock();
	pool->mode.profile = profile_new(clock, profile_measure(clock, options->fork_burden));
	return pool->mode.profile ? 0 : -ENOMEM;
}
