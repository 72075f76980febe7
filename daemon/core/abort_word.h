/* SPDX-License-Identifier: MIT */
/*
 * abort_word.h - the words that end a job: its verdict and its cancel mark
 *
 * A verdict is { code:32, generation:24, outcome:8 } (daemon/core/job_abort.h). A mark is the
 * generation of the row whose job is to end, or 0. A thread that cancels a job stores the mark and
 * then checks whether the job runs. A worker that starts the job begins the verdict and then checks
 * the mark. So at least one of the two sees the other.
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

static inline void abort_word_begin(_Atomic uint64_t *verdict, uint32_t generation)
{
	/* ORDER verdict/cancel [V1]: seq_cst, before the worker reads the cancel mark of a
	 * queued job. Pairs with abort_word_look(), whose caller has stored that mark: one sees
	 * the other. */
	atomic_store_explicit(verdict, abort_pack(0, generation, 0), memory_order_seq_cst);
}

static inline uint64_t abort_word_look(const _Atomic uint64_t *verdict)
{
	/* ORDER verdict/cancel [V1]: seq_cst, pairs with abort_word_begin(). */
	return atomic_load_explicit(verdict, memory_order_seq_cst);
}

/* Puts an outcome into a verdict that has none. False: it has one, or belongs to another job. */
static inline bool abort_word_put(_Atomic uint64_t *verdict, uint64_t word, int32_t code,
				  uint32_t outcome)
{
	/* Relaxed: the word publishes no other data. */
	return !abort_outcome(word) &&
	       atomic_compare_exchange_strong_explicit(
		       verdict, &word, abort_pack(code, abort_generation(word), outcome),
		       memory_order_relaxed, memory_order_relaxed);
}

/* Marks the job of this generation for cancellation. */
static inline void cancel_mark(_Atomic uint32_t *mark, uint32_t generation)
{
	/* ORDER verdict/cancel [V1]: seq_cst, before the caller reads the verdict. Pairs with
	 * cancel_is_marked().
	 * ORDER cancel/accept [V2]: seq_cst, before the caller reads the row. Pairs with the
	 * same. */
	atomic_store_explicit(mark, generation, memory_order_seq_cst);
}

static inline bool cancel_is_marked(const _Atomic uint32_t *mark, uint32_t generation)
{
	/* ORDER verdict/cancel [V1]: seq_cst, after abort_word_begin(). Pairs with cancel_mark().
	 * ORDER cancel/accept [V2]: seq_cst, after the row was made QUEUED. Pairs with the same. */
	return atomic_load_explicit(mark, memory_order_seq_cst) == generation;
}
