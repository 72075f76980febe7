/* SPDX-License-Identifier: MIT */
/* schedule_fuzz.h - random preemption of workers, to check modules: see schedule_fuzz.c */
#pragma once

#include <stdint.h>

struct pool;
struct shake;

/* Starts it, when the workers' threads run. seed: of its random numbers. NULL: no memory, or no
 * thread. */
struct shake *schedule_fuzz_start(struct pool *pool, uint32_t seed);

/* Stops it. NULL is allowed. */
void schedule_fuzz_stop(struct shake *shake);
