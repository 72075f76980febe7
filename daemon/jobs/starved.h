/* SPDX-License-Identifier: MIT */
/*
 * starved.h - workers that are awake and get no CPU time
 *
 * Other programs can keep a pinned worker off its CPU for seconds: a real-time program, one with a
 * low nice value, many busy loops. The words and the group states still show this worker as busy or
 * searching, so other threads leave queued jobs to it, and sleep. Every STARVED_TICK the dispatcher
 * compares the CPU clocks of all workers that are awake. A worker whose clock has not advanced is
 * starved, unless its thread sleeps in a system call (/proc; if no file can be opened, the
 * dispatcher treats both alike). The dispatcher
 * - wakes a sleeping worker if jobs wait or the starved one has public work: jobs of its root
 *   deque, continuations of its deque, fibers of its inbox;
 * - removes the pin (park_loosen()): the kernel may run the starved worker on each CPU of its
 *   group. cpu_parking.c pins it again at its next check: within PARK_TICK, or, if all workers
 *   sleep by then, when one of them wakes.
 * A worker that was not starved loses only the time of a move to another CPU.
 *
 * JOBS THAT MUST END
 *   A client or the manager waits for the end of a job that was cancelled, has exceeded its
 *   deadline, or whose client has gone. Its last frame may belong to a preempted worker. Then the
 *   CPU runs another program for some time slices, or until the kernel's next tick, up to 4 ms
 *   (HZ=250). So the thread that decides about the end checks the workers that run such jobs at
 *   once (starved_expect()). The clock of a worker without a CPU does not advance. The first such
 *   worker is moved to the CPU of the checking thread. With group scheduling (autogroup, cgroups)
 *   the pool's group has that CPU now, and may have used up its share of the others. The dispatcher
 *   does the same at once, after 0.5 ms, and then less and less frequently for 20 ms; that also
 *   makes the kernel choose again on the dispatcher's CPU. A CPU takes one moved worker at a time,
 *   so that the workers of a wide job do not queue there. A worker returns when it has nothing more
 *   to run (park_return()). If the pool's group has used up its share of all CPUs, it must wait
 *   until other groups have had as much. Real-time priority would help, but clients can keep the
 *   manager and the dispatcher busy, and these would then keep all other programs off the CPU.
 *
 * HOW WORK IS TAKEN
 *   By the existing rules; another worker is only woken to search.
 * 	a ring		any consumer that gets the ring's consumer word (shm/ledger.h)
 * 	root deque	deque_steal() by a worker, deque_steal_share() by the dispatcher
 * 			(intake_recall()): one CAS of the deque's word, as each thief does
 * 	frame deque	deque_steal(), the public part alone
 * 	inbox		inbox_steal(), of fibers that may run anywhere
 *   The owner's side of a deque (split, floor, bottom) always belongs to the starved worker. So do
 *   the frame that it runs, its private entries, and jobs placed there strictly: these wait until
 *   it runs again, on another CPU.
 *
 * Threads: starved_check(): the dispatcher, while cpu_parking.c checks CPUs, not in a sleeping
 * pool. starved_expect(): any thread of the pool.
 *
 * LIMITATION
 *   A worker that a client has woken, and that has not run since: its word is SLEEPING. The client
 *   rings (shm/wake.h, W11), so the dispatcher comes, and wakes another worker if none of the
 *   searching ones starts a job.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/clock.h"
#include "shm/limits.h"

struct pool;

#define STARVED_TICK	(10 * NSEC_PER_MSEC)
#define STARVED_MOMENT	(20 * NSEC_PER_USEC) /* within which a running worker shows CPU time */
#define STARVED_SOON	(500 * NSEC_PER_USEC)
#define STARVED_HURRY	(20 * NSEC_PER_MSEC) /* during which the dispatcher checks frequently */
#define STARVED_SELDOM	(80 * NSEC_PER_MSEC) /* while all workers sleep */
#define STARVED_UNKNOWN UINT64_MAX	     /* of a CPU clock: not read at the last check */

/* The dispatcher's, except news, which any thread sets. */
struct starved {
	uint64_t cpu[LIMIT_WORKERS]; /* each worker's clock at the last check, ns */
	uint64_t next;		     /* time of the next check, CLOCK_MONOTONIC, ns */
	uint64_t interval;	     /* between the last two checks */
	uint64_t since;		     /* last notice that a job is to end */
	uint64_t hurried;	     /* last starved_hurry() because of that */
	_Atomic bool news;
};

/* Compares a clock with its last value, *last, and stores the new one: cpu ns, or STARVED_UNKNOWN
 * for a sleeping worker. Returns whether the worker was awake at both checks and has not run in
 * between. */
static inline bool starved_judge(uint64_t *last, uint64_t cpu)
{
	bool starved = cpu != STARVED_UNKNOWN && cpu == *last;

	*last = cpu;
	return starved;
}

/* A job that may run is to end: checks whether one of its workers gets no CPU time, now and several
 * times later. Any thread of the pool. Takes STARVED_MOMENT for each worker of such a job that has
 * no CPU. */
void starved_expect(struct pool *pool);

/* Checks, if it is time. Returns when to call again, CLOCK_MONOTONIC, ns. */
uint64_t starved_check(struct pool *pool, uint64_t now);
