/* SPDX-License-Identifier: MIT */
/*
 * daemon/slice.h - a short time slice, for threads that sleep and have to be run soon once woken
 *
 * WHAT IT IS
 *   From kernel 6.12 on a thread of the usual policy may say how long it wants to run at a time
 *   (sched_setattr(2), sched_runtime). That gives it no more CPU time, but an earlier turn: who
 *   asks for little goes before those that run in long slices, as workers do. Older kernels take
 *   the call and ignore the number; where it is not allowed nothing changes.
 *
 * WHO CALLS IT, ON WHICH THREAD
 *   The manager, the pool's channel thread and its dispatcher, for themselves. Not workers: a new
 *   thread or process inherits the slice, so it is asked for after they were started, and given
 *   back before a pool is (poolproc.c).
 */
#ifndef DAEMON_SLICE_H
#define DAEMON_SLICE_H

#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SLICE_SHORT   UINT64_C(100000) /* ns, the shortest there is */
#define SLICE_DEFAULT UINT64_C(0)

/* As the kernel has it; its own header does not go together with libc's. */
struct slice_attr {
	uint32_t size;
	uint32_t policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime;
	uint64_t deadline;
	uint64_t period;
};

/* The calling thread's slice, if its policy is the usual one; all else stays. Async-signal-safe. */
static inline void slice_set(uint64_t ns)
{
	struct slice_attr attr = { .size = sizeof(attr) };

	if (syscall(SYS_sched_getattr, 0, &attr, sizeof(attr), 0) < 0 || attr.policy != 0)
		return;
	attr.runtime = ns;
	(void)syscall(SYS_sched_setattr, 0, &attr, 0);
}

#endif
