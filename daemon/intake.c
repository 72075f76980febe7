/* SPDX-License-Identifier: MIT */
#include "daemon/intake.h"

#include <errno.h>
#include <stdlib.h>

#include "common/clock.h"
#include "common/log.h"
#include "daemon/pool.h"
#include "daemon/verdict.h"
#include "daemon/worker.h"
#include "shm/proto.h"

int intake_init(struct pool *pool)
{
	struct fair *fair = &pool->intake.fair;
	int r = fair_init(fair, pool->board->clients, pool->arena->max_clients,
			  pool->arena->max_jobs, LIMIT_TENANTS, pool->n_workers);

	for (uint32_t i = 0; r == 0 && i < pool->n_workers; i++)
		fair_add_account(fair, i, &pool->workers[i].account);
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
	tenant->uid = uid;
	tenant->size = size;
	tenant->n_rings = pool->n_workers;
	for (uint32_t i = 0; i < pool->n_workers; i++)
		ring_take_over(&segment->rings[i],
			       atomic_load_explicit(&pool->arena->rings[slot][i].head,
						    memory_order_relaxed));
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

/* Rows on their way into the fair queues, linked by next. */
struct intake_list {
	uint32_t first;
	uint32_t last;
	uint32_t n;
	uint32_t steps;	 /* taken so far, of INTAKE_STEPS */
	uint32_t client; /* of the first */
	bool mixed;	 /* others are of other clients */
	bool more;	 /* there may be more in the rings */
};

static void intake_link(struct pool *pool, struct intake_list *list, uint32_t row, uint32_t weight)
{
	struct fair *fair = &pool->intake.fair;
	uint32_t client = row / pool->arena->max_jobs;

	fair_prepare(fair, row, weight);
	if (list->n++) {
		fair->rows[list->last].next = row + 1;
		list->mixed |= client != list->client;
	} else {
		list->first = row;
		list->client = client;
	}
	list->last = row;
}

/* Rows that the last pool had queued run again. */
static void intake_requeue(struct pool *pool, uint32_t client, struct intake_list *ret_list)
{
	struct intake_client *c = &pool->intake.clients[client];
	_Atomic uint64_t *rows = arena_rows(pool->arena);
	uint32_t first = client * pool->arena->max_jobs;

	for (uint32_t i = 0; i < c->n_jobs; i++) {
		uint64_t word = atomic_load_explicit(&rows[first + i], memory_order_relaxed);

		if (ledger_unpack(word).state != LEDGER_QUEUED)
			continue;
		atomic_fetch_add_explicit(&c->active, 1, memory_order_relaxed);
		intake_link(pool, ret_list, first + i,
			    atomic_load_explicit(&c->jobs[i].weight, memory_order_relaxed));
	}
}

int intake_add_client(struct pool *pool, uint32_t slot, uint32_t generation, uint32_t tenant,
		      uint32_t uid, uint32_t pid, uint32_t n_jobs, int fd)
{
	struct intake_list requeued = { 0 };
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
	client->groups = client_segment_groups(client->jobs, n_jobs);
	client->heap = (char *)base + heap_offset;
	client->heap_size = heap_size;
	client->segment = base;
	client->segment_size = size;
	/* A new pool may hear of the client first, and of its tenant after. */
	r = fair_add_tenant(&pool->intake.fair, tenant, options_weight(pool->options, uid));
	if (r < 0) {
		free(client->tails);
		client->tails = NULL;
		client->segment = NULL;
		segment_unmap(base, size);
		return r;
	}
	fair_add_client(&pool->intake.fair, slot, tenant, pool->options->weight);
	/* While none of its words can be accepted: what is QUEUED now was so before this pool. */
	intake_requeue(pool, slot, &requeued);
	/* ORDER client/live [K1]: release, who sees LIVE sees the fields. Pairs with
	 * intake_get(). */
	atomic_store_explicit(&client->state, CLIENT_LIVE, memory_order_release);
	if (requeued.n) {
		fair_lock(&pool->intake.fair);
		fair_push(&pool->intake.fair, requeued.first, requeued.n, clock_ns());
		fair_unlock(&pool->intake.fair);
	}
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
	fair_gone(&pool->intake.fair, slot);
	/* What runs winds down. A row that starts after this sees the state. */
	for (uint32_t i = 0; i < client->n_jobs; i++) {
		uint32_t at = slot * pool->arena->max_jobs + i;
		/* ORDER verdict/cancel [V1]: seq_cst, after the state. Pairs with root_run(). */
		struct ledger_row row = ledger_unpack(
			atomic_load_explicit(&arena_rows(pool->arena)[at], memory_order_seq_cst));

		if (row.state == LEDGER_RUNNING)
			verdict_set(pool, at, row.generation, JOB_CANCELLED);
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

/* Any bit of a tenant's summary that belongs to a ring: clients can set others. */
static bool intake_tenant_pending(struct pool *pool, uint32_t slot)
{
	struct tenant_segment *tenant = intake_segment(pool, slot);
	uint32_t words = (pool->n_workers + 63) / 64;

	for (uint32_t k = 0; tenant && k < words; k++) {
		uint32_t rings = min(pool->n_workers - 64 * k, 64u);

		if (atomic_load_explicit(&tenant->summary[k], memory_order_relaxed) &
		    UINT64_MAX >> (64 - rings))
			return true;
	}
	return false;
}

/* True if a ring may hold words. */
static bool intake_rings_pending(struct pool *pool)
{
	uint32_t n = intake_tenants(pool);

	for (uint32_t i = 0; i < n; i++)
		if (intake_tenant_pending(pool, i))
			return true;
	return false;
}

bool intake_pending(struct pool *pool)
{
	return fair_queued(&pool->intake.fair) || intake_rings_pending(pool);
}

bool intake_glance(struct pool *pool, uint32_t *turn)
{
	uint32_t n = intake_tenants(pool);

	if (fair_queued(&pool->intake.fair))
		return true;
	for (uint32_t i = 0; i < min(n, INTAKE_GLANCE); i++) {
		*turn = *turn + 1 < n ? *turn + 1 : 0;
		if (intake_tenant_pending(pool, *turn))
			return true;
	}
	return false;
}

/* Takes a job off a ring: its row is QUEUED after it, or it is refused. last: the walk's own use of
 * the client goes with the row. Returns true if the row was accepted. */
static bool intake_accept(struct worker *w, struct intake_client *client, uint32_t index, bool last,
			  uint64_t now, struct intake_list *list)
{
	struct pool *pool = w->pool;
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
			return false;
		}
	} while (!atomic_compare_exchange_weak_explicit(
		word, &expected, ledger_pack(row_new), memory_order_relaxed, memory_order_relaxed));
	/* For the row; the walk has one use of its own, and needs it until its last record. */
	if (!last)
		atomic_fetch_add_explicit(&client->active, 1, memory_order_relaxed);
	atomic_store_explicit(&job->drained_ns, now, memory_order_relaxed);
	intake_link(pool, list, row, atomic_load_explicit(&job->weight, memory_order_relaxed));
	return true;
}

/* Walks the chain of one word, or goes on with it. False: it was not over. */
static bool intake_walk(struct worker *w, uint32_t tenant, struct intake_chain *chain,
			uint32_t payload, uint64_t now, struct intake_list *list)
{
	struct pool *pool = w->pool;
	struct intake_client *client = intake_get(pool, ring_payload_client(payload));
	bool more = false;

	/* Nobody but its writer loses anything by a word that has changed since. */
	if (!chain->next || chain->payload != payload)
		*chain = (struct intake_chain){ .payload = payload,
						.next = ring_payload_job(payload) + 1,
						.left = client ? client->n_jobs : 0 };
	if (!client || client->tenant != tenant ||
	    (client->generation & 31u) != ring_payload_gen(payload)) {
		COUNT(w, garbage);
		chain->next = 0;
	}
	while (chain->next && !more) {
		uint32_t index = chain->next - 1;

		if (index >= client->n_jobs || !chain->left) {
			COUNT(w, garbage);
			chain->next = 0;
			break;
		}
		/* Before the job can end, and its record be filled anew (job.h, I2). */
		chain->next = atomic_load_explicit(&client->jobs[index].next, memory_order_relaxed);
		chain->left--;
		list->steps++;
		if (intake_accept(w, client, index, !chain->next, now, list) && !chain->next)
			client = NULL;
		more = list->steps >= INTAKE_STEPS;
	}
	if (client)
		intake_put(pool, client);
	return !chain->next;
}

/* Takes what is in one ring, as far as this drain may. */
static void intake_drain_ring(struct worker *w, uint32_t tenant_slot, struct tenant_segment *tenant,
			      uint32_t index, struct intake_list *list)
{
	struct ledger_ring *side = &w->pool->arena->rings[tenant_slot][index];
	struct intake_chain *chain = &w->pool->intake.tenants[tenant_slot].chains[index];
	struct ring *ring = &tenant->rings[index];
	uint32_t nobody = 0, payload, steps, before = list->n;
	uint64_t head, now = 0;

	/* ORDER ring/consumer [R3]: acquire, the head and the chain as the last holder left them.
	 * Pairs with the release below. */
	if (!atomic_compare_exchange_strong_explicit(&side->consumer, &nobody, w->index + 1,
						     memory_order_acquire, memory_order_relaxed))
		return;
	tenant_clear(tenant, index);
	head = atomic_load_explicit(&side->head, memory_order_relaxed);
	/* Whatever is found counts: somebody may write words faster than they are read. */
	while (list->steps < INTAKE_STEPS) {
		enum ring_status status = ring_peek(ring, head, &payload);

		if (status == RING_EMPTY && !ring_skip(ring, head))
			break;
		if (status == RING_GARBAGE) {
			COUNT(w, garbage);
			list->steps++;
			continue;
		}
		if (!now)
			now = clock_ns();
		steps = list->steps;
		if (status == RING_OK && !intake_walk(w, tenant_slot, chain, payload, now, list)) {
			/* What was taken may come back and be other jobs, before a pool that knows
			 * the chain by this word only begins to walk it. */
			chain->payload = (payload & ~0xffffu) | ((chain->next - 1) & 0xffffu);
			ring_repoint(ring, head, chain->payload);
			break;
		}
		if (list->steps == steps)
			list->steps++;
		/* ORDER ledger/head [L1]: release, the rows are QUEUED before the head moves (I1).
		 * Pairs with intake_passed(); the manager reads after the pool's death. */
		atomic_store_explicit(&side->head, ++head, memory_order_release);
		if (status == RING_OK)
			ring_consume(ring, head - 1);
	}
	if (list->steps >= INTAKE_STEPS) {
		list->more = true;
		tenant_mark(tenant, index);
	}
	COUNT_ADD(w, drained, list->n - before);
	if (index != w->index)
		COUNT_ADD(w, takeovers, list->n - before);
	/* ORDER ring/consumer [R3]: release, pairs with the acquire above. */
	atomic_store_explicit(&side->consumer, 0, memory_order_release);
}

/* Takes what is in the rings. Each time another tenant and another ring come first: none starves
 * behind a full one. */
static void intake_drain_rings(struct worker *w, struct intake_list *list)
{
	struct pool *pool = w->pool;
	uint32_t tenants = intake_tenants(pool);
	uint32_t turn = w->index + w->drains++;

	for (uint32_t t = 0; t < tenants && !list->more; t++) {
		uint32_t slot = (turn + t) % tenants;
		struct tenant_segment *tenant = intake_segment(pool, slot);

		for (uint32_t i = 0; tenant && i < pool->n_workers && !list->more; i++) {
			/* Every other time one's own ring comes first. */
			uint32_t ring = ((turn & 1 ? turn / 2 : w->index) + i) % pool->n_workers;
			uint64_t summary = atomic_load_explicit(&tenant->summary[ring / 64],
								memory_order_relaxed);

			if (summary >> ring % 64 & 1)
				intake_drain_ring(w, slot, tenant, ring, list);
		}
	}
}

/* Puts rows onto the worker's own root deque, which is empty. */
static void intake_publish(struct worker *w, const uint64_t *rows, uint64_t n)
{
	deque_reclaim(&w->roots);
	deque_reset(&w->roots);
	deque_push_all(&w->roots, w->roots.entries, rows, n);
	worker_mark_roots(w);
}

/* Lock held: the batch that goes first. */
static uint32_t intake_pick(struct worker *w, uint64_t *ret_rows, uint64_t now)
{
	uint32_t rows[WORKER_ROOTS];
	uint32_t n = fair_pick(&w->pool->intake.fair, rows, WORKER_ROOTS, now);

	for (uint32_t i = 0; i < n; i++)
		ret_rows[i] = rows[i];
	return n;
}

uint32_t intake_drain(struct worker *w)
{
	struct fair *fair = &w->pool->intake.fair;
	struct intake_list list = { 0 };
	uint64_t rows[WORKER_ROOTS];
	uint32_t n = 0;

	/* Entries are written from position 0 on: nothing public may be left there. */
	if (deque_size(&w->roots))
		return 0;
	intake_drain_rings(w, &list);
	if (list.n && !list.mixed && !list.more && fair_direct(fair, list.client, list.n)) {
		for (uint32_t row = list.first; n < list.n; row = fair->rows[row].next - 1)
			rows[n++] = row;
	} else if (list.n || fair_queued(fair)) {
		uint64_t now = clock_ns();

		fair_lock(fair);
		if (list.n)
			fair_push(fair, list.first, list.n, now);
		n = intake_pick(w, rows, now);
		fair_unlock(fair);
	}
	if (n)
		intake_publish(w, rows, n);
	/* What is left in the rings has its bits set again, after somebody may have looked. */
	if (list.more)
		pool_wake_dispatcher(w->pool);
	return n;
}

/* Takes rows off anybody's root deque. */
static uint32_t intake_take_back(struct worker *from, uint32_t *ret_rows)
{
	uint32_t n = 0;

	while (n < WORKER_ROOTS && deque_size(&from->roots)) {
		uint64_t rows[WORKER_ROOTS], some;
		enum deque_status status = deque_steal(&from->roots, rows, WORKER_ROOTS - n, &some);

		if (status == DEQUE_EMPTY)
			break;
		for (uint64_t i = 0; status == DEQUE_STOLEN && i < some; i++)
			ret_rows[n++] = (uint32_t)rows[i];
	}
	return n;
}

bool intake_preempt(struct worker *w)
{
	struct pool *pool = w->pool;
	struct fair *fair = &pool->intake.fair;
	struct intake_list list = { 0 };
	uint32_t back[WORKER_ROOTS];
	uint64_t rows[WORKER_ROOTS];
	uint32_t n, n_back = intake_take_back(w, back);
	uint64_t now;

	intake_drain_rings(w, &list);
	now = clock_ns();
	fair_lock(fair);
	fair_return(fair, back, n_back, now);
	if (list.n)
		fair_push(fair, list.first, list.n, now);
	fair_settle(fair, now);
	n = fair_claims(fair, w->job, now - w->job_since) ? intake_pick(w, rows, now) : 0;
	fair_unlock(fair);
	if (n) {
		w->aside = w->job;
		intake_publish(w, rows, n);
	}
	/* I3: for what this worker does not run. */
	if (fair_queued(fair) || n > 1 || list.more)
		pool_wake_dispatcher(pool);
	return n;
}

bool intake_again(struct worker *w)
{
	struct fair *fair = &w->pool->intake.fair;
	uint64_t rows[WORKER_ROOTS], now;
	uint32_t n = 0;

	if (!fair_queued(fair))
		return false;
	now = clock_ns();
	fair_lock(fair);
	fair_settle(fair, now);
	if (fair_claims(fair, w->aside, FAIR_QUANTUM))
		n = intake_pick(w, rows, now);
	fair_unlock(fair);
	if (n)
		intake_publish(w, rows, n);
	return n;
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
	if (n > 1)
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

	if (!fair_queued(fair))
		return;
	fair_lock(fair);
	fair_settle(fair, clock_ns());
	fair_unlock(fair);
}

uint32_t intake_summons(struct pool *pool, uint32_t next)
{
	struct fair *fair = &pool->intake.fair;
	uint32_t found = pool->n_workers;
	uint64_t now;

	if (intake_rings_pending(pool))
		return next % pool->n_workers;
	if (!fair_queued(fair))
		return found;
	now = clock_ns();
	fair_lock(fair);
	fair_settle(fair, now);
	for (uint32_t i = 0; i < pool->n_workers && found == pool->n_workers; i++) {
		uint32_t at = (next + i) % pool->n_workers;
		uint32_t row = account_row(&pool->workers[at].account);

		if (row != ACCOUNT_NOBODY && fair_claims(fair, row, FAIR_QUANTUM))
			found = at;
	}
	fair_unlock(fair);
	return found;
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
