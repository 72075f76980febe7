/* SPDX-License-Identifier: MIT */
/* frame_bridge.h - fibers run frames */
#ifndef DAEMON_FIBER_FRAME_BRIDGE_H
#define DAEMON_FIBER_FRAME_BRIDGE_H

struct fiber;
struct fk_frame;
struct worker;

/* In the loop: the fiber calls a task. Returns what to run next. */
struct fk_frame *fiber_call(struct worker *worker, struct fiber *fiber);

#endif
