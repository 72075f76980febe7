/* SPDX-License-Identifier: MIT */
/* timer.h - fibers wait for a time */
#pragma once

#include <stdint.h>

struct pool;

/* Resumes fibers whose time has come. Returns the time of the next check, 0: none. */
uint64_t fibers_check(struct pool *pool);
