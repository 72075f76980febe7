/* SPDX-License-Identifier: MIT */
/* daemon/root.h - a job as the pool runs it: from QUEUED to its one outcome */
#ifndef DAEMON_ROOT_H
#define DAEMON_ROOT_H

#include "daemon/worker.h"

struct pool;

/* Starts the queued job of this row on the worker, and ends it unless its strand was left. */
void root_run(struct worker *worker, uint32_t row);

/* The job of this row fails with this code, unless it has failed already. */
void root_fail(struct pool *pool, uint32_t row, int code);

#endif
