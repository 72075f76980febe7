/* SPDX-License-Identifier: MIT */
/*
 * strand, with a full deque: forks deeper than its capacity become calls, and no entry is ever
 * written after its end
 *
 * One worker, whose deque is replaced by a small one with a guard page after it before its thread
 * starts. There is no other worker that reads it.
 */
#include <check.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include "daemon/engine/slow_path.h"
#include "tests/support/check_unit.h"
#include "tests/support/rig.h"
#include "tests/support/tasks.h"

#define PLACES	1024u
#define GUARDS	64u
#define GUARDED UINT64_C(0xfeedfeedfeedfeed)

static struct rig rig;
static _Alignas(64) struct fk_entry entries[PLACES + GUARDS];
static _Atomic uint32_t stop;

/* As forked: a fork at each level, whose entries stay private, but with requests again and again,
 * so that some of them are published. */
FK_TASK(int64_t, loud, (int64_t, n), int64_t x;)
{
	if (n == 0)
		FK_LEAF(0);
}
FK_BODY(loud)
{
	worker_ask(worker_self());
	FK_FORK(x, loud, self->n - 1);
	FK_JOIN();
	FK_RETURN(self->x + 1);
}
FK_END(loud)

/* Descends to its depth, and forks there until it is told to stop. */
FK_TASK(int64_t, diver, (int64_t, n), int64_t x;)
{
}
FK_BODY(diver)
{
	if (self->n) {
		FK_FORK(x, diver, self->n - 1);
		FK_JOIN();
		FK_RETURN(self->x + 1);
	}
	atomic_store(&tasks_reached, 1);
	while (!atomic_load(&stop)) {
		FK_FORK(x, leaf, 0);
		FK_JOIN();
	}
	FK_RETURN(0);
}
FK_END(diver)

FK_EXPORT(loud, 0, "depth by forks that are published")
FK_EXPORT(diver, 0, "forks at a depth")
FK_MODULE(t, "test tasks")

static void small_deque(struct pool *pool)
{
	struct worker *w = &pool->workers[0];

	for (uint32_t i = 0; i < PLACES + GUARDS; i++)
		atomic_store(&entries[i].word, i < PLACES ? 0 : GUARDED);
	deque_init(&w->engine.frames, entries, PLACES);
	w->engine.fk.bottom = w->engine.fk.floor = w->engine.job_base = entries;
	w->engine.fk.end = entries + PLACES;
}

static void start(bool force_steals)
{
	rig_prepare = small_deque;
	rig_start(&rig, 1, &fk_module, force_steals);
}

/* places_used: forks must have reached the last place. */
static void stop_and_look(bool places_used)
{
	rig_stop(&rig);
	for (uint32_t i = PLACES; i < PLACES + GUARDS; i++)
		ck_assert_msg(atomic_load(&entries[i].word) == GUARDED,
			      "place %" PRIu32 " of %u was written", i, PLACES);
	ck_assert(!places_used || atomic_load(&entries[PLACES - 1].word));
}

static void to_all_depths(const char *task)
{
	for (int64_t n = PLACES - 4; n <= PLACES + 4; n++)
		ck_assert_int_eq(rig_call(&rig, task, n), n);
	ck_assert_int_eq(rig_call(&rig, task, 5 * PLACES), 5 * PLACES);
	ck_assert_int_eq(rig_call(&rig, "t:fib", 15), 610);
}

START_TEST(forks_deeper_than_the_deque_are_calls)
{
	start(false);
	to_all_depths("t:forked");
	stop_and_look(true);
}
END_TEST

START_TEST(published_forks_deeper_than_the_deque_are_calls)
{
	start(false);
	to_all_depths("t:loud");
	ck_assert_uint_gt(rig_counter(&rig, published), 0);
	stop_and_look(true);
}
END_TEST

START_TEST(stolen_forks_deeper_than_the_deque_are_calls)
{
	start(true);
	to_all_depths("t:forked");
	stop_and_look(false);
}
END_TEST

static _Atomic uint32_t storm;

static void *send_signals(void *arg)
{
	struct worker *w = arg;

	while (atomic_load(&storm)) {
		tgkill(getpid(), (pid_t)atomic_load(&w->board->tid), WORKER_SIGNAL);
		sched_yield();
	}
	return NULL;
}

START_TEST(signals_with_a_full_deque_lose_no_frame)
{
	pthread_t thread;
	int rounds = 0;

	start(false);
	ck_assert_int_eq(rig_call(&rig, "t:fib", 10), 55);
	atomic_store(&storm, 1);
	ck_assert_int_eq(pthread_create(&thread, NULL, send_signals, &rig.pool->workers[0]), 0);
	do {
		ck_assert_int_eq(rig_call(&rig, "t:forked", 3 * PLACES), 3 * PLACES);
	} while (++rounds < 300 || rig_counter(&rig, published_by_signal) < 50);
	atomic_store(&storm, 0);
	pthread_join(thread, NULL);
	stop_and_look(true);
}
END_TEST

START_TEST(preempting_job_has_room_above_the_suspended_frame)
{
	bool served = false, full = false;

	start(false);
	for (int64_t n = PLACES - 6; n <= PLACES + 2; n++) {
		int64_t nine = 9;
		uint64_t before;

		atomic_store(&tasks_reached, 0);
		atomic_store(&stop, 0);
		rig_submit(&rig, 10, "t:diver", &n, sizeof(n));
		while (!atomic_load(&tasks_reached))
			sched_yield();
		before = rig_counter(&rig, requests_served);
		rig_submit(&rig, 0, "t:fib", &nine, sizeof(nine));
		/* Served at the first request, or never as long as there is no room. */
		while (job_outcome(&rig.jobs[0]) == JOB_PENDING &&
		       rig_counter(&rig, requests_served) < before + 50)
			sched_yield();
		if (job_outcome(&rig.jobs[0]) == JOB_PENDING)
			full = true;
		else
			served = true;
		atomic_store(&stop, 1);
		ck_assert_uint_eq(rig_wait(&rig, 0), JOB_DONE);
		ck_assert_int_eq(*(int64_t *)rig.jobs[0].result, 34);
		ck_assert_uint_eq(rig_wait(&rig, 10), JOB_DONE);
		ck_assert_int_eq(*(int64_t *)rig.jobs[10].result, n);
	}
	/* Both sides of the bound occurred. */
	ck_assert(served && full);
	ck_assert_uint_gt(rig_counter(&rig, frames_suspended), 0);
	stop_and_look(true);
}
END_TEST

CHECK_MAIN("strand_full")
