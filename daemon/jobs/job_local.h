/* SPDX-License-Identifier: MIT */
/* job_local.h - job-local data */
#pragma once

#include <stdint.h>

struct pool;

/* Calls the end functions of the job's values, and frees them. Worker that ends the job; all
 * strands and fibers of the job have ended. */
void job_locals_end(struct pool *pool, uint32_t row);
