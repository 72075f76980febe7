/* SPDX-License-Identifier: MIT */
#include "daemon/pool/pool.h"

#include <sys/mman.h>

#include "common/relaxed.h"
#include "common/sanitizer.h"
#include "common/util.h"
#include "daemon/core/hooks.h"
#include "daemon/core/manager_channel.h"
#include "daemon/core/trace.h"
#include "daemon/core/work_span.h"
#include "daemon/core/worker_state.h"
#include "daemon/fiber/fiber.h"
#include "daemon/host/topology.h"
#include "daemon/jobs/abort.h"
#include "daemon/jobs/job_batches.h"
#include "daemon/jobs/membership.h"
#include "daemon/pool/arena_layout.h"
#include "daemon/pool/worker_signal.h"
#include "daemon/pool/worker_thread.h"
#include "daemon/sched/job_switch.h"
#include "daemon/sched/slice_timer.h"
#include "daemon/sched/wake.h"
#include "shm/board.h"
#include "shm/wake.h"

static void pool_set_rows(struct pool *pool)
{
	uint64_t rows = (uint64_t)pool->clients_max * pool->jobs_max;
	struct pool_rows *all = &pool->rows;

	all->aborts = sparse_table(&all->tables, rows, sizeof(*all->aborts));
	all->cancels = sparse_table(&all->tables, rows, sizeof(*all->cancels));
	all->stack_bytes = sparse_table(&all->tables, rows, sizeof(*all->stack_bytes));
	all->locals = sparse_table(&all->tables, rows, sizeof(*all->locals));
}

int pool_make_rows(struct pool *pool)
{
	int r = deadlines_init(pool->deadlines, (uint64_t)pool->clients_max * pool->jobs_max);

	pool_set_rows(pool);
	if (r == 0)
		r = sparse_map(&pool->rows.tables);
	if (r == 0)
		pool_set_rows(pool);
	return r;
}

void pool_free_rows(struct pool *pool)
{
	sparse_unmap(&pool->rows.tables);
	deadlines_fini(pool->deadlines);
}

static void pool_fail_job(struct worker *w, int code)
{
	abort_fail(w->pool, w->job.row, code);
}

static void pool_charge(struct pool *pool, uint32_t row, uint64_t ns)
{
	fair_charge(pool->fair, row, ns, false);
}

static const struct pool_hooks pool_hooks = {
	.wake_one = worker_wake_one,
	.wake = worker_wake,
	.set_job = worker_set_job,
	.preempt = intake_preempt,
	.turn = intake_turn,
	.fail_job = pool_fail_job,
	.charge = pool_charge,
	.preempt_by = slice_timer_by,
	.hang_expect = hang_expect,
	.hang_is_reached = hang_is_reached,
	.loop = worker_loop,
};

struct pool *pool_new(void)
{
	/* Sparse: most of its tables have room for more workers than there are. */
	struct pool_whole *whole = mmap(NULL, sizeof(*whole), PROT_READ | PROT_WRITE,
					MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (whole == MAP_FAILED)
		return NULL;
	/* A program may end with an open pool. */
	if (__lsan_register_root_region)
		__lsan_register_root_region(whole, sizeof(*whole));
	whole->pool.hooks = &pool_hooks;
	whole->pool.size = sizeof(*whole);
	whole->pool.fair = &whole->fair;
	whole->pool.fibers = &whole->fibers;
	whole->pool.park = &whole->park;
	whole->pool.starved = &whole->starved;
	whole->pool.deadlines = &whole->deadlines;
	whole->pool.hangs = &whole->hangs;
	whole->pool.dispatcher = &whole->dispatcher;
	return &whole->pool;
}

void pool_delete(struct pool *pool)
{
	struct pool_whole *whole = container_of(pool, struct pool_whole, pool);

	if (__lsan_unregister_root_region)
		__lsan_unregister_root_region(whole, sizeof(*whole));
	munmap(whole, sizeof(*whole));
}

int pool_start_threads(struct pool *pool, void *(*worker)(void *), void *(*dispatcher)(void *),
		       uint32_t n, pthread_t *ret_dispatcher)
{
	int r = 0;

	(void)sem_init(&pool->started, 0, 0);
	pool->worker = worker;
	pool->n_late = pool->n_workers - n;
	/* Relaxed: no thread that could wait for it has begun; the others are for display. */
	store_relaxed(&pool->board->dispatcher, WAKE_LOOKING);
	for (uint32_t i = 0; i < pool->n_workers; i++) {
		const struct topology_place *place = topology_place(pool->topology, i);

		store_relaxed(&pool->board->workers[i].cpu, place->cpu);
		store_relaxed(&pool->board->workers[i].node, place->node);
		/* Its thread will search, so clients need not wake another worker. */
		store_relaxed(&pool->board->workers[i].wake, WAKE_LOOKING);
		if (i >= n)
			worker_begin_asleep(&pool->workers[i]);
	}
	for (uint32_t i = 0; i < n && r == 0; i++)
		r = worker_start(&pool->workers[i]);
	return r < 0 ? r : -pthread_create(ret_dispatcher, NULL, dispatcher, pool);
}

void pool_join_workers(struct pool *pool)
{
	for (uint32_t i = 0; i < pool->n_workers; i++)
		if (pool->workers[i].thread)
			pthread_join(pool->workers[i].thread, NULL);
}

void pool_free(struct pool *pool)
{
	fibers_fini(pool); /* its threads use the board's counters and read the signal */
	worker_release_signal(pool);
	intake_fini(pool);
	for (uint32_t i = 0; pool->workers && i < pool->n_workers; i++)
		worker_fini(&pool->workers[i]);
	trace_fini(pool);
	layout_unplace(pool);
	layout_unmap(pool);
	pool_free_rows(pool);
	profile_free(pool->mode.profile);
	channel_fini(&pool->channel);
	pool_delete(pool);
}
