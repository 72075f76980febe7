/* SPDX-License-Identifier: MIT */
/*
 * algorithm.h - code shared by the tests of forkd/algorithm.h
 *
 * Sizes around the grain, every grain, one, two and eight workers, and every fork treated as
 * stolen. A test is a module named `algorithm`. Its jobs read their input from `ask`, and the test
 * compares the results with plain loops.
 */
#pragma once

#include <check.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <forkd/task.h>

#include "tests/support/modes.h"

#define MAX   20000u
#define GUARD 64u /* elements after the array, which must stay unchanged */

/* Input of the next job; the test writes it before it submits the job. */
static struct {
	size_t n;
	size_t grain;
	int64_t from;
	int64_t to;
	bool with_buffer;
	int64_t fails_at;
} ask __attribute__((unused));

static const size_t grains[] = { 0, 1, 7, 64 };

#define N_GRAINS (sizeof(grains) / sizeof(grains[0]))

/* Sizes around each grain, and some that are large for every grain except the automatic one. */
static const size_t sizes[]
	__attribute__((unused)) = { 0, 1, 2, 3, 6, 7, 8, 63, 64, 65, 129, 1000, 4999 };

#define N_SIZES (sizeof(sizes) / sizeof(sizes[0]))

#define for_each_size_and_grain()                                                                  \
	for (size_t s_ = 0; s_ < N_SIZES; s_++)                                                    \
		for (size_t g_ = 0; g_ < N_GRAINS; g_++)                                           \
			if (ask.n = sizes[s_], ask.grain = grains[g_], true)

/* libcheck's assertions write to a file, which is too slow for each element. */
#define must(condition)                                                                            \
	do {                                                                                       \
		if (!(condition))                                                                  \
			ck_abort_msg("%s: n %zu, grain %zu", #condition, ask.n, ask.grain);        \
	} while (0)

extern const struct fk_module fk_module;

static uint64_t random_state __attribute__((unused)) = 88172645463325252u;

static inline uint64_t random_next(void)
{
	return xorshift64(&random_state);
}

/* Every job takes one number, and most jobs ignore it. */
#define JOB_VOID(NAME, task, ...)                                                                  \
	FK_TASK(int64_t, NAME, (int64_t, unused), )                                                \
	FK_NO_LEAF(NAME)                                                                           \
	{                                                                                          \
		FK_CALL_VOID(task, __VA_ARGS__);                                                   \
		FK_RETURN(0);                                                                      \
	}                                                                                          \
	FK_END(NAME)                                                                               \
	FK_EXPORT(NAME, 0, "A test")

#define JOB(NAME, type, result, task, ...)                                                         \
	FK_TASK(int64_t, NAME, (int64_t, unused), type value;)                                     \
	FK_NO_LEAF(NAME)                                                                           \
	{                                                                                          \
		FK_CALL(value, task, __VA_ARGS__);                                                 \
		result = self->value;                                                              \
		FK_RETURN(0);                                                                      \
	}                                                                                          \
	FK_END(NAME)                                                                               \
	FK_EXPORT(NAME, 0, "A test")

#define run(NAME) rig_call(&rig, "algorithm:" #NAME, 0)

static inline void fails(const char *job, int code)
{
	int64_t unused = 0;

	rig_submit(&rig, 1, job, &unused, sizeof(unused));
	rig_fails(&rig, 1, code);
}

/* x -> a x + b modulo 2^64: composition of such functions is associative but not commutative. */
struct affine {
	uint64_t a;
	uint64_t b;
};

static inline struct affine compose(struct affine first, struct affine then)
{
	return (struct affine){ then.a * first.a, then.a * first.b + then.b };
}

static inline struct affine follow(struct affine f, const int64_t *x)
{
	return compose(f, (struct affine){ (uint64_t)*x | 1, (uint64_t)*x >> 7 });
}

static inline void fill_random(int64_t *numbers)
{
	for (size_t i = 0; i < MAX; i++)
		numbers[i] = (int64_t)random_next();
}
