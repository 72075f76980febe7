/* SPDX-License-Identifier: MIT */
/* shm/futex.h - shared futexes: the only way of waiting on shared memory */
#pragma once

#include <stdint.h>

/* Sleeps while *word is value, until woken or until the absolute CLOCK_MONOTONIC time deadline_ns
 * (0: no deadline). Returns 0 if woken, or -EAGAIN (another value), -EINTR, -ETIMEDOUT. */
int futex_wait(const _Atomic uint32_t *word, uint32_t value, uint64_t deadline_ns);

/* The same for two words: sleeps while both have these values, until either is woken. Returns as
 * futex_wait(), or -ENOMEM; 0 if either was woken. */
int futex_wait_two(const _Atomic uint32_t *a, uint32_t a_value, const _Atomic uint32_t *b,
		   uint32_t b_value, uint64_t deadline_ns);

/* Returns 0, or the negative errno that futex_wait_two() would always return here. */
int futex_can_wait_two(void);

/* Wakes up to n sleepers. Works on a read-only mapping. Returns their number, or a negative
 * errno. */
int futex_wake(const _Atomic uint32_t *word, int n);
