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
	uint32_t node;	/* os index of its NUMA node; TOPOLOGY_NONE: none */
	uint32_t group; /* from 0 on, one for each node that has a worker */
};

/*
 * Reads the machine's topology and chooses a CPU for each worker.
 * description: NULL: this machine; otherwise another one: hwloc's synthetic form, such as "numa:2
 * core:4 pu:2", or "xml:FILE" for a file written by lstopo. cpus: the CPUs to use; NULL: all that
 * this process may use. threads: at most this many of these CPUs per core; 0: no limit. workers:
 * their number; 0: one on each of these CPUs, but one on each core if neither cpus nor threads is
 * given; more wrap around over the CPUs. At most LIMIT_WORKERS on this machine (as many of the CPUs
 * are used if there are more), VICTIMS_MAX on a described one.
 * error: gets one line that says what to do, on failure; may be NULL if error_size is 0.
 * Returns 0, or -EINVAL (no such CPU, or not allowed; too many workers; invalid description),
 * -ENOENT or another error of opening FILE, -ENOMEM, -EIO (hwloc failed). Free it with
 * topology_free().
 */
int topology_new(const char *description, uint32_t workers, uint32_t threads,
		 const struct hwloc_bitmap_s *cpus, char *error, size_t error_size,
		 struct topology **ret_topology);
/* The same for this machine, for a pool, or a manager that takes over: cpus is the result of
 * topology_cpus() in the manager at its start. CPUs that may not be used any more keep their
 * workers, which are then offline. */
int topology_again(uint32_t workers, uint32_t threads, const struct hwloc_bitmap_s *cpus,
		   char *error, size_t error_size, struct topology **ret_topology);
/*
 * Makes a topology for a pool in a user's program, without hwloc: on the CPUs that the calling
 * thread may use now. workers: their number; 0: one on each core (the first of its CPUs that may be
 * used), at most LIMIT_WORKERS; more wrap around over the CPUs. error: as above. Returns 0,
 * -EINVAL (more than LIMIT_WORKERS), -ENOMEM, or an error of sched_getaffinity(2).
 */
int topology_own(uint32_t workers, char *error, size_t error_size, struct topology **ret_topology);
void topology_free(struct topology *topology);

/* Returns the CPUs that workers are pinned to; the caller frees it by hwloc_bitmap_free(). NULL: no
 * memory. */
struct hwloc_bitmap_s *topology_cpus(const struct topology *topology);

uint32_t topology_n_workers(const struct topology *topology);
/* Returns the place of a worker; worker wraps around. */
const struct topology_place *topology_place(const struct topology *topology, uint32_t worker);

/* Returns the number of groups: NUMA nodes that have a worker; at least 1. */
uint32_t topology_n_groups(const struct topology *topology);
/* Returns the node that a group's memory comes from (os index): its own, or the nearest one that
 * has memory. TOPOLOGY_NONE if there is no choice. */
uint32_t topology_memory(const struct topology *topology, uint32_t group);
/* Returns the workers of a group, in ascending order, and their number: at least 1. */
const uint32_t *topology_members(const struct topology *topology, uint32_t group, uint32_t *ret_n);

/* Returns the distance of two different workers: 1 for the nearest possible, symmetric. In a group:
 * the number of levels up to their common ancestor, without levels that add no worker's CPU, and at
 * least 1. Between groups: beyond every distance in a group, ordered by the machine's distances
 * between nodes if known, then by levels. */
uint32_t topology_distance(const struct topology *topology, uint32_t i, uint32_t j);

/* Makes the tables of victims for these workers (victims_new()). Returns 0 or a negative errno. */
int topology_victims(const struct topology *topology, struct victims **ret_victims);

/* Pins the calling thread to a worker's CPU. Does nothing on a synthetic topology. Returns 0 or a
 * negative errno. */
int topology_bind(const struct topology *topology, uint32_t worker);
/* Binds the calling thread to the CPUs of all workers. */
int topology_bind_any(const struct topology *topology);

/*
 * Makes the pages of [addr, addr + size) come from the node of a worker, or of a group, at their
 * first touch: from the nearest node that has memory, if its own has none, and from another one if
 * that is full. addr: page-aligned. Does nothing on a topology of another machine, or with one
 * node, or if the group has none. Returns 0 or a negative errno (of mbind(2): -EPERM if a container
 * forbids it).
 */
int topology_bind_memory(const struct topology *topology, uint32_t worker, void *addr, size_t size);
int topology_bind_group_memory(const struct topology *topology, uint32_t group, void *addr,
			       size_t size);
