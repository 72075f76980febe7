/* SPDX-License-Identifier: MIT */
/* clients.c - forkctl clients: the connections, and what each has used */
#include "client/forkctl/common.h"
#include "client/forkctl/forkctl.h"
#include "client/lib/client_state.h"

#include "client/forkctl/board_rows.h"
#include "common/util.h"

static const struct out_column clients_columns[] = {
	{ "client", "CLIENT", OUT_NUMBER }, { "pid", "PID", OUT_NUMBER },
	{ "user", "USER", OUT_TEXT },	    { "command", "COMMAND", OUT_TEXT },
	{ "jobs", "JOBS", OUT_NUMBER },	    { "failed", "FAILED", OUT_NUMBER },
	{ "cpu_ns", "CPU", OUT_TIME },	    { "cpu_share", "SHARE", OUT_PERCENT },
	{ "weight", "WEIGHT", OUT_NUMBER }, { "memory_bytes", "MEMORY", OUT_BYTES },
	{ "age_ns", "FOR", OUT_TIME },	    { NULL },
};

int forkctl_clients(const char *socket, int argc, char *argv[])
{
	_cleanup_json_ json_t *rows = NULL;
	fk_client *client;
	int json, err = forkctl_look(socket, argc, argv, &json, &client);

	if (err)
		return err;
	rows = rows_clients(client->board, ROWS_CONNECTED);
	(void)fk_close(client);
	if (json)
		return out_print_json(json_pack("{s:O}", "clients", rows), 2);
	out_print_table("", rows, clients_columns);
	return FORKCTL_OK;
}
