/* SPDX-License-Identifier: MIT */
/*
 * topology.c - which CPU each worker is pinned to, its group, and the distances between workers
 *
 * Threads: the manager at its start, to determine the number of workers and their CPUs. Then each
 * pool at its start, and a manager that takes over clients, with these CPUs. So the places are the
 * same (except for CPUs that are offline by then). After topology_new() nothing changes, and any
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
 *   one group. Only nodes with a worker make a group, in the machine's order.
 *
 * DISTANCE
 *   On the way up from a CPU, a level of the machine counts if it contains more workers' CPUs than
 *   the level before: caches of one core, packages of one node, or cores of which one CPU is used,
 *   do not. In a group the distance is the number of levels up to the common ancestor. If the
 *   machine is not symmetric, the larger side counts. Groups are sorted by {machine's distance
 *   matrix, levels between the nodes}. Each different pair is one step further than the one before,
 *   the first a step further than the longest distance in any group. So the order of the firmware's
 *   numbers matters, not their size.
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
#include "daemon/host/topology.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <hwloc.h>

#include "common/cleanup.h"
#include "common/text.h"
#include "common/util.h"
#include "daemon/host/victims.h"
#include "shm/limits.h"

#define TOPOLOGY_XML "xml:"

struct topology_group {
	hwloc_obj_t node;    /* NULL: none */
	hwloc_obj_t source;  /* the node of its memory, NULL: none */
	hwloc_obj_t top;     /* the object that has this memory; otherwise the machine */
	uint32_t *distances; /* to each group */
	uint32_t *members;
	uint32_t n_members;
};

struct topology {
	hwloc_topology_t machine;
	bool synthetic;
	uint32_t n_workers;
	uint32_t n_places;
	struct topology_place *places;
	hwloc_obj_t *pus; /* of each place */
	uint32_t n_groups;
	struct topology_group *groups;
};

/* The distance between two groups; the first member is compared first. */
struct topology_step {
	uint64_t told;	 /* machine's distance, 0: unknown */
	uint32_t levels; /* between the nodes */
};

DEFINE_CLEANUP(struct topology *, topology_free);
DEFINE_CLEANUP(hwloc_bitmap_t, hwloc_bitmap_free);

void topology_free(struct topology *topology)
{
	if (!topology)
		return;
	if (topology->machine)
		hwloc_topology_destroy(topology->machine);
	for (uint32_t i = 0; topology->groups && i < topology->n_groups; i++) {
		free(topology->groups[i].distances);
		free(topology->groups[i].members);
	}
	free(topology->groups);
	free(topology->pus);
	free(topology->places);
	free(topology);
}

static int topology_describe(struct topology *t, const char *description)
{
	const char *file = description + strlen(TOPOLOGY_XML);

	if (strncmp(description, TOPOLOGY_XML, strlen(TOPOLOGY_XML)) != 0)
		return hwloc_topology_set_synthetic(t->machine, description) < 0 ? -EINVAL : 0;
	if (access(file, R_OK) < 0)
		return -errno;
	return hwloc_topology_set_xml(t->machine, file) < 0 ? -EINVAL : 0;
}

static int topology_load(struct topology *t, const char *description, unsigned long flags)
{
	int r = 0;

	if (hwloc_topology_init(&t->machine) < 0)
		return -ENOMEM;
	/* hwloc's x86 component runs on each CPU: on a busy machine a pool would wait a tick for
	 * each, and the kernel has the same data. If it cannot be disabled, loading is only
	 * slow. */
	(void)hwloc_topology_set_components(t->machine, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST,
					    "x86");
	(void)hwloc_topology_set_flags(t->machine, flags);
	if (description)
		r = topology_describe(t, description);
	if (r < 0)
		return r;
	/* hwloc's own part of a file is read here. */
	if (hwloc_topology_load(t->machine) < 0)
		return description ? -EINVAL : -EIO;
	t->synthetic = !hwloc_topology_is_thissystem(t->machine);
	return 0;
}

/* Returns the CPUs that this process may use (I1). */
static hwloc_bitmap_t topology_allowed(struct topology *t)
{
	_cleanup_(hwloc_bitmap_freep) hwloc_bitmap_t bound = NULL;
	_cleanup_(hwloc_bitmap_freep) hwloc_bitmap_t allowed = NULL;

	allowed = hwloc_bitmap_dup(hwloc_topology_get_allowed_cpuset(t->machine));
	if (!allowed || t->synthetic)
		return steal_ptr(allowed);
	bound = hwloc_bitmap_alloc();
	if (!bound)
		return NULL;
	/* If the affinity cannot be read, use the cpuset alone. */
	if (hwloc_get_cpubind(t->machine, bound, HWLOC_CPUBIND_PROCESS) == 0 &&
	    hwloc_bitmap_intersects(allowed, bound))
		hwloc_bitmap_and(allowed, allowed, bound);
	return steal_ptr(allowed);
}

/* Sets the CPUs of the list that exist, usable or not; all usable ones if none exists. */
static int topology_widen(struct topology *t, const struct hwloc_bitmap_s *cpus, hwloc_bitmap_t set)
{
	int r;

	hwloc_topology_destroy(steal_ptr(t->machine));
	r = topology_load(t, NULL, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
	if (r < 0)
		return r;
	if (hwloc_bitmap_intersects(cpus, hwloc_topology_get_topology_cpuset(t->machine)))
		hwloc_bitmap_and(set, cpus, hwloc_topology_get_topology_cpuset(t->machine));
	return 0;
}

static bool topology_has_memory(hwloc_obj_t node)
{
	return node->attr->numanode.local_memory > 0;
}

/* Returns the object that memory is attached to. */
static hwloc_obj_t topology_top(hwloc_obj_t node)
{
	while (hwloc_obj_type_is_memory(node->type))
		node = node->parent;
	return node;
}

/* Returns the NUMA node of a CPU (GROUPS), NULL: none. */
static hwloc_obj_t topology_node(const struct topology *t, hwloc_obj_t pu)
{
	hwloc_obj_t node = NULL, best = NULL;

	while ((node = hwloc_get_next_obj_by_type(t->machine, HWLOC_OBJ_NUMANODE, node))) {
		int weight = hwloc_bitmap_weight(node->cpuset);

		if (!hwloc_bitmap_isset(node->cpuset, pu->os_index))
			continue;
		if (!best || weight < hwloc_bitmap_weight(best->cpuset) ||
		    (weight == hwloc_bitmap_weight(best->cpuset) && !topology_has_memory(best) &&
		     topology_has_memory(node)))
			best = node;
	}
	return best;
}

static void topology_add(struct topology *t, hwloc_obj_t pu, hwloc_obj_t core)
{
	struct topology_place *place = &t->places[t->n_places];
	hwloc_obj_t node = topology_node(t, pu);

	t->pus[t->n_places++] = pu;
	place->cpu = pu->os_index;
	place->core = core->os_index;
	place->node = node ? node->os_index : TOPOLOGY_NONE;
}

/* Returns the nth CPU of a core that is in the set, or NULL. */
static hwloc_obj_t topology_nth(struct topology *t, hwloc_obj_t core, unsigned int nth,
				hwloc_const_bitmap_t set)
{
	unsigned int seen = 0;
	unsigned int cpu;

	hwloc_bitmap_foreach_begin(cpu, core->cpuset)
	{
		if (!hwloc_bitmap_isset(set, cpu) || seen++ < nth)
			continue;
		return hwloc_get_pu_obj_by_os_index(t->machine, cpu);
	}
	hwloc_bitmap_foreach_end();
	return NULL;
}

/* Fills in the places, in order, at most per_core on each core. Returns the number of cores that
 * have one. */
static uint32_t topology_fill(struct topology *t, uint32_t per_core, hwloc_const_bitmap_t set)
{
	int depth = hwloc_get_type_or_below_depth(t->machine, HWLOC_OBJ_CORE);
	unsigned int n = hwloc_get_nbobjs_by_depth(t->machine, depth);
	uint32_t cores = 0;
	bool more = true;

	for (unsigned int nth = 0; more && nth < per_core; nth++) {
		more = false;
		for (unsigned int i = 0; i < n; i++) {
			hwloc_obj_t core = hwloc_get_obj_by_depth(t->machine, depth, i);
			hwloc_obj_t pu = topology_nth(t, core, nth, set);

			if (!pu)
				continue;
			topology_add(t, pu, core);
			more = true;
		}
		if (nth == 0)
			cores = t->n_places;
	}
	return cores;
}

/* Returns the number of places below an object, which is stored in it. */
static uintptr_t topology_weight(hwloc_obj_t object)
{
	return (uintptr_t)object->userdata;
}

static void topology_weigh(const struct topology *t, hwloc_obj_t object)
{
	uintptr_t weight = 0;

	for (uint32_t i = 0; i < t->n_places; i++)
		weight += hwloc_bitmap_isset(object->cpuset, t->places[i].cpu) != 0;
	object->userdata = (void *)weight;
	for (hwloc_obj_t child = object->first_child; child; child = child->next_sibling)
		topology_weigh(t, child);
}

/* Counts the relevant levels from an object up to another one. */
static uint32_t topology_climb(hwloc_obj_t from, hwloc_obj_t to)
{
	uint32_t levels = 0;

	for (; from != to; from = from->parent)
		levels += topology_weight(from->parent) > topology_weight(from);
	return levels;
}

static uint32_t topology_levels(const struct topology *t, hwloc_obj_t a, hwloc_obj_t b)
{
	hwloc_obj_t common = a == b ? a : hwloc_get_common_ancestor_obj(t->machine, a, b);
	uint32_t levels = max(topology_climb(a, common), topology_climb(b, common));

	return max(levels, 1u);
}

/* Makes the groups, each with its workers (I3). */
static int topology_group(struct topology *t)
{
	uint32_t n_nodes = (uint32_t)hwloc_get_nbobjs_by_type(t->machine, HWLOC_OBJ_NUMANODE);

	t->groups = calloc((size_t)n_nodes + 1, sizeof(*t->groups));
	if (!t->groups)
		return -ENOMEM;
	/* The last iteration is for CPUs without a node. */
	for (uint32_t i = 0; i <= n_nodes; i++) {
		hwloc_obj_t node = i < n_nodes
					 ? hwloc_get_obj_by_type(t->machine, HWLOC_OBJ_NUMANODE, i)
					 : NULL;
		struct topology_group *g = &t->groups[t->n_groups];

		for (uint32_t k = 0; k < t->n_workers; k++) {
			struct topology_place *place = &t->places[k % t->n_places];

			if (place->node != (node ? node->os_index : TOPOLOGY_NONE))
				continue;
			if (!g->members)
				g->members = calloc(t->n_workers, sizeof(*g->members));
			if (!g->members)
				return -ENOMEM;
			place->group = t->n_groups;
			g->members[g->n_members++] = k;
		}
		if (!g->n_members)
			continue;
		g->node = node;
		g->top = node ? topology_top(node) : hwloc_get_root_obj(t->machine);
		t->n_groups++;
	}
	return 0;
}

/* Returns the machine's distance between two nodes: always 0 if it has no matrix. */
static uint64_t topology_told(struct hwloc_distances_s *matrix, hwloc_obj_t a, hwloc_obj_t b)
{
	int i, j;

	if (!matrix)
		return 0;
	i = hwloc_distances_obj_index(matrix, a);
	j = hwloc_distances_obj_index(matrix, b);
	if (i < 0 || j < 0)
		return UINT64_MAX;
	return max(matrix->values[(unsigned int)i * matrix->nbobjs + (unsigned int)j],
		   matrix->values[(unsigned int)j * matrix->nbobjs + (unsigned int)i]);
}

static int topology_compare_steps(const void *left, const void *right)
{
	const struct topology_step *a = left, *b = right;

	if (a->told != b->told)
		return a->told < b->told ? -1 : 1;
	return (a->levels > b->levels) - (a->levels < b->levels);
}

/* Sorts the steps, and removes duplicates. Returns the remaining number. */
static uint32_t topology_sort_steps(struct topology_step *steps, uint32_t n)
{
	uint32_t left = 0;

	qsort(steps, n, sizeof(*steps), topology_compare_steps);
	for (uint32_t i = 0; i < n; i++)
		if (!left || topology_compare_steps(&steps[left - 1], &steps[i]) != 0)
			steps[left++] = steps[i];
	return left;
}

static struct topology_step topology_step(const struct topology *t,
					  struct hwloc_distances_s *matrix, uint32_t a, uint32_t b)
{
	const struct topology_group *x = &t->groups[a], *y = &t->groups[b];

	return (struct topology_step){ .told = topology_told(matrix, x->node, y->node),
				       .levels = topology_levels(t, x->top, y->top) };
}

/* Returns the latencies between the nodes of all groups, NULL if the machine lacks some. */
static struct hwloc_distances_s *topology_matrix(const struct topology *t)
{
	struct hwloc_distances_s *matrix = NULL;
	unsigned int n = 1;

	if (hwloc_distances_get_by_type(t->machine, HWLOC_OBJ_NUMANODE, &n, &matrix,
					HWLOC_DISTANCES_KIND_MEANS_LATENCY, 0) < 0 ||
	    !n)
		return NULL;
	for (uint32_t i = 0; i < t->n_groups; i++) {
		hwloc_obj_t node = t->groups[i].node;

		if (node && hwloc_distances_obj_index(matrix, node) >= 0)
			continue;
		hwloc_distances_release(t->machine, matrix);
		return NULL;
	}
	return matrix;
}

/* Returns the longest distance in any group. */
static uint32_t topology_widest(const struct topology *t)
{
	uint32_t widest = 1;

	for (uint32_t i = 0; i < t->n_places; i++)
		for (uint32_t k = 0; k < i; k++)
			if (t->places[i].group == t->places[k].group)
				widest = max(widest, topology_levels(t, t->pus[i], t->pus[k]));
	return widest;
}

/* Returns the node of a group's memory: its own, or the nearest that has memory. */
static hwloc_obj_t topology_source(const struct topology *t, struct hwloc_distances_s *matrix,
				   const struct topology_group *group)
{
	struct topology_step best = { 0 };
	hwloc_obj_t node = NULL, source = NULL;

	if (!group->node || topology_has_memory(group->node))
		return group->node;
	while ((node = hwloc_get_next_obj_by_type(t->machine, HWLOC_OBJ_NUMANODE, node))) {
		struct topology_step step = {
			.told = topology_told(matrix, group->node, node),
			.levels = topology_levels(t, group->top, topology_top(node)),
		};

		if (!topology_has_memory(node))
			continue;
		if (source && topology_compare_steps(&step, &best) >= 0)
			continue;
		source = node;
		best = step;
	}
	return source;
}

/* Computes distances between groups (DISTANCE), and the source of each group's memory. */
static int topology_measure(struct topology *t)
{
	uint32_t n = t->n_groups, n_steps = 0, widest = topology_widest(t);
	_cleanup_free_ struct topology_step *steps = calloc((size_t)n * n, sizeof(*steps));
	struct hwloc_distances_s *matrix;

	for (uint32_t a = 0; a < n; a++) {
		t->groups[a].distances = calloc(n, sizeof(*t->groups[a].distances));
		if (!t->groups[a].distances || !steps)
			return -ENOMEM;
	}
	matrix = topology_matrix(t);
	for (uint32_t a = 0; a < n; a++)
		t->groups[a].source = topology_source(t, matrix, &t->groups[a]);
	for (uint32_t a = 0; a < n; a++)
		for (uint32_t b = 0; b < a; b++)
			steps[n_steps++] = topology_step(t, matrix, a, b);
	n_steps = topology_sort_steps(steps, n_steps);
	for (uint32_t a = 0; a < n; a++) {
		for (uint32_t b = 0; b < a; b++) {
			struct topology_step step = topology_step(t, matrix, a, b);
			uint32_t k = 0;

			while (k < n_steps && topology_compare_steps(&steps[k], &step) < 0)
				k++;
			t->groups[a].distances[b] = t->groups[b].distances[a] = widest + 1 + k;
		}
	}
	if (matrix)
		hwloc_distances_release(t->machine, matrix);
	return 0;
}

/* Computes everything that depends on the places. */
static int topology_relate(struct topology *t)
{
	int r;

	t->n_places = min(t->n_places, t->n_workers);
	topology_weigh(t, hwloc_get_root_obj(t->machine));
	r = topology_group(t);
	if (r < 0)
		return r;
	return topology_measure(t);
}

static int topology_make(const char *description, uint32_t workers, uint32_t threads,
			 const struct hwloc_bitmap_s *cpus, bool again, char *error,
			 size_t error_size, struct topology **ret_topology)
{
	_cleanup_(topology_freep) struct topology *t = calloc(1, sizeof(*t));
	_cleanup_(hwloc_bitmap_freep) hwloc_bitmap_t set = NULL;
	uint32_t cores, most;
	int r;

	if (!t)
		return -ENOMEM;
	r = topology_load(t, description, 0);
	if (r < 0 && description)
		return text_refuse(error, error_size, r,
				   "%s: not a machine that hwloc knows (\"numa:2 core:4\" or "
				   "\"xml:FILE\" from lstopo): %s",
				   description, strerror(-r));
	if (r < 0)
		return text_refuse(error, error_size, r,
				   "hwloc cannot determine this machine's CPUs: %s", strerror(-r));
	set = topology_allowed(t);
	if (!set)
		return -ENOMEM;
	if (cpus && !hwloc_bitmap_isincluded(cpus, set) && again) {
		r = topology_widen(t, cpus, set);
		if (r < 0)
			return r;
	} else if (cpus && !hwloc_bitmap_isincluded(cpus, set)) {
		_cleanup_free_ char *allowed = NULL;

		(void)hwloc_bitmap_list_asprintf(&allowed, set);
		return text_refuse(error, error_size, -EINVAL,
				   "cpus: some of these CPUs do not exist or are not allowed: "
				   "forkd may use %s",
				   allowed ? allowed : "others");
	} else if (cpus) {
		hwloc_bitmap_copy(set, cpus);
	}
	if (hwloc_bitmap_iszero(set))
		return text_refuse(error, error_size, -EINVAL,
				   "there is no CPU that forkd may use");
	t->places = calloc((size_t)hwloc_bitmap_weight(set), sizeof(*t->places));
	t->pus = calloc((size_t)hwloc_bitmap_weight(set), sizeof(hwloc_obj_t));
	if (!t->places || !t->pus)
		return -ENOMEM;
	cores = topology_fill(t, threads ? threads : UINT32_MAX, set);
	if (!t->n_places)
		return text_refuse(error, error_size, -EIO,
				   "hwloc knows none of the CPUs that forkd may use");
	t->n_workers = workers ? workers : cpus || threads ? t->n_places : cores;
	/* A described machine is for tests and the simulation: no pool runs on it. */
	most = description ? VICTIMS_MAX : LIMIT_WORKERS;
	if (workers > most)
		return text_refuse(error, error_size, -EINVAL,
				   "workers: must be at most %u, not %u", most, workers);
	t->n_workers = min(t->n_workers, most);
	r = topology_relate(t);
	if (r < 0)
		return r;
	*ret_topology = steal_ptr(t);
	return 0;
}

int topology_new(const char *description, uint32_t workers, uint32_t threads,
		 const struct hwloc_bitmap_s *cpus, char *error, size_t error_size,
		 struct topology **ret_topology)
{
	int r = topology_make(description, workers, threads, cpus, false, error, error_size,
			      ret_topology);

	if (r == -ENOMEM)
		return text_refuse(error, error_size, r, "out of memory");
	return r;
}

int topology_again(uint32_t workers, uint32_t threads, const struct hwloc_bitmap_s *cpus,
		   char *error, size_t error_size, struct topology **ret_topology)
{
	int r = topology_make(NULL, workers, threads, cpus, true, error, error_size, ret_topology);

	if (r < 0 && error_size && !*error)
		return text_refuse(error, error_size, r, "cannot determine this machine's CPUs: %s",
				   strerror(-r));
	return r;
}

struct hwloc_bitmap_s *topology_cpus(const struct topology *t)
{
	hwloc_bitmap_t set = hwloc_bitmap_alloc();

	for (uint32_t i = 0; set && i < min(t->n_workers, t->n_places); i++)
		hwloc_bitmap_set(set, t->places[i].cpu);
	return set;
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
	hwloc_obj_t source = topology->groups[group].source;

	return source ? source->os_index : TOPOLOGY_NONE;
}

uint32_t topology_distance(const struct topology *topology, uint32_t i, uint32_t j)
{
	uint32_t a, b;

	i %= topology->n_places;
	j %= topology->n_places;
	a = topology->places[i].group;
	b = topology->places[j].group;
	if (a != b)
		return topology->groups[a].distances[b];
	return topology_levels(topology, topology->pus[i], topology->pus[j]);
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

int topology_bind(const struct topology *topology, uint32_t worker)
{
	_cleanup_(hwloc_bitmap_freep) hwloc_bitmap_t set = NULL;

	if (topology->synthetic)
		return 0;
	set = hwloc_bitmap_alloc();
	if (!set)
		return -ENOMEM;
	hwloc_bitmap_only(set, topology_place(topology, worker)->cpu);
	if (hwloc_set_cpubind(topology->machine, set, HWLOC_CPUBIND_THREAD) < 0)
		return -errno;
	return 0;
}

int topology_bind_any(const struct topology *topology)
{
	_cleanup_(hwloc_bitmap_freep) hwloc_bitmap_t set = NULL;

	if (topology->synthetic)
		return 0;
	set = hwloc_bitmap_alloc();
	if (!set)
		return -ENOMEM;
	for (uint32_t i = 0; i < topology->n_workers; i++)
		if (hwloc_bitmap_set(set, topology_place(topology, i)->cpu) < 0)
			return -ENOMEM;
	if (hwloc_set_cpubind(topology->machine, set, HWLOC_CPUBIND_THREAD) < 0)
		return -errno;
	return 0;
}

int topology_bind_group_memory(const struct topology *t, uint32_t group, void *addr, size_t size)
{
	hwloc_obj_t source = t->groups[group].source;

	if (t->synthetic || !size || !source ||
	    hwloc_get_nbobjs_by_type(t->machine, HWLOC_OBJ_NUMANODE) < 2)
		return 0;
	/* Not strict: a preference, so that the OOM killer does not act when a node is full. */
	if (hwloc_set_area_membind(t->machine, addr, size, source->nodeset, HWLOC_MEMBIND_BIND,
				   HWLOC_MEMBIND_BYNODESET) < 0)
		return -errno;
	return 0;
}

int topology_bind_memory(const struct topology *topology, uint32_t worker, void *addr, size_t size)
{
	return topology_bind_group_memory(topology, topology_place(topology, worker)->group, addr,
					  size);
}
