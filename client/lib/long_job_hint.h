/* SPDX-License-Identifier: MIT */
/*
 * long_job_hint.h - predicts which jobs run long, so that they can wait for an alarm
 *
 * If all workers are busy, a client wakes the dispatcher, which preempts a worker. If an alarm is
 * set (shm/wake.h, W9), a long job gains little by that: it would seldom start earlier. The run
 * time of a job is not known in advance. So the client predicts it from the last jobs for which its
 * waits slept.
 *
 * INVARIANTS
 *   I1. A job can wait only if the last LONG_JOB_JOBS waits were for jobs of its task, and each of
 *       them ran for LONG_JOB_NS or more. Each further such wait lets one more job wait; with
 *       concurrent submissions, one for each thread. So a program that changes to short jobs, or
 *       to other waits, is delayed once.
 *   I2. LONG_JOB_NS is several times the delay that a job can have by this.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "common/relaxed.h"
#include "shm/job.h"

#define LONG_JOB_NS   UINT64_C(100000000)
#define LONG_JOB_JOBS 2u

/* The word is { task:30, jobs:2 }, 0 at first. All accesses are relaxed: it is a hint. */

/* Updates the word from a job that has ended, after a wait for it that did not end in its spin. */
static inline void long_job_learn(_Atomic uint32_t *word, const struct job *job)
{
	uint64_t started = load_relaxed(&job->started_ns);
	uint64_t ended = load_relaxed(&job->ended_ns);
	uint32_t task = load_relaxed(&job->task) << 2;
	uint32_t old = load_relaxed(word);
	uint32_t jobs = (old & ~3u) == task ? old & 3u : 0;

	if (!started || ended < started || ended - started < LONG_JOB_NS)
		jobs = 0;
	else if (jobs < LONG_JOB_JOBS)
		jobs++;
	if (old != (task | jobs))
		store_relaxed(word, task | jobs);
}

/* True if a job that was published can wait. Uses up one count of the word (I1). */
static inline int long_job_spends(_Atomic uint32_t *word, const struct job *job)
{
	uint32_t task = load_relaxed(&job->task) << 2;

	if (load_relaxed(word) != (task | LONG_JOB_JOBS))
		return 0;
	store_relaxed(word, task | (LONG_JOB_JOBS - 1));
	return 1;
}
