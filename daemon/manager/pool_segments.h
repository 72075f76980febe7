/* SPDX-License-Identifier: MIT */
/* pool_segments.h - the manager's parts of board and arena: creates, writes and checks them */
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
	/* as the segments were created */
	struct segment board_head;
	struct segment arena_head;
	/* the task table when the last pool was ready; NULL before the first */
	struct board_task *tasks;
	/* the pool is about to enter more tasks: until pool_segments_keep_tasks(), entries of tasks
	 * that are gone may change, and others may follow */
	bool expects;
	uint32_t n_tasks;
	/* what the board shows of the manager */
	uint64_t started_ns;
	uint32_t n_workers;
	uint32_t state; /* BOARD_*; the saved state has the pools */
};

#define POOL_SEGMENTS_INIT                                                                         \
	((struct pool_segments){ .board_fd = -1, .board_readonly_fd = -1, .arena_fd = -1 })

/* The segments of an earlier manager; or the descriptors are -1, and the saved state is new. */
struct pool_segments_inherited {
	struct saved_state *saved;
	int board_fd;
	int arena_fd;
};

/* The sizes of all segments for n_workers. */
struct saved_geometry pool_segments_geometry(const struct options *options, uint32_t n_workers);

/* Creates both segments, or takes over existing ones. options and saved state stay the caller's,
 * and must outlive this. The first pool_segments_write() fills in the board. Returns 0, or a
 * negative errno and what failed. The descriptors are then pool_segments' own. */
int pool_segments_init(struct pool_segments *pool_segments, const struct options *options,
		       uint32_t n_workers, const struct pool_segments_inherited *inherited,
		       const char **ret_what);
void pool_segments_fini(struct pool_segments *pool_segments);

/* Writes the manager's parts again, except what conn_show_counts() shows. No pool may be alive. */
void pool_segments_write(struct pool_segments *pool_segments);

/* Keeps the task table of a pool that is ready, or has entered all expected tasks. */
void pool_segments_keep_tasks(struct pool_segments *pool_segments);

/* Compares the data that connecting clients use with the copy, while a pool is alive. Returns true,
 * and restores the data, if a task has written over it. */
bool pool_segments_restore(struct pool_segments *pool_segments);

/* Moves the manager's front of the arena and the rows, unchanged, into another segment, mapped at
 * the same address. No process may be about to write them. Returns 0; or a negative errno, and
 * nothing has changed. */
int pool_segments_replace_arena(struct pool_segments *pool_segments);

/* For a pool that has died: so that no client retries forever to wake one of its workers
 * (wake.h). */
void pool_segments_clear_workers(struct pool_segments *pool_segments);

void pool_segments_set_state(struct pool_segments *pool_segments, uint32_t state);
/* pid: 0 for none. */
void pool_segments_set_pool(struct pool_segments *pool_segments, uint32_t pid);
void pool_segments_next_pool(struct pool_segments *pool_segments);
void pool_segments_crashed(struct pool_segments *pool_segments, const struct board_crash *crash);
void pool_segments_show_scheduler(struct pool_segments *pool_segments);

/* Jobs of the pool that have got their outcome. */
uint64_t pool_segments_jobs_ended(const struct pool_segments *pool_segments);
