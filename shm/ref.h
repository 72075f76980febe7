/* SPDX-License-Identifier: MIT */
/*
 * shm/ref.h - the one function that turns a client's reference into an address
 *
 * The reference was loaded once and is passed by value; the heap's bounds are the pool's own copy,
 * never read from the segment again.
 */
#pragma once

#include <stdint.h>

#include "shm/job.h"

/*
 * Checks offset, size and alignment in an order that cannot overflow.
 * heap, heap_size: the mapped heap. align: a power of two. Returns the address, or NULL if any byte
 * of the reference lies outside or it is not aligned. A size of 0 is fine inside.
 */
static inline void *ref_resolve(void *heap, uint64_t heap_size, struct job_ref ref, uint64_t align)
{
	if (ref.size > heap_size)
		return (void *)0;
	if (ref.offset > heap_size - ref.size)
		return (void *)0;
	if (ref.offset & (align - 1))
		return (void *)0;
	return (char *)heap + ref.offset;
}
