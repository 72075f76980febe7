/* SPDX-License-Identifier: MIT */
/* parked.h - lists of waiting fibers */
#pragma once

#include <stdbool.h>

struct fiber;

/* Puts the fiber into a list of its worker's shard: the cancelled or the parked ones. */
void fiber_enlist(struct fiber *fiber, bool cancelled);

/* From begin to end the fiber waits, and fibers_cancel() finds it. */
void fiber_wait_begin(struct fiber *fiber);
void fiber_wait_end(struct fiber *fiber);
