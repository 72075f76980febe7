/* SPDX-License-Identifier: MIT */
/*
 * victims.h - which workers a worker steals from, and in what order
 *
 * For each worker i a table of the others, made once from their distances alone:
 *
 * 	P(i picks j) is proportional to 1 / (n_ij r_ij^2)
 *
 * r_ij is the distance from i to j, n_ij the number of workers at the same distance from i as j. So
 * a class of workers at distance r is picked with weight 1/r^2, whatever its size, and each worker
 * of a class with equal probability. (Williams and Elliott's libfork, 2024.) A pick costs two
 * multiplications and one read from the table. (The alias method of Walker, 1977, with the table
 * built as Vose does, 1991.)
 *
 * Threads: victims_new(): the thread that starts a pool, or a simulation of one. After that nothing
 * changes, and any thread may read.
 *
 * INVARIANTS
 *   I1. No worker is its own victim, and all victims are in [0, n).
 *   I2. victims_order(i) contains each other worker once, never before a nearer one.
 */
#pragma once

#include <stdint.h>

#define VICTIMS_MAX    65535u
#define VICTIMS_LEVELS 3u

/* One of n - 1 equal parts of probability: below of it for own, the rest for other. */
struct victims_slot {
	uint32_t below; /* of 2^32 */
	uint16_t own;
	uint16_t other;
};

struct victims {
	uint32_t n;
	struct victims_slot *slots; /* n - 1 of each worker */
	uint16_t *order;	    /* n - 1 of each worker */
	uint8_t *levels;	    /* n of each worker */
};

/*
 * Makes the tables of n workers (1 to VICTIMS_MAX).
 * distance: from worker i to another worker j; 0 counts as 1. group: the group (NUMA node) of a
 * worker, for victims_level(); NULL: all are in one. Both get ctx.
 * Returns 0, -EINVAL (n) or -ENOMEM. Takes O(n^2 log c) for c different distances and 11 bytes for
 * each pair of workers: 11 MiB and 0.02 s for 1024.
 */
int victims_new(uint32_t n, uint32_t (*distance)(void *ctx, uint32_t i, uint32_t j),
		uint32_t (*group)(void *ctx, uint32_t i), void *ctx, struct victims **ret_victims);
struct victims *victims_free(struct victims *victims);

/* Returns a victim of worker i, chosen by a random number of which all 64 bits are used. Requires
 * at least two workers. */
static inline uint32_t victims_pick(const struct victims *victims, uint32_t i, uint64_t random)
{
	uint64_t m = victims->n - 1;
	/* The upper 64 of the 96 bits of random * m: the slot, and the position in it. */
	uint64_t x = (random >> 32) * m + (((random & UINT32_MAX) * m) >> 32);
	const struct victims_slot *slot = &victims->slots[i * m + (x >> 32)];

	return (uint32_t)x < slot->below ? slot->own : slot->other;
}

/* Returns the n - 1 other workers as seen from i, nearest first; those at the same distance in the
 * order i + 1, i + 2, ..., wrapping around, so that no two workers begin with the same one. */
static inline const uint16_t *victims_order(const struct victims *victims, uint32_t i)
{
	return &victims->order[(uint64_t)i * (victims->n - 1)];
}

/*
 * Returns the level of a steal by i from j, for counters:
 * 	0  j is in i's group (its NUMA node), including i itself
 * 	1  j is in another group, and no worker of any other group is nearer to i
 * 	2  j is in another group, and some worker of another group is nearer to i
 */
static inline uint32_t victims_level(const struct victims *victims, uint32_t i, uint32_t j)
{
	return victims->levels[(uint64_t)i * victims->n + j];
}
