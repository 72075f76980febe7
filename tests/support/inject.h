/* SPDX-License-Identifier: MIT */
/*
 * inject.h - the n-th system call of a kind fails in a process, as the test requests
 *
 * A process puts itself, and all processes that it starts, under a seccomp(2) filter. The filter
 * sends the calls of a table to a supervisor, a child of the test, which lets them pass, except the
 * armed one. Unlike strace it distinguishes a futex wait from a wake, and one process from another.
 * It needs no right to trace, and a leak sanitizer can trace the process. io_uring's work in the
 * kernel is not a call and is not seen: see daemon/manager/loop_inject.h.
 *
 * Threads: inject_enter(): the process to watch, before it has threads. The rest: the test or that
 * process.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum inject_who {
	INJECT_FIRST,  /* the process that has entered */
	INJECT_OTHERS, /* all others, counted together: the processes that it starts */
};

/* Memory shared by the test and the supervisor. */
struct inject_shared {
	_Atomic int32_t call;	/* SYS_*, -1 for none; set last */
	_Atomic uint32_t who;	/* enum inject_who */
	_Atomic int32_t error;	/* an errno */
	_Atomic uint64_t nth;	/* which of these calls, from 1 */
	_Atomic uint64_t times; /* number of calls in a row that fail */
	_Atomic uint64_t seen;	/* calls seen since */
	_Atomic uint64_t naps;	/* nanosleep(2) calls since, counted in the same way */
	_Atomic int32_t first;	/* the process that has entered */
};

struct inject {
	struct inject_shared *shared;
	pid_t supervisor;
	int ends[2]; /* of a socket: the process's end and the supervisor's */
};

/* Returns NULL, or why injection does not work here; tries it. */
const char *inject_lacks(void);

/* Starts a supervisor for one inject_enter(). Fails the test on error. */
void inject_begin(struct inject *i);

/* Puts this process under the filter. Returns 0 or a negative errno. */
int inject_enter(struct inject *i);

/* From the nth call on, `times` calls fail with error and are not made; later calls work again. In
 * a process that executes another program, only calls after the start of main() count, not those of
 * the loader. (forkd's main() begins by ignoring SIGPIPE.) Of futex(2) only waits count: a wake
 * fails only for a wrong address. */
void inject_arm(struct inject *i, enum inject_who who, long call, int error, uint64_t nth,
		uint64_t times);

/* Disarms. Returns how many calls have failed. */
uint64_t inject_disarm(struct inject *i);

/* Returns the number of nanosleep(2) calls since inject_arm(). */
uint64_t inject_naps(const struct inject *i);

/* Waits until all watched processes have ended, and then for the supervisor. */
void inject_end(struct inject *i);
