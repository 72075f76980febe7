/* SPDX-License-Identifier: MIT */
/* connection.h - the states of a client's connection */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct import_processes;
struct reload_terms;
struct saved_entry;
struct conn_table;

/* Takes over a connection that was just accepted. False: it exceeded its uid's limit. */
bool conn_accept(struct conn_table *table, int fd);

/* Tells a pool that has just become ready about all tenants and clients. */
void conn_tell_pool(struct conn_table *table);

/* The pool has mapped a client's segment; or text is the error, which ends the client. */
void conn_attached(struct conn_table *table, uint32_t client, uint32_t generation,
		   const char *text);

/* A process that checked a file of this uid has ended: the next request of the uid begins. */
void conn_import_next(struct import_processes *all, uint32_t uid);

/* The pool has mapped an import of a client; or text is the error. False: then the client cannot be
 * served, conn_attached(). */
bool conn_imported(struct conn_table *table, uint32_t client, uint32_t generation, uint32_t index,
		   const char *text);

/* The pool has released a client: removes its segment, and then frees its slot. False if that
 * client has not left. */
bool conn_released(struct conn_table *table, uint32_t client, uint32_t generation);

/* A client's descriptors in the store; -1: none. */
struct conn_inherited {
	int socket;
	int pidfd;
	int segment;
};

/* The client's segment, its rings or an import is missing: it is disconnected. */
#define CONN_LOST 1

/* Takes over a client of an earlier manager from the saved state; its tenant exists, and no pool is
 * alive. Takes the descriptors. Returns 0; CONN_LOST; or a negative errno, and the client's state
 * is kept for the next manager. */
int conn_takeover(struct conn_table *table, uint32_t slot, const struct saved_entry *entry,
		  const struct conn_inherited *fds);

/* The pool has answered PROTO_POOL_TRACE; text: empty, or why it cannot trace. False if it was not
 * asked. */
bool conn_traced(struct conn_table *table, const char *text);

/* The pool that was traced has ended; planned: replaced by another one. */
void conn_trace_lost(struct conn_table *table, bool planned);

/* A reload has ended, and with it all requested up to this number: answers their connections. code:
 * 0, or a negative errno; text: a line about it. */
void conn_reloaded(struct conn_table *table, uint64_t number, int code, const char *text);

/* Combines the terms of all connections that wait for a reload up to this number with *terms: the
 * longest time, and force if any requests it. False: no connection waits. */
bool conn_join_reload(const struct conn_table *table, uint64_t number, struct reload_terms *terms);

/* The pool has processed more messages, or has ended (pool_process_ask()): answers connections that
 * wait for that. */
void conn_heard(struct conn_table *table);

/* Refuses connections that are not open yet; new ones are refused while table->stopping. */
void conn_stop(struct conn_table *table);

/* Closes the connections that wait in the line (connection_line.c); refuses: with an answer. */
void conn_line_end(struct conn_table *table, bool refuses);

void conn_fini(struct conn_table *table);
