/* SPDX-License-Identifier: MIT */
/* job.h - runs a job in the pool: from QUEUED to its one outcome */
#pragma once

#include <stdint.h>

struct worker;

/* Starts the queued job of this row on the worker. Ends it, unless its strand was left. */
void job_run(struct worker *worker, uint32_t row);
