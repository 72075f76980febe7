/* SPDX-License-Identifier: MIT */
#include "daemon/intake.h"

#include <errno.h>
#include <stdlib.h>

#include "common/clock.h"
#include "common/log.h"
#include "daemon/pool.h"
#include "daemon/worker.h"
#include "shm/proto.h"

void intake_init(struct pool *pool)
{
	pthread_mutex_init(&pool->intake.lock, NULL);
}

void intake_fini(struct pool *pool)
{
	struct intake *in = &pool->intake;

	for (uint32_t i = 0; i < LIMIT_TENANTS; i++)
		segment_unmap(in->tenants[i].segment, in->tenants[i].size);
	for (uint32_t i = 0; i < LIMIT_CLIENTS; i++) {
		segment_unmap(in->clients[i].segment, in->clients[i].segment_size);
		free(in->clients[i].tails);
	}
	free(in->requeued);
	pthread_mutex_destroy(&in->lock);
}

int intake_add_tenant(struct pool *pool, uint32_t slot, uint32_t uid, int fd)
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
	segment = base;
	tenant->uid = uid;
	tenant->size = size;
	tenant->n_rings = pool->n_workers;
	/* ORDER tenant/known [T1]: release, who sees the segment sees the fields; pairs with
	 * intake_segment(). */
	atomic_store_explicit(&tenant->segment, segment, memory_order_release);
	if (atomic_load_explicit(&pool->intake.n_tenants, memory_order_relaxed) <= slot)
		/* ORDER tenant/known [T1]: release, pairs with intake_tenants(). */
		atomic_store_explicit(&pool->intake.n_tenants, slot + 1, memory_order_release);
	return 0;
}

static uint32_t intake_tenants(struct pool *pool)
{
	/* ORDER tenant/known [T1]: acquire, pairs with intake_add_tenant(). */
	return atomic_load_explicit(&pool->intake.n_tenants, memory_order_acquire);
}

static struct tenant_segment *intake_segment(struct pool *pool, uint32_t slot)
{
	/* ORDER tenant/known [T1]: acquire, pairs with intake_add_tenant(). */
	return atomic_load_explicit(&pool->intake.tenants[slot].segment, memory_order_acquire);
}

/* Rows that the last pool had queued run again. */
static int intake_requeue(struct pool *pool, uint32_t client, uint32_t n_jobs)
{
	struct intake *in = &pool->intake;
	_Atomic uint64_t *rows = arena_rows(pool->arena);
	uint32_t first = client * pool->arena->max_jobs;
	int r = 0;

	pthread_mutex_lock(&in->lock);
	for (uint32_t i = 0; i < n_jobs && r == 0; i++) {
		uint64_t word = atomic_load_explicit(&rows[first + i], memory_order_relaxed);

		if (ledger_unpack(word).state != LEDGER_QUEUED)
			continue;
		if (in->n_requeued == in->max_requeued) {
			uint32_t more = in->max_requeued ? 2 * in->max_requeued : 64;
			uint32_t *bigger = realloc(in->requeued, more * sizeof(*bigger));

			if (!bigger) {
				r = -ENOMEM;
				break;
			}
			in->requeued = bigger;
			in->max_requeued = more;
		}
		atomic_fetch_add_explicit(&in->clients[client].active, 1, memory_order_relaxed);
		in->requeued[in->n_requeued++] = first + i;
	}
	/* ORDER requeued [Q1]: release, pairs with intake_pending(). */
	atomic_store_explicit(&in->has_requeued, in->n_requeued, memory_order_release);
	pthread_mutex_unlock(&in->lock);
	return r;
}

int intake_add_client(struct pool *pool, uint32_t slot, uint32_t generation, uint32_t tenant,
		      uint32_t uid, uint32_t pid, uint32_t n_jobs, int fd)
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
	uint64_t heap_size = size > heap_offset ? size - heap_offset : 0;

	client->tails = calloc(pool->n_workers, sizeof(*client->tails));
	if (!client->tails || n_jobs > pool->arena->max_jobs || heap_offset > size) {
		r = client->tails ? -EBADMSG : -ENOMEM;
		free(client->tails);
		client->tails = NULL;
		segment_unmap(base, size);
		return r;
	}
	client->generation = generation;
	client->tenant = tenant;
	client->uid = uid;
	client->pid = pid;
	client->n_jobs = n_jobs;
	client->jobs = (struct job *)((char *)base + sizeof(struct client_segment));
	client->heap = (char *)base + heap_offset;
	client->heap_size = heap_size;
	client->segment = base;
	client->segment_size = size;
	/* ORDER client/live [K1]: release, who sees LIVE sees the fields. Pairs with
	 * intake_get(). */
	atomic_store_explicit(&client->state, CLIENT_LIVE, memory_order_release);
	return intake_requeue(pool, slot, n_jobs);
}

/* Begins one use of a client; NULL if it is not live. Any worker. */
static struct intake_client *intake_get(struct pool *pool, uint32_t slot)
{
	struct intake_client *client;

	if (slot >= pool->arena->max_clients)
		return NULL;
	client = &pool->intake.clients[slot];
	/* ORDER client/active [K2]: seq_cst, counted before the state is looked at. Pairs with
	 * intake_gone(), which stores the state before it looks at the count: one sees the other. */
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
		uint64_t slot = atomic_load_explicit(&tenant->rings[i].slots[head % RING_SLOTS],
						     memory_order_acquire);

		/* The tail is only what clients say. An empty slot at the head ends the matter. */
		if (head < client->tails[i] && slot & RING_FULL_BIT)
			return false;
	}
	return true;
}

bool intake_release(struct pool *pool)
{
	bool left = false;

	for (uint32_t i = 0; i < pool->arena->max_clients; i++) {
		struct intake_client *client = &pool->intake.clients[i];

		if (atomic_load_explicit(&client->state, memory_order_relaxed) != CLIENT_DYING)
			continue;
		/* ORDER client/active [K2]: seq_cst, see intake_get(). */
		if (atomic_load_explicit(&client->active, memory_order_seq_cst) ||
		    !intake_passed(pool, client)) {
			left = true;
			continue;
		}
		segment_unmap(client->segment, client->segment_size);
		free(client->tails);
		client->tails = NULL;
		client->segment = NULL;
		atomic_store_explicit(&client->state, CLIENT_NONE, memory_order_release);
		pool_send(pool, PROTO_POOL_RELEASED, i, client->generation, "");
	}
	return left;
}

bool intake_pending(struct pool *pool)
{
	uint32_t n = intake_tenants(pool);
	uint32_t words = (pool->n_workers + 63) / 64;

	/* ORDER requeued [Q1]: acquire, pairs with intake_requeue(). */
	if (atomic_load_explicit(&pool->intake.has_requeued, memory_order_acquire))
		return true;
	for (uint32_t i = 0; i < n; i++) {
		struct tenant_segment *tenant = intake_segment(pool, i);

		for (uint32_t k = 0; tenant && k < words; k++) {
			uint32_t rings = min(pool->n_workers - 64 * k, 64u);

			/* Clients can set bits that belong to no ring. */
			if (atomic_load_explicit(&tenant->summary[k], memory_order_relaxed) &
			    UINT64_MAX >> (64 - rings))
				return true;
		}
	}
	return false;
}

/* Puts a row on the worker's root deque, still private. There is room. */
static void intake_push(struct worker *w, uint32_t *n, uint32_t row)
{
	atomic_store_explicit(&w->roots.entries[*n].word, row, memory_order_relaxed);
	(*n)++;
}

/* Accepts one word of a ring: its row is QUEUED after it, or the job is refused. */
static bool intake_accept(struct worker *w, uint32_t tenant, uint32_t payload, uint64_t now,
			  uint32_t *ret_row)
{
	struct pool *pool = w->pool;
	struct intake_client *client = intake_get(pool, ring_payload_client(payload));
	uint32_t index = ring_payload_job(payload);

	if (!client) {
		COUNT(w, garbage);
		return false;
	}
	if (client->tenant != tenant || (client->generation & 31u) != ring_payload_gen(payload) ||
	    index >= client->n_jobs) {
		intake_put(pool, client);
		COUNT(w, garbage);
		return false;
	}
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

	/* Once more if the row was freed at the same moment (root_row_free()). Two rings may hold
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
			COUNT(w, refused);
			intake_put(pool, client);
			return false;
		}
	} while (!atomic_compare_exchange_weak_explicit(
		word, &expected, ledger_pack(row_new), memory_order_relaxed, memory_order_relaxed));
	atomic_store_explicit(&job->drained_ns, now, memory_order_relaxed);
	*ret_row = row;
	return true;
}

/* Empties one ring into the worker's root deque, as far as there is room. */
static void intake_drain_ring(struct worker *w, uint32_t tenant_slot, struct tenant_segment *tenant,
			      uint32_t index, uint32_t *n)
{
	struct ledger_ring *side = &w->pool->arena->rings[tenant_slot][index];
	struct ring *ring = &tenant->rings[index];
	uint32_t nobody = 0, payload, row, before = *n, seen = 0;
	uint64_t head, now = 0;

	/* ORDER ring/consumer [R3]: acquire, the head as the last holder left it. Pairs with the
	 * release below. */
	if (!atomic_compare_exchange_strong_explicit(&side->consumer, &nobody, w->index + 1,
						     memory_order_acquire, memory_order_relaxed))
		return;
	tenant_clear(tenant, index);
	head = atomic_load_explicit(&side->head, memory_order_relaxed);
	/* Refused words count too: somebody may write them faster than they are read. */
	for (; *n < WORKER_ROOTS && seen < RING_SLOTS; seen++) {
		enum ring_status status = ring_peek(ring, head, &payload);

		if (status == RING_EMPTY)
			break;
		if (status == RING_GARBAGE) {
			COUNT(w, garbage);
			break;
		}
		if (!now)
			now = clock_ns();
		if (intake_accept(w, tenant_slot, payload, now, &row))
			intake_push(w, n, row);
		/* ORDER ledger/head [L1]: release, the row is QUEUED before the head moves (I1).
		 * Pairs with intake_passed(); the manager reads after the pool's death. */
		atomic_store_explicit(&side->head, ++head, memory_order_release);
		ring_consume(ring, head - 1);
	}
	if (*n == WORKER_ROOTS || seen == RING_SLOTS)
		tenant_mark(tenant, index);
	COUNT_ADD(w, drained, *n - before);
	if (index != w->index)
		COUNT_ADD(w, takeovers, *n - before);
	/* ORDER ring/consumer [R3]: release, pairs with the acquire above. */
	atomic_store_explicit(&side->consumer, 0, memory_order_release);
}

static void intake_drain_requeued(struct worker *w, uint32_t *n)
{
	struct intake *in = &w->pool->intake;

	if (!atomic_load_explicit(&in->has_requeued, memory_order_relaxed))
		return;
	pthread_mutex_lock(&in->lock);
	while (in->n_requeued && *n < WORKER_ROOTS)
		intake_push(w, n, in->requeued[--in->n_requeued]);
	atomic_store_explicit(&in->has_requeued, in->n_requeued, memory_order_relaxed);
	pthread_mutex_unlock(&in->lock);
}

uint32_t intake_drain(struct worker *w)
{
	struct pool *pool = w->pool;
	uint32_t tenants = intake_tenants(pool);
	uint32_t n = 0;

	/* Entries are written from position 0 on: nothing public may be left there. */
	if (deque_size(&w->roots))
		return 0;
	deque_reclaim(&w->roots);
	deque_reset(&w->roots);
	/* Each time another tenant and another ring come first: none starves behind a full one. */
	uint32_t turn = w->index + w->drains++;

	intake_drain_requeued(w, &n);
	for (uint32_t t = 0; t < tenants && n < WORKER_ROOTS; t++) {
		uint32_t slot = (turn + t) % tenants;
		struct tenant_segment *tenant = intake_segment(pool, slot);

		for (uint32_t i = 0; tenant && i < pool->n_workers && n < WORKER_ROOTS; i++) {
			/* Every other time one's own ring comes first. */
			uint32_t ring = ((turn & 1 ? turn / 2 : w->index) + i) % pool->n_workers;
			uint64_t summary = atomic_load_explicit(&tenant->summary[ring / 64],
								memory_order_relaxed);

			if (summary >> ring % 64 & 1)
				intake_drain_ring(w, slot, tenant, ring, &n);
		}
	}
	if (n)
		deque_publish(&w->roots, n);
	return n;
}
