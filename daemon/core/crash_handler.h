/* SPDX-License-Identifier: MIT */
/*
 * crash_handler.h - a task that ends the pool: the job to blame, for the manager to read
 *
 * A task is to blame for a fault of its thread, for a signal that it raises for its thread, for
 * abort(), exit() in all its forms, pthread_exit(), for any other end of its thread, and for
 * hanging (hang_detector.h). For a signal that was sent to the process no task is: it comes to any
 * thread. Nor for a system call that ends the process by itself, nor for what a thread does that is
 * no worker: each job that runs then may be to blame, and where a module has threads of its own
 * none need be, also if only one runs. So job_recovery.c suspects them all, and blames none. Nor
 * for a SIGBUS in the segment of a client or tenant that is not its job's. Nor for anything once
 * memory is gone that the pool cannot be without: a task has unmapped it, and any thread may be the
 * first to miss it. That is: forkd, the C library, modules, arena, board, segments of clients, and
 * stacks of threads. Memory that a task has written over, or has made inaccessible, is not
 * recognized.
 *
 * Threads: fault_begin(), fault_end(): the pool's main thread, before there are workers and after.
 * fault_begin_thread(), fault_end_thread(): each thread that runs tasks, and the dispatcher, before
 * and after. The rest happens on the thread that a signal comes to, or that calls exit() or fork();
 * and on the watch, a thread that fault_begin() makes.
 *
 * THREADS THAT END
 *   exit(2), called past the C library, ends one thread, and no handler runs. When a thread ends,
 *   the kernel clears a word and wakes a thread that sleeps on it (set_tid_address(2)). The C
 *   library uses that for pthread_join(). Here all threads give the kernel one common word, on
 *   which the watch sleeps; before a thread ends as it should, it gives back the C library's. The
 *   watch finds the thread that is gone, blames the job that it ran, and ends the process. This
 *   needs no filter, so it works whatever `sandbox` is. It costs nothing while no thread ends.
 *   Only a kernel with CONFIG_CHECKPOINT_RESTORE returns the address of the C library's word.
 *   Without it such an end is not noticed here. Other threads of the process are not watched: the
 *   poller's, and those of modules.
 *
 * If a peer dies: a fiber in a section (blocking_section.c) runs on no worker's thread: the job is
 * left as well then. This is where the pool dies: worker, signal and address are left in the arena,
 * for job_recovery.c; signal 0 if there is none. The first one to come is blamed.
 */
#pragma once

#include <stdint.h>

struct fault_thread;
struct fiber_head;
struct pool;
struct worker;

/* Catches what ends the process or a thread of it, from now on, and blocks signals that the
 * manager's process gets as well: on this thread and those that it starts. Returns 0, or a negative
 * errno: there is no thread for it. */
int fault_begin(struct pool *pool);

/* The pool has loaded more modules: handlers know them from now on. The channel's thread. */
void fault_know_objects(struct pool *pool);
/* What comes now is no job's. */
void fault_end(void);

/*
 * The calling thread is the pool's from now on, and must not end before fault_end_thread(). It gets
 * a stack for the handler: its own may be what has ended.
 * worker: that it is, NULL for none. fiber: where the fiber that it runs is stored; NULL: it runs
 * none. Returns what fault_end_thread() takes; NULL if there is no memory for it.
 */
struct fault_thread *fault_begin_thread(const struct worker *worker,
					struct fiber_head *const *fiber);
void fault_end_thread(struct fault_thread *thread);

/* This job of a row, which the worker ran when it was looked at, is to end and has not got on for
 * so many ns: ends the process, and it is to blame. The dispatcher. */
void fault_hang(struct pool *pool, uint32_t worker, uint32_t row, uint32_t generation,
		uint64_t held_ns) __attribute__((noreturn));

/* A fiber that the worker has just run has written below its stack, where no guard is: ends the
 * process, and its job is to blame. */
void fault_overflow(struct worker *worker, const struct fiber_head *fiber)
	__attribute__((noreturn));
