/* SPDX-License-Identifier: MIT */
/* parked.h - lists of the fibers that wait */
#ifndef DAEMON_FIBER_PARKED_H
#define DAEMON_FIBER_PARKED_H

#include <stdbool.h>

struct fiber;

/* Puts the fiber into a list of its worker's shard, the told one or that of those to be told. */
void fiber_enlist(struct fiber *fiber, bool told);

/* The fiber waits, and fibers_cancel() finds it, from here on; and not any more. */
void fiber_wait_begin(struct fiber *fiber);
void fiber_wait_end(struct fiber *fiber);

#endif
