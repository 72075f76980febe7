/* SPDX-License-Identifier: MIT */
/*
 * heap.c - the allocator of the shared heap
 *
 * Blocks of whole granules (64 bytes; more in a heap beyond 64 GiB) with boundary tags (Knuth, The
 * Art of Computer Programming 1, 2.5). Free blocks are in lists by the power of two of their size.
 * All of this is in private memory, protected by one lock. So a task that writes into the heap can
 * only corrupt the data of its own client.
 *
 * INVARIANTS
 *   I1. The blocks cover the granules without a gap. The first and the last granule of each block
 *       have its tag: { granules:30, start:1, used:1 }. start is set only in the first, to
 *       distinguish it from the end of a block. The tags of all other granules are 0.
 *   I2. No two free blocks are neighbours.
 *   I3. A free block of s granules is only in the list of class floor(log2 s). The bit of a class
 *       is set exactly if its list is not empty.
 */
#include "client/lib/heap.h"

#include <errno.h>
#include <inttypes.h>
#include <sys/mman.h>

#include "client/lib/client.h"
#include "common/crash_site.h"
#include "common/relaxed.h"
#include "common/util.h"
#include "shm/limits.h"

#define HEAP_USED  1u
#define HEAP_START 2u
#define HEAP_SHIFT 2

static uint32_t class_of(uint32_t granules)
{
	return 31u - (uint32_t)__builtin_clz(granules);
}

/* Establishes I1 for a block. The last tag first: a block of one granule keeps the start bit. */
static void tag(struct heap *heap, uint32_t start, uint32_t granules, uint32_t used)
{
	heap->tags[start + granules - 1] = granules << HEAP_SHIFT | used;
	heap->tags[start] = granules << HEAP_SHIFT | HEAP_START | used;
}

static void insert(struct heap *heap, uint32_t start, uint32_t granules)
{
	uint32_t class = class_of(granules);
	uint32_t first = heap->first[class];

	tag(heap, start, granules, 0);
	heap->prev[start] = heap->end;
	heap->next[start] = first;
	if (first != heap->end)
		heap->prev[first] = start;
	heap->first[class] = start;
	heap->classes |= 1u << class;
}

static void take_out(struct heap *heap, uint32_t start, uint32_t granules)
{
	uint32_t class = class_of(granules);
	uint32_t next = heap->next[start];
	uint32_t prev = heap->prev[start];

	if (next != heap->end)
		heap->prev[next] = prev;
	if (prev != heap->end)
		heap->next[prev] = next;
	else
		heap->first[class] = next;
	if (heap->first[class] == heap->end)
		heap->classes &= ~(1u << class);
	heap->tags[start] = 0;
	heap->tags[start + granules - 1] = 0;
}

void heap_init(struct heap *heap, void *base, uint64_t size, uint64_t max)
{
	uint32_t shift = 6;

	while (max >> shift >= UINT64_C(1) << 30)
		shift++;
	*heap = (struct heap){
		.base = base,
		.max = max,
		.shift = shift,
		.end = (uint32_t)(max >> shift),
		.size = size,
	};
	for (uint32_t i = 0; i < HEAP_CLASSES; i++)
		heap->first[i] = heap->end;
	pthread_mutex_init(&heap->lock, NULL);
}

void heap_fini(struct heap *heap)
{
	if (!heap->base)
		return;
	pthread_mutex_destroy(&heap->lock);
	if (heap->tags)
		munmap(heap->tags, heap->map_size);
	heap->base = NULL;
}

/*
 * Returns a free block of at least this many granules, or heap->end. The list of the same class may
 * hold smaller blocks; any block of a higher class fits.
 */
static uint32_t find(const struct heap *heap, uint32_t granules)
{
	uint32_t class = class_of(granules);
	uint32_t higher = class + 1 < HEAP_CLASSES ? heap->classes & ~0u << (class + 1) : 0;

	for (uint32_t i = heap->first[class]; i != heap->end; i = heap->next[i]) {
		if (heap->tags[i] >> HEAP_SHIFT >= granules)
			return i;
	}
	return higher ? heap->first[__builtin_ctz(higher)] : heap->end;
}

static uint32_t granules_of(const struct heap *heap, size_t size)
{
	uint64_t granules = ((uint64_t)size + (UINT64_C(1) << heap->shift) - 1) >> heap->shift;

	return max((uint32_t)granules, 1u);
}

/* Under the lock. Returns the granules of the free block that ends before a granule, or 0. */
static uint32_t free_before(const struct heap *heap, uint32_t granule)
{
	if (!granule || heap->tags[granule - 1] & HEAP_USED)
		return 0;
	return heap->tags[granule - 1] >> HEAP_SHIFT;
}

/* Under the lock: adds the granules up to n. */
static void extend(struct heap *heap, uint32_t n)
{
	uint32_t before = free_before(heap, heap->n), start = heap->n - before;

	if (before)
		take_out(heap, start, before);
	heap->n = n;
	insert(heap, start, n - start);
}

/* Under the lock: the first call maps the tags, and makes one free block. A heap that is not used
 * takes no memory. Returns 0 or -ENOMEM. */
static int begin(struct heap *heap)
{
	uint32_t n = (uint32_t)(load_relaxed(&heap->size) >> heap->shift);
	size_t size = (size_t)heap->end * 3 * sizeof(uint32_t);
	void *map;

	if (heap->n || !n)
		return 0;
	/* No reserve: only the tags at the ends of blocks are ever accessed. */
	map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		   -1, 0);
	if (map == MAP_FAILED)
		return -ENOMEM;
	heap->map_size = size;
	heap->tags = map;
	heap->next = heap->tags + heap->end;
	heap->prev = heap->next + heap->end;
	extend(heap, n);
	return 0;
}

/* Returns 1, 0 if no free block is large enough, or -ENOMEM. */
static int take(struct heap *heap, uint32_t granules, void **ret_data)
{
	uint32_t start;
	int err;

	pthread_mutex_lock(&heap->lock);
	err = begin(heap);
	start = err ? heap->end : find(heap, granules);
	if (start != heap->end) {
		uint32_t all = heap->tags[start] >> HEAP_SHIFT;

		take_out(heap, start, all);
		FK_CRASH(heap_taken);
		if (all > granules)
			insert(heap, start + granules, all - granules);
		tag(heap, start, granules, HEAP_USED);
		heap->used += (uint64_t)granules << heap->shift;
	}
	pthread_mutex_unlock(&heap->lock);

	if (start == heap->end)
		return err;
	*ret_data = heap->base + ((uint64_t)start << heap->shift);
	return 1;
}

int heap_alloc(struct heap *heap, size_t size, void **ret_data)
{
	uint32_t granules;
	int r;

	if (size > heap->max)
		return heap_refuse(heap, size, -FK_E_HEAP_FULL);
	granules = granules_of(heap, size);
	/* A loop, because other threads may take the added memory first. */
	while ((r = take(heap, granules, ret_data)) == 0) {
		r = heap->grow ? heap->grow(heap, size) : -FK_E_HEAP_FULL;
		if (r < 0)
			break;
	}
	return r < 0 ? heap_refuse(heap, size, r) : 0;
}

int heap_refuse(struct heap *heap, size_t size, int err)
{
	uint64_t all = load_relaxed(&heap->size), used = heap_used(heap);

	return error_detail(err,
			    "%zu bytes do not fit into the shared heap (%" PRIu64 " of %" PRIu64
			    " bytes are free, it can have %" PRIu64 "): %s",
			    size, all > used ? all - used : 0, all, heap->max,
			    error_text(err, heap->whole));
}

void heap_extend(struct heap *heap, uint64_t size)
{
	uint32_t n = (uint32_t)(min(size, heap->max) >> heap->shift);

	pthread_mutex_lock(&heap->lock);
	/* Relaxed: a thread that has a block of it has had the lock since. */
	if ((uint64_t)n << heap->shift > load_relaxed(&heap->size)) {
		store_relaxed(&heap->size, (uint64_t)n << heap->shift);
		if (heap->n)
			extend(heap, n);
	}
	pthread_mutex_unlock(&heap->lock);
}

uint64_t heap_needs(struct heap *heap, size_t size)
{
	uint64_t granules;

	if (size > heap->max)
		return UINT64_MAX;
	pthread_mutex_lock(&heap->lock);
	granules = (uint64_t)heap->n - free_before(heap, heap->n) + granules_of(heap, size);
	pthread_mutex_unlock(&heap->lock);
	return granules << heap->shift;
}

/* Under the lock. Returns the granules of the used block that starts at offset, or 0 if none. */
static uint32_t used_block(const struct heap *heap, uint64_t offset)
{
	uint64_t start = offset >> heap->shift;

	if (offset & ((UINT64_C(1) << heap->shift) - 1) || start >= heap->n)
		return 0;
	if ((heap->tags[start] & (HEAP_START | HEAP_USED)) != (HEAP_START | HEAP_USED))
		return 0;
	return heap->tags[start] >> HEAP_SHIFT;
}

int heap_free(struct heap *heap, void *data)
{
	uint64_t offset = (uint64_t)((char *)data - heap->base);
	uint32_t start = (uint32_t)(offset >> heap->shift);
	uint32_t granules, before;

	pthread_mutex_lock(&heap->lock);
	granules = used_block(heap, offset);
	if (granules) {
		uint32_t after = start + granules;

		heap->used -= (uint64_t)granules << heap->shift;
		heap->tags[start] = 0;
		heap->tags[after - 1] = 0;
		FK_CRASH(heap_merging);
		if (after < heap->n && !(heap->tags[after] & HEAP_USED)) {
			uint32_t more = heap->tags[after] >> HEAP_SHIFT;

			take_out(heap, after, more);
			granules += more;
		}
		before = free_before(heap, start);
		if (before) {
			start -= before;
			take_out(heap, start, before);
			granules += before;
		}
		insert(heap, start, granules);
	}
	pthread_mutex_unlock(&heap->lock);
	return granules ? 0 : -FK_E_NOT_ALLOCATED;
}

int heap_contains(const struct heap *heap, const void *data, size_t size)
{
	uintptr_t offset = (uintptr_t)data - (uintptr_t)heap->base;

	uint64_t all = load_relaxed(&heap->size);

	return size <= all && offset <= all - size;
}

int heap_offset(const struct heap *heap, const void *data, size_t size, uint64_t *ret_offset)
{
	/* Relaxed: a thread that has an address in the imports has got it after they were set. */
	uintptr_t imports = (uintptr_t)load_relaxed(&heap->imports);
	uintptr_t at = (uintptr_t)data - imports;

	if (heap_contains(heap, data, size))
		*ret_offset = (uint64_t)((uintptr_t)data - (uintptr_t)heap->base);
	else if (imports && size <= LIMIT_IMPORT && at <= LIMIT_IMPORT - size)
		*ret_offset = LIMIT_HEAP + at;
	else if (heap->whole && size <= LIMIT_HEAP && (uintptr_t)data <= UINTPTR_MAX - size)
		*ret_offset = JOB_REF_ADDRESS | (uintptr_t)data;
	else
		return 0;
	return 1;
}

uint64_t heap_used(struct heap *heap)
{
	uint64_t used;

	pthread_mutex_lock(&heap->lock);
	used = heap->used;
	pthread_mutex_unlock(&heap->lock);
	return used;
}
