/* SPDX-License-Identifier: MIT */
/* tenants.h - the uids that forkd serves, each with a segment of rings */
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
	TENANTS_LEAVING,  /* the pool must release it */
	TENANTS_EMPTYING, /* its pages are being freed */
};

struct tenants_slot {
	struct tenants *all;
	enum tenants_state state;
	uint32_t uid;
	uint32_t weight;     /* among the users; also sent to the pool */
	uint32_t n_conns;    /* connections, and ended ones that are not released */
	uint64_t idle_since; /* without connections: n_idled when the last was released */
	/* as on the board: since when, CLOCK_MONOTONIC; and jobs that the manager gave their
	 * outcome */
	uint64_t since_ns;
	uint64_t ended;
	int fd;		     /* the segment: for clients of the uid */
	struct segment head; /* of the segment, as it was created */
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
	/* tells the pool about a new tenant before the tenant itself is sent */
	void (*made)(struct tenants *tenants, uint32_t index);

	uint32_t n; /* slots that were ever used, from 0 on */
	uint64_t n_idled;
	uint64_t memory; /* bytes of the segments with pages, and of their times */
	struct tenants_slot slots[LIMIT_TENANTS];
};

/* Bytes that tenants_attach() would allocate for the uid; 0 if it has a tenant. */
uint64_t tenants_needs(const struct tenants *tenants, uint32_t uid);

/* True if the uid has no tenant, and no slot is free. */
bool tenants_are_full(const struct tenants *tenants, uint32_t uid);

/* A connection of this uid begins: returns the index of its tenant, with its head as the manager
 * wrote it. Creates a tenant if there is none; then a slot must be free. Or returns a negative
 * errno. */
int tenants_attach(struct tenants *tenants, uint32_t uid);
/* Tells the pool of a tenant, before each of its clients, even if the pool knows it: a pool that
 * could not map it tries again. */
void tenants_tell(struct tenants *tenants, uint32_t index);
/* Changes its weight among the users, and tells the pool. */
void tenants_weigh(struct tenants *tenants, uint32_t index, uint32_t weight);
/* A connection has ended, and the pool has released it. */
void tenants_detach(struct tenants *tenants, uint32_t index);

/* The manager gave n of its jobs their outcome, which no pool has counted. */
void tenants_ended(struct tenants *tenants, uint32_t index, uint32_t n);

/* How many tenants are in use, and how many of these have no connections. */
void tenants_count(const struct tenants *tenants, uint32_t *ret_used, uint32_t *ret_idle);
/* Releases tenants without connections, until n_idle are left. Their slots and bytes are free when
 * the pool has released them and their pages are freed. */
void tenants_trim(struct tenants *tenants, uint32_t n_idle);
/* The pool has released a tenant: frees its pages, then its slot. False if the tenant is not
 * LEAVING. */
bool tenants_released(struct tenants *tenants, uint32_t index);

/* Tells the pool, which has just become ready, of all tenants. Empties those that the last pool had
 * to release. */
void tenants_tell_pool(struct tenants *tenants);

/* As if every ring of the tenant had just been written to: makes consumers read all words of all
 * rings. */
void tenants_mark(struct tenants *tenants, uint32_t index);
void tenants_mark_all(struct tenants *tenants);

/* Wakes the pool's dispatcher, which checks all rings, whatever clients write to the words on the
 * board (wake.h, W10). */
void tenants_ring(struct tenants *tenants);

/* Takes over an earlier manager's tenants, by the saved state; no pool is alive. Called before any
 * connection exists. Returns 0, or a negative errno: then all tenants stay in the store. */
int tenants_takeover(struct tenants *tenants);
/* Adds a taken-over connection. False if its tenant is missing, or is another uid's. */
bool tenants_join(struct tenants *tenants, uint32_t index, uint32_t uid);
/* Called after all of these: tenants without connections become idle. */
void tenants_settle(struct tenants *tenants);

/* Unmaps and closes all of them. */
void tenants_fini(struct tenants *tenants);
