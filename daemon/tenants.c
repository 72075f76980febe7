/* SPDX-License-Identifier: MIT */
/*
 * daemon/tenants.c - the uids that forkd serves, and the segment with rings that each of them has
 *
 * WHO CALLS IT, ON WHICH THREAD
 *   session.c, on the manager's only thread.
 *
 * INVARIANTS
 *   I1. One uid, one tenant, one segment, from the uid's first client until the daemon's end. So
 *       the pool never has to let go of one.
 *   I2. Nothing about a tenant is read from its segment, which all clients of the uid can write:
 *       uid, size and head stand here.
 *   I3. A client that attaches finds the head as it was made, whatever others of its uid have done
 *       to it: it is written again each time. Those that have attached before do not read it.
 *   I4. Rings are never cleared: what is in them belongs to clients that may be alive. What one
 *       client of the uid spoils there lasts until it ends: then tenants_mark() has the pool put
 *       them in order (ring.h).
 *
 * WHAT HAPPENS IF A PEER DIES HERE
 *   A client between a ring's slot and its summary bit, or a consumer between clearing the bit and
 *   its last look: tenants_mark() makes up for both. The pool: tenants_tell_pool() when the next
 *   one is ready.
 */
#include "daemon/tenants.h"

#include "common/cleanup.h"
#include "shm/futex.h"
#include "shm/proto.h"
#include "shm/wake.h"

static void tenants_tell(struct tenants *tenants, uint32_t index)
{
	struct proto_pool m = {
		.head = { PROTO_MAGIC, PROTO_POOL_TENANT },
		.tenant = index,
		.uid = tenants->slots[index].uid,
	};

	poolproc_send(tenants->pool, &m, tenants->slots[index].fd);
}

void tenants_tell_pool(struct tenants *tenants)
{
	for (uint32_t i = 0; i < tenants->n; i++)
		tenants_tell(tenants, i);
}

void tenants_mark(struct tenants *tenants, uint32_t index)
{
	struct tenant_segment *segment = tenants->slots[index].segment;

	for (uint32_t ring = 0; ring < tenants->n_workers; ring++) {
		/* Relaxed: before the mark. */
		atomic_store_explicit(&segment->rings[ring].astray, 1, memory_order_relaxed);
		tenant_mark(segment, ring);
	}
	wake_published();
	/* Relaxed: the fence stands above. Not only woken: a dispatcher that is about to sleep on
	 * the old value finds another. The state bits stay as they are. */
	(void)atomic_fetch_add_explicit(&tenants->board->dispatcher, WAKE_SEQ,
					memory_order_relaxed);
	(void)futex_wake(&tenants->board->dispatcher, INT32_MAX);
}

void tenants_mark_all(struct tenants *tenants)
{
	for (uint32_t i = 0; i < tenants->n; i++)
		tenants_mark(tenants, i);
}

/* Writes what clients read once when they attach. */
static void tenants_head(struct tenants *tenants, uint32_t index)
{
	struct tenants_slot *t = &tenants->slots[index];

	t->segment->head = t->head;
	t->segment->tenant = index;
	t->segment->uid = t->uid;
	t->segment->n_rings = tenants->n_workers;
}

/* The uid's tenant; tenants->n if there is none. */
static uint32_t tenants_find(const struct tenants *tenants, uint32_t uid)
{
	uint32_t i = 0;

	while (i < tenants->n && tenants->slots[i].uid != uid)
		i++;
	return i;
}

uint64_t tenants_needs(const struct tenants *tenants, uint32_t uid)
{
	return tenants_find(tenants, uid) < tenants->n ? 0
						       : tenant_segment_size(tenants->n_workers);
}

bool tenants_are_full(const struct tenants *tenants, uint32_t uid)
{
	return tenants_find(tenants, uid) == LIMIT_TENANTS;
}

int tenants_attach(struct tenants *tenants, uint32_t uid)
{
	uint64_t size = tenant_segment_size(tenants->n_workers);
	uint32_t index = tenants_find(tenants, uid);
	struct tenants_slot *t = &tenants->slots[index];
	void *base;
	int fd, r;

	if (index < tenants->n) {
		tenants_head(tenants, index);
		/* A pool that could not map it tries again. */
		tenants_tell(tenants, index);
		return (int)index;
	}
	fd = segment_create("forkd-tenant", SEGMENT_TENANT, size, tenants->epoch, 1, 0600);
	if (fd < 0)
		return fd;
	r = segment_map(fd, SEGMENT_TENANT, 1, tenants->epoch, &base, NULL);
	if (r < 0) {
		(void)safe_close(fd);
		return r;
	}
	*t = (struct tenants_slot){ .uid = uid, .fd = fd, .segment = base, .size = size };
	t->head = t->segment->head;
	tenants_head(tenants, index);
	tenants->memory += size;
	tenants->n++;
	tenants_tell(tenants, index);
	return (int)index;
}

int tenants_fd(const struct tenants *tenants, uint32_t index)
{
	return tenants->slots[index].fd;
}

void tenants_fini(struct tenants *tenants)
{
	for (uint32_t i = 0; i < tenants->n; i++) {
		segment_unmap(tenants->slots[i].segment, tenants->slots[i].size);
		(void)safe_close(tenants->slots[i].fd);
	}
	tenants->n = 0;
}
