/* SPDX-License-Identifier: MIT */
#include "daemon/intake.h"

#include <errno.h>
#include <stdlib.h>

#include "common/clock.h"
#include "common/crash.h"
#include "daemon/pool.h"
#include "daemon/root.h"
#include "daemon/verdict.h"
#include "daemon/worker.h"
#include "shm/proto.h"
#include "shm/wake.h"

int intake_init(struct pool *pool)
{
	struct fair *fair = &pool->intake.fair;
	int r = fair_init(fair, pool->board->clients, pool->arena->max_clients,
			  pool->arena->max_jobs, LIMIT_TENANTS, pool->n_workers);

	for (uint32_t i = 0; r == 0 && i < pool->n_workers; i++)
		fair_add_account(fair, i, pool->workers[i].group, &pool->workers[i].account);
	return r;
}

void intake_fini(struct pool *pool)
{
	struct intake *in = &pool->intake;

	for (uint32_t i = 0; i < LIMIT_TENANTS; i++) {
		segment_unmap(in->tenants[i].segment, in->tenants[i].size);
		free(in->tenants[i].chains);
	}
	for (uint32_t i = 0; i < LIMIT_CLIENTS; i++) {
		segment_unmap(in->clients[i].segment, in->clients[i].segment_size);
		free(in->clients[i].tails);
	}
	fair_fini(&in->fair);
}

/*
 * The word at the head of a ring, before anything that was QUEUED when the last pool died can run
 * (I4): it goes on along its chain past the jobs that are QUEUED, and stands for the rest or leaves
 * the ring. Chains that are rings, or lead into each other, end all the same: an honest client has
 * each of its QUEUED rows in one chain at most, so there are no more steps than such rows.
 */
static void intake_settle_ring(struct pool *pool, uint32_t tenant, struct ring *ring,
			       struct ledger_ring *side)
{
	uint64_t head = atomic_load_explicit(&side->head, memory_order_relaxed);
	struct intake_client *client;
	uint32_t payload, slot, first, next;

	if (ring_peek(ring, head, &payload) != RING_OK)
		return;
	slot = ring_payload_client(payload);
	client = &pool->intake.clients[slot];
	if (slot >= pool->arena->max_clients || client->tenant != tenant ||
	    (client->generation & 31u) != ring_payload_gen(payload))
		return;
	first = next = ring_payload_job(payload) + 1;
	for (; next && next <= client->n_jobs && client->to_settle; client->to_settle--) {
		struct job *job = &client->jobs[next - 1];
		uint32_t at = slot * pool->arena->max_jobs + next - 1;
		struct ledger_row row = ledger_row(pool->arena, at);
		uint32_t generation = atomic_load_explicit(&job->generation, memory_order_relaxed);

		if (row.state != LEDGER_QUEUED || row.generation != (generation & JOB_GEN_MASK))
			break;
		next = atomic_load_explicit(&job->next, memory_order_relaxed);
	}
	if (next == first)
		return;
	if (next && next <= client->n_jobs) {
		ring_repoint(ring, head, (payload & ~0xffffu) | (next - 1));
		return;
	}
	/* ORDER ledger/head [L1]: release, as in intake_drain_ring(). */
	atomic_store_explicit(&side->head, head + 1, memory_order_release);
	ring_consume(ring, head);
}

/* Queues what the last pool had QUEUED: the rings are in order, or will never be looked at. */
static void intake_requeue(struct pool *pool, struct intake_client *client)
{
	if (!client->n_requeued)
		return;
	fair_lock(&pool->intake.fair);
	fair_push(&pool->intake.fair, client->requeued, client->n_requeued, clock_ns());
	fair_unlock(&pool->intake.fair);
	intake_wake_places(pool, NULL);
	client->n_requeued = client->to_settle = 0;
}

static int intake_map_tenant(struct pool *pool, uint32_t slot, uint32_t uid, int fd)
{
	struct intake_tenant *tenant;
	struct tenant_segment *segment;
	void *base;
	uint64_t size;
	int r;

	if (slot >= LIMIT_TENANTS)
		return -EINVAL;
	tenant = &pool->intake.tenants[slot];
	r = segment_map(fd, SEGMENT_ANY, 1, 0, &base, &size);
	if (r < 0)
		return r;
	if (size < tenant_segment_size(pool->n_workers)) {
		segment_unmap(base, size);
		return -EBADMSG;
	}
	tenant->chains = calloc(pool->n_workers, sizeof(*tenant->chains));
	r = tenant->chains
		  ? fair_add_tenant(&pool->intake.fair, slot, options_weight(pool->options, uid))
		  : -ENOMEM;
	if (r < 0) {
		free(tenant->chains);
		tenant->chains = NULL;
		segment_unmap(base, size);
		return r;
	}
	segment = base;
	tenant->size = size;
	for (uint32_t i = 0; i < pool->n_workers; i++) {
		struct ledger_ring *side = &pool->arena->rings[slot][i];

		ring_take_over(&segment->rings[i],
			       atomic_load_explicit(&side->head, memory_order_relaxed));
		intake_settle_ring(pool, slot, &segment->rings[i], side);
	}
	/* ORDER tenant/known [T1]: release, who sees the segment sees the fields; pairs with
	 * intake_segment(). */
	atomic_store_explicit(&tenant->segment, segment, memory_order_release);
	return 0;
}

int intake_add_tenant(struct pool *pool, uint32_t slot, uint32_t uid, int fd)
{
	int r = intake_map_tenant(pool, slot, uid, fd);

	if (slot < LIMIT_TENANTS)
		pool->intake.tenants[slot].told = true;
	for (uint32_t i = 0; i < pool->arena->max_clients; i++)
		if (pool->intake.clients[i].tenant == slot)
			intake_requeue(pool, &pool->intake.clients[i]);
	return r;
}

/* The tenants that were ever there and have a client now, or one that is not released yet. */
static uint64_t intake_tenants(struct pool *pool, uint32_t word)
{
	/* ORDER tenant/known [T1]: acquire, pairs with intake_count_client(). */
	return atomic_load_explicit(&pool->intake.peopled[word], memory_order_acquire);
}

/* A tenant has one client more or less. The channel's thread and the dispatcher. */
static void intake_count_client(struct pool *pool, uint32_t slot, int n)
{
	_Atomic uint64_t *word = &pool->intake.peopled[slot / 64];
	uint64_t bit = UINT64_C(1) << slot % 64;

	/* The lock makes count and bit change together. */
	fair_lock(&pool->intake.fair);
	pool->intake.tenants[slot].n_clients += (uint32_t)n;
	/* ORDER tenant/known [T1]: release, pairs with intake_tenants(). */
	if (pool->intake.tenants[slot].n_clients)
		atomic_fetch_or_explicit(word, bit, memory_order_release);
	else
		atomic_fetch_and_explicit(word, ~bit, memory_order_release);
	fair_unlock(&pool->intake.fair);
}

static struct tenant_segment *intake_segment(struct pool *pool, uint32_t slot)
{
	/* ORDER tenant/known [T1]: acquire, pairs with intake_map_tenant(). */
	return atomic_load_explicit(&pool->intake.tenants[slot].segment, memory_order_acquire);
}

/* Rows on their way into the fair queues, linked by next, and who takes them off the rings. */
struct intake_list {
	struct pool *pool;
	struct board_counters *counters;
	uint32_t consumer; /* worker + 1; LIMIT_WORKERS + 1: the dispatcher */
	uint32_t home;	   /* the ring to begin with, every other time */
	uint32_t turn;
	uint32_t first;
	uint32_t last;
	uint32_t n;
	uint32_t steps;	 /* taken so far, of INTAKE_STEPS */
	uint32_t share;	 /* of these, of one tenant, of INTAKE_SHARE */
	uint32_t client; /* of the first */
	bool mixed;	 /* others are of other clients */
	bool placed;	 /* one may not be started anywhere */
	bool earlier;	 /* one has the earliest deadline of all */
	bool more;	 /* there may be more in the rings */
};

static bool intake_spent(const struct intake_list *list)
{
	return list->steps >= INTAKE_STEPS || list->share >= INTAKE_SHARE;
}

static void intake_step(struct intake_list *list, uint32_t n)
{
	list->steps += n;
	list->share += n;
}

static void intake_link(struct intake_list *list, uint32_t row, uint32_t weight, uint32_t place)
{
	struct fair *fair = &list->pool->intake.fair;
	uint32_t client = row / list->pool->arena->max_jobs;

	fair_prepare(fair, row, weight, place);
	list->placed |= place > FAIR_NOWHERE;
	if (list->n++) {
		fair->rows[list->last].next = row + 1;
		list->mixed |= client != list->client;
	} else {
		list->first = row;
		list->client = client;
	}
	list->last = row;
}

/* Where a job may be started, by its record's place (shm/job.h): FAIR_*. */
static uint32_t intake_place(struct pool *pool, uint32_t place)
{
	uint32_t index = job_place_index(place), kind = job_place_kind(place);
	uint32_t at = FAIR_NOWHERE;

	if (!place)
		return FAIR_ANYWHERE;
	if (kind == JOB_PLACE_WORKER && pool_worker_at(pool, index)) {
		at = FAIR_WORKER(index);
	} else if (kind == JOB_PLACE_NODE) {
		struct worker *on = pool_worker_on(pool, pool->workers, index);

		if (on)
			at = FAIR_GROUP(on->group);
	}
	return at == FAIR_NOWHERE || job_place_strict(place) ? at : FAIR_ANYWHERE;
}

/* A row is QUEUED: it goes into the list. What is to end at a certain time, or at once, the
 * dispatcher looks after; it comes to it when it is in the queues (deadline.h, I3). */
static void intake_admit(struct intake_list *list, struct job *job, uint32_t row,
			 uint32_t generation)
{
	struct pool *pool = list->pool;
	uint64_t deadline = atomic_load_explicit(&job->deadline_ns, memory_order_relaxed);
	uint32_t place = atomic_load_explicit(&job->place, memory_order_relaxed);

	if (deadline)
		list->earlier |= deadline_add(pool, row, generation, deadline);
	if (root_is_cancelled(pool, row, generation))
		deadline_watch(pool, row, generation);
	intake_link(list, row, atomic_load_explicit(&job->weight, memory_order_relaxed),
		    intake_place(pool, place));
}

/* Somebody of its group is to come for a job; if all are busy, the dispatcher sees to it. */
static void intake_wake_group(struct pool *pool, uint32_t group, struct worker *waker)
{
	uint32_t found = pool->n_workers;

	for (uint32_t i = 0; i < pool->n_workers; i++) {
		uint32_t state = wake_state(wake_load(&pool->workers[i].board->wake));

		if (pool->workers[i].group != group || state == WAKE_BUSY)
			continue;
		found = i;
		if (state == WAKE_LOOKING)
			return;
	}
	if (found < pool->n_workers)
		worker_wake(pool, found, waker);
}

void intake_wake_places(struct pool *pool, struct worker *waker)
{
	struct fair *fair = &pool->intake.fair;

	if (!fair_placed(fair))
		return;
	wake_published();
	for (uint32_t i = 0; i < pool->n_workers; i++)
		if (fair_waits(fair, FAIR_WORKER(i)))
			worker_wake(pool, i, waker);
	for (uint32_t group = 0; group < pool->n_groups; group++)
		if (fair_waits(fair, FAIR_GROUP(group)))
			intake_wake_group(pool, group, waker);
}

/* Lock held: queues the rows of a list. */
static void intake_queue(struct intake_list *list, uint64_t now)
{
	if (list->n)
		fair_push(&list->pool->intake.fair, list->first, list->n, now);
}

/* Finds the rows that the last pool had QUEUED. */
static void intake_find_queued(struct pool *pool, uint32_t slot)
{
	struct intake_client *c = &pool->intake.clients[slot];
	uint32_t first = slot * pool->arena->max_jobs;
	struct intake_list list = { .pool = pool };

	for (uint32_t i = 0; i < c->n_jobs; i++) {
		struct ledger_row row = ledger_row(pool->arena, first + i);

		if (row.state != LEDGER_QUEUED)
			continue;
		atomic_fetch_add_explicit(&c->active, 1, memory_order_relaxed);
		intake_admit(&list, &c->jobs[i], first + i, row.generation);
	}
	c->requeued = list.first;
	c->n_requeued = c->to_settle = list.n;
}

int intake_add_client(struct pool *pool, uint32_t slot, uint32_t generation, uint32_t tenant,
		      uint32_t uid, uint32_t n_jobs, int fd)
{
	struct intake_client *client;
	void *base;
	uint64_t size;
	int r;

	if (slot >= pool->arena->max_clients || tenant >= LIMIT_TENANTS)
		return -EINVAL;
	client = &pool->intake.clients[slot];
	if (atomic_load_explicit(&client->state, memory_order_relaxed) != CLIENT_NONE)
		return -EBUSY;
	r = segment_map(fd, SEGMENT_ANY, 1, 0, &base, &size);
	if (r < 0)
		return r;
	/* The numbers are the manager's: the client can write those in the segment. */
	uint64_t heap_offset = client_segment_heap_offset(n_jobs);
	uint64_t *tails = calloc(pool->n_workers, sizeof(*tails));

	if (!tails)
		r = -ENOMEM;
	else if (n_jobs > pool->arena->max_jobs || heap_offset > size)
		r = -EBADMSG;
	/* A new pool may hear of the client first, and of its tenant after. */
	if (r == 0)
		r = fair_add_tenant(&pool->intake.fair, tenant, options_weight(pool->options, uid));
	if (r < 0) {
		free(tails);
		segment_unmap(base, size);
		return r;
	}
	client->tails = tails;
	client->generation = generation;
	client->tenant = tenant;
	client->n_jobs = n_jobs;
	client->jobs = (struct job *)((char *)base + sizeof(struct client_segment));
	client->groups = client_segment_groups(client->jobs, n_jobs);
	client->heap = (char *)base + heap_offset;
	client->heap_size = size - heap_offset;
	client->segment = base;
	client->segment_size = size;
	fair_add_client(&pool->intake.fair, slot, tenant, pool->options->weight);
	/* While none of its words can be accepted: what is QUEUED now was so before this pool. */
	intake_find_queued(pool, slot);
	/* ORDER client/live [K1]: release, who sees LIVE sees the fields. Pairs with
	 * intake_get(). */
	atomic_store_explicit(&client->state, CLIENT_LIVE, memory_order_release);
	intake_count_client(pool, tenant, 1);
	/* Else when the tenant comes. */
	if (pool->intake.tenants[tenant].told)
		intake_requeue(pool, client);
	return 0;
}

/* Begins one use of a client; NULL if it is not live. Any worker. */
static struct intake_client *intake_get(struct pool *pool, uint32_t slot)
{
	struct intake_client *client;

	if (slot >= pool->arena->max_clients)
		return NULL;
	client = &pool->intake.clients[slot];
	/* ORDER client/active [K2]: seq_cst, counted before the state is looked at. Pairs with
	 * intake_gone(), which stores the state before it looks at the count: one sees
	 * the other. */
	atomic_fetch_add_explicit(&client->active, 1, memory_order_seq_cst);
	/* ORDER client/live [K1]: acquire, pairs with intake_add_client(); and seq_cst for K2. */
	if (atomic_load_explicit(&client->state, memory_order_seq_cst) == CLIENT_LIVE)
		return client;
	intake_put(pool, client);
	return NULL;
}

void intake_put(struct pool *pool, struct intake_client *client)
{
	/* ORDER client/active [K2]: seq_cst: what was done with the client comes before, and the
	 * look at the state after it. Pairs with intake_gone(). */
	if (atomic_fetch_sub_explicit(&client->active, 1, memory_order_seq_cst) == 1 &&
	    atomic_load_explicit(&client->state, memory_order_seq_cst) == CLIENT_DYING)
		pool_wake_dispatcher(pool);
}

void intake_gone(struct pool *pool, uint32_t slot, uint32_t generation)
{
	struct intake_client *client;
	struct tenant_segment *tenant;

	if (slot >= pool->arena->max_clients)
		return;
	client = &pool->intake.clients[slot];
	uint32_t state = atomic_load_explicit(&client->state, memory_order_relaxed);

	if (state == CLIENT_NONE) /* it could not be mapped */
		pool_send(pool, PROTO_POOL_RELEASED, slot, generation, "");
	if (state != CLIENT_LIVE)
		return;
	tenant = intake_segment(pool, client->tenant);
	for (uint32_t i = 0; tenant && i < pool->n_workers; i++)
		client->tails[i] =
			atomic_load_explicit(&tenant->rings[i].tail, memory_order_relaxed);
	/* ORDER client/active [K2]: seq_cst, see intake_get(). */
	atomic_store_explicit(&client->state, CLIENT_DYING, memory_order_seq_cst);
	/* Relaxed: the dispatcher is woken below. */
	atomic_fetch_add_explicit(&pool->intake.n_dying, 1, memory_order_relaxed);
	/* What runs winds down. A row that starts after this sees the state. */
	for (uint32_t i = 0; i < client->n_jobs; i++) {
		uint32_t at = slot * pool->arena->max_jobs + i;
		/* ORDER verdict/cancel [V1]: seq_cst, after the state. Pairs with root_run(). */
		struct ledger_row row = ledger_unpack(
			atomic_load_explicit(&arena_rows(pool->arena)[at], memory_order_seq_cst));

		if (row.state == LEDGER_RUNNING)
			(void)verdict_set(pool, at, row.generation, JOB_CANCELLED);
	}
	pool_wake_dispatcher(pool);
}

/* True if no ring can still hold a word of the dead client. */
static bool intake_passed(struct pool *pool, struct intake_client *client)
{
	struct tenant_segment *tenant = intake_segment(pool, client->tenant);

	for (uint32_t i = 0; tenant && i < pool->n_workers; i++) {
		struct ledger_ring *ring = &pool->arena->rings[client->tenant][i];
		/* ORDER ledger/head [L1]: acquire, pairs with intake_drain_ring(): what stood
		 * below the head has been counted in active. */
		uint64_t head = atomic_load_explicit(&ring->head, memory_order_acquire);
		/* Relaxed: only whether there is a word, which nobody reads here. */
		uint64_t slot = atomic_load_explicit(&tenant->rings[i].slots[head % RING_SLOTS],
						     memory_order_relaxed);

		/* The tail is only what clients say. An empty slot at the head ends the matter. */
		if (head < client->tails[i] && slot & RING_FULL_BIT)
			return false;
	}
	return true;
}

/* Some of what a dead client has in the queues ends. */
static void intake_cut(struct pool *pool, uint32_t client)
{
	struct fair *fair = &pool->intake.fair;
	uint32_t rows[INTAKE_CUT], n;

	fair_lock(fair);
	n = fair_cut_client(fair, client, rows, INTAKE_CUT);
	fair_unlock(fair);
	for (uint32_t i = 0; i < n; i++)
		root_drop(pool, rows[i], JOB_CANCELLED, 0);
}

bool intake_release(struct pool *pool)
{
	bool left = false;

	if (!atomic_load_explicit(&pool->intake.n_dying, memory_order_relaxed))
		return false;
	for (uint32_t i = 0; i < pool->arena->max_clients; i++) {
		struct intake_client *client = &pool->intake.clients[i];

		/* ORDER client/active [K2]: acquire, who sees DYING sees the tails. Pairs with
		 * intake_gone(). */
		if (atomic_load_explicit(&client->state, memory_order_acquire) != CLIENT_DYING)
			continue;
		intake_cut(pool, i);
		/* ORDER client/active [K2]: seq_cst, see intake_get(). */
		if (atomic_load_explicit(&client->active, memory_order_seq_cst) ||
		    !intake_passed(pool, client)) {
			left = true;
			continue;
		}
		fair_remove_client(&pool->intake.fair, i);
		segment_unmap(client->segment, client->segment_size);
		free(client->tails);
		client->tails = NULL;
		client->segment = NULL;
		atomic_fetch_sub_explicit(&pool->intake.n_dying, 1, memory_order_relaxed);
		intake_count_client(pool, client->tenant, -1);
		atomic_store_explicit(&client->state, CLIENT_NONE, memory_order_release);
		pool_send(pool, PROTO_POOL_RELEASED, i, client->generation, "");
	}
	return left;
}

/* The words of a tenant's summary that stand for rings: clients can set others. */
static uint64_t intake_summary(struct pool *pool, struct tenant_segment *tenant, uint32_t word)
{
	uint32_t rings = min(pool->n_workers - 64 * word, 64u);

	return atomic_load_explicit(&tenant->summary[word], memory_order_relaxed) &
	       UINT64_MAX >> (64 - rings);
}

static uint32_t intake_summary_words(struct pool *pool)
{
	return (pool->n_workers + 63) / 64;
}

static bool intake_tenant_pending(struct pool *pool, uint32_t slot)
{
	struct tenant_segment *tenant = intake_segment(pool, slot);

	for (uint32_t k = 0; tenant && k < intake_summary_words(pool); k++)
		if (intake_summary(pool, tenant, k))
			return true;
	return false;
}

bool intake_rings_pending(struct pool *pool)
{
	for (uint32_t k = 0; k < INTAKE_WORDS; k++)
		for (uint64_t left = intake_tenants(pool, k); left; left &= left - 1)
			if (intake_tenant_pending(pool, 64 * k + (uint32_t)__builtin_ctzll(left)))
				return true;
	return false;
}

bool intake_pending(struct pool *pool)
{
	return fair_queued(&pool->intake.fair) || intake_rings_pending(pool);
}

bool intake_mine(struct worker *w)
{
	struct fair *fair = &w->pool->intake.fair;

	return fair_waits(fair, FAIR_WORKER(w->index)) || fair_waits(fair, FAIR_GROUP(w->group));
}

/* All tenants that have clients, as of now. */
static void intake_all_tenants(struct pool *pool, uint64_t ret_bits[INTAKE_WORDS])
{
	for (uint32_t k = 0; k < INTAKE_WORDS; k++)
		ret_bits[k] = intake_tenants(pool, k);
}

/* The one of them that comes after this one, in turn, and takes it out; LIMIT_TENANTS if there is
 * none left. */
static uint32_t intake_next_tenant(uint64_t bits[INTAKE_WORDS], uint32_t slot)
{
	uint32_t from = (slot + 1) % LIMIT_TENANTS;

	for (uint32_t i = 0; i <= INTAKE_WORDS; i++) {
		uint32_t k = (from / 64 + i) % INTAKE_WORDS;
		uint64_t left = i == 0 ? bits[k] & UINT64_MAX << from % 64 : bits[k];

		if (left) {
			bits[k] &= ~(left & -left);
			return 64 * k + (uint32_t)__builtin_ctzll(left);
		}
	}
	return LIMIT_TENANTS;
}

bool intake_glance(struct worker *w)
{
	struct pool *pool = w->pool;
	uint64_t bits[INTAKE_WORDS];

	if (fair_queued(&pool->intake.fair) || intake_mine(w))
		return true;
	intake_all_tenants(pool, bits);
	for (uint32_t i = 0; i < INTAKE_GLANCE; i++) {
		uint32_t slot = intake_next_tenant(bits, w->glance);

		if (slot == LIMIT_TENANTS)
			return false;
		w->glance = slot;
		if (intake_tenant_pending(pool, slot))
			return true;
	}
	return false;
}

bool intake_is_empty(struct pool *pool)
{
	if (intake_rings_pending(pool))
		return false;
	for (uint32_t t = 0; t < LIMIT_TENANTS; t++)
		for (uint32_t i = 0; intake_segment(pool, t) && i < pool->n_workers; i++)
			/* ORDER ring/consumer [R3]: acquire: who has let go has counted what it
			 * took. Pairs with intake_drain_ring(). */
			if (atomic_load_explicit(&pool->arena->rings[t][i].consumer,
						 memory_order_acquire))
				return false;
	for (uint32_t i = 0; i < pool->arena->max_clients; i++)
		if (atomic_load_explicit(&pool->intake.clients[i].active, memory_order_relaxed))
			return false;
	/* Who has let go since has set its bit before, if it left something. */
	return !intake_rings_pending(pool);
}

/* Takes a job off a ring: its row is QUEUED after it, or it is refused. The walk holds a use of the
 * client. Returns true if the row was accepted. */
static bool intake_accept(struct intake_list *list, struct intake_client *client, uint32_t index,
			  uint64_t now)
{
	struct pool *pool = list->pool;
	struct job *job = &client->jobs[index];
	uint32_t slot = (uint32_t)(client - pool->intake.clients);
	uint32_t row = slot * pool->arena->max_jobs + index;
	_Atomic uint64_t *word = &arena_rows(pool->arena)[row];
	uint64_t expected = atomic_load_explicit(word, memory_order_relaxed);
	uint32_t generation =
		atomic_load_explicit(&job->generation, memory_order_relaxed) & JOB_GEN_MASK;
	uint32_t flags = atomic_load_explicit(&job->flags, memory_order_relaxed);
	struct ledger_row row_new = {
		.generation = generation,
		.state = LEDGER_QUEUED,
		.flags = flags & JOB_IDEMPOTENT ? LEDGER_FLAG_IDEMPOTENT : 0,
	};

	/* Once more if the row was freed at the same moment (root_free_row()). Two rings may hold
	 * the same record at once: the one of the two words that comes second finds it QUEUED. */
	do {
		struct ledger_row old = ledger_unpack(expected);
		/* A row that is FINISHING for another generation: the client has seen that outcome,
		 * while the worker that gave it has not come to freeing the row yet. */
		bool free = old.state == LEDGER_FREE || old.state == LEDGER_FINISHING;

		if (!free || old.generation == generation) {
			/* Submitted twice (ledger.h, I3). */
			atomic_fetch_add_explicit(&pool->board->clients[slot].refused, 1,
						  memory_order_relaxed);
			COUNT(list, refused);
			return false;
		}
		/* ORDER cancel/accept [V2]: seq_cst, before the look at the mark of a cancel in
		 * intake_admit(). Pairs with root_cancel(). */
	} while (!atomic_compare_exchange_weak_explicit(
		word, &expected, ledger_pack(row_new), memory_order_seq_cst, memory_order_relaxed));
	atomic_store_explicit(&job->drained_ns, now, memory_order_relaxed);
	intake_admit(list, job, row, generation);
	return true;
}

/* Walks the chain of one word, or goes on with it. Adds to *accepted. False: it was not over. The
 * rows are counted in active when the walk ends: until then none is where it could be ended. */
static bool intake_walk(struct intake_list *list, uint32_t tenant, struct intake_chain *chain,
			uint32_t payload, uint64_t now, uint32_t *accepted)
{
	struct intake_client *client = intake_get(list->pool, ring_payload_client(payload));
	bool more = false;
	uint32_t n = 0;

	/* Nobody but its writer loses anything by a word that has changed since. */
	if (!chain->next || chain->payload != payload)
		*chain = (struct intake_chain){ .payload = payload,
						.next = ring_payload_job(payload) + 1,
						.left = client ? client->n_jobs : 0 };
	if (!client || client->tenant != tenant ||
	    (client->generation & 31u) != ring_payload_gen(payload)) {
		COUNT(list, garbage);
		chain->next = 0;
	}
	while (chain->next && !more) {
		uint32_t index = chain->next - 1;

		if (index >= client->n_jobs || !chain->left) {
			COUNT(list, garbage);
			chain->next = 0;
			break;
		}
		/* Before the job can end, and its record be filled anew (job.h, I2). */
		chain->next = atomic_load_explicit(&client->jobs[index].next, memory_order_relaxed);
		chain->left--;
		intake_step(list, 1);
		FK_CRASH("intake-step");
		n += intake_accept(list, client, index, now);
		FK_CRASH("intake-accepted");
		more = intake_spent(list);
	}
	*accepted += n;
	/* One row takes the walk's own use over. */
	if (n > 1)
		atomic_fetch_add_explicit(&client->active, n - 1, memory_order_relaxed);
	else if (client && !n)
		intake_put(list->pool, client);
	return !chain->next;
}

/* Takes what is in one ring, as far as this drain may. */
static void intake_drain_ring(struct intake_list *list, uint32_t tenant_slot,
			      struct tenant_segment *tenant, uint32_t index)
{
	struct pool *pool = list->pool;
	struct ledger_ring *side = &pool->arena->rings[tenant_slot][index];
	struct intake_chain *chain = &pool->intake.tenants[tenant_slot].chains[index];
	struct ring *ring = &tenant->rings[index];
	uint32_t nobody = 0, payload, accepted = 0, before = list->steps;
	uint64_t head, now = 0;

	/* ORDER ring/consumer [R3]: acquire, the head and the chain as the last holder left them.
	 * Pairs with the release below. */
	if (!atomic_compare_exchange_strong_explicit(&side->consumer, &nobody, list->consumer,
						     memory_order_acquire, memory_order_relaxed))
		return;
	tenant_clear(tenant, index);
	head = atomic_load_explicit(&side->head, memory_order_relaxed);
	/* Whatever is found counts: somebody may write words faster than they are read. */
	while (!intake_spent(list)) {
		enum ring_status status = ring_peek(ring, head, &payload);
		uint32_t steps = list->steps;

		if (status == RING_EMPTY) {
			if (ring_is_astray(ring, head))
				intake_step(list, INTAKE_MEND);
			if (!ring_skip(ring, head))
				break;
		}
		if (status == RING_GARBAGE) {
			COUNT(list, garbage);
			intake_step(list, 1);
			continue;
		}
		if (!now)
			now = clock_ns();
		if (status == RING_OK &&
		    !intake_walk(list, tenant_slot, chain, payload, now, &accepted)) {
			/* What was taken may come back and be other jobs, before a pool that knows
			 * the chain by this word only begins to walk it. */
			chain->payload = (payload & ~0xffffu) | ((chain->next - 1) & 0xffffu);
			ring_repoint(ring, head, chain->payload);
			FK_CRASH("intake-repointed");
			break;
		}
		if (list->steps == steps)
			intake_step(list, 1);
		/* ORDER ledger/head [L1]: release, the rows are QUEUED before the head moves (I1).
		 * Pairs with intake_passed(); the manager reads after the pool's death. */
		FK_CRASH("intake-walked");
		atomic_store_explicit(&side->head, ++head, memory_order_release);
		FK_CRASH("intake-head");
		if (status == RING_OK)
			ring_consume(ring, head - 1);
	}
	if (intake_spent(list)) {
		list->more = true;
		tenant_mark(tenant, index);
	}
	if (accepted)
		COUNT_ADD(list, drained, accepted);
	if (accepted && index + 1 != list->consumer)
		COUNT_ADD(list, takeovers, accepted);
	if (list->steps - before > accepted)
		fair_waste(&pool->intake.fair, tenant_slot,
			   (list->steps - before - accepted) * INTAKE_STEP_NS);
	/* ORDER ring/consumer [R3]: release, pairs with the acquire above. */
	atomic_store_explicit(&side->consumer, 0, memory_order_release);
}

/* Takes what is in a tenant's rings: of those whose bit is set, beginning with ring first. */
static void intake_drain_tenant(struct intake_list *list, uint32_t slot, uint32_t first)
{
	struct tenant_segment *tenant = intake_segment(list->pool, slot);
	uint32_t words = intake_summary_words(list->pool);
	uint64_t from = UINT64_MAX << first % 64;

	list->share = 0;
	for (uint32_t i = 0; tenant && i <= words; i++) {
		uint32_t k = (first / 64 + i) % words;
		uint64_t bits = intake_summary(list->pool, tenant, k);

		/* The word of the first ring comes twice. */
		bits &= i == 0 ? from : i == words ? ~from : UINT64_MAX;
		for (; bits && !intake_spent(list); bits &= bits - 1)
			intake_drain_ring(list, slot, tenant,
					  64 * k + (uint32_t)__builtin_ctzll(bits));
	}
}

/* Takes what is in the rings. Each time another tenant and another ring come first, and none takes
 * more than its share: none starves behind a full one. */
static void intake_drain_rings(struct intake_list *list)
{
	struct pool *pool = list->pool;
	uint32_t ring = (list->turn & 1 ? list->turn / 2 : list->home) % pool->n_workers;
	uint32_t slot = list->turn % LIMIT_TENANTS;
	uint64_t bits[INTAKE_WORDS];

	intake_all_tenants(pool, bits);
	while (list->steps < INTAKE_STEPS &&
	       (slot = intake_next_tenant(bits, slot)) < LIMIT_TENANTS)
		intake_drain_tenant(list, slot, ring);
}

static struct intake_list intake_list_of(struct worker *w)
{
	return (struct intake_list){
		.pool = w->pool,
		.counters = w->counters,
		.consumer = w->index + 1,
		.home = w->index,
		.turn = w->index + w->drains++,
	};
}

/* Puts rows onto the worker's own root deque, which is empty. */
static void intake_publish(struct worker *w, const uint64_t *rows, uint64_t n)
{
	if (!n)
		return;
	/* Entries are written from position 0 on: nothing public is left there. */
	deque_reclaim(&w->roots);
	deque_reset(&w->roots);
	deque_push_all(&w->roots, w->roots.entries, rows, n);
	worker_mark_roots(w);
}

/* Lock held: takes the batch that goes first. Returns how many. *ret_placed: it is one, and not for
 * the deque, where others would take it. */
static uint32_t intake_pick(struct worker *w, uint64_t *ret_rows, uint64_t now, bool *ret_placed)
{
	uint32_t rows[WORKER_ROOTS];
	uint32_t n =
		fair_pick(&w->pool->intake.fair, w->index, rows, WORKER_ROOTS, now, ret_placed);

	_Static_assert(FAIR_BATCH_JOBS <= WORKER_ROOTS, "a batch fits on a root deque");
	for (uint32_t i = 0; i < n; i++)
		ret_rows[i] = rows[i];
	return n;
}

/*
 * I3: the worker had rows in hand, and has put some where others are to find them; list: what it
 * took off the rings, left: there is more than what it starts itself. Who looked meanwhile has seen
 * nothing of it. A worker that looks itself does the rest when it turns busy (worker.c).
 */
static void intake_pass_on(struct worker *w, const struct intake_list *list, bool left)
{
	struct pool *pool = w->pool;
	bool busy = wake_state(wake_load(&w->board->wake)) == WAKE_BUSY, alone;

	if (list->placed)
		intake_wake_places(pool, w);
	left |= list->more || fair_queued(&pool->intake.fair);
	alone = left && busy && !worker_wake_one(pool, w);
	/* Whom to summon for a place, it knows. */
	if (alone || list->earlier || fair_placed(&pool->intake.fair))
		pool_wake_dispatcher(pool);
}

bool intake_drain(struct worker *w, uint32_t *ret_row)
{
	struct fair *fair = &w->pool->intake.fair;
	struct intake_list list = intake_list_of(w);
	uint64_t rows[WORKER_ROOTS];
	uint32_t n = 0;
	bool placed;

	intake_drain_rings(&list);
	if (list.n && !list.mixed && !list.placed && !list.more &&
	    fair_direct(fair, list.client, list.n)) {
		for (uint32_t row = list.first; n < list.n; row = fair->rows[row].next - 1)
			rows[n++] = row;
	} else if (list.n || fair_queued(fair) || intake_mine(w)) {
		uint64_t now = clock_ns();

		fair_lock(fair);
		intake_queue(&list, now);
		n = intake_pick(w, rows, now, &placed);
		fair_unlock(fair);
	}
	if (n) {
		*ret_row = (uint32_t)rows[0];
		intake_publish(w, rows + 1, n - 1);
	}
	intake_pass_on(w, &list, n > 1);
	return n;
}

void intake_collect(struct pool *pool)
{
	struct fair *fair = &pool->intake.fair;
	struct intake_list list = {
		.pool = pool,
		.counters = &pool->board->counters[BOARD_POOL],
		.consumer = LIMIT_WORKERS + 1,
		.turn = pool->intake.turn++,
	};

	intake_drain_rings(&list);
	if (!list.n)
		return;
	fair_lock(fair);
	intake_queue(&list, clock_ns());
	fair_unlock(fair);
	intake_wake_places(pool, NULL);
}

/* Takes all rows off anybody's root deque. */
static uint32_t intake_take_back(struct worker *from, uint32_t *ret_rows)
{
	uint64_t rows[WORKER_ROOTS], n;
	enum deque_status status;

	do
		status = deque_steal_share(&from->roots, DEQUE_ALL, rows, WORKER_ROOTS, &n);
	while (status == DEQUE_RACE);
	if (status == DEQUE_EMPTY)
		return 0;
	for (uint64_t i = 0; i < n; i++)
		ret_rows[i] = (uint32_t)rows[i];
	worker_clear_roots(from);
	return (uint32_t)n;
}

bool intake_preempt(struct worker *w)
{
	struct fair *fair = &w->pool->intake.fair;
	struct intake_list list = intake_list_of(w);
	uint32_t back[WORKER_ROOTS + 1];
	uint64_t rows[WORKER_ROOTS];
	uint32_t n = 0, n_back = intake_take_back(w, back);
	bool placed = false;
	uint64_t now;

	if (w->own)
		back[n_back++] = w->own - 1;
	w->own = 0;
	intake_drain_rings(&list);
	now = clock_ns();
	fair_lock(fair);
	fair_return(fair, back, n_back, now);
	intake_queue(&list, now);
	fair_settle_sometimes(fair, now);
	if (fair_claims(fair, w->index, w->job, now - w->job_since))
		n = intake_pick(w, rows, now, &placed);
	fair_unlock(fair);
	if (n)
		w->preempted = w->job;
	if (placed)
		w->own = (uint32_t)rows[0] + 1;
	else
		intake_publish(w, rows, n);
	intake_pass_on(w, &list, n > 1);
	return n;
}

bool intake_again(struct worker *w, uint32_t *ret_row)
{
	struct fair *fair = &w->pool->intake.fair;
	struct intake_list none = { .n = 0 };
	uint64_t rows[WORKER_ROOTS], now;
	uint32_t n = 0;
	bool placed;

	if (w->preempted != WORKER_NO_JOB && (fair_queued(fair) || intake_mine(w))) {
		now = clock_ns();
		fair_lock(fair);
		fair_settle_sometimes(fair, now);
		if (fair_claims(fair, w->index, w->preempted, FAIR_QUANTUM))
			n = intake_pick(w, rows, now, &placed);
		fair_unlock(fair);
	}
	if (!n) {
		w->preempted = WORKER_NO_JOB;
		return false;
	}
	*ret_row = (uint32_t)rows[0];
	intake_publish(w, rows + 1, n - 1);
	intake_pass_on(w, &none, n > 1);
	return true;
}

uint32_t intake_turn(struct worker *w, const uint32_t *rows, uint32_t n)
{
	struct fair *fair = &w->pool->intake.fair;
	uint32_t row;

	fair_lock(fair);
	fair_settle_sometimes(fair, clock_ns());
	row = fair_turn(fair, w->job, rows, n);
	fair_unlock(fair);
	return row;
}

bool intake_steal(struct worker *w, struct worker *victim, uint32_t *ret_row)
{
	uint64_t rows[WORKER_ROOTS], n;
	enum deque_status status;

	do
		status = deque_steal(&victim->roots, rows, WORKER_ROOTS, &n);
	while (status == DEQUE_RACE);
	if (status == DEQUE_EMPTY)
		return false;
	COUNT_ADD(w, root_steals, n);
	*ret_row = (uint32_t)rows[0];
	intake_publish(w, rows + 1, n - 1);
	return true;
}

void intake_recall(struct pool *pool)
{
	struct fair *fair = &pool->intake.fair;

	for (uint32_t i = 0; i < pool->n_workers; i++) {
		struct worker *w = &pool->workers[i];
		uint64_t roots = atomic_load_explicit(&w->counters->roots, memory_order_relaxed);
		uint32_t rows[WORKER_ROOTS], n;

		if (roots == pool->intake.roots_seen[i] && deque_size(&w->roots)) {
			n = intake_take_back(w, rows);
			fair_lock(fair);
			fair_return(fair, rows, n, clock_ns());
			fair_unlock(fair);
		}
		pool->intake.roots_seen[i] = roots;
	}
}

void intake_settle(struct pool *pool)
{
	struct fair *fair = &pool->intake.fair;

	fair_lock(fair);
	fair_settle_sometimes(fair, clock_ns());
	fair_unlock(fair);
}

uint32_t intake_summons(struct pool *pool, uint32_t next, uint32_t *ret_workers, uint32_t max)
{
	struct fair *fair = &pool->intake.fair;
	bool rings = intake_rings_pending(pool);
	uint32_t n = 0;

	if (!rings && !fair_queued(fair) && !fair_placed(fair))
		return 0;
	fair_lock(fair);
	for (uint32_t i = 0; i < pool->n_workers && n < max; i++) {
		uint32_t at = (next + i) % pool->n_workers;
		uint32_t row = account_row(&pool->workers[at].account);

		if (rings || (row != ACCOUNT_NOBODY && fair_claims(fair, at, row, FAIR_QUANTUM)))
			ret_workers[n++] = at;
	}
	fair_unlock(fair);
	return n;
}

void intake_account(struct worker *w, uint32_t row, bool last, uint64_t now)
{
	uint32_t left;
	uint64_t ns = account_close(&w->account, now, &left);

	if (left != ACCOUNT_NOBODY)
		fair_charge(&w->pool->intake.fair, left, ns, last);
	w->job_since = now;
	if (row != ACCOUNT_NOBODY)
		account_open(&w->account, row, now);
}
