/* SPDX-License-Identifier: MIT */
/* slab.c - memory for records of fibers and copies of their stacks */
#include "daemon/fiber/slab.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

#include "common/list.h"

#define FIBER_MEMORY_STEP   64u
#define FIBER_MEMORY_SMALL  4096u /* bytes up to which each step has a size */
#define FIBER_MEMORY_SLAB   FIBER_MEMORY_MAX
#define FIBER_MEMORY_LEAST  (UINT64_C(64) << 20) /* bytes of address space */
#define FIBER_MEMORY_SMALLS (FIBER_MEMORY_SMALL / FIBER_MEMORY_STEP)

_Static_assert(FIBER_MEMORY_SIZES == FIBER_MEMORY_SMALLS + 6 * 8, "six powers of two");

/* ------------------------------------------------------------------------ sizes */

static size_t fiber_memory_class_size(uint32_t class)
{
	uint32_t above = class - FIBER_MEMORY_SMALLS;

	if (class < FIBER_MEMORY_SMALLS)
		return (class + 1) * (size_t)FIBER_MEMORY_STEP;
	return (size_t)(FIBER_MEMORY_SMALL / 8) * (9 + above % 8) << above / 8;
}

/* Returns FIBER_MEMORY_SIZES if size is too large. */
static uint32_t fiber_memory_class(size_t size)
{
	uint32_t class = FIBER_MEMORY_SMALLS;

	if (size <= FIBER_MEMORY_SMALL)
		return size ? (uint32_t)((size - 1) / FIBER_MEMORY_STEP) : 0;
	while (class < FIBER_MEMORY_SIZES && fiber_memory_class_size(class) < size)
		class ++;
	return class;
}

size_t fiber_memory_size(size_t size)
{
	uint32_t class = fiber_memory_class(size);

	return class < FIBER_MEMORY_SIZES ? fiber_memory_class_size(class) : 0;
}

/* ------------------------------------------------------------------------ slabs */

static char *fiber_slab_base(const struct fiber_memory *blocks, const struct fiber_slab *slab)
{
	return blocks->base + (uint64_t)(slab - blocks->slabs) * FIBER_MEMORY_SLAB;
}

/* Returns a slab for a shard, whose lock is held. NULL: there is no address space left. */
static struct fiber_slab *fiber_slab_new(struct fiber_memory *blocks, uint32_t shard,
					 uint32_t class)
{
	struct fiber_slab *slab;

	pthread_mutex_lock(&blocks->lock);
	slab = list_first(&blocks->free, struct fiber_slab, link);
	if (slab)
		list_remove(&slab->link);
	else if (blocks->next < blocks->n)
		slab = &blocks->slabs[blocks->next++];
	pthread_mutex_unlock(&blocks->lock);
	if (slab)
		*slab = (struct fiber_slab){ .class = (uint16_t) class, .shard = (uint16_t)shard };
	return slab;
}

/* Frees a slab without used blocks that is in no list. Not under a lock. */
static void fiber_slab_free(struct fiber_memory *blocks, struct fiber_slab *slab)
{
	/* If that fails, the next shard gets the pages. */
	(void)madvise(fiber_slab_base(blocks, slab), FIBER_MEMORY_SLAB, MADV_DONTNEED);
	pthread_mutex_lock(&blocks->lock);
	list_add_first(&blocks->free, &slab->link);
	pthread_mutex_unlock(&blocks->lock);
}

static bool fiber_slab_is_full(const struct fiber_slab *slab)
{
	return !slab->free &&
	       (slab->made + 1) * fiber_memory_class_size(slab->class) > FIBER_MEMORY_SLAB;
}

/* Locked: takes a block of a slab that has room. */
static void *fiber_slab_take(struct fiber_memory *blocks, struct fiber_slab *slab)
{
	void *block = slab->free;

	if (block)
		memcpy(&slab->free, block, sizeof(slab->free));
	else
		block = fiber_slab_base(blocks, slab) +
			slab->made++ * fiber_memory_class_size(slab->class);
	slab->used++;
	return block;
}

/* ------------------------------------------------------------------------ get and put */

void *fiber_memory_get(struct fiber_memory *blocks, uint32_t index, size_t size)
{
	struct fiber_memory_shard *shard = &blocks->shards[index % FIBER_MEMORY_SHARDS];
	pthread_mutex_t *lock = &blocks->locks[index % FIBER_MEMORY_SHARDS].lock;
	uint32_t class = fiber_memory_class(size);
	struct fiber_slab *slab;
	void *block = NULL;

	if (class == FIBER_MEMORY_SIZES)
		return NULL;
	pthread_mutex_lock(lock);
	slab = list_first(&shard->room[class], struct fiber_slab, link);
	if (!slab) {
		slab = fiber_slab_new(blocks, index % FIBER_MEMORY_SHARDS, class);
		if (slab)
			list_add_first(&shard->room[class], &slab->link);
	}
	if (slab) {
		block = fiber_slab_take(blocks, slab);
		if (fiber_slab_is_full(slab))
			list_remove(&slab->link);
	}
	pthread_mutex_unlock(lock);
	return block;
}

void fiber_memory_put(struct fiber_memory *blocks, void *block)
{
	struct fiber_memory_shard *shard;
	struct fiber_slab *slab;
	bool gone = false;

	if (!block)
		return;
	slab = &blocks->slabs[(uint64_t)((char *)block - blocks->base) / FIBER_MEMORY_SLAB];
	/* Constant while one of its blocks is used. */
	shard = &blocks->shards[slab->shard];
	pthread_mutex_lock(&blocks->locks[slab->shard].lock);
	if (fiber_slab_is_full(slab))
		list_add_first(&shard->room[slab->class], &slab->link);
	memcpy(block, &slab->free, sizeof(slab->free));
	slab->free = block;
	/* I2: another slab of the list has room. */
	if (!--slab->used && slab->link.prev != slab->link.next) {
		list_remove(&slab->link);
		gone = true;
	}
	pthread_mutex_unlock(&blocks->locks[slab->shard].lock);
	if (gone)
		fiber_slab_free(blocks, slab);
}

/* ------------------------------------------------------------------------ begin and end */

/* Maps sparse memory; NULL: none. */
static void *fiber_memory_map(uint64_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

int fiber_memory_init(struct fiber_memory *blocks, uint64_t space)
{
	while (!(blocks->base = fiber_memory_map(space)) && space > FIBER_MEMORY_LEAST)
		space /= 2;
	blocks->n = space / FIBER_MEMORY_SLAB;
	blocks->slabs = fiber_memory_map(blocks->n * sizeof(*blocks->slabs));
	pthread_mutex_init(&blocks->lock, NULL);
	for (uint32_t i = 0; i < FIBER_MEMORY_SHARDS; i++)
		pthread_mutex_init(&blocks->locks[i].lock, NULL);
	if (!blocks->base || !blocks->slabs)
		return -ENOMEM;
	/* So a first touch takes one small page. EINVAL: the kernel has no huge pages. */
	(void)madvise(blocks->base, blocks->n * FIBER_MEMORY_SLAB, MADV_NOHUGEPAGE);
	return 0;
}

void fiber_memory_fini(struct fiber_memory *blocks)
{
	if (blocks->base)
		munmap(blocks->base, blocks->n * FIBER_MEMORY_SLAB);
	if (blocks->slabs)
		munmap(blocks->slabs, blocks->n * sizeof(*blocks->slabs));
	pthread_mutex_destroy(&blocks->lock);
	for (uint32_t i = 0; i < FIBER_MEMORY_SHARDS; i++)
		pthread_mutex_destroy(&blocks->locks[i].lock);
}
