/* SPDX-License-Identifier: MIT */
#include "daemon/core/pool_settings.h"

#include "common/log.h"
#include "common/relaxed.h"

/* Relaxed throughout: sleeping workers are woken afterwards, others read the values again. */
void pool_take_settings(struct pool *pool, const struct options *o)
{
	store_relaxed(&pool->settings.scheduler, o->scheduler);
	store_relaxed(&pool->settings.spin, o->spin);
	store_relaxed(&pool->settings.weight, o->connection_weight);
	store_relaxed(&pool->settings.stack_max, o->stack_max);
	store_relaxed(&pool->settings.job_cpu_max, o->job_cpu_max);
	store_relaxed(&pool->settings.hang_timeout, o->hang_timeout);
}

void pool_init_settings(struct pool *pool)
{
	pool_take_settings(pool, pool->options);
}

/* Relaxed: this thread sets them. */
struct options pool_settings(struct pool *pool)
{
	return (struct options){
		.scheduler = load_relaxed(&pool->settings.scheduler),
		.spin = load_relaxed(&pool->settings.spin),
		.connection_weight = load_relaxed(&pool->settings.weight),
		.stack_max = load_relaxed(&pool->settings.stack_max),
		.job_cpu_max = load_relaxed(&pool->settings.job_cpu_max),
		.hang_timeout = load_relaxed(&pool->settings.hang_timeout),
		.log_level = (unsigned int)log_get_level() - LOG_LEVEL_ERROR,
	};
}
