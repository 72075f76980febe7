/* SPDX-License-Identifier: MIT */
/* preempt_request.h - the request to look whether another job goes first */
#ifndef DAEMON_CORE_PREEMPT_REQUEST_H
#define DAEMON_CORE_PREEMPT_REQUEST_H

#include <stdbool.h>

struct worker;

/* A worker is to look, at its next fork, whether another job goes first. Any thread, and the
 * handler of WORKER_SIGNAL. */
void dispatcher_preempt(struct worker *worker);

/* It was, and has not looked. */
bool dispatcher_has_summoned(struct worker *worker);

/* Owner, at a fork: was it asked to look whether another job goes first? */
bool dispatcher_take_summons(struct worker *worker);

#endif
