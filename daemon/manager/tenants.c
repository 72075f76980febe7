/* SPDX-License-Identifier: MIT */
/*
 * tenants.c - the uids that forkd serves, each with a segment of rings
 *
 *  	FREE --> USED, connected <--> idle --trim()--> LEAVING --released()--> EMPTYING --> FREE
 *
 * INVARIANTS
 *   I1. A uid has at most one USED tenant with one segment, from its first client until it has no
 *       connection and others need the slot: the tenant that has been idle the longest leaves
 *       first. Some idle tenants are kept, for uids that come back. A uid that comes back before
 *       the pool has released its last tenant gets a new one.
 *   I2. Nothing about a tenant is read from its segment, which all clients of the uid can write:
 *       uid, size and head are kept here.
 *   I3. A client that attaches finds the original head, whatever other clients of its uid have
 *       written there: it is written again each time. Attached clients do not read it.
 *   I4. Rings are never cleared, because their words belong to clients that may be alive. Damage by
 *       one client of the uid lasts until that client ends: then tenants_mark() makes the pool
 *       repair the rings (ring.h).
 *   I5. A slot is free when no pool has its rings mapped, and its pages are freed. The rings' heads
 *       in the arena are then those of a new segment again. An earlier client may have the old
 *       segment mapped: its pages are punched out, and only then its bytes stop being counted.
 *   I6. The board shows a tenant from its start until it leaves: never two of one uid. The memory
 *       of its times is allocated, and 0, before a pool or a client is told of it. It is freed with
 *       the rings, when no pool counts there any more.
 *
 * If a peer dies: a client between a ring's slot and its summary bit, or a consumer between
 * clearing the bit and its last check: tenants_mark() repairs both. The pool: tenants_tell_pool()
 * when the next one is ready; it is not told of tenants that the last one had to release. The
 * manager: the next one has the tenants from the store, by the saved state (saved_state.c, I3), and
 * reads nothing from their segments. A tenant that was LEAVING is emptied when its pool is ready.
 */
#include "daemon/manager/tenants.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/options.h"
#include "common/relaxed.h"
#include "common/util.h"
#include "daemon/manager/client_segments.h"
#include "daemon/manager/pool_process.h"
#include "daemon/manager/saved_state.h"
#include "shm/board.h"
#include "shm/futex.h"
#include "shm/ledger.h"
#include "shm/proto.h"
#include "shm/ring.h"
#include "shm/tenant.h"
#include "shm/wake.h"

#define TENANTS_IDLE  16u /* idle tenants that are kept */
#define TENANTS_SPARE 16u /* slots that idle tenants leave free, for many new uids at once */

/* ------------------------------------------------------------------------ what the board shows */

/* Relaxed throughout: for display. */
static void tenants_hide(struct tenants *tenants, uint32_t index)
{
	store_relaxed(&tenants->board->tenants[index].since_ns, 0);
}

static void tenants_show(struct tenants *tenants, uint32_t index)
{
	struct board_tenant *b = &tenants->board->tenants[index];
	const struct tenants_slot *t = &tenants->slots[index];

	tenants_hide(tenants, index);
	store_relaxed(&b->uid, t->uid);
	store_relaxed(&b->ended, t->ended);
	store_relaxed(&b->since_ns, t->since_ns);
}

/* Shows what an earlier manager showed, as far as the board still has it. */
static void tenants_show_again(struct tenants *tenants, uint32_t index)
{
	const struct board_tenant *b = &tenants->board->tenants[index];
	struct tenants_slot *t = &tenants->slots[index];

	t->ended = load_relaxed(&b->ended);
	t->since_ns = load_relaxed(&b->since_ns);
	if (!t->since_ns)
		t->since_ns = clock_ns();
	tenants_show(tenants, index);
}

void tenants_ended(struct tenants *tenants, uint32_t index, uint32_t n)
{
	struct tenants_slot *t = &tenants->slots[index];

	t->ended += n;
	/* Nothing is read back: a task may have written there. */
	store_relaxed(&tenants->board->tenants[index].ended, t->ended);
}

static uint64_t tenants_times(uint32_t index)
{
	return offsetof(struct board, times) + index * sizeof(((struct board *)NULL)->times[0]);
}

/* Clears the times of a tenant that has left, or is new: all 0, and no memory. */
static int tenants_clear_times(struct tenants *tenants, uint32_t index)
{
	store_relaxed(&tenants->board->tenants[index].dropped, 0);
	return segment_clear(tenants->board_fd, tenants_times(index),
			     board_times_size(tenants->n_workers));
}

static int tenants_make_times(struct tenants *tenants, uint32_t index)
{
	int r = tenants_clear_times(tenants, index);

	return r < 0 ? r
		     : segment_allocate(tenants->board_fd, tenants_times(index),
					board_times_size(tenants->n_workers));
}

static uint64_t tenants_size(const struct tenants *tenants)
{
	return tenant_segment_size(tenants->n_workers) + board_times_size(tenants->n_workers);
}

/* ------------------------------------------------------------------------ what the pool is told */

void tenants_tell(struct tenants *tenants, uint32_t index)
{
	struct proto_pool m = {
		.head = { PROTO_MAGIC, PROTO_POOL_TENANT },
		.tenant = index,
		.weight = tenants->slots[index].weight,
	};

	pool_process_send(tenants->pool, &m, tenants->slots[index].fd);
}

void tenants_weigh(struct tenants *tenants, uint32_t index, uint32_t weight)
{
	if (tenants->slots[index].weight == weight)
		return;
	tenants->slots[index].weight = weight;
	tenants_tell(tenants, index);
}

/* No next manager continues with it: its slot in the saved state is freed first (saved_state.c,
 * I2). */
static void tenants_forget(struct tenants *tenants, uint32_t index)
{
	char name[FDSTORE_NAME];

	saved_tenant_is(tenants->saved, index, SAVED_FREE);
	fdstore_forget(&tenants->slots[index].put);
	fdstore_name(name, FDSTORE_TENANT, index);
	fdstore_remove(tenants->store, name);
}

static void tenants_on_emptied(struct pages *pages, int result)
{
	struct tenants_slot *t = container_of(pages, struct tenants_slot, pages);

	if (result < 0)
		log_error("cannot free the %" PRIu64 " bytes of the rings of uid %u: %s: they stay "
			  "counted against shared-memory-max",
			  t->size, t->uid, strerror(-result));
	else
		t->all->memory -= tenants_size(t->all);
	t->fd = safe_close(t->fd);
	t->state = TENANTS_FREE;
	tenants_forget(t->all, (uint32_t)(t - t->all->slots));
}

/* No pool has it mapped, or will be told of it (I5). */
static void tenants_empty(struct tenants *tenants, uint32_t index)
{
	struct tenants_slot *t = &tenants->slots[index];
	int r;

	segment_unmap(t->segment, t->size);
	t->segment = NULL;
	/* Relaxed: a pool is told of the slot's next tenant after this store. */
	for (uint32_t i = 0; i < tenants->n_workers; i++)
		store_relaxed(&tenants->arena->rings[index][i].head, 0);
	t->state = TENANTS_EMPTYING;
	/* If it fails, it is tried again before the slot's next use. */
	(void)tenants_clear_times(tenants, index);
	t->pages = (struct pages){ .loop = tenants->loop, .call = tenants_on_emptied };
	r = pages_drop(&t->pages, t->fd, 0, t->size);
	if (r < 0)
		tenants_on_emptied(&t->pages, r);
}

void tenants_tell_pool(struct tenants *tenants)
{
	for (uint32_t i = 0; i < tenants->n; i++)
		if (tenants->slots[i].state == TENANTS_USED) {
			tenants_tell(tenants, i);
			/* The last pool may have written there. */
			tenants_show(tenants, i);
		} else if (tenants->slots[i].state == TENANTS_LEAVING) {
			tenants_empty(tenants, i);
		}
}

void tenants_mark(struct tenants *tenants, uint32_t index)
{
	struct tenant_segment *segment = tenants->slots[index].segment;

	for (uint32_t ring = 0; ring < tenants->n_workers; ring++) {
		ring_set_astray(&segment->rings[ring]);
		tenant_mark(segment, ring);
	}
	tenants_ring(tenants);
}

void tenants_ring(struct tenants *tenants)
{
	wake_published();
	/* Relaxed: the fence is above. A dispatcher that is about to sleep finds the bell changed.
	 * Without futex_waitv(2) it checks within BELL_TIMED_SLEEP. */
	(void)add_relaxed(&tenants->arena->bell, 1);
	(void)futex_wake(&tenants->arena->bell, INT32_MAX);
}

void tenants_mark_all(struct tenants *tenants)
{
	for (uint32_t i = 0; i < tenants->n; i++)
		if (tenants->slots[i].state == TENANTS_USED)
			tenants_mark(tenants, i);
}

/* Writes what clients read once when they attach. */
static void tenants_head(struct tenants *tenants, uint32_t index)
{
	struct tenants_slot *t = &tenants->slots[index];

	t->segment->head = t->head;
	t->segment->tenant = index;
	t->segment->uid = t->uid;
	t->segment->n_rings = tenants->n_workers;
}

/* Returns the uid's tenant; LIMIT_TENANTS if there is none. */
static uint32_t tenants_find(const struct tenants *tenants, uint32_t uid)
{
	for (uint32_t i = 0; i < tenants->n; i++)
		if (tenants->slots[i].state == TENANTS_USED && tenants->slots[i].uid == uid)
			return i;
	return LIMIT_TENANTS;
}

/* Returns a free slot; LIMIT_TENANTS if there is none. */
static uint32_t tenants_find_free(const struct tenants *tenants)
{
	uint32_t i = 0;

	while (i < tenants->n && tenants->slots[i].state != TENANTS_FREE)
		i++;
	return i;
}

uint64_t tenants_needs(const struct tenants *tenants, uint32_t uid)
{
	return tenants_find(tenants, uid) < LIMIT_TENANTS ? 0 : tenants_size(tenants);
}

bool tenants_are_full(const struct tenants *tenants, uint32_t uid)
{
	return tenants_find(tenants, uid) == LIMIT_TENANTS &&
	       tenants_find_free(tenants) == LIMIT_TENANTS;
}

/* The store now has this tenant's segment under the slot's name: the saved state may say so. */
static void tenants_enter(struct tenants *tenants, uint32_t index)
{
	saved_enter_tenant(tenants->saved, index, tenants->slots[index].uid);
	if (tenants->slots[index].state != TENANTS_USED)
		saved_tenant_is(tenants->saved, index, SAVED_GONE);
}

static void tenants_on_stored(struct fdstore_put *put, int result)
{
	struct tenants_slot *t = container_of(put, struct tenants_slot, put);

	if (result == 0)
		tenants_enter(t->all, (uint32_t)(t - t->all->slots));
	else
		/* Then its clients are not in the store either: they are stored after it. */
		log_warning("the rings of uid %u are not in the store: %s", t->uid,
			    strerror(-result));
}

static void tenants_place(struct tenants *tenants, uint32_t index, uint32_t uid, int fd, void *base,
			  uint64_t size)
{
	struct tenants_slot *t = &tenants->slots[index];

	*t = (struct tenants_slot){
		.all = tenants,
		.state = TENANTS_USED,
		.uid = uid,
		.weight = OPTIONS_WEIGHT,
		.fd = fd,
		.segment = base,
		.size = size,
		.head = segment_head(SEGMENT_TENANT, size, tenants->epoch),
		.put = t->put, /* which may wait */
	};
	tenants->memory += tenants_size(tenants);
	tenants->n = max(tenants->n, index + 1);
}

static int tenants_make(struct tenants *tenants, uint32_t index, uint32_t uid)
{
	struct tenants_slot *t = &tenants->slots[index];
	uint64_t size = tenant_segment_size(tenants->n_workers);
	char name[FDSTORE_NAME];
	void *base;
	int fd, r;

	fd = segment_create("forkd-tenant", SEGMENT_TENANT, size, tenants->epoch, 1, 0600);
	if (fd < 0)
		return fd;
	r = segment_map(fd, SEGMENT_TENANT, 1, tenants->epoch, &base, NULL);
	if (r < 0) {
		(void)safe_close(fd);
		return r;
	}
	t->put = (struct fdstore_put){ .call = tenants_on_stored };
	fdstore_name(name, FDSTORE_TENANT, index);
	r = fdstore_put(tenants->store, &t->put, name, &fd, 1);
	if (r < 0) {
		segment_unmap(base, size);
		(void)safe_close(fd);
		return r;
	}
	tenants_place(tenants, index, uid, fd, base, size);
	tenants->slots[index].since_ns = clock_ns();
	tenants_show(tenants, index);
	if (r == 0)
		tenants_enter(tenants, index);
	return 0;
}

int tenants_attach(struct tenants *tenants, uint32_t uid)
{
	uint32_t index = tenants_find(tenants, uid);
	bool new = index == LIMIT_TENANTS;
	int r = 0;

	if (new) {
		index = tenants_find_free(tenants);
		assert(index < LIMIT_TENANTS);
		r = tenants_make_times(tenants, index);
		if (r == 0)
			r = tenants_make(tenants, index, uid);
		if (r < 0)
			(void)tenants_clear_times(tenants, index);
	}
	if (r < 0)
		return r;
	tenants_head(tenants, index);
	if (new)
		tenants->made(tenants, index);
	tenants->slots[index].n_conns++;
	tenants_trim(tenants, TENANTS_IDLE);
	return (int)index;
}

void tenants_detach(struct tenants *tenants, uint32_t index)
{
	struct tenants_slot *t = &tenants->slots[index];

	assert(t->state == TENANTS_USED && t->n_conns);
	if (--t->n_conns)
		return;
	t->idle_since = ++tenants->n_idled;
	tenants_trim(tenants, TENANTS_IDLE);
}

/* Releases the tenant that has been idle the longest. */
static void tenants_release_one(struct tenants *tenants)
{
	struct proto_pool m = { .head = { PROTO_MAGIC, PROTO_POOL_TENANT_GONE } };
	struct tenants_slot *oldest = NULL;

	for (uint32_t i = 0; i < tenants->n; i++) {
		struct tenants_slot *t = &tenants->slots[i];

		if (t->state == TENANTS_USED && !t->n_conns &&
		    (!oldest || t->idle_since < oldest->idle_since))
			oldest = t;
	}
	assert(oldest);
	m.tenant = (uint32_t)(oldest - tenants->slots);
	tenants_hide(tenants, m.tenant);
	/* Not if it still waits for the store. */
	if (saved_tenant(tenants->saved, m.tenant, NULL) != SAVED_FREE)
		saved_tenant_is(tenants->saved, m.tenant, SAVED_GONE);
	if (tenants->pool->state == POOL_PROCESS_READY) {
		oldest->state = TENANTS_LEAVING;
		pool_process_send(tenants->pool, &m, -1);
	} else {
		tenants_empty(tenants, m.tenant);
	}
}

void tenants_count(const struct tenants *tenants, uint32_t *ret_used, uint32_t *ret_idle)
{
	uint32_t used = 0, idle = 0;

	for (uint32_t i = 0; i < tenants->n; i++) {
		const struct tenants_slot *t = &tenants->slots[i];

		used += t->state == TENANTS_USED;
		idle += t->state == TENANTS_USED && !t->n_conns;
	}
	*ret_used = used;
	*ret_idle = idle;
}

void tenants_trim(struct tenants *tenants, uint32_t n_idle)
{
	uint32_t used, idle;

	tenants_count(tenants, &used, &idle);
	for (; idle > n_idle || (idle && used > LIMIT_TENANTS - TENANTS_SPARE); used--, idle--)
		tenants_release_one(tenants);
}

bool tenants_released(struct tenants *tenants, uint32_t index)
{
	if (index >= tenants->n || tenants->slots[index].state != TENANTS_LEAVING)
		return false;
	tenants_empty(tenants, index);
	return true;
}

/* Takes over one tenant of an earlier manager. Returns as segments_map(). */
static int tenants_takeover_one(struct tenants *tenants, uint32_t index, uint32_t uid)
{
	uint64_t size = tenant_segment_size(tenants->n_workers);
	char name[FDSTORE_NAME];
	void *base;
	int fd, r;

	fdstore_name(name, FDSTORE_TENANT, index);
	fd = fdstore_take(tenants->store, name, FDSTORE_MEMFD);
	if (fd < 0)
		return SEGMENTS_FOREIGN;
	r = segments_map(fd, size, &base);
	if (r != 0) {
		(void)safe_close(fd);
		return r;
	}
	tenants_place(tenants, index, uid, fd, base, size);
	/* As if a pool had been told of it: the next one is not. */
	if (saved_tenant(tenants->saved, index, NULL) != SAVED_HERE)
		tenants->slots[index].state = TENANTS_LEAVING;
	else
		tenants_show_again(tenants, index);
	return 0;
}

int tenants_takeover(struct tenants *tenants)
{
	for (uint32_t i = 0; i < LIMIT_TENANTS; i++) {
		uint32_t uid;
		int r;

		if (saved_tenant(tenants->saved, i, &uid) == SAVED_FREE)
			continue;
		r = tenants_takeover_one(tenants, i, uid);
		if (r == 0)
			continue;
		if (r < 0)
			return r;
		log_warning("cannot take over the rings of uid %u: they are missing or invalid",
			    uid);
		tenants_hide(tenants, i);
		tenants_forget(tenants, i);
	}
	return 0;
}

bool tenants_join(struct tenants *tenants, uint32_t index, uint32_t uid)
{
	struct tenants_slot *t = &tenants->slots[index % LIMIT_TENANTS];

	if (index >= tenants->n || t->state != TENANTS_USED || t->uid != uid)
		return false;
	t->n_conns++;
	return true;
}

void tenants_settle(struct tenants *tenants)
{
	for (uint32_t i = 0; i < tenants->n; i++)
		if (!tenants->slots[i].n_conns)
			tenants->slots[i].idle_since = ++tenants->n_idled;
}

void tenants_fini(struct tenants *tenants)
{
	for (uint32_t i = 0; i < tenants->n; i++) {
		struct tenants_slot *t = &tenants->slots[i];

		if (t->state == TENANTS_FREE)
			continue;
		fdstore_forget(&t->put);
		if (t->state == TENANTS_EMPTYING)
			pages_stop(&t->pages);
		segment_unmap(t->segment, t->size);
		(void)safe_close(t->fd);
	}
	tenants->n = 0;
}
