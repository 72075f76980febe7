/* SPDX-License-Identifier: MIT */
/* fiber_forkd.h - fibers of forkd for fiber_work.h */
#pragma once

#include <forkd/fiber.h>

#define FIBER_GROUP(name) struct fk_counter name = FK_COUNTER
#define FIBER_SPAWN(fn, arg, group)                                                                \
	do {                                                                                       \
		if (fk_fiber_spawn(fn, arg, &(group)) < 0)                                         \
			fn(arg);                                                                   \
	} while (0)
/* In a job that has ended this returns at once, for any value. */
#define FIBER_WAIT(group) (void)fk_counter_wait(&(group), 0)
