/* SPDX-License-Identifier: MIT */
/*
 * sim.h - a discrete-event simulation of forkd's pool running one job
 *
 * Workers with split deques of continuations run a computation (dag.h) on a simulated machine
 * (machine.h). The scheduler's own code decides:
 * - the choice of victims: daemon/host/victims.h
 * - which worker searches, sleeps and is woken: daemon/core/lazy_policy.h
 * - how long a thief spins: daemon/core/spin_policy.h
 * - how often it sends requests, and how many entries are published: daemon/core/steal_policy.h
 * Around it, strands.c models daemon/engine/slow_path.c, and thieves.c daemon/pool/work_search.c,
 * step by step, with a cost for each step.
 *
 * TIME
 *   Integer picoseconds. A worker has one next event. The earliest event is run next, and of equal
 *   times the one of the lowest index, so options and seed determine a run. An event changes the
 *   shared state at once, and its cost is the time until the worker's next event. Long operations,
 *   a leaf's work or a search, are separate events.
 *
 * INVARIANTS
 *   S1. The work done by all workers is T_1 of the computation, to the picosecond.
 *   S2. At any time each live frame has one holder (O1 of engine_internal.h): a worker, a deque, or
 *       its join counter.
 *   S3. The oldest entry of a deque is stolen first (task.h, I2).
 *   S4. The lazy invariant, after every event (sim_check()).
 *
 * WHAT IS NOT IN THE MODEL
 *   Memory: bandwidth, caches of the computation's own data, first touches. Frequencies, SMT. The
 *   operating system's other threads. More than one job: rings, intake, fairness, set-aside frames.
 *
 * Threads: sim_run.c and check_sim.c; a simulation is one thread's, several may run side by side on
 * one machine and one dag.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "tests/sim/dag.h"
#include "tests/sim/machine.h"

#define SIM_NEVER UINT64_MAX
#define SIM_NONE  UINT32_MAX

/* An error that a test makes on purpose, to see that it is detected. */
enum sim_mutant {
	SIM_SOUND,
	SIM_NO_CHARGE,	/* a worker that is woken or turns busy wakes none */
	SIM_NO_SIGNALS, /* no signals to a victim that does not answer */
	SIM_NEWEST,	/* thieves take the newest public entry */
};

struct sim_options {
	uint64_t seed;
	uint64_t spin;	  /* ns a thief looks before it sleeps, as the option of forkd.conf */
	uint32_t publish; /* D; 0 for forkd's */
	uint32_t spread;  /* how many a thief wakes that was woken; 0 for forkd's, SIM_NONE */
	bool recall;	  /* what if: a thief looks first at whom it asked last */
	bool timid;	  /* what if: thieves begin as they are after many searches in vain */
	bool busy;	  /* scheduler = busy: no worker sleeps */
	bool warm;	  /* the pool was busy a moment ago: cores sleep lightly */
	bool check;	  /* S2 to S4 after every event: slow */
	enum sim_mutant mutant;
};

struct sim_stats {
	uint64_t t_p;  /* ps, from the submission to the end of the root */
	uint64_t work; /* ps of the computation, all workers */
	uint64_t forks;
	uint64_t attempts, races, steals[VICTIMS_LEVELS];
	uint64_t steal_requests, steal_signals, published_by_signal, requests_served,
		frames_materialized, published, unpublished;
	uint64_t forks_stolen, joins_last, joins_waited;
	uint64_t wakes, wakes_extra, sleeps, timed_sleeps;
	/* integrals over the run, worker-picoseconds */
	uint64_t busy_ps, looking_ps, sleeping_ps;
	uint32_t peak_busy;
	uint64_t half_at, most_at; /* when half and nine tenths were first busy at once; NEVER */
	uint64_t events;
	const char *broken; /* the first invariant that did not hold, NULL for none */
};

/* Runs a simulation. Returns 0 or -ENOMEM. */
int sim_run(const struct machine *machine, const struct dag *dag, const struct sim_options *options,
	    struct sim_stats *ret_stats);
