/* SPDX-License-Identifier: MIT */
/* connection_state.h - the state of one connection, and of all; no functions */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/list.h"
#include "common/log.h"
#include "daemon/manager/admission.h"
#include "daemon/manager/client_segments.h"
#include "daemon/manager/fdstore.h"
#include "daemon/manager/import_check.h"
#include "daemon/manager/loop.h"
#include "daemon/manager/quota.h"
#include "daemon/manager/tenants.h"
#include "shm/limits.h"
#include "shm/proto.h"

struct board;
struct socket_closer;
struct options;
struct pool_process;
struct saved_state;
struct conn_table;

/* How long a reload waits for running jobs if the pool must be replaced, and what it does then. All
 * zero: it does not wait, and nothing changes. */
struct reload_terms {
	uint64_t limit_ns;
	bool force; /* end these jobs; otherwise nothing changes */
};

#define CONN_SLOT_NONE UINT32_MAX

/* A range of a client's file (connection_import.c). */
struct conn_import {
	struct conn *s;
	int fd; /* -1: none */
	uint64_t at;
	uint64_t offset;
	uint64_t size;
	struct fdstore_put put;
	bool stored;  /* the pool is told of it */
	bool told;    /* the pool has not answered yet, and the message to it may have fd */
	bool known;   /* the client has its answer */
	bool dropped; /* it is closed when the pool has answered */
};

/* A request for an import, in a connection that is GREETING. */
struct conn_import_request {
	struct proto_import ask; /* size 0: none */
	struct import_check check;
	bool waits;	/* for the end of another process of its uid */
	uint32_t index; /* + 1 of the client's import that it has become, 0: none */
};

enum conn_state {
	CONN_GREETING,
	CONN_MAKING, /* from here on it has a slot */
	CONN_OPEN,
	CONN_GONE,
	CONN_EMPTYING,
};

struct conn {
	struct conn_table *table;
	enum conn_state state;
	int fd;
	int pidfd;     /* -1: none */
	int unwatched; /* why there is no pidfd: a negative errno; 0: there cannot be one (I5) */
	uint32_t pid;
	uint32_t uid;
	struct loop_source socket_source;
	struct loop_source pidfd_source;
	struct loop_source timer_source;
	/* GREETING */
	struct list_link link;
	uint64_t reload;	   /* number of the reload that it waits for, 0: none */
	struct reload_terms terms; /* of that reload */
	uint64_t heard;		   /* number of the pool's message that it waits for, 0: none */
	struct proto_set answer;
	bool traces; /* trace_subscribers.c, T3 */
	struct conn_import_request import;
	/* from MAKING on */
	uint32_t slot;
	uint32_t generation;
	uint32_t tenant;
	bool welcomed;
	bool inherited;		    /* an earlier manager may have welcomed it */
	bool held;		    /* GONE: the client still has it open (I4) */
	bool released;		    /* GONE: by the pool */
	bool charged;		    /* for a request that is not served yet */
	struct proto_cancel cancel; /* to be forwarded; generation 0: none */
	struct proto_grow grow;	    /* to be started; number 0: none */
	uint32_t growing;	    /* number of the request for which the heap is extended */
	struct segments_client segment;
	struct admission_rights rights; /* admission.c, I3 */
	uint32_t *unwanted;		/* control_request.c, I1; NULL: none */
	struct conn_import *imports;	/* LIMIT_IMPORTS; NULL: none */
	struct fdstore_put put;		/* MAKING: its descriptors are put into the store */
};

struct conn_table {
	struct loop *loop;
	const struct options *options;
	struct pool_process *pool;
	struct board *board;
	int board_fd; /* read-only, for clients; borrowed */
	struct tenants tenants;
	struct segments segments;
	uint32_t stranger;	/* userns_stranger() */
	uint32_t strange_group; /* userns_strange_group() */
	struct socket_closer *closer;
	struct saved_state *saved;
	struct store *store;
	struct import_processes import_processes;
	bool stopping;
	/* log lines that clients can provoke */
	struct log_limit refusals;
	struct log_limit offences;
	struct log_limit misfits;
	/* An operator's client changes a setting. Returns 0 with the old value, or a negative errno
	 * with a line that explains it. */
	int (*set)(struct conn_table *table, const char *name, const char *value, char *ret_old,
		   size_t old_size, char *ret_error, size_t error_size);
	/* The same: ends a quarantine; quarantine_lift(). */
	int (*lift)(struct conn_table *table, const char *task, const char *uid, char *ret_n,
		    size_t n_size, char *ret_error, size_t error_size);
	/* The same: rereads forkd.conf. conn_reloaded() answers this number, or a later one; it may
	 * be called before this function returns. */
	void (*reload)(struct conn_table *table, uint32_t pid, uint32_t uid, uint64_t *ret_number);
	/* called when a connection that waits for a reload has ended, answered or not */
	void (*reload_left)(struct conn_table *table);
	/* called when the number of connections has changed */
	void (*changed)(struct conn_table *table);

	/* connection_line.c */
	struct quota_pace pace;
	struct {
		struct conn_waiting {
			int fd;
			uint32_t uid;
		} first[QUOTA_WAITING];
		uint32_t n;
		struct loop_source source;
	} line;
	struct list_link greeting; /* connections that have not said HELLO yet, the newest first */
	/* trace_subscribers.c */
	struct {
		int fd;	 /* the segment, -1: no connection traces */
		bool on; /* the pool has confirmed */
	} trace;
	struct conn *slots[LIMIT_CLIENTS];
	uint32_t generations[LIMIT_CLIENTS]; /* of the slot's next client */
	uint64_t freed[LIMIT_CLIENTS];	     /* n_freed when the slot became free */
	uint64_t n_freed;
	/* counts shown on the board */
	uint64_t accepted;
	uint64_t refused;
	uint64_t manager_fails;
};
