/* SPDX-License-Identifier: MIT */
/* cancel.h - ends the waits of fibers whose job has an outcome */
#pragma once

#include <stdint.h>

struct pool;

/* The job of this row has an outcome: ends all waits of its fibers. Any thread of the pool. */
void fibers_cancel(struct pool *pool, uint32_t row);
