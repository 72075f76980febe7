/* SPDX-License-Identifier: MIT */
/*
 * pool_watchdog.h - whether the pool itself still does what it is told
 *
 * The dispatcher finds a task that hangs (hang_detector.h). If the dispatcher or the channel's
 * thread is stuck no thread of the pool notices: no client is taken on or released, no job that is
 * late ends, while workers may run. So the manager asks: the channel's thread reads
 * PROTO_POOL_PING, the dispatcher answers PROTO_POOL_PONG. A pool that does not for hang-timeout,
 * or a second if that is less, is killed; no job is blamed.
 *
 * 	QUIET --something was said to the pool--> SOON --a moment later, PING--> ASKED
 * 	  ^                                         ^                              |
 * 	  +--- nothing was said, no worker has a job, <--------PONG----------------+
 * 	       else again: soon, or while jobs run after hang-timeout
 *
 * QUIET has no timer. A job may begin then without a message; so the manager looks when it sends a
 * sign of life to the service manager (watchdog_glance()).
 *
 * INVARIANTS
 *   I1. If nothing is said to the pool and no worker runs a job, nothing is asked, and no thread
 *       wakes up: an idle pool stays idle, and so does its manager.
 *   I2. The clock on the wall does not count. Of the time between two looks so much does as there
 *       should be, if the manager had a CPU itself when it wanted to look, and the pool's process
 *       has used some CPU time meanwhile: it is not stopped, and not starved altogether. One whose
 *       threads all sleep has a signal to handle, WORKER_SIGNAL, for which each CPU will do. If no
 *       thread takes the signal, all threads must be asleep at both looks (thread_states.h). A
 *       thread that waits for a CPU or for a disk, or that a debugger has stopped, is not asleep.
 *       The threads are looked at only if the process has used no CPU time since the last look, or
 *       if this look may be the one that ends the pool.
 *   I3. A pool that reads what waited for room in its channel gets on: its time starts at 0. One
 *       that writes a core file has all the time that it takes: killed before its end it would lose
 *       the file. What the arena says of a fault does not count: a task can write there.
 *   I4. A pool that a signal has stopped (SIGSTOP, by a task or from outside) is asked at once. If
 *       each look for the limit finds it stopped it gets SIGCONT, once: the next time it is ended,
 *       or as soon as it is found stopped before it has answered. The kernel sends SIGCHLD for a
 *       stop, so an idle manager needs no timer, and the time of each stop starts at 0.
 *   I5. A pool that is traced owes nothing, and is not continued: its debugger may hold one thread
 *       for as long as it likes while the others run. The time starts at 0 when it is not
 *       traced any more. Its start has no limit either (pool_process.c).
 *   I6. A pool that another process has killed, and that has not ended, has POOL_PROCESS_DEATH_NS
 *       from the second look in a row that finds SIGKILL pending in one of its threads
 *       (pool_process.c, I7).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <sys/types.h>

#include "daemon/manager/loop.h"

struct arena;
struct watchdog;

/* A look while the pool owes an answer. */
struct watchdog_look {
	uint64_t now; /* ns, CLOCK_MONOTONIC */
	uint64_t due; /* when the look was meant to be */
	uint64_t cpu; /* ns that the process has used so far */
	bool dying;   /* it writes a core file */
	bool killed;  /* a thread has SIGKILL pending, and no core file is written */
	bool stopped; /* by a signal */
	bool asleep;  /* all of its threads */
	bool traced;  /* a debugger has a thread of it */
};

struct watchdog_watch {
	struct watchdog_look last; /* now: 0 before the first */
	uint64_t held;		   /* ns that count */
	uint64_t stopped;	   /* ns for which each look has found it stopped */
};

/* Takes a look into account; interval: ns between two. Returns how long the pool owes the answer,
 * ns. It is a function of its arguments alone. */
uint64_t watchdog_judge(struct watchdog_watch *watch, const struct watchdog_look *look,
			uint64_t interval);

enum watchdog_state {
	WATCHDOG_QUIET,
	WATCHDOG_SOON,	/* the timer stands for the next question */
	WATCHDOG_ASKED, /* for the next look */
};

struct watchdog_calls {
	/* Asks the pool whether all that it was told is in force. Returns the number of that. */
	uint64_t (*ask)(struct watchdog *watchdog);
	/* Ends the pool; no job is blamed. why: a line; NULL: another process has killed it. */
	void (*kill)(struct watchdog *watchdog, const char *why);
};

struct watchdog {
	struct loop *loop;
	const struct watchdog_calls *calls;
	pid_t pid;	/* 0: no pool is READY */
	uint64_t limit; /* ns; 0: never asked */
	/* the owner sets both, arena is only read; NULL: not known whether workers run jobs */
	const struct arena *arena;
	uint32_t n_workers;
	enum watchdog_state state;
	bool said;	 /* something was, since the last question */
	bool continued;	 /* it got SIGCONT (I4) */
	bool reviving;	 /* the same, and it has not answered since */
	bool leaves;	 /* it has said that it ends, and owes no answer; the owner sets it */
	uint64_t number; /* of the question */
	uint64_t due;
	struct watchdog_watch watch;
	struct loop_source timer;
};

/* limit: ns, 0: it is never asked. */
void watchdog_init(struct watchdog *watchdog, struct loop *loop, const struct watchdog_calls *calls,
		   uint64_t limit);
/* Another limit: what was asked is forgotten, the next question is when something is said. */
void watchdog_set_limit(struct watchdog *watchdog, uint64_t limit);

/* A pool is READY. */
void watchdog_begin(struct watchdog *watchdog, pid_t pid);
/* Something was said to the pool. Does nothing unless the pool is READY. */
void watchdog_said(struct watchdog *watchdog);
/* The manager is awake anyway: the pool is asked if a worker runs a job. */
void watchdog_glance(struct watchdog *watchdog);
/* A signal has stopped it. begins: just now, so the time of this stop begins; else it is still
 * stopped, or the kernel has merged the signal that says so with another one. */
void watchdog_stopped(struct watchdog *watchdog, bool begins);
/* It has answered all questions up to this number. */
void watchdog_answered(struct watchdog *watchdog, uint64_t number);
/* There is no pool. */
void watchdog_end(struct watchdog *watchdog);
