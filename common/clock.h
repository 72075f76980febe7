/* SPDX-License-Identifier: MIT */
/*
 * One clock for all measurements and deadlines of forkd: CLOCK_MONOTONIC, nanoseconds in a uint64_t
 * (it wraps after 584 years). It is the same clock in every process of the machine, so a deadline
 * may be passed through shared memory.
 */
#pragma once

#include <stdint.h>
#include <time.h>

#define NSEC_PER_USEC UINT64_C(1000)
#define NSEC_PER_MSEC UINT64_C(1000000)
#define NSEC_PER_SEC  UINT64_C(1000000000)

static inline uint64_t clock_of_timespec(const struct timespec *ts)
{
	return (uint64_t)ts->tv_sec * NSEC_PER_SEC + (uint64_t)ts->tv_nsec;
}

/* Returns the time now. Read through the vDSO: some 20 ns, no system call. */
static inline uint64_t clock_ns(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return clock_of_timespec(&ts);
}

/* Returns the time of the clock's last tick, up to 10 ms ago: a quarter of the cost, for loops. */
static inline uint64_t clock_coarse_ns(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
	return clock_of_timespec(&ts);
}

static inline struct timespec clock_to_timespec(uint64_t ns)
{
	struct timespec ts = {
		.tv_sec = (time_t)(ns / NSEC_PER_SEC),
		.tv_nsec = (long)(ns % NSEC_PER_SEC),
	};

	return ts;
}
