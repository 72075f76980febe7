/* SPDX-License-Identifier: MIT */
/*
 * machine.h - the simulated machine: distances between workers, and lines of cache
 *
 * The topology and the tables of victims are forkd's own (daemon/host/topology.h,
 * daemon/host/victims.h), on an hwloc description instead of this machine. A line stores its last
 * writer, its readers since, and the end of its current transfer. A worker that accesses it during
 * a transfer waits. So a word that many workers change costs as much as on a real machine.
 */
#pragma once

#include <stdint.h>

#include "daemon/host/topology.h"
#include "daemon/host/victims.h"
#include "tests/sim/costs.h"

struct machine {
	uint32_t n_workers;
	uint32_t n_groups;
	uint32_t *groups; /* of each worker */
	struct topology *topology;
	struct victims *victims;
	struct costs costs;
};

struct line {
	uint64_t free_at; /* ps: on its way until then */
	uint32_t owner;	  /* the last writer */
	uint32_t reader;  /* the last reader; the owner itself if none since */
	uint32_t version; /* how often it was written */
};

/* description: of the machine, as topology_new() takes it. workers: number of its cores to use, 0
 * for all. Returns 0 or a negative errno; error gets one line. */
int machine_new(const char *description, uint32_t workers, const struct costs *costs, char *error,
		uint64_t error_size, struct machine **ret_machine);
struct machine *machine_free(struct machine *machine);

/* Returns the cost for i to get a line from j. */
static inline uint64_t machine_transfer(const struct machine *m, uint32_t i, uint32_t j)
{
	uint32_t level = i == j ? 0 : victims_level(m->victims, i, j);

	if (i == j)
		return 0;
	return level == 0 ? m->costs.line_near : level == 1 ? m->costs.line_mid : m->costs.line_far;
}

/* Worker i reads the line at a time; returns the time at which it has it. */
static inline uint64_t line_read(const struct machine *m, struct line *line, uint32_t i,
				 uint64_t now)
{
	uint64_t cost;

	if (line->owner == i || line->reader == i)
		return now;
	cost = machine_transfer(m, i, line->owner);
	line->reader = i;
	return (now > line->free_at ? now : line->free_at) + cost;
}

/* Worker i writes the line, or changes it atomically; returns the time when that is done. */
static inline uint64_t line_write(const struct machine *m, struct line *line, uint32_t i,
				  uint64_t now)
{
	uint64_t from_owner = machine_transfer(m, i, line->owner);
	uint64_t from_reader = machine_transfer(m, i, line->reader);

	if (from_owner || from_reader) {
		now = now > line->free_at ? now : line->free_at;
		now += from_owner > from_reader ? from_owner : from_reader;
	}
	now += m->costs.rmw;
	line->free_at = now;
	line->owner = line->reader = i;
	line->version++;
	return now;
}
