/* SPDX-License-Identifier: MIT */
/*
 * Sections of fibers that may block, on the workers of a pool in this process. The worker continues
 * with other work, and the fiber returns; cancels, limits and errors behave as documented. Tests
 * check results and counters: a wait for a thread that is blocked would hang the test.
 */
#define CHECK_TIMEOUT 120

#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <forkd/fiber.h>

#include "common/clock.h"
#include "tests/support/check_unit.h"
#include "tests/support/fiber_rig.h"

static int gate[2];		 /* a pipe: a fiber that reads from it in a section stays blocked */
static _Atomic uint32_t inside;	 /* fibers in sections, counted by themselves */
static _Atomic uint32_t most;	 /* maximum of inside */
static _Atomic uint32_t refused; /* sections that did not begin because the job had ended */
static _Atomic uint64_t burnt;	 /* ns of CPU time used in a section */
static _Atomic bool short_of_threads;

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *),
			  void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *),
			  void *arg);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *),
			  void *arg)
{
	return atomic_load(&short_of_threads) ? EAGAIN
					      : __real_pthread_create(thread, attr, fn, arg);
}

/* ------------------------------------------------------------------------ tasks */

/* tests/cli/check-backtrace has a breakpoint here. */
static __attribute__((noinline)) void enter(void)
{
	uint32_t now = atomic_fetch_add(&inside, 1) + 1, seen = atomic_load(&most);

	while (now > seen && !atomic_compare_exchange_weak(&most, &seen, now))
		;
}

static void take_one(void)
{
	char c;

	if (read(gate[0], &c, 1) != 1)
		abort();
}

static void open_gate(int64_t n)
{
	for (; n > 0; n--)
		if (write(gate[1], "", 1) != 1)
			abort();
}

static void passes_gate(void *arg)
{
	int r = fk_fiber_block_begin();

	if (r < 0) {
		atomic_fetch_add(&refused, r == -ECANCELED);
		return;
	}
	enter();
	take_one();
	atomic_fetch_sub(&inside, 1);
	if (fk_fiber_block_end() == -ECANCELED)
		atomic_fetch_add(&cut, 1);
	if (arg)
		atomic_fetch_add((_Atomic int64_t *)arg, 1);
}

/* Another fiber of the same job releases it, and needs a worker for that. */
FK_FIBER_TASK(int64_t, handed, (int64_t, n))
{
	_Atomic int64_t passed = 0;

	for (int64_t i = 0; i < n; i++) {
		struct fk_counter one = FK_COUNTER;

		(void)fk_fiber_spawn(passes_gate, (void *)(uintptr_t)&passed, &one);
		while (!atomic_load(&inside) && fk_fiber_yield() == 0)
			;
		open_gate(1);
		(void)fk_counter_wait(&one, 0);
	}
	return passed;
}
FK_EXPORT(handed, 0, "Sections that one outside of them ends")

FK_FIBER_TASK(int64_t, gated, (int64_t, n))
{
	struct fk_counter all = FK_COUNTER;
	_Atomic int64_t passed = 0;

	for (int64_t i = 0; i < n; i++)
		(void)fk_fiber_spawn(passes_gate, (void *)(uintptr_t)&passed, &all);
	(void)fk_counter_wait(&all, 0);
	return passed;
}
FK_EXPORT(gated, 0, "Fibers that read from a pipe each")

static void passes_twice(void *arg)
{
	struct fk_counter *all = arg;

	if (fk_fiber_block_begin() < 0 || fk_fiber_block_end() < 0 || fk_counter_add(all, -1) < 0 ||
	    fk_counter_wait(all, 0) < 0)
		return;
	passes_gate(NULL);
}

FK_FIBER_TASK(int64_t, gated_again, (int64_t, n))
{
	struct fk_counter all = FK_COUNTER, once = FK_COUNTER_OF((uint32_t)n);

	for (int64_t i = 0; i < n; i++)
		(void)fk_fiber_spawn(passes_twice, &once, &all);
	(void)fk_counter_wait(&all, 0);
	return n;
}
FK_EXPORT(gated_again, 0, "The same, when all have been in a section before")

static void adds_in_section(void *arg)
{
	if (fk_fiber_block_begin() < 0)
		return;
	(void)fk_counter_add(arg, -1);
	(void)fk_fiber_block_end();
}

static int64_t errors_inside(void)
{
	static struct fk_local key;
	struct fk_counter none = FK_COUNTER, number = FK_COUNTER_OF(2);
	int64_t x;

	FAILS(fk_fiber_block_begin(), -EPERM);
	FAILS(fk_fiber_spawn(adds_in_section, NULL, NULL), -EPERM);
	FAILS(fk_counter_wait(&none, 0), -EPERM);
	FAILS(fk_counter_wait_until(&none, 0, 1), -EPERM);
	FAILS(fk_fiber_yield(), -EPERM);
	FAILS(fk_fiber_sleep(1), -EPERM);
	FAILS(fk_fiber_fail(-EDOM), -EPERM);
	FAILS(fk_fiber_local(&key) == NULL, true);
	FAILS(FK_FIBER_CALL(&x, fib, 1), -EPERM);
	FAILS(fk_fiber_is_over(), false);
	FAILS(fk_counter_add(&number, -1), 0);
	return 0;
}

static int64_t errors(void)
{
	struct fk_counter told = FK_COUNTER_OF(1), all = FK_COUNTER;
	int64_t line;

	FAILS(fk_fiber_block_end(), -EPERM);
	FAILS(fk_fiber_block_begin(), 0);
	line = errors_inside();
	FAILS(fk_fiber_block_end(), 0);
	FAILS(line, 0);
	FAILS(fk_fiber_block_end(), -EPERM);
	FAILS(fk_fiber_yield(), 0);
	/* A fiber in a section counts for a fiber that waits outside. */
	FAILS(fk_fiber_spawn(adds_in_section, &told, &all), 0);
	FAILS(fk_counter_wait(&told, 0), 0);
	FAILS(fk_counter_wait(&all, 0), 0);
	FAILS(fk_fiber_fail(-EDOM), 0);
	FAILS(fk_fiber_block_begin(), -ECANCELED);
	return 0;
}

static _Atomic int64_t errors_line;

FK_FIBER_TASK(int64_t, errors_noted, (int64_t, n))
{
	atomic_store(&errors_line, errors());
	return n;
}
FK_EXPORT(errors_noted, 0, "Notes the line of what is not as it should be, or 0")

FK_LEAF_TASK(int64_t, no_fiber, (int64_t, n))
{
	return fk_fiber_block_begin() != -EPERM || fk_fiber_block_end() != -EPERM;
}
FK_EXPORT(no_fiber, 0, "1 if a frame can do what only fibers can")

static void ends_data(void *value)
{
	/* In the fiber, on a worker again. */
	if (value && fk_fiber_yield() != -EPERM)
		atomic_fetch_add(&ended, 1);
}

static struct fk_local data = FK_LOCAL(ends_data);

static void leaves_it_open(void *arg)
{
	*fk_fiber_local(&data) = arg;
	(void)fk_fiber_block_begin();
}

FK_FIBER_TASK(int64_t, open, (int64_t, n))
{
	struct fk_counter all = FK_COUNTER;

	for (int64_t i = 0; i < n; i++)
		(void)fk_fiber_spawn(leaves_it_open, &all, &all);
	(void)fk_counter_wait(&all, 0);
	(void)fk_fiber_block_begin();
	return n;
}
FK_EXPORT(open, 0, "Fibers that end within sections, this one too")

FK_FIBER_TASK(int64_t, until_over, (int64_t, n))
{
	if (fk_fiber_block_begin() < 0)
		return -1;
	atomic_fetch_add(&inside, 1);
	while (!fk_fiber_is_over())
		sched_yield();
	if (fk_fiber_block_end() == -ECANCELED && fk_fiber_yield() == -ECANCELED)
		atomic_fetch_add(&cut, 1);
	return n;
}
FK_EXPORT(until_over, 0, "A section that lasts as long as the job")

struct bench {
	int64_t rounds;
	_Atomic int64_t sum;
	struct fk_counter go;
};

static void back_and_forth(void *arg)
{
	struct bench *bench = arg;
	int64_t sum = 0;
	double half = 0.5;

	for (int64_t i = 0; i < bench->rounds; i++) {
		volatile int64_t here = i;

		if (fk_fiber_block_begin() < 0)
			return;
		here = here + 1;
		half *= 2;
		if (i % 4 == 0)
			sched_yield();
		if (fk_fiber_block_end() < 0)
			return;
		half /= 2;
		sum += here - i;
		if (i % 3 == 0)
			(void)fk_fiber_yield();
		else if (i % 3 == 1)
			(void)fk_counter_wait(&bench->go, 0);
	}
	if (half == 0.5)
		atomic_fetch_add(&bench->sum, sum);
}

static void lets_go(void *arg)
{
	struct bench *bench = arg;

	(void)fk_counter_add(&bench->go, -1);
}

FK_FIBER_TASK(int64_t, back_forth, (int64_t, n))
{
	struct fk_counter all = FK_COUNTER;
	struct bench bench = { .rounds = 50, .go = FK_COUNTER_OF(1) };

	for (int64_t i = 0; i < n; i++)
		(void)fk_fiber_spawn(back_and_forth, &bench, &all);
	(void)fk_fiber_spawn(lets_go, &bench, &all);
	(void)fk_counter_wait(&all, 0);
	return bench.sum;
}
FK_EXPORT(back_forth, 0, "Sections and waits of n fibers")

FK_TASK(int64_t, both, (int64_t, n), int64_t x; int64_t y;)
FK_NO_LEAF(both)
{
	FK_FORK(x, back_forth, self->n);
	FK_CALL(y, fib, self->n);
	FK_JOIN();
	FK_RETURN(self->x + self->y);
}
FK_END(both)
FK_EXPORT(both, 0, "The same with frames")

FK_FIBER_TASK(int64_t, scarce, (int64_t, n))
{
	struct fk_counter all = FK_COUNTER;
	_Atomic int64_t passed = 0;

	atomic_store(&short_of_threads, true);
	FAILS(fk_fiber_block_begin(), -EAGAIN);
	atomic_store(&short_of_threads, false);
	FAILS(fk_fiber_block_begin(), 0);
	FAILS(fk_fiber_block_end(), 0);
	/* There is one thread, for which the others wait. */
	atomic_store(&short_of_threads, true);
	for (int64_t i = 0; i < n; i++)
		(void)fk_fiber_spawn(passes_gate, (void *)(uintptr_t)&passed, &all);
	open_gate(n);
	(void)fk_counter_wait(&all, 0);
	atomic_store(&short_of_threads, false);
	FAILS(passed, n);
	return 0;
}
FK_EXPORT(scarce, 0, "The line of what is not as it should be, or 0")

static uint64_t cpu_ns(void)
{
	struct timespec used;

	(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
	return (uint64_t)used.tv_sec * NSEC_PER_SEC + (uint64_t)used.tv_nsec;
}

FK_FIBER_TASK(int64_t, burns, (int64_t, n))
{
	uint64_t began, now;

	if (fk_fiber_block_begin() < 0)
		return -1;
	began = now = cpu_ns();
	while (now < began + (uint64_t)n)
		now = cpu_ns();
	atomic_store(&burnt, now - began);
	return fk_fiber_block_end();
}
FK_EXPORT(burns, 0, "Uses this much CPU time in a section")

FK_MODULE(t, "What check_blocking_section runs")

/* ------------------------------------------------------------------------ tests */

static uint32_t limit; /* of threads; 0: unlimited */

static void prepare(struct pool *pool)
{
	if (limit)
		pool->fibers->blocking.max = limit;
}

/* threads: maximum; 0: unlimited. */
static void start_with(uint32_t threads, uint32_t workers, bool forced)
{
	atomic_store(&inside, 0);
	atomic_store(&most, 0);
	atomic_store(&refused, 0);
	limit = threads;
	rig_prepare = prepare;
	if (!gate[1])
		ck_assert_int_eq(pipe(gate), 0);
	start(workers, forced);
}

static void await(_Atomic uint32_t *number, uint32_t n)
{
	while (atomic_load(number) < n)
		sched_yield();
}

START_TEST(worker_runs_fibers_while_one_is_in_a_section)
{
	start_with(0, 1, false);
	ck_assert_int_eq(rig_call(&rig, "t:handed", 20), 20);
	ck_assert_uint_eq(rig_counter(&rig, fiber_blocks), 20);
	ck_assert_uint_eq(rig_counter(&rig, fiber_block_threads), 1);
	ck_assert_uint_eq(rig_counter(&rig, fiber_block_waits), 0);
	stop();
}
END_TEST

START_TEST(worker_runs_other_jobs_while_a_fiber_is_in_a_section)
{
	start_with(0, 1, false);
	submit(1, "t:gated", 3);
	await(&inside, 3);
	ck_assert_int_eq(rig_call(&rig, "t:fib", 15), 610);
	open_gate(3);
	ck_assert_int_eq(result(1), 3);
	stop();
}
END_TEST

START_TEST(sections_beyond_the_limit_wait_for_a_thread)
{
	start_with(2, 1, false);
	submit(1, "t:gated", 20);
	while (rig_counter(&rig, fiber_block_waits) < 18)
		sched_yield();
	/* No worker waits with them. */
	ck_assert_int_eq(rig_call(&rig, "t:fib", 15), 610);
	await(&inside, 2);
	open_gate(20);
	ck_assert_int_eq(result(1), 20);
	ck_assert_uint_eq(atomic_load(&most), 2);
	ck_assert_uint_eq(rig_counter(&rig, fiber_blocks), 20);
	ck_assert_uint_eq(rig_counter(&rig, fiber_block_waits), 18);
	ck_assert_uint_eq(rig_counter(&rig, fiber_block_threads), 2);
	stop();
}
END_TEST

START_TEST(cancel_ends_waits_for_a_thread)
{
	for (uint32_t workers = 1; workers <= 2; workers++) {
		start_with(1, workers, false);
		submit(1, "t:gated", 10);
		while (rig_counter(&rig, fiber_block_waits) < 9)
			sched_yield();
		submit(2, "t:gated", 5);
		while (rig_counter(&rig, fiber_block_waits) < 14)
			sched_yield();
		await(&inside, 1);
		rig_cancel(&rig, 1);
		await(&refused, 9);
		/* The fiber in the section stays, and so do those that wait for it. */
		ck_assert_uint_eq(atomic_load(&inside), 1);
		open_gate(1);
		ck_assert_uint_eq(rig_wait(&rig, 1), JOB_CANCELLED);
		ck_assert_uint_eq(atomic_load(&cut), 1);
		open_gate(5);
		ck_assert_int_eq(result(2), 5);
		ck_assert_uint_eq(atomic_load(&refused), 9);
		stop();
	}
}
END_TEST

static uint32_t queued(void)
{
	struct blocking_threads *threads = &rig.pool->fibers->blocking;
	uint32_t n;

	pthread_mutex_lock(&threads->lock);
	n = threads->n_queued;
	pthread_mutex_unlock(&threads->lock);
	return n;
}

START_TEST(cancelled_fiber_that_was_in_a_section_is_refused)
{
	start_with(1, 1, false);
	submit(1, "t:gated_again", 10);
	await(&inside, 1);
	while (queued() < 9)
		sched_yield();
	rig_cancel(&rig, 1);
	await(&refused, 9);
	open_gate(1);
	ck_assert_uint_eq(rig_wait(&rig, 1), JOB_CANCELLED);
	stop();
}
END_TEST

START_TEST(section_sees_that_the_job_was_cancelled)
{
	start_with(0, 1, false);
	submit(1, "t:until_over", 1);
	await(&inside, 1);
	see_cancelled(1);
	ck_assert_uint_eq(atomic_load(&cut), 1);
	/* The next job finds the thread free. */
	ck_assert_int_eq(rig_call(&rig, "t:handed", 1), 1);
	ck_assert_uint_eq(rig_counter(&rig, fiber_block_threads), 1);
	stop();
}
END_TEST

START_TEST(deadline_is_noticed_at_the_end_of_a_section)
{
	start_with(0, 1, false);
	see_expired("t:until_over", 1);
	stop();
}
END_TEST

/* In any state: about to begin, in the queue, in the section, about to end. */
START_TEST(cancel_at_any_moment_ends_the_job)
{
	for (uint32_t workers = 1; workers <= 2; workers++) {
		start_with(3, workers, false);
		for (uint32_t i = 0; i < 150; i++) {
			(void)cancel_after(i % 50 * 10000, i % 2 ? "t:back_forth" : "t:both", 12);
		}
		stop();
	}
}
END_TEST

START_TEST(errors_are_returned_inside_and_outside)
{
	start_with(0, 1, false);
	atomic_store(&errors_line, -1);
	see_failed("t:errors_noted", 0, -EDOM);
	ck_assert_int_eq(atomic_load(&errors_line), 0);
	ck_assert_int_eq(rig_call(&rig, "t:no_fiber", 0), 0);
	stop();
}
END_TEST

START_TEST(fiber_that_ends_in_a_section_returns_first)
{
	for (uint32_t workers = 1; workers <= 2; workers++) {
		start_with(0, workers, false);
		ck_assert_int_eq(rig_call(&rig, "t:open", 30), 30);
		ck_assert_uint_eq(atomic_load(&ended), 30);
		ck_assert_uint_eq(rig_counter(&rig, fiber_blocks), 31);
		stop();
	}
}
END_TEST

START_TEST(fibers_enter_and_leave_sections_repeatedly)
{
	for (uint32_t i = 0; i < 6; i++) {
		start_with(i % 2 ? 3 : 0, 1u << i / 2, i % 2);
		ck_assert_int_eq(rig_call(&rig, "t:back_forth", 20), 1000);
		ck_assert_int_eq(rig_call(&rig, "t:both", 20), 1000 + 6765);
		ck_assert_uint_eq(rig_counter(&rig, fiber_blocks), 2000);
		stop();
	}
}
END_TEST

START_TEST(signals_and_requests_at_any_moment_do_no_harm)
{
	pthread_t storm;

	for (uint32_t workers = 1; workers <= 2; workers++) {
		start_with(0, workers, false);
		storm = quiet_storm_begin(&rig);
		for (int i = 0; i < 3; i++)
			ck_assert_int_eq(rig_call(&rig, "t:both", 15), 750 + 610);
		quiet_storm_end(storm);
		stop();
	}
}
END_TEST

START_TEST(section_without_threads_fails_and_one_thread_is_enough)
{
	start_with(0, 1, false);
	ck_assert_int_eq(rig_call(&rig, "t:scarce", 10), 0);
	ck_assert_uint_eq(rig_counter(&rig, fiber_block_threads), 1);
	stop();
}
END_TEST

START_TEST(cpu_time_of_a_section_is_charged_to_the_job)
{
	_Atomic uint64_t *charged;
	uint64_t before;

	start_with(0, 1, false);
	charged = &rig.pool->board->clients[0].cpu_ns;
	before = atomic_load(charged);
	ck_assert_int_eq(rig_call(&rig, "t:burns", 20 * NSEC_PER_MSEC), 0);
	ck_assert_uint_ge(atomic_load(charged) - before, atomic_load(&burnt));
	stop();
}
END_TEST

CHECK_MAIN("fiber_block")
