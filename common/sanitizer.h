/* SPDX-License-Identifier: MIT */
/*
 * common/sanitizer.h - functions of AddressSanitizer and LeakSanitizer, if this process has them
 *
 * A program may be compiled with AddressSanitizer and its pool without. So these functions are weak
 * references in each build: NULL in a process without AddressSanitizer.
 */
#pragma once

#include <stddef.h>

#define SANITIZER_WEAK extern __attribute__((weak))

SANITIZER_WEAK void __asan_unpoison_memory_region(const volatile void *memory, size_t size);
SANITIZER_WEAK void __asan_handle_no_return(void);
SANITIZER_WEAK void __sanitizer_start_switch_fiber(void **ret_fake_stack, const void *stack_low,
						   size_t stack_size);
SANITIZER_WEAK void __sanitizer_finish_switch_fiber(void *fake_stack, const void **ret_stack_low,
						    size_t *ret_stack_size);
SANITIZER_WEAK void __lsan_register_root_region(const void *memory, size_t size);
SANITIZER_WEAK void __lsan_unregister_root_region(const void *memory, size_t size);

/* Removes the redzones of functions that have left a stack without a return. */
static inline void sanitizer_clean(const void *memory, size_t size)
{
	if (__asan_unpoison_memory_region)
		__asan_unpoison_memory_region(memory, size);
}
