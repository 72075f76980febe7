/* SPDX-License-Identifier: MIT */
/*
 * The handful of helpers that C lacks. Nothing here calls the system or allocates.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

#define ARRAY_SIZE(a)                                                                              \
	(sizeof(a) / sizeof((a)[0]) +                                                              \
	 0 * sizeof(struct {                                                                       \
		 _Static_assert(!__builtin_types_compatible_p(__typeof__(a), __typeof__(&(a)[0])), \
				"ARRAY_SIZE of a pointer");                                        \
		 int dummy;                                                                        \
	 }))

#define container_of(ptr, type, member)                                                            \
	((type *)((char *)(ptr)-offsetof(type, member)) + 0 * sizeof((ptr) == &((type *)0)->member))

#define min(a, b)                                                                                  \
	({                                                                                         \
		__typeof__(a) min_a = (a);                                                         \
		__typeof__(b) min_b = (b);                                                         \
		min_a < min_b ? min_a : min_b;                                                     \
	})

#define max(a, b)                                                                                  \
	({                                                                                         \
		__typeof__(a) max_a = (a);                                                         \
		__typeof__(b) max_b = (b);                                                         \
		max_a > max_b ? max_a : max_b;                                                     \
	})

/* The size of a structure, and the offset of a field that opens a cache line, are promises. */
#define assert_size(type, size) _Static_assert(sizeof(type) == (size), "size of " #type)
#define assert_offset(type, field, offset)                                                         \
	_Static_assert(offsetof(type, field) == (offset), "offset of " #field " in " #type)

#define CACHE_LINE	    64
#define __cacheline_aligned __attribute__((aligned(CACHE_LINE)))

static inline int is_power_of_2(uint64_t x)
{
	return x && !(x & (x - 1));
}

/* @align is a power of two; the caller knows that the sum does not overflow. */
static inline uint64_t align_up(uint64_t x, uint64_t align)
{
	return (x + align - 1) & ~(align - 1);
}

static inline int streq(const char *a, const char *b)
{
	return strcmp(a, b) == 0;
}
