/* SPDX-License-Identifier: MIT */
/*
 * pool_state.h - struct pool: its parts, and the state that all directories share
 *
 * Parts that are only declared here belong to one directory each; pool_new() makes them.
 */
#pragma once

#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/sparse.h"
#include "daemon/core/manager_channel.h"
#include "daemon/core/shutdown.h"
#include "daemon/core/lazy_policy.h"
#include "daemon/core/task_permission.h"
#include "daemon/core/clients.h"
#include "daemon/host/module.h"
#include "shm/limits.h"

struct arena;
struct board;
struct deadlines;
struct dispatcher;
struct fair;
struct fibers;
struct hangs;
struct job_value;
struct options;
struct park;
struct pool_hooks;
struct crash_hooks;
struct profile;
struct stack_arena;
struct starved;
struct topology;
struct trace;
struct victims;
struct worker;

#define POOL_RUNNING 0u
#define POOL_ENDING  1u /* workers leave when they find no work */
#define POOL_DRAINING                                                                              \
	2u /* and above, one number for each drain: runs queued jobs, or halts (shutdown.h) */

/* Kept for each row of the ledger. */
struct pool_rows {
	struct sparse tables;		   /* has all of them */
	_Atomic uint64_t *stack_bytes;	   /* held by each row's job: stacklet.h, I3 */
	_Atomic uint64_t *aborts;	   /* job_abort.h */
	_Atomic uint32_t *cancels;	   /* generation to cancel, 0: none */
	struct job_value *_Atomic *locals; /* job_local.c */
};

/* Which workers are busy, search or sleep. */
struct pool_idle {
	/* a bit for each root deque that may hold jobs: worker_mark_roots() */
	_Alignas(64) _Atomic uint64_t root_words[LIMIT_WORKERS / 64];
	_Atomic uint32_t turn; /* the group to search first for a sleeper */
	_Alignas(64) struct lazy_seat seats[LIMIT_WORKERS];
	struct lazy lazy;
};

/* Options that change while workers run: pool_set(). The channel's thread writes, rarely. */
struct pool_settings {
	_Atomic uint32_t scheduler;    /* OPTIONS_SCHEDULER_* */
	_Atomic uint32_t weight;       /* of new connections */
	_Atomic uint64_t spin;	       /* ns */
	_Atomic uint64_t stack_max;    /* bytes, for jobs that begin */
	_Atomic uint64_t job_cpu_max;  /* ns, 0: no limit */
	_Atomic uint64_t hang_timeout; /* ns, 0: no limit */
};

/* daemon/jobs/cpu_limit.h */
struct pool_cpu_limit {
	_Atomic bool watched; /* the dispatcher will check, or is woken to */
	_Atomic bool reached; /* by a job that a worker has resumed: check at once */
	uint64_t next;	      /* check, CLOCK_MONOTONIC, ns; the dispatcher's */
};

/* Special treatment of forks for forkctl check, forkctl profile and benchmarks; constant once
 * workers run: pool_set_fork_mode(). */
struct pool_fork_mode {
	bool force_steals;	 /* every fork counts as stolen, and the C stack is overwritten */
	bool late_children;	 /* with it: the continuation of a fork runs before the child */
	bool no_steals;		 /* forked and spawned work stays on its worker */
	uint32_t fuzz_seed;	 /* seed for random publishing and stealing; 0: off */
	struct profile *profile; /* NULL: no profile */
};

struct pool {
	uint64_t size; /* bytes of this and of the parts stored after it */
	const struct options *options;
	struct board *board;
	uint64_t board_size;
	struct arena *arena;
	uint64_t arena_size;
	uint32_t n_workers;
	/* from the manager, once: a task can overwrite the values in the arena */
	uint32_t clients_max;
	uint32_t jobs_max;
	struct worker *workers; /* in the arena */
	struct topology *topology;
	struct victims *victims;
	uint32_t n_groups;	    /* NUMA nodes with a worker; worker->group is one */
	struct stack_arena *stacks; /* one for each group, on its node */
	pid_t pid;
	int signal; /* interrupts workers; 0: none; constant while there are any: worker_signal.h */
	struct trace *trace;	 /* NULL until the first trace: trace.h, I1 */
	uint32_t n_drains;	 /* so far; the channel's thread */
	_Atomic uint64_t pinged; /* number of the PROTO_POOL_PONG that is due, 0: none */
	sem_t started;		 /* posted by each thread that has allocated what it needs */
	void *(*worker)(void *); /* the function of each worker's thread */
	uint32_t n_late;	 /* workers without a thread; the dispatcher's */
	uint64_t late_at;      /* earliest time to create one, CLOCK_MONOTONIC; the dispatcher's */
	_Atomic uint32_t stop; /* POOL_*; the dispatcher sets ENDING, which stays */
	const struct pool_hooks *hooks;
	const struct crash_hooks *crash; /* NULL: crashes are the program's */
	struct pool_fork_mode mode;
	struct pool_rows rows;
	struct shutdown shutdown;
	struct pool_cpu_limit cpu_limit;
	/* parts of other directories */
	struct fair *fair;
	struct fibers *fibers;
	struct park *park;
	struct starved *starved;
	struct deadlines *deadlines;
	struct hangs *hangs;
	struct dispatcher *dispatcher;
	_Alignas(64) struct pool_settings settings;
	_Alignas(64) struct pool_idle idle;
	/* tables, of which a small pool uses the beginning; the first tasks are in one page */
	struct clients clients;
	struct permission permission;
	_Alignas(4096) struct modules modules;
	struct channel channel;
};
