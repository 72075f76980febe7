/* SPDX-License-Identifier: MIT */
/*
 * sample.h - samples the tasks that use the CPU, by a timer of CPU time for each worker
 *
 * Threads: the worker, at its beginning.
 */
#pragma once

#include <signal.h>

struct worker;

#define SAMPLE_SIGNAL SIGPROF

/* Starts to sample the tasks of this worker, which is the calling thread, if the option sample is
 * set. */
void sample_begin(struct worker *worker);
