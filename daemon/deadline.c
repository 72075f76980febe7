/* SPDX-License-Identifier: MIT */
#include "daemon/deadline.h"

#include <stdlib.h>

#include "common/clock.h"
#include "common/util.h"
#include "daemon/pool.h"
#include "daemon/verdict.h"

void deadlines_init(struct deadlines *deadlines)
{
	*deadlines = (struct deadlines){ .n = 0 };
	pthread_mutex_init(&deadlines->lock, NULL);
}

void deadlines_fini(struct deadlines *deadlines)
{
	free(deadlines->jobs);
	pthread_mutex_destroy(&deadlines->lock);
}

void deadline_add(struct pool *pool, uint32_t row, uint32_t generation, uint64_t at_ns,
		  uint32_t *place)
{
	struct deadlines *all = &pool->deadlines;

	*place = DEADLINE_NONE;
	pthread_mutex_lock(&all->lock);
	if (all->n == all->max) {
		uint32_t more = all->max ? 2 * all->max : 16;
		struct deadline *jobs = reallocarray(all->jobs, more, sizeof(*jobs));

		if (jobs) {
			all->jobs = jobs;
			all->max = more;
		}
	}
	if (all->n < all->max) {
		*place = all->n;
		all->jobs[all->n++] = (struct deadline){ at_ns, row, generation, place };
	}
	pthread_mutex_unlock(&all->lock);
	pool_wake_dispatcher(pool);
}

void deadline_remove(struct pool *pool, uint32_t *place)
{
	struct deadlines *all = &pool->deadlines;

	pthread_mutex_lock(&all->lock);
	if (*place != DEADLINE_NONE) {
		struct deadline *last = &all->jobs[--all->n];

		*last->place = *place;
		all->jobs[*place] = *last;
		*place = DEADLINE_NONE;
	}
	pthread_mutex_unlock(&all->lock);
}

uint64_t deadlines_check(struct pool *pool)
{
	struct deadlines *all = &pool->deadlines;
	uint64_t now = clock_ns(), next = 0;

	pthread_mutex_lock(&all->lock);
	for (uint32_t i = 0; i < all->n; i++) {
		struct deadline *job = &all->jobs[i];

		if (job->at_ns > now) {
			next = next ? min(next, job->at_ns) : job->at_ns;
			continue;
		}
		verdict_set(pool, job->row, job->generation, JOB_EXPIRED);
	}
	pthread_mutex_unlock(&all->lock);
	return next;
}
