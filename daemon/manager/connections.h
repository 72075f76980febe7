/* SPDX-License-Identifier: MIT */
/* connections.h - operations on all connections of clients */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct job;
struct ledger_row;
struct conn_table;

/* Returns the number of connections with a slot. */
uint32_t conn_n_open(const struct conn_table *table);

/* Updates the counts on the board; does not call changed(). */
void conn_show_counts(struct conn_table *table);

/* Counts running jobs, and users that have some, in the ledger. */
void conn_count_running(const struct conn_table *table, uint32_t *ret_n_jobs,
			uint32_t *ret_n_users);

/* Counts jobs whose outcome the manager has set. */
void conn_count_fails(struct conn_table *table, uint64_t n);

/* The options have changed: recomputes each connection's allowed tasks and each tenant's weight,
 * and sends them to the pool, which has the rules. */
void conn_judge_all(struct conn_table *table);

/* Returns a slot's job records and their number, or NULL: a recovery_records; context is the
 * table. */
struct job *conn_records(void *context, uint32_t client, uint32_t *ret_n);

/* True if a slot's client has gone, or the pool has released it and it has not closed yet. */
bool conn_is_gone(void *context, uint32_t client);

/* Returns the process that has a slot: false if there is none. */
bool conn_identity(const struct conn_table *table, uint32_t client, uint32_t *ret_pid,
		   uint32_t *ret_uid);

/* A job of this row got its outcome from the manager: counts it for its tenant, unless the pool
 * had. A recovery_limits.ended; context is the table. */
void conn_on_ended(void *context, uint32_t client, uint32_t at, const struct ledger_row *row);

/* Gives every pending job this outcome. Returns their number. */
uint64_t conn_finish_all(struct conn_table *table, uint32_t outcome);
