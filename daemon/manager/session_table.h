/* SPDX-License-Identifier: MIT */
/* session_table.h - all connections of clients, and what concerns them together */
#ifndef DAEMON_MANAGER_SESSION_TABLE_H
#define DAEMON_MANAGER_SESSION_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/log.h"
#include "common/options.h"
#include "daemon/manager/hangup.h"
#include "daemon/manager/loop.h"
#include "daemon/manager/poolproc.h"
#include "daemon/manager/quota.h"
#include "daemon/manager/roster.h"
#include "daemon/manager/segments.h"
#include "daemon/manager/store.h"
#include "daemon/manager/tenants.h"
#include "shm/board.h"
#include "shm/job.h"
#include "shm/limits.h"

struct session;

/* How long a reload waits for jobs that run, if the pool has to be replaced, and what it does then.
 * All zero: not at all, and nothing changes. */
struct reload_terms {
	uint64_t limit_ns;
	bool force; /* they are ended; otherwise nothing changes */
};

struct session_table {
	struct loop *loop;
	const struct options *options;
	struct poolproc *pool;
	struct board *board;
	int board_fd; /* read-only, for clients; borrowed */
	struct tenants tenants;
	struct segments segments;
	uint32_t stranger;	/* userns_stranger() */
	uint32_t strange_group; /* userns_strange_group() */
	struct hangups *hangups;
	struct roster *roster;
	struct store *store;
	bool stopping;
	/* lines that clients can provoke */
	struct log_limit refusals;
	struct log_limit offences;
	struct log_limit misfits;
	/* Somebody who may do that wants to change a setting. Returns 0 with the value it had, or a
	 * negative errno with a line that says why. */
	int (*set)(struct session_table *table, const char *name, const char *value, char *ret_old,
		   size_t old_size, char *ret_error, size_t error_size);
	/* The same: somebody wants a quarantine to end; quarantine_lift(). */
	int (*lift)(struct session_table *table, const char *task, const char *uid, char *ret_n,
		    size_t n_size, char *ret_error, size_t error_size);
	/* The same: somebody wants forkd.conf to be read again. session_reloaded() tells of it by
	 * this number, or a later one; it may be called before this has returned. */
	void (*reload)(struct session_table *table, uint32_t pid, uint32_t uid,
		       uint64_t *ret_number);
	/* called when a connection that waits for a reload has ended, answered or not */
	void (*reload_left)(struct session_table *table);
	/* called when the number of connections has changed */
	void (*changed)(struct session_table *table);

	/* session_line.c */
	struct quota_pace pace;
	struct {
		struct session_waiting {
			int fd;
			uint32_t uid;
		} first[QUOTA_WAITING];
		uint32_t n;
		struct loop_source source;
	} line;
	struct session *greeting; /* list of those that have not said HELLO yet, the newest first */
	/* session_trace.c */
	struct {
		int fd;	 /* the segment, -1: nobody traces */
		bool on; /* the pool has said so */
	} trace;
	struct session *slots[LIMIT_CLIENTS];
	uint32_t generations[LIMIT_CLIENTS]; /* of the slot's next client */
	uint64_t freed[LIMIT_CLIENTS];	     /* when the slot became free, counted in n_freed */
	uint64_t n_freed;
	/* what the board says of them */
	uint64_t accepted;
	uint64_t refused;
	uint64_t manager_fails;
};

/* How many have a slot and a connection. */
uint32_t session_n_open(const struct session_table *table);

/* Puts on the board how many there are and were; changed is not called. */
void session_show_counts(struct session_table *table);

/* The jobs that run, and the number of users that have some: as the ledger has them. */
void session_count_running(const struct session_table *table, uint32_t *ret_n_jobs,
			   uint32_t *ret_n_users);

/* Counts jobs that the manager gave their outcome. */
void session_count_fails(struct session_table *table, uint64_t n);

/* Tells the pool, which has just become ready, of all tenants and clients. */
void session_tell_pool(struct session_table *table);

/* The options have changed: what each may call, and how much each tenant weighs, is judged anew,
 * and the pool, which knows the rules, is told. */
void session_judge_all(struct session_table *table);

/* A slot's job records and how many, or NULL: a recover_records; context is the table. */
struct job *session_records(void *context, uint32_t client, uint32_t *ret_n);

/* True if a slot's client is gone, or the pool has let go of it and it has not closed yet. */
bool session_is_gone(void *context, uint32_t client);

/* Who has a slot: false if nobody. */
bool session_identity(const struct session_table *table, uint32_t client, uint32_t *ret_pid,
		      uint32_t *ret_uid);

/* A job of this row got its outcome from the manager: its tenant counts it, unless the pool had. A
 * recover_limits.ended; context is the table. */
void session_on_ended(void *context, uint32_t client, uint32_t at, const struct ledger_row *row);

/* Gives every job that is still pending this outcome. Returns how many. */
uint64_t session_finish_all(struct session_table *table, uint32_t outcome);

#endif
