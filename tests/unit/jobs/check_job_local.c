/* SPDX-License-Identifier: MIT */
/* Job-local data: each job has its own, on whichever workers its tasks and fibers run. */
#include <errno.h>
#include <sched.h>

#include <forkd/fiber.h>

#include "shm/job.h"
#include "tests/support/check_unit.h"
#include "tests/support/daemon.h"
#include "tests/support/rig.h"

static struct rig rig;
static _Atomic uint32_t entered, ends, wrong, begun;
static _Atomic uint64_t ended_sum;

/* Of the calling thread: its next calloc() fails. */
static _Thread_local bool short_of_memory;

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);

void *__wrap_calloc(size_t n, size_t size)
{
	return short_of_memory ? NULL : __real_calloc(n, size);
}

struct sum {
	_Atomic uint64_t added;
	int64_t job;
};

static void sum_end(void *value)
{
	struct sum *sum = value;

	atomic_fetch_add(&ended_sum, atomic_load(&sum->added));
	atomic_fetch_add(&ends, 1);
}

static const struct fk_job_key sum_key = FK_JOB_LOCAL(struct sum, sum_end);
static const struct fk_job_key plain_key = FK_JOB_LOCAL(_Atomic int64_t, NULL);
static const struct fk_job_key other_key = FK_JOB_LOCAL(int64_t, NULL);
static const struct fk_job_key overflow_key = { .fk_size = SIZE_MAX };

/* A binary tree of depth n, whose leaves add 1 to the job's value. */
FK_TASK(int64_t, tree, (int64_t, n, int64_t, job), int64_t left; int64_t right;)
{
	struct sum *sum = fk_job_local(&sum_key);

	if (!sum || sum->job != job)
		atomic_fetch_add(&wrong, 1);
	else if (!n)
		atomic_fetch_add(&sum->added, 1);
	if (!n)
		FK_LEAF_VALUE(1);
}
FK_BODY(tree)
{
	FK_FORK(left, tree, self->n - 1, self->job);
	FK_CALL(right, tree, self->n - 1, self->job);
	FK_JOIN();
	if (((struct sum *)fk_job_local(&sum_key))->job != self->job)
		atomic_fetch_add(&wrong, 1);
	FK_RETURN(self->left + self->right);
}
FK_END(tree)

FK_TASK(int64_t, own, (int64_t, job), int64_t leaves;)
{
}
FK_BODY(own)
{
	struct sum *sum = fk_job_local(&sum_key);

	if (!sum || sum->job || atomic_load(&sum->added))
		FK_FAIL(1);
	sum->job = self->job;
	FK_CALL(leaves, tree, 10, self->job);
	sum = fk_job_local(&sum_key);
	FK_RETURN(self->leaves == (int64_t)atomic_load(&sum->added) ? self->leaves : -1);
}
FK_END(own)

/* Two tasks of a job, on two workers, use a key first at the same time. */
FK_LEAF_TASK(int64_t, first_use, ())
{
	_Atomic int64_t *value;

	atomic_fetch_add(&entered, 1);
	while (atomic_load(&entered) % 2)
		sched_yield();
	value = fk_job_local(&plain_key);
	return value ? atomic_fetch_add(value, 1) : -100;
}

FK_TASK(int64_t, both, (int64_t, unused), int64_t left; int64_t right;)
{
}
FK_BODY(both)
{
	FK_FORK(left, first_use);
	FK_CALL(right, first_use);
	FK_JOIN();
	FK_RETURN(self->left + self->right + 10 * *(_Atomic int64_t *)fk_job_local(&plain_key));
}
FK_END(both)

FK_LEAF_TASK(int64_t, fails, (int64_t, unused))
{
	(void)unused;
	atomic_fetch_add(&((struct sum *)fk_job_local(&sum_key))->added, 1);
	FK_LEAF_FAIL(-EDOM);
}

FK_LEAF_TASK(int64_t, no_memory, (int64_t, unused))
{
	bool fails;

	(void)unused;
	short_of_memory = true;
	fails = !fk_job_local(&other_key);
	short_of_memory = false;
	return fails && !fk_job_local(&overflow_key) && fk_job_local(&other_key);
}

static void fiber_part(void *arg)
{
	(void)arg;
	if (fk_fiber_yield() < 0)
		return;
	atomic_fetch_add(&((struct sum *)fk_job_local(&sum_key))->added, 1);
}

/* Fibers add to the value of their job; in a blocking section there is none. */
FK_FIBER_TASK(int64_t, fibers, (int64_t, n))
{
	struct fk_counter running = FK_COUNTER;
	void *in_section;

	for (int64_t i = 0; i < n; i++)
		if (fk_fiber_spawn(fiber_part, NULL, &running) < 0)
			return -1;
	if (fk_counter_wait(&running, 0) < 0 || fk_fiber_block_begin() < 0)
		return -2;
	in_section = fk_job_local(&sum_key);
	if (fk_fiber_block_end() < 0 || in_section)
		return -3;
	return (int64_t)atomic_load(&((struct sum *)fk_job_local(&sum_key))->added);
}

/* Waits until it is cancelled. */
FK_FIBER_TASK(int64_t, waits, (int64_t, unused))
{
	struct fk_counter never = FK_COUNTER_OF(1);

	(void)unused;
	atomic_fetch_add(&((struct sum *)fk_job_local(&sum_key))->added, 1);
	atomic_store(&begun, 1);
	return fk_counter_wait(&never, 0);
}

FK_EXPORT_RESULTS(own, (int64_t, leaves), 0, "A tree that counts its leaves in the job's value")
FK_EXPORT_RESULTS(both, (int64_t, sum), 0, "Two first uses at the same time")
FK_EXPORT_RESULTS(fails, (int64_t, none), 0, "Fails with a value")
FK_EXPORT_RESULTS(no_memory, (int64_t, ok), 0, "Values that are too large")
FK_EXPORT_RESULTS(fibers, (int64_t, sum), 0, "Fibers with the job's value")
FK_EXPORT_RESULTS(waits, (int64_t, none), 0, "Waits to be cancelled")
FK_MODULE(local, "Job-local data")

static void start(bool force_steals)
{
	atomic_store(&ends, 0);
	atomic_store(&ended_sum, 0);
	atomic_store(&entered, 0);
	atomic_store(&begun, 0);
	atomic_store(&wrong, 0);
	rig_start(&rig, 4, &fk_module, force_steals);
}

static void jobs_have_own(bool force_steals)
{
	start(force_steals);
	for (int64_t round = 0; round < 4; round++) {
		for (uint32_t i = 0; i < 8; i++) {
			int64_t job = i + 1;

			rig_submit(&rig, i, "local:own", &job, sizeof(job));
		}
		rig_all_done(&rig, 0, 8);
	}
	ck_assert_uint_eq(atomic_load(&wrong), 0);
	ck_assert_uint_eq(atomic_load(&ends), 32);
	ck_assert_uint_eq(atomic_load(&ended_sum), 32 * 1024);
	ck_assert_int_eq(rig_call(&rig, "local:own", 5), 1024);
	rig_stop(&rig);
}

START_TEST(jobs_have_values_of_their_own)
{
	jobs_have_own(false);
}
END_TEST

START_TEST(jobs_whose_forks_are_stolen_have_values_of_their_own)
{
	jobs_have_own(true);
}
END_TEST

/* Both tasks get the same value: one adds to 0, one to 1. */
START_TEST(first_uses_at_the_same_time_get_one_value)
{
	start(false);
	for (uint32_t i = 0; i < 200; i++)
		ck_assert_int_eq(rig_call(&rig, "local:both", 0), 21);
	rig_stop(&rig);
}
END_TEST

START_TEST(end_function_runs_once_for_each_outcome)
{
	int64_t arg = 0;

	start(false);
	rig_submit(&rig, 0, "local:fails", &arg, sizeof(arg));
	rig_fails(&rig, 0, -EDOM);
	ck_assert_uint_eq(atomic_load(&ends), 1);
	rig_submit(&rig, 1, "local:waits", &arg, sizeof(arg));
	DAEMON_AWAIT(atomic_load(&begun));
	rig_cancel(&rig, 1);
	ck_assert_uint_eq(rig_wait(&rig, 1), JOB_CANCELLED);
	ck_assert_uint_eq(atomic_load(&ends), 2);
	ck_assert_int_eq(rig_call(&rig, "local:fibers", 50), 50);
	ck_assert_uint_eq(atomic_load(&ends), 3);
	ck_assert_uint_eq(atomic_load(&ended_sum), 52);
	rig_stop(&rig);
}
END_TEST

START_TEST(no_memory_is_null)
{
	start(false);
	ck_assert_int_eq(rig_call(&rig, "local:no_memory", 0), 1);
	ck_assert_ptr_null(fk_job_local(&plain_key));
	rig_stop(&rig);
}
END_TEST

CHECK_MAIN("job_local")
