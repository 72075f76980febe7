/* SPDX-License-Identifier: MIT */
/*
 * shm/ref.h - converts a reference of a client into an address
 *
 * The reference was loaded once and is passed by value. The heap's bounds are the pool's own copy.
 */
#pragma once

#include <stdint.h>

#include "shm/job.h"

/* Checks offset, size and alignment in an order that cannot overflow. heap, heap_size: the mapped
 * heap. align: a power of two. Returns the address, or NULL if it is not aligned or any byte lies
 * outside. A size of 0 is valid inside. */
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
