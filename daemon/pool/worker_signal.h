/* SPDX-License-Identifier: MIT */
/*
 * worker_signal.h - the signal by which threads of a pool interrupt its workers
 *
 * The handler runs on a worker, between any two instructions of a task or of the runtime. It
 * publishes forked children below a long leaf (work_search.c, ASKING), answers the hang detector
 * (hang_detector.h), and handles the slice timer (slice_signal.h). The number of the signal is in
 * struct pool, where all senders read it. The pool process uses WORKER_SIGNAL. A pool in a
 * program's own process takes a real-time signal that the program does not use, or none.
 *
 * WITHOUT A SIGNAL
 *   All results are the same. What a task forks is published at the task's next fork, call or join
 *   after a steal request. So these times have no bound except that of the task itself:
 *   - Forked children of a task in a long leaf stay hidden until the leaf has ended and the task
 *     forks, joins or returns. At most POLICY_PUBLIC are public before. With a signal this takes
 *     POLICY_SIGNAL_MAX, and the time until a thief searches.
 *   - What a fiber has spawned stays hidden until it spawns again or leaves its worker.
 *   - A slice ends by a request of the dispatcher, instead of a timer of the worker's own. The task
 *     takes it at its next fork, as before, but the dispatcher must get a CPU first.
 *   - The hang detector counts only the CPU time of a task, not the time for which it sleeps.
 *
 * IN A PROGRAM'S OWN PROCESS
 *   The handler calls no other handler, and does nothing on a thread that is no worker. While the
 *   pool runs, the program must not use the signal. A worker of a pool with fibers needs an
 *   alternate signal stack (sigaltstack(2)), because stacks of fibers are small.
 *
 * Threads: worker_signal_begin(): a worker. The rest: one thread, before there are workers and
 * after.
 */
#pragma once

#include <signal.h>
#include <stdbool.h>

struct pool;

/* Installs the handler of this signal, for the process, and makes it the signal of the pool. False:
 * the kernel refuses it; then the pool has none. */
bool worker_catch_signal(struct pool *pool, int signo);

/* Does the same with the first free one of the real-time signals above SIGRTMIN +
 * WORKER_SIGNALS_LEFT. A signal is free if its action is the default, and it is not in waited: the
 * signals that the program blocks, because it may wait for them by sigwait(3). False: none is free;
 * then the pool has none. */
bool worker_catch_free_signal(struct pool *pool, const sigset_t *waited);

/* Lower real-time signals, which programs choose by hand. */
#define WORKER_SIGNALS_LEFT 8

/* Sets the action of the pool's signal to the default, unless it is no longer the handler of
 * workers. The pool has no signal then. No timer or thread may send it any more. */
void worker_release_signal(struct pool *pool);

/* Lets the calling worker's thread get the signal, which its creator may have blocked. */
void worker_signal_begin(struct pool *pool);
