/* SPDX-License-Identifier: MIT */
/*
 * forkd/algorithm/scan.h - prefix sums
 *
 * For authors of tasks, by <forkd/algorithm.h>, which has the essay.
 */
#ifndef FORKD_ALGORITHM_SCAN_H
#define FORKD_ALGORITHM_SCAN_H

#include <errno.h>

#include <forkd/algorithm/base.h>
#include <forkd/algorithm/invoke.h>

/*
 * Defines a task that computes prefix sums. The task is
 * acc NAME(const type *in, acc *out, size_t n, size_t grain[, context]). It sets out[i] to the fold
 * of in[0], ..., in[i], with FK_SCAN_EXCLUSIVE() to that of in[0], ..., in[i - 1], and out[0] to
 * identity. Its result is the fold of all elements.
 * acc, identity, step, combine, context: as in FK_FOLD().
 * grain is the largest number of elements of a leaf, or 0 (FK_LEAF_BYTES). The arrays must not
 * overlap, or they are the same, and type and acc have the same size. The task needs sizeof(acc)
 * bytes of temporary memory for each grain elements. If there is none, the job fails with -ENOMEM.
 */
#define FK_SCAN(NAME, type, acc, identity, step, combine, ...)                                     \
	FK_SCAN_(NAME, type, acc, identity, step, combine, false __VA_OPT__(, ) __VA_ARGS__)
#define FK_SCAN_EXCLUSIVE(NAME, type, acc, identity, step, combine, ...)                           \
	FK_SCAN_(NAME, type, acc, identity, step, combine, true __VA_OPT__(, ) __VA_ARGS__)

/*
 * The work-efficient scan of Blelloch (Prefix sums and their applications, 1990), on blocks of
 * grain elements: on the way up, each inner node of the tree keeps the sum of its left half; on the
 * way down, it passes on the sum of all elements before it, to the right half with that sum added.
 * An inner node lies between two blocks, and no two between the same: the first block of the right
 * half is the node's index in sums.
 */
#define FK_SCAN_(NAME, type, acc, identity, step, combine, exclusive, ...)                         \
	FK_FOLD_CHECK(type, acc, step, combine __VA_OPT__(, ) __VA_ARGS__)                         \
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
			/* In place, with another type: the element has been read by now. */       \
			if (exclusive)                                                             \
				__asm__ volatile("" : : : "memory");                               \
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
	FK_DECLARE(acc, NAME,                                                                      \
		   (const type *, fka_in, acc *, fka_out, size_t, fka_n, size_t,                   \
		    fka_grain __VA_OPT__(, __VA_ARGS__, fka_context)),                             \
		   acc fka_sum;                                                                    \
		   struct NAME##__plan fka_plan;)                                                  \
	FK_UNWIND(NAME)                                                                            \
	{                                                                                          \
		fk_algorithm_free(self->fka_plan.sums);                                            \
	}                                                                                          \
	FK_DEFINE_UNWIND(acc, NAME,                                                                \
			 (const type *, fka_in, acc *, fka_out, size_t, fka_n, size_t,             \
			  fka_grain __VA_OPT__(, __VA_ARGS__, fka_context)))                       \
	{                                                                                          \
		if (fka_n <= FK_GRAIN_OF(fka_grain, FK_LARGER(type, acc)))                         \
			FK_LEAF_VALUE(NAME##__part(identity, fka_in, fka_out,                      \
						   fka_n __VA_OPT__(, fka_context)));              \
	}                                                                                          \
	FK_BODY(NAME)                                                                              \
	{                                                                                          \
		self->fka_grain = FK_GRAIN_OF(self->fka_grain, FK_LARGER(type, acc));              \
		self->fka_plan =                                                                   \
			(struct NAME##__plan){ .in = self->fka_in,                                 \
					       .out = self->fka_out,                               \
					       .n = self->fka_n,                                   \
					       .grain = self->fka_grain,                           \
					       .blocks = FK_BLOCKS(self->fka_n, self->fka_grain),  \
					       __VA_OPT__(.context = self->fka_context, ) };       \
		self->fka_plan.sums = fk_algorithm_alloc(self->fka_plan.blocks, sizeof(acc));      \
		if (!self->fka_plan.sums)                                                          \
			FK_FAIL(-ENOMEM);                                                          \
		FK_CALL(fka_sum, NAME##__up, &self->fka_plan, 0, self->fka_plan.blocks);           \
		FK_CALL_VOID(NAME##__down, &self->fka_plan, 0, self->fka_plan.blocks, identity);   \
		fk_algorithm_free(self->fka_plan.sums);                                            \
		FK_RETURN_VALUE(self->fka_sum);                                                    \
	}                                                                                          \
	FK_END(NAME)

/* ---------------------------------------------------------------- not for authors */

/* The blocks of a scan, and the elements of one. */
#define FK_BLOCKS(n, grain) (((n)-1) / (grain) + 1)
#define FK_BLOCK_SIZE(plan, block)                                                                 \
	((block) + 1 < (plan)->blocks ? (plan)->grain : (plan)->n - (block) * (plan)->grain)

#endif
