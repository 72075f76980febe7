/* SPDX-License-Identifier: MIT */
/* connections.h - all connections of clients, and what concerns them together */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct job;
struct ledger_row;
struct conn_table;

/* How many have a slot and a connection. */
uint32_t conn_n_open(const struct conn_table *table);

/* Puts on the board how many there are and were; changed is not called. */
void conn_show_counts(struct conn_table *table);

/* The jobs that run, and the number of users that have some: as the ledger has them. */
void conn_count_running(const struct conn_table *table, uint32_t *ret_n_jobs,
			uint32_t *ret_n_users);

/* Counts jobs that the manager gave their outcome. */
void conn_count_fails(struct conn_table *table, uint64_t n);

/* The options have changed: judges again which tasks each may call and how much each tenant weighs,
 * and tells the pool, which knows the rules. */
void conn_judge_all(struct conn_table *table);

/* A slot's job records and how many, or NULL: a recovery_records; context is the table. */
struct job *conn_records(void *context, uint32_t client, uint32_t *ret_n);

/* True if a slot's client is gone, or the pool has let go of it and it has not closed yet. */
bool conn_is_gone(void *context, uint32_t client);

/* The process that has a slot: false if none has. */
bool conn_identity(const struct conn_table *table, uint32_t client, uint32_t *ret_pid,
		   uint32_t *ret_uid);

/* A job of this row got its outcome from the manager: its tenant counts it, unless the pool had. A
 * recovery_limits.ended; context is the table. */
void conn_on_ended(void *context, uint32_t client, uint32_t at, const struct ledger_row *row);

/* Gives every job that is still pending this outcome. Returns how many. */
uint64_t conn_finish_all(struct conn_table *table, uint32_t outcome);
