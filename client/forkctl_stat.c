/* SPDX-License-Identifier: MIT */
/*
 * client/forkctl_stat.c - forkctl stat: every counter, as a sum, of the pool's own threads and per
 * worker; time per client
 *
 * The rows come from shm/counters.def. Statistics: relaxed loads, not of one moment.
 */
#include "client/forkctl.h"

#include <inttypes.h>
#include <stdio.h>

#include "common/util.h"

#define STAT_COLUMNS 16u /* with more workers, those are not printed */

#define LOAD(x) atomic_load_explicit(&(x), memory_order_relaxed)

static void print_counters(const struct board *board)
{
	uint32_t n = min(board->manager.n_workers, LIMIT_WORKERS);
	uint32_t columns = n <= STAT_COLUMNS ? n : 0;
	char title[16];

	printf("%-16s %-9s %14s %14s", "COUNTER", "UNIT", "SUM", "POOL");
	for (uint32_t w = 0; w < columns; w++) {
		(void)snprintf(title, sizeof(title), "WORKER %" PRIu32, w);
		printf(" %14s", title);
	}
	printf("\n");
	for (uint32_t i = 0; i < board_n_counters; i++) {
		const struct counter_row *row = &board_counter_rows[i];

		/* Signed: what one worker frees another may have allocated. */
		printf("%-16s %-9s %14" PRId64 " %14" PRId64, row->name, row->unit,
		       (int64_t)board_counter_sum(board, row),
		       (int64_t)board_counter(board, BOARD_POOL, row));
		for (uint32_t w = 0; w < columns; w++)
			printf(" %14" PRId64, (int64_t)board_counter(board, w, row));
		printf("\n");
	}
}

static void print_clients(const struct board *board)
{
	printf("\n%-8s %-16s %10s %10s %10s %12s %12s %s\n", "CLIENT", "COMMAND", "JOBS", "FAILED",
	       "REFUSED", "RUN", "WAIT", "STATE");
	for (uint32_t i = 0; i < LIMIT_CLIENTS; i++) {
		const struct board_client *c = &board->clients[i];
		struct forkctl_text name;
		struct forkctl_text run;
		struct forkctl_text wait;
		uint32_t pid = LOAD(c->pid);

		if (!pid)
			continue;
		printf("%-8" PRIu32 " %-16s %10" PRIu64 " %10" PRIu64 " %10" PRIu64
		       " %12s %12s %s\n",
		       pid, forkctl_command(&name, c), LOAD(c->jobs), LOAD(c->failed),
		       LOAD(c->refused), forkctl_time(&run, LOAD(c->run_ns)),
		       forkctl_time(&wait, LOAD(c->wait_ns)),
		       LOAD(c->left_ns) ? "left" : "connected");
	}
}

int forkctl_stat(const char *socket, int argc, char *argv[])
{
	fk_client *client;
	int err = forkctl_look(socket, argc, argv, &client);

	if (err)
		return err;
	print_counters(client->board);
	print_clients(client->board);
	(void)fk_close(client);
	return FORKCTL_OK;
}
