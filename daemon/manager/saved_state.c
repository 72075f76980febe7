/* SPDX-License-Identifier: MIT */
/*
 * saved_state.c - what the next forkd needs to know, to go on with the clients of this one
 *
 * WHAT IT IS
 *   A manager may be killed at any instruction. What clients, pool and tasks have is in segments,
 *   and the service manager keeps their descriptors (fdstore.c); what the manager alone knew of
 *   them stands here, in a segment that nobody else maps: who has which slot, and how large his
 *   segment is. So the next one believes it (takeover.c), and asks no byte that a client or a task
 *   can write.
 *
 * WHO CALLS IT, ON WHICH THREAD
 *   takeover.c, pool_segments.c, manager_*.c, quarantine.c, connection.c, connection_close.c,
 *   tenants.c, on the manager's only thread. One manager has it at a time: the next one starts when
 *   the service manager has seen the last one's end.
 *
 * INVARIANTS
 *   I1. Killed between any two stores a manager leaves each slot as it was before or as it is
 *       after, never half: who takes a free slot writes all about it first, and its state last;
 *       from then on until it is free again its state alone changes, and welcomed, a word each. Of
 *       a free slot nothing is read but its generation, and whichever of the two stands there, the
 *       next client's is another one. CPUs are written beside those that hold, and then the word
 *       that says which of them do.
 *   I2. What is here is in the store as well: a slot is taken when the service manager has its
 *       descriptors, and is free before it is told to let go of them. What the store has of free
 *       slots is nobody's: a user's who was there before, perhaps, whose removal died with us.
 *   I3. A tenant's slot is taken before any client's that needs it, for the store gets their
 *       descriptors in this order; and it is free after all of these.
 *   I4. Up to the clients it is the same in each version of forkd, and larger rosters are longer:
 *       so of one that this forkd does not know it can still end each job. The rest is believed if
 *       it is known, roster_is_known().
 *   I5. A state that kills each manager that takes it over is not taken over for ever: tries
 *       counts them, and ROSTER_TRIES is the end of it. The living says that it is no such manager
 *       (roster_acquit()); of the dead a job counts that has ended since it was ready.
 *
 *   The proof of I1: the compiler keeps each store on its side of a roster_store(), and a process
 *   that is killed has made those before some instruction and none after it, whatever the
 *   caches did: the next process reads after the death, which the kernel orders.
 *
 * WHAT HAPPENS IF A PEER DIES HERE
 *   The manager: that is what it is for. Clients and pools do not know of it.
 */
#include "daemon/manager/saved_state.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <hwloc.h>

#include "common/cleanup.h"
#include "common/crash_site.h"
#include "shm/board.h"
#include "shm/fence.h"
#include "shm/job.h"
#include "shm/layout.h"
#include "shm/ledger.h"
#include "shm/proto.h"

#define ROSTER_TRIES 5u
#define ROSTER_MIB   (UINT64_C(1) << 20)

_Static_assert(sizeof(struct roster_client) == 64, "a slot is a cache line");
_Static_assert(offsetof(struct roster, records) == 112 && offsetof(struct roster, tenants) == 208 &&
		       offsetof(struct roster, quarantine) == 67792,
	       "what all versions have is where it was (I4)");

/* Every word that changes is written here. */
void roster_store(_Atomic uint64_t *word, uint64_t value)
{
	/* ORDER roster/state [X1]: release, so that no store to the rest of a slot comes after the
	 * one to its state; and the compiler moves none that follows before it. Pairs with
	 * roster_load(), in the next process (I1). */
	atomic_store_explicit(word, value, memory_order_release);
	fence_signal();
	FK_CRASH(roster_store);
}

uint64_t roster_load(const _Atomic uint64_t *word)
{
	/* ORDER roster/state [X1]: relaxed, the writer is dead, or this process. Pairs with
	 * roster_store(). */
	return atomic_load_explicit(word, memory_order_relaxed);
}

int roster_new(const struct roster_geometry *geometry, uint64_t epoch, struct roster **ret_roster)
{
	_cleanup_close_ int fd = segment_create("forkd-roster", SEGMENT_ROSTER,
						sizeof(struct roster), epoch, 1, 0600);
	struct roster *roster;
	void *base;
	int r;

	if (fd < 0)
		return steal_fd(&fd);
	r = segment_map(fd, SEGMENT_ROSTER, 1, epoch, &base, NULL);
	if (r < 0)
		return r;
	roster = base;
	roster->version = ROSTER_VERSION;
	roster->geometry = *geometry;
	roster->records = (struct roster_records){
		.offset = sizeof(struct client_segment),
		.stride = sizeof(struct job),
		.state_offset = offsetof(struct job, state),
		.outcome_mask = JOB_OUTCOME_MASK,
		.waiter = JOB_WAITER,
		.pending = JOB_PENDING,
		.lost = JOB_LOST,
	};
	*ret_roster = roster;
	return steal_fd(&fd);
}

int roster_map(int fd, struct roster **ret_roster)
{
	struct roster *roster;
	uint64_t size;
	void *base;
	int r;

	/* Its head is looked at below: a layout that is not ours is no reason to refuse it. */
	r = segment_map(fd, SEGMENT_ANY, 1, 0, &base, &size);
	if (r < 0)
		return r;
	roster = base;
	if (size < offsetof(struct roster, quarantine) || roster->head.magic != SEGMENT_MAGIC ||
	    roster->head.kind != SEGMENT_ROSTER || roster->head.size != size) {
		segment_unmap(base, size);
		return -EBADMSG;
	}
	*ret_roster = roster;
	return 0;
}

void roster_unmap(struct roster *roster)
{
	if (roster)
		segment_unmap(roster, roster->head.size);
}

bool roster_is_known(const struct roster *roster)
{
	return roster->version == ROSTER_VERSION && roster->head.size == sizeof(*roster) &&
	       roster->head.version == PROTO_VERSION && roster->head.layout_hash == LAYOUT_HASH;
}

static uint64_t roster_arena_of(const struct roster_geometry *g)
{
	return g->arena_size -
	       arena_workers_offset((uint32_t)g->max_clients, (uint32_t)g->max_jobs);
}

uint64_t roster_arena_max(const struct roster *roster)
{
	return roster_arena_of(&roster->geometry);
}

/* One more number, if it is another one. */
static void roster_say(char why[ROSTER_WHY], const char *option, uint64_t was, uint64_t is,
		       const char *unit)
{
	size_t at = strlen(why);

	if (was != is)
		(void)snprintf(why + at, ROSTER_WHY - at,
			       "%s%s was %" PRIu64 "%s and is %" PRIu64 "%s",
			       at ? ", " : "forkd has other sizes now: ", option, was, unit, is,
			       unit);
}

static bool roster_refuse(char ret_why[ROSTER_WHY])
{
	(void)snprintf(ret_why, ROSTER_WHY, "forkd has another version now");
	return false;
}

bool roster_fits(const struct roster *roster, const struct roster_geometry *geometry,
		 char ret_why[ROSTER_WHY])
{
	const struct roster_geometry *was = &roster->geometry, *is = geometry;
	uint64_t unit = 1;

	ret_why[0] = '\0';
	if (!roster_is_known(roster))
		return roster_refuse(ret_why);
	roster_say(ret_why, "workers", was->n_workers, is->n_workers, "");
	roster_say(ret_why, "max-clients", was->max_clients, is->max_clients, "");
	roster_say(ret_why, "max-jobs", was->max_jobs, is->max_jobs, "");
	if ((roster_arena_of(was) | roster_arena_of(is)) % ROSTER_MIB == 0)
		unit = ROSTER_MIB;
	roster_say(ret_why, "arena-max", roster_arena_of(was) / unit, roster_arena_of(is) / unit,
		   unit == 1 ? "" : "M");
	if (ret_why[0])
		return false;
	/* It follows from the workers. */
	return was->board_size == is->board_size || roster_refuse(ret_why);
}

static bool roster_has_cpu(const struct roster *roster, uint64_t at, uint32_t cpu)
{
	return roster->cpus[at][cpu / 64] >> cpu % 64 & 1;
}

void roster_set_cpus(struct roster *roster, const struct hwloc_bitmap_s *cpus)
{
	uint64_t at = roster_load(&roster->cpus_at) ^ 1;
	bool changed = false;

	memset(roster->cpus[at], 0, sizeof(roster->cpus[at]));
	for (uint32_t cpu = 0; cpu < ROSTER_CPUS; cpu++) {
		if (hwloc_bitmap_isset(cpus, cpu))
			roster->cpus[at][cpu / 64] |= UINT64_C(1) << cpu % 64;
		changed |= roster_has_cpu(roster, at, cpu) != roster_has_cpu(roster, at ^ 1, cpu);
	}
	if (changed)
		roster_store(&roster->cpus_at, at);
}

struct hwloc_bitmap_s *roster_cpus(const struct roster *roster)
{
	uint64_t at = roster_load(&roster->cpus_at);
	hwloc_bitmap_t cpus = hwloc_bitmap_alloc();

	for (uint32_t cpu = 0; cpus && cpu < ROSTER_CPUS; cpu++)
		if (roster_has_cpu(roster, at, cpu))
			(void)hwloc_bitmap_set(cpus, cpu);
	return cpus;
}

void roster_enter_client(struct roster *roster, uint32_t slot, const struct roster_entry *entry)
{
	struct roster_client *c = &roster->clients[slot];

	roster_store(&c->generation, entry->generation);
	roster_store(&c->uid, entry->uid);
	roster_store(&c->pid, entry->pid);
	roster_store(&c->tenant, entry->tenant);
	roster_store(&c->n_jobs, entry->n_jobs);
	roster_store(&c->size, entry->size);
	roster_store(&c->welcomed, 0);
	roster_store(&c->state, ROSTER_HERE);
}

void roster_enter_tenant(struct roster *roster, uint32_t slot, uint32_t uid)
{
	struct roster_tenant *t = &roster->tenants[slot];

	roster_store(&t->uid, uid);
	roster_store(&t->state, ROSTER_HERE);
}

void roster_client_is(struct roster *roster, uint32_t slot, enum roster_state state)
{
	roster_store(&roster->clients[slot].state, state);
}

void roster_tenant_is(struct roster *roster, uint32_t slot, enum roster_state state)
{
	roster_store(&roster->tenants[slot].state, state);
}

void roster_welcome(struct roster *roster, uint32_t slot)
{
	roster_store(&roster->clients[slot].welcomed, 1);
}

struct roster_entry roster_client(const struct roster *roster, uint32_t slot)
{
	const struct roster_client *c = &roster->clients[slot];
	struct roster_entry entry = {
		.state = (enum roster_state)roster_load(&c->state),
		.generation = (uint32_t)roster_load(&c->generation),
	};

	if (entry.state == ROSTER_FREE)
		return entry;
	entry.uid = (uint32_t)roster_load(&c->uid);
	entry.pid = (uint32_t)roster_load(&c->pid);
	entry.tenant = (uint32_t)roster_load(&c->tenant);
	entry.n_jobs = (uint32_t)roster_load(&c->n_jobs);
	entry.size = roster_load(&c->size);
	entry.welcomed = roster_load(&c->welcomed);
	return entry;
}

enum roster_state roster_tenant(const struct roster *roster, uint32_t slot, uint32_t *ret_uid)
{
	const struct roster_tenant *t = &roster->tenants[slot];
	enum roster_state state = (enum roster_state)roster_load(&t->state);

	if (ret_uid && state != ROSTER_FREE)
		*ret_uid = (uint32_t)roster_load(&t->uid);
	return state;
}

bool roster_try(struct roster *roster, uint64_t n_ended)
{
	uint64_t ready = roster_load(&roster->ready), tries = roster_load(&roster->tries) + 1;

	if (ready && n_ended >= ready)
		tries = 1;
	roster_store(&roster->tries, tries);
	roster_store(&roster->ready, 0);
	return tries <= ROSTER_TRIES;
}

void roster_ready(struct roster *roster, uint64_t n_ended)
{
	roster_store(&roster->ready, n_ended + 1);
}

void roster_acquit(struct roster *roster)
{
	roster_store(&roster->tries, 0);
}

uint32_t roster_pool_generation(const struct roster *roster)
{
	return (uint32_t)roster_load(&roster->pool_generation);
}

uint64_t roster_crashes(const struct roster *roster)
{
	return roster_load(&roster->crashes);
}

uint32_t roster_next_pool(struct roster *roster)
{
	uint32_t generation = roster_pool_generation(roster) + 1;

	roster_store(&roster->pool_generation, generation);
	return generation;
}

uint64_t roster_crashed(struct roster *roster)
{
	uint64_t crashes = roster_crashes(roster) + 1;

	roster_store(&roster->crashes, crashes);
	return crashes;
}

void roster_end(struct roster *roster)
{
	roster_store(&roster->ended, 1);
}

bool roster_has_ended(const struct roster *roster)
{
	return roster_load(&roster->ended);
}
