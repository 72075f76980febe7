/* SPDX-License-Identifier: MIT */
#include "daemon/starved.h"

#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/util.h"
#include "daemon/hang.h"
#include "daemon/inbox.h"
#include "daemon/park.h"
#include "daemon/pool.h"
#include "daemon/topology.h"
#include "daemon/worker.h"
#include "shm/wake.h"

/* A pool of many workers is looked at less often: each look reads each clock. */
#define STARVED_WORKERS 64u

static bool starved_rests(const struct worker *w)
{
	return wake_rests(wake_load(&w->board->wake));
}

/*
 * False if the worker's thread sleeps in the kernel. True if that is unknown: with confine = strict
 * no file can be opened. A task can change the thread's number on the board; then workers are woken
 * in vain, or a starved one is not found.
 */
static bool starved_is_runnable(const struct worker *w)
{
	/* Relaxed: written before the worker's first look. */
	uint32_t tid = atomic_load_explicit(&w->board->tid, memory_order_relaxed);
	_cleanup_close_ int fd = -1;
	char path[48], text[64];
	const char *state;
	ssize_t n;

	(void)snprintf(path, sizeof(path), "/proc/self/task/%" PRIu32 "/stat", tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
	text[max(n, 0)] = '\0';
	/* "TID (NAME) STATE ..." */
	state = strrchr(text, ')');
	return !state || !strncmp(state, ") R", 3);
}

/* True if jobs wait, or a thief may take something from this worker. A hint. */
static bool starved_has_more(struct pool *pool, struct worker *w)
{
	return worker_jobs_pending(pool) || deque_size(&w->frames) || inbox_any(&w->inbox);
}

/* One look at all workers. Returns whether one of them is awake. */
static bool starved_look(struct pool *pool)
{
	_Atomic uint64_t *count = &pool->board->counters[BOARD_POOL].starved;
	bool awake = false;

	for (uint32_t i = 0; i < pool->n_workers; i++) {
		struct worker *w = &pool->workers[i];
		bool rests = starved_rests(w);

		awake |= !rests;
		if (!starved_judge(&pool->starved.cpu[i], rests ? STARVED_UNKNOWN : hang_cpu(w)) ||
		    !starved_is_runnable(w))
			continue;
		/* Relaxed: a statistic, and this thread's own. */
		atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + 1,
				      memory_order_relaxed);
		if (starved_has_more(pool, w))
			(void)worker_wake_more(pool);
		park_loosen(pool, i);
	}
	return awake;
}

/* True if its thread has CPU time within STARVED_MOMENT; at once, if it runs now. */
static bool starved_runs(const struct worker *w)
{
	uint64_t cpu = hang_cpu(w), until = clock_ns() + STARVED_MOMENT;

	do
		if (hang_cpu(w) != cpu)
			return true;
	while (clock_ns() < until);
	return false;
}

void starved_hurry(struct pool *pool, uint32_t index)
{
	struct worker *w = &pool->workers[index];
	int cpu = sched_getcpu();

	/* One whose CPU this is may go on when the calling thread sleeps. */
	if (!pool->park.works || cpu < 0 ||
	    (uint32_t)cpu == topology_place(pool->topology, index)->cpu || starved_rests(w) ||
	    starved_runs(w) || !starved_is_runnable(w))
		return;
	park_fetch(pool, index, (uint32_t)cpu);
	/* Relaxed: a statistic. */
	atomic_fetch_add_explicit(&pool->board->counters[BOARD_POOL].hurried, 1,
				  memory_order_relaxed);
}

uint64_t starved_check(struct pool *pool, uint64_t now)
{
	struct starved *s = &pool->starved;

	if (now < s->next)
		return s->next;
	s->interval = starved_look(pool) ? STARVED_TICK * (1 + pool->n_workers / STARVED_WORKERS)
					 : min(2 * s->interval, STARVED_SELDOM);
	s->next = now + s->interval;
	return s->next;
}
