/* SPDX-License-Identifier: MIT */
/* abort.h - gives a running job its outcome: a task that fails, a cancel, a deadline */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct pool;

/* The job of this row, which runs here, fails with this code (not 0), unless it has an outcome. */
void abort_fail(struct pool *pool, uint32_t row, int32_t code);

/* The job of this row and generation ends with this outcome, if it runs and has none yet. False: it
 * was not begun. */
bool abort_set(struct pool *pool, uint32_t row, uint32_t generation, uint32_t outcome);
