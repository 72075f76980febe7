/* SPDX-License-Identifier: MIT */
/*
 * common/low_latency.h - for threads that sleep nearly always, and must run soon after a wake
 *
 * While workers use all CPUs, a thread that passes on a job or a cancel is woken on the CPU of a
 * worker. An urgent thread has two settings that let it run there at once, not at the next tick, up
 * to 4 ms later:
 * - a short time slice: from kernel 6.12 on a thread of the normal policy may set its slice
 *   (sched_setattr(2), sched_runtime). A thread with a short slice precedes those with long ones.
 *   Older kernels accept the call and ignore the number.
 * - a low nice value: it makes the thread's share of the CPU so large that the thread is rarely
 *   ahead of that share; a thread that is ahead must wait. Permitted to root, and as far as
 *   RLIMIT_NICE (systemd's LimitNICE=) allows.
 * A setting that is not permitted does not change.
 *
 * Threads: the manager, for itself alone: io_uring's workers must not populate a client's pages
 * before workers run tasks. A starting pool is waited for. So its process is urgent from the
 * beginning, and gets the manager's original settings from it (pool_process.c). Threads of modules
 * must not be urgent, so the pool restores these settings while it loads modules. Then it becomes
 * urgent again, before it loses the permission, and its dispatcher inherits that. All other threads
 * of the pool restore the settings when they begin.
 */
#pragma once

#include <stdbool.h>

/* Makes the calling thread urgent, if its policy is the normal one. alone: its children are not
 * urgent. For one thread of a process. */
void low_latency_begin(bool alone);

/* Restores the original settings in the calling thread, which is that thread or has inherited from
 * it. Also in a forked child. Async-signal-safe. */
void low_latency_end(void);

/* In a child forked by an urgent thread: the program that it executes will be urgent. That program
 * calls low_latency_take_over() on its first thread, which reads from the environment what its
 * low_latency_end() must restore. */
void low_latency_hand_over(void);
void low_latency_take_over(void);

/* Before root becomes another user: permits the process to be urgent (RLIMIT_NICE), until
 * low_latency_settle(), after which no more threads can become urgent. Async-signal-safe. */
void low_latency_allow(void);
void low_latency_settle(void);
