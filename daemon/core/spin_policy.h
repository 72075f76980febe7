/* SPDX-License-Identifier: MIT */
/*
 * spin_policy.h - how long a thief spins before it sleeps
 *
 * A ski-rental problem: spinning costs its time, sleeping a fixed price (a wake takes some
 * microseconds, while work waits). A thief that spins for as long as a sleep costs, and then
 * sleeps, pays at most twice the optimum. A thief that adapts to its last searches pays less
 * (Karlin, Li, Manasse and Owicki, "Empirical studies of competitive spinning for a shared-memory
 * multiprocessor", 1991). Here each worker keeps one number, its share of the whole spin: doubled
 * when a whole spin would have found work, halved otherwise. A search that slept counts too, with
 * its total time. That includes the wake, so every SPIN_TRY-th search spins for the whole time;
 * otherwise a share that is too small would never grow. Each search spins for at least SPIN_FLOOR:
 * otherwise thieves that have learned from small jobs would sleep while a large job grows.
 *
 * Threads: work_search.c, each worker for itself; tests/sim.
 *
 * INVARIANTS
 *   I1. The result of spin_limit() is between SPIN_FLOOR and the whole spin (option spin); the
 *       whole spin if that is less. After a timed sleep it is spin_least().
 *
 * Compiles with C11 alone.
 */
#pragma once

#include <stdint.h>

#define SPIN_WHOLE 16u
#define SPIN_TRY   16u
#define SPIN_FLOOR 20000u /* ns */

struct spin {
	uint32_t share; /* 1 to SPIN_WHOLE */
	uint32_t searches;
};

static inline void spin_init(struct spin *spin)
{
	spin->share = SPIN_WHOLE;
	spin->searches = 0;
}

/* Returns how long this search spins before its first sleep. whole and the result in ns. */
static inline uint64_t spin_limit(struct spin *spin, uint64_t whole)
{
	uint64_t limit = whole / SPIN_WHOLE * spin->share;

	if (++spin->searches % SPIN_TRY == 0 || whole < SPIN_FLOOR)
		return whole;
	return limit > SPIN_FLOOR ? limit : SPIN_FLOOR;
}

/* The shortest spin: after a timed sleep that has expired. */
static inline uint64_t spin_least(uint64_t whole)
{
	return whole / SPIN_WHOLE;
}

/* A search found work after this many ns, sleep included. */
static inline void spin_learn(struct spin *spin, uint64_t searched, uint64_t whole)
{
	if (searched <= whole)
		spin->share = spin->share * 2 < SPIN_WHOLE ? spin->share * 2 : SPIN_WHOLE;
	else
		spin->share = spin->share > 1 ? spin->share / 2 : 1;
}
