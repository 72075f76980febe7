/* SPDX-License-Identifier: MIT */
/*
 * mark.h - a bit for each worker whose root deque may have jobs
 *
 * The owner pushes jobs and sets its bit. A thread that finds the deque empty clears the bit,
 * checks the deque again, and sets the bit again if there is a job. shm/tenant.h does the same for
 * rings.
 *
 * INVARIANTS
 *   I1. A deque that has jobs has its bit set, or a thread that has cleared the bit is about to
 *       check the deque.
 *
 * Compiles with C11 alone: tests/model/roots.c runs this file.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

/* After jobs were pushed to the deque. */
static inline void mark_set(_Atomic uint64_t *words, uint32_t worker)
{
	/* ORDER roots/mark [S2]: release, the jobs are in the deque before the bit; an
	 * unconditional read-modify-write, so that a thread that clears the bit afterwards sees
	 * them. Pairs with mark_clear(). */
	atomic_fetch_or_explicit(&words[worker / 64], UINT64_C(1) << worker % 64,
				 memory_order_release);
}

/* Before the last check of the deque. */
static inline void mark_clear(_Atomic uint64_t *words, uint32_t worker)
{
	/* ORDER roots/mark [S2]: acquire, pairs with mark_set(). */
	atomic_fetch_and_explicit(&words[worker / 64], ~(UINT64_C(1) << worker % 64),
				  memory_order_acquire);
}
