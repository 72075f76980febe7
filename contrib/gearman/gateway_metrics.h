/* SPDX-License-Identifier: MIT */
/* gateway_metrics.h - the counters of forkd-gearman */
#pragma once

#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>

#define GATEWAY_LATENCY_FIRST 10u /* the first bucket ends at 2^10 ns */
#define GATEWAY_LATENCIES     31u /* buckets, each twice as long as the one before: 18 minutes */

/* How a job ended. */
enum gateway_end {
	GATEWAY_DONE,
	GATEWAY_FAILED,
	GATEWAY_CANCELLED,
	GATEWAY_EXPIRED,
	GATEWAY_CRASHED,
	GATEWAY_REFUSED,
	GATEWAY_UNKNOWN,
	GATEWAY_ENDS,
};

/* All relaxed: for display. */
struct gateway_metrics {
	_Atomic uint64_t in_flight;
	_Atomic uint64_t ends[GATEWAY_ENDS];
	_Atomic uint64_t rerun;	       /* jobs that were submitted to forkd again */
	_Atomic uint64_t journal_hits; /* jobs that the journal has refused */
	_Atomic uint64_t undelivered;  /* answers that could not be sent */
	_Atomic uint64_t bytes_in;
	_Atomic uint64_t bytes_out;
	_Atomic uint64_t forkd_connected;
	_Atomic uint64_t latency[GATEWAY_LATENCIES + 1]; /* the last: longer */
	_Atomic uint64_t latency_ns;
};

struct gateway_server;

/* A job has been answered. ns: from its receipt to its answer. */
void gateway_metrics_ended(struct gateway_metrics *metrics, enum gateway_end end, uint64_t ns);

/* The counter of an outcome of an exception. */
enum gateway_end gateway_metrics_end_of(const char *outcome);

/* Prints all metrics as OpenMetrics text 1.0; with openmetrics 0, in Prometheus's format 0.0.4. */
void gateway_metrics_print(const struct gateway_metrics *metrics,
			   const struct gateway_server *servers, uint32_t n_servers, FILE *file,
			   int openmetrics);
