/* SPDX-License-Identifier: MIT */
#include "daemon/jobs/membership.h"

#include <errno.h>

#include "common/crash_site.h"
#include "common/relaxed.h"
#include "daemon/core/task_permission.h"
#include "daemon/core/pool_state.h"
#include "daemon/core/clients.h"
#include "daemon/core/worker_state.h"
#include "daemon/jobs/attach.h"
#include "daemon/jobs/hang_detector.h"
#include "daemon/jobs/job_end.h"
#include "daemon/jobs/placed_jobs.h"
#include "daemon/jobs/queue_recovery.h"
#include "daemon/sched/fair_queue.h"
#include "shm/board.h"
#include "shm/job.h"
#include "shm/ledger.h"
#include "shm/limits.h"
#include "shm/ring.h"
#include "shm/tenant.h"

static uint64_t intake_cpu(void *context, uint32_t worker)
{
	const struct pool *pool = context;

	return hang_cpu(&pool->workers[worker]);
}

int intake_init(struct pool *pool)
{
	struct fair *fair = pool->fair;
	int r = fair_init(fair, pool->board->clients, pool->clients_max, pool->jobs_max,
			  LIMIT_TENANTS, pool->n_workers);

	fair->settled_shown = &pool->board->settled_ns;
	fair->cpu = intake_cpu;
	fair->cpu_context = pool;
	if (r == 0)
		r = clients_init(pool);
	for (uint32_t i = 0; r == 0 && i < pool->n_workers; i++)
		fair_add_account(fair, i, pool->workers[i].group, &pool->workers[i].job.account);
	return r;
}

void intake_fini(struct pool *pool)
{
	clients_fini(pool);
	fair_fini(pool->fair);
}

/* Maps a tenant's rings, repairs them, and shows them to workers. */
static int intake_map_tenant(struct pool *pool, uint32_t slot, struct attach_source source)
{
	struct tenant_segment *segment;
	int r = clients_map_tenant(pool, slot, source, &segment);

	if (r < 0)
		return r;
	for (uint32_t i = 0; i < pool->n_workers; i++) {
		struct ledger_ring *side = &pool->arena->rings[slot][i];

		ring_take_over(&segment->rings[i], load_relaxed(&side->head));
		requeue_place_ring(pool, slot, &segment->rings[i], side);
	}
	clients_show_tenant(pool, slot, segment);
	return 0;
}

int intake_add_tenant(struct pool *pool, uint32_t slot, uint32_t weight,
		      struct attach_source source)
{
	struct tenant_entry *tenant;

	if (slot >= LIMIT_TENANTS)
		return -EINVAL;
	tenant = &pool->clients.tenants[slot];
	fair_add_tenant(pool->fair, slot, weight);
	/* The manager sends this before each client. Not again while a client lives that got, or
	 * will get, the error (clients.h, I4). */
	if (tenant->told && (!tenant->error || clients_is_peopled(pool, slot)))
		return tenant->error;
	tenant->told = true;
	tenant->error = intake_map_tenant(pool, slot, source);
	for (uint32_t i = 0; i < pool->clients_max; i++) {
		if (pool->clients.entries[i].tenant != slot)
			continue;
		requeue_push(pool, i);
		if (tenant->error)
			clients_orphan(pool, i, tenant->error);
	}
	intake_wake_places(pool, NULL);
	return tenant->error;
}

/* Computes the tasks that the client may not call, and shows them to it. */
static void intake_deny(struct pool *pool, struct client_entry *client, const uint64_t *rules)
{
	uint64_t denied[PERMISSION_WORDS];

	permission_deny(&pool->permission, &pool->modules, rules, denied);
	/* Relaxed: a new client is reported to the manager after this, and then connects; for
	 * others see permission_check(). */
	for (uint32_t i = 0; i < PERMISSION_WORDS; i++) {
		store_relaxed(&client->denied[i], denied[i]);
		store_relaxed(&client->segment->denied[i], denied[i]);
	}
}

void intake_set_rights(struct pool *pool, uint32_t slot, uint32_t generation,
		       uint64_t default_deadline, const uint64_t *rules)
{
	struct client_entry *client;

	if (slot >= pool->clients_max)
		return;
	client = &pool->clients.entries[slot];
	/* Relaxed: only this thread makes clients live or dying. */
	if (load_relaxed(&client->state) != CLIENT_LIVE || client->generation != generation)
		return;
	intake_deny(pool, client, rules);
	store_relaxed(&client->default_deadline, default_deadline);
}

int intake_add_client(struct pool *pool, const struct intake_newcomer *newcomer,
		      struct attach_source source)
{
	uint32_t slot = newcomer->slot, tenant = newcomer->tenant;
	const struct tenant_entry *t;
	int r;

	if (slot >= pool->clients_max || tenant >= LIMIT_TENANTS)
		return -EINVAL;
	t = &pool->clients.tenants[tenant];
	/* ORDER client/live [K1]: acquire, the slot's last client does not use the fields any more.
	 * Pairs with clients_release(). */
	if (atomic_load_explicit(&pool->clients.entries[slot].state, memory_order_acquire) !=
	    CLIENT_NONE)
		return -EBUSY;
	/* A new pool may get the client first, and its tenant afterwards. */
	fair_add_tenant(pool->fair, tenant, newcomer->weight);
	r = clients_map_client(pool, slot, newcomer->generation, tenant, newcomer->n_jobs, source);
	if (r < 0)
		return r;
	intake_deny(pool, &pool->clients.entries[slot], newcomer->rules);
	store_relaxed(&pool->clients.entries[slot].default_deadline, newcomer->default_deadline);
	/* Relaxed: only this thread writes it. */
	fair_add_client(pool->fair, slot, tenant, load_relaxed(&pool->settings.weight));
	/* None of its words can be accepted yet: rows that are QUEUED now are from an earlier
	 * pool. */
	requeue_find(pool, slot);
	if (t->error && !pool->clients.entries[slot].n_requeued) {
		fair_remove_client(pool->fair, slot);
		clients_unmap_client(pool, slot);
		return t->error;
	}
	clients_show_client(pool, slot);
	FK_CRASH(client_shown);
	/* Otherwise when the tenant is added. */
	if (t->told) {
		requeue_push(pool, slot);
		intake_wake_places(pool, NULL);
	}
	if (t->error)
		clients_orphan(pool, slot, t->error);
	return 0;
}

/* Ends some queued jobs of a dead client. Returns their number. */
static uint32_t intake_cut(struct pool *pool, uint32_t client)
{
	struct fair *fair = pool->fair;
	uint32_t rows[INTAKE_CUT], n;

	fair_lock(fair);
	n = fair_cut_client(fair, client, rows, INTAKE_CUT);
	fair_unlock(fair);
	for (uint32_t i = 0; i < n; i++)
		job_drop(pool, rows[i], JOB_CANCELLED, 0);
	return n;
}

enum intake_left intake_release(struct pool *pool)
{
	enum intake_left left = INTAKE_NONE;

	if (!load_relaxed(&pool->clients.n_leaving))
		return left;
	for (uint32_t i = 0; i < pool->clients_max; i++) {
		struct client_entry *client = &pool->clients.entries[i];
		/* ORDER client/active [K2]: acquire, before the tails are read. Pairs with
		 * clients_gone(). */
		uint32_t state = atomic_load_explicit(&client->state, memory_order_acquire);

		if (state == CLIENT_LIVE)
			clients_tell_orphans(pool, client);
		if (state != CLIENT_DYING)
			continue;
		if (intake_cut(pool, i) == INTAKE_CUT)
			left = INTAKE_MORE;
		if (clients_is_over(pool, client)) {
			fair_remove_client(pool->fair, i);
			clients_release(pool, client);
		} else if (left == INTAKE_NONE) {
			left = INTAKE_SOME;
		}
	}
	return left;
}
