/* SPDX-License-Identifier: MIT */
#include "daemon/jobs/deadline.h"

#include "common/clock.h"
#include "common/relaxed.h"
#include "common/util.h"
#include "daemon/core/pool_state.h"
#include "daemon/core/wakeup.h"
#include "shm/job.h"

#define DEADLINE_AGAIN (200 * NSEC_PER_USEC) /* until a job that is in hand is checked again */

static void deadlines_set_tables(struct deadlines *all, uint64_t rows)
{
	all->heap = sparse_table(&all->tables, rows, sizeof(*all->heap));
	all->where = sparse_table(&all->tables, rows, sizeof(*all->where));
}

int deadlines_init(struct deadlines *all, uint64_t rows)
{
	int r;

	*all = (struct deadlines){ .n = 0 };
	pthread_mutex_init(&all->lock, NULL);
	/* Pages that no job needs are never touched. */
	deadlines_set_tables(all, rows);
	r = sparse_map(&all->tables);
	if (r == 0)
		deadlines_set_tables(all, rows);
	return r;
}

void deadlines_fini(struct deadlines *all)
{
	sparse_unmap(&all->tables);
	pthread_mutex_destroy(&all->lock);
}

/* Relaxed: changed with the lock held. The thread that has the row in hand reads it without; if
 * another thread has called deadline_watch(), the dispatcher removes the entry. */
static uint32_t deadline_where(struct deadlines *all, uint32_t row)
{
	return load_relaxed(&all->where[row]);
}

static void deadline_put(struct deadlines *all, uint32_t at, struct deadline job)
{
	all->heap[at] = job;
	store_relaxed(&all->where[job.row], at + 1);
}

/* Lock held: puts a job where it belongs, starting from a free place. */
static void deadline_sift(struct deadlines *all, uint32_t at, struct deadline job)
{
	for (; at && job.look_ns < all->heap[(at - 1) / 2].look_ns; at = (at - 1) / 2)
		deadline_put(all, at, all->heap[(at - 1) / 2]);
	for (;;) {
		uint32_t child = 2 * at + 1;

		if (child + 1 < all->n && all->heap[child + 1].look_ns < all->heap[child].look_ns)
			child++;
		if (child >= all->n || all->heap[child].look_ns >= job.look_ns)
			break;
		deadline_put(all, at, all->heap[child]);
		at = child;
	}
	deadline_put(all, at, job);
}

/* Lock held. */
static void deadline_drop(struct deadlines *all, uint32_t row)
{
	uint32_t at = deadline_where(all, row) - 1;
	struct deadline last = all->heap[--all->n];

	/* ORDER deadline/forgotten [D9]: release, the verdict that makes it unnecessary comes
	 * before. Pairs with deadline_is_over(). */
	atomic_store_explicit(&all->where[row], 0, memory_order_release);
	if (at != all->n)
		deadline_sift(all, at, last);
}

/* Lock held. True if it is the earliest. */
static bool deadline_set(struct deadlines *all, struct deadline job)
{
	uint32_t where = deadline_where(all, job.row);

	deadline_sift(all, where ? where - 1 : all->n++, job);
	return all->heap[0].row == job.row;
}

bool deadline_add(struct pool *pool, uint32_t row, uint32_t generation, uint64_t at_ns)
{
	struct deadlines *all = pool->deadlines;
	bool first;

	pthread_mutex_lock(&all->lock);
	first = deadline_set(all, (struct deadline){ at_ns, at_ns, row, generation });
	pthread_mutex_unlock(&all->lock);
	return first;
}

void deadline_watch(struct pool *pool, uint32_t row, uint32_t generation)
{
	struct deadlines *all = pool->deadlines;
	struct deadline job = { UINT64_MAX, 0, row, generation };
	uint32_t where;
	bool later;

	pthread_mutex_lock(&all->lock);
	where = deadline_where(all, row);
	if (where && all->heap[where - 1].generation == generation)
		job.at_ns = all->heap[where - 1].at_ns;
	/* The job may have ended, and another one may have its row. */
	later = where && job_is_later(all->heap[where - 1].generation, generation);
	if (!later)
		(void)deadline_set(all, job);
	pthread_mutex_unlock(&all->lock);
	if (!later)
		pool_wake_dispatcher(pool);
}

void deadline_remove(struct pool *pool, uint32_t row)
{
	struct deadlines *all = pool->deadlines;

	if (!deadline_where(all, row))
		return;
	pthread_mutex_lock(&all->lock);
	if (deadline_where(all, row))
		deadline_drop(all, row);
	pthread_mutex_unlock(&all->lock);
}

bool deadline_is_over(struct pool *pool, uint32_t row, uint32_t generation, uint64_t now)
{
	struct deadlines *all = pool->deadlines;
	uint32_t where;
	bool over;

	/* ORDER deadline/forgotten [D9]: acquire, a thread that finds none sees the verdict for
	 * which it was removed. Pairs with deadline_drop(). */
	if (!atomic_load_explicit(&all->where[row], memory_order_acquire))
		return false;
	pthread_mutex_lock(&all->lock);
	where = deadline_where(all, row);
	over = where && all->heap[where - 1].generation == generation &&
	       all->heap[where - 1].at_ns <= now;
	pthread_mutex_unlock(&all->lock);
	return over;
}

uint32_t deadlines_due(struct deadlines *all, uint64_t now, struct deadline *ret_jobs)
{
	uint32_t n = 0;

	pthread_mutex_lock(&all->lock);
	for (; n < DEADLINE_SOME && all->n && all->heap[0].look_ns <= now; n++) {
		ret_jobs[n] = all->heap[0];
		all->heap[0].look_ns = now + DEADLINE_AGAIN;
		deadline_sift(all, 0, all->heap[0]);
	}
	pthread_mutex_unlock(&all->lock);
	return n;
}

void deadline_forget(struct deadlines *all, const struct deadline *job)
{
	uint32_t where;

	pthread_mutex_lock(&all->lock);
	where = deadline_where(all, job->row);
	if (where && all->heap[where - 1].generation == job->generation)
		deadline_drop(all, job->row);
	pthread_mutex_unlock(&all->lock);
}

uint64_t deadlines_next(struct deadlines *all)
{
	uint64_t next;

	pthread_mutex_lock(&all->lock);
	next = all->n ? max(all->heap[0].look_ns, UINT64_C(1)) : 0;
	pthread_mutex_unlock(&all->lock);
	return next;
}
