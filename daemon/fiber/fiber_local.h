/* SPDX-License-Identifier: MIT */
/* fiber_local.h - fiber-local data */
#ifndef DAEMON_FIBER_FIBER_LOCAL_H
#define DAEMON_FIBER_FIBER_LOCAL_H

struct fiber;

/* In the fiber, which ends: its local data goes. */
void fiber_locals_end(struct fiber *fiber);

#endif
