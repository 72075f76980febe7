/* SPDX-License-Identifier: MIT */
/*
 * forkd/algorithm/sort.h - merge sort
 *
 * For authors of tasks, by <forkd/algorithm.h>, which has the essay.
 */
#ifndef FORKD_ALGORITHM_SORT_H
#define FORKD_ALGORITHM_SORT_H

#include <errno.h>
#include <string.h>

#include <forkd/algorithm/base.h>
#include <forkd/algorithm/invoke.h>

/* The automatic grain of sorts. A module may define it before it includes the header. */
#ifndef FK_LEAF_SORTED
#define FK_LEAF_SORTED 512u /* elements in a leaf */
#endif

/*
 * Merge sort between the two arrays, in alternating directions by level, so that nothing is copied
 * back. A merge is divided as well, in the middle of its output, by a binary search for the
 * elements there. (Deo and Sarkar, Parallel algorithms for merging and sorting, 1991.) A sample
 * sort would move each element fewer times. But its buckets depend on the data: it is not stable,
 * it degenerates on equal keys, and on a buffer that changes it writes out of bounds.
 */

/*
 * Defines a task that sorts an array, by a stable sort. The task is
 * fk_void NAME(type *data, type *buffer, size_t n, size_t grain[, context]) for n elements.
 * less: bool or int less(const type *a, const type *b[, context]), true if a must precede b; a
 * strict weak order.
 * context: type of a last argument of the task, which less gets as well; or none.
 * buffer is room for n further elements, which are overwritten. If it is NULL, the task allocates
 * the buffer, and the job fails with -ENOMEM if there is no memory. grain is the number of elements
 * that a leaf sorts, or 0 (FK_LEAF_SORTED).
 */
#define FK_SORT(NAME, type, less, ...)                                                               \
	_Static_assert(FK_IS(less, bool, const type *, const type *__VA_OPT__(, ) __VA_ARGS__) ||    \
			       FK_IS(less, int, const type *,                                        \
				     const type *__VA_OPT__(, ) __VA_ARGS__),                        \
		       #less " must be bool or int " #less "(const " #type " *, const " #type        \
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
	/* fka_own: the buffer, if it is its own. */                                                 \
	FK_DECLARE(fk_void, NAME,                                                                    \
		   (type *, fka_data, type *, fka_buffer, size_t, fka_n, size_t,                     \
		    fka_grain __VA_OPT__(, __VA_ARGS__, fka_context)),                               \
		   type *fka_own;)                                                                   \
	FK_UNWIND(NAME)                                                                              \
	{                                                                                            \
		fk_algorithm_free(self->fka_own);                                                    \
	}                                                                                            \
	FK_DEFINE_UNWIND(fk_void, NAME,                                                              \
			 (type *, fka_data, type *, fka_buffer, size_t, fka_n, size_t,               \
			  fka_grain __VA_OPT__(, __VA_ARGS__, fka_context)))                         \
	{                                                                                            \
		if (fka_n <= FK_SORT_RUN) {                                                          \
			NAME##__insert(fka_data, fka_n __VA_OPT__(, fka_context));                   \
			FK_LEAF();                                                                   \
		}                                                                                    \
	}                                                                                            \
	FK_BODY(NAME)                                                                                \
	{                                                                                            \
		self->fka_own = NULL;                                                                \
		if (!self->fka_buffer) {                                                             \
			self->fka_own = fk_algorithm_alloc(self->fka_n, sizeof(type));               \
			if (!self->fka_own)                                                          \
				FK_FAIL(-ENOMEM);                                                    \
		}                                                                                    \
		FK_CALL_VOID(NAME##__sort, self->fka_data,                                           \
			     self->fka_own ? self->fka_own : self->fka_buffer, self->fka_n,          \
			     self->fka_grain ? self->fka_grain : FK_LEAF_SORTED,                     \
			     false __VA_OPT__(, self->fka_context));                                 \
		fk_algorithm_free(self->fka_own);                                                    \
		FK_RETURN();                                                                         \
	}                                                                                            \
	FK_END(NAME)

/* ---------------------------------------------------------------- not for authors */

#define FK_SORT_RUN	8u /* elements that are sorted by insertion */
#define FK_MERGE_GRAINS 4u /* grains in a leaf of a merge */

/* A decision, 0 or 1. The compiler can neither repeat it, by reading memory again that may have
 * changed, nor turn it into a branch. */
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

#endif
