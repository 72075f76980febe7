/* SPDX-License-Identifier: MIT */
/*
 * daemon/pool.h - the pool process: workers, dispatcher, and the channel to the manager
 *
 * WHO CALLS IT, ON WHICH THREAD
 *   main.c calls pool_run(). Its thread reads the channel; the dispatcher and the workers are
 *   threads of their own.
 */
#ifndef DAEMON_POOL_H
#define DAEMON_POOL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/options.h"
#include "daemon/intake.h"
#include "daemon/module.h"
#include "daemon/worker.h"
#include "shm/board.h"
#include "shm/ledger.h"

struct root;

#define POOL_RUNNING  0u
#define POOL_DRAINING 1u /* runs what is queued */
#define POOL_ENDING   2u /* workers leave as soon as they find nothing */

struct pool {
	const struct options *options;
	struct board *board;
	uint64_t board_size;
	struct arena *arena;
	uint64_t arena_size;
	uint32_t n_workers;
	struct worker *workers; /* in the arena */
	struct stack_arena stacks;
	struct modules modules;
	struct intake intake;
	struct root *_Atomic *roots; /* the running root of each row, NULL for none */
	int channel;
	pthread_mutex_t channel_lock; /* who sends */
	/* see pool_busy() */
	_Alignas(64) _Atomic uint64_t census;
	_Atomic uint32_t stop; /* POOL_* */
	bool force_steals; /* treat every fork as stolen, and scribble over the C stack: for tests */
};

/*
 * Runs the pool until the manager says stop or is gone.
 * options: the effective ones. channel: the SEQPACKET socket to the manager.
 * Returns the exit status of the process.
 */
int pool_run(const struct options *options, int channel);

/* Makes all workers leave as soon as they find nothing to do. */
void pool_stop_workers(struct pool *pool);

/* Owner, at a fork: somebody asked that a queued job goes first, and there is one in w->roots. */
bool pool_take_summons(struct worker *worker);

/* Wakes the dispatcher, if it sleeps. Any thread of the pool. */
void pool_wake_dispatcher(struct pool *pool);

/* One step of the dispatcher. next: whom to summon next. True if it has to come back soon. */
bool pool_dispatch(struct pool *pool, uint32_t *next);

/* Lays the pool's part of the arena out. arena_fd: its memfd. Returns 0 or a negative errno. */
int pool_lay_out(struct pool *pool, int arena_fd);

/* Tells the manager. Any thread. */
void pool_send(struct pool *pool, uint32_t type, uint32_t client, uint32_t generation,
	       const char *text);

/* Wakes the sleeper of this wake word, which had this SLEEPING value; false: it is another now. */
bool pool_wake_word(_Atomic uint32_t *word, uint32_t value);

#endif
