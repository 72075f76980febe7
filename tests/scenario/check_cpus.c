/* SPDX-License-Identifier: MIT */
/*
 * scenario: forkd uses only the CPUs that it was allowed at its start, as by taskset or a cpuset
 *
 * Each test allows this process, and so forkd, only the last of its CPUs.
 */
#define CHECK_TIMEOUT 120

#include <dirent.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>

#include "common/cleanup.h"
#include "tests/support/check_unit.h"
#include "tests/support/daemon.h"

static struct daemon d;

static uint32_t last_of(const cpu_set_t *set)
{
	uint32_t cpu = CPU_SETSIZE;

	while (cpu-- > 0 && !CPU_ISSET(cpu, set))
		;
	ck_assert_uint_lt(cpu, CPU_SETSIZE);
	return cpu;
}

/* Restricts this process to one CPU. Returns it. */
static uint32_t keep_one(void)
{
	cpu_set_t set;
	uint32_t cpu;

	ck_assert_int_eq(sched_getaffinity(0, sizeof(set), &set), 0);
	cpu = last_of(&set);
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	ck_assert_int_eq(sched_setaffinity(0, sizeof(set), &set), 0);
	return cpu;
}

/* Checks that all threads of a process are on this CPU and no other. Returns their number. */
static uint32_t check_threads(pid_t pid, uint32_t cpu)
{
	_cleanup_closedir_ DIR *directory = NULL;
	const struct dirent *entry;
	char path[64];
	uint32_t n = 0;

	(void)snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	directory = opendir(path);
	ck_assert_ptr_nonnull(directory);
	while ((entry = readdir(directory))) {
		cpu_set_t set;
		pid_t tid = atoi(entry->d_name);

		if (tid <= 0)
			continue;
		ck_assert_int_eq(sched_getaffinity(tid, sizeof(set), &set), 0);
		ck_assert_int_eq(CPU_COUNT(&set), 1);
		ck_assert_uint_eq(last_of(&set), cpu);
		n++;
	}
	return n;
}

START_TEST(one_cpu_gives_one_worker_also_in_the_next_pool)
{
	uint32_t cpu = keep_one();

	daemon_start(&d, NULL);
	ck_assert_uint_eq(d.board->manager.n_workers, 1);
	for (uint32_t i = 0; i < 2; i++) {
		pid_t pool = daemon_pool(&d);

		daemon_call_fib(&d);
		ck_assert_uint_eq(atomic_load(&d.board->workers[0].cpu), cpu);
		ck_assert_uint_ge(check_threads(pool, cpu), 2);
		ck_assert_uint_ge(check_threads(d.manager, cpu), 1);
		ck_assert_int_eq(kill(pool, SIGKILL), 0);
		DAEMON_AWAIT((pid_t)atomic_load(&d.board->manager.pool_pid) != pool);
	}
	ck_assert_int_eq(daemon_stop(&d), 0);
}
END_TEST

START_TEST(more_workers_than_cpus_share_the_allowed_cpus)
{
	uint32_t cpu = keep_one();

	daemon_start(&d, "--workers=3", NULL);
	daemon_call_fib(&d);
	ck_assert_uint_eq(d.board->manager.n_workers, 3);
	for (uint32_t i = 0; i < 3; i++)
		ck_assert_uint_eq(atomic_load(&d.board->workers[i].cpu), cpu);
	ck_assert_uint_ge(check_threads(daemon_pool(&d), cpu), 4);
	ck_assert_int_eq(daemon_stop(&d), 0);
}
END_TEST

START_TEST(forbidden_cpu_is_refused_by_its_number)
{
	uint32_t cpu = keep_one();
	char option[32], allowed[32];
	const char *const options[] = { option, NULL };

	(void)snprintf(option, sizeof(option), "--cpus=%u", cpu ? cpu - 1 : 1);
	(void)snprintf(allowed, sizeof(allowed), "forkd may use %u\n", cpu);
	ck_assert_int_gt(daemon_try(&d, options), 0);
	ck_assert(daemon_logged(&d, "cpus: some of these", allowed));
	daemon_discard(&d);
}
END_TEST

CHECK_MAIN("cpus")
