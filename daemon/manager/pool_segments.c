/* SPDX-License-Identifier: MIT */
/*
 * pool_segments.c - the manager's parts of board and arena: creates, writes and checks them
 *
 * INVARIANTS
 *   I1. A task can write over the fronts of board and arena, which the next pool and clients trust.
 *       So the manager keeps a copy. When a pool has died, it writes the copy back before anything
 *       else: pool_segments_write(). While a pool lives, the manager compares the data that clients
 *       need to connect and to submit (head, geometry, task table) with the copy. It does so at
 *       each client that the pool takes on and at each answer of the pool: pool_segments_restore().
 */
#include "daemon/manager/pool_segments.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/options.h"
#include "common/relaxed.h"
#include "common/util.h"
#include "shm/board.h"
#include "shm/ledger.h"
#include "shm/limits.h"
#include "shm/segment.h"
#include "shm/stopwatch.h"
#include "shm/wake.h"

void pool_segments_set_state(struct pool_segments *f, uint32_t state)
{
	f->state = state;
	/* Relaxed: for clients that wait for long. A client that sees STOPPED late finds its socket
	 * closed; after a restart the state is STARTING for a moment. */
	store_relaxed(&f->board->manager.state, state);
}

void pool_segments_set_pool(struct pool_segments *f, uint32_t pid)
{
	store_relaxed(&f->board->manager.pool_pid, pid);
}

void pool_segments_next_pool(struct pool_segments *f)
{
	/* For display, and for clients that count sleeps (client/lib/wake_worker.c). */
	store_relaxed(&f->board->manager.pool_generation, saved_next_pool(f->saved));
}

void pool_segments_crashed(struct pool_segments *f, const struct board_crash *crash)
{
	f->board->crashes[saved_crashes(f->saved) % LIMIT_CRASHES] = *crash;
	/* ORDER board/crashes [B2]: release, so that a reader of the number sees the entry. Pairs
	 * with the acquire of the program that shows it. */
	atomic_store_explicit(&f->board->manager.crashes, saved_crashed(f->saved),
			      memory_order_release);
}

void pool_segments_show_scheduler(struct pool_segments *f)
{
	store_relaxed(&f->board->manager.scheduler, f->options->scheduler);
}

static void pool_segments_write_fixed(struct pool_segments *f)
{
	char version[sizeof(f->board->manager.version)] = PACKAGE_VERSION;
	struct board_manager *b = &f->board->manager;

	f->board->head = f->board_head;
	b->pid = (uint32_t)getpid();
	b->n_workers = f->n_workers;
	b->jobs_max = f->options->jobs_max;
	b->clients_max = f->options->clients_max;
	b->heap_max = f->options->heap_max;
	b->started_ns = f->started_ns;
	memcpy(b->version, version, sizeof(b->version));
	pool_segments_set_state(f, f->state);
	if (!f->tasks)
		return;
	memcpy(f->board->tasks, f->tasks, f->n_tasks * sizeof(*f->tasks));
	/* Relaxed: a client that reads n_tasks now could also have read a task's write there. */
	store_relaxed(&f->board->n_tasks, f->n_tasks);
}

/* Relaxed loads: as above. */
static bool pool_segments_tasks_are_spoilt(const struct pool_segments *f)
{
	uint32_t n = load_relaxed(&f->board->n_tasks);

	if (f->tasks && !f->expects)
		return n != f->n_tasks ||
		       memcmp(f->board->tasks, f->tasks, n * sizeof(*f->tasks)) != 0;
	if (f->tasks && (n < f->n_tasks || n > LIMIT_TASKS))
		return true;
	for (uint32_t i = 0; f->tasks && i < f->n_tasks; i++)
		if (!(load_relaxed(&f->tasks[i].flags) & TASK_GONE) &&
		    memcmp(&f->board->tasks[i], &f->tasks[i], sizeof(f->tasks[i])) != 0)
			return true;
	return false;
}

static bool pool_segments_is_spoilt(const struct pool_segments *f)
{
	const struct board_manager *b = &f->board->manager;

	return memcmp(&f->board->head, &f->board_head, sizeof(f->board_head)) != 0 ||
	       load_relaxed(&b->state) != f->state || b->pid != (uint32_t)getpid() ||
	       b->n_workers != f->n_workers || b->jobs_max != f->options->jobs_max ||
	       b->clients_max != f->options->clients_max || b->heap_max != f->options->heap_max ||
	       pool_segments_tasks_are_spoilt(f);
}

bool pool_segments_restore(struct pool_segments *f)
{
	bool spoilt = pool_segments_is_spoilt(f);

	if (spoilt)
		pool_segments_write_fixed(f);
	return spoilt;
}

void pool_segments_keep_tasks(struct pool_segments *f)
{
	/* Relaxed: the pool has sent READY after it, or the answer to what followed ENTER. */
	uint32_t n = min(load_relaxed(&f->board->n_tasks), LIMIT_TASKS);

	free(f->tasks);
	f->expects = false;
	f->n_tasks = n;
	f->tasks = malloc(max(n, 1u) * sizeof(*f->tasks));
	if (f->tasks)
		memcpy(f->tasks, f->board->tasks, n * sizeof(*f->tasks));
}

void pool_segments_write(struct pool_segments *f)
{
	struct board_manager *b = &f->board->manager;
	struct arena *a = f->arena;

	pool_segments_write_fixed(f);
	pool_segments_set_pool(f, 0);
	pool_segments_show_scheduler(f);
	store_relaxed(&b->pool_generation, saved_pool_generation(f->saved));
	store_relaxed(&b->crashes, saved_crashes(f->saved));

	a->head = f->arena_head;
	a->n_workers = f->n_workers;
	a->clients_max = f->options->clients_max;
	a->jobs_max = f->options->jobs_max;
	memset(a->reserved, 0, sizeof(a->reserved));
}

void pool_segments_clear_workers(struct pool_segments *f)
{
	/* Relaxed: the pool is dead. Clients see a value other than SLEEPING, and wake the
	 * dispatcher, which has BUSY too; the next pool checks all rings when it starts. */
	for (uint32_t i = 0; i <= f->n_workers; i++) {
		struct board_worker *w = &f->board->workers[i];
		_Atomic uint32_t *word = i < f->n_workers ? &w->wake : &f->board->dispatcher;
		uint32_t old = load_relaxed(word);

		store_relaxed(word, ((old & ~WAKE_STATE) + WAKE_SEQ) | WAKE_BUSY);
		if (i == f->n_workers)
			break;
		store_relaxed(&w->tid, 0);
		store_relaxed(&f->board->running[i].job, UINT32_MAX);
		stopwatch_clear(&f->board->running[i].busy);
		stopwatch_clear(&f->board->running[i].asleep);
	}
}

uint64_t pool_segments_jobs_ended(const struct pool_segments *f)
{
	return board_jobs_ended(f->board, f->n_workers);
}

static uint64_t pool_segments_arena_size(const struct options *o)
{
	return arena_workers_offset(o->clients_max, o->jobs_max) + o->arena_max;
}

struct saved_geometry pool_segments_geometry(const struct options *options, uint32_t n_workers)
{
	return (struct saved_geometry){
		.n_workers = n_workers,
		.clients_max = options->clients_max,
		.jobs_max = options->jobs_max,
		.board_size = board_size(n_workers),
		.arena_size = pool_segments_arena_size(options),
	};
}

/* Allocates all but the times: board.h, I6. */
static int pool_segments_allocate_board(const struct pool_segments *f)
{
	int r = segment_allocate(f->board_fd, 0, BOARD_FRONT);

	return r < 0 ? r : segment_allocate(f->board_fd, BOARD_LOADS, f->board_size - BOARD_LOADS);
}

static int pool_segments_make_board(struct pool_segments *f, uint64_t epoch, const char **ret_what)
{
	bool new = f->board_fd < 0;
	void *base;
	int r;

	f->board_size = board_size(f->n_workers);
	*ret_what = "make the board";
	if (new)
		f->board_fd =
			segment_create("forkd-board", SEGMENT_BOARD, f->board_size, epoch, 0, 0400);
	if (f->board_fd < 0)
		return f->board_fd;
	r = new ? pool_segments_allocate_board(f) : 0;
	if (r < 0)
		return r;
	*ret_what = "open the board again (is /proc mounted?)";
	f->board_readonly_fd = segment_reopen_readonly(f->board_fd);
	if (f->board_readonly_fd < 0)
		return f->board_readonly_fd;
	*ret_what = "map the board";
	r = segment_map_sized(f->board_fd, f->board_size, &base);
	if (r < 0)
		return r;
	f->board = base;
	f->board_head = segment_head(SEGMENT_BOARD, f->board_size, epoch);
	if (!new)
		return 0;
	for (uint32_t i = 0; i < f->n_workers; i++) {
		store_relaxed(&f->board->workers[i].cpu, UINT32_MAX);
		store_relaxed(&f->board->workers[i].node, UINT32_MAX);
	}
	pool_segments_clear_workers(f);
	return 0;
}

static int pool_segments_make_arena(struct pool_segments *f, uint64_t epoch, const char **ret_what)
{
	bool new = f->arena_fd < 0;
	void *base;
	int r;

	f->arena_size = pool_segments_arena_size(f->options);
	*ret_what = "make the arena";
	if (new)
		f->arena_fd =
			segment_create("forkd-arena", SEGMENT_ARENA, f->arena_size, epoch, 0, 0600);
	if (f->arena_fd < 0)
		return f->arena_fd;
	*ret_what = "map the arena";
	r = segment_map_sized(f->arena_fd, f->arena_size, &base);
	if (r < 0)
		return r;
	f->arena = base;
	f->arena_head = segment_head(SEGMENT_ARENA, f->arena_size, epoch);
	if (!new)
		return 0;
	for (uint32_t i = 0; i < f->n_workers; i++)
		store_relaxed(&f->arena->workers[i].job, UINT32_MAX);
	return 0;
}

/* Copies the existing pages of the arena's first bytes into another file. */
static int pool_segments_copy(const struct pool_segments *f, int fd, uint64_t size)
{
	off_t from, to = 0;

	while ((from = lseek(f->arena_fd, to, SEEK_DATA)) >= 0 && (uint64_t)from < size) {
		to = lseek(f->arena_fd, from, SEEK_HOLE);
		if (to < 0)
			return -errno;
		to = (off_t)min((uint64_t)to, size);
		while (from < to) {
			ssize_t n = pwrite(fd, (const char *)f->arena + from, (size_t)(to - from),
					   from);

			if (n <= 0)
				return n < 0 ? -errno : -ENOSPC;
			from += n;
		}
	}
	return from >= 0 || errno == ENXIO ? 0 : -errno;
}

int pool_segments_replace_arena(struct pool_segments *f)
{
	uint64_t size = arena_workers_offset(f->options->clients_max, f->options->jobs_max);
	_cleanup_close_ int fd = segment_create("forkd-arena", SEGMENT_ARENA, f->arena_size,
						f->arena_head.epoch, 0, 0600);
	int r = fd < 0 ? fd : pool_segments_copy(f, fd, size);

	if (r < 0)
		return r;
	/* At the same address, because others have pointers to it. */
	if (mmap(f->arena, f->arena_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) ==
	    MAP_FAILED)
		return -errno;
	(void)close(f->arena_fd);
	f->arena_fd = steal_fd(&fd);
	return 0;
}

int pool_segments_init(struct pool_segments *f, const struct options *options, uint32_t n_workers,
		       const struct pool_segments_inherited *inherited, const char **ret_what)
{
	uint64_t epoch = inherited->saved->head.epoch;
	int r;

	*f = POOL_SEGMENTS_INIT;
	f->options = options;
	f->n_workers = n_workers;
	f->started_ns = clock_ns();
	f->saved = inherited->saved;
	f->board_fd = inherited->board_fd;
	f->arena_fd = inherited->arena_fd;
	/* Each manager's first pool has a new generation: clients use it to tell the sleeps of one
	 * pool from those of another (client/lib/wake_worker.c). */
	(void)saved_next_pool(f->saved);
	r = pool_segments_make_board(f, epoch, ret_what);
	return r < 0 ? r : pool_segments_make_arena(f, epoch, ret_what);
}

void pool_segments_fini(struct pool_segments *f)
{
	free(f->tasks);
	segment_unmap(f->board, f->board_size);
	segment_unmap(f->arena, f->arena_size);
	(void)safe_close(f->board_fd);
	(void)safe_close(f->board_readonly_fd);
	(void)safe_close(f->arena_fd);
}
