/* SPDX-License-Identifier: MIT */
/*
 * scenario: the wait and run times of each user's jobs on the board: each job counts once, also if
 * its pool or its manager dies
 *
 * The other user is a process with another uid, which only root can start.
 */
#include <signal.h>
#include <unistd.h>

#include "client/lib/client.h"
#include "common/util.h"
#include "tests/support/jobs.h"
#include "tests/support/kept.h"
#define CHECK_TIMEOUT 240
#include "tests/support/check_unit.h"

#define OTHER_UID 65531u
#define FIRST_UID 200000u /* of the visitors */
#define VISITORS  40u
#define BATCH	  100u

/* A client's own figures of its started jobs. */
struct sums {
	uint64_t n;
	uint64_t wait_ns;
	uint64_t run_ns;
	uint64_t run_max_ns;
	uint64_t timings_wait_ns; /* as fk_timings() returns it */
	uint64_t timings_run_ns;
};

static struct daemon d;
static fk_client *c;
static struct sums *other; /* of the other user */

/* The board's figures of a user. */
struct shown {
	uint32_t n_rows; /* slots shown for the user */
	uint64_t since_ns;
	uint64_t ended;
	uint64_t dropped;
	struct histogram_sum times[N_TIMES];
};

static struct shown look(uint32_t uid)
{
	struct shown s = { 0 };

	for (uint32_t i = 0; i < LIMIT_TENANTS; i++) {
		const struct board_tenant *t = &d.board->tenants[i];

		if (!atomic_load(&t->since_ns) || atomic_load(&t->uid) != uid)
			continue;
		s.n_rows++;
		s.since_ns = atomic_load(&t->since_ns);
		s.ended = atomic_load(&t->ended);
		s.dropped = atomic_load(&t->dropped);
		for (enum board_time which = 0; which < N_TIMES; which++)
			ck_assert(board_read_time(d.board, i, which, &s.times[which]));
	}
	return s;
}

/* Waits until this many of the user's jobs were started, dropped, and ended by the manager. */
static struct shown see(uint32_t uid, uint64_t started, uint64_t dropped, uint64_t ended)
{
	struct shown s;

	/* The manager stores the outcome before it counts; a worker counts before that. */
	DAEMON_AWAIT(look(uid).ended >= ended);
	s = look(uid);
	ck_assert_uint_eq(s.n_rows, 1);
	ck_assert_uint_eq(s.times[TIMES_WAIT].n, started);
	ck_assert_uint_eq(s.times[TIMES_RUN].n, started);
	ck_assert_uint_eq(s.dropped, dropped);
	ck_assert_uint_eq(s.ended, ended);
	return s;
}

static void begin(const char *workers)
{
	c = JOBS_BEGIN(&d, workers, NULL);
}

static void end(void)
{
	daemon_stop_close(&d, c);
}

/* ------------------------------------------------------------------------ sums */

/* Waits for a job that a worker starts. */
static void add(struct sums *sums, fk_client *client, fk_job handle, int outcome)
{
	struct job *job = client_job(client, handle);
	struct fk_timings timings;
	uint64_t run;

	DAEMON_MUST(fk_wait(client, handle, FK_FOREVER) == 0);
	DAEMON_MUST(fk_outcome(client, handle, NULL, NULL) == outcome);
	DAEMON_MUST(fk_timings(client, handle, &timings) == 0);
	run = job->ended_ns - job->started_ns;
	sums->n++;
	sums->wait_ns += job->started_ns - min(job->started_ns, job->drained_ns);
	sums->run_ns += run;
	sums->run_max_ns = max(sums->run_max_ns, run);
	sums->timings_wait_ns += timings.wait_ns;
	sums->timings_run_ns += timings.run_ns;
	DAEMON_MUST(fk_release(client, handle) == 0);
}

/* Runs n jobs of a task with up to two numbers, one after the other. */
static void run(struct sums *sums, fk_client *client, uint32_t n, const char *name, int64_t a)
{
	const union fk_value values[2] = { { .i64 = a }, { .i64 = 1 } };
	const fk_task *task;
	fk_job job;

	DAEMON_MUST(fk_task_find(client, name, &task) == 0);
	for (uint32_t i = 0; i < n; i++) {
		DAEMON_MUST(fk_submit_values(client, task, values, fk_task_args_size(task) / 8,
					     FK_IDEMPOTENT, &job) == 0);
		add(sums, client, job, FK_DONE);
	}
}

static void be_other(void)
{
	struct fk_buffer buffer = { .size = 64 };
	fk_client *client = NULL;
	const fk_task *spoil;
	fk_job job;

	DAEMON_MUST(fk_open(d.socket, NULL, &client) == 0);
	run(other, client, 17, "null:null", 0);
	run(other, client, 5, "crash:spin", 3);
	DAEMON_MUST(fk_alloc(client, buffer.size, &buffer.data) == 0);
	DAEMON_MUST(fk_task_find(client, "bytes:spoil", &spoil) == 0);
	for (uint32_t i = 0; i < 4; i++) {
		DAEMON_MUST(fk_submit(client, spoil, 0, &job, buffer) == 0);
		add(other, client, job, FK_FAILED);
	}
	DAEMON_MUST(fk_close(client) == 0);
}

static void see_sums(uint32_t uid, const struct sums *sums)
{
	struct shown s = see(uid, sums->n, 0, 0);

	ck_assert_uint_eq(s.times[TIMES_WAIT].sum_ns, sums->wait_ns);
	ck_assert_uint_eq(s.times[TIMES_RUN].sum_ns, sums->run_ns);
	ck_assert_uint_eq(s.times[TIMES_RUN].sum_ns, sums->timings_run_ns);
	ck_assert_uint_eq(s.times[TIMES_RUN].max_ns, sums->run_max_ns);
	/* There the wait time begins with the submission. */
	ck_assert_uint_le(s.times[TIMES_WAIT].sum_ns, sums->timings_wait_ns);
}

START_TEST(counts_and_sums_are_those_of_the_jobs_themselves)
{
	struct sums mine = { 0 };
	struct shown s;

	begin("--workers=2");
	(void)see((uint32_t)geteuid(), 0, 0, 0);
	run(&mine, c, 50, "null:null", 0);
	run(&mine, c, 3, "crash:spin", 20);
	see_sums((uint32_t)geteuid(), &mine);
	s = look((uint32_t)geteuid());
	/* The three long jobs are in the right buckets. */
	ck_assert_uint_ge(s.times[TIMES_RUN].n - histogram_below(&s.times[TIMES_RUN], 24), 3);
	ck_assert_uint_ge(histogram_quantile(&s.times[TIMES_RUN], 0.999), 16000000);
	end();
}
END_TEST

START_TEST(each_user_has_separate_times)
{
	struct sums mine = { 0 };

	other = daemon_share(sizeof(*other));
	begin("--workers=2");
	run(&mine, c, 11, "null:null", 0);
	ck_assert_int_eq(daemon_reap(daemon_client(be_other, OTHER_UID)), 0);
	run(&mine, c, 3, "null:null", 0);
	ck_assert_uint_eq(other->n, 26);
	see_sums((uint32_t)geteuid(), &mine);
	see_sums(OTHER_UID, other);
	ck_assert_uint_eq(look(OTHER_UID + 1).n_rows, 0);
	end();
}
END_TEST

/* ------------------------------------------------------------------------ jobs that never run */

START_TEST(job_that_no_worker_starts_has_no_times)
{
	struct fk_request late = { .options.flags = 0, .options.timeout_ns = 1 };
	volatile uint8_t *gate;
	fk_job hold, jobs[5];

	begin("--workers=1");
	hold = jobs_hold(c, 0, &gate);
	DAEMON_AWAIT(jobs_running(&d, "crash:hold") == 1);
	for (uint32_t i = 0; i < 4; i++)
		jobs[i] = jobs_submit(c, "null:null", 0, 0, 0);
	late.task = jobs_task(c, "null:null");
	ck_assert_int_eq(fk_submit_batch(c, &late, 1, 0, &jobs[4]), 0);
	jobs_see_end(c, jobs[4], "EXPIRED");
	for (uint32_t i = 0; i < 4; i++) {
		ck_assert_int_eq(fk_cancel(c, jobs[i]), 0);
		jobs_see_end(c, jobs[i], "CANCELLED");
	}
	(void)see((uint32_t)geteuid(), 0, 5, 0);
	*gate = 1;
	jobs_see_end(c, hold, "DONE");
	(void)see((uint32_t)geteuid(), 1, 5, 0);
	end();
}
END_TEST

/* ------------------------------------------------------------------------ pools that die */

START_TEST(job_counts_once_although_its_pool_has_died)
{
	volatile uint8_t *gates[2];
	struct sums sums = { 0 };
	fk_job holds[2], jobs[7];
	pid_t pool;

	begin("--workers=2");
	run(&sums, c, 30, "null:null", 0);
	holds[0] = jobs_hold(c, 0, &gates[0]);
	holds[1] = jobs_hold(c, FK_IDEMPOTENT, &gates[1]);
	DAEMON_AWAIT(jobs_running(&d, "crash:hold") == 2);
	for (uint32_t i = 0; i < ARRAY_SIZE(jobs); i++)
		jobs[i] = jobs_submit(c, "null:null", 0, 0, 0);
	pool = daemon_pool(&d);
	ck_assert_int_eq(kill(pool, SIGKILL), 0);
	(void)jobs_pool_after(&d, pool);
	jobs_see_end(c, holds[0], "LOST");
	*gates[1] = 1;
	jobs_see_end(c, holds[1], "DONE");
	for (uint32_t i = 0; i < ARRAY_SIZE(jobs); i++)
		jobs_see_end(c, jobs[i], "DONE");
	/* Only the second run counts. */
	(void)see((uint32_t)geteuid(), 30 + 1 + ARRAY_SIZE(jobs), 0, 1);
	end();
}
END_TEST

START_TEST(cost_of_a_crash_is_shown_for_its_user)
{
	begin("--workers=2");
	for (uint32_t i = 1; i <= 2; i++) {
		fk_job job = jobs_submit(c, "crash:segv", 0, 0, 0);

		jobs_see_end(c, job, "CRASHED");
		(void)see((uint32_t)geteuid(), 0, 0, i);
	}
	end();
}
END_TEST

#ifdef FK_CRASH_SITES
/* The pool dies at the site while its only worker runs these jobs: each counts in one of the
 * two. */
static void die_at(const char *site, uint64_t started, uint64_t ended)
{
	fk_job jobs[BATCH];

	daemon_mine(&d, site, BATCH / 2);
	begin("--workers=1");
	for (uint32_t i = 0; i < BATCH; i++)
		jobs[i] = jobs_submit(c, "null:null", FK_IDEMPOTENT, 0, 0);
	for (uint32_t i = 0; i < BATCH; i++)
		jobs_see_end(c, jobs[i], "DONE");
	ck_assert_msg(!daemon_is_mined(&d), "no pool reached %s", site);
	(void)see((uint32_t)geteuid(), started, 0, ended);
	end();
}

START_TEST(job_whose_pool_dies_at_its_end_is_counted_once)
{
	die_at("job_loaded", BATCH, 0);
	die_at("job_finishing", BATCH - 1, 1);
	die_at("job_timed", BATCH, 0);
	die_at("job_told", BATCH, 0);
	die_at("job_freed", BATCH, 0);
}
END_TEST
#endif

/* ------------------------------------------------------------------------ users come and go */

static void visit(void)
{
	struct sums sums = { 0 };
	fk_client *client = NULL;

	DAEMON_MUST(fk_open(d.socket, NULL, &client) == 0);
	run(&sums, client, 1, "null:null", 0);
	DAEMON_MUST(fk_close(client) == 0);
}

START_TEST(next_user_of_a_slot_starts_at_zero)
{
	uint32_t shown = 0, highest = 0;

	begin("--workers=2");
	for (uint32_t i = 0; i < VISITORS; i++) {
		ck_assert_int_eq(daemon_reap(daemon_client(visit, FIRST_UID + i)), 0);
		(void)see(FIRST_UID + i, 1, 0, 0);
	}
	for (uint32_t i = 0; i < VISITORS; i++) {
		struct shown s = look(FIRST_UID + i);

		/* Users that left first are no longer shown. */
		ck_assert_uint_le(s.n_rows, 1);
		ck_assert_uint_eq(s.times[TIMES_RUN].n, s.n_rows);
		shown += s.n_rows;
	}
	for (uint32_t i = 0; i < LIMIT_TENANTS; i++)
		if (atomic_load(&d.board->tenants[i].since_ns))
			highest = i;
	/* Slots were reused; otherwise this test would prove nothing. */
	ck_assert_uint_lt(shown, VISITORS);
	ck_assert_uint_lt(highest, VISITORS);
	end();
}
END_TEST

START_TEST(times_survive_a_takeover)
{
	struct sums sums = { 0 };
	struct shown before, now;
	struct systemd_stub *store = kept_start(&d, "--workers=2", NULL);

	c = daemon_open(&d);
	run(&sums, c, 20, "null:null", 0);
	jobs_see_end(c, jobs_submit(c, "crash:segv", 0, 0, 0), "CRASHED");
	before = see((uint32_t)geteuid(), 20, 0, 1);
	kept_kill(&d, store);
	kept_ready(&d, store);
	run(&sums, c, 10, "null:null", 0);
	now = see((uint32_t)geteuid(), 30, 0, 1);
	ck_assert_uint_eq(now.since_ns, before.since_ns);
	ck_assert_uint_eq(now.times[TIMES_RUN].sum_ns, sums.run_ns);
	ck_assert_int_eq(fk_close(c), 0);
	kept_stop(&d, store);
}
END_TEST

int main(void)
{
	if (geteuid() != 0)
		check_unit_leave_out("only root has clients of other uids",
				     &each_user_has_separate_times,
				     &next_user_of_a_slot_starts_at_zero);
	return check_unit_main("times");
}
