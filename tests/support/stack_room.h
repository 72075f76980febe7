/* SPDX-License-Identifier: MIT */
/* stack_room.h - an arena for stacks, and a worker's cache of it, without a pool */
#pragma once

#include <check.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/core/stacklet.h"

#define ROOM_MAX (64u << 20)

static char *room_memory;
static struct stack_arena room_arena;
static struct stack_cache room_cache;

/* size: of the arena, ROOM_MAX at most. */
static inline void room_begin(uint64_t size)
{
	room_memory = aligned_alloc(STACK_MIN, ROOM_MAX);
	ck_assert_ptr_nonnull(room_memory);
	ck_assert_int_eq(stack_arena_init(&room_arena, room_memory, room_memory + size), 0);
	stack_cache_init(&room_cache, &room_arena);
}

static inline void room_end(void)
{
	stack_cache_fini(&room_cache);
	stack_arena_fini(&room_arena);
	free(room_memory);
}

/* Creates the arena as in a pool: sparse, on a memfd. */
static inline int room_begin_sparse(uint64_t size)
{
	int fd = memfd_create("stack", MFD_CLOEXEC);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, (off_t)size), 0);
	room_memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ck_assert(room_memory != MAP_FAILED);
	ck_assert_int_eq(stack_arena_init(&room_arena, room_memory, room_memory + size), 0);
	stack_cache_init(&room_cache, &room_arena);
	return fd;
}

static inline void room_end_sparse(int fd)
{
	munmap(room_memory, (size_t)(room_arena.end - room_arena.begin));
	close(fd);
	stack_cache_fini(&room_cache);
	stack_arena_fini(&room_arena);
}

/* Returns the bytes of the arena that have pages. */
static inline uint64_t room_pages(int fd)
{
	struct stat status;

	ck_assert_int_eq(fstat(fd, &status), 0);
	return (uint64_t)status.st_blocks * 512;
}

/* Returns a stack with one more stacklet of this many bytes, which is kept as a spare when it is
 * freed. Returns NULL if there is no room. */
static inline struct fk_stack *room_stack(struct stack_cache *from, uint64_t bytes)
{
	struct fk_stack *stack = stack_new(from);

	if (!stack || stack_push(from, stack, stack_first(stack), bytes - sizeof(*stack)))
		return stack;
	stack_free(from, stack);
	return NULL;
}

static inline uint64_t room_random(uint64_t *seed, uint64_t n)
{
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return (*seed >> 33) % n;
}
