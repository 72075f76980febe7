/* SPDX-License-Identifier: MIT */
/*
 * shm/watch.h - a count of watched jobs that have ended: one futex for a sleep over any of them
 *
 * WRITERS AND READERS
 *   Two lines of each client segment, behind its groups. The client marks the jobs that it watches
 *   (JOB_WATCHED in the state word, shm/job.h), counts its sleepers and sleeps on the count of
 *   ends. The thread that gives such a job its outcome (a worker, or the manager after the pool's
 *   death) counts it there, and wakes. The client can write anything at any time: the pool makes
 *   one fetch-and-add, one fence, one load, and at most one futex wake, for any contents. Jobs
 *   that are not watched cost nothing.
 *
 * 	client   CAS of JOB_WATCHED into each state; watch_begin(); looks at all of them; sleeps on
 * 		   what watch_begin() has returned; watch_leave(); looks again
 * 	pool     outcome exchanged in, JOB_WATCHED was there: watch_end(), and a wake if it says so
 *
 * INVARIANTS (of an honest client; a hostile one breaks its own waits and nothing else)
 *   I1. A mark in the word before the outcome is seen by the exchange of the outcome; a
 *       mark that comes later fails, and the client sees the outcome (I1 of client/lib/wait.c).
 *   I2. No thread sleeps through an end. Of the fences of watch_begin() and watch_end() one is
 *       first. If it is the sleeper's, the other side reads the count of sleepers after it, and
 *       wakes. The sleeper is asleep by then. Or it enters the kernel with a value older than the
 *       count of this end, and returns at once. Or its value includes this end, and by the acquire
 *       of watch_begin(), which pairs with the release of the count, it saw the outcome.
 *       If the fence of watch_end() is first, the value that the sleeper reads after its own fence
 *       includes this end, and the same holds.
 *   I3. An end wakes every sleeper, because only the sleeper knows which jobs it waits for. So each
 *       checks its jobs again, and sleeps on a new value.
 *   I4. A pool that dies between an outcome and the wake leaves sleepers asleep. So no thread
 *       sleeps for longer than a tick without its own check (client/lib/liveness.c, I1).
 *   2^32 ends between reading the value and sleeping on it would go unseen until then, too.
 *
 * If a peer dies: client: its segment goes with it. Pool: I4. A thread of the client cannot die
 * alone.
 *
 * Compiles with C11 alone: tests/model/watch.c runs this file.
 */
#pragma once

#include <stddef.h>
#include <stdatomic.h>
#include <stdint.h>

#include "common/relaxed.h"
#include "shm/fence.h"
#include "shm/group.h"

struct watch {
	/* client and pool write, the client sleeps on it */
	_Alignas(64) _Atomic uint32_t ended; /* goes up with each end of a watched job */
	uint8_t reserved0[60];
	/* the client writes, the pool reads */
	_Alignas(64) _Atomic uint32_t sleepers;
	uint8_t reserved1[60];
};

_Static_assert(sizeof(struct watch) == 128, "two cache lines");
_Static_assert(offsetof(struct watch, sleepers) == 64, "the client's count opens a cache line");

/* Behind the table of groups. NULL for NULL. */
static inline struct watch *watch_of(struct group *groups)
{
	return groups ? (struct watch *)(void *)(groups + LIMIT_GROUPS) : (struct watch *)0;
}

/*
 * Counts a watched job that has its outcome by now. Any process. Never loops. Returns true if all
 * sleepers on ended are to be woken.
 */
static inline int watch_end(struct watch *watch)
{
	/* ORDER watch/ended [W8]: release, the outcome comes before. Pairs with the acquire in
	 * watch_begin(). */
	atomic_fetch_add_explicit(&watch->ended, 1, memory_order_release);
	/* ORDER watch/sleepers [W9]: full, between the count of ends and the look for sleepers.
	 * Pairs with watch_begin(). */
	fence_full();
	return load_relaxed(&watch->sleepers) != 0;
}

/*
 * Client: is going to look at the jobs that it has marked, and to sleep if none has ended. Returns
 * the value of ended to sleep on; watch_leave() comes after that.
 */
static inline uint32_t watch_begin(struct watch *watch)
{
	/* Relaxed: the fence orders it. */
	add_relaxed(&watch->sleepers, 1);
	/* ORDER watch/sleepers [W9]: full, between the announcement and the look at the jobs.
	 * Pairs with watch_end(). */
	fence_full();
	/* ORDER watch/ended [W8]: acquire, a reader of a counted end sees the outcome. Pairs with
	 * watch_end(). */
	return atomic_load_explicit(&watch->ended, memory_order_acquire);
}

static inline void watch_leave(struct watch *watch)
{
	/* Relaxed: one too many costs a wake. */
	sub_relaxed(&watch->sleepers, 1);
}
