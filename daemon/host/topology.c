/* SPDX-License-Identifier: MIT */
/*
 * topology.c - which CPU each worker is pinned to, its group, and the distances between workers
 *
 * The machine is read by topology_hwloc.c for the machine's forkd, and by topology_own.c for a pool
 * in a user's program. This file has the rules that do not depend on where the data come from, and
 * needs no library.
 *
 * Threads: the manager at its start, to determine the number of workers and their CPUs. Then each
 * pool at its start, and a manager that takes over clients, with these CPUs. So the places are the
 * same (except for CPUs that are offline by then). After topology_rank() nothing changes, and any
 * thread may read it and bind itself.
 *
 * THE ORDER OF PLACES
 *   First the first allowed CPU of each core, in the machine's order, then the second of each, and
 *   so on; with a list of CPUs, those of the list in the same order. A limit of CPUs per core ends
 *   the order after that many. Workers take places in this order, and start again at the first if
 *   there are more workers than places. So workers share a core only when no core is free.
 *
 * GROUPS
 *   A CPU belongs to the smallest NUMA node that contains it. Nodes of the whole machine (far or
 *   fast memory in addition to the nodes' own) and nodes without CPUs do not count. Of several
 *   equally small ones (DRAM and high bandwidth memory of the same cores) it is the first that has
 *   memory. The CPUs of a node without memory are a group all the same, because they are near to
 *   each other; their memory comes from the nearest node that has some. CPUs without any node are
 *   one group. Only nodes with a worker make a group, in the order of their first workers.
 *
 * DISTANCE
 *   A part of the machine (a core, a cache, a node, a package) contains some places. On the way up
 *   from a place, a part is a level if it contains more places than the part before: caches of one
 *   core, packages of one node, or cores of which one CPU is used, are none. In a group the
 *   distance is the number of levels up to the smallest part that contains both places. Parts are
 *   nested, so the levels of a place are the different sizes of the parts that it shares with other
 *   places. If the machine is not symmetric, the larger side counts. Groups are sorted by
 *   {machine's distance matrix, levels between the nodes}. Each different pair is one step further
 *   than the one before, the first a step further than the longest distance in any group. So the
 *   order of the firmware's numbers matters, not their size.
 *
 * INVARIANTS
 *   I1. Every place is in the CPUs that the first manager may use when it starts: the machine's
 *       CPUs, the cgroup's cpuset and the affinity that forkd was started with. cpu_parking.c
 *       handles later changes.
 *   I2. There is at least one place and one worker; at most LIMIT_WORKERS workers on this machine;
 *       each place has a worker.
 *   I3. Each worker is in one group, and each group has a worker.
 *   I4. Distances are symmetric and at least 1; any in a group is shorter than any between groups.
 */
#include "daemon/host/topology_internal.h"

#include <errno.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/util.h"
#include "daemon/host/victims.h"

/* Two groups, in the order of topology_compare(). */
struct topology_pair {
	uint64_t told;	 /* machine's distance, 0: unknown */
	uint32_t levels; /* between the nodes */
	uint32_t a, b;
};

void topology_free(struct topology *topology)
{
	if (!topology)
		return;
	free(topology->distances);
	free(topology->members);
	free(topology->groups);
	free(topology->places);
	free(topology);
}

/* Puts a place into the group of its node. */
static void topology_join(struct topology *t, struct topology_place *place)
{
	uint32_t g = 0;

	while (g < t->n_groups && t->groups[g].node != place->node)
		g++;
	place->group = g;
	t->groups[g].node = place->node;
	t->n_groups = max(t->n_groups, g + 1);
}

int topology_group(struct topology *t, uint64_t **ret_told)
{
	uint32_t n = t->n_places = min(t->n_places, t->n_workers), at = 0;

	t->groups = calloc(n, sizeof(*t->groups));
	t->members = calloc(t->n_workers, sizeof(*t->members));
	t->distances = calloc((size_t)n * n, sizeof(*t->distances));
	if (!t->groups || !t->members || !t->distances)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++)
		topology_join(t, &t->places[i]);
	for (uint32_t g = 0; g < t->n_groups; g++) {
		t->groups[g].members = &t->members[at];
		for (uint32_t k = 0; k < t->n_workers; k++)
			if (topology_place(t, k)->group == g)
				t->members[at++] = k;
		t->groups[g].n_members = (uint32_t)(&t->members[at] - t->groups[g].members);
	}
	*ret_told = calloc((size_t)t->n_groups * t->n_groups, sizeof(**ret_told));
	return *ret_told ? 0 : -ENOMEM;
}

static bool topology_same_group(const struct topology *t, uint32_t i, uint32_t j)
{
	return t->places[i].group == t->places[j].group;
}

/* Replaces the sizes in the row of a place by levels: first those in its group, then from the group
 * up. level: n_places + 1 numbers, for each size. */
static void topology_count_levels(struct topology *t, uint32_t i, uint16_t *level)
{
	uint16_t *row = topology_row(t, i);

	for (int inside = 0; inside < 2; inside++) {
		uint16_t levels = 0;

		memset(level, 0, (t->n_places + 1) * sizeof(*level));
		for (uint32_t j = 0; j < t->n_places; j++)
			if (j != i && topology_same_group(t, i, j) == inside)
				level[row[j]] = 1;
		for (uint32_t size = 0; size <= t->n_places; size++)
			if (level[size])
				level[size] = ++levels;
		for (uint32_t j = 0; j < t->n_places; j++)
			if (j != i && topology_same_group(t, i, j) == inside)
				row[j] = level[row[j]];
	}
	row[i] = 1; /* workers that share a CPU */
}

static int topology_compare(const void *left, const void *right)
{
	const struct topology_pair *a = left, *b = right;

	if (a->told != b->told)
		return a->told < b->told ? -1 : 1;
	return (a->levels > b->levels) - (a->levels < b->levels);
}

/* Makes the larger of two levels the distance of both places. Returns the longest in a group. */
static uint32_t topology_even(struct topology *t)
{
	uint32_t widest = 1;

	for (uint32_t i = 0; i < t->n_places; i++) {
		for (uint32_t j = 0; j < i; j++) {
			uint16_t levels = max(topology_row(t, i)[j], topology_row(t, j)[i]);

			topology_row(t, i)[j] = topology_row(t, j)[i] = levels;
			if (topology_same_group(t, i, j))
				widest = max(widest, levels);
		}
	}
	return widest;
}

int topology_rank(struct topology *t, const uint64_t *told)
{
	uint32_t n = t->n_groups, n_pairs = 0, step;
	_cleanup_free_ struct topology_pair *pairs = calloc((size_t)n * n, sizeof(*pairs));
	_cleanup_free_ uint16_t *between = calloc((size_t)n * n, sizeof(*between));
	_cleanup_free_ uint16_t *level = calloc((size_t)t->n_places + 1, sizeof(*level));

	if (!pairs || !between || !level)
		return -ENOMEM;
	for (uint32_t i = 0; i < t->n_places; i++)
		topology_count_levels(t, i, level);
	step = topology_even(t);
	for (uint32_t a = 0; a < n; a++) {
		for (uint32_t b = 0; b < a; b++) {
			pairs[n_pairs++] = (struct topology_pair){
				.told = told ? max(told[a * n + b], told[b * n + a]) : 0,
				.levels = topology_row(
					t, t->groups[a].members[0])[t->groups[b].members[0]],
				.a = a,
				.b = b,
			};
		}
	}
	qsort(pairs, n_pairs, sizeof(*pairs), topology_compare);
	for (uint32_t k = 0; k < n_pairs; k++) {
		step += !k || topology_compare(&pairs[k - 1], &pairs[k]) != 0;
		between[pairs[k].a * n + pairs[k].b] = between[pairs[k].b * n + pairs[k].a] =
			(uint16_t)min(step, (uint32_t)UINT16_MAX);
	}
	for (uint32_t i = 0; i < t->n_places; i++)
		for (uint32_t j = 0; j < t->n_places; j++)
			if (!topology_same_group(t, i, j))
				topology_row(t, i)[j] =
					between[t->places[i].group * n + t->places[j].group];
	return 0;
}

uint32_t topology_n_workers(const struct topology *topology)
{
	return topology->n_workers;
}

const struct topology_place *topology_place(const struct topology *topology, uint32_t worker)
{
	return &topology->places[worker % topology->n_places];
}

uint32_t topology_n_groups(const struct topology *topology)
{
	return topology->n_groups;
}

const uint32_t *topology_members(const struct topology *topology, uint32_t group, uint32_t *ret_n)
{
	*ret_n = topology->groups[group].n_members;
	return topology->groups[group].members;
}

uint32_t topology_memory(const struct topology *topology, uint32_t group)
{
	return topology->groups[group].memory;
}

uint32_t topology_distance(const struct topology *topology, uint32_t i, uint32_t j)
{
	return topology_row(topology, i % topology->n_places)[j % topology->n_places];
}

static uint32_t topology_victims_distance(void *ctx, uint32_t i, uint32_t j)
{
	return topology_distance(ctx, i, j);
}

static uint32_t topology_victims_group(void *ctx, uint32_t i)
{
	return topology_place(ctx, i)->group;
}

int topology_victims(const struct topology *topology, struct victims **ret_victims)
{
	return victims_new(topology->n_workers, topology_victims_distance, topology_victims_group,
			   (void *)topology, ret_victims);
}

/* Binds the calling thread to the CPUs of n workers. */
static int topology_bind_workers(const struct topology *topology, uint32_t first, uint32_t n)
{
	struct topology_set set = { { 0 } };

	if (topology->synthetic)
		return 0;
	for (uint32_t i = first; i < first + n; i++)
		CPU_SET_S(topology_place(topology, i)->cpu, sizeof(set), (cpu_set_t *)set.bits);
	return sched_setaffinity(0, sizeof(set), (cpu_set_t *)set.bits) < 0 ? -errno : 0;
}

int topology_bind(const struct topology *topology, uint32_t worker)
{
	return topology_bind_workers(topology, worker, 1);
}

int topology_bind_any(const struct topology *topology)
{
	return topology_bind_workers(topology, 0, topology->n_places);
}

int topology_bind_group_memory(const struct topology *t, uint32_t group, void *addr, size_t size)
{
	struct topology_set nodes = { { 0 } };
	uint32_t node = t->groups[group].memory;

	if (t->synthetic || !size || node >= TOPOLOGY_NODES)
		return 0;
	nodes.bits[node / TOPOLOGY_BITS] = 1ul << node % TOPOLOGY_BITS;
	/* A preference, so that the OOM killer does not act when a node is full. The number of bits
	 * counts one that does not exist. */
	if (syscall(SYS_mbind, addr, size, MPOL_PREFERRED, nodes.bits, TOPOLOGY_NODES + 1ul, 0ul) <
	    0)
		return -errno;
	return 0;
}

int topology_bind_memory(const struct topology *topology, uint32_t worker, void *addr, size_t size)
{
	return topology_bind_group_memory(topology, topology_place(topology, worker)->group, addr,
					  size);
}
