/* SPDX-License-Identifier: MIT */
/* daemon/root.h - a job as the pool runs it: from QUEUED to its one outcome */
#ifndef DAEMON_ROOT_H
#define DAEMON_ROOT_H

#include "daemon/worker.h"

struct pool;

/* Starts the queued job of this row on the worker, and ends it unless its strand was left. */
void root_run(struct worker *worker, uint32_t row);

/*
 * The client wants this generation of the row's job to end: CANCELLED, if it has no outcome yet.
 * One that comes before its job was drained waits for it. The channel's thread.
 */
void root_cancel(struct pool *pool, uint32_t row, uint32_t generation);

#endif
