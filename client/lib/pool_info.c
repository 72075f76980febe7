/* SPDX-License-Identifier: MIT */
/* pool_info.c - reads data of the pool from the board and the connection */
#include "client/lib/client.h"

#include <errno.h>
#include <string.h>

#include "common/relaxed.h"
#include "common/util.h"

/* Number of NUMA nodes that have a worker. */
static uint32_t count_nodes(const struct board *board, uint32_t n_workers)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < n_workers; i++) {
		uint32_t before = 0;

		/* Relaxed: written once, before this client connected. */
		while (before < i && load_relaxed(&board->workers[before].node) !=
					     load_relaxed(&board->workers[i].node))
			before++;
		n += before == i;
	}
	return n;
}

int fk_pool_info(fk_client *client, struct fk_pool_info *ret_info)
{
	const struct board *board = client->board;
	const struct board_manager *manager = &board->manager;
	const struct waker_local *local = client->waker.local;
	const struct waker_cluster *cluster = local ? local->cluster : NULL;
	char text[CLIENT_TEXT] = "";
	uint32_t n_tasks = 0;
	int err = client_check(client);

	if (err)
		return err;
	if (client_is_gone(client))
		return -ECONNRESET;
	err = cluster ? cluster->find(&client->waker, NULL, text, sizeof(text)) : 0;
	if (err)
		return error_say(err, "%s", text);
	/* Relaxed, all of them: numbers for display. */
	for (uint32_t i = client_own_tasks(client);
	     i < min(load_relaxed(&board->n_tasks), LIMIT_TASKS); i++)
		n_tasks += !(load_relaxed(&board->tasks[i].flags) & TASK_GONE);
	*ret_info = (struct fk_pool_info){
		.workers = cluster ? cluster->workers(&client->waker) : client->n_workers,
		.nodes = count_nodes(board, client->n_workers),
		.scheduler = load_relaxed(&manager->scheduler),
		.modules = load_relaxed(&board->n_modules),
		.tasks = n_tasks,
		.connections = load_relaxed(&manager->clients),
		.users = load_relaxed(&manager->tenants),
		.pools = load_relaxed(&manager->pool_generation),
		.n_jobs = client->n_jobs,
		.heap_size = load_relaxed(&client->heap.size),
		.started_ns = manager->started_ns,
	};
	memcpy(ret_info->version, manager->version, sizeof(ret_info->version) - 1);
	return 0;
}
