/* SPDX-License-Identifier: MIT */
/*
 * worker_thread.h - the main loop of a worker's thread
 *
 * LATE WORKERS
 *   A pool in a program begins with some of its workers' threads. The dispatcher creates the thread
 *   of another worker when that one is woken for the first time.
 *   T1. Until its thread begins, a worker is absent, and a sleeping worker in all other respects:
 *       its word is SLEEPING, and its bit is set in the state of its group (lazy_policy.h). A
 *       thread that wakes it changes the word to LOOKING, makes a full fence and wakes the
 *       dispatcher if that one sleeps. The dispatcher announces its sleep, makes a full fence and
 *       reads the words of workers without a thread. So one of the two sees the other, and no wake
 *       is lost.
 *   T2. A client that finds SLEEPING cannot wake an absent worker by its futex. It calls
 *       worker_wake(), as threads of the pool do (struct waker_local).
 *   T3. If its thread cannot be created, the dispatcher takes the woken worker offline in its place
 *       (worker_stay_absent()), as cpu_parking.h does: so another worker is woken for the work. It
 *       tries again after WORKER_AGAIN.
 *   T4. Its thread begins like one that was woken from its sleep (worker_arrive()): it makes the
 *       transition and passes on its debt before it searches. Then it turns busy without work, as
 *       all workers begin: it has no debt of its own, because no fork needs a thief yet (L1).
 *   T5. A thread that reads that a worker is not absent sees its thread's handle.
 */
#pragma once

#include <stdint.h>

#include "common/clock.h"

#define WORKER_AGAIN NSEC_PER_SEC

struct fk_entry;
struct pool;
struct worker;

/* Runs jobs and strands until the pool stops. The worker's thread. */
void worker_loop(struct worker *worker);

/* Prepares a worker's memory. entries: for the two deques. */
void worker_init(struct worker *worker, struct pool *pool, uint32_t index,
		 struct fk_entry *frame_entries, uint64_t n_frame_entries,
		 struct fk_entry *root_entries);

/* Before there are threads: makes the worker absent. */
void worker_begin_asleep(struct worker *worker);

/* Creates the worker's thread. Returns 0 or a negative errno. */
int worker_start(struct worker *worker);

/* The dispatcher: creates the threads of workers that were woken. Returns when to call it again,
 * CLOCK_MONOTONIC; 0: after a wake. */
uint64_t workers_start(struct pool *pool);

/* Frees the worker's heap memory, after its thread has ended. */
void worker_fini(struct worker *worker);

/* The worker's thread: finds work and runs it until the pool stops. */
void *worker_main(void *worker);
