/* SPDX-License-Identifier: MIT */
/*
 * common/urgent.h - for threads that sleep nearly always, and have to be run soon once woken
 *
 * WHAT IT IS
 *   While workers use all CPUs, a thread that hands a job, a cancel or a deadline on is woken on
 *   the CPU of one of them. An urgent one has two things that let it go first there, and not at the
 *   next tick, up to 4 ms later:
 *   - a short time slice: from kernel 6.12 on a thread of the usual policy may say how long it
 *     wants to run at a time (sched_setattr(2), sched_runtime), and who asks for little goes before
 *     those that run in long slices. Older kernels take the call and ignore the number.
 *   - a low nice value: with it the thread's share of the CPU is so large that it is hardly ever
 *     ahead of that share, and who is ahead has to wait. Allowed to root, and as far as RLIMIT_NICE
 *     (systemd's LimitNICE=) says.
 *   Where one is not allowed it stays as it was.
 *
 * WHO CALLS IT, ON WHICH THREAD
 *   The manager, the pool's channel thread and its dispatcher, for themselves. Not workers: a new
 *   thread or process inherits both, so they are given back before workers are started, and asked
 *   for again. A pool that starts is waited for: it is urgent from the beginning, and the manager
 *   that forks it hands on what it had before (poolproc.c).
 */
#ifndef COMMON_URGENT_H
#define COMMON_URGENT_H

/* Makes the calling thread urgent, if its policy is the usual one. */
void urgent_begin(void);

/* It is as before. In a child that the thread has forked, too. Async-signal-safe. */
void urgent_end(void);

/* In such a child: the program that it is to become is urgent, too, and calls urgent_take_over() on
 * its first thread, for whose urgent_end() it leaves a word in the environment. */
void urgent_hand_over(void);
void urgent_take_over(void);

#endif
