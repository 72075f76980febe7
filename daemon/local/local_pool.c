/* SPDX-License-Identifier: MIT */
/*
 * local_pool.c - the pool of this process: start, clients, end
 *
 * The same pool as that of the machine's forkd, on memory of this process, without a manager. What
 * the manager does there is done here by the threads that open and close clients: they give slots,
 * make segments and read cpu.max.
 *
 * INVARIANTS
 *   I1. `pool` changes only with `lock` held, and is not NULL while a client is open. So calls
 *       about an open client need no lock to use it.
 *   I2. What the pool expects of the channel's thread is done with `lock` held: one thread at a
 *       time.
 *   I3. A slot is used again after the pool has released it, when it uses none of the segments any
 *       more. The generations of the slot's jobs continue from those of its last client, as the
 *       manager does (client_segments.c, I5).
 *   I4. hear() takes `released_lock` only, which is held for a few instructions: the dispatcher
 *       never waits for a thread that waits for the dispatcher.
 *   I5. A client counts in n until the pool has released it, when all of its jobs have ended. So no
 *       task runs when the last one ends the pool. The thread that waits for that has no lock.
 *   I6. Constructors of a module run with `load_lock` held only, which is the first one in the
 *       order of the locks. So they may open clients, call tasks, load modules and fork. fork()
 *       does not wait for it: a task that a constructor calls may fork, too.
 *
 * In a child of fork() there are no threads of the pool. The child forgets it: its memory is a
 * copy, which stays.
 */
#include "daemon/local/local_pool.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "client/lib/client.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/options.h"
#include "common/relaxed.h"
#include "common/util.h"
#include "daemon/core/bell.h"
#include "daemon/core/fork_mode.h"
#include "daemon/core/mapping.h"
#include "daemon/core/stop.h"
#include "daemon/core/wakeup.h"
#include "daemon/core/worker.h"
#include "daemon/core/worker_state.h"
#include "daemon/host/cgroup.h"
#include "daemon/host/module.h"
#include "daemon/host/topology.h"
#include "daemon/jobs/attach.h"
#include "daemon/jobs/job_cancel.h"
#include "daemon/jobs/membership.h"
#include "daemon/local/observers.h"
#include "daemon/local/program_tasks.h"
#include "daemon/pool/arena_layout.h"
#include "daemon/pool/pool.h"
#include "daemon/pool/worker_signal.h"
#include "daemon/pool/worker_thread.h"
#include "daemon/sched/wake.h"
#include "shm/ledger.h"
#include "shm/segment.h"

#define LOCAL_CLIENTS	   64u
#define LOCAL_JOBS	   256u			/* default: as fk_open() */
#define LOCAL_ARENA	   (UINT64_C(16) << 30) /* address space of frames and deques */
#define LOCAL_LEAST	   (UINT64_C(8) << 20)	/* the same, at least */
#define LOCAL_STACK	   (UINT64_C(8) << 20)	/* of a worker's thread: the usual one */
#define LOCAL_SIGNAL_STACK (64u << 10)

/* The defaults of forkd.conf(5), without limits: a task is the program's own code. */
static const struct options local_options = {
	.scheduler = OPTIONS_SCHEDULER_LAZY,
	.spin = 50 * NSEC_PER_USEC,
	.blocking_max = 64,
	.connection_weight = 100,
	.stack_max = LOCAL_ARENA,
	.sandbox = OPTIONS_SANDBOX_OFF,
	.worker_stack = LOCAL_STACK,
};

struct local_client {
	bool used;
	uint32_t generation;
};

static struct {
	pthread_mutex_t load_lock; /* I6 */
	pthread_mutex_t lock;
	pthread_once_t once;
	struct pool *pool;
	pthread_t dispatcher;
	struct observers *observers; /* NULL: no socket */
	/* of the thread that has started the pool: for children of tasks that fork */
	sigset_t signals;
	cpu_set_t cpus;
	int board_fd; /* -1: the board is not shared */
	uint32_t n;   /* open clients */
	struct local_client clients[LOCAL_CLIENTS];
	/* the dispatcher writes a slot that it has released */
	pthread_mutex_t released_lock;
	pthread_cond_t released;
	bool leaving[LOCAL_CLIENTS];
} local = {
	.load_lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP,
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.board_fd = -1,
	.once = PTHREAD_ONCE_INIT,
	.released_lock = PTHREAD_MUTEX_INITIALIZER,
	.released = PTHREAD_COND_INITIALIZER,
};

/* ------------------------------------------------------------------------ the host's fork() */

static void local_prepare(void)
{
	pthread_mutex_lock(&local.lock);
	pthread_mutex_lock(&local.released_lock);
}

static void local_parent(void)
{
	pthread_mutex_unlock(&local.released_lock);
	pthread_mutex_unlock(&local.lock);
}

static void local_child(void)
{
	if (local.pool)
		worker_release_signal(local.pool);
	observers_forget(local.observers);
	if (worker_self()) {
		pthread_sigmask(SIG_SETMASK, &local.signals, NULL);
		(void)sched_setaffinity(0, sizeof(local.cpus), &local.cpus);
	}
	local.pool = NULL;
	local.observers = NULL;
	local.board_fd = safe_close(local.board_fd);
	local.n = 0;
	memset(local.clients, 0, sizeof(local.clients));
	memset(local.leaving, 0, sizeof(local.leaving));
	/* If a task has forked, its child is no worker. */
	worker_set_self(NULL);
	local_parent();
	/* Its owner is a thread of the parent. */
	local.load_lock = (pthread_mutex_t)PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
}

static void local_once(void)
{
	mapping_be_private();
	log_set_level(LOG_LEVEL_NONE);
	(void)pthread_atfork(local_prepare, local_parent, local_child);
}

/* ------------------------------------------------------------------------ as the manager */

/* struct channel.hear: the pool's messages. */
static void local_hear(struct pool *pool, const struct proto_pool *message)
{
	switch (message->head.type) {
	case PROTO_POOL_RELEASED:
		pthread_mutex_lock(&local.released_lock);
		local.leaving[message->client] = false;
		pthread_cond_broadcast(&local.released);
		pthread_mutex_unlock(&local.released_lock);
		break;
	case PROTO_POOL_ASK_CPUS:
		park_set_most(pool, cgroup_cpus(""));
		break;
	default:
		break;
	}
}

static bool local_is_leaving(uint32_t slot)
{
	bool leaving;

	pthread_mutex_lock(&local.released_lock);
	leaving = local.leaving[slot];
	pthread_mutex_unlock(&local.released_lock);
	return leaving;
}

/* ------------------------------------------------------------------------ start and end */

static struct attach_source local_source(uint32_t kind, uint64_t size)
{
	return (struct attach_source){ .fd = -1,
				       .base = segment_private(kind, size),
				       .size = size };
}

/* The board is memory of this process, unless observers are to see it. */
static int local_map_board(struct pool *pool, bool shared)
{
	void *base;
	int r;

	pool->board_size = board_size(pool->n_workers);
	if (!shared) {
		pool->board = segment_private(SEGMENT_BOARD, pool->board_size);
		return pool->board ? 0 : -ENOMEM;
	}
	local.board_fd = segment_create("forkd-board", SEGMENT_BOARD, pool->board_size, 1, 0, 0600);
	if (local.board_fd < 0)
		return local.board_fd;
	r = segment_map(local.board_fd, SEGMENT_BOARD, SEGMENT_WRITE, 1, &base, NULL);
	if (r == 0)
		pool->board = base;
	return r;
}

/* As large as the system allows: valgrind and ulimit -v leave less address space. */
static void local_map_arena(struct pool *pool)
{
	uint64_t fixed = arena_workers_offset(LOCAL_CLIENTS, LOCAL_JOBS_MAX);

	for (uint64_t space = mapping_space(LOCAL_ARENA); !pool->arena && space >= LOCAL_LEAST;
	     space /= 2) {
		pool->arena_size = fixed + space;
		pool->arena = segment_private(SEGMENT_ARENA, pool->arena_size);
	}
}

/* Signals of the program are for its own threads, except for faults, and for profilers. */
static void local_block_signals(sigset_t *ret_before)
{
	static const int own[] = { SIGSEGV, SIGBUS, SIGFPE,  SIGILL,
				   SIGTRAP, SIGSYS, SIGABRT, SIGPROF };
	sigset_t set;

	sigfillset(&set);
	for (size_t i = 0; i < ARRAY_SIZE(own); i++)
		sigdelset(&set, own[i]);
	pthread_sigmask(SIG_BLOCK, &set, ret_before);
}

/* A task has ended its worker by pthread_exit(): its job would never end, nor fk_close(). */
static void local_lost_worker(void *unused)
{
	(void)unused;
	/* NULL: in a child of fork() the thread is no worker. */
	if (worker_self())
		abort();
}

/* The stacks of fibers are too small for handlers of signals. */
static void *local_worker(void *arg)
{
	struct worker *w = arg;
	stack_t stack = { .ss_size = LOCAL_SIGNAL_STACK }, before;

	stack.ss_sp = mmap(NULL, stack.ss_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			   -1, 0);
	if (stack.ss_sp != MAP_FAILED)
		(void)sigaltstack(&stack, &before);
	/* Not pinned yet: its CPU may be busy. park_look() pins workers that stay awake. */
	pthread_cleanup_push(local_lost_worker, NULL);
	(void)worker_main(w);
	pthread_cleanup_pop(0);
	if (stack.ss_sp != MAP_FAILED) {
		(void)sigaltstack(&before, NULL);
		(void)munmap(stack.ss_sp, stack.ss_size);
	}
	return NULL;
}

static void local_free(struct pool *pool)
{
	pool_free(pool);
	local.board_fd = safe_close(local.board_fd);
}

/* Ends the threads that run; the dispatcher first if there is one. */
static void local_join(struct pool *pool, const pthread_t *dispatcher)
{
	if (dispatcher) {
		/* ORDER pool/stop [Q2]: release, as channel_drain(). */
		atomic_store_explicit(&pool->stop, POOL_DRAINING, memory_order_release);
		pool_wake_dispatcher(pool);
		pthread_join(*dispatcher, NULL);
	} else {
		pool_stop_workers(pool);
	}
	pool_join_workers(pool);
}

/* One worker, and the others when there is work for them: a thread costs the program 20 us. */
static int local_start_threads(struct pool *pool)
{
	int r = pool_start_threads(pool, local_worker, dispatcher_main, 1, &local.dispatcher);

	if (r < 0)
		local_join(pool, NULL);
	return r;
}

static int local_prepare_pool(struct pool *pool, const struct fk_local_options *options)
{
	struct topology *topology;
	char error[256];
	int r = topology_own(options->workers, error, sizeof(error), &topology);

	if (r < 0)
		return r;
	pool->n_workers = topology_n_workers(topology);
	r = layout_place(pool, topology);
	if (r < 0)
		return r;
	r = local_map_board(pool, options->socket);
	if (r < 0)
		return r;
	local_map_arena(pool);
	if (!pool->arena)
		return -ENOMEM;
	pool->board->manager.pid = (uint32_t)pool->pid;
	pool->board->manager.n_workers = pool->n_workers;
	pool->board->manager.jobs_max = pool->arena->jobs_max = pool->jobs_max = LOCAL_JOBS_MAX;
	pool->board->manager.clients_max = pool->clients_max = LOCAL_CLIENTS;
	pool->arena->clients_max = LOCAL_CLIENTS;
	pool->arena->n_workers = pool->n_workers;
	pool->board->manager.started_ns = clock_ns();
	strncpy(pool->board->manager.version, PACKAGE_VERSION,
		sizeof(pool->board->manager.version) - 1);
	store_relaxed(&pool->board->manager.state, BOARD_RUNNING);
	store_relaxed(&pool->board->manager.pool_pid, (uint32_t)pool->pid);
	store_relaxed(&pool->board->manager.pool_generation, 1);
	r = pool_make_rows(pool);
	if (r == 0)
		r = pool_set_fork_mode(pool);
	if (r == 0)
		r = layout_make(pool, -1);
	if (r == 0)
		r = intake_init(pool);
	if (r == 0)
		r = modules_add(&pool->modules, &program_module, error, sizeof(error));
	return r == 0 ? modules_settle(&pool->modules, pool->board) : r;
}

/* With the lock held: makes the pool, without threads. */
static int local_make(const struct fk_local_options *options)
{
	struct pool *pool = pool_new();
	int r;

	if (!pool)
		return -ENOMEM;
	pool->options = &local_options;
	pool->pid = getpid();
	channel_init(&pool->channel, -1);
	pool->channel.hear = local_hear;
	r = local_prepare_pool(pool, options);
	if (r < 0)
		local_free(pool);
	else
		local.pool = pool;
	return r;
}

/* With the lock held: starts the threads. */
static int local_start(const struct fk_local_options *options)
{
	struct pool *pool = local.pool;
	int r;

	(void)sched_getaffinity(0, sizeof(local.cpus), &local.cpus);
	local_block_signals(&local.signals);
	if (!(options->flags & FK_NO_SIGNAL))
		(void)worker_catch_free_signal(pool, &local.signals);
	bell_begin();
	park_begin(pool);
	r = local_start_threads(pool);
	if (r == 0 && options->socket) {
		r = observers_begin(pool, local.board_fd, options->socket, &local.observers);
		if (r < 0)
			local_join(pool, &local.dispatcher);
	}
	pthread_sigmask(SIG_SETMASK, &local.signals, NULL);
	return r;
}

/* With the lock held, and no client: no code of the program runs in the pool (I5). */
static void local_end(void)
{
	struct pool *pool = local.pool;

	local.pool = NULL;
	observers_end(local.observers);
	local.observers = NULL;
	local_join(pool, &local.dispatcher);
	local_free(pool);
}

/* ------------------------------------------------------------------------ clients */

/* Gives the records of a slot generations that its rows have not seen (I3). */
static void local_reset_rows(struct pool *pool, uint32_t slot, struct job *jobs, uint32_t n_jobs)
{
	const _Atomic uint64_t *rows = arena_rows(pool->arena) + (uint64_t)slot * pool->jobs_max;

	/* Relaxed: the pool has released the slot. */
	for (uint32_t i = 0; i < n_jobs; i++) {
		struct ledger_row row = ledger_unpack(load_relaxed(&rows[i]));

		if (!row.generation)
			continue;
		store_relaxed(&jobs[i].generation, row.generation);
		store_relaxed(&jobs[i].state, job_state(row.generation, JOB_IDLE));
	}
}

/* Shows a new client on the board. Relaxed: for display. */
static void local_show(uint32_t slot, uint32_t n)
{
	struct board *board = local.pool->board;
	struct board_client *client = &board->clients[slot];

	(void)prctl(PR_GET_NAME, client->comm);
	store_relaxed(&client->pid, (uint32_t)local.pool->pid);
	store_relaxed(&client->uid, geteuid());
	store_relaxed(&client->generation, local.clients[slot].generation);
	store_relaxed(&client->tenant, 0);
	store_relaxed(&client->user_weight, FAIR_WEIGHT);
	store_relaxed(&client->connected_ns, clock_ns());
	store_relaxed(&client->left_ns, 0);
	store_relaxed(&board->tenants[0].uid, geteuid());
	store_relaxed(&board->tenants[0].since_ns, board->manager.started_ns);
	store_relaxed(&board->manager.tenants, 1);
	store_relaxed(&board->manager.clients, n);
	store_relaxed(&board->manager.accepted, load_relaxed(&board->manager.accepted) + 1);
}

/* With the lock held: the only tenant, for the first client. */
static int local_attach_tenant(struct pool *pool)
{
	struct attach_source source;
	int r;

	if (clients_segment(pool, 0))
		return 0;
	source = local_source(SEGMENT_TENANT, tenant_segment_size(pool->n_workers));
	r = source.base ? intake_add_tenant(pool, 0, FAIR_WEIGHT, source) : -ENOMEM;
	if (r == 0)
		clients_segment(pool, 0)->n_rings = pool->n_workers;
	return r;
}

/* With the lock held. */
static int local_attach(uint32_t slot, uint32_t n_jobs, uint64_t heap_size)
{
	struct pool *pool = local.pool;
	const struct intake_newcomer newcomer = {
		.slot = slot,
		.generation = ++local.clients[slot].generation,
		.weight = FAIR_WEIGHT,
		.n_jobs = n_jobs,
	};
	uint64_t heap_offset = client_segment_heap_offset(n_jobs);
	struct client_segment *segment;
	struct attach_source source;
	int r = local_attach_tenant(pool);

	if (r < 0)
		return r;
	store_relaxed(&pool->arena->heap_sizes[slot], heap_size);
	source = local_source(SEGMENT_CLIENT, heap_offset + heap_size);
	r = source.base ? intake_add_client(pool, &newcomer, source) : -ENOMEM;
	if (r < 0)
		return r;
	segment = pool->clients.entries[slot].segment;
	segment->client = slot;
	segment->generation = newcomer.generation;
	segment->n_jobs = n_jobs;
	segment->jobs_offset = sizeof(*segment);
	segment->heap_offset = heap_offset;
	segment->heap_max = heap_size;
	store_relaxed(&segment->heap_size, heap_size);
	local_reset_rows(pool, slot, pool->clients.entries[slot].jobs, n_jobs);
	local.clients[slot].used = true;
	local_show(slot, ++local.n);
	pool_wake_dispatcher(pool);
	return 0;
}

static uint32_t local_free_slot(void)
{
	uint32_t slot = 0;

	while (slot < LOCAL_CLIENTS && (local.clients[slot].used || local_is_leaving(slot)))
		slot++;
	return slot;
}

/* With the lock held. */
static int local_open(const struct fk_local_options *options, uint32_t *ret_slot)
{
	uint32_t slot = local_free_slot();
	bool first = !local.pool;
	int r = slot < LOCAL_CLIENTS ? 0 : -EBUSY;

	if (r == 0 && first)
		r = local_make(options);
	if (r == 0)
		r = local_attach(slot, options->n_jobs ? options->n_jobs : LOCAL_JOBS,
				 options->heap_size ? align_up(options->heap_size, 4096)
						    : max(mapping_space(LOCAL_HEAP), LOCAL_LEAST));
	/* After the client has its memory: page faults cost more in a process with threads. */
	if (r == 0 && first)
		r = local_start(options);
	if (r < 0 && first && local.pool) {
		local_free(local.pool);
		local.pool = NULL;
		local.n = 0;
		local.clients[slot].used = false;
	}
	*ret_slot = slot;
	return r;
}

int local_pool_open(const struct fk_local_options *options, uint32_t *ret_slot,
		    struct client_place *ret_place)
{
	const struct client_entry *client;
	int r;

	pthread_once(&local.once, local_once);
	pthread_mutex_lock(&local.lock);
	r = local_open(options, ret_slot);
	if (r == 0) {
		client = &local.pool->clients.entries[*ret_slot];
		*ret_place = (struct client_place){
			.board = local.pool->board,
			.board_size = local.pool->board_size,
			.tenant = local.pool->clients.tenants[0].base,
			.tenant_size = local.pool->clients.tenants[0].size,
			.segment = client->segment,
			.segment_size = client->segment_size,
		};
	}
	pthread_mutex_unlock(&local.lock);
	return r;
}

void local_pool_close(uint32_t slot)
{
	struct local_client *client = &local.clients[slot];

	pthread_mutex_lock(&local.lock);
	pthread_mutex_lock(&local.released_lock);
	local.leaving[slot] = true;
	pthread_mutex_unlock(&local.released_lock);
	client->used = false;
	store_relaxed(&local.pool->board->clients[slot].left_ns, clock_ns());
	clients_gone(local.pool, slot, client->generation);
	/* Tasks still run, and may need the lock. */
	pthread_mutex_unlock(&local.lock);
	pthread_mutex_lock(&local.released_lock);
	while (local.leaving[slot])
		pthread_cond_wait(&local.released, &local.released_lock);
	pthread_mutex_unlock(&local.released_lock);
	pthread_mutex_lock(&local.lock);
	store_relaxed(&local.pool->board->manager.clients, --local.n);
	if (!local.n)
		local_end();
	pthread_mutex_unlock(&local.lock);
}

void local_pool_cancel(uint32_t slot, uint32_t job, uint32_t generation)
{
	pthread_mutex_lock(&local.lock);
	job_cancel(local.pool, slot * local.pool->jobs_max + job, generation);
	pthread_mutex_unlock(&local.lock);
}

void local_pool_import(uint32_t slot, char *base)
{
	/* ORDER client/imports [K3]: release, the address space is mapped. Pairs with
	 * input_import(). */
	atomic_store_explicit(&local.pool->clients.entries[slot].imports, base,
			      memory_order_release);
}

void local_pool_ring(void)
{
	bell_ring(&local.pool->board->dispatcher, &local.pool->arena->bell);
}

void local_pool_wake(uint32_t worker)
{
	worker_wake(local.pool, worker, NULL);
}

int local_pool_load(const char *path, char *error, size_t size)
{
	struct pool *pool = local.pool;
	const struct fk_module *module;
	struct stat st;
	int r;

	pthread_mutex_lock(&local.load_lock);
	r = module_open_patiently(path, &module, &st, error, size);
	pthread_mutex_lock(&local.lock);
	if (r == 0)
		r = modules_join_module(&pool->modules, pool->board, module, path, error, size);
	if (r == 0)
		modules_enter(&pool->modules, pool->board);
	pthread_mutex_unlock(&local.lock);
	pthread_mutex_unlock(&local.load_lock);
	return r;
}
