/* SPDX-License-Identifier: MIT */
/*
 * forkd/algorithm/base.h - code shared by the algorithms, and their grain
 *
 * For authors of tasks, by <forkd/algorithm.h>, which has the essay: the grain. The rest is not for
 * them.
 */
#ifndef FORKD_ALGORITHM_BASE_H
#define FORKD_ALGORITHM_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <forkd/task.h>

/* The automatic grain of loops, maps, folds and scans. A module may define both before it includes
 * the header. */
#ifndef FK_LEAF_BYTES
#define FK_LEAF_BYTES 16384u /* bytes of elements in a leaf, of the larger type if there are two */
#endif
#ifndef FK_LEAF_INDICES
#define FK_LEAF_INDICES 1024u /* numbers of a range in a leaf */
#endif

/* The grain for elements that cost some time each: a number of elements that take 2 us. ns: about
 * how many nanoseconds one element takes. */
#define FK_GRAIN(ns) ((size_t)(2000 / (ns) + 1))

/* ---------------------------------------------------------------- not for authors */

/* Temporary memory: n of size bytes each, aligned for any type, or NULL. */
static inline void *fk_algorithm_alloc(size_t n, size_t size)
{
	size_t bytes;

	return __builtin_mul_overflow(n, size, &bytes) ? NULL : malloc(bytes);
}

static inline void fk_algorithm_free(void *memory)
{
	free(memory);
}

/* The loop of a leaf: a function of its own, not one copy for each place that forks the task. */
#define FK_PART __attribute__((noinline, unused))

#define FK_IS(function, ret, ...)                                                                  \
	__builtin_types_compatible_p(__typeof__(function), ret(__VA_ARGS__))

#define FK_COMBINE_CHECK(acc, combine)                                                             \
	_Static_assert(FK_IS(combine, acc, acc, acc),                                              \
		       #combine " must be " #acc " " #combine "(" #acc ", " #acc ")");

#define FK_FOLD_CHECK(type, acc, step, combine, ...)                                               \
	_Static_assert(FK_IS(step, acc, acc, const type *__VA_OPT__(, ) __VA_ARGS__),              \
		       #step " must be " #acc " " #step "(" #acc ", const " #type                  \
			     " *" __VA_OPT__(", " #__VA_ARGS__) ")");                              \
	FK_COMBINE_CHECK(acc, combine)

/* The code of a call that returns a code or nothing. */
#define FK_CODE(call)                                                                              \
	__builtin_choose_expr(__builtin_types_compatible_p(__typeof__(call), void),                \
			      ((void)(call), 0), (call))

/* The middle of [from, to) of type size_t, and of one of type int64_t however long it is. */
#define FK_HALF(from, to)   ((from) + ((to) - (from)) / 2)
#define FK_MIDDLE(from, to) ((int64_t)((uint64_t)(from) + ((uint64_t)(to) - (uint64_t)(from)) / 2))

/* A type as large as the larger of the two. */
#define FK_LARGER(a, b) char[sizeof(a) > sizeof(b) ? sizeof(a) : sizeof(b)]

#define FK_GRAIN_OF(grain, type)                                                                   \
	((grain) ? (grain)                                                                         \
		 : (size_t)(sizeof(type) < FK_LEAF_BYTES ? FK_LEAF_BYTES / sizeof(type) : 1))
#define FK_RANGE_IS_LEAF(from, to, grain)                                                          \
	((to) <= (from) ||                                                                         \
	 (uint64_t)(to) - (uint64_t)(from) <= ((grain) ? (grain) : FK_LEAF_INDICES))

#endif
