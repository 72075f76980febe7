/* SPDX-License-Identifier: MIT */
/*
 * scenario: small jobs while a process floods the pool, and the share of each
 *
 * Real processes, of one uid and of two. The test asserts the order in which jobs were started, and
 * the virtual time of each connection, never how long anything took.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/lib/client.h"
#include "common/util.h"
#include "daemon/sched/fair_queue.h"
#include "tests/support/daemon.h"
#define CHECK_TIMEOUT 120
#include "tests/support/check_unit.h"

#define FLOOD	   4096	      /* jobs that are pending at a time */
#define FLOOD_MAX  (1u << 20) /* in all */
#define FLOOD_US   200
#define SMALL	   20
#define SMALL_US   100
#define NOBODY	   65531u
#define KEPT	   8000
#define KEPT_US	   300
#define GIANT	   INT64_C(100000000)	 /* leaves: no client waits for them */
#define SHARE_TIME (800 * NSEC_PER_MSEC) /* virtual time of two connections between two checks */
#define SHARE_MOST (10 * SHARE_TIME)	 /* and until the share must be right */
#define SHARE_NEAR 1.15			 /* accepted factor of deviation */

/* Memory shared by the test and its clients. */
struct shared {
	_Atomic uint32_t go;
	_Atomic uint32_t ready;
	_Atomic uint32_t stop;
	uint32_t n_started;
	uint64_t started_ns[FLOOD_MAX];
};

static struct shared *shared;
static struct daemon d;

static void start(const char *workers, const char *weights)
{
	shared = daemon_share(sizeof(*shared));
	daemon_start(&d, workers, "--jobs-max=16384", weights, NULL);
	/* For clients of other users. */
	ck_assert_int_eq(chmod(d.directory, 0755), 0);
}

static fk_client *open_client(const char *task, const fk_task **ret_task)
{
	struct fk_open_options options = { .n_jobs = 16384 };
	fk_client *c = NULL;

	DAEMON_MUST(fk_open(d.socket, &options, &c) == 0);
	DAEMON_MUST(fk_task_find(c, task, ret_task) == 0);
	return c;
}

/* ------------------------------------------------------------------------ kinds of clients */

/* Submits thousands of jobs at once until it is told to end; stores when each was started. */
static void flood(void)
{
	static fk_job jobs[FLOOD];
	int64_t us = FLOOD_US;
	const fk_task *task;
	fk_client *c = open_client("spin:us", &task);

	for (uint32_t i = 0; i < FLOOD; i++)
		DAEMON_MUST(fk_submit_packed(c, task, &us, sizeof(us), FK_WAIT_ROOM, &jobs[i]) ==
			    0);
	atomic_store(&shared->ready, 1);
	for (uint32_t i = 0, left = FLOOD; left; i = (i + 1) % FLOOD) {
		while (!fk_poll(c, jobs[i]))
			(void)poll(NULL, 0, 1);
		DAEMON_MUST(fk_outcome(c, jobs[i], NULL, NULL) == FK_DONE);
		DAEMON_MUST(shared->n_started < FLOOD_MAX);
		shared->started_ns[shared->n_started++] =
			atomic_load(&client_job(c, jobs[i])->started_ns);
		DAEMON_MUST(fk_release(c, jobs[i]) == 0);
		if (atomic_load(&shared->stop))
			left--;
		else
			DAEMON_MUST(fk_submit_packed(c, task, &us, sizeof(us), FK_WAIT_ROOM,
						     &jobs[i]) == 0);
	}
	DAEMON_MUST(fk_close(c) == 0);
}

/* One fork-join job that does not end before it is told to. */
static void giant(void)
{
	int64_t args[2] = { GIANT, 20 };
	const fk_task *task;
	fk_client *c = open_client("spin:tree", &task);
	fk_job job;

	DAEMON_MUST(fk_submit_packed(c, task, args, sizeof(args), 0, &job) == 0);
	while (!atomic_load(&shared->stop))
		(void)poll(NULL, 0, 1);
	DAEMON_MUST(fk_outcome(c, job, NULL, NULL) == FK_PENDING);
	/* The job is cancelled. */
	DAEMON_MUST(fk_close(c) == 0);
}

/* Keeps more small jobs queued than the pool runs in the meantime, until it is told to end. */
static void keep(void)
{
	static fk_job jobs[KEPT];
	int64_t us = KEPT_US;
	const fk_task *task;
	fk_client *c = open_client("spin:us", &task);

	while (!atomic_load(&shared->go))
		(void)poll(NULL, 0, 1);
	for (uint32_t i = 0; i < KEPT; i++)
		DAEMON_MUST(fk_submit_packed(c, task, &us, sizeof(us), FK_WAIT_ROOM, &jobs[i]) ==
			    0);
	atomic_fetch_add(&shared->ready, 1);
	for (uint32_t i = 0; !atomic_load(&shared->stop);) {
		if (!fk_poll(c, jobs[i])) {
			(void)poll(NULL, 0, 1);
			continue;
		}
		DAEMON_MUST(fk_release(c, jobs[i]) == 0);
		DAEMON_MUST(fk_submit_packed(c, task, &us, sizeof(us), FK_WAIT_ROOM, &jobs[i]) ==
			    0);
		i = (i + 1) % KEPT;
	}
	/* The remaining jobs are cancelled. */
	DAEMON_MUST(fk_close(c) == 0);
}

/* ------------------------------------------------------------------------ small jobs */

struct times {
	uint64_t drained_ns;
	uint64_t started_ns;
};

static struct times run_small(fk_client *c, const fk_task *task)
{
	int64_t us = SMALL_US;
	struct times times;
	fk_job job;

	/* A flood of the same uid fills its rings if no worker runs for some time. */
	ck_assert_int_eq(fk_submit_packed(c, task, &us, sizeof(us), FK_WAIT_ROOM, &job), 0);
	ck_assert_int_eq(fk_wait(c, job, DAEMON_PATIENCE * NSEC_PER_SEC), 0);
	ck_assert_int_eq(fk_outcome(c, job, NULL, NULL), FK_DONE);
	times.drained_ns = atomic_load(&client_job(c, job)->drained_ns);
	times.started_ns = atomic_load(&client_job(c, job)->started_ns);
	ck_assert_int_eq(fk_release(c, job), 0);
	return times;
}

static int by_number(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

/* No small job waits for the flood: only the batches that the workers had taken start after it was
 * drained and before it. If the kernel stops a worker in the middle of a choice, the other worker
 * continues. So a single job may see more of them, but far from all. */
static void small_beside_flood(uint32_t uid)
{
	struct times small[SMALL];
	uint32_t before[SMALL] = { 0 };
	const fk_task *task;
	fk_client *c;
	pid_t pid;

	start("--workers=2", NULL);
	c = daemon_open(&d);
	ck_assert_int_eq(fk_task_find(c, "spin:us", &task), 0);
	pid = daemon_client(flood, uid);
	DAEMON_AWAIT_BUSY(atomic_load(&shared->ready));
	for (uint32_t i = 0; i < SMALL; i++)
		small[i] = run_small(c, task);
	atomic_store(&shared->stop, 1);
	ck_assert_int_eq(daemon_reap(pid), 0);
	for (uint32_t k = 0; k < shared->n_started; k++)
		for (uint32_t i = 0; i < SMALL; i++)
			before[i] += shared->started_ns[k] > small[i].drained_ns &&
				     shared->started_ns[k] < small[i].started_ns;
	qsort(before, SMALL, sizeof(before[0]), by_number);
	printf("of %d jobs that wait, %u went before the median small job, %u before the worst\n",
	       FLOOD, before[SMALL / 2], before[SMALL - 1]);
	ck_assert_uint_le(before[SMALL / 2], 2 * FAIR_BATCH_JOBS);
	ck_assert_uint_le(before[SMALL - 1], FLOOD / 4);
	daemon_stop_close(&d, c);
}

START_TEST(small_job_waits_for_one_batch_of_another_connections_flood)
{
	small_beside_flood(getuid());
}
END_TEST

START_TEST(small_job_waits_for_one_batch_of_another_users_flood)
{
	small_beside_flood(NOBODY);
}
END_TEST

static void small_beside_giant(const char *workers, uint32_t uid)
{
	const fk_task *task;
	bool only = streq(workers, "--workers=1");
	uint32_t row = UINT32_MAX;
	uint64_t moved;
	fk_client *c;
	pid_t pid;

	start(workers, NULL);
	c = daemon_open(&d);
	ck_assert_int_eq(fk_task_find(c, "spin:us", &task), 0);
	pid = daemon_client(giant, uid);
	DAEMON_AWAIT_BUSY(daemon_counter(&d, "jobs_started") == 1);
	if (only)
		DAEMON_AWAIT_BUSY((row = atomic_load(&c->board->running[0].job)) != UINT32_MAX);
	for (uint32_t i = 0; i < SMALL; i++) {
		/* A job that is queued when the last one ends would run without a preemption. */
		if (only)
			DAEMON_AWAIT_BUSY(atomic_load(&c->board->running[0].job) == row);
		(void)run_small(c, task);
	}
	moved = daemon_counter(&d, "frames_suspended");
	/* With one worker there is no other way. */
	if (only)
		ck_assert_uint_ge(moved, SMALL);
	/* The giant has not ended. */
	atomic_store(&shared->stop, 1);
	ck_assert_int_eq(daemon_reap(pid), 0);
	printf("%s: suspended %" PRIu64 " times for %d small jobs\n", workers, moved, SMALL);
	daemon_stop_close(&d, c);
}

START_TEST(small_job_preempts_a_giant_on_the_only_worker)
{
	small_beside_giant("--workers=1", getuid());
}
END_TEST

START_TEST(small_job_preempts_a_giant_on_two_workers)
{
	small_beside_giant("--workers=2", getuid());
}
END_TEST

START_TEST(small_job_preempts_a_giant_of_another_user)
{
	small_beside_giant("--workers=2", NOBODY);
}
END_TEST

/* ------------------------------------------------------------------------ shares */

static const struct board_client *board_row(pid_t pid)
{
	for (uint32_t i = 0; i < LIMIT_CLIENTS; i++)
		if (atomic_load(&d.board->clients[i].pid) == (uint32_t)pid)
			return &d.board->clients[i];
	return NULL;
}

/* Virtual time that two connections have used since the start of the measurement. */
struct used {
	const struct board_client *rows[2];
	uint64_t from[2];
	uint64_t ns[2];
};

/* Reads both virtual times at one moment: the first did not change in between. */
static void look_at_both(const struct used *used, uint64_t v[2])
{
	do {
		v[0] = atomic_load(&used->rows[0]->vtime_ns);
		v[1] = atomic_load(&used->rows[1]->vtime_ns);
	} while (atomic_load(&used->rows[0]->vtime_ns) != v[0]);
}

/* Returns the ratio of the first to the second; sets *ret_sum to their sum. */
static double look(struct used *used, uint64_t *ret_sum)
{
	uint64_t v[2];

	look_at_both(used, v);
	for (uint32_t i = 0; i < 2; i++)
		used->ns[i] = v[i] - used->from[i];
	*ret_sum = used->ns[0] + used->ns[1];
	return (double)used->ns[0] / (double)max(used->ns[1], UINT64_C(1));
}

/*
 * Checks the ratio of the virtual times of a and b, while both always have pending jobs. A job
 * whose worker has no CPU falls behind until other workers steal from it, and is given more then.
 * So on a busy machine the ratio may be far off in one check, but it converges. CPU time need not
 * converge: virtual time includes the sleep of a worker. That sleep is an estimate if other
 * programs take the CPUs (job_batches.c), and may be off by half a second.
 */
static void assert_share(pid_t a, pid_t b, double share)
{
	struct used used = { .rows = { board_row(a), board_row(b) } };
	uint64_t sum;
	double first, is;

	for (uint32_t i = 0; i < 2; i++) {
		ck_assert_ptr_nonnull(used.rows[i]);
		/* Both are 0 before they are shown for the first time. */
		DAEMON_AWAIT(atomic_load(&used.rows[i]->vtime_ns) &&
			     atomic_load(&used.rows[i]->weight));
		ck_assert_uint_eq(atomic_load(&used.rows[i]->weight), FAIR_WEIGHT);
	}
	look_at_both(&used, used.from);
	DAEMON_AWAIT((first = is = look(&used, &sum), sum >= SHARE_TIME));
	DAEMON_AWAIT((is = look(&used, &sum), sum >= SHARE_MOST) ||
		     (is >= share / SHARE_NEAR && is <= share * SHARE_NEAR));
	printf("virtual time %" PRIu64 " us and %" PRIu64 " us: %.2f, at first %.2f; CPU time "
	       "%" PRIu64 " and %" PRIu64 " us\n",
	       used.ns[0] / NSEC_PER_USEC, used.ns[1] / NSEC_PER_USEC, is, first,
	       atomic_load(&used.rows[0]->cpu_ns) / NSEC_PER_USEC,
	       atomic_load(&used.rows[1]->cpu_ns) / NSEC_PER_USEC);
	ck_assert_msg(is >= share / SHARE_NEAR && is <= share * SHARE_NEAR,
		      "%.2f times as much, not %.2f", is, share);
}

static void giant_beside_flood(const char *workers)
{
	pid_t big, small;

	start(workers, NULL);
	atomic_store(&shared->go, 1);
	small = daemon_client(keep, getuid());
	DAEMON_AWAIT(atomic_load(&shared->ready) == 1);
	big = daemon_client(giant, getuid());
	DAEMON_AWAIT(board_row(big));
	assert_share(big, small, 1);
	atomic_store(&shared->stop, 1);
	ck_assert_int_eq(daemon_reap(small), 0);
	ck_assert_int_eq(daemon_reap(big), 0);
	ck_assert_int_eq(daemon_stop(&d), 0);
}

START_TEST(giant_job_and_flood_get_fair_shares_of_a_worker)
{
	giant_beside_flood("--workers=1");
}
END_TEST

/* The giant runs on one worker; the others steal from it while it is behind. */
START_TEST(giant_job_and_flood_get_fair_shares_of_four_workers)
{
	giant_beside_flood("--workers=4");
}
END_TEST

START_TEST(users_get_shares_by_their_weights)
{
	pid_t heavy, light;

	start("--workers=2", "--user-weights=*:9,root:800,@65531:200");
	heavy = daemon_client(keep, 0);
	light = daemon_client(keep, NOBODY);
	atomic_store(&shared->go, 1);
	DAEMON_AWAIT(atomic_load(&shared->ready) == 2);
	assert_share(heavy, light, 4);
	atomic_store(&shared->stop, 1);
	ck_assert_int_eq(daemon_reap(heavy), 0);
	ck_assert_int_eq(daemon_reap(light), 0);
	ck_assert_int_eq(daemon_stop(&d), 0);
}
END_TEST

/* One connection of one uid against two of another: it gets as much as both together. */
START_TEST(two_connections_of_a_user_get_no_more_than_one_of_another)
{
	pid_t one, two[2];

	start("--workers=2", NULL);
	one = daemon_client(keep, 0);
	two[0] = daemon_client(keep, NOBODY);
	two[1] = daemon_client(keep, NOBODY);
	atomic_store(&shared->go, 1);
	DAEMON_AWAIT(atomic_load(&shared->ready) == 3);
	assert_share(one, two[0], 2);
	assert_share(two[0], two[1], 1);
	atomic_store(&shared->stop, 1);
	ck_assert_int_eq(daemon_reap(one), 0);
	ck_assert_int_eq(daemon_reap(two[0]), 0);
	ck_assert_int_eq(daemon_reap(two[1]), 0);
	ck_assert_int_eq(daemon_stop(&d), 0);
}
END_TEST

int main(void)
{
	if (geteuid() != 0)
		check_unit_leave_out("only root can be two users",
				     &small_job_waits_for_one_batch_of_another_users_flood,
				     &small_job_preempts_a_giant_of_another_user,
				     &users_get_shares_by_their_weights,
				     &two_connections_of_a_user_get_no_more_than_one_of_another);
	return check_unit_main("latency");
}
