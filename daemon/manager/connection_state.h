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

/* How long a reload waits for jobs that run, if the pool has to be replaced, and what it does then.
 * All zero: not at all, and nothing changes. */
struct reload_terms {
	uint64_t limit_ns;
	bool force; /* they are ended; otherwise nothing changes */
};

#define CONN_SLOT_NONE UINT32_MAX

enum conn_state {
	CONN_GREETING,
	CONN_MAKING, /* has a slot from here on */
	CONN_OPEN,
	CONN_GONE,
	CONN_EMPTYING,
};

struct conn {
	struct conn_table *table;
	enum conn_state state;
	int fd;
	int pidfd;     /* -1 where there is none */
	int unwatched; /* why there is none: a negative errno; 0: there cannot be one (I5) */
	uint32_t pid;
	uint32_t uid;
	struct loop_source socket_source;
	struct loop_source pidfd_source;
	struct loop_source timer_source;
	/* GREETING */
	struct list_link link;
	uint64_t reload;	   /* the number of the reload that it waits for, 0: of none */
	struct reload_terms terms; /* of that reload */
	uint64_t heard; /* what the pool is to have heard before it is answered so, 0: nothing */
	struct proto_set answer;
	bool traces; /* trace_subscribers.c, T3 */
	/* from MAKING on */
	uint32_t slot;
	uint32_t generation;
	uint32_t tenant;
	bool welcomed;
	bool inherited;		    /* a former manager may have welcomed it */
	bool held;		    /* GONE: the client has not let go of it (I4) */
	bool released;		    /* GONE: by the pool */
	bool charged;		    /* for a request that was not served yet */
	struct proto_cancel cancel; /* to be passed on; generation 0: none */
	struct segments_client segment;
	struct admission_rights rights; /* admission.c, I3 */
	uint32_t *unwanted;		/* control_request.c, I1; NULL: none */
	struct fdstore_put put;		/* MAKING: its descriptors go into the store */
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
	bool stopping;
	/* lines that clients can provoke */
	struct log_limit refusals;
	struct log_limit offences;
	struct log_limit misfits;
	/* An operator's client changes a setting. Returns 0 with the value it had, or a negative
	 * errno with a line that says why. */
	int (*set)(struct conn_table *table, const char *name, const char *value, char *ret_old,
		   size_t old_size, char *ret_error, size_t error_size);
	/* The same: it ends a quarantine; quarantine_lift(). */
	int (*lift)(struct conn_table *table, const char *task, const char *uid, char *ret_n,
		    size_t n_size, char *ret_error, size_t error_size);
	/* The same: forkd.conf is to be read again. conn_reloaded() answers this number, or a later
	 * one; it may be called before this has returned. */
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
	struct list_link greeting; /* those that have not said HELLO yet, the newest first */
	/* trace_subscribers.c */
	struct {
		int fd;	 /* the segment, -1: no connection traces */
		bool on; /* the pool has said so */
	} trace;
	struct conn *slots[LIMIT_CLIENTS];
	uint32_t generations[LIMIT_CLIENTS]; /* of the slot's next client */
	uint64_t freed[LIMIT_CLIENTS];	     /* when the slot became free, counted in n_freed */
	uint64_t n_freed;
	/* what the board says of them */
	uint64_t accepted;
	uint64_t refused;
	uint64_t manager_fails;
};
