/* SPDX-License-Identifier: MIT */
/*
 * saved_state.c - the state that the next forkd needs to continue with the clients of this one
 *
 * A manager may be killed at any instruction. The data of clients, pool and tasks are in segments
 * whose descriptors the service manager keeps (fdstore.c). The state that only the manager had is
 * here, in a segment that no other process maps: the client and the size of each slot. So the next
 * manager trusts it (takeover.c), and reads no byte that a client or a task can write. The next
 * manager starts when the service manager has seen the end of the last one.
 *
 * INVARIANTS
 *   I1. A manager that is killed between any two stores leaves each slot in its old or its new
 *       state, never between them: all words of a free slot are written before its state. From then
 *       until the slot is free again, only its state, welcomed, its memory and its imports change,
 *       a word each; those of an import are valid while its size is not 0. Of a free
 *       slot only the generation is read; the next client's generation differs from both the old
 *       and the new value. CPUs are written to the row that is not in use, and then the word that
 *       selects the row.
 *   I2. What is here is in the store as well: a slot is taken when the service manager has its
 *       descriptors, and is free before the service manager is told to drop them. Descriptors of
 *       free slots in the store belong to no client: a manager died before it could remove them.
 *   I3. A tenant's slot is taken before that of any client that needs it, because the store gets
 *       their descriptors in this order; and it is freed after all of these.
 *   I4. The part up to the clients is the same in each version of forkd, and a version with more
 *       slots only appends. So a forkd that does not know a state's version can still end each job.
 *       The rest is trusted if the version is known, saved_is_known().
 *   I5. A state that kills each manager that takes it over is not taken over forever: tries counts
 *       them, up to SAVED_TRIES. A manager that lives long enough resets the count
 *       (saved_acquit()). A dead manager is not counted if a job has ended since its pool was
 *       ready.
 *
 *   Proof of I1: the compiler keeps each store on its side of a saved_store(). A killed process has
 *   made the stores before some instruction and none after it, regardless of caches: the next
 *   process reads after the death, and the kernel orders the two.
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
#include "common/relaxed.h"
#include "shm/board.h"
#include "shm/fence.h"
#include "shm/job.h"
#include "shm/layout.h"
#include "shm/ledger.h"
#include "shm/proto.h"

#define SAVED_TRIES 5u
#define SAVED_MIB   (UINT64_C(1) << 20)

_Static_assert(sizeof(struct saved_client) == 64, "a slot is a cache line");
_Static_assert(offsetof(struct saved_state, records) == 112 &&
		       offsetof(struct saved_state, tenants) == 208 &&
		       offsetof(struct saved_state, quarantine) == 67792,
	       "what all versions have is where it was (I4)");

void saved_store(_Atomic uint64_t *word, uint64_t value)
{
	/* ORDER saved/state [X1]: release, so that no store to the rest of a slot comes after the
	 * one to its state; and the compiler moves no later store before it. Pairs with
	 * saved_load(), in the next process (I1). */
	atomic_store_explicit(word, value, memory_order_release);
	fence_signal();
	FK_CRASH(saved_store);
}

uint64_t saved_load(const _Atomic uint64_t *word)
{
	/* ORDER saved/state [X1]: relaxed, the writer is dead, or this process. Pairs with
	 * saved_store(). */
	return load_relaxed(word);
}

int saved_new(const struct saved_geometry *geometry, uint64_t epoch, struct saved_state **ret_saved)
{
	_cleanup_close_ int fd = segment_create("forkd-roster", SEGMENT_SAVED_STATE,
						sizeof(struct saved_state), epoch, 1, 0600);
	struct saved_state *saved;
	void *base;
	int r;

	if (fd < 0)
		return steal_fd(&fd);
	r = segment_map(fd, SEGMENT_SAVED_STATE, 1, epoch, &base, NULL);
	if (r < 0)
		return r;
	saved = base;
	saved->version = SAVED_VERSION;
	saved->geometry = *geometry;
	saved->records = (struct saved_records){
		.offset = sizeof(struct client_segment),
		.stride = sizeof(struct job),
		.state_offset = offsetof(struct job, state),
		.outcome_mask = JOB_OUTCOME_MASK,
		.waiter = JOB_WAITER,
		.pending = JOB_PENDING,
		.lost = JOB_LOST,
	};
	*ret_saved = saved;
	return steal_fd(&fd);
}

int saved_map(int fd, struct saved_state **ret_saved)
{
	struct saved_state *saved;
	uint64_t size;
	void *base;
	int r;

	/* The head is checked below, so that another version's layout is accepted as well. */
	r = segment_map(fd, SEGMENT_ANY, 1, 0, &base, &size);
	if (r < 0)
		return r;
	saved = base;
	if (size < offsetof(struct saved_state, quarantine) || saved->head.magic != SEGMENT_MAGIC ||
	    saved->head.kind != SEGMENT_SAVED_STATE || saved->head.size != size) {
		segment_unmap(base, size);
		return -EBADMSG;
	}
	*ret_saved = saved;
	return 0;
}

void saved_unmap(struct saved_state *saved)
{
	if (saved)
		segment_unmap(saved, saved->head.size);
}

bool saved_is_known(const struct saved_state *saved)
{
	return saved->version == SAVED_VERSION && saved->head.size == sizeof(*saved) &&
	       saved->head.version == PROTO_VERSION && saved->head.layout_hash == LAYOUT_HASH;
}

uint64_t saved_arena_max(const struct saved_geometry *g)
{
	return g->arena_size -
	       arena_workers_offset((uint32_t)g->clients_max, (uint32_t)g->jobs_max);
}

static void saved_say(char why[SAVED_WHY], const char *option, uint64_t was, uint64_t is,
		      const char *unit)
{
	size_t at = strlen(why);

	if (was != is)
		(void)snprintf(why + at, SAVED_WHY - at,
			       "%s%s was %" PRIu64 "%s and is %" PRIu64 "%s",
			       at ? ", " : "forkd has other sizes now: ", option, was, unit, is,
			       unit);
}

static bool saved_refuse(char ret_why[SAVED_WHY])
{
	(void)snprintf(ret_why, SAVED_WHY, "forkd has another version now");
	return false;
}

bool saved_fits(const struct saved_state *saved, const struct saved_geometry *geometry,
		char ret_why[SAVED_WHY])
{
	const struct saved_geometry *was = &saved->geometry, *is = geometry;
	uint64_t unit = 1;

	ret_why[0] = '\0';
	if (!saved_is_known(saved))
		return saved_refuse(ret_why);
	saved_say(ret_why, "workers", was->n_workers, is->n_workers, "");
	saved_say(ret_why, "clients-max", was->clients_max, is->clients_max, "");
	saved_say(ret_why, "jobs-max", was->jobs_max, is->jobs_max, "");
	if ((saved_arena_max(was) | saved_arena_max(is)) % SAVED_MIB == 0)
		unit = SAVED_MIB;
	saved_say(ret_why, "arena-max", saved_arena_max(was) / unit, saved_arena_max(is) / unit,
		  unit == 1 ? "" : "M");
	if (ret_why[0])
		return false;
	/* It follows from the workers. */
	return was->board_size == is->board_size || saved_refuse(ret_why);
}

static bool saved_has_cpu(const struct saved_state *saved, uint64_t at, uint32_t cpu)
{
	return saved->cpus[at][cpu / 64] >> cpu % 64 & 1;
}

void saved_set_cpus(struct saved_state *saved, const struct hwloc_bitmap_s *cpus)
{
	uint64_t at = saved_load(&saved->cpus_at) ^ 1;
	bool changed = false;

	memset(saved->cpus[at], 0, sizeof(saved->cpus[at]));
	for (uint32_t cpu = 0; cpu < SAVED_CPUS; cpu++) {
		if (hwloc_bitmap_isset(cpus, cpu))
			saved->cpus[at][cpu / 64] |= UINT64_C(1) << cpu % 64;
		changed |= saved_has_cpu(saved, at, cpu) != saved_has_cpu(saved, at ^ 1, cpu);
	}
	if (changed)
		saved_store(&saved->cpus_at, at);
}

struct hwloc_bitmap_s *saved_cpus(const struct saved_state *saved)
{
	uint64_t at = saved_load(&saved->cpus_at);
	hwloc_bitmap_t cpus = hwloc_bitmap_alloc();

	for (uint32_t cpu = 0; cpus && cpu < SAVED_CPUS; cpu++)
		if (saved_has_cpu(saved, at, cpu))
			(void)hwloc_bitmap_set(cpus, cpu);
	return cpus;
}

void saved_enter_client(struct saved_state *saved, uint32_t slot, const struct saved_entry *entry)
{
	struct saved_client *c = &saved->clients[slot];

	saved_store(&c->generation, entry->generation);
	saved_store(&c->uid, entry->uid);
	saved_store(&c->pid, entry->pid);
	saved_store(&c->tenant, entry->tenant);
	saved_store(&c->n_jobs, entry->n_jobs);
	saved_store(&c->size, entry->size);
	saved_memory(saved, slot, entry->memory);
	for (uint32_t i = 0; i < LIMIT_IMPORTS; i++)
		if (saved_load(&saved->imports[slot][i].size))
			saved_store(&saved->imports[slot][i].size, 0);
	saved_store(&c->welcomed, 0);
	saved_store(&c->state, SAVED_HERE);
}

void saved_enter_tenant(struct saved_state *saved, uint32_t slot, uint32_t uid)
{
	struct saved_tenant *t = &saved->tenants[slot];

	saved_store(&t->uid, uid);
	saved_store(&t->state, SAVED_HERE);
}

void saved_client_is(struct saved_state *saved, uint32_t slot, enum saved_stage state)
{
	saved_store(&saved->clients[slot].state, state);
}

void saved_tenant_is(struct saved_state *saved, uint32_t slot, enum saved_stage state)
{
	saved_store(&saved->tenants[slot].state, state);
}

void saved_memory(struct saved_state *saved, uint32_t slot, uint64_t memory)
{
	saved_store(&saved->memory[slot], memory);
}

void saved_set_import(struct saved_state *saved, uint32_t slot, uint32_t index,
		      struct saved_range range)
{
	struct saved_import *import = &saved->imports[slot][index];

	saved_store(&import->size, 0);
	saved_store(&import->at, range.at);
	saved_store(&import->offset, range.offset);
	saved_store(&import->size, range.size);
}

struct saved_range saved_import(const struct saved_state *saved, uint32_t slot, uint32_t index)
{
	const struct saved_import *import = &saved->imports[slot][index];

	return (struct saved_range){
		.size = saved_load(&import->size),
		.at = saved_load(&import->at),
		.offset = saved_load(&import->offset),
	};
}

void saved_welcome(struct saved_state *saved, uint32_t slot)
{
	saved_store(&saved->clients[slot].welcomed, 1);
}

struct saved_entry saved_client(const struct saved_state *saved, uint32_t slot)
{
	const struct saved_client *c = &saved->clients[slot];
	struct saved_entry entry = {
		.state = (enum saved_stage)saved_load(&c->state),
		.generation = (uint32_t)saved_load(&c->generation),
	};

	if (entry.state == SAVED_FREE)
		return entry;
	entry.uid = (uint32_t)saved_load(&c->uid);
	entry.pid = (uint32_t)saved_load(&c->pid);
	entry.tenant = (uint32_t)saved_load(&c->tenant);
	entry.n_jobs = (uint32_t)saved_load(&c->n_jobs);
	entry.size = saved_load(&c->size);
	/* Another version may have no such word. */
	if (saved_is_known(saved))
		entry.memory = saved_load(&saved->memory[slot]);
	entry.welcomed = saved_load(&c->welcomed);
	return entry;
}

enum saved_stage saved_tenant(const struct saved_state *saved, uint32_t slot, uint32_t *ret_uid)
{
	const struct saved_tenant *t = &saved->tenants[slot];
	enum saved_stage state = (enum saved_stage)saved_load(&t->state);

	if (ret_uid && state != SAVED_FREE)
		*ret_uid = (uint32_t)saved_load(&t->uid);
	return state;
}

bool saved_try(struct saved_state *saved, uint64_t n_ended)
{
	uint64_t ready = saved_load(&saved->ready), tries = saved_load(&saved->tries) + 1;

	if (ready && n_ended >= ready)
		tries = 1;
	saved_store(&saved->tries, tries);
	saved_store(&saved->ready, 0);
	return tries <= SAVED_TRIES;
}

void saved_ready(struct saved_state *saved, uint64_t n_ended)
{
	saved_store(&saved->ready, n_ended + 1);
}

void saved_acquit(struct saved_state *saved)
{
	saved_store(&saved->tries, 0);
}

uint32_t saved_pool_generation(const struct saved_state *saved)
{
	return (uint32_t)saved_load(&saved->pool_generation);
}

uint64_t saved_crashes(const struct saved_state *saved)
{
	return saved_load(&saved->crashes);
}

uint32_t saved_next_pool(struct saved_state *saved)
{
	uint32_t generation = saved_pool_generation(saved) + 1;

	saved_store(&saved->pool_generation, generation);
	return generation;
}

uint64_t saved_crashed(struct saved_state *saved)
{
	uint64_t crashes = saved_crashes(saved) + 1;

	saved_store(&saved->crashes, crashes);
	return crashes;
}

void saved_end(struct saved_state *saved)
{
	saved_store(&saved->ended, 1);
}

bool saved_has_ended(const struct saved_state *saved)
{
	return saved_load(&saved->ended);
}
