/* SPDX-License-Identifier: MIT */
/*
 * topology_own: on machines that are directories, and on this one. hwloc reads the same directory
 * (HWLOC_FSROOT), and must find the same places, groups, memory, distances and victims.
 */
#include "tests/support/system_root.h"

#include <errno.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <hwloc.h>

#include "common/util.h"
#include "daemon/host/topology_internal.h"
#include "daemon/host/victims.h"
#include "shm/limits.h"

#define ALL UINT32_MAX

/* A machine of at most 31 CPUs: first one of each core, then the second of each. */
struct machine {
	uint32_t packages, nodes, caches, cores, threads; /* in each part before */
	bool interleaved; /* consecutive cores, and nodes, are in different packages */
	uint32_t empty;	  /* the nodes without memory */
};

/* The numbers of the parts that contain a CPU. */
struct parts {
	uint32_t package, node, cache, core;
};

static const struct machine machines[] = {
	{ 1, 1, 1, 2, 1, false, 0 },	 { 1, 1, 1, 8, 1, false, 0 },
	{ 1, 1, 1, 4, 2, false, 0 },	 { 1, 1, 1, 4, 4, false, 0 },
	{ 1, 1, 4, 4, 1, false, 0 },	 { 1, 1, 2, 2, 2, false, 0 },
	{ 2, 1, 1, 4, 1, false, 0 },	 { 2, 1, 1, 4, 2, false, 0 },
	{ 2, 1, 1, 4, 2, true, 0 },	 { 2, 1, 2, 2, 2, true, 0 },
	{ 2, 2, 1, 3, 1, false, 0 },	 { 2, 2, 1, 3, 2, true, 0 },
	{ 1, 4, 2, 1, 2, false, 0 },	 { 3, 2, 1, 2, 1, true, 0 },
	{ 2, 1, 1, 4, 1, false, 1 },	 { 2, 2, 1, 2, 2, false, 1 << 1 },
	{ 2, 2, 1, 3, 1, true, 1 << 2 }, { 1, 2, 1, 2, 1, false, 1 << 1 },
};

static char error[256];

static uint32_t count(const struct machine *m)
{
	return m->packages * m->nodes * m->caches * m->cores * m->threads;
}

static struct parts parts_of(const struct machine *m, uint32_t cpu)
{
	uint32_t cores = count(m) / m->threads, core = cpu % cores, per = cores / m->packages;
	uint32_t package = m->interleaved ? core % m->packages : core / per;
	uint32_t in = m->interleaved ? core / m->packages : core % per;
	uint32_t node = in / (m->caches * m->cores);

	return (struct parts){
		.package = package,
		.node = m->interleaved ? node * m->packages + package : package * m->nodes + node,
		.cache = package * per + in / m->cores,
		.core = core,
	};
}

static __attribute__((format(printf, 2, 3))) void put_at(const char *text, const char *format, ...)
{
	char path[128] = "/sys/devices/system/";
	size_t n = strlen(path);
	va_list list;

	va_start(list, format);
	(void)vsnprintf(path + n, sizeof(path) - n, format, list);
	va_end(list);
	put(path, text);
}

static const char *number(uint32_t value)
{
	static char text[16];

	(void)snprintf(text, sizeof(text), "%u\n", value);
	return text;
}

static const char *list(uint32_t set)
{
	static char text[128];
	size_t n = 0;

	for (uint32_t i = 0, end; i < 32; i++) {
		if (!(set >> i & 1))
			continue;
		for (end = i; end < 31 && set >> (end + 1) & 1; end++)
			;
		n += (size_t)snprintf(text + n, sizeof(text) - n, end > i ? "%s%u-%u" : "%s%u",
				      n ? "," : "", i, end);
		i = end;
	}
	(void)snprintf(text + n, sizeof(text) - n, "\n");
	return text;
}

static const char *mask(uint32_t set)
{
	static char text[16];

	(void)snprintf(text, sizeof(text), "%08x\n", set);
	return text;
}

static void put_cache(uint32_t cpu, uint32_t level, uint32_t set)
{
	put_at(number(level), "cpu/cpu%u/cache/index%u/level", cpu, level);
	put_at("Unified\n", "cpu/cpu%u/cache/index%u/type", cpu, level);
	put_at(list(set), "cpu/cpu%u/cache/index%u/shared_cpu_list", cpu, level);
	put_at(mask(set), "cpu/cpu%u/cache/index%u/shared_cpu_map", cpu, level);
}

static void put_node(const struct machine *m, const struct parts *own, uint32_t cpus)
{
	uint32_t node = own->node, n = m->packages * m->nodes;
	char text[256];
	size_t at = 0;

	put_at(list(cpus), "node/node%u/cpulist", node);
	put_at(mask(cpus), "node/node%u/cpumap", node);
	(void)snprintf(text, sizeof(text), "Node %u MemTotal: %u kB\n", node,
		       m->empty >> node & 1 ? 0 : 65536);
	put_at(text, "node/node%u/meminfo", node);
	for (uint32_t k = 0; k < n; k++) {
		uint32_t package = m->interleaved ? k % m->packages : k / m->nodes;
		uint32_t far = package == own->package ? 12 : 21 + (k + node) % 2;

		at += (size_t)snprintf(text + at, sizeof(text) - at, "%u%s", k == node ? 10 : far,
				       k + 1 < n ? " " : "\n");
	}
	put_at(text, "node/node%u/distance", node);
}

static void put_cpu(const struct machine *m, uint32_t cpu)
{
	struct parts p = parts_of(m, cpu), sets = { 0 };

	for (uint32_t i = 0; i < count(m); i++) {
		struct parts q = parts_of(m, i);

		sets.package |= (uint32_t)(q.package == p.package) << i;
		sets.node |= (uint32_t)(q.node == p.node) << i;
		sets.cache |= (uint32_t)(q.cache == p.cache) << i;
		sets.core |= (uint32_t)(q.core == p.core) << i;
	}
	put_at(number(p.core), "cpu/cpu%u/topology/core_id", cpu);
	put_at(number(p.package), "cpu/cpu%u/topology/physical_package_id", cpu);
	put_at(list(sets.core), "cpu/cpu%u/topology/thread_siblings_list", cpu);
	put_at(mask(sets.core), "cpu/cpu%u/topology/thread_siblings", cpu);
	put_at(list(sets.package), "cpu/cpu%u/topology/core_siblings_list", cpu);
	put_at(mask(sets.package), "cpu/cpu%u/topology/core_siblings", cpu);
	put_cache(cpu, 2, sets.core);
	put_cache(cpu, 3, sets.cache);
	if (cpu == (uint32_t)__builtin_ctz(sets.node))
		put_node(m, &p, sets.node);
}

/* Writes the files of a machine. */
static void build(const struct machine *m)
{
	uint32_t nodes = (1u << m->packages * m->nodes) - 1, cpus = (1u << count(m)) - 1;

	remove_root();
	make_root();
	put("/proc/meminfo", "MemTotal: 262144 kB\n");
	put_at(list(cpus), "cpu/online");
	put_at(number(m->threads > 1), "cpu/smt/active");
	put_at(list(nodes), "node/online");
	put_at(list(nodes & ~m->empty), "node/has_memory");
	for (uint32_t cpu = 0; cpu < count(m); cpu++)
		put_cpu(m, cpu);
}

/* Reads the directory. cpus, nodes: those that may be used. */
static struct topology *own(uint32_t workers, uint32_t cpus, uint32_t nodes)
{
	struct topology_set c = { { cpus } }, n = { { nodes } };
	struct topology *t = NULL;
	char system[96];

	(void)snprintf(system, sizeof(system), "%s/sys/devices/system", root);
	ck_assert_int_eq(topology_read(system, &c, &n, workers, &t), 0);
	return t;
}

/* The topologies are the same, and are freed. */
static void equal(struct topology *a, struct topology *b)
{
	uint32_t n = topology_n_workers(a);
	struct victims *v, *w;

	ck_assert_uint_eq(topology_n_workers(b), n);
	ck_assert_uint_eq(topology_n_groups(a), topology_n_groups(b));
	for (uint32_t i = 0; i < n; i++) {
		const struct topology_place *p = topology_place(a, i), *q = topology_place(b, i);

		ck_assert_uint_eq(p->cpu, q->cpu);
		ck_assert_uint_eq(p->node, q->node);
		ck_assert_uint_eq(p->group, q->group);
		for (uint32_t j = 0; j < n; j++)
			ck_assert_msg(topology_distance(a, i, j) == topology_distance(b, i, j),
				      "from %u to %u: %u, not %u", i, j, topology_distance(a, i, j),
				      topology_distance(b, i, j));
	}
	for (uint32_t g = 0; g < topology_n_groups(a); g++)
		ck_assert_uint_eq(topology_memory(a, g), topology_memory(b, g));
	ck_assert_int_eq(topology_victims(a, &v), 0);
	ck_assert_int_eq(topology_victims(b, &w), 0);
	ck_assert_mem_eq(v->order, w->order, (size_t)n * (n - 1) * sizeof(*v->order));
	ck_assert_mem_eq(v->levels, w->levels, (size_t)n * n * sizeof(*v->levels));
	victims_free(v);
	victims_free(w);
	topology_free(a);
	topology_free(b);
}

/* What is read from the directory is what hwloc reads. */
static void as_hwloc(uint32_t workers, uint32_t cpus)
{
	struct topology *a = own(workers, cpus, ALL), *b = NULL;
	hwloc_bitmap_t set = hwloc_bitmap_alloc();

	hwloc_bitmap_from_ulong(set, cpus);
	ck_assert_int_eq(setenv("HWLOC_FSROOT", root, 1), 0);
	/* A list makes more workers than cores the default. */
	ck_assert_msg(topology_new(NULL, topology_n_workers(a), 0, set, error, sizeof(error), &b) ==
			      0,
		      "%s", error);
	hwloc_bitmap_free(set);
	equal(a, b);
}

static void has_cpus(struct topology *t, uint32_t groups, const char *expected)
{
	char text[128] = "";
	size_t n = 0;

	ck_assert_uint_eq(topology_n_groups(t), groups);
	for (uint32_t i = 0; i < topology_n_workers(t); i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%u", i ? "," : "",
				      topology_place(t, i)->cpu);
	ck_assert_str_eq(text, expected);
	topology_free(t);
}

START_TEST(one_worker_for_each_core_then_its_second_cpu_then_the_first_again)
{
	static const struct machine smt = { 1, 1, 1, 3, 2, false, 0 };

	build(&smt);
	has_cpus(own(0, 077, ALL), 1, "0,1,2");
	has_cpus(own(7, 077, ALL), 1, "0,1,2,3,4,5,0");
	has_cpus(own(0, 072, ALL), 1, "3,1,5");
	has_cpus(own(2, 072, ALL), 1, "3,1");
}
END_TEST

START_TEST(every_machine_is_as_hwloc_reads_it)
{
	for (size_t i = 0; i < ARRAY_SIZE(machines); i++) {
		const struct machine *m = &machines[i];
		uint32_t cpus = (1u << count(m)) - 1;

		build(m);
		as_hwloc(0, cpus);
		as_hwloc(count(m), cpus);
		as_hwloc(count(m) + 3, cpus);
		as_hwloc(2, cpus);
		as_hwloc(0, cpus & 0x55555555);
		as_hwloc(count(m), cpus & ~0x1u);
		as_hwloc(0, 1u << (count(m) - 1));
	}
}
END_TEST

START_TEST(kernel_without_the_state_of_smt_has_siblings_all_the_same)
{
	static const struct machine smt = { 2, 1, 1, 2, 2, false, 0 };
	char path[96];

	build(&smt);
	(void)snprintf(path, sizeof(path), "%s/sys/devices/system/cpu/smt/active", root);
	ck_assert_int_eq(unlink(path), 0);
	as_hwloc(0, 0xff);
	as_hwloc(8, 0xff);
}
END_TEST

/* The list of siblings is wrong, and is not read. */
START_TEST(one_node_without_smt_needs_no_list_of_siblings)
{
	static const struct machine two = { 2, 1, 1, 1, 1, false, 0 };
	struct topology *t;

	build(&two);
	put_at("0\n", "node/online");
	put_at("0-1\n", "cpu/cpu0/topology/thread_siblings_list");
	t = own(0, 3, ALL);
	ck_assert_uint_eq(topology_distance(t, 0, 1), 1);
	ck_assert_uint_eq(topology_place(t, 1)->node, 0);
	ck_assert_uint_eq(topology_memory(t, 0), TOPOLOGY_NONE);
	has_cpus(t, 1, "0,1");
}
END_TEST

START_TEST(memory_that_may_not_be_used_comes_from_the_nearest_node)
{
	static const struct machine four = { 2, 2, 1, 2, 1, false, 1 << 1 };
	struct topology *t;

	build(&four);
	t = own(0, 0xff, 1 << 1 | 1 << 2);
	ck_assert_uint_eq(topology_memory(t, 0), 2);
	ck_assert_uint_eq(topology_memory(t, 1), 2);
	ck_assert_uint_eq(topology_memory(t, 2), 2);
	ck_assert_uint_eq(topology_memory(t, 3), 2);
	topology_free(t);
	t = own(0, 0xff, 1 << 0 | 1 << 2 | 1 << 3);
	ck_assert_uint_eq(topology_memory(t, 0), 0);
	ck_assert_uint_eq(topology_memory(t, 1), 0);
	ck_assert_uint_eq(topology_memory(t, 3), 3);
	has_cpus(t, 4, "0,1,2,3,4,5,6,7");
}
END_TEST

START_TEST(nodes_keep_their_numbers_if_some_are_missing)
{
	static const struct machine two = { 2, 1, 1, 2, 1, false, 0 };
	struct topology *t;

	build(&two);
	put_at("0,8\n", "node/online");
	put_at("0,8\n", "node/has_memory");
	put_at("2-3\n", "node/node8/cpulist");
	put_at("0000000c\n", "node/node8/cpumap");
	put_at("Node 8 MemTotal: 65536 kB\n", "node/node8/meminfo");
	put_at("40 10\n", "node/node8/distance");
	as_hwloc(0, 0xf);
	t = own(0, 0xf, ALL);
	ck_assert_uint_eq(topology_place(t, 2)->node, 8);
	ck_assert_uint_eq(topology_memory(t, 1), 8);
	has_cpus(t, 2, "0,1,2,3");
}
END_TEST

START_TEST(without_files_all_cpus_are_cores_of_node_0)
{
	struct topology *t = own(0, 0x15, ALL);

	for (uint32_t i = 0; i < 3; i++)
		ck_assert_uint_eq(topology_place(t, i)->node, 0);
	ck_assert_uint_eq(topology_distance(t, 0, 2), 1);
	has_cpus(t, 1, "0,2,4");
}
END_TEST

START_TEST(malformed_lists_count_as_missing)
{
	static const char *const lists[] = {
		"1-0\n",  "0-\n",  "-1\n",     "x\n",
		"0,,1\n", "0 1\n", "0-8192\n", "99999999999999999999\n"
	};
	static const struct machine smt = { 1, 1, 1, 2, 2, false, 0 };

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		build(&smt);
		for (uint32_t cpu = 0; cpu < 4; cpu++)
			put_at(lists[i], "cpu/cpu%u/topology/thread_siblings_list", cpu);
		/* Every CPU is a core; their L2 caches are still known. */
		has_cpus(own(0, 0xf, ALL), 1, "0,2,1,3");
		put_at(lists[i], "node/online");
		has_cpus(own(0, 0xf, ALL), 1, "0,2,1,3");
	}
}
END_TEST

START_TEST(unknown_distances_of_nodes_count_as_equal)
{
	static const struct machine four = { 4, 1, 1, 2, 1, false, 0 };
	struct topology *t;

	build(&four);
	put_at("21\n", "node/node2/distance");
	t = own(0, 0xff, ALL);
	ck_assert_uint_eq(topology_distance(t, 0, 2), 2);
	ck_assert_uint_eq(topology_distance(t, 0, 4), 2);
	ck_assert_uint_eq(topology_distance(t, 0, 6), 2);
	has_cpus(t, 4, "0,1,2,3,4,5,6,7");
}
END_TEST

/* On some machines the order and the distances differ from hwloc's, because packages are not read
 * without need. */
START_TEST(this_machine_has_the_cpus_that_hwloc_reads)
{
	struct topology *a = NULL, *b = NULL;
	cpu_set_t set, other;

	ck_assert_int_eq(topology_own(0, error, sizeof(error), &a), 0);
	ck_assert_int_eq(topology_new(NULL, 0, 0, NULL, error, sizeof(error), &b), 0);
	ck_assert_uint_eq(topology_n_workers(a), topology_n_workers(b));
	CPU_ZERO(&set);
	CPU_ZERO(&other);
	for (uint32_t i = 0; i < topology_n_workers(a); i++) {
		CPU_SET(topology_place(a, i)->cpu, &set);
		CPU_SET(topology_place(b, i)->cpu, &other);
	}
	ck_assert(CPU_EQUAL(&set, &other));
	topology_free(b);
	ck_assert_int_eq(topology_bind(a, topology_n_workers(a) - 1), 0);
	ck_assert_int_eq(sched_getaffinity(0, sizeof(set), &set), 0);
	ck_assert_int_eq(CPU_COUNT(&set), 1);
	ck_assert(CPU_ISSET(topology_place(a, topology_n_workers(a) - 1)->cpu, &set));
	/* A pinned thread has one CPU. */
	ck_assert_int_eq(topology_own(0, error, sizeof(error), &b), 0);
	ck_assert_uint_eq(topology_n_workers(b), 1);
	topology_free(b);
	ck_assert_int_eq(topology_bind_any(a), 0);
	ck_assert_int_eq(sched_getaffinity(0, sizeof(set), &set), 0);
	ck_assert_int_eq(CPU_COUNT(&set), (int)topology_n_workers(a));
	topology_free(a);
}
END_TEST

START_TEST(too_many_workers_are_refused)
{
	struct topology *t = NULL;

	ck_assert_int_eq(topology_own(LIMIT_WORKERS + 1, error, sizeof(error), &t), -EINVAL);
	ck_assert_ptr_null(t);
	ck_assert_ptr_nonnull(strstr(error, "256"));
	ck_assert_int_eq(topology_own(LIMIT_WORKERS, error, sizeof(error), &t), 0);
	ck_assert_uint_eq(topology_n_workers(t), LIMIT_WORKERS);
	topology_free(t);
}
END_TEST

/* The directory has two nodes; worker 0 is on node 0, which this machine has, too. */
START_TEST(memory_prefers_the_node_of_its_group)
{
	static const struct machine two = { 2, 1, 1, 1, 1, false, 0 };
	size_t size = 1 << 16;
	char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned long nodes[TOPOLOGY_NODES / TOPOLOGY_BITS] = { 0 };
	struct topology *t;
	int mode = -1, r = -ENOSYS;

	ck_assert_ptr_ne(memory, MAP_FAILED);
	build(&two);
	t = own(0, 3, ALL);
	ck_assert_int_eq(topology_bind_memory(t, 0, memory, size), 0);
	t->synthetic = false;
	(void)syscall(SYS_get_mempolicy, NULL, nodes, TOPOLOGY_NODES + 1, NULL,
		      MPOL_F_MEMS_ALLOWED);
	if (nodes[0] & 1)
		r = topology_bind_memory(t, 0, memory, size);
	/* A container may forbid it, a kernel may lack it. */
	ck_assert_msg(r == 0 || r == -EPERM || r == -ENOSYS, "%s", strerror(-r));
	if (r == 0) {
		ck_assert_int_eq(syscall(SYS_get_mempolicy, &mode, nodes, TOPOLOGY_NODES + 1,
					 memory, MPOL_F_ADDR),
				 0);
		ck_assert_int_eq(mode, MPOL_PREFERRED);
		ck_assert_uint_eq(nodes[0], 1);
	}
	topology_free(t);
	munmap(memory, size);
}
END_TEST

CHECK_MAIN("topology_own")
