/* SPDX-License-Identifier: MIT */
/* shm/futex.h - shared futexes, the only waiting there is over shared memory */
#pragma once

#include <stdint.h>

/*
 * Sleeps as long as *word is value, until woken or until the absolute CLOCK_MONOTONIC time
 * deadline_ns (0: for ever).
 * Returns 0 if woken, or -EAGAIN (the value was another), -EINTR, -ETIMEDOUT.
 */
int futex_wait(const _Atomic uint32_t *word, uint32_t value, uint64_t deadline_ns);

/*
 * The same for two words: sleeps as long as both have these values, until either is woken.
 * Returns as futex_wait(), or -ENOMEM; 0 for whichever was woken.
 */
int futex_wait_two(const _Atomic uint32_t *a, uint32_t a_value, const _Atomic uint32_t *b,
		   uint32_t b_value, uint64_t deadline_ns);

/* 0, or the negative errno that futex_wait_two() would always return here. */
int futex_can_wait_two(void);

/* Wakes up to n sleepers. Works on a read-only mapping. Returns how many, or a negative errno. */
int futex_wake(const _Atomic uint32_t *word, int n);
