/* SPDX-License-Identifier: MIT */
/*
 * fair_queue.c - which job runs next
 *
 * The next job is chosen in three steps: the tenant with the smallest v, its connection with the
 * smallest v (virtual_time.c), and the job of that with the earliest virtual end (job_queues.c). So
 * two connections of one uid share that uid's part, as two uids share the pool. A job that only one
 * worker, or one group, may start waits in a queue of that place. A worker that takes a job chooses
 * by the same virtual times between jobs for its own places and jobs that any worker may start. So
 * a flood of such jobs overtakes no other job.
 *
 * 	job_batches.c -> fair_queue.c -> job_queues.c	where rows wait; which clients have rows
 * 				      -> virtual_time.c	v, floors, active clients; heaps (vheap.h)
 * 				 preemption.c	which running job yields, and when
 *
 * Threads: see fair_queue.h. Each job costs fair_prepare(), an exchange on its worker's account,
 * and fair_charge(): one fetch-add to a line of the board that the job's end updates anyway. A
 * client that is alone and does not flood pays one more in fair_direct(). All other work is done
 * under the lock, once for a batch of up to 64 jobs. Queueing, picking and charging cost 30 ns for
 * each job in such a batch, and 50 ns for single jobs (forks: 2 ns).
 *
 * INVARIANTS
 *   I1. Bounded lag: fair_pick() takes jobs of the client with the smallest v as long as that stays
 *       the smallest. Two clients that always have queued jobs differ by the estimates of a batch
 *       for each worker, and by their error. The error is charged before the next pick.
 *   I2. Heaps follow the queues: a client's queue becomes empty or non-empty only in fair_link(),
 *       fair_unlink() or fair_cut_client(), which notify virtual_time.c. Clients with rows for a
 *       place are found by a scan of all active clients.
 *   I3. Weights are clamped on input, so no division is by 0 and no weight starves others. A job's
 *       weight counts only among the jobs of its connection.
 *
 * If a client dies: its queued rows are removed and end (intake_release()). If the pool dies: the
 * ledger has the rows, and virtual time starts again in the next pool.
 */
#include "daemon/sched/fair_queue.h"

#include <string.h>

#include "common/relaxed.h"
#include "common/util.h"
#include "daemon/sched/job_queues.h"
#include "daemon/sched/virtual_time.h"

/* Accounts are settled at most this often, and in at most a tenth of the time. */
#define FAIR_SETTLE	 (20 * NSEC_PER_USEC)
#define FAIR_SETTLE_EACH 200u
/* CPU clocks are read at most once in this time for each account: reading takes up to 1 us. */
#define FAIR_READ_EACH (50 * NSEC_PER_USEC)

static void fair_set_tables(struct fair *fair, struct sparse *tables)
{
	uint32_t accounts = fair->n_accounts, tenants = fair->max_tenants;
	uint64_t clients = fair->clients_max;

	fair->accounts = sparse_table(tables, accounts, sizeof(struct account *));
	fair->clocks = sparse_table(tables, accounts, sizeof(*fair->clocks));
	fair->groups = sparse_table(tables, accounts, sizeof(*fair->groups));
	fair->parked = sparse_table(tables, accounts, sizeof(*fair->parked));
	fair->heap.nodes = sparse_table(tables, tenants, sizeof(struct vheap_node *));
	fair->active = sparse_table(tables, clients, sizeof(*fair->active));
	fair->tenants = sparse_table(tables, tenants, sizeof(*fair->tenants));
	fair->clients = sparse_table(tables, clients, sizeof(*fair->clients));
	fair->nodes = sparse_table(tables, tenants * clients, sizeof(struct vheap_node *));
	fair->rows = sparse_table(tables, clients * fair->jobs_max, sizeof(*fair->rows));
	fair->placed = sparse_table(tables, FAIR_PLACES * clients, sizeof(*fair->placed));
}

int fair_init(struct fair *fair, struct board_client *clients, uint32_t clients_max,
	      uint32_t jobs_max, uint32_t max_tenants, uint32_t n_accounts)
{
	int r;

	memset(fair, 0, sizeof(*fair));
	pthread_mutex_init(&fair->lock, NULL);
	fair->clients_max = clients_max;
	fair->jobs_max = jobs_max;
	fair->max_tenants = max_tenants;
	fair->n_accounts = n_accounts;
	fair->credit = n_accounts * FAIR_CREDIT;
	fair->board = clients;
	fair_set_tables(fair, &fair->tables);
	r = sparse_map(&fair->tables);
	if (r == 0)
		fair_set_tables(fair, &fair->tables);
	return r;
}

void fair_fini(struct fair *fair)
{
	sparse_unmap(&fair->tables);
	pthread_mutex_destroy(&fair->lock);
}

void fair_add_account(struct fair *fair, uint32_t worker, uint32_t group, struct account *account)
{
	fair->accounts[worker] = account;
	fair->groups[worker] = group;
}

void fair_park(struct fair *fair, uint32_t worker, bool parked)
{
	fair_lock(fair);
	fair->parked[worker] = parked;
	fair_unlock(fair);
}

/* The only active client, if it has nothing queued, may bypass the queues. */
static void fair_set_direct(struct fair *fair)
{
	bool alone = fair->n_active == 1 && !fair_is_held(fair) && !fair_queued(fair) &&
		     !fair_placed(fair);

	store_relaxed(&fair->direct, alone ? fair->active[0] + 1 : 0);
}

void fair_hold(struct fair *fair, bool held)
{
	/* Relaxed: a read without the lock is a hint (fair_queue.h). */
	store_relaxed(&fair->held, held);
	fair_set_direct(fair);
}

void fair_add_tenant(struct fair *fair, uint32_t slot, uint32_t weight)
{
	struct fair_tenant *tenant = &fair->tenants[slot];

	fair_lock(fair);
	if (!tenant->node.weight) { /* new */
		tenant->heap.nodes = &fair->nodes[(uint64_t)slot * fair->clients_max];
		vtime_add_tenant(fair, tenant);
		tenant->node.weight = vtime_clamp(weight);
	} else if (tenant->node.weight != vtime_clamp(weight)) {
		vtime_weigh(fair, tenant, vtime_clamp(weight));
		fair_set_direct(fair);
	}
	fair_unlock(fair);
}

void fair_remove_tenant(struct fair *fair, uint32_t slot)
{
	fair_lock(fair);
	memset(&fair->tenants[slot], 0, sizeof(*fair->tenants));
	fair_unlock(fair);
}

void fair_add_client(struct fair *fair, uint32_t slot, uint32_t tenant, uint32_t weight)
{
	struct fair_client *client = &fair->clients[slot];
	struct board_client *board = &fair->board[slot];

	fair_lock(fair);
	if (client->active)
		vtime_remove_client(fair, client);
	memset(client, 0, sizeof(*client));
	client->board = board;
	client->tenant = &fair->tenants[tenant];
	client->node.weight = vtime_clamp(weight);
	store_relaxed(&board->weight, client->node.weight);
	vtime_add_client(client);
	fair_set_direct(fair);
	fair_unlock(fair);
}

void fair_remove_client(struct fair *fair, uint32_t slot)
{
	fair_lock(fair);
	vtime_remove_client(fair, &fair->clients[slot]);
	fair_set_direct(fair);
	fair_unlock(fair);
}

void fair_charge(struct fair *fair, uint32_t row, uint64_t ns, bool last)
{
	struct board_client *board = &fair->board[row / fair->jobs_max];

	/* Relaxed: sums, of which only the growth is used. */
	add_relaxed(&board->cpu_ns, ns);
	if (!last)
		add_relaxed(&fair->rows[row].used, ns);
}

void fair_charge_sleep(struct fair *fair, uint32_t row, uint64_t ns)
{
	/* Relaxed, as above. */
	add_relaxed(&fair->clients[row / fair->jobs_max].slept, ns);
	add_relaxed(&fair->rows[row].used, ns);
}

void fair_waste(struct fair *fair, uint32_t tenant, uint64_t ns)
{
	add_relaxed(&fair->tenants[tenant].wasted, ns);
}

/* True if the client's stealable work should run before queued jobs: it has nothing queued, and is
 * behind the first queued job by more than a quantum. */
static bool fair_goes_before(const struct fair *fair, const struct fair_client *client)
{
	const struct fair_tenant *tenant =
		container_of(fair->heap.nodes[0], struct fair_tenant, node);
	const struct fair_client *first =
		container_of(tenant->heap.nodes[0], struct fair_client, node);
	const struct vheap_node *a, *b;

	return !client->queued && !client->placed && vtime_part(client, first, &a, &b) &&
	       !a->place &&
	       vtime_lead(b, first->node.warp, a, client->node.warp) >
		       (int64_t)vtime_of(FAIR_QUANTUM, a->weight);
}

/* Lock held: returns the CPU clock of a worker's thread. Of two clocks the smaller value is used:
 * it was read later, or the thread had no CPU before the reading. */
static uint64_t fair_cpu(struct fair *fair, uint32_t worker, uint64_t now)
{
	struct fair_clock *clock = &fair->clocks[worker];
	uint64_t stale = max(ACCOUNT_STALE, fair->n_accounts * FAIR_READ_EACH), cpu;

	if (fair->cpu && (int64_t)(now - clock->read_at) >= (int64_t)stale) {
		/* In this order: the kernel may preempt this thread at the end of a system call,
		 * and the other clock may continue until it returns. */
		clock->read_at = clock_ns();
		cpu = fair->cpu(fair->cpu_context, worker);
		clock->off = clock->read_at - cpu;
		return cpu;
	}
	return min(now - clock->off, account_cpu(fair->accounts[worker], now));
}

void fair_settle(struct fair *fair, uint64_t now)
{
	bool behind = false;
	uint32_t row;

	fair->settled_at = now;
	for (uint32_t i = 0; i < fair->n_accounts; i++) {
		uint64_t ns;

		if (account_row(fair->accounts[i]) == ACCOUNT_NOBODY)
			continue;
		ns = account_settle(fair->accounts[i], fair_cpu(fair, i, now), &row);
		if (row != ACCOUNT_NOBODY)
			fair_charge(fair, row, ns, false);
	}
	/* Relaxed: for display, like the charges. */
	if (fair->settled_shown)
		store_relaxed(fair->settled_shown, now);
	vtime_settle(fair);
	for (uint32_t i = 0; fair->heap.n && i < fair->n_active; i++)
		behind |= fair_goes_before(fair, &fair->clients[fair->active[i]]);
	store_relaxed(&fair->behind, behind);
	fair_set_direct(fair);
}

void fair_settle_sometimes(struct fair *fair, uint64_t now)
{
	uint64_t wait =
		max(FAIR_SETTLE, (uint64_t)(fair->n_active + fair->n_accounts) * FAIR_SETTLE_EACH);

	/* The caller's clock may have been read before another thread settled. */
	if ((int64_t)(now - fair->settled_at) >= (int64_t)wait)
		fair_settle(fair, now);
}

/* Puts a row into its queue, at the end or at the front. */
static void fair_link(struct fair *fair, uint32_t row, bool front)
{
	if (fairq_link(fair, row, front))
		vtime_enter(fair, &fair->clients[row / fair->jobs_max]);
}

/* Takes a row out of its queue. */
static void fair_unlink(struct fair *fair, uint32_t row)
{
	if (fairq_unlink(fair, row))
		vtime_leave(fair, &fair->clients[row / fair->jobs_max]);
}

void fair_prepare(struct fair *fair, uint32_t index, uint32_t weight, uint32_t place)
{
	struct fair_client *client = &fair->clients[index / fair->jobs_max];
	struct fair_row *row = &fair->rows[index];

	row->next = 0;
	row->place = (uint16_t)place;
	store_relaxed(&row->weight, (uint16_t)fairq_weight(weight));
	store_relaxed(&row->start, load_relaxed(&client->now));
	store_relaxed(&row->used, 0);
}

bool fair_direct(struct fair *fair, uint32_t slot, uint32_t n)
{
	struct fair_client *client = &fair->clients[slot];

	/* Relaxed throughout: if another client becomes active right now, one more batch overtakes
	 * it. */
	if (load_relaxed(&fair->direct) != slot + 1 || fair_queued(fair) ||
	    n > load_relaxed(&client->batch))
		return false;
	add_relaxed(&client->direct, n);
	return true;
}

void fair_push(struct fair *fair, uint32_t row, uint32_t n, uint64_t now)
{
	fair_settle_sometimes(fair, now);
	while (n--) {
		struct fair_client *client = &fair->clients[row / fair->jobs_max];
		struct fair_row *entry = &fair->rows[row];
		uint32_t next = entry->next - 1;

		if (!client->active)
			vtime_activate(fair, client);
		store_relaxed(&entry->start, load_relaxed(&client->now));
		fair_link(fair, row, false);
		row = next;
	}
	fair_set_direct(fair);
}

void fair_return(struct fair *fair, const uint32_t *rows, uint32_t n, uint64_t now)
{
	fair_settle_sometimes(fair, now);
	while (n--) {
		struct fair_client *client = &fair->clients[rows[n] / fair->jobs_max];

		if (!client->active)
			vtime_activate(fair, client);
		vtime_take_back(fair, client);
		client->picked--;
		fair_link(fair, rows[n], true);
	}
	fair_set_direct(fair);
}

bool fair_cut(struct fair *fair, uint32_t row)
{
	struct fair_client *client = &fair->clients[row / fair->jobs_max];

	if (!fair->rows[row].in)
		return false;
	fair_unlink(fair, row);
	client->cut++;
	return true;
}

uint32_t fair_cut_client(struct fair *fair, uint32_t slot, uint32_t *ret_rows, uint32_t max)
{
	struct fair_client *client = &fair->clients[slot];
	bool empty;
	uint32_t n = fairq_unlink_some(fair, slot, ret_rows, max, &empty);

	if (empty)
		vtime_leave(fair, client);
	client->cut += n;
	return n;
}

/* Returns true if row a is to run before row b. Rows of one connection run in order of arrival. */
static bool fair_goes_first(struct fair *fair, uint32_t a, uint32_t b)
{
	const struct fair_client *x = &fair->clients[a / fair->jobs_max];
	const struct fair_client *y = &fair->clients[b / fair->jobs_max];
	const struct vheap_node *p, *q;

	/* A tenant's warp belongs to its jobs that any worker may start. */
	if (vtime_part(x, y, &p, &q))
		return vheap_leads(vtime_lead(p, x->node.warp, q, y->node.warp), p, q);
	return vtime_ahead(fairq_row_start(fair, a), fairq_row_start(fair, b)) < 0;
}

/* Returns the row to run next among best and those that wait for a place. */
static uint32_t fair_first_placed(struct fair *fair, uint32_t place, uint32_t best)
{
	for (uint32_t i = 0; fair_waits(fair, place) && i < fair->n_active; i++) {
		uint32_t row = fairq_first_placed(fair, fair->active[i], place);

		if (row != ACCOUNT_NOBODY &&
		    (best == ACCOUNT_NOBODY || fair_goes_first(fair, row, best)))
			best = row;
	}
	return best;
}

uint32_t fair_first(struct fair *fair, uint32_t worker)
{
	uint32_t best = ACCOUNT_NOBODY;

	if (fair_is_held(fair))
		return best;
	if (fair->heap.n && !fair->parked[worker]) {
		const struct fair_tenant *tenant =
			container_of(fair->heap.nodes[0], struct fair_tenant, node);
		const struct fair_client *client =
			container_of(tenant->heap.nodes[0], struct fair_client, node);

		best = fairq_first(fair, client);
	}
	if (!fair_placed(fair))
		return best;
	best = fair_first_placed(fair, FAIR_WORKER(worker), best);
	return fair_first_placed(fair, FAIR_GROUP(fair->groups[worker]), best);
}

uint32_t fair_pick(struct fair *fair, uint32_t worker, uint32_t *ret_rows, uint32_t max,
		   uint64_t now)
{
	uint64_t left = FAIR_BATCH;
	bool placed = false;
	uint32_t n = 0;

	fair_settle_sometimes(fair, now);
	while (n < max && !placed) {
		uint32_t row = fair_first(fair, worker);
		struct fair_client *client;

		if (row == ACCOUNT_NOBODY)
			break;
		client = &fair->clients[row / fair->jobs_max];
		placed = fair_place(fair, row) > FAIR_NOWHERE;
		if (n && (placed || client->estimate > left))
			break;
		left -= min(client->estimate, left);
		fair_unlink(fair, row);
		vtime_advance(fair, client);
		ret_rows[n++] = row;
	}
	fair_set_direct(fair);
	return n;
}
