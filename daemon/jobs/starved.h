/* SPDX-License-Identifier: MIT */
/*
 * starved.h - workers that are awake and get no CPU time
 *
 * Other programs of the machine can keep a pinned worker off its CPU for seconds: a real-time
 * program, one of a low nice value, many loops. The words and the group states still say that this
 * worker is busy, or looks for work. So other threads leave queued jobs to it, and sleep. The
 * dispatcher compares the CPU clocks of all workers that are awake, every STARVED_TICK. A worker
 * whose clock has not moved in between is starved, unless its thread sleeps in a system call
 * (/proc; if no file can be opened, the dispatcher treats both alike). The dispatcher
 * - wakes a sleeping worker if jobs wait or the starved one has something public: jobs of its
 *   root deque, continuations of its deque, fibers of its inbox;
 * - loosens the pin (park_loosen()): the kernel may run the starved worker on each CPU of its
 *   group. It is pinned again at the next look of cpu_parking.c: within PARK_TICK, or, if all
 *   workers sleep by then, when one of them wakes up.
 * A worker that was not starved loses nothing but the time of a move to another CPU.
 *
 * A JOB THAT IS TO END
 *   A client or the manager waits for the end of a job that was cancelled, is late, or whose client
 *   is gone. Its last frame may belong to a worker that was preempted, and whose CPU runs another
 *   program until the next tick of the kernel, up to 4 ms (HZ=250), or for some of its slices. So
 *   the thread that decides about the end looks at once at the workers that run such jobs
 *   (starved_expect()). The clock of a worker that has no CPU stands still. The first such worker
 *   is moved to the CPU of the thread that looks: with group scheduling (autogroup, cgroups) the
 *   pool's group has that CPU now, and may be in debt on the others. The dispatcher does the same
 *   at once, after 0.5 ms, and less and less often for 20 ms; that also makes the kernel choose
 *   again on the dispatcher's CPU. A CPU takes one moved worker at a time, so that the workers of a
 *   wide job do not queue there. A worker goes back when it has nothing more to go on with
 *   (park_return()). Where the pool's group is in debt on all CPUs nothing helps but to wait: the
 *   kernel gives the group no CPU before others have had as much. Real-time priority would help.
 *   Clients can keep the manager and the dispatcher busy, and these would keep all other programs
 *   off the CPU.
 *
 * WHAT IS TAKEN, AND BY WHICH RULE
 *   Nothing is taken in a new way; another worker is only woken to look.
 * 	a ring		any consumer that gets the ring's consumer word (shm/ledger.h)
 * 	root deque	deque_steal() by a worker, deque_steal_share() by the dispatcher
 * 			(intake_recall()): one CAS of the deque's word, as each thief does
 * 	frame deque	deque_steal(), the public part alone
 * 	inbox		inbox_steal(), of fibers that may run anywhere
 *   The owner's side of a deque (split, floor, bottom) belongs to the starved worker all the time,
 *   and so do the frame that it runs, its private entries, and what is placed there strictly: these
 *   wait until it runs again, on another CPU.
 *
 * Threads: starved_check(): the dispatcher, while cpu_parking.c looks after CPUs, not in a pool
 * that sleeps. starved_expect(): any thread of the pool.
 *
 * WHAT IT DOES NOT SEE
 *   A worker that a client has woken, and that has not run since: its word says SLEEPING. The
 *   client rings (shm/wake.h, W11), so that the dispatcher comes, and wakes
 *   another one if none of those that look starts a job.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/clock.h"
#include "shm/limits.h"

struct pool;

#define STARVED_TICK	(10 * NSEC_PER_MSEC)
#define STARVED_MOMENT	(20 * NSEC_PER_USEC) /* for which a worker may be off its CPU */
#define STARVED_SOON	(500 * NSEC_PER_USEC)
#define STARVED_HURRY	(20 * NSEC_PER_MSEC) /* for which the dispatcher looks often */
#define STARVED_SELDOM	(80 * NSEC_PER_MSEC) /* while all workers sleep */
#define STARVED_UNKNOWN UINT64_MAX	     /* of a CPU clock: it was not read at the last look */

/* The dispatcher's, except news, which any thread sets. */
struct starved {
	uint64_t cpu[LIMIT_WORKERS]; /* what each worker's clock said at the last look, ns */
	uint64_t next;		     /* when it looks again, CLOCK_MONOTONIC, ns */
	uint64_t interval;	     /* between the last two looks */
	uint64_t since;		     /* when it heard last that a job is to end */
	uint64_t hurried;	     /* when it looked last because of that */
	_Atomic bool news;
};

/*
 * Looks at a clock. *last is what it said at the last look, and becomes what it says now: cpu ns,
 * or STARVED_UNKNOWN of a worker that rests. Returns whether the worker was awake at both looks,
 * and has not run in between.
 */
static inline bool starved_judge(uint64_t *last, uint64_t cpu)
{
	bool starved = cpu != STARVED_UNKNOWN && cpu == *last;

	*last = cpu;
	return starved;
}

/* A job that may run is to end: looks whether one of its workers gets no CPU time, now and several
 * times later. Any thread of the pool. Takes STARVED_MOMENT for each worker of such a job that has
 * no CPU. */
void starved_expect(struct pool *pool);

/* Looks, if it is time to. Returns when to come back, CLOCK_MONOTONIC, ns. */
uint64_t starved_check(struct pool *pool, uint64_t now);
