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

#include <stdbool.h>
#include <stdint.h>

#include "common/options.h"
#include "common/relaxed.h"
#include "daemon/core/pool_state.h"
#include "daemon/fiber/fiber.h"
#include "daemon/jobs/deadline.h"
#include "daemon/jobs/hang.h"
#include "daemon/jobs/intake.h"
#include "daemon/pool/dispatcher.h"
#include "daemon/sched/fair.h"
#include "daemon/sched/park.h"
#include "daemon/sched/starved.h"

/* A pool with the parts that its directories keep to themselves. */
struct pool_whole {
	struct pool pool;
	struct fair fair;
	struct fibers fibers;
	struct park park;
	struct starved starved;
	struct deadlines deadlines;
	struct hangs hangs;
	struct dispatcher dispatcher;
};

/* A pool of zeros, with its parts; NULL if there is no memory. pool_delete() frees it and nothing
 * that it refers to. */
struct pool *pool_new(void);
void pool_delete(struct pool *pool);

/* How forks are treated, as the options say; n_workers is set. Returns 0 or a negative errno. */
int pool_set_fork_mode(struct pool *pool);

/* The C stack is overwritten between strands: a local variable does not survive. Not in a profile,
 * where it would cost the caches. */
static inline bool pool_scribbles(const struct pool *pool)
{
	return (pool->mode.force_steals && !pool->mode.profile) || pool->mode.shaken;
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
	return load_relaxed(&pool->settings.scheduler) == OPTIONS_SCHEDULER_LAZY;
}

static inline uint64_t pool_spin(struct pool *pool)
{
	return load_relaxed(&pool->settings.spin);
}

/* ns, 0: any time. Relaxed: it is looked at again and again. */
static inline uint64_t pool_hang_limit(struct pool *pool)
{
	return load_relaxed(&pool->settings.hang_limit);
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
