/* SPDX-License-Identifier: MIT */
/* self.h - what a fiber asks for itself, and what its job holds */
#ifndef DAEMON_FIBER_SELF_H
#define DAEMON_FIBER_SELF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/fiber/fiber_types.h"

/* The fiber that calls; NULL if the caller is none. */
struct fiber *fiber_self(void);

/* The fiber's job is over. */
bool fiber_is_over(const struct fiber *fiber);

/* In the fiber: leaves its stack, and comes back when it goes on. False: it could not leave, for
 * want of memory for what is there, and nothing was done. */
bool fiber_leave(struct fiber *fiber, enum fiber_after after);

/* In the fiber, which has begun a park: leaves its stack until it is woken. False: it could not,
 * and nobody has woken it; it is OUT. */
bool fiber_rest(struct fiber *fiber);

/* Is any of these bytes on a stack that the fiber shares? There they stay only while it runs. */
static inline bool fiber_on_shared_stack(const struct fiber *f, const void *ptr, size_t len)
{
	uintptr_t at, low;

	if (!f->shared)
		return false;
	at = (uintptr_t)ptr;
	low = (uintptr_t)f->head.stack->low;
	return at - low < f->head.stack->size || low - at < len;
}

/* The job of the worker holds so many bytes more. False: it may not. */
bool fiber_charge(struct worker *worker, uint64_t bytes);
void fiber_refund(struct worker *worker, uint32_t job, uint64_t bytes);

#endif
