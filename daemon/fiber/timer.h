/* SPDX-License-Identifier: MIT */
/* timer.h - fibers wait for a time */
#pragma once

#include <stdint.h>

struct pool;

/* Resumes fibers whose time has come. Returns when the next look is due, 0: never. */
uint64_t fibers_check(struct pool *pool);
