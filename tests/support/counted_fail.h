/* SPDX-License-Identifier: MIT */
/*
 * counted_fail.h - jobs that fail while they hold memory that tests/support/counted.h counts
 *
 * Used by tests of algorithms that allocate (tests/support/algorithm.h). Each call of the user's
 * function passes counted_fail_here(), on any worker.
 */
#pragma once

#include <errno.h>

#include "tests/support/algorithm.h"
#include "tests/support/counted.h"

#define COUNTED_FAIL_ROUNDS 200

static _Atomic int counted_fail_left; /* calls left until the job fails; negative: never */

/* Fails the job in the middle, as a cancel does. */
static inline void counted_fail_here(void)
{
	if (atomic_fetch_sub_explicit(&counted_fail_left, 1, memory_order_relaxed) == 0)
		fk_rt_fail(&worker_self()->engine.fk, -EDOM);
}

/* refill: prepares the input, once per pool; NULL: nothing to prepare. */
static inline void counted_fail_begin(void (*refill)(void))
{
	ask.n = 4999;
	ask.grain = 16;
	if (refill)
		refill();
}

/* Checks that the memory is freed wherever the task fails, and that works() succeeds afterwards. */
static inline void counted_fail_in_the_middle(const char *task, void (*refill)(void),
					      void (*works)(void))
{
	for_each_mode (m, &fk_module) {
		counted_fail_begin(refill);
		for (int i = 0; i < COUNTED_FAIL_ROUNDS; i++) {
			atomic_store(&counted_fail_left, 20 * i);
			fails(task, -EDOM);
			ck_assert_int_eq(counted_blocks, 0);
		}
		if (modes[m].forced)
			ck_assert_uint_gt(rig_counter(&rig, unwound), COUNTED_FAIL_ROUNDS / 2);
		works();
	}
}

/* Checks the same if the job fails while it allocates. */
static inline void counted_fail_as_it_is_taken(const char *task, void (*refill)(void))
{
	for_each_mode (m, &fk_module) {
		counted_fail_begin(refill);
		atomic_store(&counted_fail_left, -1);
		atomic_store(&counted_code, -EDOM);
		fails(task, -EDOM);
		ck_assert_int_eq(counted_blocks, 0);
		atomic_store(&counted_code, 0);
		rig_call(&rig, task, 0);
		ck_assert_int_eq(counted_blocks, 0);
	}
}
