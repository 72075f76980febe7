/* SPDX-License-Identifier: MIT */
/*
 * daemon/fronts.c - board and arena as the manager makes them, and what it says of itself there
 *
 * WHO CALLS IT, ON WHICH THREAD
 *   The manager's only thread.
 *
 * INVARIANTS
 *   I1. Whatever of the manager's stands at the front of board and arena, a task can write over,
 *       and the next pool and clients believe it. So it is kept here, and written anew when a pool
 *       has died, before anything else: fronts_write().
 *
 * WHAT HAPPENS IF A PEER DIES HERE
 *   The pool: I1, fronts_clear_workers().
 */
#include "daemon/fronts.h"

#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "shm/segment.h"
#include "shm/wake.h"

void fronts_set_state(struct fronts *f, uint32_t state)
{
	f->state = state;
	/* Relaxed: a client that sees it late finds its socket closed. */
	atomic_store_explicit(&f->board->manager.state, state, memory_order_relaxed);
}

void fronts_set_pool(struct fronts *f, uint32_t pid)
{
	/* Relaxed: for display. */
	atomic_store_explicit(&f->board->manager.pool_pid, pid, memory_order_relaxed);
}

void fronts_next_pool(struct fronts *f)
{
	/* Relaxed: for display, and for who counts sleeps (client/publish.c). */
	atomic_store_explicit(&f->board->manager.pool_generation, ++f->pool_generation,
			      memory_order_relaxed);
}

void fronts_show_scheduler(struct fronts *f)
{
	/* Relaxed: for display. */
	atomic_store_explicit(&f->board->manager.scheduler, f->options->scheduler,
			      memory_order_relaxed);
}

void fronts_write(struct fronts *f)
{
	char version[sizeof(f->board->manager.version)] = PACKAGE_VERSION;
	struct board_manager *b = &f->board->manager;
	struct arena *a = f->arena;

	f->board->head = f->board_head;
	b->pid = (uint32_t)getpid();
	b->n_workers = f->n_workers;
	b->max_jobs = f->options->max_jobs;
	b->max_clients = f->options->max_clients;
	b->heap_max = f->options->heap_max;
	b->started_ns = f->started_ns;
	memcpy(b->version, version, sizeof(b->version));
	fronts_set_state(f, f->state);
	fronts_set_pool(f, 0);
	fronts_show_scheduler(f);
	/* Relaxed: for display. */
	atomic_store_explicit(&b->pool_generation, f->pool_generation, memory_order_relaxed);
	atomic_store_explicit(&b->crashes, f->crashes, memory_order_relaxed);

	a->head = f->arena_head;
	a->n_workers = f->n_workers;
	a->max_clients = f->options->max_clients;
	a->max_jobs = f->options->max_jobs;
	memset(a->reserved, 0, sizeof(a->reserved));
}

void fronts_clear_workers(struct fronts *f)
{
	/* Relaxed: nobody of the pool lives. Clients see a value that is not SLEEPING, and go to
	 * the dispatcher, where the same holds; the next pool looks at all rings when it starts. */
	for (uint32_t i = 0; i <= f->n_workers; i++) {
		struct board_worker *w = &f->board->workers[i];
		_Atomic uint32_t *word = i < f->n_workers ? &w->wake : &f->board->dispatcher;
		uint32_t old = atomic_load_explicit(word, memory_order_relaxed);

		atomic_store_explicit(word, ((old & ~WAKE_STATE) + WAKE_SEQ) | WAKE_BUSY,
				      memory_order_relaxed);
		if (i == f->n_workers)
			break;
		atomic_store_explicit(&w->tid, 0, memory_order_relaxed);
		atomic_store_explicit(&f->board->running[i].job, UINT32_MAX, memory_order_relaxed);
	}
}

uint64_t fronts_jobs_ended(const struct fronts *f)
{
	uint64_t sum = 0;

	/* Relaxed: statistics. */
	for (uint32_t i = 0; i < f->n_workers; i++) {
		const struct board_counters *c = &f->board->counters[i];

		sum += atomic_load_explicit(&c->jobs_done, memory_order_relaxed);
		sum += atomic_load_explicit(&c->jobs_failed, memory_order_relaxed);
	}
	return sum +
	       atomic_load_explicit(&f->board->counters[BOARD_POOL].dropped, memory_order_relaxed);
}

static int fronts_make_board(struct fronts *f, uint64_t epoch, const char **ret_what)
{
	void *base;
	int r;

	*ret_what = "make the board";
	f->board_fd =
		segment_create("forkd-board", SEGMENT_BOARD, sizeof(struct board), epoch, 1, 0400);
	if (f->board_fd < 0)
		return f->board_fd;
	*ret_what = "open the board again (is /proc mounted?)";
	f->board_readonly_fd = segment_reopen_readonly(f->board_fd);
	if (f->board_readonly_fd < 0)
		return f->board_readonly_fd;
	*ret_what = "map the board";
	r = segment_map(f->board_fd, SEGMENT_BOARD, 1, epoch, &base, &f->board_size);
	if (r < 0)
		return r;
	f->board = base;
	f->board_head = f->board->head;
	for (uint32_t i = 0; i < f->n_workers; i++) {
		atomic_store_explicit(&f->board->workers[i].cpu, UINT32_MAX, memory_order_relaxed);
		atomic_store_explicit(&f->board->workers[i].node, UINT32_MAX, memory_order_relaxed);
	}
	fronts_clear_workers(f);
	return 0;
}

static int fronts_make_arena(struct fronts *f, uint64_t epoch, const char **ret_what)
{
	const struct options *o = f->options;
	uint64_t front = arena_workers_offset(o->max_clients, o->max_jobs);
	void *base;
	int r;

	*ret_what = "make the arena";
	f->arena_fd =
		segment_create("forkd-arena", SEGMENT_ARENA, front + o->arena_max, epoch, 0, 0600);
	if (f->arena_fd < 0)
		return f->arena_fd;
	*ret_what = "map the arena";
	r = segment_map(f->arena_fd, SEGMENT_ARENA, 1, epoch, &base, &f->arena_size);
	if (r < 0)
		return r;
	f->arena = base;
	f->arena_head = f->arena->head;
	for (uint32_t i = 0; i < f->n_workers; i++)
		atomic_store_explicit(&f->arena->workers[i].job, UINT32_MAX, memory_order_relaxed);
	return 0;
}

int fronts_init(struct fronts *f, const struct options *options, uint32_t n_workers, uint64_t epoch,
		const char **ret_what)
{
	int r;

	*f = (struct fronts)FRONTS_INIT;
	f->options = options;
	f->n_workers = n_workers;
	f->started_ns = clock_ns();
	f->pool_generation = 1;
	r = fronts_make_board(f, epoch, ret_what);
	return r < 0 ? r : fronts_make_arena(f, epoch, ret_what);
}

void fronts_fini(struct fronts *f)
{
	segment_unmap(f->board, f->board_size);
	segment_unmap(f->arena, f->arena_size);
	(void)safe_close(f->board_fd);
	(void)safe_close(f->board_readonly_fd);
	(void)safe_close(f->arena_fd);
}
