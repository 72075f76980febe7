/* SPDX-License-Identifier: MIT */
#include "tests/sim/machine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"

DEFINE_CLEANUP(struct machine *, machine_free);

struct machine *machine_free(struct machine *m)
{
	if (!m)
		return NULL;
	victims_free(m->victims);
	topology_free(m->topology);
	free(m->groups);
	free(m);
	return NULL;
}

int machine_new(const char *description, uint32_t workers, const struct costs *costs, char *error,
		uint64_t error_size, struct machine **ret_machine)
{
	_cleanup_(machine_freep) struct machine *m = calloc(1, sizeof(*m));
	int r;

	if (!m)
		return -ENOMEM;
	m->costs = *costs;
	r = topology_new(description, workers, 0, NULL, error, error_size, &m->topology);
	if (r < 0)
		return r;
	m->n_workers = topology_n_workers(m->topology);
	m->n_groups = topology_n_groups(m->topology);
	m->groups = calloc(m->n_workers, sizeof(*m->groups));
	r = m->groups ? topology_victims(m->topology, &m->victims) : -ENOMEM;
	if (r < 0) {
		snprintf(error, error_size, "%s: %s", description, strerror(-r));
		return r;
	}
	for (uint32_t i = 0; i < m->n_workers; i++)
		m->groups[i] = topology_place(m->topology, i)->group;
	*ret_machine = steal_ptr(m);
	return 0;
}
