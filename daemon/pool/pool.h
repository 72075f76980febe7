/* SPDX-License-Identifier: MIT */
/*
 * pool.h - the pool process: its start, its life and its end
 *
 * WHO CALLS IT, ON WHICH THREAD
 *   main.c calls pool_run(). Its thread reads the channel (channel.h); the dispatcher and the
 *   workers are threads of their own.
 */
#ifndef DAEMON_POOL_POOL_H
#define DAEMON_POOL_POOL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/options.h"
#include "common/relaxed.h"
#include "daemon/core/channel.h"
#include "daemon/jobs/deadline.h"
#include "daemon/pool/dispatcher.h"
#include "daemon/fiber/fiber.h"
#include "daemon/core/halt.h"
#include "daemon/jobs/hang.h"
#include "daemon/jobs/intake.h"
#include "daemon/core/lazy.h"
#include "daemon/host/module.h"
#include "daemon/sched/park.h"
#include "daemon/core/permit.h"
#include "daemon/core/registry.h"
#include "daemon/sched/starved.h"
#include "daemon/core/worker.h"
#include "shm/board.h"
#include "shm/ledger.h"

struct profile;
struct topology;
struct trace;
struct victims;

#define POOL_RUNNING  0u
#define POOL_ENDING   1u /* workers leave as soon as they find nothing */
#define POOL_DRAINING 2u /* and above, each time another: runs what is queued, or halts (halt.h) */

struct pool {
	const struct options *options;
	struct board *board;
	uint64_t board_size;
	struct arena *arena;
	uint64_t arena_size;
	uint32_t n_workers;
	/* of the manager, once: a task can write over those in the arena */
	uint32_t max_clients;
	uint32_t max_jobs;
	struct worker *workers; /* in the arena */
	struct topology *topology;
	struct victims *victims;
	uint32_t n_groups;	    /* NUMA nodes with a worker; worker->group is one */
	struct stack_arena *stacks; /* one for each group, on its node */
	struct modules modules;
	struct permit permit;
	struct registry registry;
	struct intake intake;
	struct dispatcher dispatcher;
	struct park park;
	struct starved starved;
	_Atomic uint64_t *stack_bytes; /* that each row's job holds: stack.h, I3 */
	_Atomic uint64_t *verdicts;    /* of each row, see verdict.h */
	_Atomic uint32_t *cancels;     /* each row's generation that is cancelled, 0 for none */
	struct deadlines deadlines;
	struct hangs hangs;
	struct fibers fibers;
	pid_t pid;
	struct channel channel;
	struct trace *trace; /* NULL until somebody has traced: trace.h, I1 */
	/* who is busy, looks, sleeps */
	struct lazy lazy;
	struct lazy_seat seats[LIMIT_WORKERS];
	/* a bit for each root deque that may hold jobs: worker_mark_roots() */
	_Alignas(64) _Atomic uint64_t root_words[LIMIT_WORKERS / 64];
	_Atomic uint32_t wake_turn; /* the cell to be asked first for a sleeper */
	/* the channel's thread writes, rarely: options that change, see pool_set() */
	_Alignas(64) _Atomic uint32_t scheduler; /* OPTIONS_SCHEDULER_* */
	_Atomic uint32_t weight;		 /* of connections that come */
	_Atomic uint64_t spin;			 /* ns */
	_Atomic uint64_t stack_max;		 /* bytes, of a job that begins */
	_Atomic uint64_t hang_limit;		 /* ns, 0: any time */
	_Atomic uint32_t stop; /* POOL_*; the dispatcher says ENDING, and that it stays */
	uint32_t n_drains;     /* so far; the channel's thread */
	struct halt halt;
	_Atomic uint64_t pinged; /* number of the PROTO_POOL_PONG that is owed, 0: none is */
	/* forkctl check and profile, benchmarks; constant once workers run: pool_set_fork_mode() */
	bool force_steals;	 /* treat every fork as stolen, and scribble over the C stack */
	bool late_children;	 /* with it: what follows a fork runs before the child */
	uint32_t shaken;	 /* a seed: forks are published and stolen at random; 0: not */
	bool kept;		 /* what a worker has forked or spawned nobody steals */
	struct profile *profile; /* NULL: none is made */
};

/* How forks are treated, as the options say; n_workers is set. Returns 0 or a negative errno. */
int pool_set_fork_mode(struct pool *pool);

/* The C stack is overwritten between strands: a local variable does not survive. Not in a profile,
 * where it would cost the caches. */
static inline bool pool_scribbles(const struct pool *pool)
{
	return (pool->force_steals && !pool->profile) || pool->shaken;
}

/*
 * Runs the pool until the manager says stop or is gone.
 * options: the effective ones. channel: the SEQPACKET socket to the manager.
 * Returns the exit status of the process.
 */
int pool_run(const struct options *options, int channel);

/* Makes all workers leave as soon as they find nothing to do. */
void pool_stop_workers(struct pool *pool);

/* True if its workers are to leave. Relaxed: those that sleep are woken after it, and so is the
 * channel's thread, whose channel is shut. */
static inline bool pool_ends(struct pool *pool)
{
	return load_relaxed(&pool->stop) == POOL_ENDING;
}

/* Relaxed, both: a worker that sleeps on the old value is woken by pool_set(). */
static inline bool pool_is_lazy(struct pool *pool)
{
	return load_relaxed(&pool->scheduler) == OPTIONS_SCHEDULER_LAZY;
}

static inline uint64_t pool_spin(struct pool *pool)
{
	return load_relaxed(&pool->spin);
}

/* ns, 0: any time. Relaxed: it is looked at again and again. */
static inline uint64_t pool_hang_limit(struct pool *pool)
{
	return load_relaxed(&pool->hang_limit);
}

/* Settings as the options have them, before workers run. */
void pool_init_settings(struct pool *pool);

/*
 * Changes a setting while workers run: an option that can be changed then, and is a number or a
 * word. Nothing comes of one that the manager alone uses.
 * Returns 0, or what options_set() returns; -EPERM for one that cannot be changed.
 */
int pool_set(struct pool *pool, const char *name, const char *value);

/* Wakes the dispatcher, if it sleeps. Any thread of the pool. */
void pool_wake_dispatcher(struct pool *pool);

/* The group of the NUMA node of this OS index; n_groups if it has no worker. */
uint32_t pool_group_on(struct pool *pool, uint32_t node);
/* The worker of this index; NULL if there is none. */
struct worker *pool_worker_at(struct pool *pool, uint32_t index);
/* A worker on the NUMA node of this OS index, near itself if it is there; NULL if there is none. */
struct worker *pool_worker_on(struct pool *pool, struct worker *near, uint32_t node);

/* What is kept for each row of the ledger. Returns 0 or -ENOMEM. */
int pool_make_rows(struct pool *pool);
void pool_free_rows(struct pool *pool);

/* Wakes the thread that rests with this wake word, which had this value, and this bell; false: the
 * value has changed. */
bool pool_wake_word(_Atomic uint32_t *word, _Atomic uint32_t *bell, uint32_t value);

#endif
