/* SPDX-License-Identifier: MIT */
/*
 * sample.h - which tasks use the CPU: workers are interrupted by a timer of CPU time
 *
 * Threads: the worker, at its beginning.
 */
#pragma once

#include <signal.h>

struct worker;

#define SAMPLE_SIGNAL SIGPROF

/* From now on the tasks of the calling thread, which is this worker's, are sampled, if the option
 * sample says so. */
void sample_begin(struct worker *worker);
