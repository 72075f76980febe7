/* SPDX-License-Identifier: MIT */
/*
 * topology_hwloc.c - the topology of the machine's forkd, read by hwloc
 *
 * topology.c has the rules for places, groups and distances, and the invariants. The parts of the
 * machine are the objects of hwloc's tree. Nothing of hwloc is left when topology_new() returns.
 */
#include "daemon/host/topology_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <hwloc.h>

#include "common/text.h"
#include "common/util.h"
#include "daemon/host/victims.h"
#include "shm/limits.h"

#define TOPOLOGY_XML "xml:"

/* What hwloc has read, and the topology that is made of it. */
struct topology_source {
	hwloc_topology_t machine;
	struct topology *topology;
	hwloc_obj_t *pus; /* of each place */
};

DEFINE_CLEANUP(hwloc_bitmap_t, hwloc_bitmap_free);

static void topology_source_fini(struct topology_source *s)
{
	if (s->machine)
		hwloc_topology_destroy(s->machine);
	topology_free(s->topology);
	free(s->pus);
}

static int topology_describe(struct topology_source *s, const char *description)
{
	const char *file = description + strlen(TOPOLOGY_XML);

	if (strncmp(description, TOPOLOGY_XML, strlen(TOPOLOGY_XML)) != 0)
		return hwloc_topology_set_synthetic(s->machine, description) < 0 ? -EINVAL : 0;
	if (access(file, R_OK) < 0)
		return -errno;
	return hwloc_topology_set_xml(s->machine, file) < 0 ? -EINVAL : 0;
}

static int topology_load(struct topology_source *s, const char *description, unsigned long flags)
{
	int r = 0;

	if (hwloc_topology_init(&s->machine) < 0)
		return -ENOMEM;
	/* hwloc's x86 component runs on each CPU: on a busy machine a pool would wait a tick for
	 * each, and the kernel has the same data. If it cannot be disabled, loading is only
	 * slow. */
	(void)hwloc_topology_set_components(s->machine, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST,
					    "x86");
	(void)hwloc_topology_set_flags(s->machine, flags);
	if (description)
		r = topology_describe(s, description);
	if (r < 0)
		return r;
	/* hwloc's own part of a file is read here. */
	if (hwloc_topology_load(s->machine) < 0)
		return description ? -EINVAL : -EIO;
	s->topology->synthetic = !hwloc_topology_is_thissystem(s->machine);
	return 0;
}

/* Returns the CPUs that this process may use (I1). */
static hwloc_bitmap_t topology_allowed(const struct topology_source *s)
{
	_cleanup_(hwloc_bitmap_freep) hwloc_bitmap_t bound = NULL;
	_cleanup_(hwloc_bitmap_freep) hwloc_bitmap_t allowed = NULL;

	allowed = hwloc_bitmap_dup(hwloc_topology_get_allowed_cpuset(s->machine));
	if (!allowed || s->topology->synthetic)
		return steal_ptr(allowed);
	bound = hwloc_bitmap_alloc();
	if (!bound)
		return NULL;
	/* If the affinity cannot be read, use the cpuset alone. */
	if (hwloc_get_cpubind(s->machine, bound, HWLOC_CPUBIND_PROCESS) == 0 &&
	    hwloc_bitmap_intersects(allowed, bound))
		hwloc_bitmap_and(allowed, allowed, bound);
	return steal_ptr(allowed);
}

/* Sets the CPUs of the list that exist, usable or not; all usable ones if none exists. */
static int topology_widen(struct topology_source *s, const struct hwloc_bitmap_s *cpus,
			  hwloc_bitmap_t set)
{
	int r;

	hwloc_topology_destroy(steal_ptr(s->machine));
	r = topology_load(s, NULL, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
	if (r < 0)
		return r;
	if (hwloc_bitmap_intersects(cpus, hwloc_topology_get_topology_cpuset(s->machine)))
		hwloc_bitmap_and(set, cpus, hwloc_topology_get_topology_cpuset(s->machine));
	return 0;
}

static bool topology_has_memory(hwloc_obj_t node)
{
	return node->attr->numanode.local_memory > 0;
}

/* Returns the NUMA node of a CPU (GROUPS), NULL: none. */
static hwloc_obj_t topology_node(const struct topology_source *s, hwloc_obj_t pu)
{
	hwloc_obj_t node = NULL, best = NULL;

	while ((node = hwloc_get_next_obj_by_type(s->machine, HWLOC_OBJ_NUMANODE, node))) {
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

static void topology_add(struct topology_source *s, hwloc_obj_t pu)
{
	struct topology_place *place = &s->topology->places[s->topology->n_places];
	hwloc_obj_t node = topology_node(s, pu);

	s->pus[s->topology->n_places++] = pu;
	place->cpu = pu->os_index;
	place->node = node ? node->os_index : TOPOLOGY_NONE;
}

/* Returns the nth CPU of a core that is in the set, or NULL. */
static hwloc_obj_t topology_nth(const struct topology_source *s, hwloc_obj_t core, unsigned int nth,
				hwloc_const_bitmap_t set)
{
	unsigned int seen = 0;
	unsigned int cpu;

	hwloc_bitmap_foreach_begin(cpu, core->cpuset)
	{
		if (!hwloc_bitmap_isset(set, cpu) || seen++ < nth)
			continue;
		return hwloc_get_pu_obj_by_os_index(s->machine, cpu);
	}
	hwloc_bitmap_foreach_end();
	return NULL;
}

/* Fills in the places, in order, at most per_core on each core. Returns the number of cores that
 * have one. */
static uint32_t topology_fill(struct topology_source *s, uint32_t per_core,
			      hwloc_const_bitmap_t set)
{
	int depth = hwloc_get_type_or_below_depth(s->machine, HWLOC_OBJ_CORE);
	unsigned int n = hwloc_get_nbobjs_by_depth(s->machine, depth);
	uint32_t cores = 0;
	bool more = true;

	for (unsigned int nth = 0; more && nth < per_core; nth++) {
		more = false;
		for (unsigned int i = 0; i < n; i++) {
			hwloc_obj_t core = hwloc_get_obj_by_depth(s->machine, depth, i);
			hwloc_obj_t pu = topology_nth(s, core, nth, set);

			if (!pu)
				continue;
			topology_add(s, pu);
			more = true;
		}
		if (nth == 0)
			cores = s->topology->n_places;
	}
	return cores;
}

/* Returns the number of places below the smallest object that has both. */
static uint16_t topology_common(const struct topology_source *s, hwloc_obj_t a, hwloc_obj_t b)
{
	while (hwloc_obj_type_is_memory(a->type))
		a = a->parent;
	while (hwloc_obj_type_is_memory(b->type))
		b = b->parent;
	if (a != b)
		a = hwloc_get_common_ancestor_obj(s->machine, a, b);
	return (uint16_t)(uintptr_t)a->userdata;
}

/* Stores the number of places below an object in it, and in all objects below it. */
static void topology_weigh(const struct topology *t, hwloc_obj_t object)
{
	uintptr_t weight = 0;

	for (uint32_t i = 0; i < t->n_places; i++)
		weight += hwloc_bitmap_isset(object->cpuset, t->places[i].cpu) != 0;
	object->userdata = (void *)weight;
	for (hwloc_obj_t child = object->first_child; child; child = child->next_sibling)
		topology_weigh(t, child);
}

static hwloc_obj_t topology_object(const struct topology_source *s, uint32_t group)
{
	uint32_t node = s->topology->groups[group].node;

	return node == TOPOLOGY_NONE ? NULL : hwloc_get_numanode_obj_by_os_index(s->machine, node);
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

/* Returns the latencies between the nodes of all groups, NULL if the machine lacks some. */
static struct hwloc_distances_s *topology_matrix(const struct topology_source *s)
{
	struct hwloc_distances_s *matrix = NULL;
	unsigned int n = 1;

	if (hwloc_distances_get_by_type(s->machine, HWLOC_OBJ_NUMANODE, &n, &matrix,
					HWLOC_DISTANCES_KIND_MEANS_LATENCY, 0) < 0 ||
	    !n)
		return NULL;
	for (uint32_t i = 0; i < s->topology->n_groups; i++) {
		hwloc_obj_t node = topology_object(s, i);

		if (node && hwloc_distances_obj_index(matrix, node) >= 0)
			continue;
		hwloc_distances_release(s->machine, matrix);
		return NULL;
	}
	return matrix;
}

/* Returns the node of a group's memory: its own, or the nearest that has memory. */
static uint32_t topology_find_memory(const struct topology_source *s,
				     struct hwloc_distances_s *matrix, hwloc_obj_t own)
{
	uint64_t best_told = UINT64_MAX;
	hwloc_obj_t node = NULL, best = own;

	if (!own || hwloc_get_nbobjs_by_type(s->machine, HWLOC_OBJ_NUMANODE) < 2)
		return TOPOLOGY_NONE;
	if (topology_has_memory(own))
		return own->os_index;
	while ((node = hwloc_get_next_obj_by_type(s->machine, HWLOC_OBJ_NUMANODE, node))) {
		uint64_t told = topology_told(matrix, own, node);

		if (!topology_has_memory(node) || told > best_told)
			continue;
		if (best != own && told == best_told &&
		    topology_common(s, own, node) >= topology_common(s, own, best))
			continue;
		best = node;
		best_told = told;
	}
	return best == own ? TOPOLOGY_NONE : best->os_index;
}

/* Computes everything that depends on the places. */
static int topology_relate(struct topology_source *s)
{
	_cleanup_free_ uint64_t *told = NULL;
	struct topology *t = s->topology;
	struct hwloc_distances_s *matrix;
	int r = topology_group(t, &told);

	if (r < 0)
		return r;
	topology_weigh(t, hwloc_get_root_obj(s->machine));
	for (uint32_t i = 0; i < t->n_places; i++)
		for (uint32_t j = 0; j < i; j++)
			topology_row(t, i)[j] = topology_row(t, j)[i] =
				topology_common(s, s->pus[i], s->pus[j]);
	matrix = topology_matrix(s);
	for (uint32_t a = 0; a < t->n_groups; a++) {
		hwloc_obj_t node = topology_object(s, a);

		t->groups[a].memory = topology_find_memory(s, matrix, node);
		for (uint32_t b = 0; b < a; b++)
			told[a * t->n_groups + b] =
				topology_told(matrix, node, topology_object(s, b));
	}
	if (matrix)
		hwloc_distances_release(s->machine, matrix);
	return topology_rank(t, told);
}

static int topology_make(const char *description, uint32_t workers, uint32_t threads,
			 const struct hwloc_bitmap_s *cpus, bool again, char *error,
			 size_t error_size, struct topology **ret_topology)
{
	_cleanup_(topology_source_fini) struct topology_source s = { 0 };
	_cleanup_(hwloc_bitmap_freep) hwloc_bitmap_t set = NULL;
	struct topology *t = s.topology = calloc(1, sizeof(*t));
	uint32_t cores, most;
	int r;

	if (!t)
		return -ENOMEM;
	r = topology_load(&s, description, 0);
	if (r < 0 && description)
		return text_refuse(error, error_size, r,
				   "%s: not a machine that hwloc knows (\"numa:2 core:4\" or "
				   "\"xml:FILE\" from lstopo): %s",
				   description, strerror(-r));
	if (r < 0)
		return text_refuse(error, error_size, r,
				   "hwloc cannot determine this machine's CPUs: %s", strerror(-r));
	set = topology_allowed(&s);
	if (!set)
		return -ENOMEM;
	if (cpus && !hwloc_bitmap_isincluded(cpus, set) && again) {
		r = topology_widen(&s, cpus, set);
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
	s.pus = calloc((size_t)hwloc_bitmap_weight(set), sizeof(hwloc_obj_t));
	if (!t->places || !s.pus)
		return -ENOMEM;
	cores = topology_fill(&s, threads ? threads : UINT32_MAX, set);
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
	r = topology_relate(&s);
	if (r < 0)
		return r;
	*ret_topology = steal_ptr(s.topology);
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

	for (uint32_t i = 0; set && i < t->n_places; i++)
		hwloc_bitmap_set(set, t->places[i].cpu);
	return set;
}
