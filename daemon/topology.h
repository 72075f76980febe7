/* SPDX-License-Identifier: MIT */
/* daemon/topology.h - which CPU each worker is pinned to */
#ifndef DAEMON_TOPOLOGY_H
#define DAEMON_TOPOLOGY_H

#include <stddef.h>
#include <stdint.h>

struct hwloc_bitmap_s;
struct topology;

#define TOPOLOGY_NONE UINT32_MAX

struct topology_place {
	uint32_t cpu;  /* os index */
	uint32_t core; /* os index, or that of the CPU where the machine tells no cores */
	uint32_t node; /* os index of its NUMA node, TOPOLOGY_NONE if there is none */
};

/*
 * Looks at the machine and chooses a CPU for each worker.
 * synthetic: NULL for this machine, else a description such as "numa:2 core:4 pu:2".
 * cpus: the CPUs to use, one worker each, NULL for one worker on each core that this process may
 * use. workers: how many; 0 for as many as that gives; more are wrapped round over the CPUs.
 * error: gets one line that says what to do, on failure; may be NULL if error_size is 0.
 * Returns 0, or -EINVAL (no such CPU, or it may not be used; too many workers), -ENOMEM, -EIO
 * (hwloc could not make it out). To be given back to topology_free().
 */
int topology_new(const char *synthetic, uint32_t workers, const struct hwloc_bitmap_s *cpus,
		 char *error, size_t error_size, struct topology **ret_topology);
void topology_free(struct topology *topology);

/* How many workers. */
uint32_t topology_n_workers(const struct topology *topology);
/* Where a worker belongs; worker is wrapped round if it is more than there are. */
const struct topology_place *topology_place(const struct topology *topology, uint32_t worker);

/*
 * Pins the calling thread to a worker's CPU. Nothing happens on a synthetic topology.
 * Returns 0 or a negative errno.
 */
int topology_bind(const struct topology *topology, uint32_t worker);

#endif
