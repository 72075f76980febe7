/* SPDX-License-Identifier: MIT */
/* long_job_hint: predicts which job can wait, from the jobs that were waited for. */
#include "client/lib/long_job_hint.h"
#include "tests/support/check_unit.h"

#define SHORT_NS (LONG_JOB_NS - 1)

static _Atomic uint32_t word;
static struct job job;

static void learn(uint32_t task, uint64_t ns)
{
	atomic_store(&job.task, task);
	atomic_store(&job.started_ns, 1000);
	atomic_store(&job.ended_ns, 1000 + ns);
	long_job_learn(&word, &job);
}

static int can_wait(uint32_t task)
{
	atomic_store(&job.task, task);
	return long_job_spends(&word, &job);
}

START_TEST(job_of_an_unknown_task_cannot_wait)
{
	ck_assert(!can_wait(0));
	ck_assert(!can_wait(511));
	learn(7, LONG_JOB_NS);
	ck_assert(!can_wait(7));
	learn(7, LONG_JOB_NS);
	ck_assert(!can_wait(6));
	ck_assert(can_wait(7));
}
END_TEST

START_TEST(each_job_that_was_long_lets_one_wait)
{
	for (int i = 0; i < 5; i++)
		learn(7, LONG_JOB_NS);
	ck_assert(can_wait(7));
	ck_assert(!can_wait(7));
	for (int i = 0; i < 5; i++) {
		learn(7, 2 * LONG_JOB_NS);
		ck_assert(can_wait(7));
		ck_assert(!can_wait(7));
	}
}
END_TEST

START_TEST(short_job_or_another_task_resets_the_hint)
{
	learn(7, LONG_JOB_NS);
	learn(7, LONG_JOB_NS);
	learn(7, SHORT_NS);
	ck_assert(!can_wait(7));
	learn(7, LONG_JOB_NS);
	ck_assert(!can_wait(7));
	learn(8, LONG_JOB_NS);
	ck_assert(!can_wait(8));
	learn(7, LONG_JOB_NS);
	ck_assert(!can_wait(7));
	learn(7, LONG_JOB_NS);
	ck_assert(can_wait(7));
}
END_TEST

/* A job cancelled while queued, in a record that had another job before, or in a new record. */
START_TEST(job_that_did_not_run_does_not_count_as_long)
{
	learn(7, LONG_JOB_NS);
	atomic_store(&job.started_ns, 0);
	long_job_learn(&word, &job);
	ck_assert(!can_wait(7));
	learn(7, LONG_JOB_NS);
	atomic_store(&job.ended_ns, 999);
	long_job_learn(&word, &job);
	ck_assert(!can_wait(7));
}
END_TEST

CHECK_MAIN("long_job_hint")
