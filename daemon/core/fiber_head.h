/* SPDX-License-Identifier: MIT */
/* fiber_head.h - the first part of a fiber, which crash reports read */
#pragma once

#include <forkd/frame.h>

struct blocking_thread;
struct fiber_stack;
struct worker;

struct fiber_head {
	struct fk_frame frame;
	struct worker *worker;		  /* that it runs on, or ran on last */
	struct blocking_thread *blocking; /* that runs its section, or NULL */
	const char *name;
	struct fiber_stack *stack; /* NULL: it will use a shared stack and has not begun */
};
