/* SPDX-License-Identifier: MIT */
/*
 * locate.h - finds where a thread is: code and newest task, for crash reports and samples
 *
 * Threads: crash_handler.c, on the thread that ends the pool, in a handler for a signal or in
 * exit(). sample.c, on a worker, in the handler of SAMPLE_SIGNAL.
 *
 * If a peer dies: the task may have damaged the data that is read here, so a second fault is
 * possible, which ends the process at once. Each result is stored as soon as it is known, so
 * earlier results survive.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

#include "shm/backtrace.h"

struct worker;

/* True if the signal has interrupted forkd's own code. */
bool locate_is_own(const ucontext_t *context);

/* Stores the code places of the calling thread, newest first. context: of the signal handler that
 * calls this; NULL: no handler does, and the newest places, which are forkd's own, are skipped. A
 * program counter outside of all code is the first place, its caller the second. */
void locate_code(struct backtrace *ret_trace, ucontext_t *context);

/* Stores the name of the newest task that the worker runs: a direct or indirect child of its job's
 * first task. Empty if unknown. size: of ret_name, bytes. trace: filled by locate_code(). */
void locate_task(const struct worker *worker, const struct backtrace *trace, char *ret_name,
		 uint32_t size);
