/* SPDX-License-Identifier: MIT */
/* self.h - the calling fiber, and the memory that its job holds */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/fiber/fiber_types.h"

/* Returns the calling fiber; NULL if the caller is not a fiber. */
struct fiber *fiber_self(void);

bool fiber_is_over(const struct fiber *fiber);

/* In the fiber: leaves its stack, and returns when it is resumed. False: no memory for a copy of
 * the stack; the fiber has not left. */
bool fiber_leave(struct fiber *fiber, enum fiber_after after);

/* In the fiber, which has begun a park: leaves its stack until it is woken. False: it could not
 * leave, and was not woken; it is OUT. */
bool fiber_rest(struct fiber *fiber);

/* True if any of these bytes is on a shared stack, where they are only while the fiber runs. */
static inline bool fiber_on_shared_stack(const struct fiber *f, const void *ptr, size_t len)
{
	uintptr_t at, low;

	if (!f->shared)
		return false;
	at = (uintptr_t)ptr;
	low = (uintptr_t)f->head.stack->low;
	return at - low < f->head.stack->size || low - at < len;
}

/* Charges this number of bytes to the worker's job. False: that would exceed its limit. */
bool fiber_reserve(struct worker *worker, uint64_t bytes);
void fiber_release(struct worker *worker, uint32_t job, uint64_t bytes);
