/* SPDX-License-Identifier: MIT */
/*
 * client/forkctl_stat.c - forkctl stat: every counter, as a sum, of the pool's own threads and per
 * worker; time per client
 *
 * The rows come from shm/counters.def. Statistics, not of one moment.
 */
#include "client/forkctl.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client/forkctl_rows.h"
#include "common/util.h"

#define STAT_COLUMNS 16u /* with more workers, those are not printed */
#define STAT_FIXED   4u

static const struct data_column stat_fixed[STAT_FIXED] = {
	{ "name", "COUNTER", DATA_TEXT },
	{ "unit", "UNIT", DATA_TEXT },
	{ "sum", "SUM", DATA_NUMBER },
	{ "pool", "POOL", DATA_NUMBER },
};

static const struct data_column stat_clients[] = {
	{ "pid", "PID", DATA_TEXT },
	{ "command", "COMMAND", DATA_TEXT },
	{ "jobs", "JOBS", DATA_NUMBER },
	{ "failed", "FAILED", DATA_NUMBER },
	{ "refused", "REFUSED", DATA_NUMBER },
	{ "run_ns", "RUN", DATA_TIME },
	{ "wait_ns", "WAIT", DATA_TIME },
	{ "state", "STATE", DATA_TEXT },
	{ NULL },
};

static void print_counters(const struct board *board, const json_t *counters)
{
	struct data_column columns[STAT_FIXED + STAT_COLUMNS + 1] = { 0 };
	uint32_t n = min(board->manager.n_workers, LIMIT_WORKERS);
	char titles[STAT_COLUMNS][24];

	memcpy(columns, stat_fixed, sizeof(stat_fixed));
	for (uint32_t w = 0; n <= STAT_COLUMNS && w < n; w++) {
		(void)snprintf(titles[w], sizeof(titles[w]), "WORKER %" PRIu32, w);
		columns[STAT_FIXED + w] =
			(struct data_column){ "workers", titles[w], DATA_NUMBER, w + 1 };
	}
	data_print_table("", counters, columns);
}

static int stat_print(const struct board *board, int json)
{
	_cleanup_json_ json_t *counters = rows_counters(board);
	_cleanup_json_ json_t *clients = rows_clients(board, ROWS_ALL);

	if (json)
		return data_print_json(
			json_pack("{s:O, s:O}", "counters", counters, "clients", clients), 2);
	print_counters(board, counters);
	data_print_table("\n", clients, stat_clients);
	return FORKCTL_OK;
}

int forkctl_stat(const char *socket, int argc, char *argv[])
{
	fk_client *client;
	int json, err = forkctl_look(socket, argc, argv, &json, &client);

	if (err)
		return err;
	err = stat_print(client->board, json);
	(void)fk_close(client);
	return err;
}
