/* SPDX-License-Identifier: MIT */
/*
 * daemon/pool.c - the pool process
 *
 * WHO CALLS IT, ON WHICH THREAD
 *   pool_run() is the process's main thread: it reads the channel and maps segments. The
 *   dispatcher (dispatcher.h) is a thread of its own, because a futex and a socket cannot be waited
 *   for together on kernel 6.1. Workers are threads, pinned.
 *
 * THE CHANNEL
 *   Its thread reads to the end, while the pool drains too: a client may leave, or cancel what the
 *   pool would wait for. The dispatcher shuts the reading side when nothing is left to do.
 *
 * DESCRIPTORS
 *   While tasks run the process has 0 to 2 and the channel: what it got over that, and modules'
 *   files, are mapped by then and closed. Others that come over it are open while they are mapped.
 *
 * WHAT HAPPENS IF A PEER DIES HERE
 *   The manager: the channel ends, and the process exits. The pool: its fault handler leaves the
 *   worker, signal and address in the arena, for blame, and lets the signal kill the process.
 */
#include "daemon/pool.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/urgent.h"
#include "daemon/profile.h"
#include "daemon/root.h"
#include "daemon/shake.h"
#include "daemon/strand.h"
#include "daemon/topology.h"
#include "daemon/victims.h"
#include "shm/futex.h"
#include "shm/proto.h"
#include "shm/segment.h"
#include "shm/wake.h"

#define POOL_DEQUE_MAX (UINT64_C(1) << 22) /* entries */
#define POOL_SIGSTACK  65536u
#define POOL_PAGE      UINT64_C(4096)
/* Below a worker's C stack: a module may be compiled without stack probes, and the frame that
 * overflows is larger than a page then. Who steps over it is in another worker's stack. */
#define POOL_GUARD (1u << 20)

/* For the fault handler and the exit hook only. */
static struct pool *the_pool;

struct pool_thread {
	struct pool *pool;
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

/* Something has changed that every worker has to see. */
static void pool_wake_all(struct pool *pool)
{
	/* ORDER pool/settings [P1]: full, the change comes before the look at the words. Pairs with
	 * worker_rest(). */
	wake_published();
	for (uint32_t i = 0; i < pool->n_workers; i++) {
		_Atomic uint32_t *word = &pool->workers[i].board->wake;
		uint32_t value = wake_load(word);

		if (wake_state(value) == WAKE_SLEEPING)
			pool_wake_word(word, value);
	}
}

void pool_stop_workers(struct pool *pool)
{
	atomic_store(&pool->stop, POOL_ENDING);
	pool_wake_all(pool);
}

int pool_set(struct pool *pool, const char *name, const char *value)
{
	struct options_error error;
	struct options changed;
	int r = options_init(&changed);

	if (r < 0)
		return r;
	r = options_change(&changed, name, value, &error);
	/* Relaxed: pool_wake_all(). */
	if (r == 0 && streq(name, "scheduler"))
		atomic_store_explicit(&pool->scheduler, changed.scheduler, memory_order_relaxed);
	if (r == 0 && streq(name, "spin"))
		atomic_store_explicit(&pool->spin, changed.spin, memory_order_relaxed);
	options_fini(&changed);
	if (r == 0)
		pool_wake_all(pool);
	return r;
}

struct worker *pool_worker_at(struct pool *pool, uint32_t index)
{
	return index < pool->n_workers ? &pool->workers[index] : NULL;
}

uint32_t pool_group_on(struct pool *pool, uint32_t node)
{
	uint32_t n;

	for (uint32_t g = 0; g < pool->n_groups; g++) {
		uint32_t first = topology_members(pool->topology, g, &n)[0];

		if (topology_place(pool->topology, first)->node == node)
			return g;
	}
	return pool->n_groups;
}

struct worker *pool_worker_on(struct pool *pool, struct worker *near, uint32_t node)
{
	uint32_t group = pool_group_on(pool, node), n;
	const uint32_t *members;
	struct worker *w = NULL;

	if (group == pool->n_groups)
		return NULL;
	if (group == near->group)
		return near;
	/* One that is not busy; if all are, the last. */
	members = topology_members(pool->topology, group, &n);
	for (uint32_t i = 0; i < n; i++) {
		w = &pool->workers[members[(near->index + i) % n]];
		if (wake_state(wake_load(&w->board->wake)) != WAKE_BUSY)
			break;
	}
	return w;
}

int pool_withhold(void *base, uint64_t size, bool secret)
{
	if (madvise(base, size, MADV_DONTFORK) < 0 ||
	    (secret && madvise(base, size, MADV_DONTDUMP) < 0))
		return -errno;
	return 0;
}

static void pool_blame(int signo, uint64_t address)
{
	struct worker *w = the_pool ? worker_self() : NULL;
	struct ledger_fault *fault = w ? &the_pool->arena->fault : NULL;
	uint32_t nobody = 0;

	if (!fault || !atomic_compare_exchange_strong(&fault->worker, &nobody, w->index + 1))
		return;
	atomic_store(&fault->signo, (uint32_t)signo);
	atomic_store(&fault->address, address);
}

/* True if it was this thread that made the signal: the kernel for what it did, or it for itself, as
 * abort() does. Else it was sent to the process, and comes to whatever thread the kernel picks: an
 * operator's kill(2), systemd's watchdog, and what a task sends to the pool's pid. */
static bool pool_is_own_fault(const siginfo_t *info)
{
	return info->si_code > 0 || (info->si_code == SI_TKILL && info->si_pid == getpid());
}

/* Async-signal-safe: atomics, and the default action again. */
static void pool_fault(int signo, siginfo_t *info, void *context)
{
	(void)context;
	if (pool_is_own_fault(info))
		pool_blame(signo, info->si_code > 0 ? (uint64_t)(uintptr_t)info->si_addr : 0);
	signal(signo, SIG_DFL);
	raise(signo);
}

/* A task called exit(): no signal, but somebody is to blame. */
static void pool_exit_hook(void)
{
	if (the_pool && worker_self())
		pool_blame(0, 0);
}

/* In the child of a task that forks: it is no pool, and goes with the one that made it. */
static void pool_forked(void)
{
	struct pool *pool = the_pool;

	the_pool = NULL;
	if (!pool)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != pool->pid)
		_exit(EXIT_FAILURE);
	close(pool->channel);
}

static void *pool_worker_thread(void *arg)
{
	struct pool_thread *thread = arg;
	struct worker *w = &thread->pool->workers[thread->worker];
	stack_t alt = { .ss_sp = malloc(POOL_SIGSTACK), .ss_size = POOL_SIGSTACK };
	int r = topology_bind(thread->pool->topology, thread->worker);

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

int pool_place(struct pool *pool, struct topology *topology)
{
	pool->topology = topology;
	pool->n_groups = topology_n_groups(topology);
	pool->stacks = calloc(pool->n_groups, sizeof(*pool->stacks));
	if (!pool->stacks)
		return -ENOMEM;
	return topology_victims(topology, &pool->victims);
}

void pool_unplace(struct pool *pool)
{
	for (uint32_t g = 0; pool->stacks && g < pool->n_groups; g++)
		stack_arena_fini(&pool->stacks[g]);
	free(pool->stacks);
	pool->victims = victims_free(pool->victims);
	topology_free(pool->topology);
}

/* The stacklets' memory, from at to the arena's end, in equal parts for each group, on its node. */
static int pool_lay_out_stacks(struct pool *pool, char *at, int *ret_bound)
{
	char *end = (char *)pool->arena + pool->arena_size;
	uint64_t part = (uint64_t)(end - at) / pool->n_groups & ~(POOL_PAGE - 1);
	int r;

	/* Frames, with what they hold of users' data. */
	r = pool_withhold(at, (uint64_t)(end - at), true);
	if (r < 0)
		return r;
	for (uint32_t g = 0; g < pool->n_groups; g++, at += part) {
		char *to = g + 1 < pool->n_groups ? at + part : end;

		r = topology_bind_group_memory(pool->topology, g, at, (uint64_t)(to - at));
		*ret_bound = min(*ret_bound, r);
		r = stack_arena_init(&pool->stacks[g], at, to);
		if (r < 0)
			return r;
	}
	stack_arena_link(pool->stacks, pool->n_groups);
	for (uint32_t i = 0; i < pool->n_workers; i++)
		stack_cache_init(&pool->workers[i].cache, &pool->stacks[pool->workers[i].group]);
	return 0;
}

/* The census: cells by group, and for each the order of the others by how near they are. */
static void pool_lay_out_census(struct pool *pool)
{
	uint32_t groups[LIMIT_WORKERS];
	struct lazy *l = &pool->lazy;

	for (uint32_t i = 0; i < pool->n_workers; i++)
		groups[i] = topology_place(pool->topology, i)->group;
	lazy_init(l, pool->seats, pool->n_workers, groups, pool->n_groups);
	for (uint32_t c = 0; c < l->n_cells; c++) {
		uint32_t from = lazy_member(l, &l->cells[c], 0);

		lazy_set_near(l, c, victims_order(pool->victims, from), pool->n_workers - 1);
	}
	atomic_store_explicit(&pool->scheduler, pool->options->scheduler, memory_order_relaxed);
	atomic_store_explicit(&pool->spin, pool->options->spin, memory_order_relaxed);
}

/*
 * In whole pages for each worker, so that each can be on its node: first all struct workers, then
 * what each one's deques hold, then the stacklets. Policies are set before anything is touched.
 */
int pool_lay_out(struct pool *pool)
{
	uint64_t offset = arena_workers_offset(pool->max_clients, pool->max_jobs);
	uint64_t left = pool->arena_size > offset ? pool->arena_size - offset : 0;
	uint64_t n = pool->n_workers, entries = POOL_DEQUE_MAX;
	uint64_t roots = align_up(WORKER_ROOTS * sizeof(struct fk_entry), POOL_PAGE);
	uint64_t fixed;
	char *at = (char *)pool->arena + offset;
	int bound = 0, r;

	/* The deques get an eighth of the arena at most. */
	while (entries > 1024 && n * entries * sizeof(struct fk_entry) > left / 8)
		entries /= 2;
	fixed = n * (sizeof(struct worker) + roots + entries * sizeof(struct fk_entry));
	if (left < fixed + (n * 64 + 64) * STACK_MIN)
		return -ENOSPC;
	/* What a former pool left there. */
	if (madvise(at, left, MADV_REMOVE) < 0)
		return -errno;
	pool_lay_out_census(pool);
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
	r = pool_lay_out_stacks(pool, at, &bound);
	if (bound < 0)
		log_warning("workers' memory is not bound to their NUMA nodes: %s",
			    strerror(-bound));
	return r;
}

int pool_make_rows(struct pool *pool)
{
	uint64_t rows = (uint64_t)pool->max_clients * pool->max_jobs;

	pool->verdicts = calloc(rows, sizeof(*pool->verdicts));
	pool->cancels = calloc(rows, sizeof(*pool->cancels));
	pool->stack_bytes = calloc(rows, sizeof(*pool->stack_bytes));
	if (deadlines_init(&pool->deadlines, rows) < 0)
		return -ENOMEM;
	return pool->verdicts && pool->cancels && pool->stack_bytes ? 0 : -ENOMEM;
}

void pool_free_rows(struct pool *pool)
{
	free(pool->verdicts);
	free(pool->cancels);
	free(pool->stack_bytes);
	deadlines_fini(&pool->deadlines);
}

int pool_set_fork_mode(struct pool *pool)
{
	const struct options *options = pool->options;
	uint32_t mode = options->fork_mode;
	struct profile_clock clock;

	pool->late_children = mode == OPTIONS_FORK_LATE;
	pool->force_steals =
		mode == OPTIONS_FORK_STOLEN || pool->late_children || mode == OPTIONS_FORK_PROFILE;
	pool->shaken = mode == OPTIONS_FORK_RANDOM ? max(options->fork_seed, 1u) : 0;
	if (mode != OPTIONS_FORK_PROFILE)
		return 0;
	if (pool->n_workers != 1)
		return -EINVAL;
	clock = profile_processor_clock();
	pool->profile = profile_new(clock, profile_measure(clock, options->fork_burden));
	return pool->profile ? 0 : -ENOMEM;
}

/* Maps board and arena. Takes the descriptors: no task is to find one, the board can be written. */
static int pool_map(struct pool *pool, const int *fds)
{
	_cleanup_close_ int board_fd = fds[0], arena_fd = fds[1];
	void *base;
	int r = segment_map(board_fd, SEGMENT_BOARD, 1, 0, &base, &pool->board_size);

	if (r < 0)
		return r;
	pool->board = base;
	r = pool_withhold(pool->board, pool->board_size, false);
	if (r < 0)
		return r;
	r = segment_map(arena_fd, SEGMENT_ARENA, 1, pool->board->head.epoch, &base,
			&pool->arena_size);
	if (r < 0)
		return r;
	pool->arena = base;
	/* Of it the ledger and the deques help whoever reads a core file: pool_lay_out(). */
	r = pool_withhold(pool->arena, pool->arena_size, false);
	if (r < 0)
		return r;
	pool->n_workers = pool->board->manager.n_workers;
	if (!pool->n_workers || pool->n_workers > LIMIT_WORKERS ||
	    pool->arena->n_workers != pool->n_workers)
		return -EBADMSG;
	pool->max_clients = pool->arena->max_clients;
	pool->max_jobs = pool->arena->max_jobs;
	/* What a former pool left: but for this, recover_run() has seen to it, and no page is
	 * touched that nobody needs. */
	memset(pool->board->counters, 0, pool->n_workers * sizeof(pool->board->counters[0]));
	memset(&pool->board->counters[BOARD_POOL], 0, sizeof(pool->board->counters[0]));
	return pool_make_rows(pool);
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
	pthread_atfork(NULL, NULL, pool_forked);
	/* The manager decides when this process ends. */
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
}

static int pool_start_threads(struct pool *pool, struct pool_thread *threads,
			      pthread_t *ret_dispatcher)
{
	pthread_attr_t attr;
	int r;

	pthread_attr_init(&attr);
	r = -pthread_attr_setstacksize(&attr, WORKER_STACK);
	if (r == 0)
		r = -pthread_attr_setguardsize(&attr, POOL_GUARD);
	atomic_store(&pool->board->dispatcher, WAKE_LOOKING);
	for (uint32_t i = 0; i < pool->n_workers && r == 0; i++) {
		const struct topology_place *place = topology_place(pool->topology, i);

		atomic_store(&pool->board->workers[i].cpu, place->cpu);
		atomic_store(&pool->board->workers[i].node, place->node);
		threads[i] = (struct pool_thread){ .pool = pool, .worker = i };
		r = -pthread_create(&pool->workers[i].thread, &attr, pool_worker_thread,
				    &threads[i]);
	}
	if (r == 0)
		r = -pthread_create(ret_dispatcher, NULL, dispatcher_main, pool);
	pthread_attr_destroy(&attr);
	return r;
}

/* A client wants one of its jobs to end. The channel's thread also adds and ends clients, so the
 * client stays what it is. */
static void pool_cancel(struct pool *pool, const struct proto_pool *m)
{
	struct registry_client *client;

	if (m->client >= pool->max_clients)
		return;
	client = &pool->registry.clients[m->client];
	if (atomic_load_explicit(&client->state, memory_order_relaxed) == CLIENT_LIVE &&
	    client->generation == m->client_generation && m->job < client->n_jobs)
		root_cancel(pool, m->client * pool->max_jobs + m->job, m->job_generation);
}

/* A new client has the slot: what its last one wanted to cancel and never submitted is void. */
static void pool_forget_cancels(struct pool *pool, uint32_t client, uint32_t n_jobs)
{
	uint64_t first = (uint64_t)client * pool->max_jobs;

	if (client >= pool->max_clients)
		return;
	/* Relaxed: no job of the new client is known yet. */
	for (uint32_t i = 0; i < min(n_jobs, pool->max_jobs); i++)
		atomic_store_explicit(&pool->cancels[first + i], 0, memory_order_relaxed);
}

/* text: "name=value". */
static int pool_set_message(struct pool *pool, char *text)
{
	char *value = strchr(text, '=');

	if (!value)
		return -EBADMSG;
	*value = '\0';
	return pool_set(pool, text, value + 1);
}

/* Serves the channel. Returns true once the pool has drained after PROTO_POOL_STOP, false if the
 * manager is gone. */
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
			return atomic_load(&pool->stop) == POOL_ENDING;
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
			pool_forget_cancels(pool, m.pool.client, m.pool.n_jobs);
			r = n_fds == 1 ? intake_add_client(pool, m.pool.client,
							   m.pool.client_generation, m.pool.tenant,
							   m.pool.uid, m.pool.n_jobs, fds[0])
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
			registry_gone(pool, m.pool.client, m.pool.client_generation);
			break;
		case PROTO_POOL_CANCEL:
			pool_cancel(pool, &m.pool);
			break;
		case PROTO_POOL_SET:
			m.pool.text[sizeof(m.pool.text) - 1] = '\0';
			r = pool_set_message(pool, m.pool.text);
			if (r < 0)
				log_error("\"%.100s\" cannot be set: %s", m.pool.text,
					  strerror(-r));
			break;
		case PROTO_POOL_STOP:
			atomic_store(&pool->stop, POOL_DRAINING);
			pool_wake_dispatcher(pool);
			break;
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
		worker_fini(&pool->workers[i]);
	pool_unplace(pool);
	segment_unmap(pool->arena, pool->arena_size);
	segment_unmap(pool->board, pool->board_size);
	pool_free_rows(pool);
	profile_free(pool->profile);
	pthread_mutex_destroy(&pool->channel_lock);
	munmap(pool, sizeof(*pool));
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
static int pool_prepare(struct pool *pool, const int *fds)
{
	const struct options *options = pool->options;
	struct topology *topology;
	char error[256];
	int r = pool_map(pool, fds);

	if (r < 0)
		return pool_fail(pool, "cannot map the arena", r);
	r = topology_new(NULL, pool->n_workers, options->cpus, error, sizeof(error), &topology);
	if (r < 0)
		return pool_fail(pool, error, r);
	r = pool_place(pool, topology);
	if (r < 0)
		return pool_fail(pool, "no memory for the table of victims", r);
	r = pool_set_fork_mode(pool);
	if (r < 0)
		return pool_fail(pool, "fork-mode=profile is for one worker", r);
	r = pool_lay_out(pool);
	if (r < 0)
		return pool_fail(pool, "arena-max is too small for so many workers", r);
	r = intake_init(pool);
	if (r < 0)
		return pool_fail(pool, "no memory for the queues", r);
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
	struct shake *shake = NULL;
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
	/* Sparse: most of its tables are for more workers than there are. */
	pool = mmap(NULL, sizeof(*pool), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		    0);
	if (pool == MAP_FAILED)
		return EXIT_FAILURE;
	pool->options = options;
	pool->channel = channel;
	pool->pid = getpid();
	pthread_mutex_init(&pool->channel_lock, NULL);
	r = pool_prepare(pool, fds);
	if (r) {
		pool_free(pool);
		return r;
	}
	the_pool = pool;
	pool_catch_faults();
	worker_catch_signal();
	threads = calloc(pool->n_workers, sizeof(*threads));
	r = threads ? pool_start_threads(pool, threads, &dispatcher) : -ENOMEM;
	if (r == 0 && pool->shaken && !(shake = shake_start(pool, pool->shaken)))
		r = -ENOMEM;
	if (r < 0)
		_exit(pool_fail(pool, "cannot start a thread", r)); /* some run already */
	urgent_begin();
	pool_send(pool, PROTO_POOL_READY, 0, 0, "");
	if (!pool_serve(pool))
		_exit(EXIT_FAILURE); /* nobody is left to give outcomes to */
	pthread_join(dispatcher, NULL);
	for (uint32_t i = 0; i < pool->n_workers; i++)
		pthread_join(pool->workers[i].thread, NULL);
	shake_stop(shake);
	pool_send(pool, PROTO_POOL_STOPPED, 0, 0, "");
	free(threads);
	pool_free(pool);
	return EXIT_SUCCESS;
}
