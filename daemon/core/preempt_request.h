/* SPDX-License-Identifier: MIT */
/* preempt_request.h - the request to check whether another job is to run first */
#pragma once

#include <stdbool.h>

struct worker;

/* Requests that the worker checks, at its next fork, whether another job is to run first. Any
 * thread, and the handler of the pool's signal. */
void preempt_request(struct worker *worker);

/* True if the worker has not taken the request yet. */
bool preempt_is_requested(struct worker *worker);

/* Owner, at a fork: takes the request. */
bool preempt_take_request(struct worker *worker);
