/* SPDX-License-Identifier: MIT */
/* call_frame.h - fibers call tasks that have frames */
#pragma once

struct fiber;
struct fk_frame;
struct worker;

/* In the loop: calls the fiber's task. Returns the frame to run next. */
struct fk_frame *fiber_call(struct worker *worker, struct fiber *fiber);
