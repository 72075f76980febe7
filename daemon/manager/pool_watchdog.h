/* SPDX-License-Identifier: MIT */
/*
 * pool_watchdog.h - detects a pool that no longer handles the manager's messages
 *
 * The dispatcher finds a task that hangs (hang_detector.h). If the dispatcher or the channel's
 * thread is stuck, no thread of the pool notices: no client is taken on or released, no job ends by
 * its timeout, while workers may run. So the manager asks: the channel's thread reads
 * PROTO_POOL_PING, the dispatcher answers PROTO_POOL_PONG. A pool that does not answer for
 * hang-timeout, or a second if that is longer, is killed; no job is blamed.
 *
 * 	QUIET --a message was sent to the pool--> SOON --a moment later, PING--> ASKED
 * 	  ^                                        ^                               |
 * 	  +--- no message was sent, no worker has a job, <--------PONG-------------+
 * 	       else again: soon, or while jobs run after hang-timeout
 *
 * QUIET has no timer. A job may begin then without a message, so the manager also checks when it
 * sends a watchdog message to the service manager (watchdog_glance()).
 *
 * INVARIANTS
 *   I1. If no message is sent to the pool and no worker runs a job, nothing is asked and no thread
 *       wakes up: an idle pool stays idle, and so does its manager.
 *   I2. The limit does not count wall-clock time. The time between two looks counts, up to its
 *       planned length, only if both hold: the manager itself got a CPU when it wanted to look; and
 *       the pool's process has used CPU time since the last look, so it is neither stopped nor
 *       starved. A pool whose threads all sleep gets a signal, PROTO_POOL_SIGNAL, which a thread
 *       can handle on any CPU. If no thread takes the signal, all threads must be asleep at both
 *       looks (thread_states.h). A thread that waits for a CPU or a disk, or that a debugger has
 *       stopped, is not asleep. The threads are checked only if the process has used no CPU time
 *       since the last check, or if this check may kill the pool.
 *   I3. If the pool reads messages that waited for room in its channel, it makes progress: its time
 *       starts at 0. A pool that writes a core file has unlimited time, because a kill would lose
 *       the file. What the arena says of a fault does not count, because a task can write there.
 *   I4. A pool that a signal has stopped (SIGSTOP, from a task or another process) is asked at
 *       once. If each look within the limit finds it stopped, it gets SIGCONT, once. The next time
 *       it is killed; and so it is if it is found stopped before it has answered. The kernel sends
 *       SIGCHLD for a stop, so an idle manager needs no timer, and the time of each stop starts at
 *       0.
 *   I5. A traced pool owes no answer, and is not continued: its debugger may hold one thread for
 *       any time while the others run. The time starts at 0 when it is no longer traced. Its start
 *       has no limit either (pool_process.c).
 *   I6. A pool may have been killed by another process and not have ended. It has
 *       POOL_PROCESS_DEATH_NS from the second successive check that finds SIGKILL pending in a
 *       thread (pool_process.c, I7).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <sys/types.h>

#include "daemon/manager/loop.h"

struct arena;
struct watchdog;

/* A check of a pool that has not answered. */
struct watchdog_look {
	uint64_t now; /* ns, CLOCK_MONOTONIC */
	uint64_t due; /* planned time of the look */
	uint64_t cpu; /* CPU time of the process so far, ns */
	bool dying;   /* it writes a core file */
	bool killed;  /* a thread has SIGKILL pending, and no core file is written */
	bool stopped; /* by a signal */
	bool asleep;  /* all of its threads sleep */
	bool traced;  /* a debugger traces one of its threads */
};

struct watchdog_watch {
	struct watchdog_look last; /* now: 0 before the first */
	uint64_t held;		   /* ns that count (I2) */
	uint64_t stopped;	   /* ns for which each look has found it stopped */
};

/* Adds a look; interval: ns between two looks. Returns for how long the pool owes the answer, ns.
 * The result depends only on the arguments. */
uint64_t watchdog_judge(struct watchdog_watch *watch, const struct watchdog_look *look,
			uint64_t interval);

enum watchdog_state {
	WATCHDOG_QUIET,
	WATCHDOG_SOON,	/* the timer is for the next question */
	WATCHDOG_ASKED, /* the timer is for the next look */
};

struct watchdog_calls {
	/* Asks the pool whether all messages so far are in force. Returns the question's number. */
	uint64_t (*ask)(struct watchdog *watchdog);
	/* Kills the pool; no job is blamed. why: a line; NULL: another process has killed it. */
	void (*kill)(struct watchdog *watchdog, const char *why);
};

struct watchdog {
	struct loop *loop;
	const struct watchdog_calls *calls;
	pid_t pid;	/* 0: no pool is READY */
	uint64_t limit; /* ns; 0: never asked */
	/* the owner sets both; arena is only read; NULL: no information about jobs */
	const struct arena *arena;
	uint32_t n_workers;
	enum watchdog_state state;
	bool said;	 /* a message was sent since the last question */
	bool continued;	 /* it got SIGCONT (I4) */
	bool reviving;	 /* the same, and it has not answered since */
	bool leaves;	 /* it has reported its end, and owes no answer; the owner sets it */
	uint64_t number; /* of the question */
	uint64_t due;
	struct watchdog_watch watch;
	struct loop_source timer;
};

/* limit: ns; 0: the pool is never asked. */
void watchdog_init(struct watchdog *watchdog, struct loop *loop, const struct watchdog_calls *calls,
		   uint64_t limit);
/* Sets another limit: drops the open question; the next message leads to a new one. */
void watchdog_set_limit(struct watchdog *watchdog, uint64_t limit);

void watchdog_begin(struct watchdog *watchdog, pid_t pid);
/* A message was sent to the pool. Does nothing unless the pool is READY. */
void watchdog_said(struct watchdog *watchdog);
/* Asks the pool if a worker runs a job; for a caller that has woken the manager anyway. */
void watchdog_glance(struct watchdog *watchdog);
/* A signal has stopped the pool. begins: it has just stopped, so its time starts; else it is still
 * stopped, or the kernel has merged the SIGCHLD of this stop with another one. */
void watchdog_stopped(struct watchdog *watchdog, bool begins);
/* The pool has answered all questions up to this number. */
void watchdog_answered(struct watchdog *watchdog, uint64_t number);
/* There is no pool any more. */
void watchdog_end(struct watchdog *watchdog);
