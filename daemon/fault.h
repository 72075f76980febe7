/* SPDX-License-Identifier: MIT */
/*
 * daemon/fault.h - a task that ends the pool: who is to blame, for the manager to read
 *
 * WHO CALLS IT, ON WHICH THREAD
 *   fault_begin(), fault_end(): the pool's main thread, before there are workers and after.
 *   fault_stack_begin(), fault_stack_end(): each worker's thread, before and after it runs tasks.
 *   The rest happens on the thread that a signal comes to, or that calls exit() or fork().
 *
 * WHAT HAPPENS IF A PEER DIES HERE
 *   This is where the pool dies. The handler leaves the worker, signal and address in the arena,
 *   and lets the signal kill the process; recover.c reads it.
 */
#ifndef DAEMON_FAULT_H
#define DAEMON_FAULT_H

struct pool;

/* Catches what ends the process, from now on, and blocks signals that the manager's process gets as
 * well: on this thread and those that it starts. */
void fault_begin(struct pool *pool);
/* Whatever comes now is nobody's. */
void fault_end(void);

/* A stack for the handler, for the calling thread: its own may be what has ended. Returns what
 * fault_stack_end() frees. */
void *fault_stack_begin(void);
void fault_stack_end(void *stack);

#endif
