/* SPDX-License-Identifier: MIT */
/* pool_segments.h - board and arena as the manager makes them, and what it says of itself there */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/manager/saved_state.h"
#include "shm/segment.h"

struct arena;
struct board;
struct board_crash;
struct board_task;
struct options;

struct pool_segments {
	const struct options *options;
	struct saved_state *saved;
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
	/* the pool is about to enter more of them: entries of tasks that are gone may change, and
	 * others may follow, until pool_segments_keep_tasks() */
	bool expects;
	uint32_t n_tasks;
	/* what the board says of the manager and its pool */
	uint64_t started_ns;
	uint32_t n_workers;
	uint32_t state; /* BOARD_*; of its pools the saved state knows */
};

#define POOL_SEGMENTS_INIT                                                                         \
	((struct pool_segments){ .board_fd = -1, .board_readonly_fd = -1, .arena_fd = -1 })

/* What a former manager has left; or the descriptors are -1, and the saved state is new. */
struct pool_segments_inherited {
	struct saved_state *saved;
	int board_fd;
	int arena_fd;
};

/* The sizes of everything for n_workers. */
struct saved_geometry pool_segments_geometry(const struct options *options, uint32_t n_workers);

/*
 * Makes both segments, or takes over what there is; options and saved state stay the caller's, and
 * have to stay. The board is filled in by the first pool_segments_write(). Returns 0, or a negative
 * errno with what could not be done. The descriptors are pool_segments' then.
 */
int pool_segments_init(struct pool_segments *pool_segments, const struct options *options,
		       uint32_t n_workers, const struct pool_segments_inherited *inherited,
		       const char **ret_what);
void pool_segments_fini(struct pool_segments *pool_segments);

/* Writes all of it again, except what conn_show_counts() shows. No pool may be alive. */
void pool_segments_write(struct pool_segments *pool_segments);

/* A pool is ready, or has entered all tasks that were expected: its task table is kept. */
void pool_segments_keep_tasks(struct pool_segments *pool_segments);

/* Compares what clients that connect rely on with what is kept here, while a pool is alive. Returns
 * true if a task has written over it: it is restored then. */
bool pool_segments_restore(struct pool_segments *pool_segments);

/* Moves the manager's front of the arena and the rows, as they are, into another segment, mapped
 * where the last one was. No process may be about to write them. Returns 0 or a negative errno:
 * nothing has changed then. */
int pool_segments_replace_arena(struct pool_segments *pool_segments);

/* Of a pool that has died: a client must not try for ever to wake one of its workers (wake.h). */
void pool_segments_clear_workers(struct pool_segments *pool_segments);

void pool_segments_set_state(struct pool_segments *pool_segments, uint32_t state);
/* pid: 0 for none. */
void pool_segments_set_pool(struct pool_segments *pool_segments, uint32_t pid);
void pool_segments_next_pool(struct pool_segments *pool_segments);
/* A pool has crashed. */
void pool_segments_crashed(struct pool_segments *pool_segments, const struct board_crash *crash);
void pool_segments_show_scheduler(struct pool_segments *pool_segments);

/* Jobs that the pool gave their outcome, all together. */
uint64_t pool_segments_jobs_ended(const struct pool_segments *pool_segments);
