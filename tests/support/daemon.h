/* SPDX-License-Identifier: MIT */
/*
 * daemon.h - a real private forkd for scenario tests
 *
 * Every function fails the running test (libcheck) on error, except those that return a status.
 * Tests wait for messages, process ends and counters. DAEMON_AWAIT polls a condition until it holds
 * or DAEMON_PATIENCE seconds have passed.
 */
#pragma once

#include <check.h>
#include <forkd/client.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>
#include <unistd.h>

#include "common/clock.h"
#include "shm/board.h"

#define DAEMON_PATIENCE 60u /* seconds */
#define DAEMON_POOLS	64u

/* Polls until the condition holds, every millisecond or without a pause. */
#define DAEMON_AWAIT(condition)	     DAEMON_AWAIT_(condition, 1)
#define DAEMON_AWAIT_BUSY(condition) DAEMON_AWAIT_(condition, 0)
#define DAEMON_AWAIT_(condition, ms)                                                               \
	do {                                                                                       \
		uint64_t await_end = clock_ns() + DAEMON_PATIENCE * NSEC_PER_SEC;                  \
                                                                                                   \
		while (!(condition)) {                                                             \
			ck_assert_msg(clock_ns() < await_end, "in vain: %s", #condition);          \
			(void)poll(NULL, 0, ms);                                                   \
		}                                                                                  \
	} while (0)

/* For client processes, where libcheck's assertions do not work: prints the location and exits. */
#define DAEMON_MUST(condition)                                                                     \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			(void)fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);      \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

/* Polls until the condition holds. There is no time limit as long as the number changes. */
#define DAEMON_AWAIT_AMID(condition, number)                                                       \
	do {                                                                                       \
		uint64_t await_seen = 0, await_since = clock_ns();                                 \
                                                                                                   \
		while (!(condition)) {                                                             \
			uint64_t await_now = (number);                                             \
                                                                                                   \
			if (await_now != await_seen)                                               \
				await_since = clock_ns();                                          \
			await_seen = await_now;                                                    \
			ck_assert_msg(clock_ns() < await_since + DAEMON_PATIENCE * NSEC_PER_SEC,   \
				      "in vain: %s", #condition);                                  \
			(void)poll(NULL, 0, 1);                                                    \
		}                                                                                  \
	} while (0)

struct daemon {
	pid_t manager;
	char directory[64]; /* has all files of this daemon, and is removed with it */
	char socket[96];
	char modules[96];
	char log[96];
	fk_client *watcher; /* a client that only reads the board */
	const struct board *board;
	int notify_fd;
	void (*entering)(void); /* called in forkd's process before exec; may be NULL */
	uint32_t n_pools;
	pid_t pools[DAEMON_POOLS]; /* that daemon_pool() has returned */
};

/* Creates the daemon's directory. Its module directory has every shipped module and the test
 * modules that are not broken. daemon_start() calls this; a test that changes the directory calls
 * it first. */
void daemon_prepare(struct daemon *d);

/* Creates the directory without modules. */
void daemon_prepare_bare(struct daemon *d);

/* Copies a file of the build tree into the module directory, under this name. */
void daemon_add_module(struct daemon *d, const char *path, const char *name);

/*
 * Arms a crash site (common/crash_site.h), before or after daemon_start(). Of all processes started
 * from now on, the first one that passes the site `after` times dies at its next pass. Has no
 * effect without --enable-crash-sites. daemon_is_mined(): true until a process has died there.
 * daemon_unmine() disarms it. While the daemon runs, the same site can be armed again; its next
 * pass kills.
 */
void daemon_mine(struct daemon *d, const char *site, uint32_t after);
bool daemon_is_mined(struct daemon *d);
void daemon_unmine(struct daemon *d);

/* Starts forkd with these options ("--workers=2", ..., NULL) and waits for READY=1. Socket, module
 * directory and log are in the daemon's directory. Tasks are never quarantined, unless the options
 * enable it. */
void daemon_start(struct daemon *d, ...) __attribute__((sentinel));

/* The same with a local pool in place of a daemon (tests/support/local.h). */
void daemon_start_local(struct daemon *d, const char *const *options);

/* The same, but returns the exit status if forkd ends before it is ready, and -1 if it runs. */
int daemon_try(struct daemon *d, const char *const *options);

/* The same, but does not open the board: the test is not a client. */
int daemon_launch(struct daemon *d, const char *const *options);

/* In a child: executes forkd with these options in a prepared daemon's directory. */
_Noreturn void daemon_exec(struct daemon *d, const char *const *options);

/* Removes the directory of a daemon that has ended, and clears *d. The functions below that end a
 * daemon call it. */
void daemon_discard(struct daemon *d);

/* Returns the running pool's pid; waits for one. */
pid_t daemon_pool(struct daemon *d);
/* Number of pools that have crashed. */
static inline uint64_t daemon_crashes(const struct daemon *d)
{
	return atomic_load(&d->board->manager.crashes);
}

/* Opens a new connection. */
fk_client *daemon_open(struct daemon *d);

/* Runs a job of fib:fib on its own connection and checks only its result. */
void daemon_call_fib(struct daemon *d);

/* Returns the sum over all workers of a counter of counters.def; name: such as jobs_done. */
uint64_t daemon_counter(struct daemon *d, const char *name);

/* Returns true if one line of the log has both texts. */
bool daemon_logged(struct daemon *d, const char *text, const char *and);

/* Returns the number of such lines. */
uint32_t daemon_count_lines(struct daemon *d, const char *text, const char *and);

/* Sends SIGTERM, waits until forkd has ended, and removes its directory. Checks that no process,
 * socket, or open or mapped segment is left. Returns the exit status. */
int daemon_stop(struct daemon *d);

/* Closes a connection and stops forkd, whose exit status must be 0. */
void daemon_stop_close(struct daemon *d, fk_client *c);

/* Kills the manager with SIGKILL and waits until its pool has ended as well; checks as above. */
void daemon_kill(struct daemon *d);

/* Does what `daemon_stop` does, but does not send the signal. */
int daemon_wait(struct daemon *d);

/* Returns zeroed memory that the test shares with the processes it forks from now on. */
void *daemon_share(size_t size);

/* For qsort() of times. */
int daemon_compare_u64(const void *a, const void *b);

/* Forks a client process, which dies with the test. Returns 0 in it. If the test runs as root, the
 * process runs as uid, unless that is DAEMON_UID. */
#define DAEMON_UID UINT32_MAX
pid_t daemon_fork(uint32_t uid);

/* Forks a client process that calls run() and exits with 0 if run() returns. */
pid_t daemon_client(void (*run)(void), uint32_t uid);

/* Starts a program with FORKD_SOCKET set; its output and errors go to a file in the daemon's
 * directory. argv[0]: a path below the build tree or an absolute one. */
pid_t daemon_spawn(struct daemon *d, const char *output, const char *const *argv);

/* Waits until a child has ended. Returns its status, or 256 + its signal. */
int daemon_reap(pid_t pid);

/* Kills a client process, which must still run, and waits until it has ended. */
void daemon_kill_client(pid_t pid);

/* Returns true if a child has ended; daemon_reap() returns its status. */
bool daemon_has_ended(pid_t pid);

/* Runs a program as daemon_spawn() does. Sets text to its output. Returns as daemon_reap(). */
int daemon_run(struct daemon *d, char *text, size_t size, const char *const *argv);

/* The same for `forkctl ARG...`, NULL at the end. */
int daemon_ctl(struct daemon *d, char *text, size_t size, ...) __attribute__((sentinel));

/* Checks that forkctl ARG..., NULL at the end, exits with this status and prints this text. */
void daemon_see_ctl(struct daemon *d, int status, const char *text, ...) __attribute__((sentinel));

/* Checks that forkctl set OPTION VALUE succeeds and prints exactly this text. */
void daemon_set(struct daemon *d, const char *option, const char *value, const char *answer);

/* Returns a number of /proc/PID/status, such as VmHWM (kB); -1 if there is no such process or
 * thread. */
int64_t daemon_proc_status(pid_t pid, const char *name);

/* The same for a hexadecimal number, such as CapEff. */
int64_t daemon_proc_mask(pid_t pid, const char *name);

/* Returns the number in its oom_score_adj. */
int64_t daemon_oom_score(pid_t pid);

/* Returns the proportional set size of a process, in kB, without files: their part depends on how
 * many processes run the same program. */
int64_t daemon_pss(pid_t pid);

/* Returns the CPU time of a thread, or of the first thread of a process, in ns. */
uint64_t daemon_cpu_ns(pid_t tid);

/* Returns the CPU time of all threads of the pool, in ns. */
uint64_t daemon_pool_cpu_ns(struct daemon *d);

/* Returns the voluntary and involuntary context switches of all threads of a process, without
 * threads of io_uring. */
uint64_t daemon_switches(pid_t pid);

/* Returns the state of a thread, or of the first thread of a process, as in /proc: R runs or waits
 * for a CPU, S asleep, T stopped, Z ended; '?' if it does not exist. */
char daemon_proc_state(pid_t tid);

/* Returns true if all threads of a process are in this state; false if it does not exist. */
bool daemon_is_all(pid_t pid, char state);

/* Stops a process with SIGSTOP and waits until each thread has stopped, which happens after
 * kill(2), and much later on a busy machine. */
void daemon_suspend(pid_t pid);

/* Returns true if the manager and the thread of the pool that reads its messages are idle: all
 * messages of the manager have been handled. */
bool daemon_is_quiet(struct daemon *d);

/* Returns true if the test runs as root with every capability that matters (CAP_SYS_RESOURCE may be
 * missing) and no seccomp filter; root in a container does not. */
bool daemon_may_all(void);

/* Returns true in a sanitizer build, where memory figures mean nothing. */
bool daemon_sanitized(void);
