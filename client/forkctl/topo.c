/* SPDX-License-Identifier: MIT */
/*
 * topo.c - forkctl topo: the topology of the machine (hwloc) and the CPUs of the workers
 *
 * A tree of objects: machine, packages, NUMA nodes, the largest caches, cores, CPUs (PU in hwloc)
 * and workers. The environment variables of hwloc apply to this process, as they do to lstopo.
 * The board has the CPU to which each worker is pinned.
 */
#include "client/forkctl/common.h"
#include "client/forkctl/forkctl.h"
#include "client/forkctl/listing.h"
#include "client/lib/client_state.h"

#include <hwloc.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/forkctl/board_rows.h"
#include "common/util.h"

/* Object types that are not shown: small caches, which usually belong to one core, and groups. */
static const hwloc_obj_type_t topo_left_out[] = {
	HWLOC_OBJ_L1CACHE,  HWLOC_OBJ_L2CACHE, HWLOC_OBJ_L1ICACHE,
	HWLOC_OBJ_L2ICACHE, HWLOC_OBJ_GROUP,
};

struct topo {
	hwloc_topology_t hwloc;
	json_t *workers; /* rows_workers(); those that were placed have the member "placed" */
};

static int topo_load(hwloc_topology_t *ret)
{
	hwloc_topology_t topology;

	/* No plugins, as in forkd: they search for GPUs and X displays. */
	(void)setenv("HWLOC_PLUGINS_PATH", "", 0);
	if (hwloc_topology_init(&topology) < 0)
		return -1;
	(void)hwloc_topology_set_flags(topology, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
	for (size_t i = 0; i < ARRAY_SIZE(topo_left_out); i++)
		(void)hwloc_topology_set_type_filter(topology, topo_left_out[i],
						     HWLOC_TYPE_FILTER_KEEP_NONE);
	if (hwloc_topology_load(topology) < 0) {
		hwloc_topology_destroy(topology);
		return -1;
	}
	*ret = topology;
	return 0;
}

/* Returns the workers that are pinned to a CPU. */
static json_t *workers_at(struct topo *topo, uint32_t cpu)
{
	json_t *here = json_array(), *row;
	size_t i;

	json_array_foreach(topo->workers, i, row)
	{
		const json_t *at = json_object_get(row, "cpu");

		if (!json_is_integer(at) || json_integer_value(at) != cpu)
			continue;
		(void)json_object_set_new(row, "placed", json_true());
		(void)json_array_append_new(here, json_pack("{s:O, s:O}", "worker",
							    json_object_get(row, "worker"), "state",
							    json_object_get(row, "state")));
	}
	return here;
}

static json_t *bytes_of(hwloc_obj_t object)
{
	if (hwloc_obj_type_is_cache(object->type))
		return out_number(object->attr->cache.size);
	if (object->type == HWLOC_OBJ_NUMANODE)
		return out_number(object->attr->numanode.local_memory);
	if (object->type == HWLOC_OBJ_MACHINE)
		return out_number(object->total_memory);
	return json_null();
}

/* Returns an object with its children; a CPU with its workers. */
static json_t *object_row(struct topo *topo, hwloc_obj_t object)
{
	int is_pu = object->type == HWLOC_OBJ_PU;
	json_t *children = json_array(), *row;
	char type[32];

	(void)hwloc_obj_type_snprintf(type, sizeof(type), object, 0);
	for (hwloc_obj_t c = object->memory_first_child; c; c = c->next_sibling)
		(void)json_array_append_new(children, object_row(topo, c));
	for (hwloc_obj_t c = object->first_child; c; c = c->next_sibling)
		(void)json_array_append_new(children, object_row(topo, c));
	row = json_pack("{s:o, s:o, s:o, s:o}", "type", out_text(type, sizeof(type)), "index",
			object->parent ? out_index(object->os_index) : json_null(), "bytes",
			bytes_of(object), "children", children);
	if (is_pu) {
		hwloc_const_bitmap_t allowed = hwloc_topology_get_allowed_cpuset(topo->hwloc);
		int may = hwloc_bitmap_isset(allowed, object->os_index);

		(void)json_object_set_new(row, "allowed", json_boolean(may));
		(void)json_object_set_new(row, "workers", workers_at(topo, object->os_index));
	}
	return row;
}

/* Returns the workers that are not on a CPU that hwloc reports. */
static json_t *workers_elsewhere(const struct topo *topo)
{
	json_t *elsewhere = json_array(), *row;
	size_t i;

	json_array_foreach(topo->workers, i, row) if (!json_object_get(row, "placed"))(void)
		json_array_append_new(elsewhere, json_pack("{s:O, s:O}", "worker",
							   json_object_get(row, "worker"), "state",
							   json_object_get(row, "state")));
	return elsewhere;
}

/* ------------------------------------------------------------------------ text */

static void print_workers(const json_t *workers)
{
	const json_t *row;
	size_t i;

	json_array_foreach(workers, i, row)
		printf("  worker %" JSON_INTEGER_FORMAT " %s",
		       json_integer_value(json_object_get(row, "worker")),
		       json_string_value(json_object_get(row, "state")));
}

static void print_object(const json_t *row, int depth)
{
	const json_t *index = json_object_get(row, "index"), *bytes = json_object_get(row, "bytes");
	const json_t *children = json_object_get(row, "children"), *child;
	struct out_cell cell;
	size_t i;

	printf("%*s%s", 2 * depth, "", json_string_value(json_object_get(row, "type")));
	if (json_is_integer(index))
		printf(" %s", out_show(&cell, index, OUT_NUMBER));
	if (json_is_integer(bytes))
		printf(" (%s)", out_show(&cell, bytes, OUT_BYTES));
	if (json_is_false(json_object_get(row, "allowed")))
		printf("  not allowed");
	print_workers(json_object_get(row, "workers"));
	printf("\n");
	json_array_foreach(children, i, child) print_object(child, depth + 1);
}

int forkctl_topo(const char *socket, int argc, char *argv[])
{
	_cleanup_json_ json_t *machine = NULL, *elsewhere = NULL;
	struct topo topo = { NULL };
	fk_client *client;
	struct listing l;
	int err = listing_open(socket, forkctl_json_options, false, argc, argv, &l, &client);

	if (err)
		return err;
	topo.workers = rows_workers(client->board);
	(void)fk_close(client);
	if (topo_load(&topo.hwloc) < 0) {
		json_decref(topo.workers);
		return forkctl_fail(FORKCTL_FAILED, "cannot load the topology (hwloc)");
	}
	machine = object_row(&topo, hwloc_get_root_obj(topo.hwloc));
	elsewhere = workers_elsewhere(&topo);
	hwloc_topology_destroy(topo.hwloc);
	json_decref(topo.workers);
	if (l.json)
		return out_print_json(
			json_pack("{s:O, s:O}", "machine", machine, "elsewhere", elsewhere), 2);
	print_object(machine, 0);
	if (json_array_size(elsewhere)) {
		printf("not on one of these CPUs:");
		print_workers(elsewhere);
		printf("\n");
	}
	return FORKCTL_OK;
}
