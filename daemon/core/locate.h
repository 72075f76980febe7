/* SPDX-License-Identifier: MIT */
/*
 * locate.h - where a thread was when its task ended the pool: code, and the newest task
 *
 * Threads: crash_handler.c, on the thread that ends the pool, in a handler for a signal or in
 * exit(). sample.c, on a worker, in the handler of SAMPLE_SIGNAL.
 *
 * If a peer dies: the task may have damaged what is read here, so a second fault is possible. It
 * ends the process at once. Each result is stored as soon as it is known, and what was stored
 * before stays.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

#include "shm/backtrace.h"

struct worker;

/* True if forkd's own code was interrupted by the handler's signal. */
bool locate_is_own(const ucontext_t *context);

/*
 * Stores the place of the calling thread, and those of its callers. context: of the signal handler
 * that calls this, NULL if none does: then the newest places, which are forkd's own, are left out.
 * A program counter that is in no code is the first place, and the caller is the second one.
 */
void locate_code(struct backtrace *ret_trace, ucontext_t *context);

/*
 * Stores the name of the newest task that the worker runs: a child, or a child of that, of the task
 * that its job began with. Empty if it is not known. size: of the name, bytes.
 * trace: what locate_code() has stored.
 */
void locate_task(const struct worker *worker, const struct backtrace *trace, char *ret_name,
		 uint32_t size);
