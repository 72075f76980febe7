/* SPDX-License-Identifier: MIT */
/* status.c - forkctl status: forkd, its last crash, its workers, its clients */
#include "client/forkctl/common.h"
#include "client/forkctl/forkctl.h"
#include "client/forkctl/listing.h"
#include "client/lib/client_state.h"

#include <stdio.h>

#include "client/forkctl/board_rows.h"
#include "common/cleanup.h"

static const struct out_column status_workers[] = {
	{ "worker", "WORKER", OUT_TEXT },
	{ "cpu", "CPU", OUT_NUMBER },
	{ "node", "NODE", OUT_NUMBER },
	{ "tid", "TID", OUT_NUMBER },
	{ "state", "STATE", OUT_TEXT },
	{ "pid", "CLIENT PID", OUT_TEXT },
	{ "running_ns", "RUNNING", OUT_TIME },
	{ "task", "TASK", OUT_TEXT },
	{ NULL },
};

static const struct out_column status_clients[] = {
	{ "pid", "PID", OUT_TEXT },
	{ "uid", "UID", OUT_NUMBER },
	{ "command", "COMMAND", OUT_TEXT },
	{ "jobs", "JOBS", OUT_NUMBER },
	{ "failed", "FAILED", OUT_NUMBER },
	{ "age_ns", "CONNECTED", OUT_TIME },
	{ NULL },
};

static json_t *status_document(const struct board *board)
{
	_cleanup_json_ json_t *quarantine = rows_quarantine(board);
	_cleanup_json_ json_t *crashes = rows_crashes(board);
	size_t n = json_array_size(crashes);
	json_t *last = n ? json_incref(json_array_get(crashes, n - 1)) : json_null();

	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "manager", rows_manager(board),
			 "pool", rows_pool(board), "connections", rows_connections(board),
			 "last_crash", last, "quarantined", out_number(json_array_size(quarantine)),
			 "workers", rows_workers(board), "clients",
			 rows_clients(board, ROWS_CONNECTED));
}

/* Formats a member of a member of the document as a table would. */
static const char *show(struct out_cell *cell, const json_t *document, const char *key,
			const char *member, enum out_format format)
{
	return out_show(cell, json_object_get(json_object_get(document, key), member), format);
}

static void print_head(const json_t *d)
{
	struct out_cell a, b, c, e, f;

	printf("forkd %s: %s for %s, pid %s\n", show(&a, d, "manager", "version", OUT_TEXT),
	       show(&b, d, "manager", "state", OUT_TEXT),
	       show(&c, d, "manager", "age_ns", OUT_TIME),
	       show(&e, d, "manager", "pid", OUT_NUMBER));
	if (json_is_null(json_object_get(json_object_get(d, "pool"), "pid")))
		printf("pool: not running, crashes: %s\n",
		       show(&a, d, "pool", "crashes", OUT_NUMBER));
	else
		printf("pool: pid %s, generation %s, %s, workers: %s, crashes: %s\n",
		       show(&a, d, "pool", "pid", OUT_NUMBER),
		       show(&b, d, "pool", "generation", OUT_NUMBER),
		       show(&c, d, "pool", "scheduler", OUT_TEXT),
		       show(&e, d, "pool", "workers", OUT_NUMBER),
		       show(&f, d, "pool", "crashes", OUT_NUMBER));
	if (json_integer_value(json_object_get(json_object_get(d, "pool"), "offline")))
		printf("offline: %s of %s workers, whose CPUs forkd may not use\n",
		       show(&a, d, "pool", "offline", OUT_NUMBER),
		       show(&b, d, "pool", "workers", OUT_NUMBER));
	printf("clients: %s of at most %s, users: %s, connections: %s accepted, %s refused\n",
	       show(&a, d, "connections", "clients", OUT_NUMBER),
	       show(&b, d, "connections", "most", OUT_NUMBER),
	       show(&c, d, "connections", "users", OUT_NUMBER),
	       show(&e, d, "connections", "accepted", OUT_NUMBER),
	       show(&f, d, "connections", "refused", OUT_NUMBER));
}

static void print_trouble(const json_t *d)
{
	json_int_t n = json_integer_value(json_object_get(d, "quarantined"));
	struct out_cell when, end, task, uid;

	if (!json_is_null(json_object_get(d, "last_crash"))) {
		printf("last crash: %s, %s", show(&when, d, "last_crash", "time_ns", OUT_DATE),
		       show(&end, d, "last_crash", "end", OUT_TEXT));
		if (!json_is_null(json_object_get(json_object_get(d, "last_crash"), "pid")))
			printf(", %s of uid %s", show(&task, d, "last_crash", "task", OUT_TEXT),
			       show(&uid, d, "last_crash", "uid", OUT_NUMBER));
		printf(" (see `forkctl crashes`)\n");
	}
	if (n)
		printf("quarantine: %" JSON_INTEGER_FORMAT
		       " task%s refused (see `forkctl quarantine`)\n",
		       n, forkctl_plural((uint64_t)n));
}

int forkctl_status(const char *socket, int argc, char *argv[])
{
	_cleanup_json_ json_t *document = NULL;
	fk_client *client;
	struct listing l;
	int err = listing_open(socket, forkctl_table_options, false, argc, argv, &l, &client);

	if (err)
		return err;
	document = status_document(client->board);
	(void)fk_close(client);
	if (l.json)
		return out_print_json(steal_ptr(document), 2);
	print_head(document);
	print_trouble(document);
	listing_print(&l, "\n", json_object_get(document, "workers"), status_workers);
	listing_print(&l, "\n", json_object_get(document, "clients"), status_clients);
	return FORKCTL_OK;
}
