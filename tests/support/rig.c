/* SPDX-License-Identifier: MIT */
#include "tests/support/rig.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/core/fork_mode.h"
#include "daemon/core/stop.h"
#include "daemon/core/wakeup.h"
#include "daemon/core/worker.h"
#include "daemon/fiber/create.h"
#include "daemon/fiber/fiber.h"
#include "daemon/pool/arena_layout.h"
#include "daemon/host/topology.h"
#include "daemon/jobs/job_cancel.h"
#include "daemon/jobs/membership.h"
#include "daemon/pool/worker_signal.h"
#include "daemon/pool/worker_thread.h"
#include "daemon/sched/wake.h"
#include "shm/futex.h"
#include "shm/ledger.h"
#include "shm/proto.h"
#include "shm/segment.h"
#include "shm/wake.h"

#define RIG_EPOCH 42u
#define RIG_HEAP  (1u << 20)
#define RIG_STACK (2u << 20) /* bytes of a worker's C stack */
#define RIG_ARENA (UINT64_C(4) << 30)

void (*rig_prepare)(struct pool *pool);

static void *rig_worker(void *arg)
{
	return worker_main(arg);
}

static void *rig_dispatcher(void *arg)
{
	struct pool *pool = arg;

	while (atomic_load(&pool->stop) != POOL_ENDING)
		dispatcher_attend(pool);
	return NULL;
}

static void *rig_map(int fd, uint32_t kind)
{
	void *base = NULL;

	ck_assert_int_eq(segment_map(fd, kind, 1, RIG_EPOCH, &base, NULL), 0);
	return base;
}

/* In slot 0, of tenant 0. */
static const struct intake_newcomer rig_client = {
	.generation = 1,
	.weight = FAIR_WEIGHT,
	.n_jobs = RIG_JOBS,
};

void rig_start(struct rig *rig, uint32_t workers, const struct fk_module *module, bool force_steals)
{
	rig_start_on(rig, NULL, workers, module, force_steals);
}

void rig_start_on(struct rig *rig, const char *machine, uint32_t workers,
		  const struct fk_module *module, bool force_steals)
{
	uint64_t heap_offset = client_segment_heap_offset(RIG_JOBS);
	struct topology *topology = NULL;
	struct pool *pool = pool_new();
	char error[256] = "";
	pthread_attr_t attr;

	memset(rig, 0, sizeof(*rig));
	ck_assert_int_eq(options_init(&rig->options), 0);
	ck_assert(pool);
	rig->pool = pool;
	pool->options = &rig->options;
	channel_init(&pool->channel, -1);
	pool->n_workers = workers;
	pool->mode.force_steals = force_steals;

	rig->board_fd =
		segment_create("board", SEGMENT_BOARD, sizeof(struct board), RIG_EPOCH, 0, 0600);
	pool->arena_size = arena_workers_offset(4, RIG_JOBS) + RIG_ARENA;
	rig->arena_fd =
		segment_create("arena", SEGMENT_ARENA, pool->arena_size, RIG_EPOCH, 0, 0600);
	ck_assert_int_ge(rig->board_fd, 0);
	ck_assert_int_ge(rig->arena_fd, 0);
	pool->board = rig_map(rig->board_fd, SEGMENT_BOARD);
	pool->board_size = sizeof(struct board);
	pool->board->manager.n_workers = workers;
	pool->arena = rig_map(rig->arena_fd, SEGMENT_ARENA);
	pool->arena->n_workers = workers;
	pool->arena->clients_max = pool->clients_max = 4;
	pool->arena->jobs_max = pool->jobs_max = RIG_JOBS;
	ck_assert_int_eq(pool_make_rows(pool), 0);
	ck_assert_int_eq(topology_new(machine, workers, 0, NULL, error, sizeof(error), &topology),
			 0);
	ck_assert_int_eq(layout_place(pool, topology), 0);
	ck_assert(worker_catch_signal(pool, WORKER_SIGNAL));
	ck_assert_int_eq(layout_make(pool, rig->arena_fd), 0);
	ck_assert_int_eq(fibers_reserve(pool), 0);
	ck_assert_int_eq(intake_init(pool), 0);
	ck_assert_int_eq(modules_add(&pool->modules, module, error, sizeof(error)), 0);
	ck_assert_str_eq(error, "");
	ck_assert_int_eq(modules_settle(&pool->modules, pool->board), 0);
	(void)pool_set_debug_steals(pool);

	rig->tenant_fd = segment_create("tenant", SEGMENT_TENANT, tenant_segment_size(workers),
					RIG_EPOCH, 0, 0600);
	rig->client_fd = segment_create("client", SEGMENT_CLIENT, heap_offset + RIG_HEAP, RIG_EPOCH,
					0, 0600);
	rig->client = rig_map(rig->client_fd, SEGMENT_CLIENT);
	rig->client->n_jobs = RIG_JOBS;
	rig->client->heap_size = rig->client->heap_max = RIG_HEAP;
	segment_unmap(rig->client, heap_offset + RIG_HEAP);
	ck_assert_int_eq(intake_add_tenant(pool, 0, FAIR_WEIGHT, ATTACH_FILE(rig->tenant_fd)), 0);
	pool->arena->heap_sizes[0] = RIG_HEAP;
	ck_assert_int_eq(intake_add_client(pool, &rig_client, ATTACH_FILE(rig->client_fd)), 0);
	/* The pool's own mappings: ThreadSanitizer compares addresses, not memory. */
	rig->tenant = pool->clients.tenants[0].segment;
	rig->client = pool->clients.entries[0].segment;
	rig->jobs = pool->clients.entries[0].jobs;
	rig->heap = pool->clients.entries[0].heap;

	if (rig_prepare)
		rig_prepare(pool);
	rig_prepare = NULL;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, RIG_STACK);
	for (uint32_t i = 0; i < workers; i++)
		ck_assert_int_eq(pthread_create(&pool->workers[i].thread, &attr, rig_worker,
						&pool->workers[i]),
				 0);
	ck_assert_int_eq(pthread_create(&rig->dispatcher, NULL, rig_dispatcher, pool), 0);
	pthread_attr_destroy(&attr);
	/* All workers have searched once, and none is busy. */
	while (atomic_load(&pool->idle.lazy.active))
		sched_yield();
}

void rig_stop(struct rig *rig)
{
	struct pool *pool = rig->pool;

	pool_stop_workers(pool);
	pool_wake_dispatcher(pool);
	for (uint32_t i = 0; i < pool->n_workers; i++)
		pthread_join(pool->workers[i].thread, NULL);
	pthread_join(rig->dispatcher, NULL);
	fibers_fini(pool);
	worker_release_signal(pool);
	for (uint32_t i = 0; i < pool->n_workers; i++)
		worker_fini(&pool->workers[i]);
	intake_fini(pool);
	segment_unmap(pool->board, pool->board_size);
	segment_unmap(pool->arena, pool->arena_size);
	close(rig->board_fd);
	close(rig->arena_fd);
	close(rig->tenant_fd);
	close(rig->client_fd);
	pool_free_rows(pool);
	layout_unplace(pool);
	pool_delete(pool);
	options_fini(&rig->options);
}

void rig_submit(struct rig *rig, uint32_t index, const char *task, const void *args, uint32_t size)
{
	struct pool *pool = rig->pool;
	struct job *job = &rig->jobs[index];
	int t = board_find_task(pool->board, task);
	uint64_t position;
	uint32_t ring = index % pool->n_workers;

	ck_assert_int_ge(t, 0);
	ck_assert_uint_le(size, LIMIT_ARGS);
	rig->generation[index]++;
	atomic_store(&job->task, (uint32_t)t);
	atomic_store(&job->task_hash, pool->board->tasks[t].hash);
	atomic_store(&job->generation, rig->generation[index]);
	atomic_store(&job->args_size, size);
	if (size)
		memcpy(job->args, args, size);
	atomic_store(&job->state, job_state(rig->generation[index], JOB_PENDING));
	while (ring_push(&rig->tenant->rings[ring], ring_payload(0, 1, index), &position) !=
	       RING_OK)
		sched_yield();
	tenant_mark(rig->tenant, ring);
	wake_published();
	if (!worker_wake_one(pool, NULL))
		pool_wake_dispatcher(pool);
}

uint32_t rig_wait(struct rig *rig, uint32_t index)
{
	struct job *job = &rig->jobs[index];
	uint32_t value;

	while ((value = job_announce_waiter(job)))
		futex_wait(&job->state, value, 0);
	return job_outcome(job);
}

void rig_all_done(struct rig *rig, uint32_t first, uint32_t end)
{
	for (uint32_t i = first; i < end; i++)
		ck_assert_uint_eq(rig_wait(rig, i), JOB_DONE);
}

void rig_fails(struct rig *rig, uint32_t job, int32_t code)
{
	ck_assert_uint_eq(rig_wait(rig, job), JOB_FAILED);
	ck_assert_int_eq(atomic_load(&rig->jobs[job].code), code);
}

int64_t rig_call(struct rig *rig, const char *task, int64_t arg)
{
	int64_t result;

	rig_submit(rig, 0, task, &arg, sizeof(arg));
	ck_assert_uint_eq(rig_wait(rig, 0), JOB_DONE);
	memcpy(&result, rig->jobs[0].result, sizeof(result));
	return result;
}

void rig_cancel(struct rig *rig, uint32_t job)
{
	job_cancel(rig->pool, job, rig->generation[job]);
}

void rig_hear(int manager, uint32_t type, uint32_t client, uint32_t generation, const char *text)
{
	union proto_message m;
	int fds[PROTO_MAX_FDS];
	uint32_t n_fds;

	ck_assert_int_eq(proto_recv(manager, &m, fds, &n_fds, 0), sizeof(m.pool));
	ck_assert_uint_eq(m.head.type, type);
	ck_assert_uint_eq(m.pool.client, client);
	ck_assert_uint_eq(m.pool.client_generation, generation);
	if (text)
		ck_assert_str_eq(m.pool.text, text);
}
