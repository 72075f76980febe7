/* SPDX-License-Identifier: MIT */
/* schedule_fuzz.h - random preemption of workers, to check modules: see schedule_fuzz.c */
#ifndef DAEMON_POOL_SCHEDULE_FUZZ_H
#define DAEMON_POOL_SCHEDULE_FUZZ_H

#include <stdint.h>

struct pool;
struct shake;

/* Begins, once the workers' threads run. seed: of what it does. NULL: no memory, or no thread. */
struct shake *schedule_fuzz_start(struct pool *pool, uint32_t seed);

/* Ends it. NULL is fine. */
void schedule_fuzz_stop(struct shake *shake);

#endif
