/* SPDX-License-Identifier: MIT */
/*
 * board_rows.h - rows that several commands show; forkd-json(5) lists their members
 *
 * All of them come from the board: no process is asked or stopped. Each number is right by
 * itself, and they are not of one moment.
 */
#pragma once

#include "client/forkctl/output.h"
#include "common/relaxed.h"
#include "shm/board.h"

/* A word of the board. Relaxed: for display. */
#define LOAD(x) load_relaxed(&(x))

enum rows_clients {
	ROWS_CONNECTED,
	ROWS_ALL, /* those that have left as well, as far as the board remembers them */
};

/* One row each. */
json_t *rows_daemon(const struct board *board);
json_t *rows_pool(const struct board *board);
json_t *rows_connections(const struct board *board);

json_t *rows_clients(const struct board *board, enum rows_clients which);
json_t *rows_workers(const struct board *board);
json_t *rows_counters(const struct board *board);
json_t *rows_quarantine(const struct board *board);
/* The oldest first. */
json_t *rows_crashes(const struct board *board);

/* The name of the user, or the number if he has none. */
json_t *rows_user(uint32_t uid);

/* The name of the program of a connection. A service that sees no other processes does not know it:
 * then this process looks. */
json_t *rows_command(const struct board_client *client);

/* The name of a task on the board; null for none. */
json_t *rows_task(const struct board *board, uint32_t task);

/* The jobs of a task that this pool has ended. */
json_t *rows_load(const struct board *board, uint32_t task);
