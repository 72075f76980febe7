/* SPDX-License-Identifier: MIT */
/*
 * inject.h - the n-th system call of a kind, in a process, fails as the test says
 *
 * A process puts itself, and all that it starts, under a filter of seccomp(2) that asks another one
 * about the calls of a table: the supervisor, a child of the test. It lets them pass, except the
 * one that the test has armed. Unlike strace it can tell a futex that waits from one that wakes,
 * and one process from the next; leaves the process free to be traced (by a sanitizer
 * that looks for leaks); and needs no right to trace. What io_uring does in the kernel is no call,
 * and is not seen: daemon/manager/loop_inject.h.
 *
 * Threads: inject_enter(): the process that is to be watched, before it has threads. The rest: the
 * test, or that process itself.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum inject_who {
	INJECT_FIRST,  /* the process that has entered */
	INJECT_OTHERS, /* all others, counted together: those that it starts */
};

/* What the test and the supervisor share. */
struct inject_shared {
	_Atomic int32_t call;	/* SYS_*, -1 for none; set last */
	_Atomic uint32_t who;	/* enum inject_who */
	_Atomic int32_t error;	/* an errno */
	_Atomic uint64_t nth;	/* which of these calls, from 1 on */
	_Atomic uint64_t times; /* so many in a row */
	_Atomic uint64_t seen;	/* so many since */
	_Atomic uint64_t naps;	/* as many times they have slept for a time since */
	_Atomic int32_t first;	/* the process that has entered */
};

struct inject {
	struct inject_shared *shared;
	pid_t supervisor;
	int ends[2]; /* of a socket: the process's, and the supervisor's */
};

/* NULL, or why it cannot be done here. Tries it. */
const char *inject_lacks(void);

/* Starts a supervisor, for one inject_enter(). Fails the test if it cannot. */
void inject_begin(struct inject *i);

/* From now on this process is watched. Returns 0 or a negative errno. */
int inject_enter(struct inject *i);

/*
 * So many calls, from the nth on from now, fail with error, and are not made; the later ones are
 * again. Of a process that executes another program only what main() does counts (it begins as
 * forkd's does, by ignoring SIGPIPE), not what the loader needs. Of futex(2) only waits are
 * counted: a wake fails for a wrong address alone.
 */
void inject_arm(struct inject *i, enum inject_who who, long call, int error, uint64_t nth,
		uint64_t times);

/* How many calls have failed. None fails any more. */
uint64_t inject_disarm(struct inject *i);

/* How often they have slept since inject_arm(), by nanosleep(2). */
uint64_t inject_naps(const struct inject *i);

/* Waits until all that were watched have ended, and then for the supervisor. */
void inject_end(struct inject *i);
