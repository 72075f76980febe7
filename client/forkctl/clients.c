/* SPDX-License-Identifier: MIT */
/* clients.c - forkctl clients: the connections, and what each has used */
#include "client/forkctl/common.h"
#include "client/forkctl/forkctl.h"
#include "client/lib/client_state.h"

#include "client/forkctl/board_rows.h"
#include "common/util.h"

static const struct data_column clients_columns[] = {
	{ "client", "CLIENT", DATA_NUMBER }, { "pid", "PID", DATA_NUMBER },
	{ "user", "USER", DATA_TEXT },	     { "command", "COMMAND", DATA_TEXT },
	{ "jobs", "JOBS", DATA_NUMBER },     { "failed", "FAILED", DATA_NUMBER },
	{ "cpu_ns", "CPU", DATA_TIME },	     { "cpu_share", "SHARE", DATA_PERCENT },
	{ "weight", "WEIGHT", DATA_NUMBER }, { "memory_bytes", "MEMORY", DATA_BYTES },
	{ "age_ns", "FOR", DATA_TIME },	     { NULL },
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
		return data_print_json(json_pack("{s:O}", "clients", rows), 2);
	data_print_table("", rows, clients_columns);
	return FORKCTL_OK;
}
