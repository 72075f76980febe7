/* SPDX-License-Identifier: MIT */
/*
 * takeover.c - a manager continues with the clients of an earlier one
 *
 * Sockets, segments and pidfds of the last manager are in the service manager's store, however it
 * ended; its knowledge of them is in its saved state. Clients notice nothing: their sockets stay
 * open, and what they submit or cancel until then is in segments. The pool is not taken over: it is
 * another process's child, perhaps of another version. It is killed, and its jobs get outcomes like
 * those of a pool that has died (job_recovery.c), but none is suspected.
 *
 * 	FENCE --> saved state --> options --> fits? --> map segments --> recover --> pool, sockets
 * 	                                   |
 * 	                                   +-- no --> each pending job LOST, sockets closed
 *
 * Segments keep their sizes, and each worker has its place in them. So options that are auto keep
 * their old values, whatever CPUs and memory there are now. Workers whose CPUs are missing park
 * (cpu_parking.h). All of it happens before the manager's loop runs.
 *
 * INVARIANTS
 *   I1. No memory of an earlier pool is read before each pool that may have it mapped is dead. A
 *       pool's pidfd is in the store before the pool receives its segments (pool_process.c). This
 *       file first kills all pools in the store and waits for them. A pool that has not ended in
 *       time executes no instruction any more, and the arena is replaced (pool_process.c, I7). Its
 *       pidfd leaves the store when its jobs have their outcomes: if a manager is killed before
 *       that, the next one finds the pidfd and replaces the arena again.
 *   I2. Nothing is read that clients and tasks can write: neither the head of a segment nor a
 *       number in it. The saved state has them all.
 *   I3. A manager that is killed at any instruction of the takeover leaves what it found, or a
 *       later state of it: one slot more is free, one job more has its outcome. So the next one
 *       repeats it safely, as job_recovery.c may (its I4): outcomes are given by compare-and-swap,
 *       and punching pages again has no effect.
 *   I4. Repeated takeovers end: saved_try() counts the managers that failed (saved_state.c, I5).
 *   I5. A connection that was not welcomed (GREETING, MAKING) is in no saved state. Its manager's
 *       end closes it, and its client sees the close before a WELCOME.
 *
 * If a peer dies: a client, before or during the takeover: its socket and its pidfd show it, and
 * are checked before its jobs. A cancel from that time is in the record and in the socket (job.h,
 * I5). This manager: I3.
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
#include "common/relaxed.h"
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

#define TAKEOVER_PATIENCE_MS 5000 /* then a pool is abandoned (pool_process.c, I7) */

#define TAKEOVER_ARENA 1u

static const char *const takeover_names[] = { FDSTORE_BOARD, [TAKEOVER_ARENA] = FDSTORE_ARENA,
					      FDSTORE_SAVED_STATE };

static const char *takeover_name(const struct takeover *takeover, uint32_t i)
{
	return i == TAKEOVER_ARENA ? takeover->arena : takeover_names[i];
}

/* The last manager may have died between storing the next arena and removing the last one. Then no
 * pool has used the next one, and the last one is replaced again. */
static int takeover_take_arena(struct takeover *takeover, struct store *store)
{
	int fd = fdstore_take(store, FDSTORE_ARENA, FDSTORE_MEMFD);
	int next = fdstore_take(store, FDSTORE_ARENA_NEXT, FDSTORE_MEMFD);

	takeover->arena = FDSTORE_ARENA;
	if (fd < 0 && next >= 0) {
		takeover->arena = FDSTORE_ARENA_NEXT;
		return next;
	}
	if (next >= 0) {
		(void)close(next);
		fdstore_remove(store, FDSTORE_ARENA_NEXT);
	}
	return fd;
}

/* False if it has not ended in time. */
static bool takeover_kill(int pidfd)
{
	struct pollfd p = { .fd = pidfd, .events = POLLIN };
	int n;

	/* ESRCH for an ended process, whose pidfd is ready at once. */
	(void)pidfd_send_signal(pidfd, SIGKILL, NULL, 0);
	while ((n = poll(&p, 1, TAKEOVER_PATIENCE_MS)) < 0)
		;
	return n > 0;
}

/* I1. */
static void takeover_fence(struct takeover *takeover, struct store *store)
{
	int pidfd;

	while ((pidfd = fdstore_take(store, FDSTORE_POOL, FDSTORE_PIDFD)) >= 0) {
		if (!takeover_kill(pidfd)) {
			log_error("the last forkd's pool was killed and has not ended after %u s: "
				  "the next one is started without waiting for its end",
				  TAKEOVER_PATIENCE_MS / 1000);
			takeover->abandoned = true;
		}
		(void)close(pidfd);
		FK_CRASH(takeover_fenced);
	}
	/* An abandoned pool's leaves when the next pool starts (pool_process.c, I7). */
	if (!takeover->abandoned)
		fdstore_remove(store, FDSTORE_POOL);
}

/* The record may have another layout. */
static bool takeover_lose_job(const struct saved_records *records, _Atomic uint32_t *word)
{
	uint32_t mask = (uint32_t)records->outcome_mask, waiter = (uint32_t)records->waiter;
	uint32_t state = load_relaxed(word);

	/* Relaxed: no result comes with it. A client that changes the word all the time keeps its
	 * state. */
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

/* Loses all of a client's pending jobs, by the saved state's numbers. Returns how many. */
static uint32_t takeover_lose_client(const struct saved_state *saved,
				     const struct saved_entry *entry, int fd)
{
	const struct saved_records *r = &saved->records;
	uint32_t n = 0;
	void *base;

	if (r->offset + entry->n_jobs * r->stride > entry->size ||
	    r->state_offset + sizeof(uint32_t) > r->stride)
		return 0;
	if (segment_map_sized(fd, entry->size, &base) < 0)
		return 0;
	for (uint32_t i = 0; i < entry->n_jobs; i++) {
		char *record = (char *)base + r->offset + i * r->stride;

		n += takeover_lose_job(r, (_Atomic uint32_t *)(void *)(record + r->state_offset));
	}
	segment_unmap(base, entry->size);
	return n;
}

static void takeover_drain(struct takeover *takeover, struct store *store, const char *why)
{
	uint64_t lost = 0;
	uint32_t n = 0;

	for (uint32_t slot = 0; slot < LIMIT_CLIENTS; slot++) {
		const struct saved_entry entry = saved_client(takeover->saved, slot);
		_cleanup_close_ int fd = -1;
		char name[FDSTORE_NAME];

		if (entry.state != SAVED_HERE)
			continue;
		fdstore_name(name, FDSTORE_CLIENT, slot);
		fd = fdstore_take(store, name, FDSTORE_MEMFD);
		if (fd < 0)
			continue;
		lost += takeover_lose_client(takeover->saved, &entry, fd);
		n++;
		FK_CRASH(takeover_lost);
	}
	log_warning("%s: %u clients of the last forkd are disconnected, %" PRIu64
		    " of their jobs are lost",
		    why, n, lost);
	saved_end(takeover->saved);
}

/* True if this manager cannot continue from there; says why. */
static bool takeover_is_barred(struct takeover *takeover, const struct saved_geometry *geometry,
			       char ret_why[SAVED_WHY])
{
	uint64_t n_ended = 0;
	void *base;

	if (!saved_fits(takeover->saved, geometry, ret_why))
		return true;
	if (takeover->board_fd < 0 || takeover->arena_fd < 0) {
		(void)snprintf(ret_why, SAVED_WHY, "board or arena is missing in the store");
		return true;
	}
	/* Tasks may have written there; any value is a number. */
	if (segment_map_sized(takeover->board_fd, geometry->board_size, &base) == 0) {
		n_ended = board_jobs_ended(base, (uint32_t)geometry->n_workers);
		segment_unmap(base, geometry->board_size);
	}
	(void)snprintf(ret_why, SAVED_WHY, "forkd has failed several times with this state");
	return !saved_try(takeover->saved, n_ended);
}

static bool takeover_can(struct takeover *takeover, struct store *store,
			 const struct saved_geometry *geometry)
{
	char why[SAVED_WHY];

	if (!takeover->saved)
		return false;
	if (!takeover_is_barred(takeover, geometry, why))
		return true;
	takeover_drain(takeover, store, why);
	return false;
}

static int takeover_make(struct takeover *takeover, const struct saved_geometry *geometry)
{
	uint64_t epoch;

	if (getrandom(&epoch, sizeof(epoch), 0) != (ssize_t)sizeof(epoch))
		epoch = clock_ns();
	epoch |= 1; /* 0 means any */
	takeover->saved_fd = saved_new(geometry, epoch, &takeover->saved);
	return takeover->saved_fd < 0 ? takeover->saved_fd : 0;
}

static void takeover_forgo(struct takeover *takeover)
{
	takeover->board_fd = safe_close(takeover->board_fd);
	takeover->arena_fd = safe_close(takeover->arena_fd);
	takeover_fini(takeover);
}

void takeover_look(struct takeover *takeover, struct store *store)
{
	int r;

	*takeover = (struct takeover){
		.saved_fd = fdstore_take(store, FDSTORE_SAVED_STATE, FDSTORE_MEMFD),
		.board_fd = fdstore_take(store, FDSTORE_BOARD, FDSTORE_MEMFD),
	};
	takeover->arena_fd = takeover_take_arena(takeover, store);
	takeover_fence(takeover, store);
	if (takeover->saved_fd < 0)
		return;
	r = saved_map(takeover->saved_fd, &takeover->saved);
	if (r < 0)
		log_warning("the last forkd's clients are disconnected: its saved state cannot be "
			    "read: %s",
			    strerror(-r));
	else if (saved_has_ended(takeover->saved))
		takeover_forgo(takeover);
}

bool takeover_had_cpus(const struct takeover *takeover, const struct hwloc_bitmap_s *cpus)
{
	hwloc_bitmap_t had = NULL;
	bool same;

	if (!cpus || !takeover->saved || !saved_is_known(takeover->saved))
		return false;
	had = saved_cpus(takeover->saved);
	same = had && hwloc_bitmap_isequal(had, cpus);
	hwloc_bitmap_free(had);
	return same;
}

/* Returns the number of workers that the options request; 0: as many as there were. */
static uint64_t takeover_workers(const struct takeover *takeover, const struct options *o)
{
	if (o->workers || !o->cpus || takeover_had_cpus(takeover, o->cpus))
		return o->workers;
	return (uint64_t)hwloc_bitmap_weight(o->cpus);
}

uint64_t takeover_inherit(const struct takeover *takeover, struct options *o)
{
	const struct saved_state *saved = takeover->saved;
	const struct saved_geometry *g;
	uint64_t workers, arena_max;

	if (!saved || !saved_is_known(saved) || takeover->board_fd < 0 || takeover->arena_fd < 0)
		return 0;
	g = &saved->geometry;
	workers = takeover_workers(takeover, o);
	arena_max = saved_arena_max(g);
	/* Then nothing can be kept: all is made new. */
	if (g->clients_max != o->clients_max || g->jobs_max != o->jobs_max ||
	    (workers && workers != g->n_workers) || (o->arena_max && o->arena_max != arena_max))
		return 0;
	if (saved_load(&saved->threads_per_core) != o->threads_per_core)
		return arena_max;
	if (!o->cpus)
		o->cpus = saved_cpus(saved);
	if (!workers)
		o->workers = (unsigned int)g->n_workers;
	return arena_max;
}

int takeover_begin(struct takeover *takeover, struct store *store, struct socket_closer *closer,
		   const struct saved_geometry *geometry, const struct hwloc_bitmap_s *cpus)
{
	uint32_t needs = FDSTORE_NEEDS((uint32_t)geometry->clients_max);
	int r = 0;

	if (fdstore_is_there(store) && store->max < needs)
		log_warning("FileDescriptorStoreMax= and FDSTORE= of forkd's unit are %u: for "
			    "clients-max (%u) they should be %u, or clients are refused, and one "
			    "user can keep all others out",
			    store->max, (uint32_t)geometry->clients_max, needs);
	takeover->inherited = takeover_can(takeover, store, geometry);
	if (!takeover->inherited) {
		takeover_forgo(takeover);
		fdstore_drop_rest(store, closer);
		fdstore_empty(store);
		r = takeover_make(takeover, geometry);
	}
	if (r == 0)
		saved_set_cpus(takeover->saved, cpus);
	return r;
}

static void takeover_on_shared(struct fdstore_put *put, int result)
{
	(void)put;
	if (result < 0)
		log_warning("the next forkd cannot continue with the clients of this one: %s",
			    strerror(-result));
}

static void takeover_put(struct takeover *takeover, struct store *store, uint32_t i, int fd)
{
	int r;

	takeover->puts[i].call = takeover_on_shared;
	r = fdstore_put(store, &takeover->puts[i], takeover_name(takeover, i), &fd, 1);
	if (r < 0)
		takeover_on_shared(&takeover->puts[i], r);
}

void takeover_share(struct takeover *takeover, struct store *store,
		    const struct pool_segments *pool_segments)
{
	const int fds[] = { pool_segments->board_fd, pool_segments->arena_fd, takeover->saved_fd };

	takeover->board_fd = takeover->arena_fd = -1;
	for (uint32_t i = 0; i < ARRAY_SIZE(fds) && !takeover->inherited; i++)
		takeover_put(takeover, store, i, fds[i]);
}

void takeover_share_arena(struct takeover *takeover, struct store *store,
			  const struct pool_segments *pool_segments)
{
	const char *last = takeover->arena;

	fdstore_forget(&takeover->puts[TAKEOVER_ARENA]);
	takeover->arena = streq(last, FDSTORE_ARENA) ? FDSTORE_ARENA_NEXT : FDSTORE_ARENA;
	/* A full store has no room for both: the next manager finds one, or none. */
	if (store->n >= store->max)
		fdstore_remove(store, last);
	takeover_put(takeover, store, TAKEOVER_ARENA, pool_segments->arena_fd);
	fdstore_remove(store, last);
}

bool takeover_is_shared(const struct takeover *takeover, const struct store *store)
{
	for (uint32_t i = 0; i < ARRAY_SIZE(takeover_names); i++)
		if (takeover->puts[i].item || !fdstore_has(store, takeover_name(takeover, i)))
			return false;
	return true;
}

void takeover_fini(struct takeover *takeover)
{
	for (uint32_t i = 0; i < ARRAY_SIZE(takeover->puts); i++)
		fdstore_forget(&takeover->puts[i]);
	saved_unmap(takeover->saved);
	takeover->saved = NULL;
	takeover->saved_fd = safe_close(takeover->saved_fd);
}

static struct conn_inherited takeover_take(struct store *store, uint32_t slot)
{
	char name[FDSTORE_NAME];

	fdstore_name(name, FDSTORE_CLIENT, slot);
	return (struct conn_inherited){
		.socket = fdstore_take(store, name, FDSTORE_SOCKET),
		.pidfd = fdstore_take(store, name, FDSTORE_PIDFD),
		.segment = fdstore_take(store, name, FDSTORE_MEMFD),
	};
}

int takeover_clients(struct takeover *takeover, struct conn_table *table)
{
	int r;

	if (!takeover->inherited)
		return 0;
	r = tenants_takeover(&table->tenants);
	for (uint32_t slot = 0; slot < LIMIT_CLIENTS && r >= 0; slot++) {
		const struct saved_entry entry = saved_client(takeover->saved, slot);
		struct conn_inherited fds;

		table->generations[slot] = entry.generation + 1;
		if (entry.state == SAVED_FREE)
			continue;
		fds = takeover_take(table->store, slot);
		r = conn_takeover(table, slot, &entry, &fds);
		if (r == 0)
			takeover->n_clients++;
		else if (r == CONN_LOST)
			log_warning("client %u (pid %u, uid %u) of the last forkd is disconnected: "
				    "its segment, its rings or an import is missing",
				    slot, entry.pid, entry.uid);
		FK_CRASH(takeover_client);
	}
	if (r < 0)
		return r;
	tenants_settle(&table->tenants);
	fdstore_drop_rest(table->store, table->closer);
	return 0;
}
