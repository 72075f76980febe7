/* SPDX-License-Identifier: MIT */
/* preempt_switch.h - the jobs of preempted.h take turns */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct worker;

/*
 * Owner, at attention: is there a job that has to go on in place of the one that runs? It has if it
 * has failed, and is to wind down; or, if the worker was asked to look, if it is behind by a turn.
 * Sets *ret_row to it.
 */
bool preempted_claims(struct worker *worker, bool asked, uint32_t *ret_row);

/* Owner, while it runs nothing: moves what its deque has of this job, and of all that have failed,
 * to the newest end. */
void preempted_bring_up(struct worker *worker, uint32_t row);
