/* SPDX-License-Identifier: MIT */
/* call_frame.h - fibers call tasks of frames */
#pragma once

struct fiber;
struct fk_frame;
struct worker;

/* In the loop: the fiber calls a task. Returns what to run next. */
struct fk_frame *fiber_call(struct worker *worker, struct fiber *fiber);
