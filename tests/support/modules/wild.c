/* SPDX-License-Identifier: MIT */
/* wild.c - tasks that overwrite memory that the pool shares with others */
#include <dlfcn.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <forkd/task.h>

#include "tests/support/modules/maps.h"

/* Not 0xff, which as an offset would be the byte before. */
#define GARBAGE 0x5a

/* Returns the address of this segment. */
static char *segment(const char *name)
{
	struct maps_range range;

	if (!maps_find(name, &range, 1))
		exit(4);
	return (char *)range.from;
}

static void overwrite(const char *name, int64_t from, int64_t bytes)
{
	memset(segment(name) + from, GARBAGE, (size_t)bytes);
}

FK_LEAF_TASK(fk_void, fronts, (int64_t, arena, int64_t, board))
{
	overwrite("forkd-arena", 0, arena);
	overwrite("forkd-board", 0, board);
	abort();
}

FK_LEAF_TASK(fk_void, fill, (struct fk_str, segment, int64_t, from, int64_t, bytes))
{
	overwrite(segment.data, from, bytes);
}

FK_EXPORT(fill, 0, "Fills this number of bytes of a segment with garbage")

/* Writes a word of the arena, by one store. */
FK_LEAF_TASK(fk_void, word, (int64_t, at, int64_t, value))
{
	memcpy(segment("forkd-arena") + at, &value, sizeof(value));
}

FK_EXPORT(word, 0, "Stores a number at an offset of the arena")

/* Values that are written over each word of the io_uring mappings: three constants, then ROUNDS
 * rounds of random words. */
#define RINGS  4
#define ROUNDS 200

static uint32_t random_word(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return (uint32_t)*state;
}

static void scribble(volatile uint32_t *words, size_t n, int64_t how, uint64_t *state)
{
	static const uint32_t same[] = { 0x5a5a5a5a, 0xffffffff, 0 };

	for (size_t i = 0; i < n; i++)
		words[i] = how < 3 ? same[how] : random_word(state);
}

/* Returns how many such mappings there are. */
FK_LEAF_TASK(int64_t, rings, (int64_t, how))
{
	uint64_t state = 0x9e3779b97f4a7c15;
	struct maps_range at[RINGS];
	size_t n = maps_find("[io_uring]", at, RINGS);

	for (int round = 0; round < (how < 3 ? 1 : ROUNDS); round++)
		for (size_t i = 0; i < n; i++)
			scribble((volatile uint32_t *)at[i].from, (at[i].to - at[i].from) / 4, how,
				 &state);
	return (int64_t)n;
}

static void *library;

__attribute__((constructor)) static void load(void)
{
	library = dlopen("libanl.so.1", RTLD_NOW);
}

/* Returns 1 if there was one. */
FK_LEAF_TASK(int64_t, unload, (int64_t, ignored))
{
	return library && dlclose(library) == 0;
}

FK_EXPORT(unload, 0, "Unloads a library that the module had loaded")

#define MAPPINGS 4096

/* how: 0 unmaps all from the first mapping on, 1 from the last one, 2 only segments of clients, 3
 * only crash.so. */
FK_LEAF_TASK(fk_void, unmap, (int64_t, how))
{
	static const char *const names[] = { "", "", "memfd:forkd-client", "crash.so" };
	static struct maps_range all[MAPPINGS];
	size_t n = maps_find(names[how], all, MAPPINGS);

	for (size_t i = 0; i < n; i++) {
		const struct maps_range *at = &all[how == 1 ? n - 1 - i : i];

		(void)munmap((void *)at->from, at->to - at->from);
	}
	for (;;)
		(void)sched_yield();
}

FK_EXPORT(unmap, 0, "Unmaps the pool's memory")
FK_EXPORT(rings, 0, "Writes over the memory of the pool's io_uring")
FK_EXPORT(fronts, 0,
	  "Fills this number of bytes of arena and board with garbage, and calls abort()")
FK_MODULE(wild, "Tasks that write where they must not")
