/* SPDX-License-Identifier: MIT */
#include "daemon/jobs/tenant_unmap.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "common/crash_site.h"
#include "common/log.h"
#include "common/relaxed.h"
#include "daemon/core/manager_channel.h"
#include "daemon/core/task_permission.h"
#include "daemon/core/pool_state.h"
#include "daemon/core/clients.h"
#include "daemon/sched/fair_queue.h"
#include "shm/limits.h"
#include "shm/ledger.h"
#include "shm/proto.h"

#define UNMAP_TRIES 20u

static const struct timespec unmap_pause = { .tv_nsec = 50000 };

/* Maps zeros for threads that still have the address. They do not write: that takes a consumer
 * role. */
static int unmap_blank(const struct tenant_entry *tenant)
{
	if (mmap(tenant->base, tenant->size, PROT_READ,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
		return -errno;
	return 0;
}

/* Retries, because a shortage may be brief, and this is not called again before the next tenant. */
static int unmap_blank_patiently(const struct tenant_entry *tenant)
{
	int r = unmap_blank(tenant);

	for (uint32_t i = 1; r < 0 && i < UNMAP_TRIES; i++) {
		(void)nanosleep(&unmap_pause, NULL);
		r = unmap_blank(tenant);
	}
	return r;
}

/* I1, I2. */
static void unmap_close(struct pool *pool, uint32_t slot)
{
	struct ring_chain *chains = clients_chains(pool, slot);

	for (uint32_t i = 0; i < pool->n_workers; i++) {
		struct ledger_ring *side = &pool->arena->rings[slot][i];

		/* A worker holds the role for the steps of a drain at most. Not sched_yield(): this
		 * thread has a better nice value than a worker that may wait for its CPU. */
		while (!ledger_ring_hold(side, LEDGER_NO_TENANT))
			(void)nanosleep(&unmap_pause, NULL);
		chains[i] = (struct ring_chain){ .next = 0 };
	}
}

void unmap_tenant(struct pool *pool, uint32_t slot)
{
	struct proto_pool released = {
		.head = { PROTO_MAGIC, PROTO_POOL_TENANT_RELEASED },
		.tenant = slot,
	};
	struct tenant_entry *tenant;
	int r;

	if (slot >= LIMIT_TENANTS)
		return;
	tenant = &pool->clients.tenants[slot];
	if (clients_segment(pool, slot)) {
		/* Relaxed: a thread that still has the address finds zeros (tenant_unmap.h). */
		store_relaxed(&tenant->segment, NULL);
		unmap_close(pool, slot);
		FK_CRASH(tenant_closed);
		r = unmap_blank_patiently(tenant);
		if (r < 0)
			/* The new mapping is one more than before, briefly. Memory that the manager
			 * has punched reads as zeros, too. */
			log_warning("tenant %u has left and stays mapped: %s", slot, strerror(-r));
	}
	fair_remove_tenant(pool->fair, slot);
	permission_clear(&pool->permission, slot);
	tenant->told = false;
	tenant->error = 0;
	FK_CRASH(tenant_unmapped);
	channel_tell(pool, &released);
}

int unmap_settle(struct pool *pool, uint32_t slot, void **base, uint64_t size)
{
	struct tenant_entry *tenant = &pool->clients.tenants[slot];
	int r;

	if (!tenant->base) {
		tenant->base = *base;
		tenant->size = size;
		return 0;
	}
	if (size != tenant->size)
		return -EBADMSG;
	if (mremap(*base, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, tenant->base) == MAP_FAILED) {
		r = -errno;
		/* mremap() may have unmapped the old mapping before it failed. */
		(void)unmap_blank(tenant);
		return r;
	}
	*base = tenant->base;
	return 0;
}

void unmap_open(struct pool *pool, uint32_t slot)
{
	for (uint32_t i = 0; i < pool->n_workers; i++)
		ledger_ring_leave(&pool->arena->rings[slot][i]);
}
