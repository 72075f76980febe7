/* SPDX-License-Identifier: MIT */
/*
 * daemon/fair.c - weighted virtual time in three levels
 *
 * WHAT IT IS
 *   Each tenant, each connection and each job has a virtual time v: the CPU time it has used,
 *   divided by its weight. Whoever is furthest behind goes first: the tenant with the smallest v,
 *   of its connections the one with the smallest v, of its jobs the one whose virtual end is the
 *   earliest. So two connections of one uid share what the uid gets as two uids share the pool.
 *   For tenants and connections it is start-time fair queueing (Goyal, Vin and Cheng, SIGCOMM
 *   1996) in a hierarchy; for the jobs of a connection, which come once each, the virtual time of
 *   generalized processor sharing (Parekh and Gallager, 1993): it goes by CPU time over the sum of
 *   the weights of all jobs that are there, and a job's end is its start plus the mean job's time
 *   over its weight.
 *   A job that only one worker may start, or one of a group, waits in a queue of that place.
 *   Whoever takes a job chooses by the same virtual times between what waits for its own places and
 *   what anybody may start, so a flood of such jobs goes before nobody.
 *
 * WHO CALLS IT, ON WHICH THREAD
 *   See fair.h. fair_charge() is on the way of every job, and costs one fetch-add to the line of
 *   the board where the job's end is counted anyway. All else is done with the lock, once for a
 *   batch of up to 64 jobs: queueing, picking and charging cost 28 ns a job in such a batch, 50 ns
 *   where each comes alone, on a machine that forks in 2 ns. A client that is alone and does not
 *   flood never comes here (fair_direct()).
 *
 * TIME
 *   Workers add what a job used to board->cpu_ns of its client, at its end, when they leave it for
 *   another, and when somebody settles their accounts (account.h). fair_settle() turns what was
 *   added since the last time into virtual time. In between, v counts an estimate for each job
 *   given to a worker, the mean of that client's, but FAIR_BATCH at most; as they end it is taken
 *   back in proportion.
 *
 * INVARIANTS
 *   I1. A client is active while it has rows queued or given to workers, as far as fair_settle()
 *       has seen; a tenant while one of its clients is.
 *   I2. No credit for sleeping: who becomes active starts at its own v or at the level's floor,
 *       whichever is the later; the floor is the smallest v of the active ones, or where none is,
 *       the largest that one had; it never goes back. So nobody is ahead of an active one by what
 *       it did not use while it was not there, and nobody pays for what it used while alone: when
 *       another comes, the floor has followed it. All v stay within 2^63 of the floor, so that
 *       they can be compared: those of who is not active are lifted along with it (fair_raise()).
 *       A new connection starts no earlier than at its tenant's clock, the weighted mean of the
 *       active ones' v: else the floor would stay at the newcomers' own v where they come and go,
 *       and one that stays would never be first again.
 *   I3. Bounded lag: fair_pick() takes of the one with the smallest v as long as it stays that. Two
 *       that always have something queued differ by the estimates of a batch for each worker, and
 *       by what those jobs were longer than estimated; that is paid for before the next is picked.
 *   I4. In a heap stand the tenants and clients with queued rows that anybody may start, and no
 *       others, in the order of their v when it was last changed; every change sifts. Those with
 *       rows for a place are found by looking at all active clients.
 *   I5. rows[] is only linked: each row is in one queue or none, which the ledger guarantees (a row
 *       is accepted while it is FREE or FINISHING, and queued by who accepted it). So there is room
 *       for all there can be, and nothing is allocated. in and the links change with the lock held,
 *       so whoever takes a row out, be it to start it or to end it, is the only one.
 *   I6. Weights are clamped where they come in, so that no division is by 0 and no weight shuts
 *       others out; a job's weight counts among the jobs of its connection only.
 *
 * WHAT HAPPENS IF A PEER DIES HERE
 *   A client: its queued rows are cut out and end (intake_release()). The pool: the ledger has the
 *   rows, and virtual time starts anew with the next pool.
 */
#include "daemon/fair.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"

/* Accounts are settled no more often than this, and than a tenth of what it costs. */
#define FAIR_SETTLE	 (20 * NSEC_PER_USEC)
#define FAIR_SETTLE_EACH 200u
/* How far a floor goes, until those that are not active follow it: see I2. */
#define FAIR_LIFT (UINT64_C(1) << 60)

/* a - b, where they wrap. */
static int64_t fair_ahead(uint64_t a, uint64_t b)
{
	return (int64_t)(a - b);
}

static uint64_t fair_later(uint64_t a, uint64_t b)
{
	return fair_ahead(a, b) > 0 ? a : b;
}

static uint32_t fair_clamp(uint32_t weight)
{
	return max(1u, min(weight, FAIR_WEIGHT_MAX));
}

uint32_t fair_weight(uint32_t weight)
{
	return weight ? fair_clamp(weight) : FAIR_WEIGHT;
}

static uint64_t fair_virtual(uint64_t ns, uint64_t weight)
{
	/* 2^50 ns are 13 days. */
	return min(ns, UINT64_C(1) << 50) * FAIR_ONE / weight;
}

/* ------------------------------------------------------------------------------------ heaps */

static bool fair_before(const struct fair_node *a, const struct fair_node *b)
{
	int64_t d = fair_ahead(a->v, b->v);

	return d < 0 || (d == 0 && a->turn < b->turn);
}

static void fair_put(struct fair_heap *heap, uint32_t at, struct fair_node *node)
{
	heap->nodes[at] = node;
	node->place = at + 1;
}

/* Moves a node to where it belongs after its v has changed. */
static void fair_sift(struct fair_heap *heap, struct fair_node *node)
{
	uint32_t at = node->place - 1;

	while (at && fair_before(node, heap->nodes[(at - 1) / 2])) {
		fair_put(heap, at, heap->nodes[(at - 1) / 2]);
		at = (at - 1) / 2;
	}
	for (;;) {
		uint32_t child = 2 * at + 1;

		if (child + 1 < heap->n && fair_before(heap->nodes[child + 1], heap->nodes[child]))
			child++;
		if (child >= heap->n || !fair_before(heap->nodes[child], node))
			break;
		fair_put(heap, at, heap->nodes[child]);
		at = child;
	}
	fair_put(heap, at, node);
}

static void fair_insert(struct fair_heap *heap, struct fair_node *node)
{
	fair_put(heap, heap->n++, node);
	fair_sift(heap, node);
}

static void fair_remove(struct fair_heap *heap, struct fair_node *node)
{
	struct fair_node *last = heap->nodes[--heap->n];

	if (last != node) {
		fair_put(heap, node->place - 1, last);
		fair_sift(heap, last);
	}
	node->place = 0;
}

/* The node's v has changed. */
static void fair_moved(struct fair_heap *heap, struct fair_node *node)
{
	if (node->place)
		fair_sift(heap, node);
}

/* ------------------------------------------------------------------------- who there is */

int fair_init(struct fair *fair, struct board_client *clients, uint32_t max_clients,
	      uint32_t max_jobs, uint32_t max_tenants, uint32_t n_accounts)
{
	memset(fair, 0, sizeof(*fair));
	pthread_mutex_init(&fair->lock, NULL);
	fair->max_clients = max_clients;
	fair->max_jobs = max_jobs;
	fair->max_tenants = max_tenants;
	fair->n_accounts = n_accounts;
	fair->accounts = calloc(n_accounts, sizeof(struct account *));
	fair->groups = calloc(n_accounts, sizeof(*fair->groups));
	fair->tenants = calloc(max_tenants, sizeof(*fair->tenants));
	fair->clients = calloc(max_clients, sizeof(*fair->clients));
	fair->active = calloc(max_clients, sizeof(*fair->active));
	fair->heap.nodes = calloc(max_tenants, sizeof(struct fair_node *));
	/* Pages that no row needs are never touched. */
	fair->rows = calloc((uint64_t)max_clients * max_jobs, sizeof(*fair->rows));
	fair->placed = calloc((uint64_t)FAIR_PLACES * max_clients, sizeof(*fair->placed));
	if (!fair->accounts || !fair->groups || !fair->tenants || !fair->clients || !fair->active ||
	    !fair->heap.nodes || !fair->rows || !fair->placed)
		return -ENOMEM;
	fair->board = clients;
	return 0;
}

void fair_fini(struct fair *fair)
{
	for (uint32_t i = 0; fair->tenants && i < fair->max_tenants; i++)
		free(fair->tenants[i].heap.nodes);
	free(fair->accounts);
	free(fair->groups);
	free(fair->placed);
	free(fair->tenants);
	free(fair->clients);
	free(fair->active);
	free(fair->heap.nodes);
	free(fair->rows);
	pthread_mutex_destroy(&fair->lock);
}

void fair_add_account(struct fair *fair, uint32_t worker, uint32_t group, struct account *account)
{
	fair->accounts[worker] = account;
	fair->groups[worker] = group;
}

int fair_add_tenant(struct fair *fair, uint32_t slot, uint32_t weight)
{
	struct fair_tenant *tenant = &fair->tenants[slot];
	int r = 0;

	fair_lock(fair);
	tenant->node.weight = fair_clamp(weight);
	if (!tenant->heap.nodes) {
		tenant->heap.nodes = calloc(fair->max_clients, sizeof(struct fair_node *));
		tenant->node.v = fair->level.floor;
	}
	if (!tenant->heap.nodes)
		r = -ENOMEM;
	fair_unlock(fair);
	return r;
}

/* What one expects of the client's next job, from its mean. */
static void fair_expect(struct fair_client *client)
{
	uint64_t n;

	client->estimate = min(client->mean ? client->mean : FAIR_GUESS, FAIR_BATCH);
	client->step = fair_virtual(client->estimate, client->node.weight);
	client->tenant_step = fair_virtual(client->estimate, client->tenant->node.weight);
	n = FAIR_BATCH / client->estimate;
	atomic_store_explicit(&client->batch, (uint32_t)min(max(n, UINT64_C(1)), FAIR_BATCH_JOBS),
			      memory_order_relaxed);
}

/* The only active client with nothing queued may go past the queues. */
static void fair_set_direct(struct fair *fair)
{
	bool alone = fair->n_active == 1 && !fair_queued(fair) && !fair_placed(fair);

	atomic_store_explicit(&fair->direct, alone ? fair->active[0] + 1 : 0, memory_order_relaxed);
}

static void fair_deactivate(struct fair *fair, struct fair_client *client)
{
	struct fair_tenant *tenant = client->tenant;
	uint32_t last = fair->active[--fair->n_active];

	fair->active[client->active - 1] = last;
	fair->clients[last].active = client->active;
	client->active = 0;
	tenant->weights -= client->node.weight;
	tenant->level.top = fair_later(tenant->level.top, client->node.v);
	if (--tenant->level.n_active)
		return;
	tenant->level.floor = fair_later(tenant->level.floor, tenant->level.top);
	fair->level.top = fair_later(fair->level.top, tenant->node.v);
	if (!--fair->level.n_active)
		fair->level.floor = fair_later(fair->level.floor, fair->level.top);
}

void fair_add_client(struct fair *fair, uint32_t slot, uint32_t tenant, uint32_t weight)
{
	struct fair_client *client = &fair->clients[slot];
	struct board_client *board = &fair->board[slot];

	fair_lock(fair);
	if (client->active)
		fair_deactivate(fair, client);
	memset(client, 0, sizeof(*client));
	client->board = board;
	client->tenant = &fair->tenants[tenant];
	client->node.weight = fair_clamp(weight);
	client->node.v = fair_later(client->tenant->level.floor, client->tenant->clock);
	client->jobs = atomic_load_explicit(&board->jobs, memory_order_relaxed);
	client->cpu_ns = atomic_load_explicit(&board->cpu_ns, memory_order_relaxed);
	atomic_store_explicit(&board->weight, client->node.weight, memory_order_relaxed);
	fair_expect(client);
	fair_set_direct(fair);
	fair_unlock(fair);
}

/* ------------------------------------------------------------------------------- charging */

void fair_charge(struct fair *fair, uint32_t row, uint64_t ns, bool last)
{
	struct board_client *board = &fair->board[row / fair->max_jobs];

	/* Relaxed: sums, of which only the growth counts. */
	atomic_fetch_add_explicit(&board->cpu_ns, ns, memory_order_relaxed);
	if (!last)
		atomic_fetch_add_explicit(&fair->rows[row].used, ns, memory_order_relaxed);
}

void fair_waste(struct fair *fair, uint32_t tenant, uint64_t ns)
{
	atomic_fetch_add_explicit(&fair->tenants[tenant].wasted, ns, memory_order_relaxed);
}

/* Jobs given to workers and not ended, as far as it was seen. */
static uint32_t fair_given(struct fair_client *client)
{
	uint32_t direct = atomic_load_explicit(&client->direct, memory_order_relaxed);
	int32_t n = (int32_t)(client->picked + direct - client->ended);

	/* Ends may be seen before direct is. */
	return n > 0 ? (uint32_t)n : 0;
}

/* What grew since it was seen last; the manager clears it for a new client. */
static uint64_t fair_grown(_Atomic uint64_t *counter, uint64_t *seen)
{
	uint64_t value = atomic_load_explicit(counter, memory_order_relaxed);
	uint64_t grown = value >= *seen ? value - *seen : 0;

	*seen = value;
	return grown;
}

/* The given part of a whole that n shares make up. */
static uint64_t fair_share(uint64_t whole, uint64_t shares, uint64_t n)
{
	return shares >= n ? whole : whole / n * shares;
}

/* Takes back what was charged in advance for n of the jobs given. */
static void fair_unahead(struct fair_client *client, uint64_t n)
{
	uint32_t given = fair_given(client);
	uint64_t back = fair_share(client->ahead, n, given);

	client->ahead -= back;
	client->weights_given -= fair_share(client->weights_given, n, given);
	client->node.v -= fair_virtual(back, client->node.weight);
	client->tenant->node.v -= fair_virtual(back, client->tenant->node.weight);
}

static void fair_learn(struct fair_client *client, uint64_t ns, uint64_t jobs)
{
	client->sample_ns += ns;
	client->sample_jobs += jobs;
	if (!client->sample_jobs)
		return;
	uint64_t mean = max(client->sample_ns / client->sample_jobs, UINT64_C(1));

	client->mean = client->mean ? (3 * client->mean + mean) / 4 : mean;
	client->sample_ns = client->sample_jobs = 0;
	fair_expect(client);
}

/* The same of an active tenant, for what was no job. */
static void fair_settle_waste(struct fair *fair, struct fair_tenant *tenant)
{
	/* Relaxed: a sum. */
	if (!atomic_load_explicit(&tenant->wasted, memory_order_relaxed))
		return;
	tenant->node.v +=
		fair_virtual(atomic_exchange_explicit(&tenant->wasted, 0, memory_order_relaxed),
			     tenant->node.weight);
	fair_moved(&fair->heap, &tenant->node);
}

/* Virtual time of a client and its tenant, from what workers have charged. */
static void fair_settle_client(struct fair *fair, struct fair_client *client)
{
	uint64_t jobs = fair_grown(&client->board->jobs, &client->jobs);
	uint64_t ns = fair_grown(&client->board->cpu_ns, &client->cpu_ns);
	uint64_t now = atomic_load_explicit(&client->now, memory_order_relaxed);
	/* Those that went past the queues have weights too; none is known, and the usual one is
	 * taken. */
	uint64_t weights = client->weights +
			   max(client->weights_given, (uint64_t)fair_given(client) * FAIR_WEIGHT);
	uint64_t cut;

	if (!jobs && !ns)
		return;
	now += fair_virtual(ns, weights ? weights : FAIR_WEIGHT);
	atomic_store_explicit(&client->now, now, memory_order_relaxed);
	fair_unahead(client, jobs);
	client->ended += (uint32_t)jobs;
	client->node.v += fair_virtual(ns, client->node.weight);
	client->tenant->node.v += fair_virtual(ns, client->tenant->node.weight);
	if (client->tenant->weights)
		client->tenant->clock += fair_virtual(ns, client->tenant->weights);
	cut = min(client->cut, jobs);
	client->cut -= cut;
	fair_learn(client, ns, jobs - cut);
	fair_moved(&client->tenant->heap, &client->node);
	fair_moved(&fair->heap, &client->tenant->node);
	atomic_store_explicit(&client->board->vtime_ns, client->node.v / (FAIR_ONE / FAIR_WEIGHT),
			      memory_order_relaxed);
}

void fair_remove_client(struct fair *fair, uint32_t slot)
{
	struct fair_client *client = &fair->clients[slot];

	fair_lock(fair);
	fair_settle_client(fair, client);
	if (client->active)
		fair_deactivate(fair, client);
	fair_set_direct(fair);
	fair_unlock(fair);
}

static void fair_lowest(struct fair_level *level, uint64_t v)
{
	if (!level->found || fair_ahead(v, level->lowest) < 0)
		level->lowest = v;
	level->found = true;
}

/* One that is not active: it cannot fall so far behind that it would seem to be ahead (I2). */
static void fair_lift(const struct fair_level *level, struct fair_node *node)
{
	node->v = fair_later(node->v, level->floor);
}

/* Sets the floor; true if all that are not active have to be lifted. */
static bool fair_raise(struct fair_level *level)
{
	if (level->found)
		level->floor = fair_later(level->floor, level->lowest);
	level->found = false;
	if (level->floor - level->lifted < FAIR_LIFT)
		return false;
	level->lifted = level->floor;
	level->top = fair_later(level->top, level->floor);
	return true;
}

static void fair_raise_clients(struct fair *fair, struct fair_tenant *tenant)
{
	if (!fair_raise(&tenant->level))
		return;
	tenant->clock = fair_later(tenant->clock, tenant->level.floor);
	for (uint32_t i = 0; i < fair->max_clients; i++)
		if (fair->clients[i].tenant == tenant && !fair->clients[i].active)
			fair_lift(&tenant->level, &fair->clients[i].node);
}

static void fair_raise_tenants(struct fair *fair)
{
	if (!fair_raise(&fair->level))
		return;
	for (uint32_t i = 0; i < fair->max_tenants; i++)
		if (!fair->tenants[i].level.n_active)
			fair_lift(&fair->level, &fair->tenants[i].node);
}

/* a is further behind than b by more than a quantum. */
static bool fair_is_behind(const struct fair_node *a, const struct fair_node *b)
{
	return fair_ahead(b->v, a->v) > (int64_t)fair_virtual(FAIR_QUANTUM, a->weight);
}

/* What can be stolen of this client goes before the first of the queued ones. */
static bool fair_goes_before(const struct fair *fair, const struct fair_client *client)
{
	const struct fair_node *first = fair->heap.nodes[0];
	const struct fair_tenant *tenant = container_of(first, struct fair_tenant, node);

	if (client->queued || client->placed)
		return false;
	if (client->tenant != tenant)
		return !client->tenant->node.place && fair_is_behind(&client->tenant->node, first);
	return fair_is_behind(&client->node, tenant->heap.nodes[0]);
}

void fair_settle(struct fair *fair, uint64_t now)
{
	bool behind = false;
	uint32_t row;

	fair->settled_at = now;
	for (uint32_t i = 0; i < fair->n_accounts; i++) {
		uint64_t ns = account_settle(fair->accounts[i], now, &row);

		if (row != ACCOUNT_NOBODY)
			fair_charge(fair, row, ns, false);
	}
	for (uint32_t i = fair->n_active; i-- > 0;) {
		struct fair_client *client = &fair->clients[fair->active[i]];

		fair_settle_client(fair, client);
		fair_settle_waste(fair, client->tenant);
		if (!client->queued && !client->placed && !fair_given(client))
			fair_deactivate(fair, client);
	}
	for (uint32_t i = 0; i < fair->n_active; i++) {
		struct fair_client *client = &fair->clients[fair->active[i]];

		fair_lowest(&client->tenant->level, client->node.v);
		fair_lowest(&fair->level, client->tenant->node.v);
		behind |= fair->heap.n && fair_goes_before(fair, client);
	}
	for (uint32_t i = 0; i < fair->n_active; i++)
		fair_raise_clients(fair, fair->clients[fair->active[i]].tenant);
	fair_raise_tenants(fair);
	atomic_store_explicit(&fair->behind, behind, memory_order_relaxed);
	fair_set_direct(fair);
}

void fair_settle_sometimes(struct fair *fair, uint64_t now)
{
	uint64_t wait =
		max(FAIR_SETTLE, (uint64_t)(fair->n_active + fair->n_accounts) * FAIR_SETTLE_EACH);

	/* Its clock may have been read before another settled. */
	if ((int64_t)(now - fair->settled_at) >= (int64_t)wait)
		fair_settle(fair, now);
}

/* -------------------------------------------------------------------------------- queueing */

/* I2. */
static void fair_activate(struct fair *fair, struct fair_client *client)
{
	struct fair_tenant *tenant = client->tenant;

	/* What it was charged after it had become inactive. */
	fair_settle_client(fair, client);
	if (!tenant->level.n_active++) {
		fair->level.n_active++;
		fair_lift(&fair->level, &tenant->node);
		fair_moved(&fair->heap, &tenant->node);
	}
	fair_settle_waste(fair, tenant);
	fair_lift(&tenant->level, &client->node);
	fair_moved(&tenant->heap, &client->node);
	fair->active[fair->n_active++] = (uint32_t)(client - fair->clients);
	client->active = fair->n_active;
	tenant->weights += client->node.weight;
}

/* Relaxed, both: they change while the row is nobody else's; fair_claims() may look at one that has
 * just ended, and takes what it finds. */
static uint32_t fair_row_weight(struct fair *fair, uint32_t row)
{
	return fair_weight(atomic_load_explicit(&fair->rows[row].weight, memory_order_relaxed));
}

static uint64_t fair_row_start(struct fair *fair, uint32_t row)
{
	return atomic_load_explicit(&fair->rows[row].start, memory_order_relaxed);
}

static uint32_t fair_class(struct fair *fair, uint32_t row)
{
	return 31u - (uint32_t)__builtin_clz(fair_row_weight(fair, row));
}

/* The queue that a row is in, or belongs in. */
static struct fair_queue *fair_queue_of(struct fair *fair, uint32_t row)
{
	uint32_t client = row / fair->max_jobs, place = fair->rows[row].place;

	return place <= FAIR_NOWHERE ? &fair->clients[client].queues[fair_class(fair, row)]
				     : &fair->placed[(uint64_t)place * fair->max_clients + client];
}

/* Relaxed, all three: hints, and changed with the lock held. */
static void fair_add(_Atomic uint32_t *counter, uint32_t n)
{
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
			      memory_order_relaxed);
}

/* Puts a row of an active client into its queue, at the end or at the front. */
static void fair_link(struct fair *fair, struct fair_client *client, uint32_t row, bool front)
{
	struct fair_queue *queue = fair_queue_of(fair, row);
	struct fair_row *entry = &fair->rows[row];

	entry->prev = front ? 0 : queue->last;
	entry->next = front ? queue->first : 0;
	*(entry->prev ? &fair->rows[entry->prev - 1].next : &queue->first) = row + 1;
	*(entry->next ? &fair->rows[entry->next - 1].prev : &queue->last) = row + 1;
	entry->in = 1;
	client->weights += fair_row_weight(fair, row);
	if (entry->place > FAIR_NOWHERE) {
		client->placed++;
		fair_add(&fair->waits[entry->place], 1);
		fair_add(&fair->n_placed, 1);
		return;
	}
	client->classes |= 1u << fair_class(fair, row);
	fair_add(&fair->queued, 1);
	if (client->queued++)
		return;
	fair_insert(&client->tenant->heap, &client->node);
	if (!client->tenant->node.place)
		fair_insert(&fair->heap, &client->tenant->node);
}

/* Takes a row out of its queue; it counts as given from now on. Its client's v is to be sifted. */
static void fair_unlink(struct fair *fair, struct fair_client *client, uint32_t row)
{
	struct fair_queue *queue = fair_queue_of(fair, row);
	struct fair_tenant *tenant = client->tenant;
	struct fair_row *entry = &fair->rows[row];

	*(entry->prev ? &fair->rows[entry->prev - 1].next : &queue->first) = entry->next;
	*(entry->next ? &fair->rows[entry->next - 1].prev : &queue->last) = entry->prev;
	entry->in = 0;
	entry->next = 0;
	client->weights -= fair_row_weight(fair, row);
	client->weights_given += fair_row_weight(fair, row);
	client->picked++;
	if (entry->place > FAIR_NOWHERE) {
		client->placed--;
		fair_add(&fair->waits[entry->place], UINT32_MAX);
		fair_add(&fair->n_placed, UINT32_MAX);
		return;
	}
	if (!queue->first)
		client->classes &= ~(1u << fair_class(fair, row));
	fair_add(&fair->queued, UINT32_MAX);
	if (--client->queued)
		return;
	fair_remove(&tenant->heap, &client->node);
	if (!tenant->heap.n)
		fair_remove(&fair->heap, &tenant->node);
}

static struct fair_client *fair_client_of(struct fair *fair, uint32_t row)
{
	struct fair_client *client = &fair->clients[row / fair->max_jobs];

	if (!client->active)
		fair_activate(fair, client);
	return client;
}

void fair_prepare(struct fair *fair, uint32_t index, uint32_t weight, uint32_t place)
{
	struct fair_client *client = &fair->clients[index / fair->max_jobs];
	struct fair_row *row = &fair->rows[index];

	row->next = 0;
	row->place = (uint16_t)place;
	atomic_store_explicit(&row->weight, (uint16_t)fair_weight(weight), memory_order_relaxed);
	atomic_store_explicit(&row->start, atomic_load_explicit(&client->now, memory_order_relaxed),
			      memory_order_relaxed);
	atomic_store_explicit(&row->used, 0, memory_order_relaxed);
}

bool fair_direct(struct fair *fair, uint32_t slot, uint32_t n)
{
	struct fair_client *client = &fair->clients[slot];

	/* All relaxed: if another client comes at this moment, one more batch goes before it. */
	if (atomic_load_explicit(&fair->direct, memory_order_relaxed) != slot + 1 ||
	    fair_queued(fair) || n > atomic_load_explicit(&client->batch, memory_order_relaxed))
		return false;
	atomic_fetch_add_explicit(&client->direct, n, memory_order_relaxed);
	return true;
}

void fair_push(struct fair *fair, uint32_t row, uint32_t n, uint64_t now)
{
	fair_settle_sometimes(fair, now);
	while (n--) {
		struct fair_client *client = fair_client_of(fair, row);
		struct fair_row *entry = &fair->rows[row];
		uint32_t next = entry->next - 1;

		atomic_store_explicit(&entry->start,
				      atomic_load_explicit(&client->now, memory_order_relaxed),
				      memory_order_relaxed);
		fair_link(fair, client, row, false);
		row = next;
	}
	fair_set_direct(fair);
}

void fair_return(struct fair *fair, const uint32_t *rows, uint32_t n, uint64_t now)
{
	fair_settle_sometimes(fair, now);
	while (n--) {
		struct fair_client *client = fair_client_of(fair, rows[n]);

		fair_unahead(client, 1);
		client->picked--;
		fair_link(fair, client, rows[n], true);
		fair_moved(&client->tenant->heap, &client->node);
		fair_moved(&fair->heap, &client->tenant->node);
	}
	fair_set_direct(fair);
}

/* The class whose first job has the earliest virtual end. The client has queued rows. */
static uint32_t fair_first_class(struct fair *fair, const struct fair_client *client)
{
	uint32_t best = FAIR_CLASSES;
	uint64_t first = 0;

	if (!(client->classes & (client->classes - 1)))
		return (uint32_t)__builtin_ctz(client->classes);

	for (uint32_t left = client->classes; left; left &= left - 1) {
		uint32_t class = (uint32_t)__builtin_ctz(left);
		uint32_t row = client->queues[class].first - 1;
		uint64_t end = fair_row_start(fair, row) +
			       fair_virtual(client->estimate, fair_row_weight(fair, row));

		if (best == FAIR_CLASSES || fair_ahead(end, first) < 0) {
			best = class;
			first = end;
		}
	}
	return best;
}

/* Takes a row out of its queue, and charges it in advance. */
static void fair_take(struct fair *fair, struct fair_client *client, uint32_t row)
{
	struct fair_tenant *tenant = client->tenant;

	fair_unlink(fair, client, row);
	client->ahead += client->estimate;
	client->node.v += client->step;
	client->node.turn = ++fair->turns;
	tenant->node.v += client->tenant_step;
	tenant->node.turn = fair->turns;
	fair_moved(&tenant->heap, &client->node);
	fair_moved(&fair->heap, &tenant->node);
}

bool fair_cut(struct fair *fair, uint32_t row)
{
	struct fair_client *client = &fair->clients[row / fair->max_jobs];

	if (!fair->rows[row].in)
		return false;
	fair_unlink(fair, client, row);
	client->cut++;
	return true;
}

uint32_t fair_cut_client(struct fair *fair, uint32_t slot, uint32_t *ret_rows, uint32_t max)
{
	struct fair_client *client = &fair->clients[slot];
	uint32_t n = 0;

	while (n < max && client->classes) {
		uint32_t class = (uint32_t)__builtin_ctz(client->classes);

		ret_rows[n] = client->queues[class].first - 1;
		fair_unlink(fair, client, ret_rows[n++]);
	}
	for (uint32_t place = FAIR_WORKER(0); n < max && client->placed && place < FAIR_PLACES;
	     place++) {
		struct fair_queue *queue =
			&fair->placed[(uint64_t)place * fair->max_clients + slot];

		while (n < max && queue->first) {
			ret_rows[n] = queue->first - 1;
			fair_unlink(fair, client, ret_rows[n++]);
		}
	}
	client->cut += n;
	return n;
}

/* Of two rows of queues, does a go first? Among those of one connection the one that came first. */
static bool fair_goes_first(struct fair *fair, uint32_t a, uint32_t b)
{
	const struct fair_client *x = &fair->clients[a / fair->max_jobs];
	const struct fair_client *y = &fair->clients[b / fair->max_jobs];

	if (x->tenant != y->tenant)
		return fair_before(&x->tenant->node, &y->tenant->node);
	if (x != y)
		return fair_before(&x->node, &y->node);
	return fair_ahead(fair_row_start(fair, a), fair_row_start(fair, b)) < 0;
}

/* The row that goes first of those that wait for a place, or best. */
static uint32_t fair_first_placed(struct fair *fair, uint32_t place, uint32_t best)
{
	const struct fair_queue *queues = &fair->placed[(uint64_t)place * fair->max_clients];

	for (uint32_t i = 0; fair_waits(fair, place) && i < fair->n_active; i++) {
		uint32_t row = queues[fair->active[i]].first - 1;

		if (row != ACCOUNT_NOBODY &&
		    (best == ACCOUNT_NOBODY || fair_goes_first(fair, row, best)))
			best = row;
	}
	return best;
}

/* The row that goes first on this worker; ACCOUNT_NOBODY if there is none. */
static uint32_t fair_first(struct fair *fair, uint32_t worker)
{
	uint32_t best = ACCOUNT_NOBODY;

	if (fair->heap.n) {
		const struct fair_tenant *tenant =
			container_of(fair->heap.nodes[0], struct fair_tenant, node);
		const struct fair_client *client =
			container_of(tenant->heap.nodes[0], struct fair_client, node);

		best = client->queues[fair_first_class(fair, client)].first - 1;
	}
	if (!fair_placed(fair))
		return best;
	best = fair_first_placed(fair, FAIR_WORKER(worker), best);
	return fair_first_placed(fair, FAIR_GROUP(fair->groups[worker]), best);
}

uint32_t fair_pick(struct fair *fair, uint32_t worker, uint32_t *ret_rows, uint32_t max,
		   uint64_t now, bool *ret_placed)
{
	uint64_t left = FAIR_BATCH;
	bool placed = false;
	uint32_t n = 0;

	fair_settle_sometimes(fair, now);
	while (n < max && !placed) {
		uint32_t row = fair_first(fair, worker);
		struct fair_client *client = &fair->clients[row / fair->max_jobs];

		if (row == ACCOUNT_NOBODY || (n && client->estimate > left))
			break;
		placed = fair->rows[row].place > FAIR_NOWHERE;
		if (placed && n) {
			placed = false;
			break;
		}
		left -= min(client->estimate, left);
		fair_take(fair, client, row);
		ret_rows[n++] = row;
	}
	*ret_placed = placed;
	fair_set_direct(fair);
	return n;
}

/* How far a job is in virtual time: a queued one has used nothing. */
static uint64_t fair_row_v(struct fair *fair, uint32_t row)
{
	uint64_t used = atomic_load_explicit(&fair->rows[row].used, memory_order_relaxed);

	return fair_row_start(fair, row) + fair_virtual(used, fair_row_weight(fair, row));
}

/* How far a job is ahead of another, at the level where they part, and the weight that the other
 * has there. */
static int64_t fair_lead(struct fair *fair, uint32_t row, uint32_t other, uint64_t *ret_weight)
{
	/* Not made active: a row that was set aside may be a dead one's (I1). */
	const struct fair_client *a = &fair->clients[row / fair->max_jobs];
	const struct fair_client *b = &fair->clients[other / fair->max_jobs];

	if (a->tenant != b->tenant) {
		*ret_weight = b->tenant->node.weight;
		return fair_ahead(a->tenant->node.v, b->tenant->node.v);
	}
	if (a != b) {
		*ret_weight = b->node.weight;
		return fair_ahead(a->node.v, b->node.v);
	}
	*ret_weight = fair_row_weight(fair, other);
	return fair_ahead(fair_row_v(fair, row), fair_row_v(fair, other));
}

uint32_t fair_turn(struct fair *fair, uint32_t row, const uint32_t *rows, uint32_t n)
{
	uint32_t best = row;
	uint64_t weight;

	for (uint32_t i = 0; i < n; i++)
		if (fair_lead(fair, best, rows[i], &weight) > 0)
			best = rows[i];
	return best;
}

bool fair_claims(struct fair *fair, uint32_t worker, uint32_t row, uint64_t ran_ns)
{
	uint32_t first = fair_first(fair, worker);
	uint64_t weight;
	int64_t ahead;

	if (first == ACCOUNT_NOBODY || row == ACCOUNT_NOBODY)
		return first != ACCOUNT_NOBODY;
	ahead = fair_lead(fair, row, first, &weight);
	/* Among equals the one that waits; but nobody is set aside for nothing, at each fork. */
	if (ahead < 0)
		return false;
	return ran_ns >= FAIR_QUANTUM || ahead >= (int64_t)fair_virtual(FAIR_QUANTUM, weight);
}
