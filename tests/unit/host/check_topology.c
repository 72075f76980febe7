/* SPDX-License-Identifier: MIT */
/* topology: placement and counts on synthetic machines, and binding on this one. */
#define CHECK_SETUP    NULL
#define CHECK_TEARDOWN end

#include "daemon/host/topology.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>

#include <hwloc.h>

#include "common/util.h"
#include "daemon/host/victims.h"
#include "tests/support/check_unit.h"
#include "tests/support/machines.h"

static char error[1024];   /* file names in the tree may be long */
static struct topology *t; /* that was created last */

static void end(void)
{
	topology_free(t);
	t = NULL;
}

static void make_threads(const char *synthetic, uint32_t workers, uint32_t threads,
			 const char *cpus)
{
	hwloc_bitmap_t set = NULL;
	int r;

	end();

	if (cpus) {
		set = hwloc_bitmap_alloc();
		ck_assert_int_eq(hwloc_bitmap_list_sscanf(set, cpus), 0);
	}
	r = topology_new(synthetic, workers, threads, set, error, sizeof(error), &t);
	hwloc_bitmap_free(set);
	ck_assert_msg(r == 0, "%s", error);
}

static void make(const char *synthetic, uint32_t workers, const char *cpus)
{
	make_threads(synthetic, workers, 0, cpus);
}

static void refused(const char *synthetic, uint32_t workers, const char *cpus, int code,
		    const char *words)
{
	hwloc_bitmap_t set = hwloc_bitmap_alloc();
	struct topology *none = NULL;
	int r;

	ck_assert_int_eq(hwloc_bitmap_list_sscanf(set, cpus), 0);
	r = topology_new(synthetic, workers, 0, *cpus ? set : NULL, error, sizeof(error), &none);
	hwloc_bitmap_free(set);
	ck_assert_ptr_null(none);
	ck_assert_int_eq(r, code);
	ck_assert_ptr_nonnull(strstr(error, words));
}

START_TEST(one_worker_for_each_core_on_its_first_cpu)
{
	make("numa:2 core:4 pu:2", 0, NULL);
	ck_assert_uint_eq(topology_n_workers(t), 8);
	for (uint32_t i = 0; i < 8; i++) {
		ck_assert_uint_eq(topology_place(t, i)->cpu, 2 * i);
		ck_assert_uint_eq(topology_place(t, i)->node, i / 4);
	}
}
END_TEST

START_TEST(more_workers_than_cores_take_second_cpus_then_wrap)
{
	const uint32_t cpus[] = { 0, 2, 1, 3, 0, 2 };

	make("numa:1 core:2 pu:2", 6, NULL);
	ck_assert_uint_eq(topology_n_workers(t), 6);
	for (uint32_t i = 0; i < 6; i++)
		ck_assert_uint_eq(topology_place(t, i)->cpu, cpus[i]);
}
END_TEST

START_TEST(fewer_workers_take_the_first_cores)
{
	make("numa:2 core:28 pu:1", 3, NULL);
	ck_assert_uint_eq(topology_n_workers(t), 3);
	ck_assert_uint_eq(topology_place(t, 2)->cpu, 2);
	ck_assert_uint_eq(topology_place(t, 2)->node, 0);
}
END_TEST

START_TEST(list_of_cpus_gives_one_worker_each)
{
	make("numa:2 core:4 pu:2", 0, "3,8-9");
	ck_assert_uint_eq(topology_n_workers(t), 3);
	ck_assert_uint_eq(topology_place(t, 0)->cpu, 3);
	ck_assert_uint_eq(topology_place(t, 1)->cpu, 8);
	ck_assert_uint_eq(topology_place(t, 2)->cpu, 9);
	ck_assert_uint_eq(topology_place(t, 2)->node, 1);
	ck_assert_uint_eq(topology_place(t, 3)->cpu, 3);
}
END_TEST

/* Each worker is in one group, and groups, members and places agree. Distances are symmetric, at
 * least 1, and shorter within a group than between groups. */
static void has_cpus(const char *synthetic, uint32_t workers, uint32_t threads, const char *cpus,
		     const char *expected)
{
	char text[128] = "";
	size_t n = 0;

	make_threads(synthetic, workers, threads, cpus);
	for (uint32_t i = 0; i < topology_n_workers(t); i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%u", i ? "," : "",
				      topology_place(t, i)->cpu);
	ck_assert_str_eq(text, expected);
}

START_TEST(threads_per_core_limits_the_cpus_of_each_core)
{
	has_cpus("numa:2 core:2 pu:4", 0, 0, NULL, "0,4,8,12");
	has_cpus("numa:2 core:2 pu:4", 0, 1, NULL, "0,4,8,12");
	has_cpus("numa:2 core:2 pu:4", 0, 2, NULL, "0,4,8,12,1,5,9,13");
	has_cpus("numa:2 core:2 pu:4", 0, UINT32_MAX, NULL,
		 "0,4,8,12,1,5,9,13,2,6,10,14,3,7,11,15");
	has_cpus("numa:1 core:2 pu:1", 0, 2, NULL, "0,1");
	/* The same for a new machine. */
	has_cpus("numa:1 core:3 pu:2", 0, 0, "1,2-5", "1,2,4,3,5");
	has_cpus("numa:1 core:3 pu:2", 0, 1, "1,2-5", "1,2,4");
	has_cpus("numa:1 core:3 pu:2", 0, 2, "1,2-5", "1,2,4,3,5");
	/* Rows of two workers and their distance. */
	has_cpus("numa:1 core:2 pu:2", 6, 1, NULL, "0,2,0,2,0,2");
	has_cpus("numa:1 core:2 pu:2", 3, 2, NULL, "0,2,1");
	has_cpus("numa:1 core:2 pu:2", 1, UINT32_MAX, NULL, "0");
}
END_TEST

/* Workers 0-7 are the first CPUs of the cores, 8-15 the second. */
START_TEST(chosen_cpus_and_the_same_limit_give_the_same_places)
{
	static const uint32_t threads[] = { 0, 1, 2, UINT32_MAX };

	for (size_t i = 0; i < ARRAY_SIZE(threads); i++) {
		uint32_t first[16], n;
		hwloc_bitmap_t chosen;

		make_threads("numa:2 core:2 pu:4", 0, threads[i], NULL);
		n = topology_n_workers(t);
		for (uint32_t k = 0; k < n; k++)
			first[k] = topology_place(t, k)->cpu;
		chosen = topology_cpus(t);
		end();
		ck_assert_int_eq(topology_new("numa:2 core:2 pu:4", n, threads[i], chosen, error,
					      sizeof(error), &t),
				 0);
		hwloc_bitmap_free(chosen);
		for (uint32_t k = 0; k < n; k++)
			ck_assert_uint_eq(topology_place(t, k)->cpu, first[k]);
	}
}
END_TEST

START_TEST(unknown_cpu_is_refused_with_a_list_of_the_existing_ones)
{
	refused("numa:1 core:2 pu:1", 0, "1,7", -EINVAL, "0-1");
}
END_TEST

START_TEST(limit_of_workers_is_higher_on_synthetic_machines)
{
	ck_assert_int_eq(topology_new(NULL, 257, 0, NULL, error, sizeof(error), &t), -EINVAL);
	ck_assert_ptr_null(t);
	ck_assert_ptr_nonnull(strstr(error, "256"));
	refused("numa:1 core:2 pu:1", 65536, "", -EINVAL, "65535");
	make("numa:8 core:128 pu:1", 0, NULL);
	ck_assert_uint_eq(topology_n_workers(t), 1024);
	ck_assert_uint_eq(topology_n_groups(t), 8);
	ck_assert_uint_eq(topology_distance(t, 0, 1023), 2);
}
END_TEST

START_TEST(invalid_machine_is_an_error)
{
	refused("core:banana", 0, "", -EINVAL, "");
}
END_TEST

static void *bind_thread(void *unused)
{
	cpu_set_t set;

	(void)unused;
	for (uint32_t i = 0; i < topology_n_workers(t); i++) {
		ck_assert_int_eq(topology_bind(t, i), 0);
		ck_assert_int_eq(sched_getaffinity(0, sizeof(set), &set), 0);
		ck_assert_int_eq(CPU_COUNT(&set), 1);
		ck_assert(CPU_ISSET(topology_place(t, i)->cpu, &set));
	}
	return NULL;
}

START_TEST(binding_affects_one_thread)
{
	cpu_set_t before, after;
	pthread_t thread;

	make(NULL, 0, NULL);
	ck_assert_int_eq(sched_getaffinity(0, sizeof(before), &before), 0);
	ck_assert_int_eq(pthread_create(&thread, NULL, bind_thread, NULL), 0);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_assert_int_eq(sched_getaffinity(0, sizeof(after), &after), 0);
	ck_assert(CPU_EQUAL(&before, &after));
}
END_TEST

START_TEST(inherited_affinity_is_the_limit)
{
	cpu_set_t set;
	uint32_t cpu;

	make(NULL, 0, NULL);
	cpu = topology_place(t, topology_n_workers(t) - 1)->cpu;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	ck_assert_int_eq(sched_setaffinity(0, sizeof(set), &set), 0);
	make(NULL, 0, NULL);
	ck_assert_uint_eq(topology_n_workers(t), 1);
	ck_assert_uint_eq(topology_place(t, 0)->cpu, cpu);
}
END_TEST

START_TEST(binding_on_a_synthetic_machine_changes_nothing)
{
	cpu_set_t before, after;

	make("numa:2 core:28 pu:1", 0, NULL);
	ck_assert_int_eq(sched_getaffinity(0, sizeof(before), &before), 0);
	ck_assert_int_eq(topology_bind(t, 55), 0);
	ck_assert_int_eq(sched_getaffinity(0, sizeof(after), &after), 0);
	ck_assert(CPU_EQUAL(&before, &after));
}
END_TEST

/* Nodes of one package are nearer than those of the other. */
static void check_whole(void)
{
	uint32_t n = topology_n_workers(t), counted = 0, inside = 1, outside = UINT32_MAX;

	ck_assert_uint_ge(topology_n_groups(t), 1);
	for (uint32_t g = 0; g < topology_n_groups(t); g++) {
		uint32_t n_members;
		const uint32_t *members = topology_members(t, g, &n_members);

		ck_assert_uint_ge(n_members, 1);
		for (uint32_t k = 0; k < n_members; k++) {
			ck_assert_uint_lt(members[k], n);
			ck_assert(!k || members[k] > members[k - 1]);
			ck_assert_uint_eq(topology_place(t, members[k])->group, g);
			ck_assert_uint_eq(topology_place(t, members[k])->node,
					  topology_place(t, members[0])->node);
		}
		counted += n_members;
	}
	ck_assert_uint_eq(counted, n);
	for (uint32_t i = 0; i < n; i++) {
		for (uint32_t j = 0; j < n; j++) {
			uint32_t r = i == j ? 1 : topology_distance(t, i, j);

			ck_assert_uint_ge(r, 1);
			ck_assert(i == j || r == topology_distance(t, j, i));
			if (topology_place(t, i)->group == topology_place(t, j)->group)
				inside = max(inside, r);
			else
				outside = min(outside, r);
		}
	}
	ck_assert_uint_lt(inside, outside);
}

/* The same of a machine that is just made. */
static void whole(const char *machine, uint32_t workers, const char *cpus)
{
	make(machine, workers, cpus);
	check_whole();
}

/* With the second CPUs: workers 7 and 8 are on cores 4 and 5. */
static void check_distances(const uint32_t (*rows)[3], size_t n)
{
	for (size_t i = 0; i < n; i++)
		ck_assert_msg(topology_distance(t, rows[i][0], rows[i][1]) == rows[i][2],
			      "from %u to %u: %u, not %u", rows[i][0], rows[i][1],
			      topology_distance(t, rows[i][0], rows[i][1]), rows[i][2]);
}

#define DISTANCES(...)                                                                             \
	check_distances((const uint32_t[][3]){ __VA_ARGS__ },                                      \
			ARRAY_SIZE(((const uint32_t[][3]){ __VA_ARGS__ })))

START_TEST(nodes_are_groups_and_the_other_node_is_one_step_farther)
{
	const uint32_t *members;
	uint32_t n;

	whole("numa:2 core:56 pu:1", 0, NULL);
	ck_assert_uint_eq(topology_n_groups(t), 2);
	members = topology_members(t, 1, &n);
	ck_assert_uint_eq(n, 56);
	ck_assert_uint_eq(members[0], 56);
	for (uint32_t i = 0; i < 112; i++)
		for (uint32_t j = 0; j < 112; j++)
			ck_assert(i == j ||
				  topology_distance(t, i, j) == (i / 56 == j / 56 ? 1u : 2u));
	whole("numa:8 core:16 pu:1", 0, NULL);
	ck_assert_uint_eq(topology_n_groups(t), 8);
	DISTANCES({ 17, 16, 1 }, { 17, 127, 2 });
}
END_TEST

START_TEST(one_node_is_one_group_with_equal_distances)
{
	whole("core:8 pu:1", 0, NULL);
	ck_assert_uint_eq(topology_n_groups(t), 1);
	DISTANCES({ 0, 7, 1 });
}
END_TEST

START_TEST(siblings_of_a_core_are_nearest_and_only_a_used_sibling_makes_a_level)
{
	whole("numa:2 core:4 pu:2", 16, NULL);
	/* 16 from 0 to 3; 16 from 0 to 1 but 14 in the other direction, which is not nearer; 22
	 * from 0 to 2. */
	DISTANCES({ 0, 8, 1 }, { 0, 1, 2 }, { 0, 9, 2 }, { 0, 4, 3 });
	whole("numa:2 core:4 pu:2", 0, NULL);
	DISTANCES({ 0, 1, 1 }, { 0, 4, 2 });
}
END_TEST

START_TEST(levels_without_two_workers_do_not_count)
{
	whole("pack:2 numa:1 l3:1 l2:2 l1d:1 core:2 pu:1", 0, NULL);
	DISTANCES({ 0, 1, 1 }, { 0, 2, 2 }, { 0, 4, 3 });
	/* The third package's node must not be used. */
	whole("pack:2 numa:2 core:2 pu:1", 0, NULL);
	ck_assert_uint_eq(topology_n_groups(t), 4);
	DISTANCES({ 0, 1, 1 }, { 0, 2, 2 }, { 0, 4, 3 });
}
END_TEST

START_TEST(workers_on_one_cpu_have_the_smallest_distance)
{
	uint32_t n;

	whole("numa:2 core:2 pu:1", 10, NULL);
	ck_assert_uint_eq(topology_n_groups(t), 2);
	DISTANCES({ 0, 4, 1 }, { 0, 8, 1 }, { 0, 9, 1 }, { 0, 6, 2 });
	topology_members(t, 0, &n);
	ck_assert_uint_eq(n, 6);
}
END_TEST

START_TEST(node_without_a_worker_is_not_a_group)
{
	const uint32_t *members;
	uint32_t n;

	whole("numa:4 core:4 pu:1", 0, "5,12,14");
	ck_assert_uint_eq(topology_n_groups(t), 2);
	ck_assert_uint_eq(topology_place(t, 0)->node, 1);
	ck_assert_uint_eq(topology_place(t, 0)->group, 0);
	members = topology_members(t, 1, &n);
	ck_assert_uint_eq(n, 2);
	ck_assert_uint_eq(members[0], 1);
	ck_assert_uint_eq(members[1], 2);
	/* Three workers for 16 cores: all on the first node. */
	whole("numa:4 core:4 pu:1", 3, NULL);
	ck_assert_uint_eq(topology_n_groups(t), 1);
}
END_TEST

START_TEST(unlike_packages_have_their_own_levels)
{
	const uint32_t cpus[] = { 0, 1, 2, 3, 4, 6, 8 };

	whole(machines_xml("asymmetric"), 0, NULL);
	ck_assert_uint_eq(topology_n_workers(t), 7);
	for (uint32_t i = 0; i < 7; i++) {
		ck_assert_uint_eq(topology_place(t, i)->cpu, cpus[i]);
		ck_assert_uint_eq(topology_place(t, i)->group, i / 4);
	}
	DISTANCES({ 0, 1, 1 }, { 0, 3, 2 }, { 4, 6, 1 }, { 4, 0, 3 });
	/* A container may forbid it. */
	whole(machines_xml("asymmetric"), 9, NULL);
	ck_assert_uint_eq(topology_place(t, 7)->cpu, 5);
	DISTANCES({ 4, 7, 1 }, { 4, 8, 2 }, { 4, 6, 2 });
}
END_TEST

START_TEST(distances_of_the_machine_order_the_nodes)
{
	whole(machines_xml("ring"), 0, NULL);
	/* 16 from 0 to 3, 16 from 0 to 1 but 14 the other way, which is no nearer; 22 from 0
	 * to 2. */
	ck_assert_uint_eq(topology_n_groups(t), 4);
	DISTANCES({ 0, 1, 1 }, { 0, 2, 2 }, { 0, 6, 2 }, { 0, 4, 3 }, { 3, 7, 3 });
}
END_TEST

START_TEST(cpus_without_memory_are_a_group_that_borrows_from_the_nearest)
{
	whole(machines_xml("memoryless"), 0, NULL);
	ck_assert_uint_eq(topology_n_workers(t), 4);
	ck_assert_uint_eq(topology_n_groups(t), 2);
	ck_assert_uint_eq(topology_place(t, 3)->node, 1);
	ck_assert_uint_eq(topology_memory(t, 0), 0);
	ck_assert_uint_eq(topology_memory(t, 1), 2);
}
END_TEST

START_TEST(nearest_node_of_several_is_used)
{
	whole(machines_xml("fast"), 0, NULL);
	ck_assert_uint_eq(topology_n_groups(t), 2);
	ck_assert_uint_eq(topology_place(t, 0)->node, 1);
	ck_assert_uint_eq(topology_place(t, 3)->node, 3);
	ck_assert_uint_eq(topology_memory(t, 1), 3);
}
END_TEST

START_TEST(cpus_outside_the_cpuset_are_not_used)
{
	const uint32_t cpus[] = { 1, 2, 4, 5 };

	whole(machines_xml("restricted"), 0, NULL);
	ck_assert_uint_eq(topology_n_workers(t), 4);
	for (uint32_t i = 0; i < 4; i++)
		ck_assert_uint_eq(topology_place(t, i)->cpu, cpus[i]);
	/* The third package's node may not be used. */
	ck_assert_uint_eq(topology_n_groups(t), 3);
	ck_assert_uint_eq(topology_place(t, 2)->node, TOPOLOGY_NONE);
	ck_assert_uint_eq(topology_place(t, 2)->group, 2);
	ck_assert_uint_eq(topology_memory(t, 2), TOPOLOGY_NONE);
	refused(machines_xml("restricted"), 0, "0", -EINVAL, "1-2,4-5");
}
END_TEST

START_TEST(cpus_without_any_node_are_one_group)
{
	whole(machines_xml("restricted"), 0, "4-5");
	ck_assert_uint_eq(topology_n_groups(t), 1);
	ck_assert_uint_eq(topology_place(t, 0)->node, TOPOLOGY_NONE);
	ck_assert_uint_eq(topology_memory(t, 0), TOPOLOGY_NONE);
	DISTANCES({ 0, 1, 1 });
}
END_TEST

START_TEST(missing_or_invalid_file_is_an_error_with_a_message)
{
	refused(machines_xml("nowhere"), 0, "", -ENOENT, "nowhere.xml");
	refused("xml:/dev/null", 0, "", -EINVAL, "/dev/null");
}
END_TEST

START_TEST(this_machine_is_consistent)
{
	whole(NULL, 0, NULL);
	whole(NULL, 64, NULL);
}
END_TEST

START_TEST(victims_follow_the_distances_and_the_groups)
{
	struct victims *v;

	make(machines_xml("ring"), 12, NULL);
	ck_assert_int_eq(topology_victims(t, &v), 0);
	ck_assert_uint_eq(v->n, 12);
	/* Workers 0, 1, 8 and 9 are on the first node. */
	for (uint32_t k = 0; k < 11; k++) {
		uint32_t j = victims_order(v, 0)[k], r = topology_distance(t, 0, j);

		ck_assert(!k || topology_distance(t, 0, victims_order(v, 0)[k - 1]) <= r);
		ck_assert_uint_eq(victims_level(v, 0, j), r - 1);
		ck_assert((k < 3) == (r == 1));
	}
	victims_free(v);
}
END_TEST

START_TEST(memory_is_bound_without_harm)
{
	size_t size = 1 << 20;
	char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	ck_assert_ptr_ne(memory, MAP_FAILED);
	make("numa:2 core:2 pu:1", 0, NULL);
	ck_assert_int_eq(topology_bind_memory(t, 3, memory, size), 0);
	make(NULL, 0, NULL);
	ck_assert_int_eq(topology_bind_memory(t, 0, memory, 0), 0);
	for (uint32_t i = 0; i < topology_n_workers(t); i++) {
		int r = topology_bind_memory(t, i, memory, size);

		/* A container may forbid it. */
		ck_assert_msg(r == 0 || r == -EPERM || r == -ENOSYS, "%s", strerror(-r));
		memset(memory, 1, size);
	}
	munmap(memory, size);
}
END_TEST

CHECK_MAIN("topology")
