/* SPDX-License-Identifier: MIT */
/*
 * sparse.h - large tables of which few pages are used, in one mapping
 *
 * All zero at first. A page that no entry needs takes no memory: calloc() would write to it if the
 * memory was used before. A function that assigns the tables is called twice: sparse_table() first
 * counts the bytes, and after sparse_map() returns the tables.
 */
#pragma once

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#include "common/util.h"

/* All zero: nothing is mapped. */
struct sparse {
	char *base;
	uint64_t size; /* bytes of the tables so far */
};

/* Returns a table of n objects of this size, aligned to a cache line; NULL before sparse_map(). */
static inline void *sparse_table(struct sparse *sparse, uint64_t n, size_t size)
{
	void *table = sparse->base ? sparse->base + sparse->size : NULL;

	sparse->size = align_up(sparse->size + n * size, CACHE_LINE);
	return table;
}

/* Maps the tables that were counted. Returns 0 or -ENOMEM. */
static inline int sparse_map(struct sparse *sparse)
{
	void *base = mmap(NULL, sparse->size, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (base == MAP_FAILED)
		return -ENOMEM;
	/* EINVAL: the kernel has no huge pages. */
	(void)madvise(base, sparse->size, MADV_NOHUGEPAGE);
	*sparse = (struct sparse){ .base = base };
	return 0;
}

static inline void sparse_unmap(struct sparse *sparse)
{
	if (sparse->base)
		(void)munmap(sparse->base, sparse->size);
	*sparse = (struct sparse){ .base = NULL };
}
