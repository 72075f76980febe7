/* SPDX-License-Identifier: MIT */
/* fiber_tasks_errors.h - tasks that make forbidden calls and check the errors */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "tests/support/fiber_rig.h"

FK_FIBER_TASK(int64_t, errors, (int64_t, n))
{
	struct fk_counter fibers = FK_COUNTER, numbers = FK_COUNTER_OF(2), none = { .fk_kind = 0 };
	struct fk_counter other;
	static struct fk_local keys[FK_LOCALS + 2];
	uint32_t places = 0;

	FAILS(fk_counter_add(&fibers, 1), -EINVAL);
	FAILS(fk_fiber_spawn(nothing, NULL, &numbers), -EINVAL);
	FAILS(fk_fiber_spawn_sized(nothing, NULL, NULL, 1 << 30), -EINVAL);
	FAILS(fk_fiber_spawn_on(nothing, NULL, NULL, FK_STACK_SLAB, 1 << 30), -EINVAL);
	FAILS(fk_fiber_spawn_on(nothing, NULL, NULL, 77, FK_FIBER_STACK), -EINVAL);
	FAILS(fk_fiber_spawn(nothing, NULL, &none), -EINVAL);
	FAILS(fk_counter_wait(&none, 0), -EINVAL);
	/* Memory that no longer holds a counter is refused as well. */
	memset(&other, 0x5a, sizeof(other));
	FAILS(fk_counter_wait(&other, 0), -EINVAL);
	FAILS(fk_counter_add(&other, 1), -EINVAL);
	FAILS(fk_fiber_spawn(nothing, NULL, &other), -EINVAL);
	other = FK_COUNTER_OF(3);
	other.fk_kind = 7;
	FAILS(fk_counter_wait(&other, 3), -EINVAL);
	/* Waiting for it again is allowed. */
	FAILS(fk_counter_wait(&fibers, 0), 0);
	FAILS(fk_counter_wait(&fibers, 0), 0);
	FAILS(fk_counter_add(&numbers, -3), -ERANGE);
	FAILS(fk_counter_add(&numbers, FK_COUNTER_MAX - 1), -ERANGE);
	FAILS(fk_counter_add(&numbers, INT32_MIN), -ERANGE);
	FAILS(fk_counter_add(&numbers, FK_COUNTER_MAX - 2), 0);
	FAILS(fk_counter_add(&numbers, 2 - (int32_t)FK_COUNTER_MAX), 0);
	FAILS(fk_counter_wait(&numbers, 2), 0);
	FAILS(fk_counter_wait(&fibers, 0), 0);
	FAILS(fk_fiber_is_over(), false);
	FAILS(fk_fiber_yield(), 0);
	for (uint32_t i = 0; i < FK_LOCALS + 2; i++)
		places += fk_fiber_local(&keys[i]) != NULL;
	/* Another test of this process may have used some of the keys. */
	FAILS(places <= FK_LOCALS, true);
	FAILS(fk_fiber_local(&keys[FK_LOCALS + 1]) == NULL, true);
	return n;
}
FK_EXPORT(errors, 0, "The line of what is not as it should be, or 0")

FK_LEAF_TASK(int64_t, no_fiber, (int64_t, n))
{
	struct fk_counter fibers = FK_COUNTER;
	static struct fk_local key;
	int64_t x;

	return fk_fiber_spawn(nothing, NULL, NULL) != -EPERM ||
	       fk_counter_wait(&fibers, 0) != -EPERM || fk_fiber_yield() != -EPERM ||
	       fk_fiber_fail(-EDOM) != -EPERM || fk_fiber_is_over() ||
	       fk_fiber_local(&key) != NULL || FK_FIBER_CALL(&x, fib, n) != -EPERM;
}
FK_EXPORT(no_fiber, 0, "1 if a frame can do what only fibers can")
