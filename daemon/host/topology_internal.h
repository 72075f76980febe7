/* SPDX-License-Identifier: MIT */
/* topology_internal.h - the data of a topology, for the files that make one */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/cleanup.h"
#include "daemon/host/topology.h"

#define TOPOLOGY_CPUS  8192u /* as for the option cpus */
#define TOPOLOGY_NODES 1024u /* the largest that Linux can be built for */
#define TOPOLOGY_BITS  (8 * sizeof(unsigned long))

/* Numbers of CPUs or nodes, as the kernel's system calls take them. */
struct topology_set {
	unsigned long bits[TOPOLOGY_CPUS / TOPOLOGY_BITS];
};

struct topology_group {
	uint32_t node;	 /* as in its workers' places */
	uint32_t memory; /* the node of its memory (os index); TOPOLOGY_NONE: no choice */
	const uint32_t *members;
	uint32_t n_members;
};

struct topology {
	bool synthetic; /* another machine: nothing is bound */
	uint32_t n_workers;
	uint32_t n_places;
	struct topology_place *places;
	uint32_t n_groups;
	struct topology_group *groups;
	uint32_t *members;   /* of all groups */
	uint16_t *distances; /* from each place to each */
};

DEFINE_CLEANUP(struct topology *, topology_free);

static inline uint16_t *topology_row(const struct topology *topology, uint32_t place)
{
	return &topology->distances[(size_t)place * topology->n_places];
}

/*
 * A topology is made in three steps. The file that makes one
 *	1. allocates it by calloc(), sets synthetic and the numbers, and fills in the CPUs and
 *	   nodes of the places (at least n_places; the order is in topology.c);
 *	2. calls topology_group(), which makes the groups, reduces n_places to n_workers, and
 *	   allocates told;
 *	3. sets the memory of each group, and for each two places in topology_row() of both the
 *	   number of places in the smallest part of the machine that contains both; then calls
 *	   topology_rank(), which replaces these numbers by distances.
 * told: the machine's distance from each group to each other one, at first 0; NULL: unknown.
 * Both return 0 or -ENOMEM.
 */
int topology_group(struct topology *topology, uint64_t **ret_told);
int topology_rank(struct topology *topology, const uint64_t *told);

/* Makes a topology as topology_own() does, which binds nothing, from the files below a directory.
 * cpus: those to use, at least one. nodes: those whose memory may be used. workers: at most
 * LIMIT_WORKERS. Returns 0 or -ENOMEM. */
int topology_read(const char *system, const struct topology_set *cpus,
		  const struct topology_set *nodes, uint32_t workers,
		  struct topology **ret_topology);
