/* SPDX-License-Identifier: MIT */
/*
 * timeline_internal.h - data shared by the parts of a timeline
 *
 *   timeline.c        events, and the marks of jobs
 *   timeline_write.c  output
 */
#pragma once

#include "client/forkctl/trace/timeline.h"

#include <stddef.h>
#include <stdint.h>

#include "client/forkctl/board_rows.h"
#include "shm/limits.h"
#include "shm/trace.h"

#define TIMELINE_LOST 0u /* kind of a private event: `value` events were lost here */
#define TIMELINE_NONE UINT32_MAX
#define TIMELINE_LEFT (UINT32_C(1) << 30) /* used as a pid, and larger than any pid */

/* The state of a worker. */
enum lane_state {
	LANE_IDLE, /* searches for work, or is between two slices */
	LANE_STRAND,
	LANE_RESTS,
};

/* A slice that was open before the first event. */
struct lane_start {
	enum lane_state state;
	struct trace_event event; /* LANE_STRAND: its job; LANE_RESTS: only value */
};

struct lane {
	uint32_t tid;
	uint32_t cpu;
	struct lane_start start; /* from the board, if no event shows it */
	struct trace_event *events;
	size_t n;
	size_t max;
	/* used while the trace is written */
	size_t at;
	enum lane_state open; /* kind of the open slice, LANE_IDLE: none */
	uint64_t arrow;	      /* arrow that ends at the next strand, 0: none */
};

struct timeline {
	const struct board *board;
	uint32_t pid;
	uint32_t n_lanes;
	uint32_t jobs_max;
	uint64_t begun_ns;
	uint64_t begun_real_ns;
	uint64_t n_events;
	uint64_t n_lost;
	struct lane lanes[LIMIT_WORKERS];
};

/* A job. Times: 0 is not known. */
struct timeline_job {
	uint32_t row;
	uint32_t generation;
	uint32_t task;
	uint64_t after_ns; /* time at which an earlier job of the same name had ended */
	uint64_t drained_ns;
	uint64_t started_ns;
	uint64_t ended_ns;
	uint64_t outcome; /* trace_outcome() */
	uint32_t pid;	  /* of its client; TIMELINE_LEFT: unknown, it has left */
};

/* An event of a job. */
struct timeline_mark {
	uint64_t time_ns;
	uint32_t job;
	enum { MARK_QUEUED, MARK_STARTED, MARK_ENDED } what;
};

struct timeline_jobs {
	struct timeline_job *jobs;
	size_t n;
	struct timeline_mark *marks;
	size_t n_marks;
};

/* An array of n elements; never NULL. */
void *timeline_alloc(void *array, size_t n, size_t size);

/* Returns the client of a job at a time; NULL if its slot was reused, or does not exist. */
const struct board_client *timeline_client(const struct timeline *timeline, uint32_t row,
					   uint64_t time_ns);

/* Makes the jobs and their events up to this time. The caller frees both arrays. */
void jobs_make(struct timeline_jobs *jobs, const struct timeline *timeline, uint64_t end_ns);
