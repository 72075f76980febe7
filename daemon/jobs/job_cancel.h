/* SPDX-License-Identifier: MIT */
/* job_cancel.h - a job ends before its task returns: cancelled, or past its deadline */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct pool;

/*
 * The client wants this generation of the row's job to end: CANCELLED, if it has no outcome yet.
 * One that comes before its job was drained waits for it. The channel's thread.
 */
void job_cancel(struct pool *pool, uint32_t row, uint32_t generation);

/* Ends the jobs that are over. Returns when the next look is due, 0 if there is none to come. */
uint64_t deadlines_check(struct pool *pool);
