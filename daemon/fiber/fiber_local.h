/* SPDX-License-Identifier: MIT */
/* fiber_local.h - data of a fiber's own */
#ifndef DAEMON_FIBER_FIBER_LOCAL_H
#define DAEMON_FIBER_FIBER_LOCAL_H

struct fiber;

/* In the fiber, which ends: what it has of its own goes. */
void fiber_locals_end(struct fiber *fiber);

#endif
