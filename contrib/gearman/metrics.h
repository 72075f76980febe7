/* SPDX-License-Identifier: MIT */
/* metrics.h - the counters of forkd-gearman, in OpenMetrics text */
#pragma once

#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>

#define METRICS_FIRST 10u /* buckets of powers of two: 1 us */
#define METRICS_LAST  40u /* 18 minutes */

/* How a job ended, for its counter. */
enum metrics_end {
	METRICS_DONE,
	METRICS_FAILED,
	METRICS_CANCELLED,
	METRICS_EXPIRED,
	METRICS_CRASHED,
	METRICS_REFUSED,
	METRICS_UNKNOWN,
	METRICS_ENDS,
};

/* All relaxed: for display. */
struct metrics {
	_Atomic uint64_t in_flight;
	_Atomic uint64_t ends[METRICS_ENDS];
	_Atomic uint64_t rerun;	       /* jobs that ran again after forkd was lost */
	_Atomic uint64_t journal_hits; /* jobs that the journal has refused */
	_Atomic uint64_t undelivered;  /* answers that could not be sent */
	_Atomic uint64_t bytes_in;
	_Atomic uint64_t bytes_out;
	_Atomic uint64_t forkd_connected;
	_Atomic uint64_t latency[METRICS_LAST - METRICS_FIRST + 2]; /* the last: longer */
	_Atomic uint64_t latency_ns;
};

/* A job has been answered. ns: from its receipt to its answer. */
void metrics_ended(struct metrics *metrics, enum metrics_end end, uint64_t ns);

/* The counter of an outcome of an exception. */
enum metrics_end metrics_end_of(const char *outcome);
