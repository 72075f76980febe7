/* SPDX-License-Identifier: MIT */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define HEAP_CLASSES 32u
#define HEAP_ALIGN   64u /* bytes: minimum alignment of a block */

struct heap {
	/* constant after heap_init() */
	char *base;
	uint64_t max;	/* bytes that it can grow to */
	uint32_t shift; /* log2 of a granule's bytes */
	uint32_t end;	/* granules of max; as a block: none */
	/* Calls heap_extend(). Called without the lock if a block does not fit; may be NULL.
	 * Returns 0: try again; or a negative errno for the caller of heap_alloc(). */
	int (*grow)(struct heap *heap, size_t size);
	pthread_mutex_t lock;
	/* under the lock */
	uint32_t *tags; /* one for each granule of max; one mapping with next and prev; NULL before
			 * the first allocation */
	uint32_t *next; /* at a free block's first granule: next block of its class, or end */
	uint32_t *prev;
	size_t map_size;       /* bytes of tags, next and prev together */
	_Atomic uint64_t size; /* bytes; it only grows, and is read without the lock */
	uint32_t n;	       /* granules of size; 0 before the first allocation */
	uint32_t classes;      /* bit c: class c has a free block */
	uint32_t first[HEAP_CLASSES];
	uint64_t used; /* bytes */
	/* import.c: LIMIT_IMPORT bytes that references may be to as well; NULL: none */
	char *_Atomic imports;
	/* constant: the pool is in this process, and references may be to any address */
	int whole;
};

/*
 * Makes an allocator for size bytes at base, which it never reads or writes. base: aligned to
 * HEAP_ALIGN. max: bytes that it can grow to, at least size. Bytes after the last whole granule are
 * not used.
 */
void heap_init(struct heap *heap, void *base, uint64_t size, uint64_t max);
void heap_fini(struct heap *heap);

/* Allocates a block of size bytes; 0 also gives a block. Returns 0, -FK_E_HEAP_FULL, -ENOMEM, or an
 * error of grow(). Any thread. */
int heap_alloc(struct heap *heap, size_t size, void **ret_data);

/* Extends the heap to size bytes, at most max. A smaller size changes nothing. Any thread. */
void heap_extend(struct heap *heap, uint64_t size);

/* Returns the heap size in bytes at which one more block of size bytes certainly fits; more than
 * max: it cannot fit. Any thread. */
uint64_t heap_needs(struct heap *heap, size_t size);

/* Sets the details (error_detail()) of an error: no room for size bytes. Returns err. */
int heap_refuse(struct heap *heap, size_t size, int err);

/* Frees a block. Returns 0, or -FK_E_NOT_ALLOCATED if data is not the start of a block in use. Any
 * thread. */
int heap_free(struct heap *heap, void *data);

/* True if size bytes at data lie within the heap. */
int heap_contains(const struct heap *heap, const void *data, size_t size);

/* Converts an address in the heap or the imports to the offset of a reference. False if some of the
 * size bytes are in neither. */
int heap_offset(const struct heap *heap, const void *data, size_t size, uint64_t *ret_offset);

/* Bytes in use, rounded up to granules. */
uint64_t heap_used(struct heap *heap);
