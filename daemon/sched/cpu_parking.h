/* SPDX-License-Identifier: MIT */
/*
 * cpu_parking.h - takes workers offline whose CPUs must not be used
 *
 * The CPUs that forkd may use change while it runs: an administrator changes its cpuset or
 * affinity, a CPU goes offline, cpu.max is set. A worker whose CPU is not usable any more goes
 * offline. If there are more CPUs than cpu.max allows, max(1, ceil(quota / period)), the workers of
 * all but the first CPUs go offline too. Two workers on one CPU would halve each other's speed. The
 * kernel enforces a quota on all workers at once, in the middle of their work.
 *
 * OFFLINE WORKERS
 *   The worker's thread stays, with its ring, inbox and places. It does not search for work and is
 *   not woken for it (lazy_policy.h). It continues its strand until it would search, so its deque
 *   is empty when it goes offline; it passes on other work in hand (worker_park()). It still runs
 *   jobs that were placed there strictly and frames that moved there, on any CPU that the kernel
 *   gives it.
 *
 * Threads: park_begin(): process.c, before there is a dispatcher. park_set_most(): the channel's
 * thread. park_look(), park_choose(): the dispatcher. park_call(): workers, when they wake.
 * worker_is_parked() returns the current state.
 *
 * INVARIANTS
 *   I1. At least one worker is online at any time: workers come back before others go offline.
 *   I2. The dispatcher checks once in PARK_TICK, and only while a worker is awake. When all sleep
 *       it stops; the first worker that wakes calls it. The later of the two sees the other: the
 *       dispatcher stores that it must be called, makes a full fence and reads the group states. A
 *       worker makes its transition, a full fence, and reads what the dispatcher has stored.
 *   I3. No wake is lost: lazy_policy.h, L4, L6 and L7; wake.h, W3. A worker whose state changes
 *       while it sleeps is woken, so that its word becomes PARKED and clients use other workers.
 *
 * HOW CPUS ARE DETECTED
 *   By the affinity of the dispatcher's own thread, which is not pinned: the kernel keeps each
 *   thread within the cpuset, and returns only CPUs that are online. No file is read, so it works
 *   in a pool without files (sandbox = strict). The kernel moves pinned threads whose CPU goes
 *   offline. It may forget the pin (Linux before 6.2, and with hotplug), so a worker on another CPU
 *   is pinned again. cpu.max is in a file, which the manager reads when the dispatcher asks
 *   (PROTO_POOL_ASK_CPUS): so the manager does not wake for it while no worker is awake.
 *
 * If the manager dies: cpu.max keeps its last value; the pool ends soon.
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
/* Until the first check: reading the limits would delay the workers that are starting. */
#define PARK_FIRST (10 * NSEC_PER_MSEC)

/* The next step of a worker that wakes. */
#define PARK_NOTHING 0u
#define PARK_CALL    1u
#define PARK_CALLED  2u

struct park {
	/* the channel's thread writes: number of CPUs that cpu.max allows, 0: any */
	_Atomic uint32_t most;
	_Atomic uint32_t asked; /* the dispatcher has asked and has no answer yet; both write */
	/* the dispatcher writes; a worker replaces PARK_CALL by PARK_CALLED */
	_Atomic uint32_t wants;
	/* the dispatcher's */
	bool works; /* workers are pinned, so CPUs are checked */
	uint32_t most_seen;
	uint32_t n;	  /* number of offline workers */
	uint64_t look_at; /* CLOCK_MONOTONIC, ns */
};

/* From now on CPUs are checked: the workers' threads are pinned, or will be. */
void park_begin(struct pool *pool);

/* Sets the number of CPUs that cpu.max allows; 0: any number. */
void park_set_most(struct pool *pool, uint32_t most);

/* Checks the CPUs, if it is time. Returns when it must be called again, CLOCK_MONOTONIC; 0: when a
 * worker wakes the dispatcher. */
uint64_t park_look(struct pool *pool, uint64_t now);

/* Takes workers offline, after others have come online. usable: a bit for each worker whose CPU can
 * be used. n_cpus: number of usable CPUs, including those without a worker. most: as above. */
void park_choose(struct pool *pool, const uint64_t usable[LIMIT_WORKERS / 64], uint32_t n_cpus,
		 uint32_t most);

/* A worker gets no CPU time (starved.h): lets the kernel run it on each usable CPU of its group,
 * until park_look() pins it again. Moves it at once if a sleeping worker's CPU is available. The
 * dispatcher. */
void park_loosen(struct pool *pool, uint32_t worker);

/* True if park_fetch() may move the worker to that CPU: it belongs to a worker of the same group
 * and no other worker was moved there; or it is the worker's own, and the worker was moved away. */
bool park_may_fetch(struct pool *pool, uint32_t worker, uint32_t cpu);

/* Moves a worker to that CPU, until park_return(), or until park_look() pins it again. Both
 * functions: any thread of the pool. */
void park_fetch(struct pool *pool, uint32_t worker, uint32_t cpu);

/* Pins a worker that was moved away to its own CPU again. The worker itself, without a job, or the
 * thread that has moved it. */
void park_return(struct worker *worker);

/* Wakes the dispatcher if it waits for that. */
void park_call(struct pool *pool);
