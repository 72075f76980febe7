/* SPDX-License-Identifier: MIT */
/*
 * storm: a pool that crashes repeatedly, under the load of four clients, and an oracle that checks
 * the outcome of each job
 *
 * The pool dies by kill -9, by tasks that crash it, and, with --enable-crash-sites, at named sites:
 * between the steal of a frame and its adoption, in a job's row, and between its outcome and the
 * wake of a waiting client. $CRASHES is the total number. The default is 500 with crash sites and
 * without a sanitizer, and 40 otherwise; SOAK=1: 5,000.
 *
 * The time from a crash to the end of a job submitted after it is printed, and never asserted.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/crash_site.h"
#include "common/util.h"
#include "tests/support/daemon.h"
#include "tests/support/oracle.h"
#define CHECK_TIMEOUT 550
#include "tests/support/check_unit.h"

#define CLIENTS	  4u
#define OTHER_UID 65531u

/* Memory shared by the test and its client processes. */
struct shared {
	_Atomic uint64_t ended[CLIENTS];
};

static struct shared *shared;
static struct daemon d;
static struct oracle o;
static uint64_t *times_ns; /* from a crash to the next finished job */
static uint32_t n_times;

static uint64_t draw(uint64_t n)
{
	static uint64_t seed = 88172645463325252u;

	return xorshift64(&seed) % n;
}

static uint32_t n_crashes(void)
{
	const char *text = getenv("CRASHES");

	if (text)
		return (uint32_t)strtoul(text, NULL, 10);
	if (getenv("SOAK"))
		return 5000;
#if defined(FK_CRASH_SITES) && !defined(FK_SANITIZE)
	return 500;
#else
	return 40;
#endif
}

/* ------------------------------------------------------------------------ how it dies */

static uint64_t all_ended(void)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < CLIENTS; i++)
		n += atomic_load(&shared->ended[i]);
	return n;
}

/* Waits for the end of a pool that is dying, or that dies at a site as long as it runs. */
static void await_end(int pidfd)
{
	struct pollfd p = { .fd = pidfd, .events = POLLIN };

	DAEMON_AWAIT_AMID(poll(&p, 1, 0) == 1, all_ended());
	(void)close(pidfd);
}

static int open_pool(pid_t *ret_pid)
{
	int fd;

	*ret_pid = daemon_pool(&d);
	fd = (int)syscall(SYS_pidfd_open, *ret_pid, 0);
	ck_assert_msg(fd >= 0, "pidfd_open(): %s", strerror(errno));
	return fd;
}

/* All three return the time from which clients have had no pool. */

static uint64_t be_killed(void)
{
	pid_t pid;
	int fd = open_pool(&pid);
	uint64_t start = clock_ns();

	ck_assert_int_eq(kill(pid, SIGKILL), 0);
	await_end(fd);
	return start;
}

static uint64_t be_crashed(fk_client *c, fk_job *ret_job)
{
	static const char *const tasks[] = { "crash:segv", "crash:abort", "crash:exit",
					     "crash:recurse" };
	const char *name = tasks[draw(ARRAY_SIZE(tasks))];
	const union fk_value depth = { .i64 = 0 };
	const fk_task *task;
	uint64_t start;
	pid_t pid;
	int fd = open_pool(&pid);

	ck_assert_int_eq(fk_task_find(c, name, &task), 0);
	start = clock_ns();
	ck_assert_int_eq(fk_submit_values(c, task, &depth, fk_task_args_size(task) / 8, 0, ret_job),
			 0);
	await_end(fd);
	return start;
}

#ifdef FK_CRASH_SITES
static uint64_t be_at_site(const char *site)
{
	pid_t pid;
	int fd = open_pool(&pid);

	daemon_mine(&d, site, 0);
	await_end(fd);
	return clock_ns();
}
#endif

/* ------------------------------------------------------------------------ after a crash */

/* A job that is submitted when the pool is dead, so that the next one runs it. */
static void probe(fk_client *c, uint64_t start)
{
	static const int64_t args[2] = { 40, 2 };
	const fk_task *task;
	int64_t sum = 0;
	fk_job job;

	ck_assert_int_eq(fk_task_find(c, "null:add", &task), 0);
	ck_assert_int_eq(fk_submit_packed(c, task, args, sizeof(args), FK_IDEMPOTENT, &job), 0);
	ck_assert_int_eq(fk_wait(c, job, DAEMON_PATIENCE * NSEC_PER_SEC), 0);
	times_ns[n_times++] = clock_ns() - start;
	ck_assert_int_eq(fk_outcome(c, job, NULL, NULL), FK_DONE);
	ck_assert_int_eq(fk_result(c, job, &sum, sizeof(sum)), 0);
	ck_assert_int_eq(sum, 42);
	ck_assert_int_eq(fk_release(c, job), 0);
}

static void see_crashed(fk_client *c, fk_job job)
{
	ck_assert_int_eq(fk_wait(c, job, DAEMON_PATIENCE * NSEC_PER_SEC), 0);
	ck_assert_str_eq(fk_outcome_name(fk_outcome(c, job, NULL, NULL)), "CRASHED");
	ck_assert_int_eq(fk_release(c, job), 0);
}

/* In turn. */
static void crash(fk_client *c, const char *site, uint32_t turn)
{
	uint64_t start;
	fk_job job = 0;

	(void)site;
#ifdef FK_CRASH_SITES
	if (turn % 3 == 0)
		start = be_at_site(site);
	else
#endif
		if (turn % 3 == 1)
		start = be_crashed(c, &job);
	else
		start = be_killed();
	probe(c, start);
	if (job)
		see_crashed(c, job);
}

static double ms(uint32_t i)
{
	return (double)times_ns[i] / 1e6;
}

static void print_times(void)
{
	qsort(times_ns, n_times, sizeof(*times_ns), daemon_compare_u64);
	printf("after %" PRIu32 " crashes the next job was done in %.1f ms (median), %.1f (p99), "
	       "%.1f (max)\n",
	       n_times, ms(n_times / 2), ms(n_times - 1 - n_times / 100), ms(n_times - 1));
}

/* One daemon, whose pools die n times, some of them at this site. */
static void rage(const char *site, uint32_t n)
{
	struct oracle_verdict v;
	pid_t pids[CLIENTS];
	fk_client *c;

	shared = daemon_share(sizeof(*shared));
	daemon_prepare(&d);
#ifdef FK_CRASH_SITES
	daemon_mine(&d, site, 0);
	daemon_unmine(&d);
#endif
	daemon_start(&d, "--workers=2", "--log-level=warning", NULL);
	oracle_init(&o, d.directory);
	c = daemon_open(&d);
	for (uint32_t i = 0; i < CLIENTS; i++) {
		pids[i] = daemon_fork(i % 2 ? OTHER_UID : DAEMON_UID);
		if (pids[i] == 0)
			_exit(oracle_serve(&o, d.socket, &shared->ended[i]));
	}
	oracle_await_each(shared->ended, CLIENTS);
	for (uint32_t i = 0; i < n; i++) {
		crash(c, site, i);
		if (i % 8 == 0)
			oracle_await_each(shared->ended, CLIENTS);
	}
	oracle_await_each(shared->ended, CLIENTS);
	atomic_store(&o.shared->stop, 1);
	for (uint32_t i = 0; i < CLIENTS; i++)
		ck_assert_int_eq(daemon_reap(pids[i]), 0);
	ck_assert_uint_eq(daemon_crashes(&d), n);
	ck_assert_msg(oracle_judge(&o, &v), "%s; the log is %s", v.wrong, d.log);
	ck_assert_uint_eq(v.outcomes[FK_CANCELLED] + v.refused + v.orphans, 0);
	ck_assert_uint_ge(v.outcomes[FK_DONE] + v.outcomes[FK_LOST], 10 * n);
	printf("%s: %" PRIu64 " jobs done, %" PRIu64 " lost (%" PRIu64
	       " of them idempotent), %" PRIu64 " runs again\n",
	       site, v.outcomes[FK_DONE], v.outcomes[FK_LOST], v.lost_idempotent, v.again);
	oracle_fini(&o);
	daemon_stop_close(&d, c);
}

START_TEST(each_job_of_four_clients_ends_once_despite_many_crashes)
{
	static const char *const sites[] = {
#ifdef FK_CRASH_SITES
		"steal_taken", "steal_adopted", "job_running", "job_begun", "job_finishing",
		"job_ended",   "job_told",	"job_counted", "job_freed", "roots_taken",
#else
		"none",
#endif
	};
	uint32_t n = max(n_crashes() / (uint32_t)ARRAY_SIZE(sites), 4u);

	times_ns = calloc(ARRAY_SIZE(sites) * n, sizeof(*times_ns));
	ck_assert_ptr_nonnull(times_ns);
	for (size_t i = 0; i < ARRAY_SIZE(sites); i++)
		rage(sites[i], n);
	print_times();
	free(times_ns);
}
END_TEST

CHECK_MAIN("storm")
