/* SPDX-License-Identifier: MIT */
/*
 * slab.h - memory for records of fibers and copies of their stacks
 *
 * Blocks of a multiple of 64 bytes, without headers, because with a million parked fibers each byte
 * costs a megabyte. They are cut from slabs of 256 KiB, each with blocks of one size: every
 * multiple of 64 bytes up to 4 KiB, above that eight sizes for each power of two. The slabs are cut
 * from one mapping that is reserved at the start. A slab without used blocks gives its pages back.
 * A worker has its own slabs, so their pages are on its node, and workers do not contend for locks.
 *
 * Threads: fiber_memory_init() and fiber_memory_fini(): one thread, before and after all others.
 * The rest: any thread of the pool.
 *
 * INVARIANTS
 *   I1. A slab is in one of three places: used by a shard, with blocks of one size; in the list of
 *       free slabs; beyond `next`. It changes places with its shard's lock and the common lock
 *       held.
 *   I2. A slab of a shard is in the list of its size if it has room; a list has at most one slab
 *       without used blocks.
 *
 * LOCKS
 *   A shard's, then the common one. None is held during a system call.
 */
#pragma once

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "common/list.h"
#include "common/util.h"

#define FIBER_MEMORY_SHARDS 16u
#define FIBER_MEMORY_SIZES  112u		/* 64 to 4096 bytes, and 4.5 to 256 KiB */
#define FIBER_MEMORY_MAX    ((size_t)256 << 10) /* bytes */

struct fiber_slab {
	struct list_link link;
	void *free;    /* returned blocks, linked by their first word */
	uint32_t made; /* blocks cut from it */
	uint32_t used; /* of these */
	uint16_t class;
	uint16_t shard;
};

struct fiber_memory_lock {
	_Alignas(CACHE_LINE) pthread_mutex_t lock;
};

struct fiber_memory_shard {
	/* slabs with room, of each size */
	_Alignas(CACHE_LINE) struct list_link room[FIBER_MEMORY_SIZES];
};

/* All zero: not initialized. */
struct fiber_memory {
	char *base;
	uint64_t n; /* slabs */
	struct fiber_slab *slabs;
	pthread_mutex_t lock;
	uint64_t next; /* slabs from here on were never used */
	struct list_link free;
	struct fiber_memory_lock locks[FIBER_MEMORY_SHARDS]; /* of the shards */
	struct fiber_memory_shard shards[FIBER_MEMORY_SHARDS];
};

/* blocks: all zero. Writing to its shards takes memory, so they are left alone until they are used.
 * space: bytes of address space; less is taken if that is not available. Returns 0 or -ENOMEM;
 * fiber_memory_fini() must be called once in both cases. */
int fiber_memory_init(struct fiber_memory *blocks, uint64_t space);
void fiber_memory_fini(struct fiber_memory *blocks);

/* Returns the size of a block for this number of bytes; 0: too large. */
size_t fiber_memory_size(size_t size);

/* Returns an uninitialized block, aligned to 64. shard: the worker's index. NULL: no memory, or too
 * large. */
void *fiber_memory_get(struct fiber_memory *blocks, uint32_t shard, size_t size);

/* NULL is allowed. */
void fiber_memory_put(struct fiber_memory *blocks, void *block);
