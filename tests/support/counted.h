/* SPDX-License-Identifier: MIT */
/*
 * counted.h - counts the memory that headers included after this one allocate
 *
 * malloc() and similar functions and free() of the header or module under test are those of this
 * file. Any worker may call them.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

#include "daemon/core/worker.h"

static _Atomic int64_t counted_blocks; /* allocated and not freed */
static _Atomic int counted_code;       /* code of the failure of a job that allocates; 0: none */

static inline void *counted(void *memory)
{
	int code = atomic_load(&counted_code);

	if (memory)
		atomic_fetch_add(&counted_blocks, 1);
	if (code)
		fk_rt_fail(&worker_self()->engine.fk, code);
	return memory;
}

static inline void *counted_malloc(size_t size)
{
	return counted(malloc(size));
}

static inline void *counted_calloc(size_t n, size_t size)
{
	return counted(calloc(n, size));
}

static inline void *counted_aligned_alloc(size_t alignment, size_t size)
{
	return counted(aligned_alloc(alignment, size));
}

static inline void *counted_realloc(void *memory, size_t size)
{
	return memory ? realloc(memory, size) : counted(malloc(size));
}

static inline void counted_free(void *memory)
{
	if (memory)
		atomic_fetch_sub(&counted_blocks, 1);
	free(memory);
}

#define malloc	      counted_malloc
#define calloc	      counted_calloc
#define aligned_alloc counted_aligned_alloc
#define realloc	      counted_realloc
#define free	      counted_free
