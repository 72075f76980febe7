/* SPDX-License-Identifier: MIT */
/*
 * daemon.h - a real private forkd for scenario tests
 *
 * Every function fails the running test (libcheck) if it cannot do what it says, but for those
 * that say what they return. Waiting is for messages, process ends and counters; where a counter is
 * waited for, DAEMON_AWAIT looks at it until it is there or DAEMON_PATIENCE seconds are over.
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

/* Looks until the condition holds; the looks are a millisecond apart, or not at all. */
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

/* In a client's process, where libcheck's assertions are none: ends it, and says where. */
#define DAEMON_MUST(condition)                                                                     \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			(void)fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);      \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

/* Looks until the condition holds, however long that takes as long as this number changes. */
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
	char folder[64]; /* everything of this daemon is in it, and goes with it */
	char socket[96];
	char modules[96];
	char log[96];
	fk_client *watcher; /* a client that only looks at the board */
	const struct board *board;
	int notify_fd;
	void (*entering)(void); /* NULL, or called in forkd's process before it is executed */
	uint32_t n_pools;
	pid_t pools[DAEMON_POOLS]; /* that were seen by daemon_pool() */
};

/*
 * Makes the folder of a daemon, with a module folder in it that has every shipped module and those
 * of the tests that are not broken. daemon_start() does it; a test that has changes to make to it
 * calls it before.
 */
void daemon_prepare(struct daemon *d);

/* The same with no modules. */
void daemon_prepare_bare(struct daemon *d);

/* Copies a file of the build tree into the module folder, under this name. */
void daemon_add_module(struct daemon *d, const char *path, const char *name);

/*
 * Before daemon_start(): of all processes that are started from now on the first one dies that has
 * passed this crash site (common/crash_site.h) so often and comes to it again. Nothing happens
 * without --enable-crash-sites. daemon_is_mined(): until then; daemon_unmine(): none dies there.
 * While the daemon runs it can be done again for the same site: its next pass kills.
 */
void daemon_mine(struct daemon *d, const char *site, uint32_t after);
bool daemon_is_mined(struct daemon *d);
void daemon_unmine(struct daemon *d);

/*
 * Starts forkd with these options, NULL at the end ("--workers=2", ...), and waits until it says
 * READY=1. Socket, module folder and log stand in the daemon's folder. Tasks may crash as often as
 * they like, unless the options say when they are put into quarantine.
 */
void daemon_start(struct daemon *d, ...) __attribute__((sentinel));

/* The same, but returns its exit status if it ends before it is ready, and -1 if it runs. */
int daemon_try(struct daemon *d, const char *const *options);

/* The same without a look at its board: the test is no client of it. */
int daemon_launch(struct daemon *d, const char *const *options);

/* In a child: becomes forkd, with these options and a prepared daemon's folder. */
_Noreturn void daemon_exec(struct daemon *d, const char *const *options);

/* Removes the folder of a daemon that has ended, and clears *d for the next one; the functions
 * below that end a daemon do it. */
void daemon_discard(struct daemon *d);

/* The running pool's pid; waits for one. */
pid_t daemon_pool(struct daemon *d);
/* Number of pools that have crashed. */
static inline uint64_t daemon_crashes(const struct daemon *d)
{
	return atomic_load(&d->board->manager.crashes);
}

/* A new connection. */
fk_client *daemon_open(struct daemon *d);

/* A job of fib:fib by a connection of its own, and nothing but its result. */
void daemon_call_fib(struct daemon *d);

/* The sum of a counter of counters.def over all workers. name: such as jobs_done. */
uint64_t daemon_counter(struct daemon *d, const char *name);

/* True if a line of its log holds both texts. */
bool daemon_logged(struct daemon *d, const char *text, const char *and);

/* The number of such lines. */
uint32_t daemon_count_lines(struct daemon *d, const char *text, const char *and);

/*
 * Sends SIGTERM, waits for its end and its folder's removal, checks that nothing is left: no
 * process, no socket, no segment mapped or open anywhere. Returns the exit status.
 */
int daemon_stop(struct daemon *d);

/* Closes a connection, and stops forkd, whose exit status is 0. */
void daemon_stop_close(struct daemon *d, fk_client *c);

/* Kills the manager with SIGKILL and waits until its pool is gone as well; checks as above. */
void daemon_kill(struct daemon *d);

/* What `daemon_stop` does without the signal: for one that was told already. */
int daemon_wait(struct daemon *d);

/* Memory of zeros that the test shares with the processes it forks from now on. */
void *daemon_share(size_t size);

/* For qsort(), of times. */
int daemon_compare_u64(const void *a, const void *b);

/*
 * Forks a client process. Returns 0 in it, which dies with the test; and which is another user's
 * if the test is root's, unless the uid is DAEMON_UID.
 */
#define DAEMON_UID UINT32_MAX
pid_t daemon_fork(uint32_t uid);

/* The same for a whole client: run(), and exit status 0 if it comes back. */
pid_t daemon_client(void (*run)(void), uint32_t uid);

/*
 * Starts a program with FORKD_SOCKET set, its output and errors into a file of the daemon's folder.
 * argv[0]: a path below the build tree or an absolute one.
 */
pid_t daemon_spawn(struct daemon *d, const char *output, const char *const *argv);

/* Waits for a child's end. Returns its status, or 256 + its signal. */
int daemon_reap(pid_t pid);

/* Kills a client process, which must not have ended, and waits for its end. */
void daemon_kill_client(pid_t pid);

/* True if a child has ended; daemon_reap() says how. */
bool daemon_has_ended(pid_t pid);

/* Runs a program as daemon_spawn() does. Sets text to its output. Returns as daemon_reap(). */
int daemon_run(struct daemon *d, char *text, size_t size, const char *const *argv);

/* The same for `forkctl ARG...`, NULL at the end. */
int daemon_ctl(struct daemon *d, char *text, size_t size, ...) __attribute__((sentinel));

/* forkctl ARG..., NULL at the end, ends with this status, and its output has this text. */
void daemon_see_ctl(struct daemon *d, int status, const char *text, ...) __attribute__((sentinel));

/* forkctl set OPTION VALUE succeeds, and answers with exactly this text. */
void daemon_set(struct daemon *d, const char *option, const char *value, const char *answer);

/* A number of /proc/PID/status, such as VmHWM (kB); -1 if the process or thread is not there. */
int64_t daemon_proc_status(pid_t pid, const char *name);

/* The same for a number in hexadecimal, such as CapEff. */
int64_t daemon_proc_mask(pid_t pid, const char *name);

/* What stands in its oom_score_adj. */
int64_t daemon_oom_score(pid_t pid);

/* Memory of a process in kB: what stands as "Pss" in its smaps_rollup. */
int64_t daemon_pss(pid_t pid);

/* CPU time of a thread, or of the first thread of a process, ns. */
uint64_t daemon_cpu_ns(pid_t tid);

/* CPU time of all threads of the pool, ns. */
uint64_t daemon_pool_cpu_ns(struct daemon *d);

/* Of all threads of a process together, but those that io_uring has there: voluntary and
 * involuntary context switches. */
uint64_t daemon_switches(pid_t pid);

/* State of a thread, or of the first thread of a process, by its letter in /proc: R runs or wants a
 * CPU, S asleep, T stopped, Z ended; '?' if it is not there. */
char daemon_proc_state(pid_t tid);

/* True if all threads of a process are in this state; false if it is not there. */
bool daemon_is_all(pid_t pid, char state);

/* Stops a process with SIGSTOP, and waits until each of its threads has stopped: a moment after
 * kill(2), or, where there is much to do, long after it. */
void daemon_suspend(pid_t pid);

/* The manager and the pool's thread that hears it have nothing to do: what the manager had to say
 * has been heard. */
bool daemon_is_quiet(struct daemon *d);

/* The test is root's, with all that root may but to exceed limits, and under no filter of calls: a
 * container's root is not. */
bool daemon_may_all(void);

/* Built with a sanitizer: numbers about memory mean nothing. */
bool daemon_sanitized(void);
