/* SPDX-License-Identifier: MIT */
/*
 * daemon/pool.c - the pool process
 *
 * WHO CALLS IT, ON WHICH THREAD
 *   pool_run() is the process's main thread: it reads the channel and maps segments. The
 *   dispatcher is a thread of its own, because a futex and a socket cannot be waited for together
 *   on kernel 6.1. Workers are threads, pinned.
 *
 * THE DISPATCHER
 *   Sleeps on its wake word on the board. A client that finds every worker busy wakes it, as does a
 *   worker that becomes busy and leaves jobs waiting with nobody looking. As long as jobs wait, it
 *   sees to it, every DISPATCHER_TICK, that somebody comes: wakes a sleeper, or summons the next
 *   busy worker: that one sets its continuation aside at its next fork and starts the queued job.
 *   A summons reaches another worker each time, so that one in a long leaf delays nothing.
 *   It also releases dead clients, and ends the pool once all is done after PROTO_POOL_STOP.
 *
 * WHAT HAPPENS IF A PEER DIES HERE
 *   The manager: the channel ends, and the process exits. The pool: its fault handler leaves the
 *   worker, signal and address in the arena, for blame, and lets the signal kill the process.
 */
#include "daemon/pool.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "daemon/strand.h"
#include "daemon/topology.h"
#include "shm/futex.h"
#include "shm/proto.h"
#include "shm/segment.h"
#include "shm/wake.h"

#define DISPATCHER_TICK (200 * NSEC_PER_USEC)
#define POOL_DEQUE_MAX	(UINT64_C(1) << 22) /* entries */
#define POOL_SIGSTACK	65536u
#define POOL_PAGE	UINT64_C(4096)

/* For the fault handler and the exit hook only. */
static struct pool *the_pool;

struct pool_thread {
	struct pool *pool;
	struct topology *topology;
	uint32_t worker;
};

bool pool_wake_word(_Atomic uint32_t *word, uint32_t value)
{
	uint32_t looking = (value & ~WAKE_STATE) | WAKE_LOOKING;

	/* The sleeper's own change, made for it (W5): if it is on its way into the futex it does
	 * not go in, and nobody wakes it twice because it has not come to run yet. */
	if (!atomic_compare_exchange_strong_explicit(word, &value, looking, memory_order_relaxed,
						     memory_order_relaxed))
		return false;
	futex_wake(word, INT32_MAX);
	return true;
}

void pool_wake_dispatcher(struct pool *pool)
{
	uint32_t value;

	wake_published();
	value = wake_load(&pool->board->dispatcher);
	if (wake_state(value) == WAKE_SLEEPING)
		pool_wake_word(&pool->board->dispatcher, value);
}

void pool_send(struct pool *pool, uint32_t type, uint32_t client, uint32_t generation,
	       const char *text)
{
	struct proto_pool message = {
		.head = { .magic = PROTO_MAGIC, .type = type },
		.client = client,
		.client_generation = generation,
	};
	int r;

	strncpy(message.text, text, sizeof(message.text) - 1);
	pthread_mutex_lock(&pool->channel_lock);
	while ((r = proto_send(pool->channel, &message, sizeof(message), NULL, 0)) == -EAGAIN)
		usleep(1000);
	pthread_mutex_unlock(&pool->channel_lock);
	if (r < 0)
		log_debug("the manager cannot be told: %s", strerror(-r));
}

bool pool_take_summons(struct worker *w)
{
	/* ORDER summons [M1]: acquire, pairs with pool_summon(). */
	if (!atomic_exchange_explicit(&w->summoned, 0, memory_order_acquire))
		return false;
	if (!deque_size(&w->roots))
		intake_drain(w);
	if (deque_size(&w->roots))
		return true;
	/* Another worker's batch: half of it comes here. */
	for (uint32_t i = 0; i < w->pool->n_workers; i++) {
		uint64_t rows[WORKER_ROOTS], n;

		if (deque_steal(&w->pool->workers[i].roots, rows, WORKER_ROOTS, &n) != DEQUE_STOLEN)
			continue;
		deque_reclaim(&w->roots);
		deque_reset(&w->roots);
		for (uint64_t k = 0; k < n; k++)
			atomic_store_explicit(&w->roots.entries[k].word, rows[k],
					      memory_order_relaxed);
		deque_publish(&w->roots, n);
		COUNT_ADD(w, root_steals, n);
		return true;
	}
	return false;
}

/* Asks a worker to serve a waiting job at its next fork. */
static void pool_summon(struct worker *w)
{
	/* ORDER summons [M1]: release, pairs with pool_take_summons(). */
	atomic_store_explicit(&w->summoned, 1, memory_order_release);
	worker_ask(w);
}

static bool pool_anybody_looks(struct pool *pool)
{
	for (uint32_t i = 0; i < pool->n_workers; i++)
		if (wake_state(wake_load(&pool->workers[i].board->wake)) == WAKE_LOOKING)
			return true;
	return false;
}

bool pool_dispatch(struct pool *pool, uint32_t *next)
{
	bool waiting = worker_jobs_pending(pool);
	bool dying = intake_release(pool);
	uint32_t stop = atomic_load_explicit(&pool->stop, memory_order_relaxed);

	if (waiting && !pool_anybody_looks(pool) && !worker_wake_one(pool, NULL)) {
		struct worker *w = &pool->workers[(*next)++ % pool->n_workers];

		/* All are busy, or about to look; a summons to one that is not busy does no harm. */
		pool_summon(w);
	}
	return waiting || dying || stop;
}

void pool_stop_workers(struct pool *pool)
{
	atomic_store(&pool->stop, POOL_ENDING);
	wake_published();
	for (uint32_t i = 0; i < pool->n_workers; i++) {
		_Atomic uint32_t *word = &pool->workers[i].board->wake;
		uint32_t value = wake_load(word);

		if (wake_state(value) == WAKE_SLEEPING)
			pool_wake_word(word, value);
	}
}

static void *pool_dispatcher(void *arg)
{
	struct pool *pool = arg;
	_Atomic uint32_t *word = &pool->board->dispatcher;
	uint32_t next = 0;

	pthread_setname_np(pthread_self(), "forkd-dispatch");
	prctl(PR_SET_TIMERSLACK, 1000UL);
	for (;;) {
		uint32_t value = wake_prepare(word);
		bool soon = pool_dispatch(pool, &next);

		if (atomic_load(&pool->stop) == POOL_DRAINING && !worker_jobs_pending(pool) &&
		    !(atomic_load(&pool->census) >> 32) && !worker_jobs_pending(pool)) {
			pool_stop_workers(pool);
			/* Who finds SLEEPING wakes until somebody woke: leave nothing to wake. */
			wake_store(word, WAKE_LOOKING);
			return NULL;
		}
		futex_wait(word, value, soon ? clock_ns() + DISPATCHER_TICK : 0);
		wake_store(word, WAKE_LOOKING);
	}
}

static void pool_blame(int signo, uint64_t address)
{
	struct worker *w = worker_self();
	struct ledger_fault *fault = w ? &w->pool->arena->fault : NULL;
	uint32_t nobody = 0;

	if (!fault || !atomic_compare_exchange_strong(&fault->worker, &nobody, w->index + 1))
		return;
	atomic_store(&fault->signo, (uint32_t)signo);
	atomic_store(&fault->address, address);
}

/* Async-signal-safe: atomics, and the default action again. */
static void pool_fault(int signo, siginfo_t *info, void *context)
{
	(void)context;
	pool_blame(signo, (uint64_t)(uintptr_t)info->si_addr);
	signal(signo, SIG_DFL);
	raise(signo);
}

/* A task called exit(): no signal, but somebody is to blame. */
static void pool_exit_hook(void)
{
	if (the_pool && worker_self())
		pool_blame(0, 0);
}

static void *pool_worker(void *arg)
{
	struct pool_thread *thread = arg;
	struct worker *w = &thread->pool->workers[thread->worker];
	stack_t alt = { .ss_sp = malloc(POOL_SIGSTACK), .ss_size = POOL_SIGSTACK };
	int r = topology_bind(thread->topology, thread->worker);

	if (r < 0)
		log_warning("worker %u cannot be pinned: %s", thread->worker, strerror(-r));
	if (alt.ss_sp)
		sigaltstack(&alt, NULL);
	worker_main(w);
	alt.ss_flags = SS_DISABLE;
	sigaltstack(&alt, NULL);
	free(alt.ss_sp);
	return NULL;
}

int pool_lay_out(struct pool *pool, int arena_fd)
{
	uint64_t offset = arena_workers_offset(pool->arena->max_clients, pool->arena->max_jobs);
	uint64_t left = pool->arena_size > offset ? pool->arena_size - offset : 0;
	uint64_t n = pool->n_workers, entries = POOL_DEQUE_MAX;
	uint64_t fixed = n * (sizeof(struct worker) + WORKER_ROOTS * sizeof(struct fk_entry));
	char *at = (char *)pool->arena + offset;

	/* The deques get an eighth of the arena at most. */
	while (entries > 1024 && n * entries * sizeof(struct fk_entry) > left / 8)
		entries /= 2;
	fixed = align_up(fixed, POOL_PAGE) + n * entries * sizeof(struct fk_entry);
	if (left < fixed + (n * 64 + 64) * STACK_MIN)
		return -ENOSPC;
	/* What a former pool left there. */
	if (fallocate(arena_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset,
		      (off_t)left) < 0)
		return -errno;
	pool->workers = (struct worker *)at;
	at += n * sizeof(struct worker);
	struct fk_entry *roots = (struct fk_entry *)at;

	at = (char *)align_up((uint64_t)(uintptr_t)(roots + n * WORKER_ROOTS), POOL_PAGE);
	for (uint32_t i = 0; i < n; i++) {
		worker_init(&pool->workers[i], pool, i, (struct fk_entry *)at, entries,
			    roots + (uint64_t)i * WORKER_ROOTS);
		at += entries * sizeof(struct fk_entry);
	}
	return stack_arena_init(&pool->stacks, at, (char *)pool->arena + pool->arena_size, arena_fd,
				(char *)pool->arena);
}

/* Maps board and arena. */
static int pool_map(struct pool *pool, const int *fds)
{
	void *base;
	int r = segment_map(fds[0], SEGMENT_BOARD, 1, 0, &base, &pool->board_size);

	if (r < 0)
		return r;
	pool->board = base;
	r = segment_map(fds[1], SEGMENT_ARENA, 1, pool->board->head.epoch, &base,
			&pool->arena_size);
	if (r < 0)
		return r;
	pool->arena = base;
	pool->n_workers = pool->board->manager.n_workers;
	if (!pool->n_workers || pool->n_workers > LIMIT_WORKERS ||
	    pool->arena->n_workers != pool->n_workers)
		return -EBADMSG;
	for (uint32_t t = 0; t < LIMIT_TENANTS; t++)
		for (uint32_t i = 0; i < pool->n_workers; i++)
			atomic_store(&pool->arena->rings[t][i].consumer, 0);
	memset(&pool->arena->fault, 0, sizeof(pool->arena->fault));
	memset(pool->board->counters, 0, sizeof(pool->board->counters));
	pool->roots = calloc((uint64_t)pool->arena->max_clients * pool->arena->max_jobs,
			     sizeof(*pool->roots));
	return pool->roots ? 0 : -ENOMEM;
}

static void pool_catch_faults(void)
{
	static const int signals[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS };
	struct sigaction action = { .sa_sigaction = pool_fault,
				    .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESETHAND };
	sigset_t set;

	for (uint32_t i = 0; i < ARRAY_SIZE(signals); i++)
		sigaction(signals[i], &action, NULL);
	atexit(pool_exit_hook);
	/* The manager decides when this process ends. */
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
}

static int pool_start_threads(struct pool *pool, struct topology *topology,
			      struct pool_thread *threads, pthread_t *ret_dispatcher)
{
	pthread_attr_t attr;
	int r;

	pthread_attr_init(&attr);
	r = -pthread_attr_setstacksize(&attr, WORKER_STACK);
	atomic_store(&pool->board->dispatcher, WAKE_LOOKING);
	for (uint32_t i = 0; i < pool->n_workers && r == 0; i++) {
		const struct topology_place *place = topology_place(topology, i);

		atomic_store(&pool->board->workers[i].cpu, place->cpu);
		atomic_store(&pool->board->workers[i].node, place->node);
		threads[i] =
			(struct pool_thread){ .pool = pool, .topology = topology, .worker = i };
		r = -pthread_create(&pool->workers[i].thread, &attr, pool_worker, &threads[i]);
	}
	if (r == 0)
		r = -pthread_create(ret_dispatcher, NULL, pool_dispatcher, pool);
	pthread_attr_destroy(&attr);
	return r;
}

/* Serves the channel. Returns true after PROTO_POOL_STOP, false if the manager is gone. */
static bool pool_serve(struct pool *pool)
{
	for (;;) {
		union proto_message m;
		int fds[PROTO_MAX_FDS], r;
		uint32_t n_fds = 0;
		const char *why = "";

		r = proto_recv(pool->channel, &m, fds, &n_fds, 0);
		if (r == -EINTR)
			continue;
		if (r <= 0)
			return false;
		switch (m.head.type) {
		case PROTO_POOL_TENANT:
			r = n_fds == 1 ? intake_add_tenant(pool, m.pool.tenant, m.pool.uid, fds[0])
				       : -EBADMSG;
			if (r < 0)
				log_error("tenant %u cannot be mapped: %s", m.pool.tenant,
					  strerror(-r));
			pool_wake_dispatcher(pool);
			break;
		case PROTO_POOL_CLIENT:
			r = n_fds == 1
				  ? intake_add_client(pool, m.pool.client, m.pool.client_generation,
						      m.pool.tenant, m.pool.uid, m.pool.pid,
						      m.pool.n_jobs, fds[0])
				  : -EBADMSG;
			if (r < 0) {
				why = strerror(-r);
				log_error("client %u (pid %u) cannot be mapped: %s", m.pool.client,
					  m.pool.pid, why);
			}
			pool_send(pool, PROTO_POOL_ATTACHED, m.pool.client,
				  m.pool.client_generation, why);
			pool_wake_dispatcher(pool);
			break;
		case PROTO_POOL_GONE:
			intake_gone(pool, m.pool.client, m.pool.client_generation);
			break;
		case PROTO_POOL_STOP:
			atomic_store(&pool->stop, POOL_DRAINING);
			pool_wake_dispatcher(pool);
			return true;
		default:
			log_error("message %u on the channel is not known", m.head.type);
		}
		for (uint32_t i = 0; i < n_fds; i++)
			close(fds[i]);
	}
}

/* After all threads have ended. Modules stay loaded. */
static void pool_free(struct pool *pool)
{
	the_pool = NULL;
	intake_fini(pool);
	for (uint32_t i = 0; pool->workers && i < pool->n_workers; i++)
		free(pool->workers[i].forced);
	stack_arena_fini(&pool->stacks);
	segment_unmap(pool->arena, pool->arena_size);
	segment_unmap(pool->board, pool->board_size);
	free(pool->roots);
	pthread_mutex_destroy(&pool->channel_lock);
	free(pool);
}

static int pool_fail(struct pool *pool, const char *what, int r)
{
	char text[200];

	snprintf(text, sizeof(text), "%.120s: %.60s", what, strerror(-r));
	/* The manager logs it. */
	pool_send(pool, PROTO_POOL_FAILED, 0, 0, text);
	return EXIT_FAILURE;
}

/* All that can fail before there are threads. Returns 0, or an exit status after saying why. */
static int pool_prepare(struct pool *pool, const int *fds, struct topology **ret_topology)
{
	const struct options *options = pool->options;
	char error[256];
	int r = pool_map(pool, fds);

	if (r < 0)
		return pool_fail(pool, "cannot map the arena", r);
	r = pool_lay_out(pool, fds[1]);
	if (r < 0)
		return pool_fail(pool, "arena-max is too small for so many workers", r);
	r = topology_new(NULL, pool->n_workers, options->cpus, error, sizeof(error), ret_topology);
	if (r < 0)
		return pool_fail(pool, error, r);
	r = modules_load(&pool->modules, pool->board, options->module_dir);
	if (r < 0) {
		snprintf(error, sizeof(error),
			 "module-dir %.60s (to be root's or forkd's own, and go-w)",
			 options->module_dir);
		return pool_fail(pool, error, r);
	}
	return 0;
}

int pool_run(const struct options *options, int channel)
{
	struct pool *pool = NULL;
	struct pool_thread *threads = NULL;
	struct topology *topology = NULL;
	pthread_t dispatcher;
	union proto_message m;
	int fds[PROTO_MAX_FDS], r;
	uint32_t n_fds = 0;

	log_set_name("forkd-pool");
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	r = proto_recv(channel, &m, fds, &n_fds, 0);
	if (r <= 0 || m.head.type != PROTO_POOL_START || n_fds != 2) {
		log_error("--pool is for forkd itself; start forkd without it");
		return EXIT_FAILURE;
	}
	r = posix_memalign((void **)&pool, 64, sizeof(*pool));
	if (r)
		return EXIT_FAILURE;
	memset(pool, 0, sizeof(*pool));
	pool->options = options;
	pool->channel = channel;
	pthread_mutex_init(&pool->channel_lock, NULL);
	intake_init(pool);
	r = pool_prepare(pool, fds, &topology);
	if (r) {
		topology_free(topology);
		pool_free(pool);
		return r;
	}
	the_pool = pool;
	pool_catch_faults();
	threads = calloc(pool->n_workers, sizeof(*threads));
	r = threads ? pool_start_threads(pool, topology, threads, &dispatcher) : -ENOMEM;
	if (r < 0)
		_exit(pool_fail(pool, "cannot start a thread", r)); /* some run already */
	pool_send(pool, PROTO_POOL_READY, 0, 0, "");
	if (!pool_serve(pool))
		_exit(EXIT_FAILURE); /* nobody is left to give outcomes to */
	pthread_join(dispatcher, NULL);
	for (uint32_t i = 0; i < pool->n_workers; i++)
		pthread_join(pool->workers[i].thread, NULL);
	pool_send(pool, PROTO_POOL_STOPPED, 0, 0, "");
	free(threads);
	topology_free(topology);
	pool_free(pool);
	return EXIT_SUCCESS;
}
