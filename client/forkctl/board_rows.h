/* SPDX-License-Identifier: MIT */
/*
 * board_rows.h - rows that several commands show; forkd-json(5) lists their members
 *
 * All of them are read from the board, without a request to forkd. Each number is exact, but the
 * numbers are not of the same time.
 */
#pragma once

#include "client/forkctl/output.h"
#include "common/relaxed.h"
#include "shm/board.h"

/* A word of the board. Relaxed: for display. */
#define LOAD(x) load_relaxed(&(x))

enum rows_clients {
	ROWS_CONNECTED,
	ROWS_ALL, /* also clients that have left, as far as the board has them */
};

/* One object each. */
json_t *rows_manager(const struct board *board);
json_t *rows_pool(const struct board *board);
json_t *rows_connections(const struct board *board);

json_t *rows_clients(const struct board *board, enum rows_clients which);
json_t *rows_workers(const struct board *board);
json_t *rows_counters(const struct board *board);
json_t *rows_quarantine(const struct board *board);
/* One row for each crash on the board, the oldest first. */
json_t *rows_crashes(const struct board *board);

/* The name of the user, or the uid if there is none. */
json_t *rows_user(uint32_t uid);

/* The name of the client's program. If forkd may not see other processes, this process reads it
 * from /proc. */
json_t *rows_command(const struct board_client *client);

/* The name of a task on the board; null for none. */
json_t *rows_task(const struct board *board, uint32_t task);

/* The jobs of a task that this pool has ended. */
json_t *rows_load(const struct board *board, uint32_t task);
