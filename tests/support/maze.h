/* SPDX-License-Identifier: MIT */
/*
 * maze.h - a tree that is computed from numbers, and its value: for fibers and frames that walk it
 *
 * Each place is a number and a depth; both determine how many places are below, and which. The
 * value of a place depends on its number and on their values, in order. maze_value() is the plain
 * recursion; tests/support/modules/fiber.c walks the tree by fibers and frames.
 */
#pragma once

#include <stdint.h>

#define MAZE_WAYS 4u

/* A mixing function after splitmix64 (Steele, Lea, Flood 2014). */
static inline uint64_t maze_mix(uint64_t x)
{
	x += UINT64_C(0x9e3779b97f4a7c15);
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

static inline uint32_t maze_ways(uint64_t place, int64_t depth)
{
	return depth > 0 ? 1 + (uint32_t)(maze_mix(place) % MAZE_WAYS) : 0;
}

static inline uint64_t maze_way(uint64_t place, uint32_t way)
{
	return maze_mix(place + way + 1);
}

/* Returns the value of a place, from the values below it. */
static inline uint64_t maze_sum(uint64_t place, const uint64_t *values, uint32_t ways)
{
	for (uint32_t i = 0; i < ways; i++)
		place = 3 * place + values[i];
	return place;
}

static inline uint64_t maze_value(uint64_t place, int64_t depth)
{
	uint32_t ways = maze_ways(place, depth);
	uint64_t values[MAZE_WAYS];

	for (uint32_t i = 0; i < ways; i++)
		values[i] = maze_value(maze_way(place, i), depth - 1);
	return maze_sum(place, values, ways);
}
