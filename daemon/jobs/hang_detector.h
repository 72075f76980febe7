/* SPDX-License-Identifier: MIT */
/*
 * hang_detector.h - jobs that are to end and do not: when a worker hangs
 *
 * A job that was cancelled, is late, or whose client is gone winds down at its next fork, call or
 * join. One that comes to none keeps its worker, and its client's memory, for ever. So the
 * dispatcher looks at workers that run such a job, and once one has held out for hang-timeout it
 * ends the pool, with this job to blame: job_recovery.c and pool_death.c do the rest. Any other job
 * may run as long as it likes.
 *
 * HOW LONG A WORKER HAS HELD OUT
 *   The clock on the wall does not count: a worker that has no CPU, or too little of it, is not to
 *   blame for being slow. What counts, from the first look at which the job is to end, is the time
 *   in which the worker could have got on:
 *   - what its thread has had of CPUs (its CPU clock);
 *   - what it has slept, in a read(2) or for a lock, while there was a CPU for it. The kernel shows
 *     a thread's state in /proc alone, of which a pool that is sandboxed can open nothing, and
 *     keeping a descriptor for each worker would leave them to tasks. So the worker itself is
 *     asked: WORKER_SIGNAL ends or interrupts its sleep, and the handler says when it came to run
 *     and how often its thread has gone to sleep so far (ru_nvcsw of getrusage(2)). A thread that
 *     has gone to sleep since its last answer, and answers at once, had nothing to do but sleep:
 *     the time between two looks counts, once. One that waits for a CPU has been preempted, which
 *     is no sleep, or answers late.
 *   Each fork, call or join that leaves the fast path, and each frame that is resumed, starts the
 *   count anew: the job gets on.
 *
 * A JOB THAT NO WORKER HAS
 *   A stray write can leave a job RUNNING that has no strand, frame or fiber any more. So once no
 *   worker runs a job that is to end, the dispatcher looks for one in the ledger. The time counts
 *   in which all workers rest, none has run or slept again, and the job has no fibers. A frame that
 *   could go on would be found: a worker looks at all deques and inboxes before it rests.
 *   While other jobs run, such a job is not found out.
 *
 * Threads: hangs_check(): the dispatcher. hang_expect(): any thread of the pool. hang_answer(): a
 * worker, in the handler of WORKER_SIGNAL. hang_judge() is a function of its arguments alone.
 *
 * INVARIANTS
 *   I1. Nothing is added to what a fork or join does: how far a worker has got is said by counters
 *       that are there, and whether its job is to end by the verdict (job_abort.h).
 *   I2. Without a job that is to end and runs the dispatcher does not look, and does not wake up
 *       for it. A thread that decides that one is to end says so (hang_expect()), after the
 *       decision; and so does a worker before it runs what a task has left for its end (FK_UNWIND).
 *   I3. While the process is traced (ptrace(2)), by a debugger for example, no job is to blame, and
 *       the time starts at 0 when hang-timeout is reached.
 *   I4. Looks that come late do not count for more: of the time between two of them, without CPU,
 *       no more than the interval; nothing, after the process was stopped (SIGCONT comes then).
 *
 * WHAT IT DOES NOT SEE
 *   A thread that the kernel does not let go of (D in ps(1)), and one that has blocked the signal,
 *   give no answer: only what they have of CPUs counts. The former could not be killed either.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "shm/limits.h"

struct pool;
struct worker;

/* What a look has found. */
struct hang_look {
	uint64_t now;	 /* ns, CLOCK_MONOTONIC */
	uint64_t doomed; /* the job that it runs and that is to end, as a number; 0: none is */
	uint64_t beat;	 /* grows as it gets on */
	uint64_t cpu;	 /* ns that its thread has had of CPUs */
	uint64_t asked, answered, slept;
	uint32_t stops; /* of the process, so far */
};

/* What is known of a worker since it began to run a job that is to end, or has got on last. */
struct hang_watch {
	struct hang_look last;
	bool compared; /* last.slept is of an answer */
	bool stopped;  /* the process was, before the last look */
	uint64_t held; /* ns that it has held out */
};

/*
 * Takes a look into account. interval: ns that are meant to be between two. Returns how long the
 * worker has held out, ns; 0 if it has just got on, or runs no job that is to end.
 */
uint64_t hang_judge(struct hang_watch *watch, const struct hang_look *look, uint64_t interval);

/* What is known of a job that is to end and that no worker runs. */
struct hang_orphan {
	uint64_t doomed; /* as in a look; 0: none is known */
	uint64_t now;	 /* of the last look */
	uint64_t rests;	 /* of all workers, so far; 0: one was awake */
	uint32_t stops;
	uint64_t held; /* ns that nothing has happened */
};

/* The dispatcher's, but for what has another title. */
struct hangs {
	struct hang_watch watches[LIMIT_WORKERS];
	struct hang_orphan orphan;
	uint64_t next;	/* when it looks again */
	uint32_t looks; /* that are left, unless one finds a job that is to end */
	/* any thread sets news, the dispatcher clears it */
	_Alignas(64) _Atomic bool news;
	_Atomic bool watching; /* it comes by itself */
};

/* Before there are workers and before the pool is sandboxed: counts how often the process was
 * stopped, from now on. */
void hangs_begin(void);

/* True if a job has held out for hang-timeout. *held: ns; 0 afterwards if a debugger traces the
 * process, for then it is not the job that is slow. */
bool hang_is_reached(struct pool *pool, uint64_t *held);

/* A job is to end, and may run. */
void hang_expect(struct pool *pool);

/* Looks, if it is time to. Returns when to come back, 0: no job that is to end runs. Ends the
 * process if a worker has held out for too long. */
uint64_t hangs_check(struct pool *pool);

/* The job that the worker runs, as a number, if it is to end; or 0. Any thread of the pool. */
uint64_t hang_doomed(struct pool *pool, const struct worker *worker);

/* What a worker's thread has had of CPUs, ns. Any thread of the pool. */
uint64_t hang_cpu(const struct worker *worker);

/* The handler of WORKER_SIGNAL. */
void hang_answer(struct worker *worker);
