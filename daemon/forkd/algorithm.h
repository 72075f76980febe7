/* SPDX-License-Identifier: MIT */
/*
 * forkd/algorithm.h - loops, folds, scans, sorts as tasks
 *
 * Macros at file scope, as FK_TASK(), that define an ordinary task for a type and plain C
 * functions:
 *
 * 	FK_FOR_EACH(NAME, type, function)	  void NAME(type *data, n, grain)
 * 	FK_FOR_RANGE(NAME, function)		  void NAME(int64_t from, int64_t to, grain)
 * 	FK_MAP(NAME, from, to, function)	  void NAME(const from *in, to *out, n, grain)
 * 	FK_FOLD(NAME, type, acc, identity, step, combine)
 * 						  acc NAME(const type *data, n, grain)
 * 	FK_FOLD_RANGE(NAME, acc, identity, step, combine)
 * 						  acc NAME(int64_t from, int64_t to, grain)
 * 	FK_SCAN(NAME, type, acc, identity, step, combine)
 * 	FK_SCAN_EXCLUSIVE(the same)		  acc NAME(const type *in, acc *out, n, grain)
 * 	FK_SORT(NAME, type, less)		  void NAME(type *data, type *buffer, n, grain)
 *
 * The task is forked and called like any other, with n and grain of type size_t:
 *
 * 	static double square(double sum, const double *x)
 * 	{
 * 		return sum + *x * *x;
 * 	}
 * 	FK_FOLD(squares, double, double, 0.0, square, fk_add_f64)
 * 	...
 * 		FK_CALL(norm, squares, self->data, self->n, 0);
 *
 * The functions are compiled into the loop of a leaf. So they must not fork, and may use local
 * variables freely. Elements are passed by pointer, accumulated values by value. A pointer is to
 * the array itself. If a client can change the buffer (FK_EXPORT_IN_PLACE), a function must copy an
 * element before it uses it twice.
 *
 * FK_EXPORT_FOR_EACH, FK_EXPORT_MAP, FK_EXPORT_FOLD, FK_EXPORT_SCAN and FK_EXPORT_SORT also export
 * the task, over a client's buffer: forkd/algorithm/export.h.
 *
 * FK_INVOKE is a statement of a task's body: it runs several different tasks side by side.
 *
 * CONTEXT
 *   Each of these macros may have one more argument, the type of a context. The task then takes a
 *   value of this type as its last argument. It passes the value to each function of an element
 *   (not to combine), as the last argument: FK_FOR_EACH(scale, double, multiply, double) makes
 *   scale(double *data, n, grain, double context) of void multiply(double *x, double context).
 *
 * GRAIN
 *   The maximum number of elements of a leaf: longer ranges are halved. 0 is the automatic grain:
 *   FK_LEAF_BYTES of elements (of the larger type, if input and output differ), or FK_LEAF_INDICES.
 *   It suits functions that cost a nanosecond or two, about as much as loading their elements. For
 *   others, FK_GRAIN(ns) is the grain for elements of ns nanoseconds each. The rule depends neither
 *   on the number of workers nor on a clock. A fork costs a few nanoseconds, which are negligible
 *   in a leaf of a microsecond. A much longer leaf only delays thieves, and jobs with a better
 *   claim, until the next fork.
 *
 * INVARIANTS
 *   I1. The tree of forks, and so the order in which results are combined, depends only on n and
 *       grain: halves, the smaller one to the left. So a fold or a scan of floating point numbers
 *       gives the same bits on any number of workers, with any steals. A plain loop may give
 *       others: combine must be associative, and floating point addition is so only up to rounding.
 *   I2. Indices and ends of loops come from n and grain, never from elements. If an element decides
 *       (less), the decision is made once and stays within bounds either way (FK_DECIDED). A sort
 *       of a buffer that changes, or by a less that is no order, only gives an undefined sequence.
 *   I3. A task allocates temporary memory in its body, before its first fork or call, and frees it
 *       once, whether the body ends or is unwound. No child frees it: a cancelled job drops a child
 *       that has not begun.
 *
 * FAILURE
 *   A function of FK_FOR_EACH or FK_FOR_RANGE may return int instead of void: a code that is not 0
 *   makes the job fail with it (as FK_FAIL does), and ends the leaf. Scans and sorts without a
 *   buffer fail with -ENOMEM.
 *
 * COST (elements of constant cost; work and span in steps)
 * 	for_each, map, fold	work O(n)	    span O(grain + log n)
 * 	scan			work O(2 n)	    span O(grain + log n)
 * 	sort			work O(n log n)	    span O(grain log grain + log^3 n)
 *
 *   Nanoseconds an element with one worker on 10^6 numbers of 64 bits, with gcc 12 -O3:
 *
 * 			plain loop	grain 0		grain 1
 * 	for_each	0.14		0.16		4.3
 * 	map		0.21		0.29		4.5
 * 	fold (double)	0.81		0.79		4.4
 * 	scan		0.36		0.50		20 to 30
 * 	sort		90 (qsort)	33
 *
 *   The tasks are not fine-grained ones (FK_FINE_TASK): a function may take any time, and the grain
 *   makes the cost of a fork negligible.
 */
#ifndef FORKD_ALGORITHM_H
#define FORKD_ALGORITHM_H

#include <forkd/algorithm/each.h>
#include <forkd/algorithm/export.h>
#include <forkd/algorithm/fold.h>
#include <forkd/algorithm/invoke.h>
#include <forkd/algorithm/scan.h>
#include <forkd/algorithm/sort.h>

#endif
