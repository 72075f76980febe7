/* SPDX-License-Identifier: MIT */
/*
 * modules/sort.c - parallel merge sort of a buffer of int64_t, in place
 *
 * WHAT IT IS
 *   Sorts between the buffer and a second one of the same size, the direction alternating by level;
 *   merges are divided as well, in the middle of what they write, so that the depth of the whole is
 *   logarithmic and its shape depends on the size alone.
 *
 * INVARIANTS
 *   I1. The buffer is the client's own memory, and may change at any moment. Every index and every
 *       end of a loop comes from sizes, never from contents; a number on which an index depends is
 *       loaded once (look()). A buffer that changes comes out as garbage, and that is all.
 *   I2. The second buffer is the root's: taken before the first fork, given back after the last
 *       join.
 *
 * WHAT HAPPENS IF THE JOB IS CANCELLED
 *   The root's call returns like any other, and the second buffer is given back.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <forkd/task.h>

#define SORT_CUTOFF  2048 /* numbers that a leaf sorts */
#define SORT_RUN     16	  /* numbers that are sorted by insertion */
#define MERGE_CUTOFF 8192 /* numbers that a leaf merges */

/* One load that the compiler may neither repeat nor tear. */
static inline int64_t look(const int64_t *number)
{
	return __atomic_load_n(number, __ATOMIC_RELAXED);
}

/* Merges two sorted arrays into out, which overlaps neither. Stable. */
static void merge_leaf(const int64_t *a, int64_t na, const int64_t *b, int64_t nb, int64_t *out)
{
	const int64_t *a_end = a + na;
	const int64_t *b_end = b + nb;

	while (a < a_end && b < b_end) {
		int64_t x = look(a);
		int64_t y = look(b);
		bool take_b = y < x;

		*out++ = take_b ? y : x;
		b += take_b;
		a += !take_b;
	}
	memcpy(out, a, (size_t)(a_end - a) * sizeof(*a));
	memcpy(out + (a_end - a), b, (size_t)(b_end - b) * sizeof(*b));
}

/*
 * How many of the first k numbers of the merged array come from a, 0 <= k <= na + nb; the others
 * come from b. The answer is between k - nb and k, and at most na, whatever the numbers are.
 */
static int64_t merge_split(const int64_t *a, int64_t na, const int64_t *b, int64_t nb, int64_t k)
{
	int64_t low = k > nb ? k - nb : 0;
	int64_t high = k < na ? k : na;

	while (low < high) {
		int64_t i = low + (high - low) / 2;

		if (look(a + i) <= look(b + (k - i - 1)))
			low = i + 1;
		else
			high = i;
	}
	return low;
}

/* Sorts n numbers in a, with tmp as large; the result is left in tmp if to_tmp, else in a. */
static void sort_leaf(int64_t *a, int64_t *tmp, int64_t n, bool to_tmp)
{
	int64_t *from = a;
	int64_t *to = tmp;

	for (int64_t run = 0; run < n; run += SORT_RUN) {
		int64_t end = n - run < SORT_RUN ? n : run + SORT_RUN;

		for (int64_t i = run + 1; i < end; i++) {
			int64_t x = a[i];
			int64_t j = i;

			for (; j > run && a[j - 1] > x; j--)
				a[j] = a[j - 1];
			a[j] = x;
		}
	}
	for (int64_t run = SORT_RUN; run < n; run *= 2) {
		int64_t *swap = from;

		for (int64_t i = 0; i < n; i += 2 * run) {
			int64_t na = n - i < run ? n - i : run;
			int64_t nb = n - i - na < run ? n - i - na : run;

			merge_leaf(from + i, na, from + i + na, nb, to + i);
		}
		from = to;
		to = swap;
	}
	if (from != (to_tmp ? tmp : a))
		memcpy(to, from, (size_t)n * sizeof(*from));
}

FK_TASK(fk_void, merge,
	(const int64_t *, a, int64_t, na, const int64_t *, b, int64_t, nb, int64_t *, out),
	int64_t k;
	int64_t from_a;)
{
	if (na + nb <= MERGE_CUTOFF) {
		merge_leaf(a, na, b, nb, out);
		FK_LEAF();
	}
}
FK_BODY(merge)
{
	self->k = (self->na + self->nb) / 2;
	self->from_a = merge_split(self->a, self->na, self->b, self->nb, self->k);
	FK_FORK_VOID(merge, self->a, self->from_a, self->b, self->k - self->from_a, self->out);
	FK_CALL_VOID(merge, self->a + self->from_a, self->na - self->from_a,
		     self->b + (self->k - self->from_a), self->nb - (self->k - self->from_a),
		     self->out + self->k);
	FK_JOIN();
	FK_RETURN();
}
FK_END(merge)

FK_TASK(fk_void, sort, (int64_t *, a, int64_t *, tmp, int64_t, n, int64_t, to_tmp), )
{
	if (n <= SORT_CUTOFF) {
		sort_leaf(a, tmp, n, to_tmp);
		FK_LEAF();
	}
}
FK_BODY(sort)
{
	const int64_t *from;
	int64_t half;

	FK_FORK_VOID(sort, self->a, self->tmp, self->n / 2, !self->to_tmp);
	FK_CALL_VOID(sort, self->a + self->n / 2, self->tmp + self->n / 2, self->n - self->n / 2,
		     !self->to_tmp);
	FK_JOIN();
	from = self->to_tmp ? self->a : self->tmp;
	half = self->n / 2;
	FK_CALL_VOID(merge, from, half, from + half, self->n - half,
		     self->to_tmp ? self->tmp : self->a);
	FK_RETURN();
}
FK_END(sort)

FK_TASK(fk_void, i64, (struct fk_buf, data), int64_t *tmp;)
{
	/* Whole numbers, at an address where numbers may be. */
	if (data.size % sizeof(int64_t) || (uintptr_t)data.data % _Alignof(int64_t))
		FK_LEAF_FAIL(-EINVAL);
	if (!data.size)
		FK_LEAF();
}
FK_BODY(i64)
{
	self->tmp = malloc(self->data.size);
	if (!self->tmp)
		FK_FAIL(-ENOMEM);
	FK_CALL_VOID(sort, self->data.data, self->tmp, (int64_t)(self->data.size / sizeof(int64_t)),
		     false);
	free(self->tmp);
	FK_RETURN();
}
FK_END(i64)

FK_EXPORT(i64, "data:iobuf -> ", FK_EXPORT_CHANGING_BUFFERS,
	  "Sorts a buffer of 64-bit integers in place")
FK_MODULE(sort, "Parallel merge sort")
