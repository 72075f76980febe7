/* SPDX-License-Identifier: MIT */
#include "shm/futex.h"

#include <errno.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int futex_wait(const _Atomic uint32_t *word, uint32_t value, uint64_t deadline_ns)
{
	struct timespec ts = { .tv_sec = (time_t)(deadline_ns / 1000000000u),
			       .tv_nsec = (long)(deadline_ns % 1000000000u) };

	/* WAIT_BITSET takes an absolute time, WAIT a relative one. */
	if (syscall(SYS_futex, word, FUTEX_WAIT_BITSET, value, deadline_ns ? &ts : NULL, NULL,
		    FUTEX_BITSET_MATCH_ANY) < 0)
		return -errno;
	return 0;
}

int futex_wait_two(const _Atomic uint32_t *a, uint32_t a_value, const _Atomic uint32_t *b,
		   uint32_t b_value, uint64_t deadline_ns)
{
	struct timespec ts = { .tv_sec = (time_t)(deadline_ns / 1000000000u),
			       .tv_nsec = (long)(deadline_ns % 1000000000u) };
	struct futex_waitv words[] = {
		{ .val = a_value, .uaddr = (uintptr_t)a, .flags = FUTEX_32 },
		{ .val = b_value, .uaddr = (uintptr_t)b, .flags = FUTEX_32 },
	};

	if (syscall(SYS_futex_waitv, words, 2, 0, deadline_ns ? &ts : NULL, CLOCK_MONOTONIC) < 0)
		return -errno;
	return 0;
}

int futex_can_wait_two(void)
{
	/* A wait for zero words: EINVAL if the call exists. */
	(void)syscall(SYS_futex_waitv, NULL, 0, 0, NULL, CLOCK_MONOTONIC);
	return errno == EINVAL ? 0 : -errno;
}

int futex_wake(const _Atomic uint32_t *word, int n)
{
	long woken = syscall(SYS_futex, word, FUTEX_WAKE, n, NULL, NULL, 0);

	return woken < 0 ? -errno : (int)woken;
}
