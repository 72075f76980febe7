/* SPDX-License-Identifier: MIT */
/*
 * spin_policy.h - how long a thief spins before it sleeps
 *
 * Renting or buying: to spin costs its time, to sleep costs a fixed price (a wake takes some
 * microseconds, and work waits for them). A thief that spins for as long as a sleep costs, and then
 * sleeps, pays at most twice what the best choice would have cost. One that goes by its last
 * searches pays less (Karlin, Li, Manasse and Owicki, "Empirical studies of competitive spinning
 * for a shared-memory multiprocessor", 1991). Here each worker keeps one number, the share of the
 * whole spin that it is ready to pay: doubled when a whole spin would have found work, halved when
 * not. A search that slept counts as well, by how long it took altogether; since that includes the
 * wake, every SPIN_TRY-th search spins for the whole time all the same, or a share that is small
 * would never learn that it is too small. However small it is, a search spins for SPIN_FLOOR:
 * thieves that have learned on small jobs to give up at once would sleep while a large job grows
 * under their eyes.
 *
 * Threads: work_search.c, each worker for itself; tests/sim.
 *
 * INVARIANTS
 *   I1. The limit that spin_limit() gives is between SPIN_FLOOR and the whole spin; the whole,
 *       which is the option spin, if that is less. After a timed sleep it is spin_least(), however
 *       little that is.
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

/* How long this search spins before its first sleep. whole and the result in ns. */
static inline uint64_t spin_limit(struct spin *spin, uint64_t whole)
{
	uint64_t limit = whole / SPIN_WHOLE * spin->share;

	if (++spin->searches % SPIN_TRY == 0 || whole < SPIN_FLOOR)
		return whole;
	return limit > SPIN_FLOOR ? limit : SPIN_FLOOR;
}

/* The least: after a timed sleep that has expired. */
static inline uint64_t spin_least(uint64_t whole)
{
	return whole / SPIN_WHOLE;
}

/* A search found work after this number of ns, sleep included. */
static inline void spin_learn(struct spin *spin, uint64_t searched, uint64_t whole)
{
	if (searched <= whole)
		spin->share = spin->share * 2 < SPIN_WHOLE ? spin->share * 2 : SPIN_WHOLE;
	else
		spin->share = spin->share > 1 ? spin->share / 2 : 1;
}
