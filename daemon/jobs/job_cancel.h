/* SPDX-License-Identifier: MIT */
/* job_cancel.h - ends jobs before their task returns: cancelled, or deadline exceeded */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct pool;

/* Cancels this generation of the row's job, if it has no outcome yet. If the job was not drained
 * yet, the mark waits for it. The channel's thread. */
void job_cancel(struct pool *pool, uint32_t row, uint32_t generation);

/* Ends jobs whose deadline has passed. Returns when to call again, 0: no deadline is left. */
uint64_t deadlines_check(struct pool *pool);
