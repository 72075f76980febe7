/* SPDX-License-Identifier: MIT */
/* self.h - the calling fiber, and what its job holds */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/fiber/fiber_types.h"

/* The calling fiber; NULL if the caller is none. */
struct fiber *fiber_self(void);

bool fiber_is_over(const struct fiber *fiber);

/* In the fiber: leaves its stack, and returns when it is resumed. False: no memory for a copy of
 * the stack; nothing was done. */
bool fiber_leave(struct fiber *fiber, enum fiber_after after);

/* In the fiber, which has begun a park: leaves its stack until it is woken. False: it could not,
 * and was not woken; it is OUT. */
bool fiber_rest(struct fiber *fiber);

/* True if any of these bytes is on a shared stack, where they stay only while the fiber runs. */
static inline bool fiber_on_shared_stack(const struct fiber *f, const void *ptr, size_t len)
{
	uintptr_t at, low;

	if (!f->shared)
		return false;
	at = (uintptr_t)ptr;
	low = (uintptr_t)f->head.stack->low;
	return at - low < f->head.stack->size || low - at < len;
}

/* The job of the worker holds this number of bytes more. False: it may not. */
bool fiber_reserve(struct worker *worker, uint64_t bytes);
void fiber_release(struct worker *worker, uint32_t job, uint64_t bytes);
