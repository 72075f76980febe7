/* SPDX-License-Identifier: MIT */
/* preempt_switch.h - alternation of the jobs in preempted.h */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct worker;

/*
 * Owner, at a safepoint: true if a waiting job must run instead of the running one, and sets
 * *ret_row to it. A failed job must, to unwind; with asked, so must a job that is a time slice
 * behind.
 */
bool preempted_claims(struct worker *worker, bool asked, uint32_t *ret_row);

/* Owner, between strands: moves the deque's entries of this job, and of all that have failed, to
 * the newest end. */
void preempted_bring_up(struct worker *worker, uint32_t row);
