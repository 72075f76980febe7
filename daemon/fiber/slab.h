/* SPDX-License-Identifier: MIT */
/*
 * slab.h - memory for records of fibers, and copies of their stacks
 *
 * Blocks of a multiple of 64 bytes, without headers: a million parked fibers pay each byte a
 * million times. They are cut out of slabs of 256 KiB, each of blocks of one size; up to 4 KiB
 * there is a size for every 64 bytes, above that eight for each power of two. The slabs come out of
 * one mapping that is reserved at the beginning; a slab without used blocks gives its pages back. A
 * worker has its own slabs, so that their pages are on its node, and workers do not wait for each
 * other's locks.
 *
 * Threads: fiber_memory_init() and fiber_memory_fini(): one thread, before and after all others.
 * The rest: any thread of the pool.
 *
 * INVARIANTS
 *   I1. A slab is in one of three places: used by a shard, all of whose blocks are of one size; in
 *       the list of the free ones; beyond `next`. It changes them with its shard's lock held, and
 *       the lock of the whole.
 *   I2. A slab of a shard is in the list of its size there if it has room; a list has at most one
 *       without a used block.
 *
 * LOCKS
 *   A shard's, then that of the whole. None is held over a system call.
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
	void *free;    /* blocks that came back, linked by their first word */
	uint32_t made; /* blocks that have been cut out of it */
	uint32_t used; /* of these */
	uint16_t class;
	uint16_t shard;
};

struct fiber_memory_shard {
	_Alignas(CACHE_LINE) pthread_mutex_t lock;
	struct list_link room[FIBER_MEMORY_SIZES]; /* slabs with room, of each size */
};

/* All zero: there are none. */
struct fiber_memory {
	char *base;
	uint64_t n; /* slabs */
	struct fiber_slab *slabs;
	pthread_mutex_t lock;
	uint64_t next; /* never used from here on */
	struct list_link free;
	struct fiber_memory_shard shards[FIBER_MEMORY_SHARDS];
};

/* space: bytes of address space at most; less is taken if there is less. Returns 0 or -ENOMEM. */
int fiber_memory_init(struct fiber_memory *blocks, uint64_t space);
void fiber_memory_fini(struct fiber_memory *blocks);

/* The size of a block for this number of bytes; 0: there are none so large. */
size_t fiber_memory_size(size_t size);

/* A block, aligned to 64, with anything in it. shard: of the worker. NULL: no memory, or it would
 * be too large. */
void *fiber_memory_get(struct fiber_memory *blocks, uint32_t shard, size_t size);

/* NULL is fine. */
void fiber_memory_put(struct fiber_memory *blocks, void *block);
