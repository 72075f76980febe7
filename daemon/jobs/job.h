/* SPDX-License-Identifier: MIT */
/* job.h - a job as the pool runs it: from QUEUED to its one outcome */
#pragma once

#include <stdint.h>

struct worker;

/* Starts the queued job of this row on the worker, and ends it unless its strand was left. */
void job_run(struct worker *worker, uint32_t row);
