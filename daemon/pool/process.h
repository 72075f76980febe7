/* SPDX-License-Identifier: MIT */
/*
 * process.h - the pool process: start, operation and end
 *
 * Threads: main.c calls pool_run(). Its thread reads the channel (manager_channel.h); the
 * dispatcher and the workers have their own threads.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/options.h"
#include "common/relaxed.h"
#include "daemon/core/pool_state.h"
#include "daemon/fiber/fiber_types.h"
#include "daemon/jobs/deadline.h"
#include "daemon/jobs/hang_detector.h"
#include "daemon/jobs/job_batches.h"
#include "daemon/pool/dispatcher.h"
#include "daemon/sched/fair_queue.h"
#include "daemon/sched/cpu_parking.h"
#include "daemon/jobs/starved.h"

/* A pool with the private parts of its directories. */
struct pool_whole {
	struct pool pool;
	struct fair fair;
	struct fibers fibers;
	struct park park;
	struct starved starved;
	struct deadlines deadlines;
	struct hangs hangs;
	struct dispatcher dispatcher;
};

/* Returns a zeroed pool with its parts; NULL: no memory. pool_delete() frees it, but nothing that
 * it refers to. */
struct pool *pool_new(void);
void pool_delete(struct pool *pool);

/* Runs the pool until the manager stops it or has gone. options: the effective ones. channel: the
 * SEQPACKET socket to the manager. Returns the exit status of the process. */
int pool_run(const struct options *options, int channel);

/* Allocates the data of each row of the ledger. Returns 0 or -ENOMEM. */
int pool_make_rows(struct pool *pool);
void pool_free_rows(struct pool *pool);
