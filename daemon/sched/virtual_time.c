/* SPDX-License-Identifier: MIT */
/*
 * virtual_time.c - weighted virtual time of tenants and connections
 *
 * Each tenant and each connection has a virtual time v: the CPU time it has used, divided by its
 * weight: start-time fair queueing (Goyal, Vin and Cheng, SIGCOMM 1996) in a hierarchy. Workers add
 * a job's CPU time to board->cpu_ns of its client when they leave the job, and when another thread
 * settles their accounts (cpu_account.h). vtime_settle() converts the amount added since its last
 * call into virtual time. In between, v includes an estimate for each job given to a worker: the
 * mean of that client's jobs, at most FAIR_BATCH. As jobs end it is taken back in proportion. Time
 * in which a task slept, in a system call or for a lock, counts like CPU time, because its worker
 * was not available. Time in which the worker waited for a CPU does not (cpu_account.h). A client
 * with short jobs precedes one with long ones as if its v were less by a warp: borrowed virtual
 * time (Duda and Cheriton, SOSP 1999). v itself counts all time used.
 *
 * Threads: see virtual_time.h.
 *
 * INVARIANTS
 *   I1. A client is active while it has rows queued or given to workers, as last seen by
 *       vtime_settle(); a tenant while one of its clients is. active[] has each active client once,
 *       at client->active - 1; a slot that was reused or freed is not among them.
 *   I2. No credit for sleeping. A member that becomes active starts at its own v or at the level's
 *       floor, whichever is later. The floor is the smallest v of the active ones, or, without any,
 *       the largest that one had; it never decreases. So no member gains by what it did not use
 *       while it was inactive, and none pays for what it used while alone: when another arrives,
 *       the floor has followed it. A new connection starts no earlier than at its tenant's clock,
 *       the weighted mean of the active ones' v. Otherwise, with connections that come and go, the
 *       floor would stay at the newcomers' own v, and a permanent connection would never be first
 *       again.
 *   I3. A heap contains the tenants and clients with queued rows that any worker may start, in the
 *       order of v at its last change; every change sifts.
 *   I4. All v stay within 2^63 of the floor, so that they can be compared. Inactive members are
 *       raised along with it whenever it has grown by VTIME_LIFT (vtime_raise()). An active member
 *       that uses little would hold it back: a single strand of a uid of weight 10000 falls 2^63
 *       behind a uid of weight 1 with 63 workers in four hours. So no active member is more than a
 *       lag behind the one that is furthest ahead: it is raised, and the floor with it at the next
 *       call (vtime_pull()). And charges between two calls take no v further than VTIME_FAR beyond
 *       the floor (vtime_charge()).
 *   I5. The lag is FAIR_CREDIT of all workers for the lightest active member, or for weight 100 if
 *       all are heavier. So a member that could not use its share, such as a single strand, later
 *       gets the whole pool for at most FAIR_CREDIT. If it is w times lighter, that time is w times
 *       as long; then all continue by their weights. And a member that had all workers in leaves
 *       that no request interrupts pays in full for up to FAIR_CREDIT of it.
 *   I6. A warp changes when a member is served, not how much: it is FAIR_WARP or 0, the same for
 *       all, and v is charged without it. Two members that both have it, or both have not, compare
 *       as if there were none. While both have work, a member with short jobs gets ahead of one
 *       with long jobs once, by at most FAIR_WARP and a job's time. This holds as well if long jobs
 *       were cut into short ones. A member that sleeps until the others have caught up may do so
 *       again, and has used no more than they (I2). A client's warp ends when its mean is
 *       FAIR_SHORT, and that of a single job when the job has used as much (preemption.c). A
 *       tenant's warp is that of its first client, and the same holds for tenants.
 */
#include "daemon/sched/virtual_time.h"

#include <stdatomic.h>

#include "common/relaxed.h"

/* Growth of a floor after which inactive members follow it, and the largest distance of a v from
 * the floor: I4. */
#define VTIME_LIFT (INT64_C(1) << 60)
#define VTIME_FAR  (INT64_C(1) << 62)

static uint64_t vtime_later(uint64_t a, uint64_t b)
{
	return vtime_ahead(a, b) > 0 ? a : b;
}

/* Adds to a v of this level, within the limit of I4. */
static void vtime_charge(const struct fair_level *level, uint64_t *v, uint64_t step)
{
	int64_t room = VTIME_FAR - vtime_ahead(*v, level->floor);

	*v += min(step, (uint64_t)max(room, INT64_C(0)));
}

/* After the v of a tenant, or the order of its clients, has changed. */
static void vtime_sift_tenant(struct fair *fair, struct fair_tenant *tenant)
{
	bool warps = tenant->heap.n && tenant->heap.nodes[0]->warp;

	tenant->node.warp = warps ? FAIR_WARP : 0;
	vheap_moved(&fair->heap, &tenant->node);
}

/* After the v of a client and its tenant have changed. */
static void vtime_sift(struct fair *fair, struct fair_client *client)
{
	vheap_moved(&client->tenant->heap, &client->node);
	vtime_sift_tenant(fair, client->tenant);
}

/* Updates the estimates for the client's next job from its mean. */
static void vtime_expect(struct fair_client *client)
{
	uint64_t n;

	client->node.warp = client->mean < FAIR_SHORT ? FAIR_WARP : 0;
	client->estimate = min(client->mean ? client->mean : FAIR_GUESS, FAIR_BATCH);
	client->step = vtime_of(client->estimate, client->node.weight);
	client->tenant_step = vtime_of(client->estimate, client->tenant->node.weight);
	n = FAIR_BATCH / client->estimate;
	store_relaxed(&client->batch, (uint32_t)min(max(n, UINT64_C(1)), FAIR_BATCH_JOBS));
}

/* Number of jobs given to workers and not ended, as last seen. */
static uint32_t vtime_given(struct fair_client *client)
{
	uint32_t direct = load_relaxed(&client->direct);
	int32_t n = (int32_t)(client->picked + direct - client->ended);

	/* Ends may be seen before direct is. */
	return n > 0 ? (uint32_t)n : 0;
}

/* Returns the growth since the last call; the manager resets the counter for a new client. */
static uint64_t vtime_grown(_Atomic uint64_t *counter, uint64_t *seen)
{
	uint64_t value = load_relaxed(counter);
	uint64_t grown = value >= *seen ? value - *seen : 0;

	*seen = value;
	return grown;
}

/* Takes what workers have added to a sum, and resets it to 0. */
static uint64_t vtime_take(_Atomic uint64_t *sum)
{
	/* Relaxed: a sum, which is usually 0. */
	return load_relaxed(sum) ? atomic_exchange_explicit(sum, 0, memory_order_relaxed) : 0;
}

/* Returns the part of a whole for some of n shares. */
static uint64_t vtime_share(uint64_t whole, uint64_t shares, uint64_t n)
{
	return shares >= n ? whole : whole / n * shares;
}

/* Takes back the advance charge for n of the jobs given. */
static void vtime_unahead(struct fair_client *client, uint64_t n)
{
	uint32_t given = vtime_given(client);
	uint64_t back = vtime_share(client->ahead, n, given);

	client->ahead -= back;
	client->weights_given -= vtime_share(client->weights_given, n, given);
	client->node.v -= vtime_of(back, client->node.weight);
	client->tenant->node.v -= vtime_of(back, client->tenant->node.weight);
}

static void vtime_learn(struct fair_client *client, uint64_t ns, uint64_t jobs)
{
	client->sample_ns += ns;
	client->sample_jobs += jobs;
	if (!client->sample_jobs)
		return;
	uint64_t mean = max(client->sample_ns / client->sample_jobs, UINT64_C(1));

	client->mean = client->mean ? (3 * client->mean + mean) / 4 : mean;
	client->sample_ns = client->sample_jobs = 0;
	vtime_expect(client);
}

/* The same for an active tenant, for time spent on words that were not jobs. */
static void vtime_settle_waste(struct fair *fair, struct fair_tenant *tenant)
{
	uint64_t ns = vtime_take(&tenant->wasted);

	if (!ns)
		return;
	vtime_charge(&fair->level, &tenant->node.v, vtime_of(ns, tenant->node.weight));
	vheap_moved(&fair->heap, &tenant->node);
}

/* Updates the virtual time of a client and its tenant by the charges of workers. */
static void vtime_settle_client(struct fair *fair, struct fair_client *client)
{
	struct fair_tenant *tenant = client->tenant;
	uint64_t jobs = vtime_grown(&client->board->jobs, &client->jobs);
	uint64_t ns =
		vtime_grown(&client->board->cpu_ns, &client->cpu_ns) + vtime_take(&client->slept);
	uint64_t now = load_relaxed(&client->now);
	/* Jobs that bypassed the queues have weights too, which are unknown; the default is
	 * used. */
	uint64_t weights = client->weights +
			   max(client->weights_given, (uint64_t)vtime_given(client) * FAIR_WEIGHT);
	uint64_t cut;

	if (!jobs && !ns)
		return;
	now += vtime_of(ns, weights ? weights : FAIR_WEIGHT);
	store_relaxed(&client->now, now);
	vtime_unahead(client, jobs);
	client->ended += (uint32_t)jobs;
	vtime_charge(&tenant->level, &client->node.v, vtime_of(ns, client->node.weight));
	vtime_charge(&fair->level, &tenant->node.v, vtime_of(ns, tenant->node.weight));
	if (tenant->weights)
		vtime_charge(&tenant->level, &tenant->clock, vtime_of(ns, tenant->weights));
	cut = min(client->cut, jobs);
	client->cut -= cut;
	vtime_learn(client, ns, jobs - cut);
	vtime_sift(fair, client);
	store_relaxed(&client->board->vtime_ns, client->node.v / (FAIR_ONE / FAIR_WEIGHT));
}

/* Raises an inactive member, which otherwise could fall so far behind that it would seem ahead
 * (I4). */
static void vtime_lift(const struct fair_level *level, struct vheap_node *node)
{
	node->v = vtime_later(node->v, level->floor);
}

static void vtime_see(struct fair_level *level, const struct vheap_node *node)
{
	if (!level->found || vtime_ahead(node->v, level->lowest) < 0)
		level->lowest = node->v;
	if (!level->found || vtime_ahead(node->v, level->highest) > 0)
		level->highest = node->v;
	if (!level->found || node->weight < level->lightest)
		level->lightest = node->weight;
	level->found = true;
}

/* Raises the floor; true if all inactive members must be raised. */
static bool vtime_raise(struct fair_level *level)
{
	if (level->found)
		level->floor = vtime_later(level->floor, level->lowest);
	level->found = false;
	if (vtime_ahead(level->floor, level->lifted) < VTIME_LIFT)
		return false;
	level->lifted = level->floor;
	level->top = vtime_later(level->top, level->floor);
	return true;
}

static void vtime_raise_clients(struct fair *fair, struct fair_tenant *tenant)
{
	if (!vtime_raise(&tenant->level))
		return;
	tenant->clock = vtime_later(tenant->clock, tenant->level.floor);
	for (uint32_t i = 0; i < fair->clients_max; i++)
		if (fair->clients[i].tenant == tenant && !fair->clients[i].active)
			vtime_lift(&tenant->level, &fair->clients[i].node);
}

static void vtime_raise_tenants(struct fair *fair)
{
	if (!vtime_raise(&fair->level))
		return;
	for (uint32_t i = 0; i < fair->max_tenants; i++)
		if (!fair->tenants[i].level.n_active)
			vtime_lift(&fair->level, &fair->tenants[i].node);
}

/* Raises an active member to the lag, after all have been seen. */
static bool vtime_pull(const struct fair *fair, const struct fair_level *level,
		       struct vheap_node *node)
{
	uint64_t lag = vtime_of(fair->credit, min(level->lightest, FAIR_WEIGHT));

	if (vtime_ahead(level->highest, node->v) <= (int64_t)lag)
		return false;
	node->v = level->highest - lag;
	return true;
}

void vtime_activate(struct fair *fair, struct fair_client *client)
{
	struct fair_tenant *tenant = client->tenant;

	if (client->active)
		return;
	/* Includes charges made after it had become inactive. */
	vtime_settle_client(fair, client);
	if (!tenant->level.n_active++) {
		fair->level.n_active++;
		vtime_lift(&fair->level, &tenant->node);
		vheap_moved(&fair->heap, &tenant->node);
	}
	vtime_settle_waste(fair, tenant);
	vtime_lift(&tenant->level, &client->node);
	vheap_moved(&tenant->heap, &client->node);
	fair->active[fair->n_active++] = (uint32_t)(client - fair->clients);
	client->active = fair->n_active;
	tenant->weights += client->node.weight;
}

static void vtime_deactivate(struct fair *fair, struct fair_client *client)
{
	struct fair_tenant *tenant = client->tenant;
	uint32_t last = fair->active[--fair->n_active];

	fair->active[client->active - 1] = last;
	fair->clients[last].active = client->active;
	client->active = 0;
	tenant->weights -= client->node.weight;
	tenant->level.top = vtime_later(tenant->level.top, client->node.v);
	if (--tenant->level.n_active)
		return;
	tenant->level.floor = vtime_later(tenant->level.floor, tenant->level.top);
	vtime_raise_clients(fair, tenant);
	fair->level.top = vtime_later(fair->level.top, tenant->node.v);
	if (--fair->level.n_active)
		return;
	fair->level.floor = vtime_later(fair->level.floor, fair->level.top);
	vtime_raise_tenants(fair);
}

void vtime_add_tenant(struct fair *fair, struct fair_tenant *tenant)
{
	tenant->node.v = fair->level.floor;
}

void vtime_weigh(struct fair *fair, struct fair_tenant *tenant, uint32_t weight)
{
	uint32_t old = tenant->node.weight;

	/* Earlier use is charged by the old weight. */
	vtime_settle(fair);
	tenant->node.weight = weight;
	/* The advance charge will be taken back by the new weight, so convert it: otherwise a
	 * tenant that becomes heavy, and light again, gets back more than it was charged. */
	for (uint32_t i = 0; i < fair->clients_max; i++) {
		struct fair_client *client = &fair->clients[i];

		if (client->tenant != tenant)
			continue;
		client->tenant_step = vtime_of(client->estimate, weight);
		if (client->active)
			tenant->node.v +=
				vtime_of(client->ahead, weight) - vtime_of(client->ahead, old);
	}
	vtime_sift_tenant(fair, tenant);
}

void vtime_add_client(struct fair_client *client)
{
	client->node.v = vtime_later(client->tenant->level.floor, client->tenant->clock);
	client->jobs = load_relaxed(&client->board->jobs);
	client->cpu_ns = load_relaxed(&client->board->cpu_ns);
	vtime_expect(client);
}

void vtime_remove_client(struct fair *fair, struct fair_client *client)
{
	vtime_settle_client(fair, client);
	if (client->active)
		vtime_deactivate(fair, client);
}

void vtime_enter(struct fair *fair, struct fair_client *client)
{
	struct fair_tenant *tenant = client->tenant;

	vheap_insert(&tenant->heap, &client->node);
	if (!tenant->node.place)
		vheap_insert(&fair->heap, &tenant->node);
	vtime_sift_tenant(fair, tenant);
}

void vtime_leave(struct fair *fair, struct fair_client *client)
{
	struct fair_tenant *tenant = client->tenant;

	vheap_remove(&tenant->heap, &client->node);
	if (!tenant->heap.n)
		vheap_remove(&fair->heap, &tenant->node);
	vtime_sift_tenant(fair, tenant);
}

void vtime_advance(struct fair *fair, struct fair_client *client)
{
	client->ahead += client->estimate;
	client->node.v += client->step;
	client->node.picked_at = ++fair->picks;
	client->tenant->node.v += client->tenant_step;
	client->tenant->node.picked_at = fair->picks;
	vtime_sift(fair, client);
}

void vtime_take_back(struct fair *fair, struct fair_client *client)
{
	vtime_unahead(client, 1);
	vtime_sift(fair, client);
}

void vtime_settle(struct fair *fair)
{
	for (uint32_t i = fair->n_active; i-- > 0;) {
		struct fair_client *client = &fair->clients[fair->active[i]];

		vtime_settle_client(fair, client);
		vtime_settle_waste(fair, client->tenant);
		if (!client->queued && !client->placed && !vtime_given(client))
			vtime_deactivate(fair, client);
	}
	for (uint32_t i = 0; i < fair->n_active; i++) {
		struct fair_client *client = &fair->clients[fair->active[i]];

		vtime_see(&client->tenant->level, &client->node);
		vtime_see(&fair->level, &client->tenant->node);
	}
	for (uint32_t i = 0; i < fair->n_active; i++) {
		struct fair_client *client = &fair->clients[fair->active[i]];
		struct fair_tenant *tenant = client->tenant;

		vtime_raise_clients(fair, tenant);
		if (vtime_pull(fair, &tenant->level, &client->node))
			vtime_sift(fair, client);
		if (vtime_pull(fair, &fair->level, &tenant->node))
			vtime_sift_tenant(fair, tenant);
	}
	vtime_raise_tenants(fair);
}

bool vtime_part(const struct fair_client *a, const struct fair_client *b,
		const struct vheap_node **ret_a, const struct vheap_node **ret_b)
{
	bool tenants = a->tenant != b->tenant;

	if (a == b)
		return false;
	*ret_a = tenants ? &a->tenant->node : &a->node;
	*ret_b = tenants ? &b->tenant->node : &b->node;
	return true;
}
