/* SPDX-License-Identifier: MIT */
/*
 * tenant_unmap.h - removes a tenant from the pool, and reuses its slot
 *
 * Threads: the channel's thread.
 *
 * STALE ADDRESSES
 *   A worker that searches for work reads a tenant's segment without counting itself. It has the
 *   address from before the tenant left, and may read there at any later time. So the address
 *   always stays mapped. While the slot is empty, zeros are mapped there, in which no work is
 *   found. The slot's next segment, which has the same size, is mapped at the same place.
 *
 * 	mapped --unmap_tenant()--> zeros, rings closed --unmap_settle(), unmap_open()--> mapped
 *
 * INVARIANTS
 *     I1. A thread that takes words from a ring holds its consumer role. LEDGER_NO_TENANT holds the
 *         roles of a tenant that has left until the slot's next tenant is mapped. So no thread
 *         moves a head of a tenant that has left, or walks a chain of it.
 *     I2. State about the chains of one tenant is cleared before another has the rings, because
 *         their words may be the same.
 *     I3. All clients of a tenant that leaves were released; the manager adds no more.
 *
 *   If the pool dies: the next one does not get the tenant, and has all roles free
 *   (job_recovery.c).
 */
#pragma once

#include <stdint.h>

struct pool;

/* Removes a tenant without clients, and notifies the manager. */
void unmap_tenant(struct pool *pool, uint32_t tenant);

/* Moves the new mapping of a tenant, *base, to the place of the slot's former tenants, if there
 * were any. size: of both. Returns 0 or a negative errno; then *base is still mapped. */
int unmap_settle(struct pool *pool, uint32_t tenant, void **base, uint64_t size);

/* The new tenant's rings are repaired: frees their roles. */
void unmap_open(struct pool *pool, uint32_t tenant);
