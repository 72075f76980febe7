/* SPDX-License-Identifier: MIT */
/* placed_jobs.h - wakes workers for queued jobs that have a place */
#pragma once

struct pool;
struct worker;

/* Wakes each sleeping worker that has a job queued for its place. Call after the jobs were
 * queued. */
void intake_wake_places(struct pool *pool, struct worker *waker);
