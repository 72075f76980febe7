/* SPDX-License-Identifier: MIT */
/*
 * work_span.h - work and span of a job, measured while one worker runs it serially
 *
 * Threads: strand*.c and job.c call the hooks, on the pool's only worker; fork_mode.c makes the
 * profile before there are workers. Details are in work_span.c.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <forkd/task.h>

#include "shm/board.h"

/* A source of time: a count of ticks that grows. */
struct profile_clock {
	uint64_t (*read)(void);
	double ns_per_tick;
	/* CPU time of the calling thread, ns: a system call; NULL: unknown */
	uint64_t (*cpu)(void);
};

/* Costs of the measurement itself, and costs charged for forks and steals: all in ns. */
struct profile_costs {
	double read;	   /* in each measured interval, to be subtracted */
	double read_error; /* of that */
	double fork;	   /* of a fork that is not stolen */
	double burden;	   /* of a stolen continuation and the join that follows */
	bool adapt;	   /* adds the runtime's time from a child's end to its parent */
	bool repeat;	   /* all jobs are the same: each interval counts with its shortest time */
};

struct profile;

/* Returns NULL if there is no memory. */
struct profile *profile_new(struct profile_clock clock, struct profile_costs costs);
void profile_free(struct profile *profile);

/* The processor's clock. Takes some milliseconds to find its rate. */
struct profile_clock profile_processor_clock(void);

/*
 * Measures the costs on this machine with this clock, in some tens of milliseconds.
 * burden: ns, 0: measure that as well.
 */
struct profile_costs profile_measure(struct profile_clock clock, uint64_t burden);

/* Hooks. frame: the one that runs next, or has run so far. */

/* A job begins; its root's first block runs next. */
void profile_begin(struct profile *profile, const struct fk_frame *root);
/* The job has ended; if done, publishes its figures on the board. */
void profile_end(struct profile *profile, const struct fk_frame *root, bool done,
		 struct board_profile *ret_board);
/* The task's code stops, and the runtime continues. */
void profile_stop(struct profile *profile);
/* The task's code continues. */
void profile_go(struct profile *profile, const struct fk_frame *frame);
/* frame forks a child, whose first block runs next. */
void profile_fork(struct profile *profile, const struct fk_frame *frame);
/* A forked or called child has got this frame. */
void profile_enter(struct profile *profile, const struct fk_frame *frame);
/* A forked child has ended in its first block, or a child with this frame has. */
void profile_leaf_done(struct profile *profile);
void profile_done(struct profile *profile, const struct fk_frame *frame);
/* All children of the frame have ended, and it continues. */
void profile_join(struct profile *profile, const struct fk_frame *frame);
