/* SPDX-License-Identifier: MIT */
/* takeover.h - a manager continues with the clients of an earlier one */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/manager/fdstore.h"

struct pool_segments;
struct socket_closer;
struct hwloc_bitmap_s;
struct options;
struct saved_state;
struct saved_geometry;
struct conn_table;

struct takeover {
	struct saved_state *saved; /* NULL: there is none yet */
	bool inherited;		   /* it is an earlier manager's, and this one continues from it */
	bool abandoned;		   /* an earlier pool was killed and has not ended */
	int saved_fd;
	int board_fd;	    /* -1: there is none */
	int arena_fd;	    /* the same */
	const char *arena;  /* its name in the store */
	uint32_t n_clients; /* of an earlier manager, now this one's */
	struct fdstore_put puts[3];
};

#define TAKEOVER_INIT                                                                              \
	((struct takeover){                                                                        \
		.saved_fd = -1, .board_fd = -1, .arena_fd = -1, .arena = FDSTORE_ARENA })

/* Waits until no earlier pool is alive, or abandons it, and looks at what the last manager has left
 * in the store. Called before anything that can fail: so the next manager finds the rest, and no
 * pool that works on it. */
void takeover_look(struct takeover *takeover, struct store *store);

/* Sets options that are auto (workers, cpus) to the earlier manager's values, if this one can
 * continue from its state. Returns the old arena-max, for budget_decide(); 0: no constraint. */
uint64_t takeover_inherit(const struct takeover *takeover, struct options *options);

/* True if workers of the earlier manager were pinned to these CPUs, present or not. */
bool takeover_had_cpus(const struct takeover *takeover, const struct hwloc_bitmap_s *cpus);

/*
 * If this forkd cannot continue from the earlier state: gives each job its outcome, ends each
 * connection, empties the store, and makes a new saved state.
 * geometry: of this forkd's segments. cpus: of the workers.
 * Returns 0, or a negative errno: no new saved state could be made.
 */
int takeover_begin(struct takeover *takeover, struct store *store, struct socket_closer *closer,
		   const struct saved_geometry *geometry, const struct hwloc_bitmap_s *cpus);

/* Board and arena exist: puts new ones into the store. pool_segments owns their descriptors from
 * now on. */
void takeover_share(struct takeover *takeover, struct store *store,
		    const struct pool_segments *pool_segments);

/* The arena was replaced: stores the new one instead, and before removing the last one if there is
 * room for both. */
void takeover_share_arena(struct takeover *takeover, struct store *store,
			  const struct pool_segments *pool_segments);

/* True if the next forkd can continue from here. */
bool takeover_is_shared(const struct takeover *takeover, const struct store *store);

/* Takes over tenants and clients. The table is initialized and empty. Returns 0, or a negative
 * errno: then all that is in the store stays for the next manager. */
int takeover_clients(struct takeover *takeover, struct conn_table *table);

/* Leaves the store unchanged. */
void takeover_fini(struct takeover *takeover);
