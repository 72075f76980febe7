/* SPDX-License-Identifier: MIT */
/*
 * daemon/topology.c - which CPU each worker is pinned to
 *
 * WHO CALLS IT, ON WHICH THREAD
 *   The manager at its start, to know how many workers there are; the pool at its start, with the
 *   same options and the affinity it inherited, so that it comes to the same places. After
 *   topology_new() nothing changes, and any thread may read and bind itself.
 *
 * THE ORDER OF PLACES
 *   First the first allowed CPU of each core, in the machine's order, then the second of each, ...;
 *   with a list of CPUs, those of the list in the same order. Workers take places in this order and
 *   begin again at the first when there are more workers than places. So the first workers never
 *   share a core while another is free.
 *
 * INVARIANTS
 *   I1. Every place is in what the process may use: the machine's CPUs, the cgroup's cpuset and
 *       the affinity that forkd was started with.
 *   I2. At least one place and one worker; at most LIMIT_WORKERS workers.
 */
#include "daemon/topology.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include <hwloc.h>

#include "common/cleanup.h"
#include "common/util.h"
#include "shm/limits.h"

struct topology {
	hwloc_topology_t machine;
	bool synthetic;
	uint32_t n_workers;
	uint32_t n_places;
	struct topology_place *places;
};

DEFINE_CLEANUP(struct topology *, topology_free);
DEFINE_CLEANUP(hwloc_bitmap_t, hwloc_bitmap_free);

static void topology_error(char *error, size_t size, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static void topology_error(char *error, size_t size, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	if (size)
		(void)vsnprintf(error, size, format, ap);
	va_end(ap);
}

void topology_free(struct topology *topology)
{
	if (!topology)
		return;
	if (topology->machine)
		hwloc_topology_destroy(topology->machine);
	free(topology->places);
	free(topology);
}

static int topology_load(struct topology *t, const char *synthetic)
{
	if (hwloc_topology_init(&t->machine) < 0)
		return -ENOMEM;
	if (synthetic && hwloc_topology_set_synthetic(t->machine, synthetic) < 0)
		return -EINVAL;
	if (hwloc_topology_load(t->machine) < 0)
		return -EIO;
	t->synthetic = !hwloc_topology_is_thissystem(t->machine);
	return 0;
}

/* What this process may use (I1). */
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
	/* Where the affinity cannot be read, the cpuset alone has to do. */
	if (hwloc_get_cpubind(t->machine, bound, HWLOC_CPUBIND_PROCESS) == 0 &&
	    hwloc_bitmap_intersects(allowed, bound))
		hwloc_bitmap_and(allowed, allowed, bound);
	return steal_ptr(allowed);
}

static void topology_add(struct topology *t, hwloc_obj_t pu, hwloc_obj_t core)
{
	struct topology_place *place = &t->places[t->n_places++];
	int node = pu->nodeset ? hwloc_bitmap_first(pu->nodeset) : -1;

	place->cpu = pu->os_index;
	place->core = core->os_index;
	place->node = node < 0 ? TOPOLOGY_NONE : (uint32_t)node;
}

/* The nth CPU of a core that is in the set, or NULL. */
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

/* Fills in the places, in their order. Returns how many cores have one. */
static uint32_t topology_fill(struct topology *t, hwloc_const_bitmap_t set)
{
	int depth = hwloc_get_type_or_below_depth(t->machine, HWLOC_OBJ_CORE);
	unsigned int n = hwloc_get_nbobjs_by_depth(t->machine, depth);
	uint32_t cores = 0;
	bool more = true;

	for (unsigned int nth = 0; more; nth++) {
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

int topology_new(const char *synthetic, uint32_t workers, const struct hwloc_bitmap_s *cpus,
		 char *error, size_t error_size, struct topology **ret_topology)
{
	_cleanup_(topology_freep) struct topology *t = calloc(1, sizeof(*t));
	_cleanup_(hwloc_bitmap_freep) hwloc_bitmap_t set = NULL;
	uint32_t cores;
	int r;

	topology_error(error, error_size, "out of memory");
	if (!t)
		return -ENOMEM;
	r = topology_load(t, synthetic);
	if (r < 0) {
		topology_error(error, error_size, "hwloc cannot make out this machine's CPUs: %s",
			       strerror(-r));
		return r;
	}
	set = topology_allowed(t);
	if (!set)
		return -ENOMEM;
	if (cpus && !hwloc_bitmap_isincluded(cpus, set)) {
		_cleanup_free_ char *allowed = NULL;

		(void)hwloc_bitmap_list_asprintf(&allowed, set);
		topology_error(error, error_size,
			       "cpus: some of these CPUs are not there or not for forkd to use: "
			       "it may use %s",
			       allowed ? allowed : "others");
		return -EINVAL;
	}
	if (cpus)
		hwloc_bitmap_copy(set, cpus);
	if (hwloc_bitmap_iszero(set)) {
		topology_error(error, error_size, "there is no CPU that forkd may use");
		return -EINVAL;
	}
	t->places = calloc((size_t)hwloc_bitmap_weight(set), sizeof(*t->places));
	if (!t->places)
		return -ENOMEM;
	cores = topology_fill(t, set);
	if (!t->n_places) {
		topology_error(error, error_size,
			       "hwloc knows none of the CPUs that forkd may use");
		return -EIO;
	}
	t->n_workers = workers ? workers : cpus ? t->n_places : cores;
	if (workers > LIMIT_WORKERS) {
		topology_error(error, error_size, "workers: must be at most %u, not %u",
			       LIMIT_WORKERS, workers);
		return -EINVAL;
	}
	t->n_workers = min(t->n_workers, LIMIT_WORKERS);
	*ret_topology = steal_ptr(t);
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
