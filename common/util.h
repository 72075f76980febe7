/* SPDX-License-Identifier: MIT */
/* Helpers that C lacks. Nothing here calls the system or allocates. */
#pragma once

#include <errno.h>
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

#define CACHE_LINE 64

/* @align is a power of two; the caller knows that the sum does not overflow. */
static inline uint64_t align_up(uint64_t x, uint64_t align)
{
	return (x + align - 1) & ~(align - 1);
}

/* The next random number, never 0, of a state that is not 0 (Marsaglia, "Xorshift RNGs", 2003). */
static inline uint64_t xorshift64(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static inline int streq(const char *a, const char *b)
{
	return strcmp(a, b) == 0;
}
