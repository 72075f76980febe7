/* SPDX-License-Identifier: MIT */
/*
 * bell.h - how a thread of the pool sleeps so that no client decides when it wakes up
 *
 * A worker and the dispatcher each sleep on two futex words (futex_waitv(2)): the word on the
 * board, which every client maps and can wake, and the thread's bell, which no client maps. The
 * pool and the manager wake a thread by its bell alone. shm/wake.h, W10, gives the reason.
 *
 * Threads: bell_begin(): once, before the pool has other threads. bell_wait(): the thread that
 * sleeps. bell_ring(): any thread of the pool. The manager rings the dispatcher's bell by
 * tenants_ring(), which does not need the fallback.
 *
 * THE FALLBACK
 *   Kernels before 5.16 have no futex_waitv(2), and a sandbox around forkd may refuse it. Then a
 *   thread sleeps on the board's word alone, for BELL_TIMED_SLEEP at a time, and bell_ring() wakes
 *   that word too. So an idle pool has periodic wakeups, and a client can delay a wake by
 *   BELL_TIMED_SLEEP.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "common/clock.h"
#include "common/relaxed.h"

#define BELL_TIMED_SLEEP (10 * NSEC_PER_MSEC)

/* Tests whether the kernel can wait on two words; logs a warning if it cannot. */
void bell_begin(void);

/* Returns the bell's value for bell_wait(). Call it before the sleep is announced on the board and
 * before the last search for work. Relaxed: the full fence of the announcement follows. */
static inline uint32_t bell_heard(const _Atomic uint32_t *bell)
{
	return load_relaxed(bell);
}

/* Sleeps while *word is value and the bell has the value heard, until deadline_ns (CLOCK_MONOTONIC,
 * 0: no deadline) at most. May return spuriously. */
void bell_wait(const _Atomic uint32_t *word, uint32_t value, const _Atomic uint32_t *bell,
	       uint32_t heard, uint64_t deadline_ns);

/* Wakes the thread that sleeps on this word and this bell, or is about to. Call after a full
 * fence. */
void bell_ring(const _Atomic uint32_t *word, _Atomic uint32_t *bell);
