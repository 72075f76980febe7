/* SPDX-License-Identifier: MIT */
/* tenants.h - the uids that forkd serves, and the segment with rings of each of them */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/manager/fdstore.h"
#include "daemon/manager/page_populate.h"
#include "shm/limits.h"
#include "shm/segment.h"

struct arena;
struct board;
struct loop;
struct pool_process;
struct saved_state;
struct tenant_segment;
struct tenants;

enum tenants_state {
	TENANTS_FREE,
	TENANTS_USED,
	TENANTS_LEAVING,  /* the pool is to let go of it */
	TENANTS_EMPTYING, /* its pages are taken back */
};

struct tenants_slot {
	struct tenants *all;
	enum tenants_state state;
	uint32_t uid;
	uint32_t weight;     /* among the users; the pool is told */
	uint32_t n_conns;    /* connections, and those that are gone and not released */
	uint64_t idle_since; /* without connections: when the last one was released, by n_idled */
	/* as the board has it: since when, CLOCK_MONOTONIC, and jobs that the manager gave their
	 * outcome */
	uint64_t since_ns;
	uint64_t ended;
	int fd;		     /* the segment: for clients of the uid */
	struct segment head; /* of the segment, as it was made */
	struct tenant_segment *segment;
	uint64_t size;
	struct pages pages;
	struct fdstore_put put;
};

struct tenants {
	/* the caller sets these; the rest starts as zero */
	struct loop *loop;
	struct pool_process *pool;
	struct saved_state *saved;
	struct store *store;
	struct board *board;
	int board_fd; /* borrowed */
	struct arena *arena;
	uint64_t epoch;
	uint32_t n_workers;
	/* what the pool is to know of a new one, before the tenant itself */
	void (*made)(struct tenants *tenants, uint32_t index);

	uint32_t n; /* slots that were ever used, from 0 on */
	uint64_t n_idled;
	uint64_t memory; /* bytes of the segments whose pages are not gone, and of their times */
	struct tenants_slot slots[LIMIT_TENANTS];
};

/* Bytes that tenants_attach() would make for the uid; 0 if its tenant is there. */
uint64_t tenants_needs(const struct tenants *tenants, uint32_t uid);

/* True if the uid has no tenant, and there is no slot for one. */
bool tenants_are_full(const struct tenants *tenants, uint32_t uid);

/* A connection of this uid begins: index of its tenant, with its head as the manager wrote it; made
 * if there is none; then they must not be full. Or a negative errno: what the system said. */
int tenants_attach(struct tenants *tenants, uint32_t uid);
/* Tells the pool of it: before each of its clients. Also if it knows it: a pool that could not map
 * it tries again. */
void tenants_tell(struct tenants *tenants, uint32_t index);
/* Changes its weight among the users, and tells the pool. */
void tenants_weigh(struct tenants *tenants, uint32_t index, uint32_t weight);
/* One has ended, and the pool has released it. */
void tenants_detach(struct tenants *tenants, uint32_t index);

/* The manager gave n of its jobs their outcome, which no pool has counted. */
void tenants_ended(struct tenants *tenants, uint32_t index, uint32_t n);

/* How many are in use, and how many of these have no connections. */
void tenants_count(const struct tenants *tenants, uint32_t *ret_used, uint32_t *ret_idle);
/* Releases tenants without connections, until n_idle are left. Their slots and bytes are free when
 * the pool has released them and their pages are gone. */
void tenants_trim(struct tenants *tenants, uint32_t n_idle);
/* The pool has let go of one: its pages go, then its slot is free. False if it may not say that. */
bool tenants_released(struct tenants *tenants, uint32_t index);

/* Tells the pool, which has just become ready, of all tenants; those that the last one was to let
 * go of are taken back. */
void tenants_tell_pool(struct tenants *tenants);

/* As if every ring of the tenant had just been written to: consumers look at all words of all of
 * them. */
void tenants_mark(struct tenants *tenants, uint32_t index);
void tenants_mark_all(struct tenants *tenants);

/* Wakes the pool's dispatcher, which looks at all rings, whatever clients do to the words on the
 * board (wake.h, W10). */
void tenants_ring(struct tenants *tenants);

/* Takes over what a former manager had, as the saved state has it; no pool is alive. Before any
 * connection. Returns 0, or what was short: no tenant is given up then. */
int tenants_takeover(struct tenants *tenants);
/* A connection that a former manager had is there. False if its tenant is not, or is another uid's.
 */
bool tenants_join(struct tenants *tenants, uint32_t index, uint32_t uid);
/* When all of these are: the others are idle. */
void tenants_settle(struct tenants *tenants);

/* Unmaps and closes all of them. */
void tenants_fini(struct tenants *tenants);
