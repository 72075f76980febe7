/* SPDX-License-Identifier: MIT */
/*
 * topology_own.c - the topology of a pool in a user's program, read from the kernel without hwloc
 *
 * topology.c has the rules for places, groups and distances. The CPUs are those that the calling
 * thread may use. Their parts (package, node, caches, core) are lists of CPUs below
 * /sys/devices/system. Linux lists each CPU in at most one node; the memory of a node without CPUs
 * (high bandwidth memory) is left to the program.
 *
 * A start must be short, and a file costs 6 to 20 us. So only these files are read:
 *
 *   one CPU               node/online
 *   two CPUs              the same and cpu/smt/active
 *   more                  the same and the list of each L3 cache
 *   several nodes or SMT  one list for each part of each kind; of nodes, distances and memory
 *
 * On one node without SMT, workers with the same L3 cache, or without any, have the same distance.
 * Their packages and L2 caches do not count there, as they do for hwloc.
 *
 * Failures: a file that is missing or malformed counts as a part that does not exist. Without any
 * file all CPUs are cores of one node.
 */
#include "daemon/host/topology_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/number.h"
#include "common/text.h"
#include "common/util.h"
#include "shm/limits.h"

#define OWN_SYSTEM "/sys/devices/system"
#define OWN_TEXT   4096u /* of a file: enough for 800 CPUs that are not in sequence */

/* From wide to narrow: the machine's order is by the first CPU of each. */
enum own_part {
	OWN_PACKAGE,
	OWN_NODE,
	OWN_L3,
	OWN_L2,
	OWN_CORE,
	OWN_PARTS,
};

struct own_cpu {
	uint32_t cpu;
	uint32_t node;
	uint32_t nth;		   /* of the CPUs of its core */
	uint32_t first[OWN_PARTS]; /* the first CPU of the part; TOPOLOGY_NONE: there is none */
};

struct own {
	int system;		   /* descriptor of the directory, -1: there is none */
	struct topology_set nodes; /* that are online */
	uint32_t n_nodes;
	uint32_t n_cpus;
	struct own_cpu *cpus;
};

static bool own_has(const struct topology_set *set, uint32_t i)
{
	return i < TOPOLOGY_CPUS && set->bits[i / TOPOLOGY_BITS] >> i % TOPOLOGY_BITS & 1;
}

static void own_add(struct topology_set *set, uint64_t i)
{
	set->bits[i / TOPOLOGY_BITS] |= 1ul << i % TOPOLOGY_BITS;
}

/* Returns the least element from i on; TOPOLOGY_NONE: there is none. */
static uint32_t own_next(const struct topology_set *set, uint32_t i)
{
	while (i < TOPOLOGY_CPUS) {
		unsigned long rest = set->bits[i / TOPOLOGY_BITS] >> i % TOPOLOGY_BITS;

		if (rest)
			return i + (uint32_t)__builtin_ctzl(rest);
		i = (uint32_t)((i / TOPOLOGY_BITS + 1) * TOPOLOGY_BITS);
	}
	return TOPOLOGY_NONE;
}

static uint32_t own_count(const struct topology_set *set)
{
	return (uint32_t)CPU_COUNT_S(sizeof(*set), (const cpu_set_t *)set->bits);
}

/* Reads a file below the system directory: "NAME" for NONE, "NAME<number>/FILE" otherwise. */
static int own_read(const struct own *o, const char *name, uint32_t number, const char *file,
		    char *ret_text)
{
	_cleanup_close_ int fd = -1;
	char path[128];
	ssize_t n;

	if (number != TOPOLOGY_NONE) {
		(void)snprintf(path, sizeof(path), "%s%u/%s", name, number, file);
		name = path;
	}
	fd = openat(o->system, name, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	n = read(fd, ret_text, OWN_TEXT - 1);
	if (n < 0 || n == OWN_TEXT - 1)
		return n < 0 ? -errno : -E2BIG;
	ret_text[n] = '\0';
	return 0;
}

/* The same for a list such as "0-3,8", whose last number is below TOPOLOGY_CPUS. */
static int own_read_list(const struct own *o, const char *name, uint32_t number, const char *file,
			 struct topology_set *ret)
{
	struct topology_set set = { { 0 } };
	char text[OWN_TEXT];
	const char *p = text;
	int r = own_read(o, name, number, file, text);

	while (r == 0 && *p && *p != '\n') {
		uint64_t from, to;

		r = number_parse(p, 10, &from, &p);
		if (r < 0)
			return r;
		to = from;
		if (*p == '-')
			r = number_parse(p + 1, 10, &to, &p);
		if (r < 0 || to < from || to >= TOPOLOGY_CPUS)
			return -EINVAL;
		for (uint64_t i = from; i <= to; i++)
			own_add(&set, i);
		p += *p == ',';
	}
	if (r == 0)
		*ret = set;
	return r;
}

/* Stores a part in the CPUs that it contains. */
static void own_mark(struct own *o, enum own_part part, const struct topology_set *set)
{
	uint32_t first = own_next(set, 0);

	for (uint32_t i = 0; i < o->n_cpus; i++)
		if (own_has(set, o->cpus[i].cpu))
			o->cpus[i].first[part] = first;
}

/* Reads one file for each part of a kind; none of a kind that the first CPU lacks. */
static void own_read_parts(struct own *o, enum own_part part, const char *file)
{
	struct topology_set set;

	for (uint32_t i = 0; i < o->n_cpus; i++) {
		if (o->cpus[i].first[part] != TOPOLOGY_NONE)
			continue;
		if (own_read_list(o, "cpu/cpu", o->cpus[i].cpu, file, &set) == 0)
			own_mark(o, part, &set);
		else if (i == 0)
			return;
	}
}

static void own_read_nodes(struct own *o)
{
	struct topology_set set;

	for (uint32_t n = own_next(&o->nodes, 0); n != TOPOLOGY_NONE;
	     n = own_next(&o->nodes, n + 1)) {
		if (own_read_list(o, "node/node", n, "cpulist", &set) < 0)
			continue;
		own_mark(o, OWN_NODE, &set);
		for (uint32_t i = 0; i < o->n_cpus; i++)
			if (own_has(&set, o->cpus[i].cpu))
				o->cpus[i].node = n;
	}
}

static int own_compare(const void *left, const void *right)
{
	const struct own_cpu *a = left, *b = right;

	if (a->nth != b->nth)
		return a->nth < b->nth ? -1 : 1;
	for (int k = 0; k < OWN_PARTS; k++)
		if (a->first[k] != b->first[k])
			return a->first[k] < b->first[k] ? -1 : 1;
	return (a->cpu > b->cpu) - (a->cpu < b->cpu);
}

/* Reads the parts of the CPUs, and puts the CPUs into the order of places. Returns the number of
 * cores. */
static uint32_t own_read_cpus(struct own *o)
{
	struct topology_set smt = { { 0 } };
	struct own_cpu *cpus = o->cpus;
	uint32_t cores = 0;
	bool all;

	if (own_read_list(o, "node/online", TOPOLOGY_NONE, NULL, &o->nodes) < 0)
		own_add(&o->nodes, 0);
	o->n_nodes = own_count(&o->nodes);
	for (uint32_t i = 0; i < o->n_cpus; i++) {
		cpus[i].node = o->n_nodes > 1 ? TOPOLOGY_NONE : own_next(&o->nodes, 0);
		for (int k = 0; k < OWN_PARTS; k++)
			cpus[i].first[k] = TOPOLOGY_NONE;
	}
	/* The file contains 0 or 1. Linux has it since 4.19. */
	all = o->n_nodes > 1 || (o->n_cpus > 1 && (own_read_list(o, "cpu/smt/active", TOPOLOGY_NONE,
								 NULL, &smt) < 0 ||
						   !own_has(&smt, 0)));
	if (o->n_nodes > 1)
		own_read_nodes(o);
	if (all || o->n_cpus > 2)
		own_read_parts(o, OWN_L3, "cache/index3/shared_cpu_list");
	if (all) {
		own_read_parts(o, OWN_PACKAGE, "topology/core_siblings_list");
		own_read_parts(o, OWN_L2, "cache/index2/shared_cpu_list");
		own_read_parts(o, OWN_CORE, "topology/thread_siblings_list");
	}
	qsort(cpus, o->n_cpus, sizeof(*cpus), own_compare);
	for (uint32_t i = 0; i < o->n_cpus; i++) {
		if (i > 0 && cpus[i].first[OWN_CORE] != TOPOLOGY_NONE &&
		    cpus[i].first[OWN_CORE] == cpus[i - 1].first[OWN_CORE])
			cpus[i].nth = cpus[i - 1].nth + 1;
		cores += !cpus[i].nth;
	}
	qsort(cpus, o->n_cpus, sizeof(*cpus), own_compare);
	return cores;
}

/* For each two places, stores the size of the smallest part that contains both. */
static void own_relate(const struct own *o, struct topology *t, enum own_part part)
{
	for (uint32_t i = 0; i < t->n_places; i++) {
		uint32_t first = o->cpus[i].first[part];
		uint16_t *row = topology_row(t, i);
		uint32_t size = 0;

		if (first == TOPOLOGY_NONE)
			continue;
		for (uint32_t j = 0; j < t->n_places; j++)
			size += o->cpus[j].first[part] == first;
		for (uint32_t j = 0; j < t->n_places; j++)
			if (o->cpus[j].first[part] == first)
				row[j] = (uint16_t)min(row[j], size);
	}
}

/* Reads the distances from a node to all that are online; in the result, a node's number is the
 * index. */
static int own_read_distances(const struct own *o, uint32_t node, uint64_t *ret)
{
	char text[OWN_TEXT];
	const char *p = text;
	int r = own_read(o, "node/node", node, "distance", text);

	for (uint32_t n = own_next(&o->nodes, 0); r == 0 && n < TOPOLOGY_NODES;
	     n = own_next(&o->nodes, n + 1)) {
		r = number_parse(p, 10, &ret[n], &p);
		p += *p == ' ';
	}
	return r;
}

/* Sets the memory of each group. Returns false if some distance is unknown. */
static bool own_measure(const struct own *o, struct topology *t, const struct topology_set *usable,
			uint64_t *told)
{
	struct topology_set memory = o->nodes;
	bool known = true;

	(void)own_read_list(o, "node/has_memory", TOPOLOGY_NONE, NULL, &memory);
	for (size_t i = 0; i < ARRAY_SIZE(memory.bits); i++)
		memory.bits[i] &= usable->bits[i];
	for (uint32_t a = 0; a < t->n_groups; a++) {
		struct topology_group *g = &t->groups[a];
		uint64_t row[TOPOLOGY_NODES] = { 0 };

		if (g->node >= TOPOLOGY_NODES || own_read_distances(o, g->node, row) < 0)
			known = false;
		g->memory = own_has(&memory, g->node) ? g->node : TOPOLOGY_NONE;
		for (uint32_t n = own_next(&memory, 0);
		     g->memory != g->node && g->node != TOPOLOGY_NONE && n < TOPOLOGY_NODES;
		     n = own_next(&memory, n + 1))
			if (g->memory == TOPOLOGY_NONE || row[n] < row[g->memory])
				g->memory = n;
		for (uint32_t b = 0; b < t->n_groups; b++)
			if (t->groups[b].node < TOPOLOGY_NODES)
				told[a * t->n_groups + b] = row[t->groups[b].node];
	}
	return known;
}

static int own_make(struct own *o, const struct topology_set *usable, struct topology *t)
{
	_cleanup_free_ uint64_t *told = NULL;
	bool known = false;
	int r = topology_group(t, &told);

	if (r < 0)
		return r;
	for (uint32_t i = 0; i < t->n_places; i++)
		for (uint32_t j = 0; j < t->n_places; j++)
			topology_row(t, i)[j] = (uint16_t)t->n_places;
	for (int part = 0; part < OWN_PARTS; part++)
		own_relate(o, t, (enum own_part)part);
	if (o->n_nodes > 1)
		known = own_measure(o, t, usable, told);
	else
		t->groups[0].memory = TOPOLOGY_NONE;
	return topology_rank(t, known ? told : NULL);
}

int topology_read(const char *system, const struct topology_set *cpus,
		  const struct topology_set *nodes, uint32_t workers, struct topology **ret)
{
	_cleanup_(topology_freep) struct topology *t = calloc(1, sizeof(*t));
	_cleanup_close_ int directory = open(system, O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct own o = { .system = directory };
	_cleanup_free_ struct own_cpu *list = calloc(own_count(cpus), sizeof(*list));
	uint32_t cores;
	int r;

	if (!t || !list)
		return -ENOMEM;
	o.cpus = list;
	for (uint32_t cpu = own_next(cpus, 0); cpu != TOPOLOGY_NONE; cpu = own_next(cpus, cpu + 1))
		list[o.n_cpus++].cpu = cpu;
	cores = own_read_cpus(&o);
	t->synthetic = true;
	t->n_workers = min(workers ? workers : cores, LIMIT_WORKERS);
	t->n_places = o.n_cpus;
	t->places = calloc(t->n_places, sizeof(*t->places));
	if (!t->places)
		return -ENOMEM;
	for (uint32_t i = 0; i < t->n_places; i++) {
		t->places[i].cpu = list[i].cpu;
		t->places[i].node = list[i].node;
	}
	r = own_make(&o, nodes, t);
	if (r == 0)
		*ret = steal_ptr(t);
	return r;
}

int topology_own(uint32_t workers, char *error, size_t error_size, struct topology **ret_topology)
{
	struct topology_set cpus = { { 0 } }, nodes;
	int r;

	if (workers > LIMIT_WORKERS)
		return text_refuse(error, error_size, -EINVAL,
				   "workers: must be at most %u, not %u", LIMIT_WORKERS, workers);
	if (sched_getaffinity(0, sizeof(cpus), (cpu_set_t *)cpus.bits) < 0)
		return text_refuse(error, error_size, -errno,
				   "cannot read the CPUs that this thread may use: %s",
				   strerror(errno));
	/* A container may forbid it. */
	if (syscall(SYS_get_mempolicy, NULL, nodes.bits, TOPOLOGY_CPUS + 1ul, NULL,
		    MPOL_F_MEMS_ALLOWED) < 0)
		memset(&nodes, 0xff, sizeof(nodes));
	r = topology_read(OWN_SYSTEM, &cpus, &nodes, workers, ret_topology);
	if (r < 0)
		return text_refuse(error, error_size, r, "out of memory");
	(*ret_topology)->synthetic = false;
	return 0;
}
