/* SPDX-License-Identifier: MIT */
/*
 * scenario: CPUs are taken from forkd and given back while clients work: by the affinity of the
 * pool's threads, set from outside, and if possible by a cpuset and a quota. Every result is right,
 * and a worker without a CPU runs only jobs that are placed there.
 */
#define CHECK_TIMEOUT 200

#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/util.h"
#include "shm/wake.h"
#include "tests/support/check_unit.h"
#include "tests/support/control_group.h"
#include "tests/support/kept.h"

#define CLIENTS 2u

struct shared {
	_Atomic uint32_t over;
	_Atomic uint64_t calls[CLIENTS];
	_Atomic uint64_t wrong;
	_Atomic uint32_t crashes; /* jobs may be lost */
};

static struct daemon d;
static struct systemd_stub *store; /* the systemd stub, if forkd is kept */
static struct shared *shared;
static uint32_t number; /* of the client */
static pid_t clients[CLIENTS];
static cpu_set_t both, one; /* the CPUs of the two workers, and that of worker 0 */

/* ------------------------------------------------------------------------ clients */

static void work(void)
{
	fk_client *c = daemon_open(&d);

	while (!atomic_load(&shared->over)) {
		int64_t n = 0;

		int r = fk_call(c, "fib:fib", &n, INT64_C(22));

		if (r ? r != -EOWNERDEAD || !atomic_load(&shared->crashes) : n != 17711)
			atomic_fetch_add(&shared->wrong, 1);
		atomic_fetch_add(&shared->calls[number], 1);
	}
	ck_assert_int_eq(fk_close(c), 0);
}

/* Waits until each client has made n more calls. */
static void await_calls(uint64_t n)
{
	for (uint32_t i = 0; i < CLIENTS; i++) {
		uint64_t before = atomic_load(&shared->calls[i]);

		DAEMON_AWAIT(atomic_load(&shared->calls[i]) >= before + n);
	}
}

static void end_load(void)
{
	atomic_store(&shared->over, 1);
	for (uint32_t i = 0; i < CLIENTS; i++)
		ck_assert_int_eq(daemon_reap(clients[i]), 0);
	ck_assert_uint_eq(atomic_load(&shared->wrong), 0);
}

/* Runs n jobs that only worker 1 may run. */
static void call_placed(uint32_t n)
{
	union fk_value value = { .i64 = 15 };
	fk_client *c = daemon_open(&d);

	for (uint32_t i = 0; i < n; i++) {
		struct fk_request request = { .values = &value,
					      .size = 1,
					      .options.flags = FK_STRICT,
					      .options.place = FK_PLACE_WORKER,
					      .options.place_index = 1 };
		int64_t result = 0;
		fk_job job;

		ck_assert_int_eq(fk_task_find(c, "fib:fib", &request.task), 0);
		ck_assert_int_eq(fk_submit_batch(c, &request, 1, 0, &job), 0);
		ck_assert_int_eq(fk_wait(c, job, FK_FOREVER), 0);
		ck_assert_int_eq(fk_result(c, job, &result, sizeof(result)), 0);
		ck_assert_int_eq(result, 610);
		ck_assert_int_eq(fk_release(c, job), 0);
	}
	ck_assert_int_eq(fk_close(c), 0);
}

/* ------------------------------------------------------------------------ CPUs */

static uint64_t count(uint32_t worker, const char *name)
{
	for (uint32_t i = 0; i < board_n_counters; i++)
		if (streq(board_counter_rows[i].name, name))
			return board_counter(d.board, worker, &board_counter_rows[i]);
	ck_abort_msg("no counter %s", name);
	return 0;
}

static bool is_parked(uint32_t worker)
{
	return wake_state(wake_load(&d.board->workers[worker].wake)) == WAKE_PARKED;
}

/* Returns the number of root tasks and stolen continuations that it has run. */
static uint64_t ran(uint32_t worker)
{
	return count(worker, "jobs_started") + count(worker, "steals");
}

/* As taskset -a does. */
static void allow(pid_t pid, const cpu_set_t *set)
{
	_cleanup_closedir_ DIR *directory = NULL;
	const struct dirent *entry;
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	directory = opendir(path);
	ck_assert_ptr_nonnull(directory);
	while ((entry = readdir(directory)))
		if (atoi(entry->d_name))
			(void)sched_setaffinity(atoi(entry->d_name), sizeof(*set), set);
}

static bool is_pinned(uint32_t worker)
{
	cpu_set_t set;

	return sched_getaffinity((pid_t)d.board->workers[worker].tid, sizeof(set), &set) == 0 &&
	       CPU_COUNT(&set) == 1 && CPU_ISSET(d.board->workers[worker].cpu, &set);
}

/* Sets list to the first two CPUs that this test may use, as an option, and restricts the test to
 * them. Returns false if there are no two. */
static bool two_cpus(const TTest *test, char list[64])
{
	cpu_set_t set;
	uint32_t n = 0;

	ck_assert_int_eq(sched_getaffinity(0, sizeof(set), &set), 0);
	(void)snprintf(list, 64, "--cpus=");
	for (uint32_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &set))
			continue;
		if (n++ < 2)
			(void)snprintf(list + strlen(list), 64 - strlen(list), "%s%u",
				       n == 2 ? "," : "", cpu);
		else
			CPU_CLR(cpu, &set);
	}
	ck_assert_int_eq(sched_setaffinity(0, sizeof(set), &set), 0);
	if (n < 2)
		check_unit_not_run(test, "one CPU cannot be taken away from one");
	return n >= 2;
}

/* Starts forkd, with two workers on two CPUs. */
static void begin_load(void)
{
	CPU_ZERO(&one);
	CPU_SET(d.board->workers[0].cpu, &one);
	both = one;
	CPU_SET(d.board->workers[1].cpu, &both);
	shared = daemon_share(sizeof(*shared));
	for (number = 0; number < CLIENTS; number++)
		clients[number] = daemon_client(work, DAEMON_UID);
	await_calls(20);
}

static bool begin(const TTest *test, const char *option)
{
	char list[64];

	if (!two_cpus(test, list))
		return false;
	daemon_start(&d, "--workers=2", option, NULL);
	begin_load();
	return true;
}

/* Worker 1 has lost its CPU: it goes offline, and runs only jobs placed there. */
static void check_parked(void)
{
	uint64_t before;

	DAEMON_AWAIT(is_parked(1));
	before = ran(1);
	await_calls(100);
	ck_assert_uint_eq(ran(1), before);
	call_placed(10);
	await_calls(20);
	/* After these it rests again, when it gets the CPU that the other worker uses as well. */
	DAEMON_AWAIT(is_parked(1));
	ck_assert_uint_eq(ran(1), before + 10);
}

/* Worker 1 has its CPU again. */
static void check_back(void)
{
	uint64_t before = ran(1);

	DAEMON_AWAIT(ran(1) > before);
	DAEMON_AWAIT(is_pinned(1));
}

START_TEST(worker_without_its_cpu_goes_offline_and_returns)
{
	char text[4096];

	if (!begin(worker_without_its_cpu_goes_offline_and_returns, "--sandbox=strict"))
		return;
	for (uint32_t round = 0; round < 2; round++) {
		allow(daemon_pool(&d), &one);
		check_parked();
		ck_assert_int_eq(daemon_ctl(&d, text, sizeof(text), "status", NULL), 0);
		ck_assert_ptr_nonnull(strstr(text, " offline  "));
		ck_assert_ptr_nonnull(strstr(text, "offline: 1 of 2 workers"));
		allow(daemon_pool(&d), &both);
		check_back();
		if (round == 0)
			ck_assert_int_eq(daemon_ctl(&d, text, sizeof(text), "set", "scheduler",
						    "busy", NULL),
					 0);
	}
	ck_assert(daemon_logged(&d, "workers offline: 1 of 2", "may use: 1"));
	ck_assert(daemon_logged(&d, "all 2 workers are available again", ""));
	end_load();
	ck_assert_int_eq(daemon_stop(&d), 0);
}
END_TEST

/* The workers are as they were when forkd started, each on its CPU, and offline if that is
 * missing. */
static void crash_with_one_cpu(const TTest *test, const char *option)
{
	uint32_t cpu;
	pid_t pool;

	if (!begin(test, option))
		return;
	cpu = d.board->workers[1].cpu;
	atomic_store(&shared->crashes, 1);
	pool = daemon_pool(&d);
	allow(d.manager, &one);
	allow(pool, &one);
	DAEMON_AWAIT(is_parked(1));
	ck_assert_int_eq(kill(pool, SIGKILL), 0);
	DAEMON_AWAIT(daemon_pool(&d) != pool);
	await_calls(20);
	ck_assert_uint_eq(d.board->workers[1].cpu, cpu);
	check_parked();
	allow(d.manager, &both);
	allow(daemon_pool(&d), &both);
	check_back();
	end_load();
	ck_assert_int_eq(daemon_stop(&d), 0);
}

START_TEST(pool_started_while_a_cpu_is_missing_has_all_its_workers)
{
	crash_with_one_cpu(pool_started_while_a_cpu_is_missing_has_all_its_workers, NULL);
}
END_TEST

START_TEST(pool_starts_while_a_cpu_of_its_list_is_missing)
{
	const TTest *test = pool_starts_while_a_cpu_of_its_list_is_missing;
	char list[64];

	if (two_cpus(test, list))
		crash_with_one_cpu(test, list);
}
END_TEST

/* The same for managers, one that is killed and one that is restarted: connected clients stay, with
 * all workers. */
static void restart_with_one_cpu(void)
{
	uint32_t cpu = d.board->workers[1].cpu, starts;

	begin_load();
	atomic_store(&shared->crashes, 1);
	allow(store->pid, &one); /* and the processes that it starts from now on */
	allow(daemon_pool(&d), &one);
	DAEMON_AWAIT(is_parked(1));
	kept_kill(&d, store);
	kept_ready(&d, store);
	ck_assert_uint_eq(d.board->manager.n_workers, 2);
	check_parked();
	starts = store->starts;
	ck_assert_int_eq(kill(d.manager, SIGUSR2), 0);
	DAEMON_AWAIT(store->starts > starts);
	kept_ready(&d, store);
	check_parked();
	ck_assert_uint_eq(d.board->workers[1].cpu, cpu);
	allow(d.manager, &both);
	allow(daemon_pool(&d), &both);
	check_back();
	end_load();
	ck_assert(!daemon_logged(&d, "disconnected", ""));
	kept_stop(&d, store);
}

START_TEST(manager_started_while_a_cpu_is_missing_has_all_its_workers)
{
	const TTest *test = manager_started_while_a_cpu_is_missing_has_all_its_workers;
	char list[64];

	if (!two_cpus(test, list))
		return;
	store = kept_start(&d, NULL);
	if (d.board->manager.n_workers == 2) {
		restart_with_one_cpu();
	} else {
		check_unit_not_run(test, "both CPUs are one core");
		kept_stop(&d, store);
	}
}
END_TEST

START_TEST(manager_starts_while_a_cpu_of_its_list_is_missing)
{
	char list[64];

	if (!two_cpus(manager_starts_while_a_cpu_of_its_list_is_missing, list))
		return;
	store = kept_start(&d, list, NULL);
	restart_with_one_cpu();
}
END_TEST

/* ------------------------------------------------------------------------ control groups */

/* The number of a CPU, or those of both workers. */
static void set_cpus(const struct control_group *group, bool all)
{
	char text[32];
	int n = snprintf(text, sizeof(text), "%u", d.board->workers[0].cpu);

	if (all)
		(void)snprintf(text + n, sizeof(text) - (size_t)n, ",%u", d.board->workers[1].cpu);
	ck_assert(control_group_put(group, "cpuset.cpus", text));
}

START_TEST(cpuset_change_is_followed)
{
	static struct control_group group;

	if (!begin(cpuset_change_is_followed, "--sandbox=normal"))
		return;
	if (control_group_make(&group, CONTROL_GROUP_V2 "/cpuset", "cpuset.mems", "0") ||
	    control_group_make(&group, CONTROL_GROUP_V2, "cpuset.mems", "0")) {
		set_cpus(&group, true);
		ck_assert(control_group_enter(&group, d.manager));
		ck_assert(control_group_enter(&group, daemon_pool(&d)));
		set_cpus(&group, false);
		check_parked();
		set_cpus(&group, true);
		check_back();
	} else {
		check_unit_not_run(cpuset_change_is_followed, "no cpuset can be made here");
	}
	end_load();
	ck_assert_int_eq(daemon_stop(&d), 0);
	control_group_end(&group);
}
END_TEST

START_TEST(quota_change_is_followed)
{
	static struct control_group group;
	bool old;

	if (!begin(quota_change_is_followed, "--sandbox=strict"))
		return;
	old = control_group_make(&group, CONTROL_GROUP_V2 "/cpu", "cpu.cfs_quota_us", "-1");
	if (old || control_group_make(&group, CONTROL_GROUP_V2, "cpu.max", "max")) {
		const char *name = old ? "cpu.cfs_quota_us" : "cpu.max";

		ck_assert(control_group_enter(&group, d.manager));
		ck_assert(control_group_enter(&group, daemon_pool(&d)));
		ck_assert(control_group_put(&group, name, "90000"));
		check_parked();
		ck_assert(control_group_put(&group, name, "110000"));
		check_back();
		ck_assert(daemon_logged(&d, "workers offline: 1 of 2", "enough for 1"));
	} else {
		check_unit_not_run(quota_change_is_followed, "no quota can be set here");
	}
	end_load();
	ck_assert_int_eq(daemon_stop(&d), 0);
	control_group_end(&group);
}
END_TEST

CHECK_MAIN("parking")
