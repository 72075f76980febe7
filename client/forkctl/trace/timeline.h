/* SPDX-License-Identifier: MIT */
/*
 * timeline.h - a timeline of workers and jobs, as a trace for Perfetto and Chrome
 *
 * Events of the rings (shm/trace.h) are added as they are read. At the end the timeline is written
 * in Chrome's format "Trace Event", with traceEvents sorted by time.
 */
#pragma once

#include <stdint.h>
#include <stdio.h>

#include "shm/board.h"
#include "shm/trace.h"

#define TIMELINE_EVENTS (UINT64_C(8) << 20) /* maximum of a timeline: 256 MiB */

struct timeline;

/* A timeline of this number of workers that begins now. board: must stay mapped. */
struct timeline *timeline_new(const struct board *board, uint32_t n_workers);
struct timeline *timeline_free(struct timeline *timeline);

/* Adds events of a worker; lost: number of lost events before them. Events are not trusted. */
void timeline_add(struct timeline *timeline, uint32_t worker, const struct trace_event *events,
		  uint32_t n, uint64_t lost);

/* Numbers of events, and of lost events. */
uint64_t timeline_events(const struct timeline *timeline);
uint64_t timeline_lost(const struct timeline *timeline);

/* Writes the timeline up to this time, CLOCK_MONOTONIC. why: reason of the end, one line. Returns 0
 * or a negative errno. */
int timeline_write(struct timeline *timeline, uint64_t end_ns, const char *why, FILE *out);
