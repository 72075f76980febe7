/* SPDX-License-Identifier: MIT */
/* topology: places and counts on machines that are not here, and binding on the one that is. */
#include "daemon/topology.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include <hwloc.h>

#include "tests/check_unit.h"

static char error[256];

static struct topology *make(const char *synthetic, uint32_t workers, const char *cpus)
{
	hwloc_bitmap_t set = NULL;
	struct topology *t = NULL;
	int r;

	if (cpus) {
		set = hwloc_bitmap_alloc();
		ck_assert_int_eq(hwloc_bitmap_list_sscanf(set, cpus), 0);
	}
	r = topology_new(synthetic, workers, set, error, sizeof(error), &t);
	hwloc_bitmap_free(set);
	ck_assert_msg(r == 0, "%s", error);
	return t;
}

static int refused(const char *synthetic, uint32_t workers, const char *cpus)
{
	hwloc_bitmap_t set = hwloc_bitmap_alloc();
	struct topology *t = NULL;
	int r;

	ck_assert_int_eq(hwloc_bitmap_list_sscanf(set, cpus), 0);
	r = topology_new(synthetic, workers, *cpus ? set : NULL, error, sizeof(error), &t);
	hwloc_bitmap_free(set);
	ck_assert_ptr_null(t);
	return r;
}

START_TEST(one_worker_for_each_core_on_its_first_cpu)
{
	struct topology *t = make("numa:2 core:4 pu:2", 0, NULL);

	ck_assert_uint_eq(topology_n_workers(t), 8);
	for (uint32_t i = 0; i < 8; i++) {
		ck_assert_uint_eq(topology_place(t, i)->cpu, 2 * i);
		ck_assert_uint_eq(topology_place(t, i)->core, i);
		ck_assert_uint_eq(topology_place(t, i)->node, i / 4);
	}
	topology_free(t);
}
END_TEST

START_TEST(more_workers_than_cores_take_second_cpus_then_wrap)
{
	struct topology *t = make("numa:1 core:2 pu:2", 6, NULL);
	const uint32_t cpus[] = { 0, 2, 1, 3, 0, 2 };

	ck_assert_uint_eq(topology_n_workers(t), 6);
	for (uint32_t i = 0; i < 6; i++)
		ck_assert_uint_eq(topology_place(t, i)->cpu, cpus[i]);
	topology_free(t);
}
END_TEST

START_TEST(fewer_workers_take_the_first_cores)
{
	struct topology *t = make("numa:2 core:28 pu:1", 3, NULL);

	ck_assert_uint_eq(topology_n_workers(t), 3);
	ck_assert_uint_eq(topology_place(t, 2)->cpu, 2);
	ck_assert_uint_eq(topology_place(t, 2)->node, 0);
	topology_free(t);
}
END_TEST

START_TEST(a_list_of_cpus_gives_one_worker_each_and_no_other_cpu)
{
	struct topology *t = make("numa:2 core:4 pu:2", 0, "3,8-9");

	ck_assert_uint_eq(topology_n_workers(t), 3);
	ck_assert_uint_eq(topology_place(t, 0)->cpu, 3);
	ck_assert_uint_eq(topology_place(t, 1)->cpu, 8);
	ck_assert_uint_eq(topology_place(t, 2)->cpu, 9);
	ck_assert_uint_eq(topology_place(t, 2)->node, 1);
	ck_assert_uint_eq(topology_place(t, 3)->cpu, 3);
	topology_free(t);
}
END_TEST

START_TEST(a_cpu_that_is_not_there_is_refused_with_those_that_are)
{
	ck_assert_int_eq(refused("numa:1 core:2 pu:1", 0, "1,7"), -EINVAL);
	ck_assert_ptr_nonnull(strstr(error, "0-1"));
}
END_TEST

START_TEST(too_many_workers_are_refused_and_too_many_cores_are_not_used)
{
	struct topology *t;

	ck_assert_int_eq(refused("numa:1 core:2 pu:1", 257, ""), -EINVAL);
	ck_assert_ptr_nonnull(strstr(error, "256"));
	t = make("numa:4 core:100 pu:1", 0, NULL);
	ck_assert_uint_eq(topology_n_workers(t), 256);
	topology_free(t);
}
END_TEST

START_TEST(nonsense_for_a_machine_is_an_error)
{
	ck_assert_int_eq(refused("core:banana", 0, ""), -EINVAL);
}
END_TEST

static void *bind_thread(void *context)
{
	const struct topology *t = context;
	cpu_set_t set;

	for (uint32_t i = 0; i < topology_n_workers(t); i++) {
		ck_assert_int_eq(topology_bind(t, i), 0);
		ck_assert_int_eq(sched_getaffinity(0, sizeof(set), &set), 0);
		ck_assert_int_eq(CPU_COUNT(&set), 1);
		ck_assert(CPU_ISSET(topology_place(t, i)->cpu, &set));
	}
	return NULL;
}

START_TEST(a_thread_is_bound_alone)
{
	struct topology *t = make(NULL, 0, NULL);
	cpu_set_t before, after;
	pthread_t thread;

	ck_assert_int_eq(sched_getaffinity(0, sizeof(before), &before), 0);
	ck_assert_int_eq(pthread_create(&thread, NULL, bind_thread, t), 0);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_assert_int_eq(sched_getaffinity(0, sizeof(after), &after), 0);
	ck_assert(CPU_EQUAL(&before, &after));
	topology_free(t);
}
END_TEST

START_TEST(the_affinity_that_was_inherited_is_the_limit)
{
	struct topology *t = make(NULL, 0, NULL);
	uint32_t cpu = topology_place(t, topology_n_workers(t) - 1)->cpu;
	cpu_set_t set;

	topology_free(t);
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	ck_assert_int_eq(sched_setaffinity(0, sizeof(set), &set), 0);
	t = make(NULL, 0, NULL);
	ck_assert_uint_eq(topology_n_workers(t), 1);
	ck_assert_uint_eq(topology_place(t, 0)->cpu, cpu);
	topology_free(t);
}
END_TEST

START_TEST(binding_on_a_synthetic_machine_changes_nothing)
{
	struct topology *t = make("numa:2 core:28 pu:1", 0, NULL);
	cpu_set_t before, after;

	ck_assert_int_eq(sched_getaffinity(0, sizeof(before), &before), 0);
	ck_assert_int_eq(topology_bind(t, 55), 0);
	ck_assert_int_eq(sched_getaffinity(0, sizeof(after), &after), 0);
	ck_assert(CPU_EQUAL(&before, &after));
	topology_free(t);
}
END_TEST

CHECK_MAIN("topology", one_worker_for_each_core_on_its_first_cpu,
	   more_workers_than_cores_take_second_cpus_then_wrap, fewer_workers_take_the_first_cores,
	   a_list_of_cpus_gives_one_worker_each_and_no_other_cpu,
	   a_cpu_that_is_not_there_is_refused_with_those_that_are,
	   too_many_workers_are_refused_and_too_many_cores_are_not_used,
	   nonsense_for_a_machine_is_an_error, a_thread_is_bound_alone,
	   the_affinity_that_was_inherited_is_the_limit,
	   binding_on_a_synthetic_machine_changes_nothing)
