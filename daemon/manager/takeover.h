/* SPDX-License-Identifier: MIT */
/* takeover.h - a manager goes on with the clients of one that has ended */
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
	bool inherited;		   /* it is a former manager's, and this one goes on from there */
	bool abandoned;		   /* a former pool was killed and has not ended */
	int saved_fd;
	int board_fd;	    /* -1: there is none */
	int arena_fd;	    /* as well */
	const char *arena;  /* its name in the store */
	uint32_t n_clients; /* of a former manager, that this one goes on with */
	struct fdstore_put puts[3];
};

#define TAKEOVER_INIT                                                                              \
	((struct takeover){                                                                        \
		.saved_fd = -1, .board_fd = -1, .arena_fd = -1, .arena = FDSTORE_ARENA })

/* Waits until no former pool is alive, or abandons it, and looks at what the last manager has left
 * in the store. Before all that can fail: the next manager finds the rest, and no pool that works
 * on it. */
void takeover_look(struct takeover *takeover, struct store *store);

/*
 * Puts in for what the options leave open (workers, cpus) what the former manager had, if this one
 * can go on from there. Returns arena-max as it was then, for budget_decide(); 0: as it may be.
 */
uint64_t takeover_inherit(const struct takeover *takeover, struct options *options);

/* True if workers of the former manager were pinned to these CPUs, whatever has become of them. */
bool takeover_had_cpus(const struct takeover *takeover, const struct hwloc_bitmap_s *cpus);

/*
 * If this forkd cannot go on from what was left, each job has its outcome, each connection its end,
 * the store is empty, and there is a new saved state.
 * geometry: of what this one is to make. cpus: of the workers.
 * Returns 0, or a negative errno: a new saved state cannot be made.
 */
int takeover_begin(struct takeover *takeover, struct store *store, struct socket_closer *closer,
		   const struct saved_geometry *geometry, const struct hwloc_bitmap_s *cpus);

/* Board and arena are there: what is new goes into the store. Their descriptors are pool_segments'
 * from now on. */
void takeover_share(struct takeover *takeover, struct store *store,
		    const struct pool_segments *pool_segments);

/* The arena was replaced: the new one takes its place in the store. It is put before the last one
 * is removed, if there is room for both. */
void takeover_share_arena(struct takeover *takeover, struct store *store,
			  const struct pool_segments *pool_segments);

/* True if the next forkd can go on from here. */
bool takeover_is_shared(const struct takeover *takeover, const struct store *store);

/* Goes on with tenants and clients. The table is as for none; what it needs is set. Returns 0, or
 * what was short: all that is in the store stays for the next manager. */
int takeover_clients(struct takeover *takeover, struct conn_table *table);

/* What is in the store stays there. */
void takeover_fini(struct takeover *takeover);
