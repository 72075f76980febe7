/* SPDX-License-Identifier: MIT */
/* threads.h - threads of a test that return NULL on success */
#pragma once

#include <check.h>
#include <pthread.h>
#include <stdint.h>

/* Starts n threads, with the numbers 1 to n as their arguments. */
static inline void threads_start(pthread_t *ret_threads, uint32_t n, void *(*run)(void *number))
{
	for (uintptr_t i = 0; i < n; i++)
		ck_assert_int_eq(pthread_create(&ret_threads[i], NULL, run, (void *)(i + 1)), 0);
}

static inline void threads_join(const pthread_t *threads, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		void *wrong;

		ck_assert_int_eq(pthread_join(threads[i], &wrong), 0);
		ck_assert_ptr_null(wrong);
	}
}
