/* SPDX-License-Identifier: MIT */
/* daemon/tenants.h - the uids that forkd serves, and the segment with rings that each of
 * them has */
#ifndef DAEMON_TENANTS_H
#define DAEMON_TENANTS_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/poolproc.h"
#include "shm/board.h"
#include "shm/limits.h"
#include "shm/tenant.h"

struct tenants_slot {
	uint32_t uid;
	int fd;
	struct segment head; /* of the segment, as it was made */
	struct tenant_segment *segment;
	uint64_t size;
};

struct tenants {
	/* the caller sets these; the rest starts as zero */
	struct poolproc *pool;
	struct board *board;
	uint64_t epoch;
	uint32_t n_workers;

	uint32_t n;	 /* slots in use, from 0 on; they are kept for good */
	uint64_t memory; /* bytes of their segments */
	struct tenants_slot slots[LIMIT_TENANTS];
};

/* Bytes that tenants_attach() would make for the uid; 0 if its tenant is there. */
uint64_t tenants_needs(const struct tenants *tenants, uint32_t uid);

/* True if the uid has no tenant, and there are LIMIT_TENANTS. */
bool tenants_are_full(const struct tenants *tenants, uint32_t uid);

/* Index of the uid's tenant, with its head as the manager wrote it; made, and told to the pool, if
 * there is none; then they must not be full. Or a negative errno: what the system said. */
int tenants_attach(struct tenants *tenants, uint32_t uid);

/* The tenant's segment, to be handed to a client of its uid; borrowed. */
int tenants_fd(const struct tenants *tenants, uint32_t index);

/* Tells the pool, which has just become ready, of all tenants. */
void tenants_tell_pool(struct tenants *tenants);

/* As if every ring of the tenant had just been written to, by whoever: consumers look at all of
 * them, and at all that is in them. */
void tenants_mark(struct tenants *tenants, uint32_t index);
void tenants_mark_all(struct tenants *tenants);

/* Unmaps and closes all of them. */
void tenants_fini(struct tenants *tenants);

#endif
