/* SPDX-License-Identifier: MIT */
/*
 * crash_handler.h - records which job's task ended the pool, for the manager to read
 *
 * A task is to blame for:
 * - a fault of its thread, or a signal that it raises for its thread,
 * - abort(), exit() in all its forms, pthread_exit(), and any other end of its thread,
 * - hanging (hang_detector.h).
 *
 * No task is blamed, and job_recovery.c suspects every running job, for:
 * - a signal that was sent to the process, which any thread may receive,
 * - a system call that ends the process without a handler,
 * - an action of a thread that is not a worker, such as a module's own thread,
 * - a SIGBUS in the segment of a client or tenant other than the job's,
 * - any fault after memory that the pool needs was unmapped: forkd, the C library, modules, arena,
 *   board, segments of clients, stacks of threads. A task unmapped it, but any thread may be the
 *   first to fault. Memory that was overwritten or made inaccessible is not recognized.
 *
 * Threads: fault_begin(), fault_end(): the pool's main thread, before there are workers and after.
 * fault_begin_thread(), fault_end_thread(): the dispatcher and each thread that runs tasks, before
 * and after. The rest runs on the thread that gets a signal or calls exit() or fork(), and on the
 * watch, a thread that fault_begin() makes.
 *
 * THREADS THAT END
 *   A direct system call exit(2) ends one thread, and no handler runs. The kernel then clears a
 *   word and wakes a thread that sleeps on it (set_tid_address(2)); the C library uses that for
 *   pthread_join(). Here all threads give the kernel one common word, on which the watch sleeps.
 *   Before a thread ends regularly, it restores the C library's word. The watch finds the thread
 *   that has gone, blames its job, and ends the process. This needs no system call filter, so it
 *   works without the sandbox, and costs nothing while no thread ends. Only a kernel with
 *   CONFIG_CHECKPOINT_RESTORE returns the address of the C library's word; without it such an end
 *   is not detected. The poller's thread and threads of modules are not watched.
 *
 * If a peer dies: the dying pool leaves worker, signal (0: none) and address in the arena for
 * job_recovery.c. A fiber in a section (blocking_section.c) runs on no worker's thread, so its job
 * is stored too. The first thread to claim is blamed.
 */
#pragma once

#include <stdint.h>

struct crash_hooks;
struct fault_thread;
struct fiber_head;
struct pool;
struct worker;

/* Catches events that end the process or one of its threads, from now on. Blocks signals that the
 * manager gets as well, on this thread and those that it starts. Returns 0, or a negative errno if
 * the watch cannot be started. */
int fault_begin(struct pool *pool);

/* Makes modules that the pool has loaded since known to the handlers. The channel's thread. */
void fault_know_objects(struct pool *pool);
/* From now on no job is blamed. */
void fault_end(void);

/* For pool->crash: the functions below. */
extern const struct crash_hooks crash_handler;

/*
 * Registers the calling thread, which must not end before fault_end_thread(). It gets an alternate
 * signal stack, because the fault may be an overflow of its own.
 * worker: the thread's, NULL: it is not a worker. fiber: where the fiber that it runs is stored;
 * NULL: it runs none. Returns the argument of fault_end_thread(); NULL if there is no memory.
 */
struct fault_thread *fault_begin_thread(const struct worker *worker,
					struct fiber_head *const *fiber);
void fault_end_thread(struct fault_thread *thread);
