/* SPDX-License-Identifier: MIT */
/*
 * shm/stopwatch.h - the time that a worker spent in a state, in one word
 *
 * THREADS
 *   Its owner starts and stops it, with plain stores; any thread reads it, at any time.
 *
 * THE WORD
 *   { ns:63, runs:1 }. Stopped: the time that it ran. Running: that time minus the clock at the
 *   start, so a reader adds the clock. One load is enough: no reader combines a sum from before a
 *   stop with a later start.
 *
 * If the owner dies: it keeps its state. The manager clears a dead pool's watches.
 *
 * Compiles with C11 alone.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/relaxed.h"

#define STOPWATCH_RUNS UINT64_C(1)

struct stopwatch {
	_Atomic uint64_t word;
};

/* Returns the ns of a word. If the clock was read before the start, this is less than the time at
 * the start, but at least 0. */
static inline uint64_t stopwatch_ns(uint64_t word, uint64_t now_ns)
{
	uint64_t sum = word & STOPWATCH_RUNS ? (word >> 1) + now_ns : word >> 1;

	/* 63 bits, of which the upper half are negative numbers. */
	sum &= UINT64_MAX >> 1;
	return sum >> 62 ? 0 : sum;
}

/* Any thread: the time up to now. Relaxed: a statistic, of one word. */
static inline uint64_t stopwatch_read(const struct stopwatch *watch, uint64_t now_ns)
{
	return stopwatch_ns(load_relaxed(&watch->word), now_ns);
}

/* Owner: starts or stops it; no effect if it is in that state. Relaxed: one word. */
static inline void stopwatch_set(struct stopwatch *watch, bool runs, uint64_t now_ns)
{
	uint64_t word = load_relaxed(&watch->word);
	uint64_t sum;

	if ((word & STOPWATCH_RUNS) == runs)
		return;
	sum = stopwatch_ns(word, now_ns);
	word = runs ? (sum - now_ns) << 1 | STOPWATCH_RUNS : sum << 1;
	store_relaxed(&watch->word, word);
}

/* Owner, or the manager after its death. */
static inline void stopwatch_clear(struct stopwatch *watch)
{
	store_relaxed(&watch->word, 0);
}
