/* SPDX-License-Identifier: MIT */
/* pool_segments.h - board and arena as the manager makes them, and what it says of itself there */
#ifndef DAEMON_MANAGER_POOL_SEGMENTS_H
#define DAEMON_MANAGER_POOL_SEGMENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/manager/saved_state.h"
#include "shm/segment.h"

struct arena;
struct board;
struct board_crash;
struct board_task;
struct options;

struct fronts {
	const struct options *options;
	struct roster *roster;
	struct board *board;
	struct arena *arena;
	uint64_t board_size;
	uint64_t arena_size;
	int board_fd;
	int board_readonly_fd; /* for clients */
	int arena_fd;
	/* of the segments, as they were made */
	struct segment board_head;
	struct segment arena_head;
	/* the task table as it was when the last pool was ready; NULL before the first */
	struct board_task *tasks;
	bool expects; /* the pool may enter more of them */
	uint32_t n_tasks;
	/* what the board says of the manager and its pool */
	uint64_t started_ns;
	uint32_t n_workers;
	uint32_t state; /* BOARD_*; of its pools the roster knows */
};

#define FRONTS_INIT                                                                                \
	{                                                                                          \
		.board_fd = -1, .board_readonly_fd = -1, .arena_fd = -1                            \
	}

/* What a former manager has left; or the descriptors are -1, and the roster is new. */
struct fronts_inherited {
	struct roster *roster;
	int board_fd;
	int arena_fd;
};

/* How large everything is for so many workers. */
struct roster_geometry fronts_geometry(const struct options *options, uint32_t n_workers);

/*
 * Makes both segments, for so many workers, or takes over what there is; options and roster stay
 * the caller's, and have to stay. What the board says stands there after the first fronts_write().
 * Returns 0, or a negative errno with what could not be done. The descriptors are the fronts' then.
 */
int fronts_init(struct fronts *fronts, const struct options *options, uint32_t n_workers,
		const struct fronts_inherited *inherited, const char **ret_what);
void fronts_fini(struct fronts *fronts);

/* Writes all of it anew, but for what session_show_counts() shows. No pool may be alive. */
void fronts_write(struct fronts *fronts);

/* A pool is ready, or has entered all tasks that were expected: its task table is kept. */
void fronts_keep_tasks(struct fronts *fronts);

/* The pool is about to enter more tasks: until fronts_keep_tasks() entries of tasks that are gone
 * may change, and others may follow. */
void fronts_expect_tasks(struct fronts *fronts);

/* Compares what clients that connect rely on with what is kept here, while a pool is alive. Returns
 * true if a task has written over it: it is restored then. */
bool fronts_restore(struct fronts *fronts);

/* Moves the manager's front of the arena and the rows, as they are, into another segment, mapped
 * where the last one was. No process may be about to write them. Returns 0 or a negative errno:
 * nothing has changed then. */
int fronts_replace_arena(struct fronts *fronts);

/* Of a pool that has died: whoever wants to wake one of its workers shall not try for ever
 * (wake.h). */
void fronts_clear_workers(struct fronts *fronts);

void fronts_set_state(struct fronts *fronts, uint32_t state);
/* pid: 0 for none. */
void fronts_set_pool(struct fronts *fronts, uint32_t pid);
void fronts_next_pool(struct fronts *fronts);
/* A pool has crashed. */
void fronts_crashed(struct fronts *fronts, const struct board_crash *crash);
void fronts_show_scheduler(struct fronts *fronts);

/* Jobs that the pool gave their outcome, all together. */
uint64_t fronts_jobs_ended(const struct fronts *fronts);

#endif
