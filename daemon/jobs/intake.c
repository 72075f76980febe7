/* SPDX-License-Identifier: MIT */
#include "daemon/jobs/intake.h"

#include <errno.h>
#include <sys/resource.h>

#include "common/clock.h"
#include "common/crash_site.h"
#include "common/relaxed.h"
#include "common/util.h"
#include "daemon/core/account.h"
#include "daemon/core/deque.h"
#include "daemon/core/halt.h"
#include "daemon/core/permit.h"
#include "daemon/core/pool_state.h"
#include "daemon/core/registry.h"
#include "daemon/core/wakeup.h"
#include "daemon/core/worker.h"
#include "daemon/core/worker_state.h"
#include "daemon/host/topology.h"
#include "daemon/jobs/attach.h"
#include "daemon/jobs/drain.h"
#include "daemon/jobs/hang.h"
#include "daemon/jobs/requeue.h"
#include "daemon/jobs/job_end.h"
#include "daemon/sched/fair.h"
#include "daemon/sched/wake.h"
#include "shm/board.h"
#include "shm/job.h"
#include "shm/ledger.h"
#include "shm/limits.h"
#include "shm/ring.h"
#include "shm/stopwatch.h"
#include "shm/wake.h"

/* ------------------------------------------------------------------------ who comes and goes */

static uint64_t intake_cpu(void *context, uint32_t worker)
{
	const struct pool *pool = context;

	return hang_cpu(&pool->workers[worker]);
}

int intake_init(struct pool *pool)
{
	struct fair *fair = pool->fair;
	int r = fair_init(fair, pool->board->clients, pool->max_clients, pool->max_jobs,
			  LIMIT_TENANTS, pool->n_workers);

	fair->settled_shown = &pool->board->settled_ns;
	fair->cpu = intake_cpu;
	fair->cpu_context = pool;
	if (r == 0)
		r = registry_init(pool);
	for (uint32_t i = 0; r == 0 && i < pool->n_workers; i++)
		fair_add_account(fair, i, pool->workers[i].group, &pool->workers[i].job.account);
	return r;
}

void intake_fini(struct pool *pool)
{
	registry_fini(pool);
	fair_fini(pool->fair);
}

/* Somebody of its group is to come for a job; if all are busy, the dispatcher sees to it. Where all
 * are parked, one of those that do not run such a job yet. */
static void intake_wake_group(struct pool *pool, uint32_t group, struct worker *waker)
{
	uint32_t found = pool->n_workers, parked = pool->n_workers, n;
	const uint32_t *members = topology_members(pool->topology, group, &n);
	bool busy = false;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t state = wake_state(wake_load(&pool->workers[members[i]].board->wake));

		if (state == WAKE_LOOKING)
			return;
		if (state == WAKE_SLEEPING)
			found = members[i];
		if (state == WAKE_PARKED)
			parked = members[i];
		busy |= state == WAKE_BUSY && !worker_is_parked(&pool->workers[members[i]]);
	}
	if (found == pool->n_workers && !busy)
		found = parked;
	if (found < pool->n_workers)
		worker_wake(pool, found, waker);
}

void intake_wake_places(struct pool *pool, struct worker *waker)
{
	struct fair *fair = pool->fair;

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

/* Maps a tenant's rings, in order, for all to see. */
static int intake_map_tenant(struct pool *pool, uint32_t slot, int fd)
{
	struct tenant_segment *segment;
	int r = registry_map_tenant(pool, slot, fd, &segment);

	if (r < 0)
		return r;
	for (uint32_t i = 0; i < pool->n_workers; i++) {
		struct ledger_ring *side = &pool->arena->rings[slot][i];

		ring_take_over(&segment->rings[i], load_relaxed(&side->head));
		requeue_settle_ring(pool, slot, &segment->rings[i], side);
	}
	registry_show_tenant(pool, slot, segment);
	return 0;
}

int intake_add_tenant(struct pool *pool, uint32_t slot, uint32_t weight, int fd)
{
	struct registry_tenant *tenant;

	if (slot >= LIMIT_TENANTS)
		return -EINVAL;
	tenant = &pool->registry.tenants[slot];
	fair_add_tenant(pool->fair, slot, weight);
	/* The manager says it before each client. Not again as long as there is one that was told
	 * the contrary, or will be (registry.h, I4). */
	if (tenant->told && (!tenant->error || registry_is_peopled(pool, slot)))
		return tenant->error;
	tenant->told = true;
	tenant->error = intake_map_tenant(pool, slot, fd);
	for (uint32_t i = 0; i < pool->max_clients; i++) {
		if (pool->registry.clients[i].tenant != slot)
			continue;
		requeue_push(pool, i);
		if (tenant->error)
			registry_strand(pool, i, tenant->error);
	}
	intake_wake_places(pool, NULL);
	return tenant->error;
}

/* What the client may not call is known here, and shown to it. */
static void intake_deny(struct pool *pool, struct registry_client *client, const uint64_t *rules)
{
	uint64_t denied[PERMIT_WORDS];

	permit_deny(&pool->permit, &pool->modules, rules, denied);
	/* Relaxed: of one that comes the manager hears after that, and then the client; of others
	 * see permit_check(). */
	for (uint32_t i = 0; i < PERMIT_WORDS; i++) {
		store_relaxed(&client->denied[i], denied[i]);
		store_relaxed(&client->segment->denied[i], denied[i]);
	}
}

void intake_set_rules(struct pool *pool, uint32_t slot, uint32_t generation, const uint64_t *rules)
{
	struct registry_client *client;

	if (slot >= pool->max_clients)
		return;
	client = &pool->registry.clients[slot];
	/* Relaxed: this thread makes clients live, and ends them. */
	if (load_relaxed(&client->state) == CLIENT_LIVE && client->generation == generation)
		intake_deny(pool, client, rules);
}

int intake_add_client(struct pool *pool, const struct intake_newcomer *newcomer, int fd)
{
	uint32_t slot = newcomer->slot, tenant = newcomer->tenant;
	const struct registry_tenant *t;
	int r;

	if (slot >= pool->max_clients || tenant >= LIMIT_TENANTS)
		return -EINVAL;
	t = &pool->registry.tenants[tenant];
	/* ORDER client/live [K1]: acquire, who had the slot before is done with the fields. Pairs
	 * with registry_release(). */
	if (atomic_load_explicit(&pool->registry.clients[slot].state, memory_order_acquire) !=
	    CLIENT_NONE)
		return -EBUSY;
	/* A new pool may hear of the client first, and of its tenant after. */
	fair_add_tenant(pool->fair, tenant, newcomer->weight);
	r = registry_map_client(pool, slot, newcomer->generation, tenant, newcomer->n_jobs, fd);
	if (r < 0)
		return r;
	intake_deny(pool, &pool->registry.clients[slot], newcomer->rules);
	/* Relaxed: this thread sets it. */
	fair_add_client(pool->fair, slot, tenant, load_relaxed(&pool->settings.weight));
	/* While none of its words can be accepted: what is QUEUED now was so before this pool. */
	requeue_find(pool, slot);
	if (t->error && !pool->registry.clients[slot].n_requeued) {
		fair_remove_client(pool->fair, slot);
		registry_unmap_client(pool, slot);
		return t->error;
	}
	registry_show_client(pool, slot);
	FK_CRASH(client_shown);
	/* Else when the tenant comes. */
	if (t->told) {
		requeue_push(pool, slot);
		intake_wake_places(pool, NULL);
	}
	if (t->error)
		registry_strand(pool, slot, t->error);
	return 0;
}

/* Some of what a dead client has in the queues ends. Returns how many jobs. */
static uint32_t intake_cut(struct pool *pool, uint32_t client)
{
	struct fair *fair = pool->fair;
	uint32_t rows[INTAKE_CUT], n;

	fair_lock(fair);
	n = fair_cut_client(fair, client, rows, INTAKE_CUT);
	fair_unlock(fair);
	for (uint32_t i = 0; i < n; i++)
		root_drop(pool, rows[i], JOB_CANCELLED, 0);
	return n;
}

enum intake_left intake_release(struct pool *pool)
{
	enum intake_left left = INTAKE_NONE;

	if (!load_relaxed(&pool->registry.n_leaving))
		return left;
	for (uint32_t i = 0; i < pool->max_clients; i++) {
		struct registry_client *client = &pool->registry.clients[i];
		/* ORDER client/active [K2]: acquire, who sees DYING sees the tails. Pairs with
		 * registry_gone(). */
		uint32_t state = atomic_load_explicit(&client->state, memory_order_acquire);

		if (state == CLIENT_LIVE)
			registry_tell_stranded(pool, client);
		if (state != CLIENT_DYING)
			continue;
		if (intake_cut(pool, i) == INTAKE_CUT)
			left = INTAKE_MORE;
		if (registry_is_over(pool, client)) {
			fair_remove_client(pool->fair, i);
			registry_release(pool, client);
		} else if (left == INTAKE_NONE) {
			left = INTAKE_SOME;
		}
	}
	return left;
}

/* ------------------------------------------------------------------------ what waits */

bool intake_pending(struct pool *pool)
{
	return fair_queued(pool->fair) || drain_rings_pending(pool);
}

bool intake_mine(struct worker *w)
{
	struct fair *fair = w->pool->fair;

	return fair_waits(fair, FAIR_WORKER(w->index)) || fair_waits(fair, FAIR_GROUP(w->group));
}

bool intake_glance(struct worker *w)
{
	return fair_queued(w->pool->fair) || intake_mine(w) || drain_glance(w);
}

bool intake_is_empty(struct pool *pool)
{
	if (!drain_is_empty(pool))
		return false;
	for (uint32_t i = 0; i < pool->max_clients; i++)
		if (load_relaxed(&pool->registry.clients[i].active))
			return false;
	/* Who has let go of a ring since has set its bit before, if it left something. */
	return !drain_rings_pending(pool);
}

/* ------------------------------------------------------------------------ to workers */

/* Lock held: queues the rows of a drain. */
static void intake_queue(struct drain *drain, uint64_t now)
{
	if (drain->n) {
		fair_push(drain->pool->fair, drain->first, drain->n, now);
		FK_CRASH(queue_linked);
	}
}

/* Puts rows onto the worker's own root deque, which is empty. */
static void intake_publish(struct worker *w, const uint64_t *rows, uint64_t n)
{
	if (!n)
		return;
	/* Entries are written from position 0 on: nothing public is left there. */
	deque_reclaim(&w->roots.deque);
	deque_reset(&w->roots.deque);
	deque_push_all(&w->roots.deque, w->roots.deque.entries, rows, n);
	FK_CRASH(roots_published);
	worker_mark_roots(w);
}

/* Lock held: takes the batch that goes first. Returns how many. */
static uint32_t intake_pick(struct worker *w, uint64_t *ret_rows, uint64_t now)
{
	uint32_t rows[WORKER_ROOTS];
	uint32_t n = fair_pick(w->pool->fair, w->index, rows, WORKER_ROOTS, now);

	_Static_assert(FAIR_BATCH_JOBS <= WORKER_ROOTS, "a batch fits on a root deque");
	for (uint32_t i = 0; i < n; i++)
		ret_rows[i] = rows[i];
	return n;
}

/*
 * I1: the worker had rows in hand, and has put some where others are to find them; left: there is
 * more than what it starts itself. Who looked meanwhile has seen nothing of it. A worker that looks
 * itself does the rest when it turns busy (work_search.c). row: what it runs then.
 */
static void intake_pass_on(struct worker *w, bool left, uint32_t row)
{
	struct pool *pool = w->pool;
	bool busy = wake_state(wake_load(&w->board->wake)) == WAKE_BUSY, alone;

	left |= fair_queued(pool->fair);
	alone = left && busy && !worker_wake_one(pool, w);
	/* Whom to summon for a place, it knows. */
	if (alone || fair_placed(pool->fair))
		intake_tell(w, row);
}

/* The same, after the worker took a list off the rings. */
static void intake_pass_on_drain(struct worker *w, const struct drain *drain, bool left,
				 uint32_t row)
{
	if (drain->placed)
		intake_wake_places(w->pool, w);
	intake_pass_on(w, left || drain->more, row);
	if (drain->earlier)
		pool_wake_dispatcher(w->pool);
}

bool intake_take_mine(struct worker *w, uint32_t *ret_row)
{
	struct fair *fair = w->pool->fair;
	uint32_t n;

	if (!intake_mine(w))
		return false;
	fair_lock(fair);
	n = fair_pick(fair, w->index, ret_row, 1, clock_ns());
	fair_unlock(fair);
	return n;
}

bool intake_drain(struct worker *w, uint32_t *ret_row)
{
	struct fair *fair = w->pool->fair;
	struct drain drain = drain_of(w);
	uint64_t rows[WORKER_ROOTS];
	uint32_t n = 0;

	drain_rings(&drain);
	if (drain.n && !drain.mixed && !drain.placed && !drain.more &&
	    fair_direct(fair, drain.client, drain.n)) {
		for (uint32_t row = drain.first; n < drain.n; row = fair->rows[row].next - 1)
			rows[n++] = row;
	} else if (drain.n || fair_queued(fair) || intake_mine(w)) {
		uint64_t now = clock_ns();

		fair_lock(fair);
		intake_queue(&drain, now);
		n = intake_pick(w, rows, now);
		fair_unlock(fair);
	}
	if (n) {
		FK_CRASH(queue_picked);
		*ret_row = (uint32_t)rows[0];
		intake_publish(w, rows + 1, n - 1);
	}
	intake_pass_on_drain(w, &drain, n > 1, n ? *ret_row : w->job.row);
	return n;
}

void intake_collect(struct pool *pool, uint32_t round)
{
	struct fair *fair = pool->fair;
	struct drain drain = {
		.pool = pool,
		.counters = &pool->board->counters[BOARD_POOL],
		.consumer = LIMIT_WORKERS + 1,
		.round = round,
	};

	drain_rings(&drain);
	if (!drain.n)
		return;
	fair_lock(fair);
	intake_queue(&drain, clock_ns());
	fair_unlock(fair);
	intake_wake_places(pool, NULL);
}

/* Takes all rows off anybody's root deque. */
static uint32_t intake_take_back(struct worker *from, uint32_t *ret_rows)
{
	uint64_t rows[WORKER_ROOTS], n;
	enum deque_status status;

	do
		status = deque_steal_share(&from->roots.deque, DEQUE_ALL, rows, WORKER_ROOTS, &n);
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
	struct fair *fair = w->pool->fair;
	struct drain drain = drain_of(w);
	uint32_t back[WORKER_ROOTS + 1];
	uint64_t rows[WORKER_ROOTS];
	uint32_t n = 0, n_back = intake_take_back(w, back);
	uint64_t now;

	if (w->roots.own)
		back[n_back++] = w->roots.own - 1;
	w->roots.own = 0;
	drain_rings(&drain);
	now = clock_ns();
	fair_lock(fair);
	fair_return(fair, back, n_back, now);
	intake_queue(&drain, now);
	fair_settle_sometimes(fair, now);
	if (fair_claims(fair, w->index, w->job.row, now - w->job.since))
		n = intake_pick(w, rows, now);
	fair_unlock(fair);
	if (n)
		w->roots.preempted = w->job.row;
	/* One with a place is alone, and not for the deque, where others would take it. Nobody has
	 * to see to one that this worker starts next: it goes there when the others were told. */
	if (n && fair_place(fair, (uint32_t)rows[0]) > FAIR_NOWHERE)
		w->roots.own = (uint32_t)rows[0] + 1;
	else if (n > 1)
		intake_publish(w, rows, n);
	intake_pass_on_drain(w, &drain, n > 1, n ? (uint32_t)rows[0] : w->job.row);
	if (n == 1 && !w->roots.own)
		intake_publish(w, rows, n);
	return n;
}

bool intake_decline(struct worker *w, uint32_t row)
{
	struct fair *fair = w->pool->fair;
	uint32_t rows[WORKER_ROOTS + 1] = { row };
	bool declines;

	fair_lock(fair);
	declines = halt_declines(&w->pool->halt);
	if (declines)
		fair_return(fair, rows, 1 + intake_take_back(w, rows + 1), clock_ns());
	fair_unlock(fair);
	return declines;
}

bool intake_again(struct worker *w, uint32_t *ret_row)
{
	struct fair *fair = w->pool->fair;
	uint64_t rows[WORKER_ROOTS], now;
	uint32_t n = 0;

	if (w->roots.preempted != WORKER_NO_JOB && (fair_queued(fair) || intake_mine(w))) {
		now = clock_ns();
		fair_lock(fair);
		fair_settle_sometimes(fair, now);
		if (fair_claims(fair, w->index, w->roots.preempted, FAIR_QUANTUM))
			n = intake_pick(w, rows, now);
		fair_unlock(fair);
	}
	if (!n) {
		w->roots.preempted = WORKER_NO_JOB;
		return false;
	}
	*ret_row = (uint32_t)rows[0];
	intake_publish(w, rows + 1, n - 1);
	intake_pass_on(w, n > 1, *ret_row);
	return true;
}

bool intake_steal(struct worker *w, struct worker *victim, uint32_t *ret_row)
{
	uint64_t rows[WORKER_ROOTS], n;
	enum deque_status status;

	do
		status = deque_steal(&victim->roots.deque, rows, WORKER_ROOTS, &n);
	while (status == DEQUE_RACE);
	if (status == DEQUE_EMPTY)
		return false;
	FK_CRASH(roots_stolen);
	COUNT_ADD(w, root_steals, n);
	*ret_row = (uint32_t)rows[0];
	intake_publish(w, rows + 1, n - 1);
	return true;
}

void intake_recall(struct pool *pool, struct worker *from)
{
	struct fair *fair = pool->fair;
	uint32_t rows[WORKER_ROOTS], n;

	if (!deque_size(&from->roots.deque))
		return;
	n = intake_take_back(from, rows);
	FK_CRASH(roots_recalled);
	fair_lock(fair);
	fair_return(fair, rows, n, clock_ns());
	fair_unlock(fair);
}
