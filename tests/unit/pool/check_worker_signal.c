/* SPDX-License-Identifier: MIT */
/*
 * Pools with the signal of the pool process, with a free real-time signal, and without one. All
 * give the same results. A signal publishes children below a leaf. Without one they are public at
 * the next fork, and the dispatcher ends slices. The program keeps its own signals.
 */
#define CHECK_TIMEOUT  120
#define CHECK_SETUP    NULL
#define CHECK_TEARDOWN NULL

#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>

#include <forkd/task.h>

#include "daemon/core/pool_state.h"
#include "daemon/core/steal_policy.h"
#include "daemon/core/worker.h"
#include "daemon/pool/worker_signal.h"
#include "shm/job.h"
#include "tests/support/check_unit.h"
#include "tests/support/quiet.h"
#include "tests/support/rig.h"
#include "tests/support/tasks.h"

#define HIDDEN (2 * (int64_t)POLICY_PUBLIC) /* more than a request publishes */
static const sigset_t none_waited;

#define FIRST (SIGRTMIN + WORKER_SIGNALS_LEFT)

static struct rig rig;
static _Atomic int64_t taken; /* continuations of `hidden` that have begun */

/* ------------------------------------------------------------------------ tasks */

/* A leaf below HIDDEN continuations that ends when all have been stolen. */
FK_LEAF_TASK(int64_t, until_taken, (int64_t, n))
{
	while (atomic_load(&taken) < n)
		sched_yield();
	return 0;
}

/* A leaf that ends when a thief has sent a request, and has then tried 1000 times to steal. Returns
 * 0 if at most n continuations began in that time. */
FK_LEAF_TASK(int64_t, while_asked, (int64_t, n))
{
	struct worker *w = worker_self();
	int64_t before = atomic_load(&taken);
	uint64_t tries;

	while (!worker_is_asked(w))
		sched_yield();
	tries = rig_counter(&rig, steal_attempts);
	while (rig_counter(&rig, steal_attempts) < tries + 1000)
		sched_yield();
	return atomic_load(&taken) - before <= n ? 0 : 1000;
}

/* Runs a leaf below n continuations. what: 0: until_taken; 1: while_asked, followed by forks until
 * all have been stolen. */
FK_TASK(int64_t, hidden, (int64_t, n, int64_t, what), int64_t x; int64_t y;)
FK_NO_LEAF(hidden)
{
	if (self->n == 0 && self->what == 0) {
		FK_CALL(x, until_taken, HIDDEN);
		FK_RETURN(self->x);
	}
	if (self->n == 0) {
		/* Those that were public, and one that the thief had stolen just before. */
		FK_CALL(y, while_asked, (int64_t)POLICY_PUBLIC + 1);
		while (atomic_load(&taken) < HIDDEN) {
			FK_FORK(x, leaf, 0);
			FK_JOIN();
		}
		FK_RETURN(self->y);
	}
	FK_FORK(x, hidden, self->n - 1, self->what);
	atomic_fetch_add(&taken, 1);
	FK_JOIN();
	FK_RETURN(self->x + 1);
}
FK_END(hidden)

FK_TASK(int64_t, below, (int64_t, what), int64_t x;)
FK_NO_LEAF(below)
{
	FK_CALL(x, hidden, HIDDEN, self->what);
	FK_RETURN(self->x);
}
FK_END(below)
FK_EXPORT(below, 0, "The number of its continuations that ran")

static _Atomic int64_t turn, turns; /* the job that ran last, and how often that changed */

/* Two jobs on one worker end when they have taken turns. */
FK_TASK(int64_t, alternates, (int64_t, n), int64_t x;)
FK_NO_LEAF(alternates)
{
	while (atomic_load(&turns) < 8) {
		if (atomic_exchange(&turn, self->n) != self->n)
			atomic_fetch_add(&turns, 1);
		FK_FORK(x, leaf, 0);
		FK_JOIN();
	}
	FK_RETURN(self->n);
}
FK_END(alternates)
FK_EXPORT(alternates, 0, "n")

FK_MODULE(t, "What check_worker_signal runs")

/* ------------------------------------------------------------------------ pools */

static void take_none(struct pool *pool)
{
	worker_release_signal(pool);
	ck_assert_int_eq(pool->signal, 0);
}

static void take_free(struct pool *pool)
{
	worker_release_signal(pool);
	ck_assert(worker_catch_free_signal(pool, &none_waited));
	ck_assert_int_ge(pool->signal, FIRST);
}

static void (*const kinds[])(struct pool *) = { NULL, take_free, take_none };
enum { USUAL, FREE, NONE };

static void start(int kind, uint32_t workers, bool forced)
{
	atomic_store(&taken, 0);
	atomic_store(&turn, 0);
	atomic_store(&turns, 0);
	rig_prepare = kinds[kind];
	rig_start(&rig, workers, &fk_module, forced);
}

static void stop(void)
{
	quiet(&rig);
	rig_stop(&rig);
}

static bool is_usual(int signo)
{
	struct sigaction now;

	ck_assert_int_eq(sigaction(signo, NULL, &now), 0);
	return !(now.sa_flags & SA_SIGINFO) && now.sa_handler == SIG_DFL;
}

/* ------------------------------------------------------------------------ tests */

START_TEST(results_do_not_depend_on_the_signal)
{
	for (int kind = USUAL; kind <= NONE; kind++)
		for (uint32_t i = 0; i < 6; i++) {
			uint32_t workers = 1 + i / 2;

			start(kind, workers, i % 2);
			ck_assert_int_eq(rig_call(&rig, "t:fib", 20), 6765);
			ck_assert_int_eq(rig_call(&rig, "t:forked", 3000), 3000);
			ck_assert_int_eq(rig_call(&rig, "t:called", 3000), 3000);
			ck_assert_int_eq(rig_call(&rig, "t:wide", 8), 256);
			for (uint32_t w = 0; w < workers; w++)
				ck_assert_int_eq(
					atomic_load(&rig.pool->workers[w].slice_timer.timed),
					kind != NONE);
			if (kind == NONE) {
				ck_assert_uint_eq(rig_counter(&rig, steal_signals), 0);
				ck_assert_uint_eq(rig_counter(&rig, published_by_signal), 0);
				ck_assert_uint_eq(rig_counter(&rig, slice_expirations), 0);
			}
			stop();
		}
}
END_TEST

START_TEST(signal_publishes_children_below_a_leaf)
{
	for (int kind = USUAL; kind <= FREE; kind++)
		for (int i = 0; i < 20; i++) {
			start(kind, 2, false);
			ck_assert_int_eq(rig_call(&rig, "t:below", 0), HIDDEN);
			ck_assert_uint_gt(rig_counter(&rig, steal_signals), 0);
			ck_assert_uint_gt(rig_counter(&rig, published_by_signal), 0);
			stop();
		}
}
END_TEST

START_TEST(children_are_public_at_the_next_fork_without_a_signal)
{
	for (int i = 0; i < 20; i++) {
		start(NONE, 2, false);
		ck_assert_int_eq(rig_call(&rig, "t:below", 1), HIDDEN);
		ck_assert_uint_eq(rig_counter(&rig, steal_signals), 0);
		ck_assert_uint_eq(rig_counter(&rig, published_by_signal), 0);
		stop();
	}
}
END_TEST

START_TEST(jobs_alternate_with_and_without_a_signal)
{
	for (int kind = USUAL; kind <= NONE; kind++) {
		start(kind, 1, false);
		for (int64_t job = 1; job <= 2; job++)
			rig_submit(&rig, (uint32_t)job, "t:alternates", &job, sizeof(job));
		rig_all_done(&rig, 1, 3);
		ck_assert_uint_eq(rig_counter(&rig, slice_expirations) > 0, kind != NONE);
		stop();
	}
}
END_TEST

static void ignore(int signo)
{
	(void)signo;
}

START_TEST(first_free_signal_is_taken_and_given_back)
{
	ck_assert_ptr_ne(signal(FIRST, ignore), SIG_ERR);
	ck_assert_ptr_ne(signal(FIRST + 1, SIG_IGN), SIG_ERR);
	start(FREE, 2, false);
	ck_assert_int_eq(rig.pool->signal, FIRST + 2);
	ck_assert(!is_usual(FIRST + 2));
	ck_assert(is_usual(WORKER_SIGNAL));
	/* Without effect on a thread that is no worker. */
	errno = EDOM;
	ck_assert_int_eq(raise(FIRST + 2), 0);
	ck_assert_int_eq(errno, EDOM);
	ck_assert_int_eq(rig_call(&rig, "t:fib", 15), 610);
	stop();
	ck_assert(is_usual(FIRST + 2));
	ck_assert_ptr_eq(signal(FIRST, SIG_DFL), ignore);
	ck_assert_ptr_eq(signal(FIRST + 1, SIG_DFL), SIG_IGN);
}
END_TEST

START_TEST(signal_that_the_program_has_taken_is_left_alone)
{
	int signo;

	start(FREE, 2, false);
	ck_assert_int_eq(rig_call(&rig, "t:fib", 15), 610);
	signo = rig.pool->signal;
	ck_assert_ptr_ne(signal(signo, ignore), SIG_ERR);
	stop();
	ck_assert_ptr_eq(signal(signo, SIG_DFL), ignore);
}
END_TEST

START_TEST(pool_has_no_signal_if_none_is_free)
{
	struct pool *pool = pool_new();

	ck_assert(pool);
	for (int signo = FIRST; signo <= SIGRTMAX; signo++)
		(void)signal(signo, SIG_IGN);
	ck_assert(!worker_catch_free_signal(pool, &none_waited));
	ck_assert_int_eq(pool->signal, 0);
	for (int signo = FIRST; signo <= SIGRTMAX; signo++)
		(void)signal(signo, SIG_DFL);
	pool_delete(pool);
}
END_TEST

START_TEST(workers_get_a_signal_that_their_creator_blocks)
{
	sigset_t all, before;

	sigfillset(&all);
	ck_assert_int_eq(pthread_sigmask(SIG_BLOCK, &all, &before), 0);
	start(FREE, 2, false);
	ck_assert_int_eq(rig_call(&rig, "t:below", 0), HIDDEN);
	ck_assert_uint_gt(rig_counter(&rig, published_by_signal), 0);
	stop();
	ck_assert_int_eq(pthread_sigmask(SIG_SETMASK, &before, NULL), 0);
}
END_TEST

CHECK_MAIN("worker_signal")
