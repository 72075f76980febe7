/* SPDX-License-Identifier: MIT */
/*
 * abort_word.h - the words by which a job is ended: its verdict, and the mark of a cancel
 *
 * A verdict is { code:32, generation:24, outcome:8 } (daemon/core/job_abort.h). A mark is the
 * generation of a row that is to end, 0 for none. A thread that cancels a job stores the mark and
 * looks then whether the job runs; a worker that starts it begins the verdict and looks then for
 * the mark. So one of them sees the other.
 *
 * Compiles with C11 alone: tests/model/abort_word.c runs this file.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "shm/job.h"

static inline uint64_t abort_pack(int32_t code, uint32_t generation, uint32_t outcome)
{
	return (uint64_t)(uint32_t)code << 32 | (uint64_t)(generation & JOB_GEN_MASK) << 8 |
	       (outcome & 0xffu);
}

static inline uint32_t abort_generation(uint64_t word)
{
	return (uint32_t)(word >> 8) & JOB_GEN_MASK;
}

static inline uint32_t abort_outcome(uint64_t word)
{
	return (uint32_t)word & 0xffu;
}

/* The job starts. */
static inline void abort_word_begin(_Atomic uint64_t *verdict, uint32_t generation)
{
	/* ORDER verdict/cancel [V1]: seq_cst, before the look at the mark of a queued job's cancel.
	 * Pairs with abort_word_look(), whose caller has stored that mark: one sees the other. */
	atomic_store_explicit(verdict, abort_pack(0, generation, 0), memory_order_seq_cst);
}

static inline uint64_t abort_word_look(const _Atomic uint64_t *verdict)
{
	/* ORDER verdict/cancel [V1]: seq_cst, pairs with abort_word_begin(). */
	return atomic_load_explicit(verdict, memory_order_seq_cst);
}

/* Puts an outcome into a verdict that has none. False: it has one, or is another job's. */
static inline bool abort_word_put(_Atomic uint64_t *verdict, uint64_t word, int32_t code,
				  uint32_t outcome)
{
	/* Relaxed: nothing but the word itself is handed over. */
	return !abort_outcome(word) &&
	       atomic_compare_exchange_strong_explicit(
		       verdict, &word, abort_pack(code, abort_generation(word), outcome),
		       memory_order_relaxed, memory_order_relaxed);
}

/* The job of this generation is to end. */
static inline void cancel_mark(_Atomic uint32_t *mark, uint32_t generation)
{
	/* ORDER verdict/cancel [V1]: seq_cst, before the look at the verdict. Pairs with
	 * cancel_is_marked().
	 * ORDER cancel/accept [V2]: seq_cst, before the look at the row. Pairs with the same. */
	atomic_store_explicit(mark, generation, memory_order_seq_cst);
}

static inline bool cancel_is_marked(const _Atomic uint32_t *mark, uint32_t generation)
{
	/* ORDER verdict/cancel [V1]: seq_cst, after abort_word_begin(). Pairs with cancel_mark().
	 * ORDER cancel/accept [V2]: seq_cst, after the row was made QUEUED. Pairs with the same. */
	return atomic_load_explicit(mark, memory_order_seq_cst) == generation;
}
