/* SPDX-License-Identifier: MIT */
/* clients.c - forkctl clients: the connections, and what each has used */
#include "client/forkctl/common.h"
#include "client/forkctl/forkctl.h"
#include "client/forkctl/listing.h"
#include "client/lib/client_state.h"

#include "client/forkctl/board_rows.h"
#include "common/util.h"

static const struct out_column clients_columns[] = {
	{ "client", "CLIENT", OUT_NUMBER },  { "pid", "PID", OUT_NUMBER },
	{ "user", "USER", OUT_TEXT },	     { "command", "COMMAND", OUT_TEXT },
	{ "jobs", "JOBS", OUT_NUMBER },	     { "failed", "FAILED", OUT_NUMBER },
	{ "cpu_ns", "CPU", OUT_TIME },	     { "cpu_share", "SHARE", OUT_PERCENT },
	{ "weight", "WEIGHT", OUT_NUMBER },  { "memory_bytes", "MEMORY", OUT_BYTES },
	{ "age_ns", "CONNECTED", OUT_TIME }, { NULL },
};

const struct forkctl_option forkctl_clients_options[] = {
	LISTING_JSON(0), LISTING_NO_HEADER(0), LISTING_QUIET(0),
	LISTING_USER,	 LISTING_CLIENT,       LISTING_STATE("connected|left"),
	{ 0 },
};

int forkctl_clients(const char *socket, int argc, char *argv[])
{
	_cleanup_json_ json_t *rows = NULL;
	fk_client *client;
	struct listing l;
	int err = listing_open(socket, forkctl_clients_options, true, argc, argv, &l, &client);

	if (err)
		return err;
	rows = rows_clients(client->board, l.state ? ROWS_ALL : ROWS_CONNECTED);
	listing_select(&l, rows, "command");
	(void)fk_close(client);
	if (l.json)
		return out_print_json(json_pack("{s:O}", "clients", rows), 2);
	listing_print(&l, "", rows, clients_columns);
	return FORKCTL_OK;
}
