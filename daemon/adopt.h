/* SPDX-License-Identifier: MIT */
/* daemon/adopt.h - a manager goes on with the clients of one that has ended */
#ifndef DAEMON_ADOPT_H
#define DAEMON_ADOPT_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/fronts.h"
#include "daemon/hangup.h"
#include "daemon/roster.h"
#include "daemon/session_table.h"
#include "daemon/store.h"

/* What a former manager has left, or what this one has made instead. */
struct adopt {
	struct roster *roster;
	bool inherited; /* it is a former manager's */
	int roster_fd;
	int board_fd;	    /* -1: there is none */
	int arena_fd;	    /* as well */
	uint32_t n_clients; /* of a former manager, that this one goes on with */
	struct store_put puts[3];
};

#define ADOPT_INIT                                                                                 \
	{                                                                                          \
		.roster_fd = -1, .board_fd = -1, .arena_fd = -1                                    \
	}

/*
 * Looks at what the store has, and waits until no former pool is alive. If this forkd cannot go on
 * from there, each job has its outcome, each connection its end, the store is empty, and there is a
 * new roster.
 * geometry: of what this one is to make.
 * Returns 0, or a negative errno: a new roster cannot be made.
 */
int adopt_begin(struct adopt *adopt, struct store *store, struct hangups *hangups,
		const struct roster_geometry *geometry);

/* Board and arena are there: what is new goes into the store. They are the fronts' from now on. */
void adopt_share(struct adopt *adopt, struct store *store, const struct fronts *fronts);

/* True if the next forkd can go on from here. */
bool adopt_is_shared(const struct adopt *adopt, struct store *store);

/* Goes on with tenants and clients. The table is as for none; what it needs is set. */
void adopt_clients(struct adopt *adopt, struct session_table *table);

/* What stands in the store stays there. */
void adopt_fini(struct adopt *adopt);

#endif
