/* SPDX-License-Identifier: MIT */
/*
 * rig.h - a whole pool inside the test's process
 *
 * The production workers, intake and scheduler run here as threads, on real segments. The test is
 * the client, through the same rings. So ThreadSanitizer sees both sides, and a test can read
 * counters and send requests to workers.
 */
#pragma once

#include <stdint.h>

#include "common/options.h"
#include "daemon/pool/pool.h"

#define RIG_JOBS 1024u

struct rig {
	struct options options;
	struct pool *pool;
	int board_fd, arena_fd, tenant_fd, client_fd;
	struct tenant_segment *tenant;
	struct client_segment *client;
	struct job *jobs;
	char *heap;
	pthread_t dispatcher;
	uint32_t generation[RIG_JOBS];
};

/* If set, the next rig_start() calls it once, before there are threads. */
extern void (*rig_prepare)(struct pool *pool);

/* Starts a pool of n workers with this module. Fails the test on error. force_steals: every fork is
 * treated as stolen. */
void rig_start(struct rig *rig, uint32_t workers, const struct fk_module *module,
	       bool force_steals);
/* The same on another machine, as topology_new() takes it, with its groups, victims and arenas. */
void rig_start_on(struct rig *rig, const char *machine, uint32_t workers,
		  const struct fk_module *module, bool force_steals);
/* Stops the workers and frees everything. */
void rig_stop(struct rig *rig);

/* Submits record number job: a task of the module by its full name. */
void rig_submit(struct rig *rig, uint32_t job, const char *task, const void *args, uint32_t size);
/* Waits for a job. Returns its outcome. */
uint32_t rig_wait(struct rig *rig, uint32_t job);
/* Waits for records first to end - 1, each of which must be DONE. */
void rig_all_done(struct rig *rig, uint32_t first, uint32_t end);
/* Waits for a record, which must fail with this code. */
void rig_fails(struct rig *rig, uint32_t job, int32_t code);
/* Submits a task with one i64 argument and an i64 result, and waits. Fails the test if the outcome
 * is not DONE. */
int64_t rig_call(struct rig *rig, const char *task, int64_t arg);
/* Cancels the job that was last submitted as record number job. */
void rig_cancel(struct rig *rig, uint32_t job);

/* Checks the next message at the manager's end of the pool's channel. text: NULL for any or
 * none. */
void rig_hear(int manager, uint32_t type, uint32_t client, uint32_t generation, const char *text);

/* Returns the sum of a counter over all workers and the pool's other threads. */
#define rig_counter(rig, name)                                                                     \
	({                                                                                         \
		uint64_t rig_sum = atomic_load(&(rig)->pool->board->counters[BOARD_POOL].name);    \
		for (uint32_t rig_i = 0; rig_i < (rig)->pool->n_workers; rig_i++)                  \
			rig_sum += atomic_load(&(rig)->pool->board->counters[rig_i].name);         \
		rig_sum;                                                                           \
	})
