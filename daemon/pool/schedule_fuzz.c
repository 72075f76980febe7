/* SPDX-License-Identifier: MIT */
/*
 * schedule_fuzz.c - random preemption of workers, for forkctl check
 *
 * A thread sends the pool's signal and requests to random workers at random times, in bursts. So
 * forks are published, stolen and joined in orders that are rare on a quiet machine. In addition,
 * each worker leaves the fast path after some frames or at some fork (worker_limit()). Of two
 * entries that it then publishes (fk_rt_publish()) it steals one from itself. This works even for
 * very short jobs. The seed determines the actions, but not when they take effect, so a
 * run cannot be repeated exactly.
 *
 * Threads: process.c: the pool's main thread starts and stops it.
 *
 * INVARIANTS
 *   I1. It does the same to a worker as thieves do (work_search.c, ASKING), only more often: no
 *       result may depend on it. A signal to a thread that has ended has no effect.
 */
#include "daemon/pool/schedule_fuzz.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/low_latency.h"
#include "common/relaxed.h"
#include "common/util.h"
#include "daemon/core/pool_state.h"
#include "daemon/core/worker.h"
#include "daemon/core/worker_state.h"
#include "shm/board.h"

#define SCHEDULE_FUZZ_BURST 8u	 /* maximum number at a time */
#define SCHEDULE_FUZZ_PAUSE 60u	 /* us, maximum pause between bursts */
#define SCHEDULE_FUZZ_IDLE  1000 /* us, while no worker is busy */

struct shake {
	struct pool *pool;
	uint64_t random;
	_Atomic bool stop;
	pthread_t thread;
};

static uint32_t schedule_fuzz_random(struct shake *shake, uint32_t below)
{
	return (uint32_t)(xorshift64(&shake->random) >> 32) % below;
}

static void schedule_fuzz_one(struct shake *shake)
{
	struct worker *w =
		&shake->pool->workers[schedule_fuzz_random(shake, shake->pool->n_workers)];
	uint32_t what = schedule_fuzz_random(shake, 3);
	uint32_t tid = load_relaxed(&w->board->tid);

	if (what != 0)
		worker_ask(w);
	if (what != 1 && tid && shake->pool->signal)
		tgkill(getpid(), (pid_t)tid, shake->pool->signal);
}

static void *schedule_fuzz_main(void *arg)
{
	struct shake *shake = arg;

	pthread_setname_np(pthread_self(), "forkd-shake");
	low_latency_end();
	/* Relaxed: a hint; publishes no other data. */
	while (!load_relaxed(&shake->stop)) {
		uint32_t burst = 1 + schedule_fuzz_random(shake, SCHEDULE_FUZZ_BURST);
		uint32_t pause = schedule_fuzz_random(shake, SCHEDULE_FUZZ_PAUSE);

		if (!load_relaxed(&shake->pool->idle.lazy.active)) {
			usleep(SCHEDULE_FUZZ_IDLE);
			continue;
		}
		while (burst--)
			schedule_fuzz_one(shake);
		if (pause % 4)
			usleep(pause);
		else
			sched_yield();
	}
	return NULL;
}

struct shake *schedule_fuzz_start(struct pool *pool, uint32_t seed)
{
	struct shake *shake = calloc(1, sizeof(*shake));

	if (!shake)
		return NULL;
	shake->pool = pool;
	shake->random = UINT64_C(0x9e3779b97f4a7c15) * (seed + UINT64_C(1));
	if (pthread_create(&shake->thread, NULL, schedule_fuzz_main, shake)) {
		free(shake);
		return NULL;
	}
	return shake;
}

void schedule_fuzz_stop(struct shake *shake)
{
	if (!shake)
		return;
	store_relaxed(&shake->stop, true);
	pthread_join(shake->thread, NULL);
	free(shake);
}
