/* SPDX-License-Identifier: MIT */
#include "daemon/pool/arena_layout.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/log.h"
#include "common/util.h"
#include "daemon/core/lazy_policy.h"
#include "daemon/core/mapping.h"
#include "daemon/core/pool_settings.h"
#include "daemon/core/pool_state.h"
#include "daemon/core/stacklet.h"
#include "daemon/core/worker.h"
#include "daemon/core/worker_state.h"
#include "daemon/host/topology.h"
#include "daemon/host/victims.h"
#include "daemon/pool/worker_thread.h"
#include "shm/board.h"
#include "shm/ledger.h"
#include "shm/limits.h"
#include "shm/segment.h"

#define LAYOUT_DEQUE_MAX (UINT64_C(1) << 22) /* entries */
#define LAYOUT_PAGE	 UINT64_C(4096)

int layout_map(struct pool *pool, int board_fd, int arena_fd)
{
	void *base;
	int r = segment_map(board_fd, SEGMENT_BOARD, 1, 0, &base, &pool->board_size);

	if (r < 0)
		return r;
	pool->board = base;
	r = layout_withhold(pool->board, pool->board_size, false);
	if (r < 0)
		return r;
	r = segment_map(arena_fd, SEGMENT_ARENA, 1, pool->board->head.epoch, &base,
			&pool->arena_size);
	if (r < 0)
		return r;
	pool->arena = base;
	/* The ledger and the deques stay in core files: layout_make(). */
	r = layout_withhold(pool->arena, pool->arena_size, false);
	if (r < 0)
		return r;
	pool->n_workers = pool->board->manager.n_workers;
	if (!pool->n_workers || pool->n_workers > LIMIT_WORKERS ||
	    pool->arena->n_workers != pool->n_workers)
		return -EBADMSG;
	pool->clients_max = pool->arena->clients_max;
	pool->jobs_max = pool->arena->jobs_max;
	/* Reset data of an earlier pool: recovery_run() has handled the rest. Pages that are not
	 * needed are not touched. */
	memset(pool->board->counters, 0, pool->n_workers * sizeof(pool->board->counters[0]));
	memset(&pool->board->counters[BOARD_POOL], 0, sizeof(pool->board->counters[0]));
	memset(pool->board->loads, 0, pool->n_workers * sizeof(pool->board->loads[0]));
	return 0;
}

void layout_unmap(struct pool *pool)
{
	segment_unmap(pool->arena, pool->arena_size);
	segment_unmap(pool->board, pool->board_size);
}

int layout_place(struct pool *pool, struct topology *topology)
{
	pool->topology = topology;
	pool->n_groups = topology_n_groups(topology);
	pool->stacks = calloc(pool->n_groups, sizeof(*pool->stacks));
	if (!pool->stacks)
		return -ENOMEM;
	return topology_victims(topology, &pool->victims);
}

void layout_unplace(struct pool *pool)
{
	for (uint32_t g = 0; pool->stacks && g < pool->n_groups; g++)
		stack_arena_fini(&pool->stacks[g]);
	free(pool->stacks);
	pool->victims = victims_free(pool->victims);
	topology_free(pool->topology);
}

/* Returns the number of bytes from at to the end of the last existing page before `to`. */
static uint64_t layout_used(struct pool *pool, int arena_fd, char *at, char *to)
{
	uint64_t base = (uint64_t)(at - (char *)pool->arena), low = base;
	uint64_t high = (uint64_t)(to - (char *)pool->arena);

	/* Without a file the memory is new. */
	if (arena_fd < 0)
		return 0;
	/* All pages are below high, and the last known one is below low. */
	while (low < high) {
		uint64_t middle = low + ((high - low) / 2 & ~(LAYOUT_PAGE - 1));
		off_t page = lseek(arena_fd, (off_t)middle, SEEK_DATA);

		if (page < 0 && errno != ENXIO) /* unknown: all are used */
			return high - base;
		if (page < 0 || (uint64_t)page >= high)
			high = middle;
		else
			low = (uint64_t)page + LAYOUT_PAGE;
	}
	return low - base;
}

/* Divides the stacklets' memory, from at to the arena's end, equally among the groups, each on its
 * node. */
static int layout_stacks(struct pool *pool, int arena_fd, char *at, int *ret_bound)
{
	char *end = (char *)pool->arena + pool->arena_size;
	uint64_t part = (uint64_t)(end - at) / pool->n_groups & ~(LAYOUT_PAGE - 1);
	int r;

	/* Frames contain users' data. */
	r = layout_withhold(at, (uint64_t)(end - at), true);
	if (r < 0)
		return r;
	for (uint32_t g = 0; g < pool->n_groups; g++, at += part) {
		char *to = g + 1 < pool->n_groups ? at + part : end;

		r = topology_bind_group_memory(pool->topology, g, at, (uint64_t)(to - at));
		*ret_bound = min(*ret_bound, r);
		r = stack_arena_init(&pool->stacks[g], at, to);
		if (r < 0)
			return r;
		stack_arena_inherit(&pool->stacks[g], layout_used(pool, arena_fd, at, to));
	}
	stack_arena_link(pool->stacks, pool->n_groups);
	for (uint32_t i = 0; i < pool->n_workers; i++)
		stack_cache_init(&pool->workers[i].engine.cache,
				 &pool->stacks[pool->workers[i].group]);
	return 0;
}

/* Sets up the groups, and for each the order of the others by distance. */
static void layout_groups(struct pool *pool)
{
	uint32_t groups[LIMIT_WORKERS];
	struct lazy *l = &pool->idle.lazy;

	for (uint32_t i = 0; i < pool->n_workers; i++)
		groups[i] = topology_place(pool->topology, i)->group;
	lazy_init(l, pool->idle.seats, pool->n_workers, groups, pool->n_groups);
	for (uint32_t c = 0; c < l->n_groups; c++) {
		uint32_t from = lazy_member(l, &l->groups[c], 0);

		lazy_set_near(l, c, victims_order(pool->victims, from), pool->n_workers - 1);
	}
	pool_init_settings(pool);
}

/* Uses whole pages for each worker, so that each can be on its node: first all struct workers, then
 * the contents of each one's deques, then the stacklets. Memory policies are set before any page is
 * touched. */
int layout_make(struct pool *pool, int arena_fd)
{
	uint64_t offset = arena_workers_offset(pool->clients_max, pool->jobs_max);
	uint64_t left = pool->arena_size > offset ? pool->arena_size - offset : 0;
	uint64_t n = pool->n_workers, entries = LAYOUT_DEQUE_MAX;
	uint64_t roots = align_up(WORKER_ROOTS * sizeof(struct fk_entry), LAYOUT_PAGE);
	uint64_t fixed;
	char *at = (char *)pool->arena + offset;
	int bound = 0, r;

	/* The deques get at most an eighth of the arena. */
	while (entries > 1024 && n * entries * sizeof(struct fk_entry) > left / 8)
		entries /= 2;
	fixed = n * (sizeof(struct worker) + roots + entries * sizeof(struct fk_entry));
	if (left < fixed + (n * 64 + 64) * STACK_MIN)
		return -ENOSPC;
	/* Remove pages of an earlier pool: all must be zero. Without a file the memory is new. The
	 * kernel would refuse this after mlockall(). */
	r = arena_fd < 0 ? 0 : layout_discard(at, fixed);
	if (r < 0)
		return r;
	layout_groups(pool);
	pool->workers = (struct worker *)at;
	at += n * sizeof(struct worker);
	for (uint32_t i = 0; i < n; i++) {
		struct worker *w = &pool->workers[i];
		uint64_t size = roots + entries * sizeof(struct fk_entry);

		r = topology_bind_memory(pool->topology, i, w, sizeof(*w));
		bound = min(bound, r);
		r = topology_bind_memory(pool->topology, i, at, size);
		bound = min(bound, r);
		worker_init(w, pool, i, (struct fk_entry *)(at + roots), entries,
			    (struct fk_entry *)at);
		w->group = topology_place(pool->topology, i)->group;
		at += size;
	}
	r = layout_stacks(pool, arena_fd, at, &bound);
	if (bound < 0)
		log_warning("workers' memory is not bound to their NUMA nodes: %s",
			    strerror(-bound));
	return r;
}
