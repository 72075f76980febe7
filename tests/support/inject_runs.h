/* SPDX-License-Identifier: MIT */
/*
 * inject_runs.h - runs in each of which one system call fails
 *
 * A run is one failure: the n-th call of a kind, in the manager, in the pool or in a client, fails
 * with a possible error. n starts at 1 and increases until a run has no n-th call. The check runs a
 * sample of n, to limit its time. `make inject` runs all of them, and more kinds of calls with more
 * errors. struct run defines the actions of a run and the expected results.
 *
 * Threads: check_inject.c, between two runs. CHECK_TIMEOUT is defined before.
 *
 * Environment: INJECT is a part of a run's name ("pool restart mmap ENOMEM") and selects runs;
 * INJECT_NTH selects one n.
 */
#pragma once

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "common/util.h"
#include "daemon/manager/loop_inject.h"
#include "tests/support/check_unit.h"
#include "tests/support/inject.h"
#include "tests/support/visitor.h"

/* Process whose call fails; RING: operations of io_uring for the manager. */
enum who {
	MANAGER = 1,
	POOL = 2,
	CLIENT = 4,
	RING = 8,
};

enum when {
	USE,
	RESTART,
	RELOAD,
	TRACE,
	LIFE,
};

/* Calls that can fail: name and number (RING: enum loop_inject_kind), processes, and possible
 * errors; more: for `make inject` only. */
static const struct call {
	const char *name;
	long number;
	unsigned int whose;
	int errors[6];
	bool more;
} calls[] = {
	{ "memfd_create", SYS_memfd_create, MANAGER, { ENOMEM, EMFILE, ENFILE } },
	{ "mmap", SYS_mmap, MANAGER | POOL | CLIENT, { ENOMEM, EAGAIN } },
	{ "ftruncate", SYS_ftruncate, MANAGER, { ENOSPC, EINTR, ENOMEM } },
	{ "fallocate", SYS_fallocate, MANAGER, { ENOSPC, EINTR, ENOMEM } },
	{ "futex", SYS_futex, MANAGER | POOL | CLIENT, { EINTR, EAGAIN } },
	{ "waitv", SYS_futex_waitv, POOL, { ENOMEM, EINTR, EAGAIN, ENOSYS } },
	{ "accept", SYS_accept4, MANAGER, { EMFILE, ENFILE, ENOMEM, EINTR, ECONNABORTED } },
	{ "recvmsg", SYS_recvmsg, MANAGER | POOL | CLIENT, { ENOMEM, EAGAIN, EINTR, ENOBUFS } },
	{ "sendmsg", SYS_sendmsg, MANAGER, { ENOBUFS, EAGAIN, EINTR, ENOMEM, ETOOMANYREFS } },
	{ "sendmsg", SYS_sendmsg, POOL | CLIENT, { ENOBUFS, EAGAIN, EINTR, ENOMEM } },
	/* EPERM: a seccomp filter of the system. */
	{ "timer_create", SYS_timer_create, POOL, { EAGAIN, ENOMEM, EPERM } },
	{ "timer_settime", SYS_timer_settime, POOL, { EPERM, EINVAL } },
	{ "io_uring_setup", SYS_io_uring_setup, MANAGER, { ENOMEM, EPERM, ENOSYS, EMFILE } },
	{ "io_uring_enter", SYS_io_uring_enter, MANAGER, { EINTR, EAGAIN, EBUSY }, true },
	{ "io_uring_register", SYS_io_uring_register, MANAGER, { ENOMEM, EINVAL }, true },
	{ "clone", SYS_clone, MANAGER | POOL, { EAGAIN, ENOMEM }, true },
	{ "clone3", SYS_clone3, MANAGER | POOL | CLIENT, { EAGAIN, ENOMEM }, true },
	{ "execve", SYS_execve, POOL, { ENOMEM, EAGAIN }, true },
	{ "socket", SYS_socket, MANAGER | CLIENT, { EMFILE, ENFILE, ENOBUFS }, true },
	{ "socketpair", SYS_socketpair, MANAGER, { EMFILE, ENFILE, ENOMEM }, true },
	{ "connect", SYS_connect, CLIENT, { EINTR, EAGAIN, ECONNREFUSED }, true },
	{ "getsockopt", SYS_getsockopt, MANAGER, { EMFILE, ENOMEM }, true },
	{ "setsockopt", SYS_setsockopt, MANAGER | CLIENT, { ENOMEM, ENOPROTOOPT }, true },
	{ "pidfd_open", SYS_pidfd_open, MANAGER, { EMFILE, ENFILE, ENOMEM }, true },
	{ "eventfd2", SYS_eventfd2, MANAGER | CLIENT, { EMFILE, ENOMEM }, true },
	{ "signalfd4", SYS_signalfd4, MANAGER, { EMFILE, ENOMEM }, true },
	{ "openat", SYS_openat, MANAGER | POOL, { EMFILE, ENFILE, ENOMEM }, true },
	{ "fcntl", SYS_fcntl, CLIENT, { ENOMEM }, true },
	{ "fchmod", SYS_fchmod, MANAGER, { EPERM }, true },
	/* Not in the pool: hwloc leaks a descriptor of a directory. */
	{ "fstat", SYS_newfstatat, MANAGER | CLIENT, { ENOMEM }, true },
	/* EIO is permanent: such a module is left out. */
	{ "read", SYS_read, MANAGER, { EINTR, ENOMEM, EIO }, true },
	{ "read", SYS_read, POOL, { EINTR, ENOMEM }, true },
	{ "pread", SYS_pread64, MANAGER | POOL | CLIENT, { EINTR, ENOMEM }, true },
	{ "pwrite", SYS_pwrite64, MANAGER, { ENOSPC, EINTR, ENOMEM }, true },
	{ "write", SYS_write, MANAGER | POOL, { ENOSPC, EAGAIN }, true },
	{ "poll", SYS_poll, MANAGER | POOL, { EINTR, ENOMEM }, true },
	{ "ppoll", SYS_ppoll, POOL, { EINTR, ENOMEM }, true },
	{ "recvfrom", SYS_recvfrom, MANAGER | CLIENT, { EINTR, ENOMEM }, true },
	{ "sendto", SYS_sendto, MANAGER, { EAGAIN, ENOBUFS }, true },
	{ "madvise", SYS_madvise, POOL | CLIENT, { EAGAIN, ENOMEM }, true },
	{ "mbind", SYS_mbind, POOL, { ENOMEM, EPERM }, true },
	{ "membarrier", SYS_membarrier, POOL, { EPERM, ENOMEM }, true },
	{ "mprotect", SYS_mprotect, POOL | CLIENT, { ENOMEM }, true },
	{ "mremap", SYS_mremap, POOL, { ENOMEM }, true },
	{ "prctl", SYS_prctl, MANAGER | POOL, { EPERM }, true },
	{ "prlimit", SYS_prlimit64, MANAGER | POOL, { EPERM }, true },
	{ "getrandom", SYS_getrandom, MANAGER, { EINTR, ENOSYS }, true },
	{ "sched_setaffinity", SYS_sched_setaffinity, POOL, { EINVAL, EPERM }, true },
	{ "waitid", SYS_waitid, MANAGER, { EINTR }, true },
	{ "fallocate", LOOP_INJECT_FALLOCATE, RING, { ENOSPC, ENOMEM, EINTR } },
	{ "poll", LOOP_INJECT_POLL, RING, { ENOMEM, EINTR } },
	{ "timeout", LOOP_INJECT_TIMER, RING, { ENOMEM } },
	{ "memory", LOOP_INJECT_ARM, RING, { ENOMEM } },
	{ "entry", LOOP_INJECT_ENTRY, RING, { ENOMEM } },
};

static bool all; /* `make inject` */
static struct inject inject;
static struct loop_inject *faults; /* a file that the manager maps */

static struct tally {
	uint32_t runs;	 /* runs in which a call has failed */
	uint32_t right;	 /* included in runs: no caller noticed it */
	uint32_t errors; /* a caller got an error, or forkd did not start */
	uint32_t ends;
} tally;

static char run_name[128];

#define SAY(condition, ...)                                                                        \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			(void)fprintf(stderr, "%s: ", run_name);                                   \
			(void)fprintf(stderr, __VA_ARGS__);                                        \
			(void)fputc('\n', stderr);                                                 \
			ck_abort_msg("%s", run_name);                                              \
		}                                                                                  \
	} while (0)

/* One kind of run. */
struct run {
	enum who who;
	enum when when;
	void (*before)(void); /* or NULL */
	enum answer (*during)(enum when when);
	void (*after)(void);
};

static inline void arm(enum who who, const struct call *call, int err, uint64_t n, uint64_t times)
{
	bool ring = who == RING;

	/* Also armed if no call is to fail: it counts naps. */
	inject_arm(&inject, who == POOL ? INJECT_OTHERS : INJECT_FIRST, ring ? -1 : call->number,
		   err, n, times);
	if (ring)
		loop_inject_arm(faults, (enum loop_inject_kind)call->number, -err, (uint32_t)n,
				(uint32_t)times);
}

/* Returns how many calls have failed. */
static inline uint64_t disarm(enum who who, const struct call *call)
{
	uint64_t n = inject_disarm(&inject);
	uint32_t seen, nth;

	if (who != RING)
		return n;
	seen = atomic_load(&faults->kinds[call->number].seen);
	nth = atomic_exchange(&faults->kinds[call->number].nth, 0);
	return seen < nth ? 0
			  : min(seen - nth + 1, atomic_load(&faults->kinds[call->number].times));
}

/* Returns true if a call of the run has failed. */
static inline bool run_once(const struct run *run, const struct call *call, int err, uint64_t n)
{
	enum answer answer;
	bool failed;

	if (run->before)
		run->before();
	arm(run->who, call, err, n, 1);
	answer = run->during(run->when);
	failed = disarm(run->who, call) != 0;
	SAY(answer != WRONG, "wrong");
	SAY(failed || answer == RIGHT, "an error although nothing has failed");
	run->after();
	tally.runs += failed;
	tally.right += failed && answer == RIGHT;
	tally.errors += answer == ERROR;
	return failed;
}

static inline void name_run(enum who who, enum when when, const struct call *call, int err,
			    uint64_t n)
{
	static const char *const whose[] = {
		[MANAGER] = "manager", [POOL] = "pool", [CLIENT] = "client", [RING] = "ring"
	};
	static const char *const times[] = { "use", "restart", "reload", "trace", "life" };

	(void)snprintf(run_name, sizeof(run_name), "%s %s %s %s %" PRIu64, whose[who], times[when],
		       call->name, strerrorname_np(err), n);
}

/* Returns true if INJECT selects this run. */
static inline bool is_wanted(void)
{
	const char *part = getenv("INJECT");

	return !part || strstr(run_name, part);
}

/* Runs a sample of n, with growing distances, unless all are wanted. */
static inline void run_series(const struct run *run, const struct call *call, int err)
{
	const char *nth = getenv("INJECT_NTH");
	uint64_t n = nth ? strtoull(nth, NULL, 10) : 1;

	do {
		name_run(run->who, run->when, call, err, n);
		if (!is_wanted())
			return;
		/* The last run is the one without a failure. */
		(void)fprintf(stderr, "%s\n", run_name);
	} while (run_once(run, call, err, n) && !nth && (n += all || n < 3 ? 1 : n));
}

/* Returns true if the call can fail here with its error of this index. */
static inline bool has_error(const struct call *call, enum who who, uint32_t e)
{
	if (!(call->whose & who) || !call->errors[e] || (!all && (call->more || e)))
		return false;
	/* A sanitizer's allocator would end the process. */
	return !(daemon_sanitized() && streq(call->name, "mmap"));
}

/* Returns true if any run is selected; otherwise nothing needs to be started. */
static inline bool are_wanted(enum who who, enum when when)
{
	for (uint32_t i = 0; i < ARRAY_SIZE(calls); i++) {
		for (uint32_t e = 0; has_error(&calls[i], who, e); e++) {
			name_run(who, when, &calls[i], calls[i].errors[e], 1);
			if (is_wanted())
				return true;
		}
	}
	return false;
}

static inline void run_all(const struct run *run)
{
	for (uint32_t i = 0; i < ARRAY_SIZE(calls); i++)
		for (uint32_t e = 0; has_error(&calls[i], run->who, e); e++)
			run_series(run, &calls[i], calls[i].errors[e]);
	if (tally.runs)
		(void)fprintf(stderr,
			      "%u runs: %u right, %u told of an error, of these %u ends of forkd\n",
			      tally.runs, tally.right, tally.errors, tally.ends);
}
