/* SPDX-License-Identifier: MIT */
/*
 * forkd/algorithm.h - loops, folds, scans, sorts: tasks that need not be written
 *
 * WHAT IT IS
 *   Macros that stand at file scope like FK_TASK() and make an ordinary task of a type and of plain
 *   C functions:
 *
 *	FK_FOR_EACH(NAME, type, function)	  void NAME(type *data, n, grain)
 *	FK_FOR_RANGE(NAME, function)		  void NAME(int64_t from, int64_t to, grain)
 *	FK_MAP(NAME, from, to, function)	  void NAME(const from *in, to *out, n, grain)
 *	FK_FOLD(NAME, type, acc, identity, step, combine)
 *						  acc NAME(const type *data, n, grain)
 *	FK_FOLD_RANGE(NAME, acc, identity, step, combine)
 *						  acc NAME(int64_t from, int64_t to, grain)
 *	FK_SCAN(NAME, type, acc, identity, step, combine)
 *	FK_SCAN_EXCLUSIVE(the same)		  acc NAME(const type *in, acc *out, n, grain)
 *	FK_SORT(NAME, type, less)		  void NAME(type *data, type *buffer, n, grain)
 *
 *   The task that comes out is forked and called like any other, with n and grain of type size_t:
 *
 *	static double square(double sum, const double *x)
 *	{
 *		return sum + *x * *x;
 *	}
 *	FK_FOLD(squares, double, double, 0.0, square, fk_add_f64)
 *	...
 *		FK_CALL(norm, squares, self->data, self->n, 0);
 *
 *   The functions are compiled into the loop of a leaf, so none of them may fork, and all their
 *   local variables are their own. Elements come to them by pointer, what is accumulated comes and
 *   goes by value. A pointer is to the array itself: on a buffer that a client can change at any
 *   time (FK_EXPORT_CHANGING_BUFFERS) a function copies the element, once, before it looks at it
 *   twice.
 *
 *   FK_INVOKE is a statement of a task's body: it runs several different tasks side by side.
 *
 * CONTEXT
 *   Each of these macros may have one argument more, the type of a context. The task then takes a
 *   value of this type as its last argument, and hands it to every function of an element (not to
 *   combine) as the last argument: FK_FOR_EACH(scale, double, multiply, double) makes scale(double
 *   *data, n, grain, double context) of void multiply(double *x, double context).
 *
 * GRAIN
 *   How many elements a leaf takes at most: what is longer is halved. 0 stands for the automatic
 *   one: FK_LEAF_BYTES of elements, or FK_LEAF_INDICES, which is right for functions that cost a
 *   nanosecond or two, as much as bringing their elements in does. For others, FK_GRAIN(ns) is
 *   the grain for elements of ns nanoseconds each.
 *   The rule looks neither at the number of workers nor at a clock. It need not: a fork costs a few
 *   nanoseconds, so a leaf of a microsecond hides it whether there are two workers or two hundred,
 *   and a leaf much longer than that only keeps thieves, and jobs with a better claim, waiting for
 *   the next fork.
 *
 * INVARIANTS
 *   I1. The tree of forks, and with it the order in which results are combined, depends on n and
 *       grain alone: halves, the smaller one to the left. So the result of a fold or a scan of
 *       floating point numbers is the same bit for bit on any number of workers, whoever stole
 *       what. It is not the one of a plain loop: combine must be associative, and floating point
 *       addition is so only up to rounding.
 *   I2. Indices and ends of loops come from n and grain, never from elements. Where an element
 *       decides (less), the decision is made once and stays within bounds either way (FK_DECIDED).
 *       A sort of a buffer that changes meanwhile, or by a less that is no order, comes out as
 *       garbage, and that is all.
 *   I3. Temporary memory is an argument of the task that holds it, valid from the frame's first
 *       moment on: whether the task ends or is unwound, it gives the memory back, once.
 *
 * FAILURE
 *   A function of FK_FOR_EACH or FK_FOR_RANGE may return int instead of void: a code that is not 0
 *   makes the job fail with it (as FK_FAIL does), and ends the leaf. Scans and sorts without a
 *   buffer fail with -ENOMEM.
 *
 * COST (elements of constant cost; work and span in steps)
 *	for_each, map, fold	work O(n)	    span O(grain + log n)
 *	scan			work O(2 n)	    span O(grain + log n)
 *	sort			work O(n log n)	    span O(grain log grain + log^3 n)
 *
 *   Nanoseconds an element with one worker on 10^6 numbers of 64 bits, with gcc 12 -O3:
 *
 *			plain loop	grain 0		grain 1
 *	for_each	0.14		0.16		4.3
 *	map		0.21		0.29		4.5
 *	fold (double)	0.81		0.79		4.4
 *	scan		0.36		0.50		20 to 30
 *	sort		90 (qsort)	33
 *
 *   The tasks are not fine-grained ones (FK_FINE_TASK): how long a function takes is its author's
 *   business, and the grain makes up for the price of a fork.
 */
#ifndef FORKD_ALGORITHM_H
#define FORKD_ALGORITHM_H

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <forkd/task.h>

/* The automatic grain: bytes of elements, or indices of a range, that make a leaf. */
#ifndef FK_LEAF_BYTES
#define FK_LEAF_BYTES 16384u
#endif
#ifndef FK_LEAF_INDICES
#define FK_LEAF_INDICES 1024u
#endif
/* The same for FK_SORT: elements that a leaf sorts. */
#ifndef FK_LEAF_SORTED
#define FK_LEAF_SORTED 512u
#endif

/* The grain for elements that cost about ns nanoseconds each: leaves of two microseconds. */
#define FK_GRAIN(ns) ((size_t)(2000 / (ns) + 1))

/* ---------------------------------------------------------------- for each */

/*
 * NAME(type *data, size_t n, size_t grain[, context]): calls function for each of n elements.
 * function: void or int function(type *element[, context]); what is not 0 fails the job.
 */
#define FK_FOR_EACH(NAME, type, function, ...)                                                     \
	_Static_assert(FK_IS(function, void, type *__VA_OPT__(, ) __VA_ARGS__) ||                  \
			       FK_IS(function, int, type *__VA_OPT__(, ) __VA_ARGS__),             \
		       #NAME ": it must be void or int " #function "(" #type                       \
			     " *" __VA_OPT__(", " #__VA_ARGS__) ")");                              \
	static FK_PART int NAME##__part(type *fka_data,                                            \
					size_t fka_n __VA_OPT__(, __VA_ARGS__ fka_context))        \
	{                                                                                          \
		for (size_t fka_i = 0; fka_i < fka_n; fka_i++) {                                   \
			int fka_code =                                                             \
				FK_CODE(function(fka_data + fka_i __VA_OPT__(, fka_context)));     \
                                                                                                   \
			if (fk_unlikely(fka_code))                                                 \
				return fka_code;                                                   \
		}                                                                                  \
		return 0;                                                                          \
	}                                                                                          \
	FK_TASK(fk_void, NAME,                                                                     \
		(type *, fka_data, size_t, fka_n, size_t,                                          \
		 fka_grain __VA_OPT__(, __VA_ARGS__, fka_context)), )                              \
	{                                                                                          \
		if (fka_n <= FK_GRAIN_OF(fka_grain, type)) {                                       \
			int fka_code = NAME##__part(fka_data, fka_n __VA_OPT__(, fka_context));    \
                                                                                                   \
			if (fka_code)                                                              \
				FK_LEAF_FAIL(fka_code);                                            \
			FK_LEAF();                                                                 \
		}                                                                                  \
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
 * NAME(int64_t from, int64_t to, size_t grain[, context]): calls function for each of the numbers
 * from, ..., to - 1; none if to <= from.
 * function: void or int function(int64_t number[, context]); what is not 0 fails the job.
 */
#define FK_FOR_RANGE(NAME, function, ...)                                                          \
	_Static_assert(FK_IS(function, void, int64_t __VA_OPT__(, ) __VA_ARGS__) ||                \
			       FK_IS(function, int, int64_t __VA_OPT__(, ) __VA_ARGS__),           \
		       #NAME ": it must be void or int " #function                                 \
			     "(int64_t" __VA_OPT__(", " #__VA_ARGS__) ")");                        \
	static FK_PART int NAME##__part(int64_t fka_from,                                          \
					int64_t fka_to __VA_OPT__(, __VA_ARGS__ fka_context))      \
	{                                                                                          \
		for (int64_t fka_i = fka_from; fka_i < fka_to; fka_i++) {                          \
			int fka_code = FK_CODE(function(fka_i __VA_OPT__(, fka_context)));         \
                                                                                                   \
			if (fk_unlikely(fka_code))                                                 \
				return fka_code;                                                   \
		}                                                                                  \
		return 0;                                                                          \
	}                                                                                          \
	FK_TASK(fk_void, NAME,                                                                     \
		(int64_t, fka_from, int64_t, fka_to, size_t,                                       \
		 fka_grain __VA_OPT__(, __VA_ARGS__, fka_context)), )                              \
	{                                                                                          \
		if (FK_RANGE_IS_LEAF(fka_from, fka_to, fka_grain)) {                               \
			int fka_code = NAME##__part(fka_from, fka_to __VA_OPT__(, fka_context));   \
                                                                                                   \
			if (fka_code)                                                              \
				FK_LEAF_FAIL(fka_code);                                            \
			FK_LEAF();                                                                 \
		}                                                                                  \
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

/* ---------------------------------------------------------------- map */

/*
 * NAME(const from *in, to *out, size_t n, size_t grain[, context]): out[i] = function(&in[i]) for
 * each of n elements. The arrays do not overlap, or are the same and from and to of one size.
 * function: to function(const from *element[, context]).
 */
#define FK_MAP(NAME, from, to, function, ...)                                                      \
	_Static_assert(FK_IS(function, to, const from *__VA_OPT__(, ) __VA_ARGS__),                \
		       #NAME ": it must be " #to " " #function "(const " #from                     \
			     " *" __VA_OPT__(", " #__VA_ARGS__) ")");                              \
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
		if (fka_n <= FK_GRAIN_OF(fka_grain, from)) {                                       \
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

/* ---------------------------------------------------------------- fold */

/*
 * NAME(const type *data, size_t n, size_t grain[, context]) -> acc: each leaf begins with identity
 * and takes its elements in, from left to right, with step; what leaves give is combined in the
 * order of the array. combine must be associative, and identity neutral to it; it need not be
 * commutative. acc: an alignment of 2, 4 or 8. identity: an expression of type acc; a struct in
 * parentheses, ((struct mine){ 1, 2 }).
 * step: acc step(acc, const type *element[, context]). combine: acc combine(acc left, acc right).
 */
#define FK_FOLD(NAME, type, acc, identity, step, combine, ...)                                     \
	FK_FOLD_CHECK(NAME, type, acc, step, combine __VA_OPT__(, ) __VA_ARGS__)                   \
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
 * NAME(int64_t from, int64_t to, size_t grain[, context]) -> acc: the same over the numbers
 * from, ..., to - 1. step: acc step(acc, int64_t number[, context]).
 */
#define FK_FOLD_RANGE(NAME, acc, identity, step, combine, ...)                                     \
	_Static_assert(FK_IS(step, acc, acc, int64_t __VA_OPT__(, ) __VA_ARGS__),                  \
		       #NAME ": it must be " #acc " " #step "(" #acc                               \
			     ", int64_t" __VA_OPT__(", " #__VA_ARGS__) ")");                       \
	FK_COMBINE_CHECK(NAME, acc, combine)                                                       \
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

/* ---------------------------------------------------------------- scan */

/*
 * NAME(const type *in, acc *out, size_t n, size_t grain[, context]) -> acc: out[i] is the fold of
 * in[0], ..., in[i]; for FK_SCAN_EXCLUSIVE that of in[0], ..., in[i - 1], and out[0] is identity.
 * The result is the fold of all. The arrays do not overlap, or are the same and type and acc of
 * one size. identity, step, combine: as for FK_FOLD.
 * Takes sizeof(acc) of temporary memory for each grain elements; -ENOMEM if there is none.
 *
 * The work-efficient scan of Blelloch (Prefix sums and their applications, 1990), on blocks of
 * grain elements: on the way up, each inner node of the tree keeps the sum of its left half; on the
 * way down, it hands on what stands before it, to the right half together with that sum. An inner
 * node lies between two blocks, and no two between the same: the first block of the right half is
 * the node's index in sums.
 */
#define FK_SCAN(NAME, type, acc, identity, step, combine, ...)                                     \
	FK_SCAN_(NAME, type, acc, identity, step, combine, false __VA_OPT__(, ) __VA_ARGS__)
#define FK_SCAN_EXCLUSIVE(NAME, type, acc, identity, step, combine, ...)                           \
	FK_SCAN_(NAME, type, acc, identity, step, combine, true __VA_OPT__(, ) __VA_ARGS__)

#define FK_SCAN_(NAME, type, acc, identity, step, combine, exclusive, ...)                         \
	FK_FOLD_CHECK(NAME, type, acc, step, combine __VA_OPT__(, ) __VA_ARGS__)                   \
	struct NAME##__plan {                                                                      \
		const type *in;                                                                    \
		acc *out;                                                                          \
		acc *sums; /* [1, blocks): the left halves */                                      \
		size_t n;                                                                          \
		size_t grain;                                                                      \
		size_t blocks;                                                                     \
		__VA_OPT__(__VA_ARGS__ context;)                                                   \
	};                                                                                         \
	/* Folds n elements onto fka_acc. */                                                       \
	static FK_PART acc NAME##__sum(acc fka_acc, const type *fka_in,                            \
				       size_t fka_n __VA_OPT__(, __VA_ARGS__ fka_context))         \
	{                                                                                          \
		for (size_t fka_i = 0; fka_i < fka_n; fka_i++)                                     \
			fka_acc = step(fka_acc, fka_in + fka_i __VA_OPT__(, fka_context));         \
		return fka_acc;                                                                    \
	}                                                                                          \
	/* The same, and every sum on the way. */                                                  \
	static FK_PART acc NAME##__part(acc fka_acc, const type *fka_in, acc *fka_out,             \
					size_t fka_n __VA_OPT__(, __VA_ARGS__ fka_context))        \
	{                                                                                          \
		for (size_t fka_i = 0; fka_i < fka_n; fka_i++) {                                   \
			acc fka_next = step(fka_acc, fka_in + fka_i __VA_OPT__(, fka_context));    \
                                                                                                   \
			fka_out[fka_i] = exclusive ? fka_acc : fka_next;                           \
			fka_acc = fka_next;                                                        \
		}                                                                                  \
		return fka_acc;                                                                    \
	}                                                                                          \
	FK_TASK(acc, NAME##__up,                                                                   \
		(const struct NAME##__plan *, fka_plan, size_t, fka_from, size_t, fka_to),         \
		acc fka_right;)                                                                    \
	{                                                                                          \
		if (fka_to - fka_from == 1)                                                        \
			FK_LEAF_VALUE(NAME##__sum(identity,                                        \
						  fka_plan->in + fka_from * fka_plan->grain,       \
						  FK_BLOCK_SIZE(fka_plan, fka_from)                \
							  __VA_OPT__(, fka_plan->context)));       \
	}                                                                                          \
	FK_BODY(NAME##__up)                                                                        \
	{                                                                                          \
		FK_INVOKE((fka_plan->sums[FK_HALF(self->fka_from, self->fka_to)], NAME##__up,      \
			   self->fka_plan, self->fka_from, FK_HALF(self->fka_from, self->fka_to)), \
			  (fka_right, NAME##__up, self->fka_plan,                                  \
			   FK_HALF(self->fka_from, self->fka_to), self->fka_to));                  \
		FK_RETURN_VALUE(                                                                   \
			combine(self->fka_plan->sums[FK_HALF(self->fka_from, self->fka_to)],       \
				self->fka_right));                                                 \
	}                                                                                          \
	FK_END(NAME##__up)                                                                         \
	FK_TASK(fk_void, NAME##__down,                                                             \
		(const struct NAME##__plan *, fka_plan, size_t, fka_from, size_t, fka_to, acc,     \
		 fka_before), )                                                                    \
	{                                                                                          \
		if (fka_to - fka_from == 1) {                                                      \
			NAME##__part(fka_before, fka_plan->in + fka_from * fka_plan->grain,        \
				     fka_plan->out + fka_from * fka_plan->grain,                   \
				     FK_BLOCK_SIZE(fka_plan, fka_from)                             \
					     __VA_OPT__(, fka_plan->context));                     \
			FK_LEAF();                                                                 \
		}                                                                                  \
	}                                                                                          \
	FK_BODY(NAME##__down)                                                                      \
	{                                                                                          \
		FK_INVOKE((void, NAME##__down, self->fka_plan, self->fka_from,                     \
			   FK_HALF(self->fka_from, self->fka_to), self->fka_before),               \
			  (void, NAME##__down, self->fka_plan,                                     \
			   FK_HALF(self->fka_from, self->fka_to), self->fka_to,                    \
			   combine(self->fka_before,                                               \
				   self->fka_plan->sums[FK_HALF(self->fka_from, self->fka_to)]))); \
		FK_RETURN();                                                                       \
	}                                                                                          \
	FK_END(NAME##__down)                                                                       \
	/* Holds the sums, and gives them back whatever happens. */                                \
	FK_DECLARE(acc, NAME##__owner,                                                             \
		   (const type *, fka_in, acc *, fka_out, size_t, fka_n, size_t, fka_grain, acc *, \
		    fka_sums __VA_OPT__(, __VA_ARGS__, fka_context)),                              \
		   acc fka_sum;                                                                    \
		   struct NAME##__plan fka_plan;)                                                  \
	FK_UNWIND(NAME##__owner)                                                                   \
	{                                                                                          \
		fk_algorithm_free(self->fka_sums);                                                 \
	}                                                                                          \
	FK_DEFINE_UNWIND(acc, NAME##__owner,                                                       \
			 (const type *, fka_in, acc *, fka_out, size_t, fka_n, size_t, fka_grain,  \
			  acc *, fka_sums __VA_OPT__(, __VA_ARGS__, fka_context)))                 \
	FK_NO_LEAF(NAME##__owner)                                                                  \
	{                                                                                          \
		if (!self->fka_sums)                                                               \
			FK_FAIL(-ENOMEM);                                                          \
		self->fka_plan =                                                                   \
			(struct NAME##__plan){ .in = self->fka_in,                                 \
					       .out = self->fka_out,                               \
					       .sums = self->fka_sums,                             \
					       .n = self->fka_n,                                   \
					       .grain = self->fka_grain,                           \
					       .blocks = FK_BLOCKS(self->fka_n, self->fka_grain),  \
					       __VA_OPT__(.context = self->fka_context, ) };       \
		FK_CALL(fka_sum, NAME##__up, &self->fka_plan, 0, self->fka_plan.blocks);           \
		FK_CALL_VOID(NAME##__down, &self->fka_plan, 0, self->fka_plan.blocks, identity);   \
		fk_algorithm_free(self->fka_sums);                                                 \
		FK_RETURN_VALUE(self->fka_sum);                                                    \
	}                                                                                          \
	FK_END(NAME##__owner)                                                                      \
	FK_TASK(acc, NAME,                                                                         \
		(const type *, fka_in, acc *, fka_out, size_t, fka_n, size_t,                      \
		 fka_grain __VA_OPT__(, __VA_ARGS__, fka_context)),                                \
		acc fka_sum;)                                                                      \
	{                                                                                          \
		if (fka_n <= FK_GRAIN_OF(fka_grain, type))                                         \
			FK_LEAF_VALUE(NAME##__part(identity, fka_in, fka_out,                      \
						   fka_n __VA_OPT__(, fka_context)));              \
	}                                                                                          \
	FK_BODY(NAME)                                                                              \
	{                                                                                          \
		FK_CALL(fka_sum, NAME##__owner, self->fka_in, self->fka_out, self->fka_n,          \
			FK_GRAIN_OF(self->fka_grain, type),                                        \
			fk_algorithm_alloc(FK_BLOCKS(self->fka_n,                                  \
						     FK_GRAIN_OF(self->fka_grain, type)),          \
					   sizeof(acc)) __VA_OPT__(, self->fka_context));          \
		FK_RETURN_VALUE(self->fka_sum);                                                    \
	}                                                                                          \
	FK_END(NAME)

/* ---------------------------------------------------------------- sort */

/*
 * NAME(type *data, type *buffer, size_t n, size_t grain[, context]): sorts n elements, stably.
 * buffer: room for n elements more, which are overwritten; NULL: the task takes it itself, and
 * fails with -ENOMEM if there is none. grain: how many elements a leaf sorts.
 * less: bool or int less(const type *a, const type *b[, context]), true if a must stand before b;
 * a strict weak order.
 *
 * Merge sort between the two arrays, the direction alternating by level, so that nothing is copied
 * back. A merge is divided as well, in the middle of what it writes, by a binary search for the
 * elements that go there (Deo and Sarkar, Parallel algorithms for merging and sorting, 1991). A
 * sample sort would move each element fewer times, but its buckets depend on the data: it is not
 * stable, it degenerates on equal keys, and on a buffer that changes it writes out of bounds.
 */
#define FK_SORT(NAME, type, less, ...)                                                               \
	_Static_assert(FK_IS(less, bool, const type *, const type *__VA_OPT__(, ) __VA_ARGS__) ||    \
			       FK_IS(less, int, const type *,                                        \
				     const type *__VA_OPT__(, ) __VA_ARGS__),                        \
		       #NAME ": it must be bool or int " #less "(const " #type " *, const " #type    \
			     " *" __VA_OPT__(", " #__VA_ARGS__) ")");                                \
	/* Merges two sorted arrays into fka_out, which overlaps neither. From either end as many  \
	 * elements as the shorter one has: no array can end in between, and there are two chains  \
	 * of comparisons that do not wait for each other. Then what is left between, the same     \
	 * way. Arrays that follow on each other are copied. */ \
	static FK_PART void NAME##__merged(const type *fka_a, size_t fka_na, const type *fka_b,      \
					   size_t fka_nb,                                            \
					   type *fka_out __VA_OPT__(, __VA_ARGS__ fka_context))      \
	{                                                                                            \
		if (fka_na && fka_nb &&                                                              \
		    less(fka_b + fka_nb - 1, fka_a __VA_OPT__(, fka_context))) {                     \
			memcpy(fka_out, fka_b, fka_nb * sizeof(type));                               \
			fka_out += fka_nb;                                                           \
			fka_nb = 0;                                                                  \
		}                                                                                    \
		while (fka_na && fka_nb &&                                                           \
		       less(fka_b, fka_a + fka_na - 1 __VA_OPT__(, fka_context))) {                  \
			const size_t fka_n = FK_LESSER(fka_na, fka_nb);                              \
			const size_t fka_rest = fka_na + fka_nb - 2 * fka_n;                         \
			const type *fka_whole = fka_na > fka_nb ? fka_a : fka_b;                     \
			const type *fka_a_low = fka_a, *fka_b_low = fka_b;                           \
			const type *fka_a_high = fka_a + fka_na, *fka_b_high = fka_b + fka_nb;       \
			type *fka_high = fka_out + fka_na + fka_nb;                                  \
                                                                                                     \
			for (size_t fka_i = 0; fka_i < fka_n; fka_i++) {                             \
				size_t fka_take_b = FK_DECIDED(                                      \
					less(fka_b_low, fka_a_low __VA_OPT__(, fka_context)));       \
				size_t fka_take_a = FK_DECIDED(                                      \
					less(fka_b_high - 1,                                         \
					     fka_a_high - 1 __VA_OPT__(, fka_context)));             \
                                                                                                     \
				*fka_out++ = *FK_CHOSEN(fka_take_b, fka_b_low, fka_a_low);           \
				fka_b_low += fka_take_b;                                             \
				fka_a_low += 1 - fka_take_b;                                         \
				*--fka_high =                                                        \
					*(FK_CHOSEN(fka_take_a, fka_a_high, fka_b_high) - 1);        \
				fka_a_high -= fka_take_a;                                            \
				fka_b_high -= 1 - fka_take_a;                                        \
			}                                                                            \
			fka_na = (size_t)(fka_a_high - fka_a_low);                                   \
			fka_nb = (size_t)(fka_b_high - fka_b_low);                                   \
			/* The ends have crossed: no order, and any elements will do. */             \
			if (fka_na > fka_rest) {                                                     \
				memcpy(fka_out, fka_whole, fka_rest * sizeof(type));                 \
				return;                                                              \
			}                                                                            \
			fka_a = fka_a_low;                                                           \
			fka_b = fka_b_low;                                                           \
		}                                                                                    \
		if (fka_na)                                                                          \
			memcpy(fka_out, fka_a, fka_na * sizeof(type));                               \
		if (fka_nb)                                                                          \
			memcpy(fka_out + fka_na, fka_b, fka_nb * sizeof(type));                      \
	}                                                                                            \
	/* How many of the first fka_k elements of the merged array come from fka_a: from fka_k -  \
	 * fka_nb to fka_k, and fka_na at most, whatever the elements are. */ \
	static FK_PART size_t NAME##__share(const type *fka_a, size_t fka_na, const type *fka_b,     \
					    size_t fka_nb,                                           \
					    size_t fka_k __VA_OPT__(, __VA_ARGS__ fka_context))      \
	{                                                                                            \
		size_t fka_low = fka_k > fka_nb ? fka_k - fka_nb : 0;                                \
		size_t fka_high = fka_k < fka_na ? fka_k : fka_na;                                   \
                                                                                                     \
		while (fka_low < fka_high) {                                                         \
			size_t fka_i = FK_HALF(fka_low, fka_high);                                   \
                                                                                                     \
			if (FK_DECIDED(less(fka_b + (fka_k - fka_i - 1),                             \
					    fka_a + fka_i __VA_OPT__(, fka_context))))               \
				fka_high = fka_i;                                                    \
			else                                                                         \
				fka_low = fka_i + 1;                                                 \
		}                                                                                    \
		return fka_low;                                                                      \
	}                                                                                            \
	static FK_PART void NAME##__insert(type *fka_a,                                              \
					   size_t fka_n __VA_OPT__(, __VA_ARGS__ fka_context))       \
	{                                                                                            \
		for (size_t fka_i = 1; fka_i < fka_n; fka_i++) {                                     \
			type fka_x = fka_a[fka_i];                                                   \
			size_t fka_j = fka_i;                                                        \
                                                                                                     \
			for (; fka_j > 0 &&                                                          \
			       less(&fka_x, fka_a + fka_j - 1 __VA_OPT__(, fka_context));            \
			     fka_j--)                                                                \
				fka_a[fka_j] = fka_a[fka_j - 1];                                     \
			fka_a[fka_j] = fka_x;                                                        \
		}                                                                                    \
	}                                                                                            \
	/* A leaf: sorts fka_n elements, and leaves them in fka_tmp if fka_away, else in fka_a. */   \
	static FK_PART void NAME##__part(type *fka_a, type *fka_tmp, size_t fka_n,                   \
					 bool fka_away __VA_OPT__(, __VA_ARGS__ fka_context))        \
	{                                                                                            \
		type *fka_from = fka_a;                                                              \
		type *fka_to = fka_tmp;                                                              \
                                                                                                     \
		for (size_t fka_i = 0; fka_i < fka_n; fka_i += FK_SORT_RUN)                          \
			NAME##__insert(fka_a + fka_i, FK_LESSER(FK_SORT_RUN, fka_n - fka_i)          \
							      __VA_OPT__(, fka_context));            \
		for (size_t fka_run = FK_SORT_RUN; fka_run < fka_n; fka_run *= 2) {                  \
			type *fka_swap = fka_from;                                                   \
                                                                                                     \
			for (size_t fka_i = 0; fka_i < fka_n; fka_i += 2 * fka_run) {                \
				size_t fka_na = FK_LESSER(fka_run, fka_n - fka_i);                   \
				size_t fka_nb = FK_LESSER(fka_run, fka_n - fka_i - fka_na);          \
                                                                                                     \
				NAME##__merged(fka_from + fka_i, fka_na,                             \
					       fka_from + fka_i + fka_na, fka_nb,                    \
					       fka_to + fka_i __VA_OPT__(, fka_context));            \
			}                                                                            \
			fka_from = fka_to;                                                           \
			fka_to = fka_swap;                                                           \
		}                                                                                    \
		if (fka_from != (fka_away ? fka_tmp : fka_a))                                        \
			memcpy(fka_to, fka_from, fka_n * sizeof(type));                              \
	}                                                                                            \
	FK_TASK(fk_void, NAME##__merge,                                                              \
		(const type *, fka_a, size_t, fka_na, const type *, fka_b, size_t, fka_nb, type *,   \
		 fka_out, size_t, fka_grain __VA_OPT__(, __VA_ARGS__, fka_context)),                 \
		size_t fka_k;                                                                        \
		size_t fka_share;)                                                                   \
	{                                                                                            \
		if (fka_na + fka_nb <= FK_MERGE_GRAINS * fka_grain) {                                \
			NAME##__merged(fka_a, fka_na, fka_b, fka_nb,                                 \
				       fka_out __VA_OPT__(, fka_context));                           \
			FK_LEAF();                                                                   \
		}                                                                                    \
	}                                                                                            \
	FK_BODY(NAME##__merge)                                                                       \
	{                                                                                            \
		self->fka_k = (self->fka_na + self->fka_nb) / 2;                                     \
		self->fka_share =                                                                    \
			NAME##__share(self->fka_a, self->fka_na, self->fka_b, self->fka_nb,          \
				      self->fka_k __VA_OPT__(, self->fka_context));                  \
		FK_INVOKE((void, NAME##__merge, self->fka_a, self->fka_share, self->fka_b,           \
			   self->fka_k - self->fka_share, self->fka_out,                             \
			   self->fka_grain __VA_OPT__(, self->fka_context)),                         \
			  (void, NAME##__merge, self->fka_a + self->fka_share,                       \
			   self->fka_na - self->fka_share,                                           \
			   self->fka_b + (self->fka_k - self->fka_share),                            \
			   self->fka_nb - (self->fka_k - self->fka_share),                           \
			   self->fka_out + self->fka_k,                                              \
			   self->fka_grain __VA_OPT__(, self->fka_context)));                        \
		FK_RETURN();                                                                         \
	}                                                                                            \
	FK_END(NAME##__merge)                                                                        \
	FK_TASK(fk_void, NAME##__sort,                                                               \
		(type *, fka_a, type *, fka_tmp, size_t, fka_n, size_t, fka_grain, size_t,           \
		 fka_away __VA_OPT__(, __VA_ARGS__, fka_context)), )                                 \
	{                                                                                            \
		if (fka_n <= fka_grain) {                                                            \
			NAME##__part(fka_a, fka_tmp, fka_n, fka_away __VA_OPT__(, fka_context));     \
			FK_LEAF();                                                                   \
		}                                                                                    \
	}                                                                                            \
	FK_BODY(NAME##__sort)                                                                        \
	{                                                                                            \
		FK_INVOKE((void, NAME##__sort, self->fka_a, self->fka_tmp, self->fka_n / 2,          \
			   self->fka_grain, !self->fka_away __VA_OPT__(, self->fka_context)),        \
			  (void, NAME##__sort, self->fka_a + self->fka_n / 2,                        \
			   self->fka_tmp + self->fka_n / 2, self->fka_n - self->fka_n / 2,           \
			   self->fka_grain, !self->fka_away __VA_OPT__(, self->fka_context)));       \
		FK_CALL_VOID(NAME##__merge, self->fka_away ? self->fka_a : self->fka_tmp,            \
			     self->fka_n / 2,                                                        \
			     (self->fka_away ? self->fka_a : self->fka_tmp) + self->fka_n / 2,       \
			     self->fka_n - self->fka_n / 2,                                          \
			     self->fka_away ? self->fka_tmp : self->fka_a,                           \
			     self->fka_grain __VA_OPT__(, self->fka_context));                       \
		FK_RETURN();                                                                         \
	}                                                                                            \
	FK_END(NAME##__sort)                                                                         \
	/* Holds a buffer of our own, and gives it back whatever happens. */                         \
	FK_DECLARE(fk_void, NAME##__owner,                                                           \
		   (type *, fka_data, type *, fka_tmp, size_t, fka_n, size_t,                        \
		    fka_grain __VA_OPT__(, __VA_ARGS__, fka_context)), )                             \
	FK_UNWIND(NAME##__owner)                                                                     \
	{                                                                                            \
		fk_algorithm_free(self->fka_tmp);                                                    \
	}                                                                                            \
	FK_DEFINE_UNWIND(fk_void, NAME##__owner,                                                     \
			 (type *, fka_data, type *, fka_tmp, size_t, fka_n, size_t,                  \
			  fka_grain __VA_OPT__(, __VA_ARGS__, fka_context)))                         \
	FK_NO_LEAF(NAME##__owner)                                                                    \
	{                                                                                            \
		if (!self->fka_tmp)                                                                  \
			FK_FAIL(-ENOMEM);                                                            \
		FK_CALL_VOID(NAME##__sort, self->fka_data, self->fka_tmp, self->fka_n,               \
			     self->fka_grain, false __VA_OPT__(, self->fka_context));                \
		fk_algorithm_free(self->fka_tmp);                                                    \
		FK_RETURN();                                                                         \
	}                                                                                            \
	FK_END(NAME##__owner)                                                                        \
	FK_TASK(fk_void, NAME,                                                                       \
		(type *, fka_data, type *, fka_buffer, size_t, fka_n, size_t,                        \
		 fka_grain __VA_OPT__(, __VA_ARGS__, fka_context)), )                                \
	{                                                                                            \
		if (fka_n <= FK_SORT_RUN) {                                                          \
			NAME##__insert(fka_data, fka_n __VA_OPT__(, fka_context));                   \
			FK_LEAF();                                                                   \
		}                                                                                    \
	}                                                                                            \
	FK_BODY(NAME)                                                                                \
	{                                                                                            \
		if (self->fka_buffer)                                                                \
			FK_CALL_VOID(NAME##__sort, self->fka_data, self->fka_buffer, self->fka_n,    \
				     self->fka_grain ? self->fka_grain : FK_LEAF_SORTED,             \
				     false __VA_OPT__(, self->fka_context));                         \
		else                                                                                 \
			FK_CALL_VOID(NAME##__owner, self->fka_data,                                  \
				     fk_algorithm_alloc(self->fka_n, sizeof(type)), self->fka_n,     \
				     self->fka_grain                                                 \
					     ? self->fka_grain                                       \
					     : FK_LEAF_SORTED __VA_OPT__(, self->fka_context));      \
		FK_RETURN();                                                                         \
	}                                                                                            \
	FK_END(NAME)

/* ---------------------------------------------------------------- invoke */

/*
 * In a task's body: runs up to eight tasks side by side and waits for them, and for whatever else
 * was forked. Each stands in parentheses with the member that takes its result, or `void`:
 *
 *	FK_INVOKE((low, min_of, self->data, self->n), (void, clear, self->table));
 *
 * All but the last are forked, the last is called.
 */
#define FK_INVOKE(...)                                                                             \
	do {                                                                                       \
		FK_INVOKE_N(__VA_ARGS__)(__VA_ARGS__) FK_JOIN();                                   \
	} while (0)

/* ---------------------------------------------------------------- ready-made functions */

/* The usual combinations; sums of integers are modulo 2^64. */
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

#define FK_COMBINE_CHECK(NAME, acc, combine)                                                       \
	_Static_assert(FK_IS(combine, acc, acc, acc),                                              \
		       #NAME ": it must be " #acc " " #combine "(" #acc ", " #acc ")");

#define FK_FOLD_CHECK(NAME, type, acc, step, combine, ...)                                         \
	_Static_assert(FK_IS(step, acc, acc, const type *__VA_OPT__(, ) __VA_ARGS__),              \
		       #NAME ": it must be " #acc " " #step "(" #acc ", const " #type              \
			     " *" __VA_OPT__(", " #__VA_ARGS__) ")");                              \
	FK_COMBINE_CHECK(NAME, acc, combine)

/* What a call returned that returns a code or nothing. */
#define FK_CODE(call)                                                                              \
	__builtin_choose_expr(__builtin_types_compatible_p(__typeof__(call), void),                \
			      ((void)(call), 0), (call))

/* A decision, 0 or 1, that the compiler can neither make a second time, by another look at memory
 * that may have changed meanwhile, nor turn into a branch. */
#define FK_DECIDED(call)                                                                           \
	({                                                                                         \
		size_t fka_decided = (call) ? 1 : 0;                                               \
		__asm__ volatile("" : "+r"(fka_decided));                                          \
		fka_decided;                                                                       \
	})

/* One of two pointers of a type, without a branch. */
#define FK_CHOSEN(first, a, b)                                                                     \
	((__typeof__(b))((uintptr_t)(b) ^                                                          \
			 (((uintptr_t)(a) ^ (uintptr_t)(b)) & -(uintptr_t)(first))))

#define FK_LESSER(a, b) ((a) < (b) ? (a) : (b))

/* The middle of [from, to) of type size_t, and of one of type int64_t however long it is. */
#define FK_HALF(from, to)   ((from) + ((to) - (from)) / 2)
#define FK_MIDDLE(from, to) ((int64_t)((uint64_t)(from) + ((uint64_t)(to) - (uint64_t)(from)) / 2))

#define FK_GRAIN_OF(grain, type)                                                                   \
	((grain) ? (grain)                                                                         \
		 : (size_t)(sizeof(type) < FK_LEAF_BYTES ? FK_LEAF_BYTES / sizeof(type) : 1))
#define FK_RANGE_IS_LEAF(from, to, grain)                                                          \
	((to) <= (from) ||                                                                         \
	 (uint64_t)(to) - (uint64_t)(from) <= ((grain) ? (grain) : FK_LEAF_INDICES))

/* The blocks of a scan, and the elements of one. */
#define FK_BLOCKS(n, grain) (((n)-1) / (grain) + 1)
#define FK_BLOCK_SIZE(plan, block)                                                                 \
	((block) + 1 < (plan)->blocks ? (plan)->grain : (plan)->n - (block) * (plan)->grain)

#define FK_SORT_RUN	8u /* elements that are sorted by insertion */
#define FK_MERGE_GRAINS 4u /* a leaf of a merge takes so many times the grain */

#define FK_INVOKE_PICK(_1, _2, _3, _4, _5, _6, _7, _8, N, ...) FK_INVOKE_##N
#define FK_INVOKE_N(...)				       FK_INVOKE_PICK(__VA_ARGS__, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define FK_INVOKE_1(a)					       FK_INVOKE_LAST a
#define FK_INVOKE_2(a, ...)				       FK_INVOKE_FORK a FK_INVOKE_1(__VA_ARGS__)
#define FK_INVOKE_3(a, ...)				       FK_INVOKE_FORK a FK_INVOKE_2(__VA_ARGS__)
#define FK_INVOKE_4(a, ...)				       FK_INVOKE_FORK a FK_INVOKE_3(__VA_ARGS__)
#define FK_INVOKE_5(a, ...)				       FK_INVOKE_FORK a FK_INVOKE_4(__VA_ARGS__)
#define FK_INVOKE_6(a, ...)				       FK_INVOKE_FORK a FK_INVOKE_5(__VA_ARGS__)
#define FK_INVOKE_7(a, ...)				       FK_INVOKE_FORK a FK_INVOKE_6(__VA_ARGS__)
#define FK_INVOKE_8(a, ...)				       FK_INVOKE_FORK a FK_INVOKE_7(__VA_ARGS__)

/* `void` in the place of the member chooses the other macro. */
#define FK_INVOKE_IS_void	    ~, _VOID
#define FK_INVOKE_SECOND(a, b, ...) b
#define FK_INVOKE_KIND(...)	    FK_INVOKE_SECOND(__VA_ARGS__, _VALUE, ~)
#define FK_INVOKE_PASTE(a, b)	    FK_INVOKE_PASTE_(a, b)
#define FK_INVOKE_PASTE_(a, b)	    a##b
#define FK_INVOKE_FORK(member, ...)                                                                \
	FK_INVOKE_PASTE(FK_INVOKE_FORK, FK_INVOKE_KIND(FK_INVOKE_IS_##member))(member, __VA_ARGS__);
#define FK_INVOKE_LAST(member, ...)                                                                \
	FK_INVOKE_PASTE(FK_INVOKE_CALL, FK_INVOKE_KIND(FK_INVOKE_IS_##member))(member, __VA_ARGS__);
#define FK_INVOKE_FORK_VALUE(member, ...) FK_FORK(member, __VA_ARGS__)
#define FK_INVOKE_FORK_VOID(member, ...)  FK_FORK_VOID(__VA_ARGS__)
#define FK_INVOKE_CALL_VALUE(member, ...) FK_CALL(member, __VA_ARGS__)
#define FK_INVOKE_CALL_VOID(member, ...)  FK_CALL_VOID(__VA_ARGS__)

#endif
