/* SPDX-License-Identifier: MIT */
/*
 * short_of_memory.h - a realloc() that fails when the test requests it
 *
 * Threads: one file of a test that is linked with --wrap=realloc (local.mk); it applies to all
 * threads.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

static _Atomic bool short_of_memory;

void *__real_realloc(void *p, size_t size);
void *__wrap_realloc(void *p, size_t size);

void *__wrap_realloc(void *p, size_t size)
{
	return atomic_load(&short_of_memory) ? NULL : __real_realloc(p, size);
}
