/* SPDX-License-Identifier: MIT */
/*
 * takeover.c - a manager goes on with the clients of one that has ended
 *
 * WHAT IT IS
 *   Sockets, segments and pidfds of the last manager are in the service manager's store, whoever it
 *   was and however it ended; what it knew of them is in its roster. Clients notice nothing: their
 *   sockets have never been closed, and what they submit or cancel meanwhile stands in segments.
 *   The pool is not taken over: it is another process's child, perhaps of another version. It is
 *   killed, and what becomes of its jobs is what becomes of those of a pool that has died
 *   (job_recovery.c), but that none is suspected.
 *
 *	FENCE --> roster --> options --> fits? --> map by its numbers --> recover --> pool, sockets
 *	                                   |
 *	                                   +-- no --> each pending job LOST, sockets closed, anew
 *
 *   Segments are as large as they are, and each worker has its place in them. So whatever of that
 *   the options leave open is as it was: it does not matter which CPUs and how much memory there
 *   are just now. Workers whose CPUs are missing park (park.h).
 *
 * WHO CALLS IT, ON WHICH THREAD
 *   manager.c, when it starts, before its loop runs.
 *
 * INVARIANTS
 *   I1. Nothing of a former pool is read before each pool is dead that may have it mapped. The
 *       pidfd of one is in the store before it is told what to map (pool_process.c), and here all
 *       that are in the store are killed and waited for first. A pool that has not ended in time
 *       executes no instruction any more, and the arena is replaced (pool_process.c, I7). Its pidfd
 *       leaves the store when its jobs have their outcomes: a manager that is killed before then
 *       leaves it to the next one, which replaces the arena again.
 *   I2. What clients and tasks can write is asked for nothing: neither the head of a segment nor a
 *       number in it; the roster has them all.
 *   I3. Killed at any instruction of it a manager has left what it found, or a later state of the
 *       same: a slot that is free, an outcome more. So the next one does the same again, and
 *       job_recovery.c may (its I4). What was done cannot be undone by it: outcomes are given by
 *       compare-and-swap, pages that were punched are punched again.
 *   I4. It comes to an end: roster_try() counts the managers that came to nothing (saved_state.c,
 *   I5). I5. A connection that was not told that it is in (GREETING, MAKING) is in no roster; its
 *   end is
 *       closed with the manager that had it, and its client reads that before WELCOME.
 *
 * WHAT HAPPENS IF A PEER DIES HERE
 *   A client, before or meanwhile: its socket and its pidfd say so, and are asked before its jobs
 *   are looked at. A cancel of the time between stands in the record and in the socket (job.h, I5).
 *   This manager: I3.
 */
#include "daemon/manager/takeover.h"

#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/random.h>
#include <unistd.h>

#include <hwloc.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/crash_site.h"
#include "common/log.h"
#include "common/options.h"
#include "common/util.h"
#include "daemon/manager/connection.h"
#include "daemon/manager/connection_state.h"
#include "daemon/manager/pool_segments.h"
#include "daemon/manager/saved_state.h"
#include "daemon/manager/tenants.h"
#include "shm/board.h"
#include "shm/futex.h"
#include "shm/limits.h"
#include "shm/segment.h"

#define ADOPT_PATIENCE_MS 5000 /* until a pool is abandoned (pool_process.c, I7) */

#define ADOPT_ARENA 1u

static const char *const adopt_names[] = { STORE_BOARD, [ADOPT_ARENA] = STORE_ARENA, STORE_ROSTER };

static const char *adopt_name(const struct adopt *adopt, uint32_t i)
{
	return i == ADOPT_ARENA ? adopt->arena : adopt_names[i];
}

/* The last manager may have died when it had put the next arena and not removed the last one. No
 * pool has used the next one then, and the last one is replaced again. */
static int adopt_take_arena(struct adopt *adopt, struct store *store)
{
	int fd = store_take(store, STORE_ARENA, STORE_MEMFD);
	int next = store_take(store, STORE_ARENA_NEXT, STORE_MEMFD);

	adopt->arena = STORE_ARENA;
	if (fd < 0 && next >= 0) {
		adopt->arena = STORE_ARENA_NEXT;
		return next;
	}
	if (next >= 0) {
		(void)close(next);
		store_remove(store, STORE_ARENA_NEXT);
	}
	return fd;
}

/* False if it has not ended in time. */
static bool adopt_kill(int pidfd)
{
	struct pollfd p = { .fd = pidfd, .events = POLLIN };
	int n;

	/* One that has ended says ESRCH, and is there at once. */
	(void)pidfd_send_signal(pidfd, SIGKILL, NULL, 0);
	while ((n = poll(&p, 1, ADOPT_PATIENCE_MS)) < 0)
		;
	return n > 0;
}

/* I1. */
static void adopt_fence(struct adopt *adopt, struct store *store)
{
	int pidfd;

	while ((pidfd = store_take(store, STORE_POOL, STORE_PIDFD)) >= 0) {
		if (!adopt_kill(pidfd)) {
			log_error("the last forkd's pool was killed and has not ended after %u s: "
				  "the next one is started without waiting for its end",
				  ADOPT_PATIENCE_MS / 1000);
			adopt->abandoned = true;
		}
		(void)close(pidfd);
		FK_CRASH(adopt_fenced);
	}
	/* Else before the next pool is started (pool_process.c, I7). */
	if (!adopt->abandoned)
		store_remove(store, STORE_POOL);
}

/* One record of another layout's, or of this one's. */
static bool adopt_lose_job(const struct roster_records *records, _Atomic uint32_t *word)
{
	uint32_t mask = (uint32_t)records->outcome_mask, waiter = (uint32_t)records->waiter;
	uint32_t state = atomic_load_explicit(word, memory_order_relaxed);

	/* Relaxed: no result comes with it. A client that hammers the word keeps it. */
	for (uint32_t tries = 0; tries < 10000 && (state & mask) == records->pending; tries++) {
		uint32_t lost = (state & ~(mask | waiter)) | (uint32_t)records->lost;

		if (!atomic_compare_exchange_weak_explicit(word, &state, lost, memory_order_relaxed,
							   memory_order_relaxed))
			continue;
		if (state & waiter)
			(void)futex_wake(word, INT_MAX);
		return true;
	}
	return false;
}

/* All of a client's, by the roster's numbers. Returns how many. */
static uint32_t adopt_lose_client(const struct roster *roster, const struct roster_entry *entry,
				  int fd)
{
	const struct roster_records *r = &roster->records;
	uint32_t n = 0;
	void *base;

	if (r->offset + entry->n_jobs * r->stride > entry->size ||
	    r->state_offset + sizeof(uint32_t) > r->stride)
		return 0;
	if (segment_map_sized(fd, entry->size, &base) < 0)
		return 0;
	for (uint32_t i = 0; i < entry->n_jobs; i++) {
		char *record = (char *)base + r->offset + i * r->stride;

		n += adopt_lose_job(r, (_Atomic uint32_t *)(void *)(record + r->state_offset));
	}
	segment_unmap(base, entry->size);
	return n;
}

/* Nobody goes on from here. */
static void adopt_drain(struct adopt *adopt, struct store *store, const char *why)
{
	uint64_t lost = 0;
	uint32_t n = 0;

	for (uint32_t slot = 0; slot < LIMIT_CLIENTS; slot++) {
		const struct roster_entry entry = roster_client(adopt->roster, slot);
		_cleanup_close_ int fd = -1;
		char name[STORE_NAME];

		if (entry.state != ROSTER_HERE)
			continue;
		store_name(name, STORE_CLIENT, slot);
		fd = store_take(store, name, STORE_MEMFD);
		if (fd < 0)
			continue;
		lost += adopt_lose_client(adopt->roster, &entry, fd);
		n++;
		FK_CRASH(adopt_lost);
	}
	log_warning("%s: %u clients of the last forkd are disconnected, %" PRIu64
		    " of their jobs are lost",
		    why, n, lost);
	roster_end(adopt->roster);
}

/* True if it cannot go on from there: why. */
static bool adopt_is_barred(struct adopt *adopt, const struct roster_geometry *geometry,
			    char ret_why[ROSTER_WHY])
{
	uint64_t n_ended = 0;
	void *base;

	if (!roster_fits(adopt->roster, geometry, ret_why))
		return true;
	if (adopt->board_fd < 0 || adopt->arena_fd < 0) {
		(void)snprintf(ret_why, ROSTER_WHY, "board or arena is missing in the store");
		return true;
	}
	/* A number, whatever tasks have written there. */
	if (segment_map_sized(adopt->board_fd, geometry->board_size, &base) == 0) {
		n_ended = board_jobs_ended(base, (uint32_t)geometry->n_workers);
		segment_unmap(base, geometry->board_size);
	}
	(void)snprintf(ret_why, ROSTER_WHY,
		       "forkd has ended again and again without getting anywhere");
	return !roster_try(adopt->roster, n_ended);
}

/* From what it has. */
static bool adopt_can(struct adopt *adopt, struct store *store,
		      const struct roster_geometry *geometry)
{
	char why[ROSTER_WHY];

	if (!adopt->roster)
		return false;
	if (!adopt_is_barred(adopt, geometry, why))
		return true;
	adopt_drain(adopt, store, why);
	return false;
}

static int adopt_anew(struct adopt *adopt, const struct roster_geometry *geometry)
{
	uint64_t epoch;

	if (getrandom(&epoch, sizeof(epoch), 0) != (ssize_t)sizeof(epoch))
		epoch = clock_ns();
	epoch |= 1; /* 0 means any */
	adopt->roster_fd = roster_new(geometry, epoch, &adopt->roster);
	return adopt->roster_fd < 0 ? adopt->roster_fd : 0;
}

/* Nothing of it is of use. */
static void adopt_forgo(struct adopt *adopt)
{
	adopt->board_fd = safe_close(adopt->board_fd);
	adopt->arena_fd = safe_close(adopt->arena_fd);
	adopt_fini(adopt);
}

void adopt_look(struct adopt *adopt, struct store *store)
{
	int r;

	*adopt = (struct adopt){
		.roster_fd = store_take(store, STORE_ROSTER, STORE_MEMFD),
		.board_fd = store_take(store, STORE_BOARD, STORE_MEMFD),
	};
	adopt->arena_fd = adopt_take_arena(adopt, store);
	adopt_fence(adopt, store);
	if (adopt->roster_fd < 0)
		return;
	r = roster_map(adopt->roster_fd, &adopt->roster);
	if (r < 0)
		log_warning(
			"the last forkd's clients are disconnected: its roster cannot be read: %s",
			strerror(-r));
	else if (roster_has_ended(adopt->roster))
		adopt_forgo(adopt);
}

bool adopt_had_cpus(const struct adopt *adopt, const struct hwloc_bitmap_s *cpus)
{
	hwloc_bitmap_t had = NULL;
	bool same;

	if (!cpus || !adopt->roster || !roster_is_known(adopt->roster))
		return false;
	had = roster_cpus(adopt->roster);
	same = had && hwloc_bitmap_isequal(had, cpus);
	hwloc_bitmap_free(had);
	return same;
}

/* How many workers the options want; 0: as many as there were. */
static uint64_t adopt_workers(const struct adopt *adopt, const struct options *o)
{
	if (o->workers || !o->cpus || adopt_had_cpus(adopt, o->cpus))
		return o->workers;
	return (uint64_t)hwloc_bitmap_weight(o->cpus);
}

uint64_t adopt_inherit(const struct adopt *adopt, struct options *o)
{
	const struct roster *roster = adopt->roster;
	const struct roster_geometry *g;
	uint64_t workers, arena_max;

	if (!roster || !roster_is_known(roster) || adopt->board_fd < 0 || adopt->arena_fd < 0)
		return 0;
	g = &roster->geometry;
	workers = adopt_workers(adopt, o);
	arena_max = roster_arena_max(roster);
	/* If all is made anew, let it be as it is best now. */
	if (g->max_clients != o->max_clients || g->max_jobs != o->max_jobs ||
	    (workers && workers != g->n_workers) || (o->arena_max && o->arena_max != arena_max))
		return 0;
	if (!o->cpus)
		o->cpus = roster_cpus(roster);
	if (!workers)
		o->workers = (unsigned int)g->n_workers;
	return arena_max;
}

int adopt_begin(struct adopt *adopt, struct store *store, struct hangups *hangups,
		const struct roster_geometry *geometry, const struct hwloc_bitmap_s *cpus)
{
	uint32_t needs = STORE_NEEDS((uint32_t)geometry->max_clients);
	int r = 0;

	if (store_is_there(store) && store->max < needs)
		log_warning("FileDescriptorStoreMax= and FDSTORE= of forkd's unit are %u: for "
			    "max-clients (%u) they should be %u, or clients are refused, and one "
			    "user can keep all others out",
			    store->max, (uint32_t)geometry->max_clients, needs);
	adopt->inherited = adopt_can(adopt, store, geometry);
	if (!adopt->inherited) {
		adopt_forgo(adopt);
		store_drop_rest(store, hangups);
		store_empty(store);
		r = adopt_anew(adopt, geometry);
	}
	if (r == 0)
		roster_set_cpus(adopt->roster, cpus);
	return r;
}

static void adopt_on_shared(struct store_put *put, int result)
{
	(void)put;
	if (result < 0)
		log_warning("the next forkd cannot go on with the clients of this one: %s",
			    strerror(-result));
}

static void adopt_put(struct adopt *adopt, struct store *store, uint32_t i, int fd)
{
	int r;

	adopt->puts[i].call = adopt_on_shared;
	r = store_put(store, &adopt->puts[i], adopt_name(adopt, i), &fd, 1);
	if (r < 0)
		adopt_on_shared(&adopt->puts[i], r);
}

void adopt_share(struct adopt *adopt, struct store *store, const struct fronts *fronts)
{
	const int fds[] = { fronts->board_fd, fronts->arena_fd, adopt->roster_fd };

	adopt->board_fd = adopt->arena_fd = -1;
	for (uint32_t i = 0; i < ARRAY_SIZE(fds) && !adopt->inherited; i++)
		adopt_put(adopt, store, i, fds[i]);
}

void adopt_share_arena(struct adopt *adopt, struct store *store, const struct fronts *fronts)
{
	const char *last = adopt->arena;

	store_forget(&adopt->puts[ADOPT_ARENA]);
	adopt->arena = streq(last, STORE_ARENA) ? STORE_ARENA_NEXT : STORE_ARENA;
	/* A store that is full has no room for both: the next manager finds one, or none. */
	if (store->n >= store->max)
		store_remove(store, last);
	adopt_put(adopt, store, ADOPT_ARENA, fronts->arena_fd);
	store_remove(store, last);
}

bool adopt_is_shared(const struct adopt *adopt, const struct store *store)
{
	for (uint32_t i = 0; i < ARRAY_SIZE(adopt_names); i++)
		if (adopt->puts[i].item || !store_has(store, adopt_name(adopt, i)))
			return false;
	return true;
}

void adopt_fini(struct adopt *adopt)
{
	for (uint32_t i = 0; i < ARRAY_SIZE(adopt->puts); i++)
		store_forget(&adopt->puts[i]);
	roster_unmap(adopt->roster);
	adopt->roster = NULL;
	adopt->roster_fd = safe_close(adopt->roster_fd);
}

static struct session_inherited adopt_take(struct store *store, uint32_t slot)
{
	char name[STORE_NAME];

	store_name(name, STORE_CLIENT, slot);
	return (struct session_inherited){
		.socket = store_take(store, name, STORE_SOCKET),
		.pidfd = store_take(store, name, STORE_PIDFD),
		.segment = store_take(store, name, STORE_MEMFD),
	};
}

int adopt_clients(struct adopt *adopt, struct session_table *table)
{
	int r;

	if (!adopt->inherited)
		return 0;
	r = tenants_adopt(&table->tenants);
	for (uint32_t slot = 0; slot < LIMIT_CLIENTS && r >= 0; slot++) {
		const struct roster_entry entry = roster_client(adopt->roster, slot);
		struct session_inherited fds;

		table->generations[slot] = entry.generation + 1;
		if (entry.state == ROSTER_FREE)
			continue;
		fds = adopt_take(table->store, slot);
		r = session_adopt(table, slot, &entry, &fds);
		if (r == 0)
			adopt->n_clients++;
		else if (r == SESSION_LOST)
			log_warning("client %u (pid %u, uid %u) of the last forkd is disconnected: "
				    "its segment or its rings are missing",
				    slot, entry.pid, entry.uid);
		FK_CRASH(adopt_client);
	}
	if (r < 0)
		return r;
	tenants_settle(&table->tenants);
	store_drop_rest(table->store, table->hangups);
	return 0;
}
