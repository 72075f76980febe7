/* SPDX-License-Identifier: MIT */
/*
 * forkd/algorithm/fold.h - folds, and the usual combinations
 *
 * For authors of tasks, by <forkd/algorithm.h>, which has the essay.
 */
#ifndef FORKD_ALGORITHM_FOLD_H
#define FORKD_ALGORITHM_FOLD_H

#include <forkd/algorithm/base.h>
#include <forkd/algorithm/invoke.h>

/*
 * Defines a task that combines all elements of an array into one result. The task is
 * acc NAME(const type *data, size_t n, size_t grain[, context]). Each leaf begins with identity and
 * adds its elements from left to right by step. The results of the leaves are combined in the order
 * of the array.
 * acc: type of the result, of an alignment of 2, 4 or 8.
 * identity: an expression of type acc, neutral to combine; a struct in parentheses,
 * ((struct mine){ 1, 2 }).
 * step: acc step(acc, const type *element[, context]).
 * combine: acc combine(acc left, acc right). It must be associative, not commutative.
 * context: type of a last argument of the task, which step gets as well; or none.
 * grain is the largest number of elements of a leaf, or 0 (FK_LEAF_BYTES). The order of the steps
 * depends on n and grain only: floating point results are the same on any number of workers.
 */
#define FK_FOLD(NAME, type, acc, identity, step, combine, ...)                                     \
	FK_FOLD_CHECK(type, acc, step, combine __VA_OPT__(, ) __VA_ARGS__)                         \
	static FK_PART acc NAME##__part(const type *fka_data,                                      \
					size_t fka_n __VA_OPT__(, __VA_ARGS__ fka_context))        \
	{                                                                                          \
		acc fka_acc = identity;                                                            \
                                                                                                   \
		for (size_t fka_i = 0; fka_i < fka_n; fka_i++)                                     \
			fka_acc = step(fka_acc, fka_data + fka_i __VA_OPT__(, fka_context));       \
		return fka_acc;                                                                    \
	}                                                                                          \
	FK_TASK(acc, NAME,                                                                         \
		(const type *, fka_data, size_t, fka_n, size_t,                                    \
		 fka_grain __VA_OPT__(, __VA_ARGS__, fka_context)),                                \
		acc fka_left;                                                                      \
		acc fka_right;)                                                                    \
	{                                                                                          \
		if (fka_n <= FK_GRAIN_OF(fka_grain, type))                                         \
			FK_LEAF_VALUE(NAME##__part(fka_data, fka_n __VA_OPT__(, fka_context)));    \
	}                                                                                          \
	FK_BODY(NAME)                                                                              \
	{                                                                                          \
		FK_INVOKE((fka_left, NAME, self->fka_data, self->fka_n / 2,                        \
			   self->fka_grain __VA_OPT__(, self->fka_context)),                       \
			  (fka_right, NAME, self->fka_data + self->fka_n / 2,                      \
			   self->fka_n - self->fka_n / 2,                                          \
			   self->fka_grain __VA_OPT__(, self->fka_context)));                      \
		FK_RETURN_VALUE(combine(self->fka_left, self->fka_right));                         \
	}                                                                                          \
	FK_END(NAME)

/*
 * Defines a task that combines all numbers of a range into one result. The task is
 * acc NAME(int64_t from, int64_t to, size_t grain[, context]) for the numbers from, ..., to - 1.
 * step: acc step(acc, int64_t number[, context]).
 * acc, identity, combine, context: as in FK_FOLD().
 * grain is the largest number of steps in a leaf, or 0 (FK_LEAF_INDICES).
 */
#define FK_FOLD_RANGE(NAME, acc, identity, step, combine, ...)                                     \
	_Static_assert(FK_IS(step, acc, acc, int64_t __VA_OPT__(, ) __VA_ARGS__),                  \
		       #step " must be " #acc " " #step "(" #acc                                   \
			     ", int64_t" __VA_OPT__(", " #__VA_ARGS__) ")");                       \
	FK_COMBINE_CHECK(acc, combine)                                                             \
	static FK_PART acc NAME##__part(int64_t fka_from,                                          \
					int64_t fka_to __VA_OPT__(, __VA_ARGS__ fka_context))      \
	{                                                                                          \
		acc fka_acc = identity;                                                            \
                                                                                                   \
		for (int64_t fka_i = fka_from; fka_i < fka_to; fka_i++)                            \
			fka_acc = step(fka_acc, fka_i __VA_OPT__(, fka_context));                  \
		return fka_acc;                                                                    \
	}                                                                                          \
	FK_TASK(acc, NAME,                                                                         \
		(int64_t, fka_from, int64_t, fka_to, size_t,                                       \
		 fka_grain __VA_OPT__(, __VA_ARGS__, fka_context)),                                \
		acc fka_left;                                                                      \
		acc fka_right;)                                                                    \
	{                                                                                          \
		if (FK_RANGE_IS_LEAF(fka_from, fka_to, fka_grain))                                 \
			FK_LEAF_VALUE(NAME##__part(fka_from, fka_to __VA_OPT__(, fka_context)));   \
	}                                                                                          \
	FK_BODY(NAME)                                                                              \
	{                                                                                          \
		FK_INVOKE((fka_left, NAME, self->fka_from,                                         \
			   FK_MIDDLE(self->fka_from, self->fka_to),                                \
			   self->fka_grain __VA_OPT__(, self->fka_context)),                       \
			  (fka_right, NAME, FK_MIDDLE(self->fka_from, self->fka_to), self->fka_to, \
			   self->fka_grain __VA_OPT__(, self->fka_context)));                      \
		FK_RETURN_VALUE(combine(self->fka_left, self->fka_right));                         \
	}                                                                                          \
	FK_END(NAME)

/* Combine two results of FK_FOLD() and similar macros. Sums of integers are modulo 2^64. Returns
 * the sum, the minimum or the maximum of a and b. */
static inline int64_t fk_add_i64(int64_t a, int64_t b)
{
	return (int64_t)((uint64_t)a + (uint64_t)b);
}

static inline double fk_add_f64(double a, double b)
{
	return a + b;
}

static inline int64_t fk_min_i64(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static inline int64_t fk_max_i64(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

#endif
