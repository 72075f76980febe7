/* SPDX-License-Identifier: MIT */
/* Endless jobs, more of them than workers: each makes progress, and each can be cancelled, running
 * or suspended. And reordering of the deque, alone. */
#include <check.h>
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "daemon/core/preempt_request.h"
#include "daemon/engine/preempted.h"
#include "daemon/engine/preempt_switch.h"
#include "daemon/jobs/abort.h"
#include "daemon/engine/slow_path.h"
#include "daemon/core/job_abort.h"
#include "daemon/jobs/job_batches.h"
#include "tests/support/check_unit.h"
#include "tests/support/quiet.h"
#include "tests/support/rig.h"
#include "tests/support/tasks.h"

#define JOBS 6

static struct rig rig;
static _Atomic int64_t progress[JOBS];

FK_TASK(int64_t, endless, (int64_t, n), int64_t x;)
FK_NO_LEAF(endless)
{
	for (;;) {
		FK_FORK(x, leaf, self->n);
		FK_JOIN();
		atomic_fetch_add(&progress[self->n], 1);
	}
}
FK_END(endless)

/* The same below a spine of forks, whose frames wait in the deque. */
FK_TASK(int64_t, deep, (int64_t, depth, int64_t, n), int64_t x; int64_t y;)
FK_NO_LEAF(deep)
{
	if (self->depth == 0) {
		FK_CALL(x, endless, self->n);
		FK_RETURN(self->x);
	}
	FK_FORK(x, deep, self->depth - 1, self->n);
	FK_CALL(y, leaf, 1);
	FK_JOIN();
	FK_RETURN(self->x + self->y);
}
FK_END(deep)

FK_TASK(int64_t, spine, (int64_t, n), int64_t x;)
FK_NO_LEAF(spine)
{
	FK_CALL(x, deep, 1000, self->n);
	FK_RETURN(self->x);
}
FK_END(spine)

static _Atomic bool above_runs, above_goes;
static _Atomic uint32_t n_queued, n_before; /* jobs of `queued`; begun before the cancel */
static bool took;
static _Atomic uint32_t n_holding; /* workers that run jobs of `holds` */
static _Atomic bool let_go[2];

/* Suspended, it is the newest entry, and its parent is another frame. */
FK_TASK(int64_t, next_to, (int64_t, n), int64_t x; int64_t y;)
FK_NO_LEAF(next_to)
{
	FK_FORK(x, endless, self->n);
	FK_FORK(y, leaf, self->n);
	FK_JOIN();
	FK_RETURN(self->x + self->y);
}
FK_END(next_to)

/* Is cancelled while suspended below another job. */
FK_DECLARE(int64_t, below, (int64_t, n), int64_t x;)

FK_UNWIND(below)
{
	(void)self;
	atomic_store(&n_before, atomic_load(&n_queued));
}

FK_DEFINE_UNWIND(int64_t, below, (int64_t, n))
FK_NO_LEAF(below)
{
	for (;;) {
		FK_FORK(x, leaf, self->n);
		FK_JOIN();
		atomic_fetch_add(&progress[self->n], 1);
	}
}
FK_END(below)

/* Takes jobs (one, and the others if they are a batch) onto its worker's root deque, and forks
 * without a preempt request. */
FK_TASK(int64_t, above, (int64_t, n), int64_t x;)
FK_NO_LEAF(above)
{
	struct worker *w = worker_self();
	uint32_t row;

	atomic_store(&above_runs, true);
	while (!atomic_load(&above_goes))
		sched_yield();
	took = intake_drain(w, &row);
	if (took)
		w->roots.placed_job = row + 1;
	(void)preempt_take_request(w);
	FK_FORK(x, leaf, self->n);
	FK_JOIN();
	FK_RETURN(self->x);
}
FK_END(above)

FK_LEAF_TASK(int64_t, queued, (int64_t, n))
{
	atomic_fetch_add(&n_queued, 1);
	return n;
}

/* In its first block, before it has a frame. */
FK_LEAF_TASK(int64_t, holds, (int64_t, n))
{
	atomic_fetch_add(&n_holding, 1);
	while (!atomic_load(&let_go[n]))
		sched_yield();
	return n;
}

FK_EXPORT(holds, 0, "keeps its worker")
FK_EXPORT(below, 0, "forks for ever, and counts when it is unwound")
FK_EXPORT(above, 0, "takes jobs and does not start them")
FK_EXPORT(queued, 0, "counts itself")
FK_EXPORT(endless, 0, "forks forever")
FK_EXPORT(next_to, 0, "a fork that forks forever")
FK_EXPORT(spine, 0, "forks for ever, far below")
FK_MODULE(t, "test tasks")

static void start(uint32_t workers, bool forced)
{
	for (uint32_t i = 0; i < JOBS; i++)
		atomic_store(&progress[i], 0);
	rig_start(&rig, workers, &fk_module, forced);
}

static void submit(uint32_t job, const char *task, int64_t n)
{
	rig_submit(&rig, job, task, &n, sizeof(n));
}

/* Checks that all of these make progress. */
static void all_go_on(uint32_t from, uint32_t to)
{
	int64_t seen[JOBS];

	for (uint32_t i = from; i < to; i++)
		seen[i] = atomic_load(&progress[i]);
	for (uint32_t i = from; i < to; i++)
		while (atomic_load(&progress[i]) == seen[i])
			sched_yield();
}

static void take_turns(const char *task, uint32_t workers, bool forced)
{
	start(workers, forced);
	for (uint32_t i = 0; i < JOBS; i++)
		submit(i, task, i);
	for (uint32_t i = 0; i < JOBS; i++)
		while (!atomic_load(&progress[i]))
			sched_yield();
	for (uint32_t round = 0; round < 5; round++)
		all_go_on(0, JOBS);
	/* Other jobs run and end before and between them. */
	submit(JOBS, "t:fib", 15);
	ck_assert_uint_eq(rig_wait(&rig, JOBS), JOB_DONE);
	ck_assert_int_eq(*(int64_t *)rig.jobs[JOBS].result, 610);
	/* Cancels them one by one; the others make progress. */
	for (uint32_t i = 0; i < JOBS; i++) {
		rig_cancel(&rig, i);
		ck_assert_uint_eq(rig_wait(&rig, i), JOB_CANCELLED);
		all_go_on(i + 1, JOBS);
	}
	if (workers == 1)
		ck_assert_uint_ge(rig_counter(&rig, jobs_resumed), JOBS);
	quiet(&rig);
	rig_stop(&rig);
}

START_TEST(endless_jobs_alternate)
{
	for (uint32_t workers = 1; workers <= 4; workers++)
		for (int forced = 0; forced < 2; forced++)
			take_turns("t:endless", workers, forced);
}
END_TEST

START_TEST(deep_jobs_alternate)
{
	for (uint32_t workers = 1; workers <= 4; workers++)
		for (int forced = 0; forced < 2; forced++)
			take_turns("t:spine", workers, forced);
}
END_TEST

#define TURNS 20

/* Two jobs alternate on one worker. Returns the number of dispatcher passes during that. */
static uint64_t rounds_of_turns(void)
{
	uint64_t rounds, turns;

	start(1, false);
	for (uint32_t i = 0; i < 2; i++)
		submit(i, "t:endless", i);
	all_go_on(0, 2);
	rounds = rig_counter(&rig, dispatcher_passes);
	turns = rig_counter(&rig, jobs_resumed);
	while (rig_counter(&rig, jobs_resumed) < turns + TURNS)
		sched_yield();
	rounds = rig_counter(&rig, dispatcher_passes) - rounds;
	for (uint32_t i = 0; i < 2; i++) {
		rig_cancel(&rig, i);
		ck_assert_uint_eq(rig_wait(&rig, i), JOB_CANCELLED);
	}
	return rounds;
}

START_TEST(timers_alternate_jobs_without_the_dispatcher)
{
	uint64_t rounds = rounds_of_turns();

	ck_assert_uint_ge(rig_counter(&rig, slice_expirations), TURNS);
	ck_assert_uint_lt(rounds, TURNS / 2);
	rig_stop(&rig);
}
END_TEST

START_TEST(dispatcher_alternates_jobs_if_there_are_no_timers)
{
	struct rlimit before, none;
	uint64_t rounds;

	/* A timer counts as a pending signal. */
	ck_assert_int_eq(getrlimit(RLIMIT_SIGPENDING, &before), 0);
	none = (struct rlimit){ .rlim_cur = 0, .rlim_max = before.rlim_max };
	ck_assert_int_eq(setrlimit(RLIMIT_SIGPENDING, &none), 0);
	rounds = rounds_of_turns();
	/* libcheck needs a timer, too. */
	ck_assert_int_eq(setrlimit(RLIMIT_SIGPENDING, &before), 0);
	ck_assert_uint_eq(rig_counter(&rig, slice_expirations), 0);
	ck_assert_uint_ge(rounds, TURNS);
	rig_stop(&rig);
}
END_TEST

/* Its worker never forks; the other worker, which was held as well, takes the waiting job. */
START_TEST(suspended_job_below_a_leaf_resumes_on_another_worker)
{
	for (int deep = 0; deep < 2; deep++) {
		atomic_store(&n_holding, 0);
		for (uint32_t i = 0; i < 2; i++)
			atomic_store(&let_go[i], false);
		start(2, false);
		submit(JOBS, "t:holds", 0);
		while (atomic_load(&n_holding) != 1)
			sched_yield();
		submit(0, deep ? "t:spine" : "t:next_to", 0);
		all_go_on(0, 1);
		submit(JOBS + 1, "t:holds", 1);
		while (atomic_load(&n_holding) != 2)
			sched_yield();
		atomic_store(&let_go[0], true);
		all_go_on(0, 1);
		rig_cancel(&rig, 0);
		ck_assert_uint_eq(rig_wait(&rig, 0), JOB_CANCELLED);
		atomic_store(&let_go[1], true);
		for (uint32_t i = 0; i < 2; i++)
			ck_assert_uint_eq(rig_wait(&rig, JOBS + i), JOB_DONE);
		quiet(&rig);
		rig_stop(&rig);
	}
}
END_TEST

/* The newest first: no job below it runs before it has ended. */
START_TEST(jobs_are_cancelled_in_any_order)
{
	static const uint32_t order[JOBS] = { 3, 0, 5, 1, 4, 2 };

	for (uint32_t round = 0; round < 5; round++) {
		start(1, round == 4);
		for (uint32_t i = 0; i < JOBS; i++)
			submit(i, round % 2 ? "t:spine" : "t:endless", i);
		for (uint32_t i = 0; i < JOBS; i++)
			while (!atomic_load(&progress[i]))
				sched_yield();
		for (uint32_t i = 0; i < JOBS; i++) {
			uint32_t job = order[(i + round) % JOBS];

			rig_cancel(&rig, job);
			ck_assert_uint_eq(rig_wait(&rig, job), JOB_CANCELLED);
		}
		quiet(&rig);
		ck_assert(!preempted_any(&rig.pool->workers[0].roots.preempted_jobs));
		rig_stop(&rig);
	}
}
END_TEST

/* Sets n_before: how many of the taken jobs ran before the cancelled one had unwound. Returns true
 * if `above` took them, and not the dispatcher. */
static bool take_and_cancel(void)
{
	start(1, false);
	atomic_store(&above_runs, false);
	atomic_store(&above_goes, false);
	atomic_store(&n_queued, 0);
	atomic_store(&n_before, UINT32_MAX);
	submit(0, "t:below", 0);
	while (!atomic_load(&progress[0]))
		sched_yield();
	submit(1, "t:above", 0);
	while (!atomic_load(&above_runs))
		sched_yield();
	for (uint32_t i = 2; i < JOBS; i++)
		submit(i, "t:queued", i);
	rig_cancel(&rig, 0);
	atomic_store(&above_goes, true);
	ck_assert_uint_eq(rig_wait(&rig, 0), JOB_CANCELLED);
	for (uint32_t i = 1; i < JOBS; i++)
		ck_assert_uint_eq(rig_wait(&rig, i), JOB_DONE);
	ck_assert_uint_ne(n_before, UINT32_MAX);
	quiet(&rig);
	rig_stop(&rig);
	return took;
}

/* The dispatcher may send a preempt request in between; then the taken jobs have a better claim. */
START_TEST(cancelled_job_ends_before_those_that_were_taken)
{
	uint32_t first = 0;

	for (uint32_t round = 0; round < 10;)
		if (take_and_cancel()) {
			first += n_before == 0;
			round++;
		}
	ck_assert_uint_gt(first, 0);
}
END_TEST

/* Letters are jobs, capitals suspended frames. The first `public` entries are published, `stolen`
 * of them stolen; the failed jobs end. Brings up the job of this letter, and checks the deque and
 * the list of suspended jobs. */
static void bring_up_with(const char *failed, const char *before, uint32_t public, uint32_t stolen,
			  char job, const char *after, const char *asides)
{
	static _Atomic uint64_t verdicts[256];
	static struct options options; /* without a hang timeout */
	static struct board board;
	struct pool *pool = pool_new();
	size_t n = strlen(before);
	struct fk_entry *entries = calloc(n + 1, sizeof(*entries));
	struct fk_frame *frames = calloc(n + 1, sizeof(*frames));
	struct board_counters counters = { 0 };
	static struct worker w;
	char now[64] = "", rows[64] = "";

	ck_assert(pool);
	pool->options = &options;
	pool->rows.aborts = verdicts;
	pool->board = &board;
	memset(&w, 0, sizeof(w));
	w.counters = &counters;
	w.pool = pool;
	for (uint32_t i = 0; i < ARRAY_SIZE(verdicts); i++)
		abort_begin(pool, i, 1);
	for (; *failed; failed++)
		ck_assert(abort_set(pool, (uint32_t)*failed, 1, JOB_CANCELLED, 0));
	deque_init(&w.engine.frames, entries, n);
	w.engine.fk.floor = entries + public;
	w.engine.fk.bottom = entries + n;
	for (uint32_t i = 0; i < n; i++) {
		frames[i].job = (uint32_t)(before[i] | 0x20);
		/* Its old index, to check the order. */
		frames[i].top = (char *)(uintptr_t)i;
		fk_set_site(&frames[i], FK_PARTED | (before[i] & 0x20 ? 0 : FK_MOVED));
		atomic_store(&entries[i].word, (uintptr_t)&frames[i]);
	}
	deque_publish(&w.engine.frames, public);
	for (uint32_t i = 0; i < stolen; i++) {
		uint64_t word, some;

		ck_assert_int_eq(deque_steal(&w.engine.frames, &word, 1, &some), DEQUE_STOLEN);
		ck_assert_ptr_eq((void *)(uintptr_t)word, &frames[i]);
	}
	preempted_bring_up(&w, (uint32_t)job);
	ck_assert_ptr_eq(w.engine.fk.bottom, entries + n);
	ck_assert_ptr_eq(w.engine.fk.floor, entries + stolen);
	ck_assert_uint_eq(deque_size(&w.engine.frames), 0);
	for (uint32_t i = stolen; i < n; i++) {
		struct fk_frame *frame =
			(struct fk_frame *)(uintptr_t)atomic_load(&entries[i].word);

		now[i - stolen] = (char)(frame->job & ~(fk_site(frame) & FK_MOVED ? 0x20u : 0u));
		if (i > stolen) {
			struct fk_frame *last =
				(struct fk_frame *)(uintptr_t)atomic_load(&entries[i - 1].word);

			ck_assert(last->job != frame->job || last->top < frame->top);
		}
	}
	for (uint32_t i = 0; i < atomic_load(&w.roots.preempted_jobs.n); i++)
		rows[i] = (char)w.roots.preempted_jobs.rows[i];
	ck_assert_str_eq(now, after);
	ck_assert_str_eq(rows, asides);
	free(entries);
	free(frames);
	pool_delete(pool);
}

static void bring_up(const char *before, uint32_t public, uint32_t stolen, char job,
		     const char *after, const char *asides)
{
	bring_up_with("", before, public, stolen, job, after, asides);
}

START_TEST(all_failed_jobs_are_brought_up_at_once)
{
	bring_up_with("b", "aaAbbBccC", 0, 0, 'b', "aaAccCbbB", "acb");
	bring_up_with("ac", "aaAbbBccCdD", 8, 0, 'a', "bbBdDaaAccC", "bdac");
	bring_up_with("ca", "aAbAbaAbcC", 4, 1, 'c', "bbbAAaAcC", "bac");
	bring_up_with("x", "aaAbbBccC", 0, 0, 'a', "bbBccCaaA", "bca");
}
END_TEST

START_TEST(entries_of_a_job_are_brought_up_in_order)
{
	bring_up("aaAbbBccC", 0, 0, 'a', "bbBccCaaA", "bca");
	bring_up("aaAbbBccC", 8, 0, 'b', "aaAccCbbB", "acb");
	bring_up("aaAbbBccC", 8, 2, 'a', "bbBccCA", "bca");
	bring_up("aaAbbBccC", 9, 3, 'a', "bbBccC", "bc");
	bring_up("aaAbbBccC", 9, 9, 'a', "", "");
	bring_up("aAbAbaAbcC", 4, 1, 'a', "bbbcCAAaA", "bca");
	bring_up("aaA", 1, 0, 'b', "aaA", "a");
	bring_up("", 0, 0, 'b', "", "");
}
END_TEST

/* Before the workers start: the job of row 0 was suspended below that of row 1, stolen, and has
 * ended. No job waits, and the dispatcher need not handle it again. */
static void forget_by_hand(struct pool *pool)
{
	struct worker *w = &pool->workers[0];
	uint32_t row;

	w->job.row = 1;
	w->roots.preempted_jobs.rows[0] = 0;
	atomic_store(&w->roots.preempted_jobs.n, 1);
	ck_assert(!preempted_claims(w, true, &row));
	ck_assert(!preempted_any(&w->roots.preempted_jobs));
	w->job.row = WORKER_NO_JOB;
}

START_TEST(suspended_job_that_ended_elsewhere_is_forgotten)
{
	rig_prepare = forget_by_hand;
	start(1, false);
	rig_stop(&rig);
}
END_TEST

CHECK_MAIN("aside")
