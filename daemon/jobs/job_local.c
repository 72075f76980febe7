/* SPDX-License-Identifier: MIT */
/*
 * job_local.c - job-local data
 *
 * Each row of the ledger has a list of the values of its job, one for each key that the job has
 * used.
 *
 * INVARIANTS
 *     I1. A value is in the list of the job whose task has asked for it. While code of a task runs,
 *         worker->job.row is the row of its job: strand_adopt() sets it before a stolen or
 *         suspended frame or fiber continues, and a preemption restores it.
 *     I2. A list has at most one value of a key. A value is added only if the list is still the one
 *         that was searched. Only job_locals_end() removes values.
 *     I3. The list of a row without a job is empty. job_done() empties it before the row is free:
 *         then all strands and fibers of the job have ended, so no other thread adds values.
 *         A job that ends otherwise has run no code of a task.
 */
#include "daemon/jobs/job_local.h"

#include <stdlib.h>

#include "common/relaxed.h"
#include "daemon/core/pool_state.h"
#include "daemon/core/worker.h"
#include "daemon/core/worker_state.h"
#include "daemon/forkd/task.h"

struct job_value {
	const struct fk_job_key *key;
	struct job_value *next;
	_Alignas(max_align_t) char memory[];
};

static struct job_value *job_value_new(const struct fk_job_key *key)
{
	struct job_value *value;
	size_t size;

	if (__builtin_add_overflow(sizeof(*value), key->fk_size, &size))
		return NULL;
	value = calloc(1, size);
	if (value)
		value->key = key;
	return value;
}

static struct job_value *job_value_find(struct job_value *first, const struct fk_job_key *key)
{
	while (first && first->key != key)
		first = first->next;
	return first;
}

void *fk_rt_job_local(const struct fk_job_key *key)
{
	struct worker *w = worker_self();
	struct job_value *first, *found, *value = NULL;
	struct job_value *_Atomic *list;

	if (!w || w->job.row == WORKER_NO_JOB)
		return NULL;
	list = &w->pool->rows.locals[w->job.row];
	/* ORDER job/local [J4]: acquire, the values in the list. Pairs with the exchange below. */
	first = atomic_load_explicit(list, memory_order_acquire);
	while (!(found = job_value_find(first, key))) {
		if (!value)
			value = job_value_new(key);
		if (!value)
			return NULL;
		value->next = first;
		/* ORDER job/local [J4]: release, the new value is zero. On failure acquire, as
		 * above. */
		if (atomic_compare_exchange_weak_explicit(list, &first, value, memory_order_release,
							  memory_order_acquire))
			return value->memory;
	}
	free(value);
	return found->memory;
}

void job_locals_end(struct pool *pool, uint32_t row)
{
	struct job_value *_Atomic *list = &pool->rows.locals[row];
	struct job_value *value;

	/* Relaxed: the joins of the job's strands order it (I3). An end function may add values. */
	while ((value = load_relaxed(list))) {
		store_relaxed(list, value->next);
		if (value->key->fk_end)
			value->key->fk_end(value->memory);
		free(value);
	}
}
