/* SPDX-License-Identifier: MIT */
/*
 * common/low_latency.h - for threads that sleep nearly always, and have to be run soon once woken
 *
 * While workers use all CPUs, a thread that hands a job, a cancel or a deadline on is woken on
 * the CPU of one of them. An urgent one has two things that let it go first there, and not at the
 * next tick, up to 4 ms later:
 * - a short time slice: from kernel 6.12 on a thread of the usual policy may say how long it
 *   wants to run at a time (sched_setattr(2), sched_runtime), and one that asks for little goes
 *   before those that run in long slices. Older kernels take the call and ignore the number.
 * - a low nice value: with it the thread's share of the CPU is so large that it is hardly ever
 *   ahead of that share, and one that is ahead has to wait. Allowed to root, and as far as
 *   RLIMIT_NICE (systemd's LimitNICE=) says.
 * Where one is not allowed it stays as it was.
 *
 * Threads: the manager, for itself alone: io_uring's workers are not to make a client's pages
 * before workers run tasks. A pool that starts is waited for: its process is urgent from the
 * beginning, and what the manager had before is handed on to it (pool_process.c). Modules' threads
 * are not, so it gives that back while it loads them; then it is urgent again, before it loses what
 * allows it, and its dispatcher inherits that. All other threads of the pool give it back as they
 * begin.
 */
#pragma once

#include <stdbool.h>

/* Makes the calling thread urgent, if its policy is the usual one. alone: what it starts is not.
 * Of one thread of a process. */
void low_latency_begin(bool alone);

/* The calling thread, that one or one that has inherited it, is as that one was before. In a child
 * that was forked, too. Async-signal-safe. */
void low_latency_end(void);

/* In a child that an urgent thread has forked: the program that it is to become is urgent, and
 * calls low_latency_take_over() on its first thread, for whose low_latency_end() it leaves a word
 * in the environment. */
void low_latency_hand_over(void);
void low_latency_take_over(void);

/* Before root becomes another user: the process may be urgent (RLIMIT_NICE), until
 * low_latency_settle() says that no thread of it becomes so any more. Async-signal-safe. */
void low_latency_allow(void);
void low_latency_settle(void);
