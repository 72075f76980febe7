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
 *       another comes, the floor has followed it.
 *   I3. Bounded lag: fair_pick() takes of the one with the smallest v as long as it stays that. Two
 *       that always have something queued differ by the estimates of a batch for each worker, and
 *       by what those jobs were longer than estimated; that is paid for before the next is picked.
 *   I4. In a heap stand the tenants and clients with queued rows, and no others, in the order of
 *       their v when it was last changed; every change sifts.
 *   I5. rows[] is only linked: each row is in one queue or none, which the ledger guarantees (a row
 *       is accepted while it is FREE or FINISHING, and queued by who accepted it). So there is room
 *       for all there can be, and nothing is allocated.
 *   I6. Weights are clamped where they come in, so that no division is by 0 and no weight shuts
 *       others out; a job's weight counts among the jobs of its connection only.
 *
 * WHAT HAPPENS IF A PEER DIES HERE
 *   A client: its queued rows are picked first and cancelled. The pool: the ledger has the rows,
 * and virtual time starts anew with the next pool.
 */
#include "daemon/fair.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"

#define FAIR_GONE_END UINT32_MAX
/* Accounts are settled no more often than this, and than a tenth of what it costs. */
#define FAIR_SETTLE	 (20 * NSEC_PER_USEC)
#define FAIR_SETTLE_EACH 200u

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
	fair->tenants = calloc(max_tenants, sizeof(*fair->tenants));
	fair->clients = calloc(max_clients, sizeof(*fair->clients));
	fair->active = calloc(max_clients, sizeof(*fair->active));
	fair->heap.nodes = calloc(max_tenants, sizeof(struct fair_node *));
	/* Pages that no row needs are never touched. */
	fair->rows = calloc((uint64_t)max_clients * max_jobs, sizeof(*fair->rows));
	if (!fair->accounts || !fair->tenants || !fair->clients || !fair->active ||
	    !fair->heap.nodes || !fair->rows)
		return -ENOMEM;
	fair->board = clients;
	return 0;
}

void fair_fini(struct fair *fair)
{
	for (uint32_t i = 0; fair->tenants && i < fair->max_tenants; i++)
		free(fair->tenants[i].heap.nodes);
	free(fair->accounts);
	free(fair->tenants);
	free(fair->clients);
	free(fair->active);
	free(fair->heap.nodes);
	free(fair->rows);
	pthread_mutex_destroy(&fair->lock);
}

void fair_add_account(struct fair *fair, uint32_t worker, struct account *account)
{
	fair->accounts[worker] = account;
}

int fair_add_tenant(struct fair *fair, uint32_t slot, uint32_t weight)
{
	struct fair_tenant *tenant = &fair->tenants[slot];
	int r = 0;

	fair_lock(fair);
	tenant->node.weight = fair_clamp(weight);
	if (!tenant->heap.nodes)
		tenant->heap.nodes = calloc(fair->max_clients, sizeof(struct fair_node *));
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
	bool alone = fair->n_active == 1 && !fair_queued(fair);

	atomic_store_explicit(&fair->direct, alone ? fair->active[0] + 1 : 0, memory_order_relaxed);
}

static void fair_deactivate(struct fair *fair, struct fair_client *client)
{
	struct fair_tenant *tenant = client->tenant;
	uint32_t last = fair->active[--fair->n_active];

	fair->active[client->active - 1] = last;
	fair->clients[last].active = client->active;
	client->active = 0;
	tenant->level.top = fair_later(tenant->level.top, client->node.v);
	if (--tenant->level.n_active)
		return;
	tenant->level.floor = fair_later(tenant->level.floor, tenant->level.top);
	fair->level.top = fair_later(fair->level.top, tenant->node.v);
	if (!--fair->level.n_active)
		fair->level.floor = fair_later(fair->level.floor, fair->level.top);
}

/* Takes a client off the list of those that are gone. */
static void fair_forget(struct fair *fair, struct fair_client *client)
{
	uint32_t *link = &fair->gone;

	while (client->gone && *link != (uint32_t)(client - fair->clients) + 1)
		link = &fair->clients[*link - 1].gone;
	if (client->gone)
		*link = client->gone == FAIR_GONE_END && link == &fair->gone ? 0 : client->gone;
}

void fair_add_client(struct fair *fair, uint32_t slot, uint32_t tenant, uint32_t weight)
{
	struct fair_client *client = &fair->clients[slot];
	struct board_client *board = &fair->board[slot];

	fair_lock(fair);
	/* Its last one's jobs have all ended, but that may not have been seen yet. */
	if (client->active)
		fair_deactivate(fair, client);
	fair_forget(fair, client);
	memset(client, 0, sizeof(*client));
	client->board = board;
	client->tenant = &fair->tenants[tenant];
	client->node.weight = fair_clamp(weight);
	client->node.v = client->tenant->level.floor;
	client->jobs = atomic_load_explicit(&board->jobs, memory_order_relaxed);
	client->cpu_ns = atomic_load_explicit(&board->cpu_ns, memory_order_relaxed);
	atomic_store_explicit(&board->weight, client->node.weight, memory_order_relaxed);
	fair_expect(client);
	fair_set_direct(fair);
	fair_unlock(fair);
}

void fair_gone(struct fair *fair, uint32_t slot)
{
	struct fair_client *client = &fair->clients[slot];

	fair_lock(fair);
	if (!client->gone) {
		client->gone = fair->gone ? fair->gone : FAIR_GONE_END;
		fair->gone = slot + 1;
	}
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

	if (!jobs && !ns)
		return;
	now += fair_virtual(ns, weights ? weights : FAIR_WEIGHT);
	atomic_store_explicit(&client->now, now, memory_order_relaxed);
	fair_unahead(client, jobs);
	client->ended += (uint32_t)jobs;
	client->node.v += fair_virtual(ns, client->node.weight);
	client->tenant->node.v += fair_virtual(ns, client->tenant->node.weight);
	fair_learn(client, ns, jobs);
	fair_moved(&client->tenant->heap, &client->node);
	fair_moved(&fair->heap, &client->tenant->node);
	atomic_store_explicit(&client->board->vtime_ns, client->node.v / (FAIR_ONE / FAIR_WEIGHT),
			      memory_order_relaxed);
}

static void fair_lowest(struct fair_level *level, uint64_t v)
{
	if (!level->found || fair_ahead(v, level->lowest) < 0)
		level->lowest = v;
	level->found = true;
}

static void fair_raise(struct fair_level *level)
{
	if (level->found)
		level->floor = fair_later(level->floor, level->lowest);
	level->found = false;
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

	if (client->queued)
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
		if (!client->queued && !fair_given(client))
			fair_deactivate(fair, client);
	}
	for (uint32_t i = 0; i < fair->n_active; i++) {
		struct fair_client *client = &fair->clients[fair->active[i]];

		fair_lowest(&client->tenant->level, client->node.v);
		fair_lowest(&fair->level, client->tenant->node.v);
		behind |= fair->heap.n && fair_goes_before(fair, client);
	}
	for (uint32_t i = 0; i < fair->n_active; i++)
		fair_raise(&fair->clients[fair->active[i]].tenant->level);
	fair_raise(&fair->level);
	atomic_store_explicit(&fair->behind, behind, memory_order_relaxed);
	fair_set_direct(fair);
}

/* The same, if it was not done just now. */
static void fair_settle_sometimes(struct fair *fair, uint64_t now)
{
	uint64_t wait =
		max(FAIR_SETTLE, (uint64_t)(fair->n_active + fair->n_accounts) * FAIR_SETTLE_EACH);

	if (now - fair->settled_at >= wait)
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
		tenant->node.v = fair_later(tenant->node.v, fair->level.floor);
		fair_moved(&fair->heap, &tenant->node);
	}
	client->node.v = fair_later(client->node.v, tenant->level.floor);
	fair_moved(&tenant->heap, &client->node);
	fair->active[fair->n_active++] = (uint32_t)(client - fair->clients);
	client->active = fair->n_active;
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

/* Counts a row of the client that was linked in. */
static void fair_count(struct fair *fair, struct fair_client *client, uint32_t row, uint32_t class)
{
	client->classes |= 1u << class;
	client->weights += fair_row_weight(fair, row);
	atomic_store_explicit(&fair->queued, fair_queued(fair) + 1, memory_order_relaxed);
	if (client->queued++)
		return;
	fair_insert(&client->tenant->heap, &client->node);
	if (!client->tenant->node.place)
		fair_insert(&fair->heap, &client->tenant->node);
}

static struct fair_client *fair_client_of(struct fair *fair, uint32_t row)
{
	struct fair_client *client = &fair->clients[row / fair->max_jobs];

	if (!client->active)
		fair_activate(fair, client);
	return client;
}

void fair_prepare(struct fair *fair, uint32_t index, uint32_t weight)
{
	struct fair_client *client = &fair->clients[index / fair->max_jobs];
	struct fair_row *row = &fair->rows[index];

	row->next = 0;
	atomic_store_explicit(&row->weight, fair_weight(weight), memory_order_relaxed);
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
		uint32_t class = fair_class(fair, row), next = entry->next - 1;

		entry->next = 0;
		atomic_store_explicit(&entry->start,
				      atomic_load_explicit(&client->now, memory_order_relaxed),
				      memory_order_relaxed);
		if (client->classes >> class & 1)
			fair->rows[client->last[class] - 1].next = row + 1;
		else
			client->first[class] = row + 1;
		client->last[class] = row + 1;
		fair_count(fair, client, row, class);
		row = next;
	}
	fair_set_direct(fair);
}

void fair_return(struct fair *fair, const uint32_t *rows, uint32_t n, uint64_t now)
{
	fair_settle_sometimes(fair, now);
	while (n--) {
		uint32_t row = rows[n];
		struct fair_client *client = fair_client_of(fair, row);
		struct fair_row *entry = &fair->rows[row];
		uint32_t class = fair_class(fair, row);

		fair_unahead(client, 1);
		client->picked--;
		entry->next = client->classes >> class & 1 ? client->first[class] : 0;
		if (!entry->next)
			client->last[class] = row + 1;
		client->first[class] = row + 1;
		fair_count(fair, client, row, class);
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
		uint32_t row = client->first[class] - 1;
		uint64_t end = fair_row_start(fair, row) +
			       fair_virtual(client->estimate, fair_row_weight(fair, row));

		if (best == FAIR_CLASSES || fair_ahead(end, first) < 0) {
			best = class;
			first = end;
		}
	}
	return best;
}

/* Takes the client's first row, and charges it in advance if it is not to be cancelled. */
static uint32_t fair_take(struct fair *fair, struct fair_client *client, bool charge)
{
	struct fair_tenant *tenant = client->tenant;
	uint32_t class = fair_first_class(fair, client);
	uint32_t row = client->first[class] - 1;
	struct fair_row *entry = &fair->rows[row];

	client->first[class] = entry->next;
	if (!entry->next)
		client->classes &= ~(1u << class);
	entry->next = 0;
	client->weights -= fair_row_weight(fair, row);
	client->weights_given += fair_row_weight(fair, row);
	client->picked++;
	client->ahead += charge ? client->estimate : 0;
	client->node.v += charge ? client->step : 0;
	client->node.turn = ++fair->turns;
	tenant->node.v += charge ? client->tenant_step : 0;
	tenant->node.turn = fair->turns;
	atomic_store_explicit(&fair->queued, fair_queued(fair) - 1, memory_order_relaxed);
	if (--client->queued)
		fair_sift(&tenant->heap, &client->node);
	else
		fair_remove(&tenant->heap, &client->node);
	if (tenant->heap.n)
		fair_sift(&fair->heap, &tenant->node);
	else
		fair_remove(&fair->heap, &tenant->node);
	return row;
}

/* Rows of clients that are gone, which nobody waits for and which cost nothing. */
static uint32_t fair_pick_gone(struct fair *fair, uint32_t *ret_rows, uint32_t max)
{
	uint32_t n = 0;

	while (fair->gone) {
		struct fair_client *client = &fair->clients[fair->gone - 1];

		while (n < max && client->queued)
			ret_rows[n++] = fair_take(fair, client, false);
		if (n == max)
			break;
		fair->gone = client->gone == FAIR_GONE_END ? 0 : client->gone;
		client->gone = 0;
	}
	return n;
}

static struct fair_client *fair_first(const struct fair *fair)
{
	const struct fair_tenant *tenant;

	if (!fair->heap.n)
		return NULL;
	tenant = container_of(fair->heap.nodes[0], struct fair_tenant, node);
	return container_of(tenant->heap.nodes[0], struct fair_client, node);
}

uint32_t fair_pick(struct fair *fair, uint32_t *ret_rows, uint32_t max, uint64_t now)
{
	uint64_t left = FAIR_BATCH;
	uint32_t n = fair_pick_gone(fair, ret_rows, max);

	fair_settle_sometimes(fair, now);
	while (n < max) {
		struct fair_client *client = fair_first(fair);

		if (!client || (n && client->estimate > left))
			break;
		left -= min(client->estimate, left);
		ret_rows[n++] = fair_take(fair, client, true);
	}
	fair_set_direct(fair);
	return n;
}

bool fair_claims(struct fair *fair, uint32_t index, uint64_t ran_ns)
{
	struct fair_client *first, *client;
	int64_t ahead;
	uint64_t weight;

	first = fair_first(fair);
	if (!first || index == ACCOUNT_NOBODY)
		return first;
	if (fair->gone)
		return true;
	client = &fair->clients[index / fair->max_jobs];
	if (client->tenant != first->tenant) {
		ahead = fair_ahead(client->tenant->node.v, first->tenant->node.v);
		weight = first->tenant->node.weight;
	} else if (client != first) {
		ahead = fair_ahead(client->node.v, first->node.v);
		weight = first->node.weight;
	} else {
		uint32_t queued = first->first[fair_first_class(fair, first)] - 1;
		uint64_t used = atomic_load_explicit(&fair->rows[index].used, memory_order_relaxed);
		uint64_t v = fair_row_start(fair, index) +
			     fair_virtual(used, fair_row_weight(fair, index));

		ahead = fair_ahead(v, fair_row_start(fair, queued));
		weight = fair_row_weight(fair, queued);
	}
	/* Among equals the one that waits; but nobody is set aside for nothing, at each fork. */
	if (ahead < 0)
		return false;
	return ran_ns >= FAIR_QUANTUM || ahead >= (int64_t)fair_virtual(FAIR_QUANTUM, weight);
}
