/* SPDX-License-Identifier: MIT */
/*
 * hang_detector.h - detects running jobs that must end and make no progress
 *
 * A job that was cancelled, has exceeded its deadline, or whose client has gone unwinds at its next
 * fork, call or join. If it reaches none, it keeps its worker, and its client's memory, forever. So
 * the dispatcher checks workers that run such a job. When one has made no progress for
 * hang-timeout, it ends the pool and blames this job: job_recovery.c and pool_death.c do the rest.
 * Any other job may run for any time.
 *
 * THE TIME WITHOUT PROGRESS
 *   Wall-clock time does not count: a worker that gets too little CPU is not to blame for being
 *   slow. From the first check at which the job is to end, this time counts:
 *   - the CPU time of its thread;
 *   - the time that it slept, in a read(2) or for a lock, while a CPU was available for it. The
 *     kernel shows a thread's state only in /proc. A sandboxed pool can open nothing there, and
 *     descriptors that were opened before would be accessible to tasks. So the worker itself is
 *     asked: the pool's signal ends or interrupts its sleep, and the handler stores the time and
 *     the thread's number of voluntary switches (ru_nvcsw of getrusage(2)). If the thread has gone
 *     to sleep since its last answer, and answers at once, it did nothing but sleep: the time
 *     between two checks counts. A thread that waits for a CPU was preempted, which is no sleep,
 *     or answers late.
 *   Each fork, call or join that leaves the fast path, and each resumed frame, is progress and
 *   resets the time.
 *
 * JOBS WITHOUT A WORKER
 *   A stray write can leave a job RUNNING that has no strand, frame or fiber any more. So if no
 *   worker runs a job that is to end, the dispatcher searches the ledger for one. The time counts
 *   during which all workers sleep, none has run or slept again, and the job has no fibers. A
 *   resumable frame would be found: a worker checks all deques and inboxes before it sleeps. While
 *   other jobs run, such a job is not detected.
 *
 * Threads: hangs_check(): the dispatcher. hang_expect(): any thread of the pool. hang_answer(): a
 * worker, in the handler of the signal. hang_judge() is a pure function.
 *
 * INVARIANTS
 *   I1. Forks and joins have no additional cost: existing counters show a worker's progress, and
 *       the verdict shows whether its job is to end (job_abort.h).
 *   I2. Without a running job that is to end the dispatcher neither checks nor wakes for that. A
 *       thread that decides that a job is to end calls hang_expect() after the decision; so does a
 *       worker before it runs the cleanup code of a task (FK_UNWIND).
 *   I3. While the process is traced (ptrace(2)), for example by a debugger, no job is blamed, and
 *       the time restarts at 0 when hang-timeout is reached.
 *   I4. Late checks do not count for more: of the time without CPU between two checks at most the
 *       interval counts; none of it if the process was stopped (then SIGCONT arrives).
 *
 * LIMITATIONS
 *   A thread in uninterruptible sleep (D in ps(1)), and a thread that has blocked the signal, do
 *   not answer: only their CPU time counts. The former could not be killed either. The same is true
 *   for all threads of a pool without a signal (worker_signal.h).
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "shm/limits.h"

struct pool;
struct worker;

/* Result of a check. */
struct hang_look {
	uint64_t now;	 /* ns, CLOCK_MONOTONIC */
	uint64_t doomed; /* the worker's job, if it is to end, as a number; 0: none */
	uint64_t beat;	 /* grows with progress */
	uint64_t cpu;	 /* ns of CPU time of its thread */
	uint64_t asked, answered, slept;
	uint32_t stops; /* number of stops of the process */
};

/* State of a worker since it began to run a job that is to end, or since its last progress. */
struct hang_watch {
	struct hang_look last;
	bool compared; /* last.slept belongs to an answer */
	bool stopped;  /* the process was stopped before the last check */
	uint64_t held; /* ns without progress */
};

/* Evaluates a check. interval: intended ns between two checks. Returns the time without progress,
 * ns; 0 if there was progress, or the worker runs no job that is to end. */
uint64_t hang_judge(struct hang_watch *watch, const struct hang_look *look, uint64_t interval);

/* State of a job that is to end and that no worker runs. */
struct hang_orphan {
	uint64_t doomed; /* as in a check; 0: none is known */
	uint64_t now;	 /* of the last check */
	uint64_t rests;	 /* hang_rests() then; 0: a worker was awake */
	uint32_t stops;
	uint64_t held; /* ns without any event */
};

/* Written by the dispatcher, unless noted. */
struct hangs {
	struct hang_watch watches[LIMIT_WORKERS];
	struct hang_orphan orphan;
	uint64_t next;	/* time of the next check */
	uint32_t looks; /* number of checks left, unless one finds a job that is to end */
	/* any thread sets news, the dispatcher clears it */
	_Alignas(64) _Atomic bool news;
	_Atomic bool watching; /* the dispatcher checks periodically */
};

/* Call before there are workers and before the pool is sandboxed: counts stops of the process from
 * now on. */
void hangs_begin(void);

/* True if a job has made no progress for hang-timeout. *held: ns; set to 0 if a debugger traces the
 * process, because then the job is not to blame. */
bool hang_is_reached(struct pool *pool, uint64_t *held);

/* Call when a job that may run is to end. */
void hang_expect(struct pool *pool);

/* Checks, if it is time. Returns when to call again, 0: no running job is to end. Ends the process
 * if a worker has made no progress for too long. */
uint64_t hangs_check(struct pool *pool);

/* Returns the worker's job as a number, if it is to end; or 0. Any thread of the pool. */
uint64_t hang_doomed(struct pool *pool, const struct worker *worker);

/* Returns the CPU time of a worker's thread, ns. Any thread of the pool. */
uint64_t hang_cpu(const struct worker *worker);

/* Called by the handler of the pool's signal. */
void hang_answer(struct worker *worker);
