/* SPDX-License-Identifier: MIT */
/* fiber_head.h - what a fiber begins with: the part that a crash report tells of */
#pragma once

#include <forkd/frame.h>

struct blocking_thread;
struct fiber_stack;
struct worker;

struct fiber_head {
	struct fk_frame frame;
	struct worker *worker;		  /* it runs on, or has run on last */
	struct blocking_thread *blocking; /* that runs its section, or NULL */
	const char *name;
	struct fiber_stack *stack; /* NULL: it is to share one, and has not begun */
};
