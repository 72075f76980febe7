/* SPDX-License-Identifier: MIT */
/* root.h - a job as the pool runs it: from QUEUED to its one outcome */
#ifndef DAEMON_JOBS_ROOT_H
#define DAEMON_JOBS_ROOT_H

#include "daemon/core/worker.h"

struct pool;

/* Starts the queued job of this row on the worker, and ends it unless its strand was left. */
void root_run(struct worker *worker, uint32_t row);

/* Ends a job that nobody has started, with this outcome; its row is in the caller's hand, and
 * counts as given in fair.c. Any thread. */
void root_drop(struct pool *pool, uint32_t row, uint32_t outcome, int32_t code);

/* This generation of the row's job is wanted to end. After it was made QUEUED. */
bool root_is_cancelled(struct pool *pool, uint32_t row, uint32_t generation);

/*
 * This generation of the row's job is late, or cancelled: ends it if it waits in a queue, and sees
 * to it that it winds down if it runs. False: it is in hand, and the caller comes again. The
 * dispatcher.
 */
bool root_is_over(struct pool *pool, uint32_t row, uint32_t generation);

/*
 * The client wants this generation of the row's job to end: CANCELLED, if it has no outcome yet.
 * One that comes before its job was drained waits for it. The channel's thread.
 */
void root_cancel(struct pool *pool, uint32_t row, uint32_t generation);

#endif
