/* SPDX-License-Identifier: MIT */
/*
 * long_job_hint.h - whose next job can wait for an alarm: what a client knows of its jobs' times
 *
 * With all workers busy a client wakes the dispatcher, which takes a worker off its CPU. A job that
 * will run for long gains little by that if an alarm is set (shm/wake.h, W9): it would seldom be
 * started before. How long a job will run is not known; so a client goes by what it has waited for
 * last, in its sleep.
 *
 * INVARIANTS
 *   I1. Only a job of the task that LONG_JOB_JOBS waits in a row were for, each for a job that took
 *       LONG_JOB_NS or more from its start to its end, by the clock, can wait; and one for each
 *       further wait, or one for each thread where several submit at once: a program that goes over
 *       to short jobs, or to other ways of waiting, is late once.
 *   I2. LONG_JOB_NS is some times as long as a job can be late by that.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "common/relaxed.h"
#include "shm/job.h"

#define LONG_JOB_NS   UINT64_C(100000000)
#define LONG_JOB_JOBS 2u

/* A word { task:30, jobs:2 }, 0 at first. Relaxed, all of it: a hint. */

/* A wait for a job has gone to sleep, and that has ended, perhaps before it slept. */
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

/* A job was published. True if it can wait. */
static inline int long_job_spends(_Atomic uint32_t *word, const struct job *job)
{
	uint32_t task = load_relaxed(&job->task) << 2;

	if (load_relaxed(word) != (task | LONG_JOB_JOBS))
		return 0;
	store_relaxed(word, task | (LONG_JOB_JOBS - 1));
	return 1;
}
