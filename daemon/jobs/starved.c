/* SPDX-License-Identifier: MIT */
#include "daemon/jobs/starved.h"

#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/relaxed.h"
#include "common/util.h"
#include "daemon/jobs/hang_detector.h"
#include "daemon/core/mailbox.h"
#include "daemon/jobs/pending.h"
#include "daemon/sched/cpu_parking.h"
#include "common/clock.h"
#include "daemon/core/deque.h"
#include "daemon/core/pool_state.h"
#include "daemon/core/wakeup.h"
#include "daemon/core/worker_state.h"
#include "daemon/sched/wake.h"
#include "shm/board.h"
#include "daemon/host/topology.h"
#include "shm/fence.h"
#include "shm/wake.h"

/* With many workers the checks are less frequent: each check reads each clock. */
#define STARVED_WORKERS 64u

static bool starved_rests(const struct worker *w)
{
	/* ORDER worker/absent [T5]: acquire, an absent worker may have no thread. Pairs with
	 * worker_arrive(). */
	return atomic_load_explicit(&w->requests.absent, memory_order_acquire) ||
	       wake_rests(wake_load(&w->board->wake));
}

/* False if the worker's thread sleeps in the kernel. True if that is unknown: with sandbox = strict
 * no file can be opened. A task can change the thread's number on the board; then workers are woken
 * without need, or a starved one is not found. */
static bool starved_is_runnable(const struct worker *w)
{
	/* Relaxed: written before the worker's first search. */
	uint32_t tid = load_relaxed(&w->board->tid);
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

/* True if jobs wait, or a thief could take work from this worker. A hint. */
static bool starved_has_more(struct pool *pool, struct worker *w)
{
	return worker_jobs_pending(pool) || deque_size(&w->engine.frames) || inbox_any(&w->inbox);
}

/* Checks all workers once. Returns whether one of them is awake. */
static bool starved_look(struct pool *pool)
{
	_Atomic uint64_t *count = &pool->board->counters[BOARD_POOL].starved;
	bool awake = false;

	for (uint32_t i = 0; i < pool->n_workers; i++) {
		struct worker *w = &pool->workers[i];
		bool rests = starved_rests(w);

		awake |= !rests;
		if (!starved_judge(&pool->starved->cpu[i], rests ? STARVED_UNKNOWN : hang_cpu(w)) ||
		    !starved_is_runnable(w))
			continue;
		/* Relaxed: a statistic, and this thread's own. */
		store_relaxed(count, load_relaxed(count) + 1);
		if (starved_has_more(pool, w))
			(void)worker_wake_more(pool);
		park_loosen(pool, i);
	}
	return awake;
}

/* True if its thread gets CPU time within STARVED_MOMENT; at once, if it is running. */
static bool starved_runs(const struct worker *w)
{
	uint64_t cpu = hang_cpu(w), until = clock_ns() + STARVED_MOMENT;

	do
		if (hang_cpu(w) != cpu)
			return true;
	while (clock_ns() < until);
	return false;
}

/* Moves the first worker whose job is to end, and which waits for CPU time, to the CPU of the
 * calling thread. */
static void starved_hurry(struct pool *pool)
{
	int cpu = sched_getcpu();

	for (uint32_t i = 0; cpu >= 0 && i < pool->n_workers; i++) {
		struct worker *w = &pool->workers[i];

		if (starved_rests(w) || !hang_doomed(pool, w) ||
		    !park_may_fetch(pool, i, (uint32_t)cpu) || starved_runs(w) ||
		    !starved_is_runnable(w))
			continue;
		park_fetch(pool, i, (uint32_t)cpu);
		/* ORDER starved/away [A2]: full, the worker is marked as moved before its job is
		 * read. Pairs with worker_wait(): if that has not seen the mark, this thread sees
		 * that the job has ended. */
		fence_full();
		if (!hang_doomed(pool, w))
			park_return(w);
		/* Relaxed: a statistic. */
		add_relaxed(&pool->board->counters[BOARD_POOL].cpu_moves, 1);
		return;
	}
}

void starved_expect(struct pool *pool)
{
	/* Relaxed: pool_wake_dispatcher() has a full fence. A client that ends with thousands of
	 * jobs is handled once. */
	if (atomic_exchange_explicit(&pool->starved->news, true, memory_order_relaxed))
		return;
	pool_wake_dispatcher(pool);
	starved_hurry(pool);
}

/* Calls starved_hurry() if it is time. Returns when to call again; UINT64_MAX: no need. */
static uint64_t starved_hurry_again(struct pool *pool, uint64_t now)
{
	struct starved *s = pool->starved;
	uint64_t at;

	/* Relaxed: the dispatcher sleeps after a full fence. */
	if (load_relaxed(&s->news)) {
		store_relaxed(&s->news, false);
		s->since = now;
	}
	if (now - s->since > STARVED_HURRY)
		return UINT64_MAX;
	at = s->hurried + max(s->hurried - min(s->since, s->hurried), STARVED_SOON);
	if (now < at)
		return at;
	starved_hurry(pool);
	s->hurried = now;
	return now + max(now - s->since, STARVED_SOON);
}

uint64_t starved_check(struct pool *pool, uint64_t now)
{
	struct starved *s = pool->starved;
	uint64_t hurry = starved_hurry_again(pool, now), interval;

	if (now >= s->next) {
		interval = STARVED_TICK * (1 + pool->n_workers / STARVED_WORKERS);
		s->interval = starved_look(pool)
				    ? interval
				    : min(max(2 * s->interval, interval), STARVED_SELDOM);
		s->next = now + s->interval;
	}
	return min(s->next, hurry);
}
