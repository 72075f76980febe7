/* SPDX-License-Identifier: MIT */
/*
 * shm/watch.h - a count of watched jobs that have ended: one futex for a sleep over any of them
 *
 * WRITERS AND READERS
 *   Two lines of each client segment, after its groups. The client marks the jobs that it watches
 *   (JOB_WATCHED in the state word, shm/job.h), counts its sleepers and sleeps on the count of
 *   ends. The thread that gives such a job its outcome counts its end and wakes: a worker, or the
 *   manager after the pool's death. The client can write anything at any time. For any contents the
 *   pool makes one fetch-and-add, one fence, one load, and at most one futex wake. Jobs that are
 *   not watched cost nothing.
 *
 * 	client   CAS of JOB_WATCHED into each state; watch_begin(); checks all of them; sleeps on
 * 		 the value of watch_begin(); watch_leave(); checks again
 * 	pool     stores an outcome; if JOB_WATCHED was set: watch_end(), and a wake if that is true
 *
 * INVARIANTS (of an honest client; a hostile one only breaks its own waits)
 *   I1. The exchange of the outcome sees an earlier mark. A later mark fails, and the client sees
 *       the outcome (client/lib/wait.c, I1).
 *   I2. No thread sleeps through an end. One of the fences of watch_begin() and watch_end() is
 *       first. If it is the sleeper's, watch_end() then reads the count of sleepers, and wakes. The
 *       sleeper is asleep by then; or it enters the kernel with a value older than this end, and
 *       returns at once; or its value includes this end. In the last case it has seen the outcome:
 *       the acquire of watch_begin() pairs with the release of the count.
 *       If the fence of watch_end() is first, the value that the sleeper reads after its own fence
 *       includes this end, and the same holds.
 *   I3. An end wakes every sleeper, because only the sleeper knows its jobs. Each checks them
 *       again, and sleeps on a new value.
 *   I4. A pool that dies between an outcome and the wake leaves sleepers asleep. So no thread
 *       sleeps longer than a tick without its own check (client/lib/liveness.c, I1). The same check
 *       finds an end if 2^32 ends occur between the read of the value and the sleep.
 *
 * If a peer dies: client: its segment goes with it. Pool: I4.
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

/* Returns the watch, after the table of groups; NULL for NULL. */
static inline struct watch *watch_of(struct group *groups)
{
	return groups ? (struct watch *)(void *)(groups + LIMIT_GROUPS) : (struct watch *)0;
}

/* Counts a watched job that has its outcome. Any process. Never loops. Returns true if the caller
 * must wake all sleepers on ended. */
static inline int watch_end(struct watch *watch)
{
	/* ORDER watch/ended [W8]: release, the outcome comes before. Pairs with the acquire in
	 * watch_begin(). */
	atomic_fetch_add_explicit(&watch->ended, 1, memory_order_release);
	/* ORDER watch/sleepers [W9]: full, between the count of ends and the check for sleepers.
	 * Pairs with watch_begin(). */
	fence_full();
	return load_relaxed(&watch->sleepers) != 0;
}

/* Client: announces a sleeper, before it checks its marked jobs. Returns the value of ended to
 * sleep on; watch_leave() must follow. */
static inline uint32_t watch_begin(struct watch *watch)
{
	/* Relaxed: the fence orders it. */
	add_relaxed(&watch->sleepers, 1);
	/* ORDER watch/sleepers [W9]: full, between the announcement and the check of the jobs.
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
