/* SPDX-License-Identifier: MIT */
/* preempt_request.h - the request to look whether another job goes first */
#pragma once

#include <stdbool.h>

struct worker;

/* The worker is to look, at its next fork, whether another job goes first. Any thread, and the
 * handler of WORKER_SIGNAL. */
void preempt_request(struct worker *worker);

/* It has not looked yet. */
bool preempt_is_requested(struct worker *worker);

/* Owner, at a fork: takes the request. */
bool preempt_take_request(struct worker *worker);
