/* SPDX-License-Identifier: MIT */
/*
 * forkd/algorithm/each.h - loops over elements and numbers, and maps
 *
 * For authors of tasks, by <forkd/algorithm.h>, which has the essay.
 */
#ifndef FORKD_ALGORITHM_EACH_H
#define FORKD_ALGORITHM_EACH_H

#include <forkd/algorithm/base.h>
#include <forkd/algorithm/invoke.h>

/*
 * Defines a task that calls a function for each element of an array. The task is
 * fk_void NAME(type *data, size_t n, size_t grain[, context]) for n elements.
 * function: void or int function(type *element[, context]). A result that is not 0 makes the job
 * fail with it.
 * context: type of a last argument of the task, which function gets as well; or none.
 * grain is the largest number of elements of a leaf, or 0 (FK_LEAF_BYTES).
 */
#define FK_FOR_EACH(NAME, type, function, ...)                                                     \
	_Static_assert(FK_IS(function, void, type *__VA_OPT__(, ) __VA_ARGS__) ||                  \
			       FK_IS(function, int, type *__VA_OPT__(, ) __VA_ARGS__),             \
		       #function " must be void or int " #function "(" #type                       \
				 " *" __VA_OPT__(", " #__VA_ARGS__) ")");                          \
	static FK_PART int NAME##__part(type *fka_data,                                            \
					size_t fka_n __VA_OPT__(, __VA_ARGS__ fka_context))        \
	{                                                                                          \
		FK_EACH_LOOP(size_t, 0, fka_n,                                                     \
			     function(fka_data + fka_i __VA_OPT__(, fka_context)));                \
	}                                                                                          \
	FK_TASK(fk_void, NAME,                                                                     \
		(type *, fka_data, size_t, fka_n, size_t,                                          \
		 fka_grain __VA_OPT__(, __VA_ARGS__, fka_context)), )                              \
	{                                                                                          \
		if (fka_n <= FK_GRAIN_OF(fka_grain, type))                                         \
			FK_EACH_LEAF(NAME##__part(fka_data, fka_n __VA_OPT__(, fka_context)));     \
	}                                                                                          \
	FK_BODY(NAME)                                                                              \
	{                                                                                          \
		FK_INVOKE((void, NAME, self->fka_data, self->fka_n / 2,                            \
			   self->fka_grain __VA_OPT__(, self->fka_context)),                       \
			  (void, NAME, self->fka_data + self->fka_n / 2,                           \
			   self->fka_n - self->fka_n / 2,                                          \
			   self->fka_grain __VA_OPT__(, self->fka_context)));                      \
		FK_RETURN();                                                                       \
	}                                                                                          \
	FK_END(NAME)

/*
 * Defines a task that calls a function for each number of a range. The task is
 * fk_void NAME(int64_t from, int64_t to, size_t grain[, context]) for the numbers from, ...,
 * to - 1; none if to <= from.
 * function: void or int function(int64_t number[, context]). A result that is not 0 makes the job
 * fail with it.
 * context: type of a last argument of the task, which function gets as well; or none.
 * grain is the largest number of calls in a leaf, or 0 (FK_LEAF_INDICES).
 */
#define FK_FOR_RANGE(NAME, function, ...)                                                          \
	_Static_assert(FK_IS(function, void, int64_t __VA_OPT__(, ) __VA_ARGS__) ||                \
			       FK_IS(function, int, int64_t __VA_OPT__(, ) __VA_ARGS__),           \
		       #function " must be void or int " #function                                 \
				 "(int64_t" __VA_OPT__(", " #__VA_ARGS__) ")");                    \
	static FK_PART int NAME##__part(int64_t fka_from,                                          \
					int64_t fka_to __VA_OPT__(, __VA_ARGS__ fka_context))      \
	{                                                                                          \
		FK_EACH_LOOP(int64_t, fka_from, fka_to,                                            \
			     function(fka_i __VA_OPT__(, fka_context)));                           \
	}                                                                                          \
	FK_TASK(fk_void, NAME,                                                                     \
		(int64_t, fka_from, int64_t, fka_to, size_t,                                       \
		 fka_grain __VA_OPT__(, __VA_ARGS__, fka_context)), )                              \
	{                                                                                          \
		if (FK_RANGE_IS_LEAF(fka_from, fka_to, fka_grain))                                 \
			FK_EACH_LEAF(NAME##__part(fka_from, fka_to __VA_OPT__(, fka_context)));    \
	}                                                                                          \
	FK_BODY(NAME)                                                                              \
	{                                                                                          \
		FK_INVOKE((void, NAME, self->fka_from, FK_MIDDLE(self->fka_from, self->fka_to),    \
			   self->fka_grain __VA_OPT__(, self->fka_context)),                       \
			  (void, NAME, FK_MIDDLE(self->fka_from, self->fka_to), self->fka_to,      \
			   self->fka_grain __VA_OPT__(, self->fka_context)));                      \
		FK_RETURN();                                                                       \
	}                                                                                          \
	FK_END(NAME)

/*
 * Defines a task that makes an element of one array of each element of another one. The task is
 * fk_void NAME(const from *in, to *out, size_t n, size_t grain[, context]). It sets out[i] to
 * function(&in[i]) for each of n elements.
 * function: to function(const from *element[, context]).
 * context: type of a last argument of the task, which function gets as well; or none.
 * grain is the largest number of elements of a leaf, or 0 (FK_LEAF_BYTES). The arrays must not
 * overlap, or they are the same, and from and to have the same size.
 */
#define FK_MAP(NAME, from, to, function, ...)                                                      \
	_Static_assert(FK_IS(function, to, const from *__VA_OPT__(, ) __VA_ARGS__),                \
		       #function " must be " #to " " #function "(const " #from                     \
				 " *" __VA_OPT__(", " #__VA_ARGS__) ")");                          \
	static FK_PART void NAME##__part(const from *fka_in, to *fka_out,                          \
					 size_t fka_n __VA_OPT__(, __VA_ARGS__ fka_context))       \
	{                                                                                          \
		for (size_t fka_i = 0; fka_i < fka_n; fka_i++)                                     \
			fka_out[fka_i] = function(fka_in + fka_i __VA_OPT__(, fka_context));       \
	}                                                                                          \
	FK_TASK(fk_void, NAME,                                                                     \
		(const from *, fka_in, to *, fka_out, size_t, fka_n, size_t,                       \
		 fka_grain __VA_OPT__(, __VA_ARGS__, fka_context)), )                              \
	{                                                                                          \
		if (fka_n <= FK_GRAIN_OF(fka_grain, FK_LARGER(from, to))) {                        \
			NAME##__part(fka_in, fka_out, fka_n __VA_OPT__(, fka_context));            \
			FK_LEAF();                                                                 \
		}                                                                                  \
	}                                                                                          \
	FK_BODY(NAME)                                                                              \
	{                                                                                          \
		FK_INVOKE((void, NAME, self->fka_in, self->fka_out, self->fka_n / 2,               \
			   self->fka_grain __VA_OPT__(, self->fka_context)),                       \
			  (void, NAME, self->fka_in + self->fka_n / 2,                             \
			   self->fka_out + self->fka_n / 2, self->fka_n - self->fka_n / 2,         \
			   self->fka_grain __VA_OPT__(, self->fka_context)));                      \
		FK_RETURN();                                                                       \
	}                                                                                          \
	FK_END(NAME)

/* ---------------------------------------------------------------- not for authors */

/* The rest of a function: calls for each number, and returns the first code that is not 0. */
#define FK_EACH_LOOP(type, from, to, call)                                                         \
	for (type fka_i = from; fka_i < to; fka_i++) {                                             \
		int fka_code = FK_CODE(call);                                                      \
                                                                                                   \
		if (fk_unlikely(fka_code))                                                         \
			return fka_code;                                                           \
	}                                                                                          \
	return 0

/* The end of a leaf that a code fails. */
#define FK_EACH_LEAF(call)                                                                         \
	do {                                                                                       \
		int fka_code = call;                                                               \
                                                                                                   \
		if (fka_code)                                                                      \
			FK_LEAF_FAIL(fka_code);                                                    \
		FK_LEAF();                                                                         \
	} while (0)

#endif
