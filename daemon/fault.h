/* SPDX-License-Identifier: MIT */
/*
 * daemon/fault.h - a task that ends the pool: who is to blame, for the manager to read
 *
 * WHAT IT IS
 *   A task is to blame for a fault of its thread, for a signal that it raises for its thread, for
 *   abort(), exit() in all its forms, pthread_exit(), and for hanging (hang.h). For a signal that
 *   was sent to the process nobody is: it comes to any thread. Nor for a system call that ends the
 *   process by itself, nor for what a thread does that is no worker: each job that runs then may be
 *   to blame, and where a module has threads of its own none need be, also if only one runs. So
 *   recover.c suspects them all, and blames none. Nor for a SIGBUS in the segment of a client or
 *   tenant that is not its job's.
 *
 * WHO CALLS IT, ON WHICH THREAD
 *   fault_begin(), fault_end(): the pool's main thread, before there are workers and after.
 *   fault_begin_thread(), fault_end_thread(): each thread that runs tasks, before and after.
 *   The rest happens on the thread that a signal comes to, or that calls exit() or fork().
 *
 * WHAT HAPPENS IF A PEER DIES HERE
 *   A fiber in a section (fiber_block.c) runs on no worker's thread: the job is left as well then.
 *   This is where the pool dies: worker, signal and address are left in the arena, for recover.c;
 *   signal 0 if there is none. The first one to come is blamed.
 */
#ifndef DAEMON_FAULT_H
#define DAEMON_FAULT_H

#include <stdint.h>

struct fiber;
struct pool;
struct worker;

/* Catches what ends the process, from now on, and blocks signals that the manager's process gets as
 * well: on this thread and those that it starts. */
void fault_begin(struct pool *pool);
/* Whatever comes now is nobody's. */
void fault_end(void);

/* The calling thread runs tasks from now on. It gets a stack for the handler: its own may be what
 * has ended. Returns what fault_end_thread() takes. */
void *fault_begin_thread(void);
void fault_end_thread(void *stack);

/* This job of a row, which the worker ran when it was looked at, is to end and has not got on for
 * so many ns: ends the process, and it is to blame. The dispatcher. */
void fault_hang(struct pool *pool, uint32_t worker, uint32_t row, uint32_t generation,
		uint64_t held_ns) __attribute__((noreturn));

/* A fiber that the worker has just run has written below its stack, where no guard is: ends the
 * process, and its job is to blame. */
void fault_overflow(struct worker *worker, const struct fiber *fiber) __attribute__((noreturn));

#endif
