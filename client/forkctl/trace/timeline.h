/* SPDX-License-Identifier: MIT */
/*
 * timeline.h - what workers did, as a trace that Perfetto and Chrome show
 *
 * A timeline is given what was read of the rings (shm/trace.h), as it comes; what is made of that
 * is written at the end, in the format "Trace Event" of Chrome, with traceEvents sorted by time.
 */
#pragma once

#include <stdint.h>
#include <stdio.h>

#include "shm/board.h"
#include "shm/trace.h"

#define TIMELINE_EVENTS (UINT64_C(8) << 20) /* that one has at most: 256 MiB */

struct timeline;

/* Of so many workers, from now on. board: the daemon's, until the end. */
struct timeline *timeline_new(const struct board *board, uint32_t n_workers);
struct timeline *timeline_free(struct timeline *timeline);

/* The next events of a worker, and how many were lost before them. Nothing of them is believed. */
void timeline_add(struct timeline *timeline, uint32_t worker, const struct trace_event *events,
		  uint32_t n, uint64_t lost);

/* How many there are, and were lost. */
uint64_t timeline_events(const struct timeline *timeline);
uint64_t timeline_lost(const struct timeline *timeline);

/* Writes it, up to this time, CLOCK_MONOTONIC; why: a line that says why it ends there. Returns 0
 * or a negative errno. */
int timeline_write(struct timeline *timeline, uint64_t end_ns, const char *why, FILE *out);
