/* SPDX-License-Identifier: MIT */
/* topology.h - which CPU each worker is pinned to, its group, and the distances */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct hwloc_bitmap_s;
struct topology;
struct victims;

#define TOPOLOGY_NONE UINT32_MAX

struct topology_place {
	uint32_t cpu;	/* os index */
	uint32_t core;	/* os index, or that of the CPU where the machine tells no cores */
	uint32_t node;	/* os index of its NUMA node, TOPOLOGY_NONE if there is none */
	uint32_t group; /* from 0 on, one for each node that has a worker */
};

/*
 * Looks at the machine and chooses a CPU for each worker.
 * description: NULL for this machine, else one that is not here: hwloc's synthetic form, such as
 * "numa:2 core:4 pu:2", or "xml:FILE" for a file as lstopo writes it. cpus: the CPUs to use, one
 * worker each, NULL for one worker on each core that this process may use. workers: how many; 0 for
 * as many as that gives; more are wrapped round over the CPUs. At most LIMIT_WORKERS on this
 * machine (as many of the cores are used if there are more), VICTIMS_MAX on one that is described.
 * error: gets one line that says what to do, on failure; may be NULL if error_size is 0.
 * Returns 0, or -EINVAL (no such CPU, or it may not be used; too many workers; not a description),
 * -ENOENT or another error of opening FILE, -ENOMEM, -EIO (hwloc could not make it out). To be
 * given back to topology_free().
 */
int topology_new(const char *description, uint32_t workers, const struct hwloc_bitmap_s *cpus,
		 char *error, size_t error_size, struct topology **ret_topology);
/*
 * The same of this machine, for a pool, or a manager that goes on: cpus is what topology_cpus()
 * said in the manager, at its start. Those that may not be used any more have their workers all the
 * same, which park.
 */
int topology_again(uint32_t workers, const struct hwloc_bitmap_s *cpus, char *error,
		   size_t error_size, struct topology **ret_topology);
void topology_free(struct topology *topology);

/* The CPUs that workers are pinned to: the caller's, to be freed by hwloc_bitmap_free(). NULL for
 * want of memory. */
struct hwloc_bitmap_s *topology_cpus(const struct topology *topology);

/* How many workers. */
uint32_t topology_n_workers(const struct topology *topology);
/* Where a worker belongs; worker is wrapped round if it is more than there are. */
const struct topology_place *topology_place(const struct topology *topology, uint32_t worker);

/* How many groups: NUMA nodes that have a worker; 1 at least. */
uint32_t topology_n_groups(const struct topology *topology);
/*
 * The node that a group's memory comes from (os index): its own, or the nearest one that has memory
 * where that has none. TOPOLOGY_NONE if there is nothing to choose.
 */
uint32_t topology_memory(const struct topology *topology, uint32_t group);
/* The workers of a group, in ascending order, and how many they are: 1 at least. */
const uint32_t *topology_members(const struct topology *topology, uint32_t group, uint32_t *ret_n);

/*
 * How far apart two different workers are: 1 for the nearest there can be, symmetric. In a group:
 * the levels of the machine up to what both have in common, of which those that bring no further
 * worker's CPU together do not count, and at least 1. Between groups: beyond every distance in a
 * group, ordered by the machine's distances between nodes where it tells them, then by levels.
 */
uint32_t topology_distance(const struct topology *topology, uint32_t i, uint32_t j);

/* Tables of victims for these workers (victims_new()). Returns 0 or a negative errno. */
int topology_victims(const struct topology *topology, struct victims **ret_victims);

/*
 * Pins the calling thread to a worker's CPU. Nothing happens on a synthetic topology.
 * Returns 0 or a negative errno.
 */
int topology_bind(const struct topology *topology, uint32_t worker);
/* The same to the CPUs of all workers. */
int topology_bind_any(const struct topology *topology);

/*
 * Asks for the pages of [addr, addr + size) to come from the node of a worker, or of a group, from
 * their first touch on: from the nearest node that has memory, if its own has none, and from
 * another one if that is full. addr: at a page's beginning. Nothing happens on a topology that is
 * not this machine's, or that has one node, or where the group has none.
 * Returns 0 or a negative errno (of mbind(2): -EPERM where a container forbids it).
 */
int topology_bind_memory(const struct topology *topology, uint32_t worker, void *addr, size_t size);
int topology_bind_group_memory(const struct topology *topology, uint32_t group, void *addr,
			       size_t size);
