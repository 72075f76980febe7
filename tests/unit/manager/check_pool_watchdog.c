/* SPDX-License-Identifier: MIT */
/* pool_watchdog: how long a pool has owed its manager an answer, by tables of observations.
 * tests/scenario/check_hanging.c does it with a real forkd. */
#include "daemon/manager/pool_watchdog.h"

#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/util.h"
#include "daemon/manager/loop.h"
#define CHECK_SETUP    setup
#define CHECK_TEARDOWN NULL
#include "tests/support/check_unit.h"

#define MS	 NSEC_PER_MSEC
#define INTERVAL (100 * MS)

static struct watchdog_watch watch;
static struct watchdog_look look;

static uint64_t asked;
static bool killed;

static uint64_t ask(struct watchdog *watchdog)
{
	watchdog_said(watchdog);
	return ++asked;
}

static void end(struct watchdog *watchdog, const char *why)
{
	(void)watchdog;
	(void)why;
	killed = true;
}

static const struct watchdog_calls calls = { .ask = ask, .kill = end };

static void setup(void)
{
	asked = 0;
	killed = false;
	memset(&watch, 0, sizeof(watch));
	look = (struct watchdog_look){ .now = 5000 * MS, .due = 5000 * MS, .cpu = 70 };
	ck_assert_uint_eq(watchdog_judge(&watch, &look, INTERVAL), 0);
}

/* The next check: the manager has waited this long for a CPU, and the pool has used this much CPU
 * time. */
static uint64_t later(uint64_t late_ms, uint64_t cpu_ns)
{
	look.due = look.now + INTERVAL;
	look.now = look.due + late_ms * MS;
	look.cpu += cpu_ns;
	return watchdog_judge(&watch, &look, INTERVAL);
}

START_TEST(time_of_a_pool_that_has_a_CPU_counts)
{
	ck_assert_uint_eq(later(0, 1), 100 * MS);
	ck_assert_uint_eq(later(50, 300 * MS), 200 * MS);
}
END_TEST

START_TEST(time_of_a_pool_without_any_CPU_does_not_count)
{
	for (int i = 0; i < 1000; i++)
		ck_assert_uint_eq(later(0, 0), 0);
}
END_TEST

/* No thread has received the signal. */
START_TEST(time_without_any_CPU_counts_if_all_threads_sleep_at_both_checks)
{
	ck_assert_uint_eq(later(0, 0), 0);
	look.asleep = true;
	ck_assert_uint_eq(later(0, 0), 0);
	ck_assert_uint_eq(later(0, 0), 100 * MS);
	ck_assert_uint_eq(later(0, 1), 200 * MS);
	/* One of them waits for a CPU. */
	look.asleep = false;
	ck_assert_uint_eq(later(0, 0), 200 * MS);
	look.asleep = true;
	ck_assert_uint_eq(later(0, 0), 200 * MS);
	ck_assert_uint_eq(later(51, 0), 200 * MS);
}
END_TEST

START_TEST(time_of_a_pool_stopped_at_each_check_counts_separately)
{
	look.stopped = true;
	ck_assert_uint_eq(later(0, 0), 0);
	ck_assert_uint_eq(watch.stopped, 0);
	ck_assert_uint_eq(later(0, 0), 0);
	ck_assert_uint_eq(watch.stopped, 100 * MS);
	/* The manager may have been stopped as well. */
	ck_assert_uint_eq(later(3600 * 1000, 0), 0);
	ck_assert_uint_eq(watch.stopped, 100 * MS);
	ck_assert_uint_eq(later(0, 0), 0);
	ck_assert_uint_eq(watch.stopped, 200 * MS);
	look.stopped = false;
	ck_assert_uint_eq(later(0, 1), 100 * MS);
	ck_assert_uint_eq(watch.stopped, 0);
}
END_TEST

START_TEST(stops_are_not_added_up_and_other_children_change_nothing)
{
	struct watchdog watchdog, *p = &watchdog;

	watchdog_init(p, NULL, &calls, 10 * NSEC_PER_SEC);
	watchdog_begin(p, getpid());
	p->state = WATCHDOG_ASKED;
	p->watch = (struct watchdog_watch){ .last = look, .stopped = 9 * NSEC_PER_SEC };
	p->watch.last.stopped = look.stopped = true;
	/* SIGCHLD, of another child. */
	watchdog_stopped(p, false);
	watch = p->watch;
	ck_assert_uint_eq(later(0, 0), 0);
	ck_assert_uint_eq(watch.stopped, 9 * NSEC_PER_SEC + 100 * MS);
	/* And of this one. */
	p->watch = watch;
	watchdog_stopped(p, true);
	watch = p->watch;
	ck_assert_uint_eq(later(0, 0), 0);
	ck_assert_uint_eq(watch.stopped, 0);
	ck_assert_uint_eq(later(0, 0), 0);
	ck_assert_uint_eq(watch.stopped, 100 * MS);
}
END_TEST

START_TEST(time_while_the_manager_has_no_CPU_does_not_count)
{
	for (int i = 0; i < 1000; i++)
		ck_assert_uint_eq(later(51, 1), 0);
	ck_assert_uint_eq(later(3600 * 1000, 1), 0);
	ck_assert_uint_eq(later(0, 1), 100 * MS);
}
END_TEST

START_TEST(pool_that_writes_a_core_file_may_take_long_to_die)
{
	ck_assert_uint_eq(later(0, 1), 100 * MS);
	look.dying = true;
	for (int i = 0; i < 1000; i++)
		ck_assert_uint_eq(later(0, 100 * MS), 0);
}
END_TEST

/* Its debugger may hold the thread that answers, while a worker runs. */
START_TEST(time_of_a_traced_pool_does_not_count)
{
	ck_assert_uint_eq(later(0, 1), 100 * MS);
	look.traced = look.stopped = true;
	for (int i = 0; i < 1000; i++) {
		ck_assert_uint_eq(later(0, 100 * MS), 0);
		ck_assert_uint_eq(watch.stopped, 0);
	}
	look.traced = look.stopped = false;
	ck_assert_uint_eq(later(0, 1), 100 * MS);
}
END_TEST

/* A dispatcher that is late by the hang timeout of a task, on a busy machine, is not stuck. */
START_TEST(pool_has_at_least_a_second_to_answer)
{
	struct watchdog p;

	watchdog_init(&p, NULL, &calls, 100 * MS);
	ck_assert_uint_eq(p.limit, NSEC_PER_SEC);
	watchdog_init(&p, NULL, &calls, 10 * NSEC_PER_SEC);
	ck_assert_uint_eq(p.limit, 10 * NSEC_PER_SEC);
	watchdog_init(&p, NULL, &calls, 0);
	ck_assert_uint_eq(p.limit, 0);
}
END_TEST

/* A reload changes the limit while a job runs, and the timer of the next question is set. */
START_TEST(removed_limit_cancels_the_question_and_a_new_one_restarts_it)
{
	static const enum watchdog_state states[] = { WATCHDOG_SOON, WATCHDOG_ASKED };
	struct loop loop;

	ck_assert_int_eq(loop_init(&loop), 0);
	for (uint32_t i = 0; i < ARRAY_SIZE(states); i++) {
		struct watchdog watchdog, *p = &watchdog;

		watchdog_init(p, &loop, &calls, 10 * NSEC_PER_SEC);
		watchdog_begin(p, getpid());
		watchdog_said(p);
		if (states[i] == WATCHDOG_ASKED)
			p->timer.call(&p->timer, 0);
		ck_assert_int_eq(p->state, states[i]);
		watchdog_set_limit(p, 0);
		for (uint32_t n = 0; n < 3; n++)
			p->timer.call(&p->timer, 0);
		ck_assert(!killed);
		ck_assert_int_eq(p->state, WATCHDOG_QUIET);
		ck_assert_ptr_null(p->timer.op);
		watchdog_said(p);
		ck_assert_int_eq(p->state, WATCHDOG_QUIET);
		/* The same limit changes nothing; a new limit changes the time of its question. */
		watchdog_set_limit(p, 3600 * NSEC_PER_SEC);
		watchdog_said(p);
		ck_assert_int_eq(p->state, WATCHDOG_SOON);
		watchdog_set_limit(p, 3600 * NSEC_PER_SEC);
		ck_assert_int_eq(p->state, WATCHDOG_SOON);
		watchdog_set_limit(p, NSEC_PER_SEC);
		ck_assert_int_eq(p->state, WATCHDOG_QUIET);
		watchdog_end(p);
	}
	loop_fini(&loop);
}
END_TEST

/* A client sends a ring request, and the manager asks whether the dispatcher reads all rings. */
START_TEST(ring_request_without_a_pool_does_not_affect_the_next_pool)
{
	struct watchdog watchdog, *p = &watchdog;
	struct loop loop;

	ck_assert_int_eq(loop_init(&loop), 0);
	watchdog_init(p, &loop, &calls, 10 * NSEC_PER_SEC);
	/* There is no pool yet, and then no longer one. */
	for (uint64_t i = 0; i < 2; i++) {
		watchdog_said(p);
		/* The question would be due before the pool is READY. */
		if (p->timer.op)
			p->timer.call(&p->timer, 0);
		watchdog_begin(p, getpid());
		ck_assert_int_eq(p->state, WATCHDOG_QUIET);
		ck_assert_ptr_null(p->timer.op);
		/* And it is sent like any other. */
		watchdog_said(p);
		ck_assert_int_eq(p->state, WATCHDOG_SOON);
		p->timer.call(&p->timer, 0);
		ck_assert_int_eq(p->state, WATCHDOG_ASKED);
		ck_assert_uint_eq(asked, i + 1);
		watchdog_answered(p, asked);
		ck_assert_int_eq(p->state, WATCHDOG_QUIET);
		watchdog_end(p);
	}
	loop_fini(&loop);
}
END_TEST

CHECK_MAIN("pool_watchdog")
