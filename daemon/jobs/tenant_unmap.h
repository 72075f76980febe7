/* SPDX-License-Identifier: MIT */
/*
 * tenant_unmap.h - a tenant leaves the pool, and its slot is another's
 *
 * Threads: the channel's thread.
 *
 * THE TROUBLE WITH IT
 *   A worker that looks for work reads a tenant's segment without counting itself: it has the
 *   address from before the tenant left, and may come to read there at any time later. So the
 *   address never goes away: as long as the slot is empty there are zeros, in which nothing is to
 *   be found, and the slot's next segment, which is of the same size, is mapped at the same place.
 *
 * 	mapped --unmap_tenant()--> zeros, rings closed --unmap_settle(), unmap_open()--> mapped
 *
 * INVARIANTS
 *   I1. A thread that takes something from a ring holds its consumer role, and the roles of a
 *       tenant that has left are held by LEDGER_NO_TENANT, until the slot's next tenant is mapped:
 *       no thread moves a head of a tenant that is not there, or walks a chain of it.
 *   I2. What was known of the chains of one tenant is forgotten before another has the rings: their
 *       words may be the same.
 *   I3. All clients of a tenant that leaves were released; the manager tells of no more.
 *
 * If a peer dies: the pool: the next one is not told of the tenant, and has all roles free
 * (job_recovery.c).
 */
#pragma once

#include <stdint.h>

struct pool;

/* Lets go of a tenant without clients, and tells the manager. */
void unmap_tenant(struct pool *pool, uint32_t tenant);

/* Puts what was just mapped for a tenant, *base, to where the slot's former tenants were, if there
 * were any. size: of both. Returns 0 or a negative errno, and *base is still mapped then. */
int unmap_settle(struct pool *pool, uint32_t tenant, void **base, uint64_t size);

/* The new tenant's rings are in order: their roles are free. */
void unmap_open(struct pool *pool, uint32_t tenant);
