/* SPDX-License-Identifier: MIT */
/*
 * shipped.h - jobs of a shipped module
 *
 * If the test includes the module's source after tests/support/counted.h, its memory is counted,
 * too.
 */
#pragma once

#include <check.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "tests/support/modes.h"

static inline void run(const char *task, const void *args, uint32_t size)
{
	rig_submit(&rig, 0, task, args, size);
	ck_assert_uint_eq(rig_wait(&rig, 0), JOB_DONE);
}

static inline void result(void *ret_result, size_t size)
{
	memcpy(ret_result, rig.jobs[0].result, size);
}

static inline void refused(const char *task, const void *args, uint32_t size, int code)
{
	rig_submit(&rig, 0, task, args, size);
	rig_fails(&rig, 0, code);
}

#ifdef malloc /* tests/support/counted.h */

extern const struct fk_module fk_module;

static inline void nothing_is_left(void)
{
	ck_assert_int_eq(atomic_load(&counted_blocks), 0);
}

/* Checks that a job that fails while it allocates frees all memory. fill: fills the heap, or
 * NULL. */
static inline void gives_back_when_it_fails(const char *task, const void *args, uint32_t size,
					    void (*fill)(void))
{
	for (int forced = 0; forced < 2; forced++) {
		rig_start(&rig, 1, &fk_module, forced);
		if (fill)
			fill();
		atomic_store(&counted_code, -EDOM);
		refused(task, args, size, -EDOM);
		nothing_is_left();
		atomic_store(&counted_code, 0);
		run(task, args, size);
		nothing_is_left();
		rig_stop(&rig);
	}
}

#endif
