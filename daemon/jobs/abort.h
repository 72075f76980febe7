/* SPDX-License-Identifier: MIT */
/* abort.h - gives a running job its outcome: task failure, cancel or deadline */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct pool;

/* Fails the job of this row, which runs here, with this code (not 0), unless it has an outcome. */
void abort_fail(struct pool *pool, uint32_t row, int32_t code);

/* Ends the job of this row and generation with this outcome and code, if it runs and has none.
 * False: it has not begun. */
bool abort_set(struct pool *pool, uint32_t row, uint32_t generation, uint32_t outcome,
	       int32_t code);
