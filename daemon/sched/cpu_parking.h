/* SPDX-License-Identifier: MIT */
/*
 * cpu_parking.h - workers whose CPUs are not to be used park
 *
 * The CPUs that forkd may use change while it runs: an administrator changes its cpuset or its
 * affinity, a CPU goes offline, cpu.max is set. A worker whose CPU is none of them any more parks,
 * and so do those of all but the first CPUs if there are more than cpu.max is enough for: max(1,
 * ceil(quota / period)). Two workers on one CPU would halve each other; and what a quota takes away
 * it takes from all at once, in the middle of their work.
 *
 * WHAT A PARKED WORKER IS
 *   Its thread stays, with its ring, inbox and places. It only looks for no work and is woken for
 *   none (lazy_policy.h). What it runs it goes on with until it would search, so its deque is empty
 *   when it parks; what it had in hand beside that is handed on (worker_park()). It still runs jobs
 *   that were placed there strictly and frames that have gone there, on whichever CPU the kernel
 *   gives it.
 *
 * Threads: park_begin(): process.c, before there is a dispatcher. park_set_most(): the channel's
 * thread. park_look(), park_choose(): the dispatcher. park_call(): workers, when they wake.
 * worker_is_parked() says what has been chosen.
 *
 * INVARIANTS
 *   I1. One worker at least is not parked, at any time: those that come back do so before others
 *       park.
 *   I2. The dispatcher looks once in PARK_TICK, and only while a worker is awake. It gives that up
 *       when all sleep; the first that wakes after that calls it. Of the two, the one that is later
 *       sees the other: the dispatcher says that it wants to be called, and looks at the group
 *       states behind a full fence; a worker makes its step, and looks at what the dispatcher wants
 *       behind one.
 *   I3. No wake-up is lost: lazy_policy.h, L4, L6 and L7; wake.h, W3. A worker that is told so
 *       while it sleeps is woken, so that its word says PARKED and clients go to others.
 *
 * HOW THE CPUS ARE KNOWN
 *   By the affinity of the dispatcher's own thread, which is not pinned: the kernel keeps every
 *   thread within the cpuset, and says only CPUs that are online. No file is read, so that a pool
 *   without files (sandbox = strict) sees it as well. The kernel moves pinned threads whose CPU
 *   goes; it may forget the pin (Linux before 6.2, and with hotplug), so a worker that is not where
 *   it is to be is pinned again. cpu.max is in a file, which the manager reads when the dispatcher
 *   asks (PROTO_POOL_ASK_CPUS): it does not wake for it while no worker is awake.
 *
 * If a peer dies: the manager: cpu.max stays what it was; the pool ends soon.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/clock.h"
#include "shm/limits.h"

struct pool;
struct worker;

#define PARK_TICK NSEC_PER_SEC

/* What the dispatcher wants of a worker that wakes. */
#define PARK_NOTHING 0u
#define PARK_CALL    1u
#define PARK_CALLED  2u

struct park {
	/* the channel's thread writes: CPUs that cpu.max is enough for, 0 for any number */
	_Atomic uint32_t most;
	_Atomic uint32_t asked; /* the dispatcher, and has no answer yet; both write */
	/* the dispatcher writes; a worker PARK_CALLED over PARK_CALL */
	_Atomic uint32_t wants;
	/* the dispatcher's */
	bool works; /* workers are pinned: there is something to look after */
	uint32_t most_seen;
	uint32_t n;	  /* parked */
	uint64_t look_at; /* CLOCK_MONOTONIC, ns */
};

/* The workers' threads are pinned, or will be: from now on CPUs are looked after. */
void park_begin(struct pool *pool);

/* cpu.max is enough for so many CPUs; 0: for any number. */
void park_set_most(struct pool *pool, uint32_t most);

/* Looks at the CPUs, if it is time. Returns when it has to be called again, CLOCK_MONOTONIC; 0 for
 * when a worker wakes the dispatcher. */
uint64_t park_look(struct pool *pool, uint64_t now);

/* Parks those that are not to run, after it has told those that are. usable: the CPU of each worker
 * can be used, a bit each; n_cpus: how many can, with those that no worker has. most: as above. */
void park_choose(struct pool *pool, const uint64_t usable[LIMIT_WORKERS / 64], uint32_t n_cpus,
		 uint32_t most);

/* A worker gets no CPU time (starved.h): the kernel may run it on each CPU of its group that may be
 * used, until park_look() pins it again. It is moved at once if there is the CPU of a worker that
 * rests. The dispatcher. */
void park_loosen(struct pool *pool, uint32_t worker);

/* True if park_fetch() may move the worker to that CPU: it belongs to a worker of the same group,
 * and no other worker was moved there; or it is the worker's own, and the worker is away. */
bool park_may_fetch(struct pool *pool, uint32_t worker, uint32_t cpu);

/* Moves a worker to that CPU, until park_return(), or until park_look() pins it again. Both: any
 * thread of the pool. */
void park_fetch(struct pool *pool, uint32_t worker, uint32_t cpu);

/* Pins a worker that was moved to its own CPU again. The worker itself, without a job, or the
 * thread that has moved it. */
void park_return(struct worker *worker);

/* Wakes the dispatcher, which wants to be called. */
void park_call(struct pool *pool);
