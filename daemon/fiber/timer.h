/* SPDX-License-Identifier: MIT */
/* timer.h - fibers wait for a time */
#ifndef DAEMON_FIBER_TIMER_H
#define DAEMON_FIBER_TIMER_H

#include <stdint.h>

struct pool;

/* Resumes fibers whose time has come. Returns when the next look is due, 0: never. */
uint64_t fibers_check(struct pool *pool);

#endif
