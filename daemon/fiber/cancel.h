/* SPDX-License-Identifier: MIT */
/* cancel.h - the fibers of a job that is over wait no more */
#pragma once

#include <stdint.h>

struct pool;

/* The job of this row has an outcome: its fibers wait no more. Any thread of the pool. */
void fibers_cancel(struct pool *pool, uint32_t row);
