/* SPDX-License-Identifier: MIT */
/*
 * process.c - the pool process
 *
 * Threads: pool_run() is the process's main thread: it reads the channel and maps segments. The
 * dispatcher (dispatcher.h) is a separate thread, because a futex and a socket cannot be waited for
 * together on kernel 6.1. Workers are pinned threads.
 *
 * DESCRIPTORS
 *   While tasks run the process has 0 to 2, the channel and /proc/self/status. Files received at
 *   the start, and modules' files, are mapped and closed by then. Descriptors received later are
 *   open only while they are mapped.
 *
 * If the manager dies: the channel ends, and the process exits. If the pool dies: crash_handler.h.
 */
#include "daemon/pool/process.h"

#include <dlfcn.h>
#include <errno.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/low_latency.h"
#include "common/options.h"
#include "common/relaxed.h"
#include "common/util.h"
#include "daemon/core/bell.h"
#include "daemon/core/manager_channel.h"
#include "daemon/core/crash_handler.h"
#include "daemon/core/sample.h"
#include "daemon/core/fork_mode.h"
#include "daemon/core/pool_state.h"
#include "daemon/core/work_span.h"
#include "daemon/core/trace.h"
#include "daemon/core/worker.h"
#include "daemon/core/worker_state.h"
#include "daemon/fiber/create.h"
#include "daemon/fiber/io.h"
#include "daemon/host/sandbox.h"
#include "daemon/host/module.h"
#include "daemon/host/topology.h"
#include "daemon/jobs/hang_detector.h"
#include "daemon/jobs/job_batches.h"
#include "daemon/jobs/membership.h"
#include "daemon/pool/module_memory.h"
#include "daemon/pool/dispatcher.h"
#include "daemon/pool/arena_layout.h"
#include "daemon/pool/manager_requests.h"
#include "daemon/pool/pool.h"
#include "daemon/pool/schedule_fuzz.h"
#include "daemon/pool/worker_signal.h"
#include "daemon/pool/worker_thread.h"
#include "daemon/sched/cpu_parking.h"
#include "shm/board.h"
#include "shm/ledger.h"
#include "shm/proto.h"
#include "shm/wake.h"

#define POOL_THREADS_START_NS UINT64_C(5000000000)

static void *pool_worker_thread(void *arg)
{
	struct worker *w = arg;
	int r = topology_bind(w->pool->topology, w->index);
	struct fault_thread *fault;

	low_latency_end();
	if (r < 0)
		log_warning("worker %u cannot be pinned: %s", w->index, strerror(-r));
	fault = fault_begin_thread(w, &w->fiber.self);
	sample_begin(w);
	worker_main(w);
	fault_end_thread(fault);
	return NULL;
}

static void *pool_dispatcher_thread(void *arg)
{
	struct fault_thread *fault = fault_begin_thread(NULL, NULL);

	(void)dispatcher_main(arg);
	fault_end_thread(fault);
	return NULL;
}

/* Waits until all threads have allocated what they need themselves. A thread whose CPU is taken by
 * other programs does not hold up the pool: its memory counts for module-memory-max then. */
static void pool_await_threads(struct pool *pool)
{
	uint64_t end = clock_ns() + POOL_THREADS_START_NS;
	struct timespec until = { .tv_sec = (time_t)(end / NSEC_PER_SEC),
				  .tv_nsec = (long)(end % NSEC_PER_SEC) };

	for (uint32_t i = 0; i < pool->n_workers + 1; i++)
		while (sem_clockwait(&pool->started, CLOCK_MONOTONIC, &until) < 0)
			if (errno == ETIMEDOUT) {
				log_warning("threads not started: %u: other programs use their "
					    "CPUs",
					    pool->n_workers + 1 - i);
				return;
			}
}

static int pool_fail_on(int channel, const char *what, int r)
{
	struct proto_pool failed = { .head = { PROTO_MAGIC, PROTO_POOL_FAILED }, .error = r };

	snprintf(failed.text, sizeof(failed.text), "%.120s: %.60s", what, strerror(-r));
	/* The manager logs it, or tries again later. The channel is empty, so it has room. */
	(void)proto_send(channel, &failed, sizeof(failed), NULL, 0);
	return EXIT_FAILURE;
}

static int pool_fail(struct pool *pool, const char *what, int r)
{
	return pool_fail_on(pool->channel.fd, what, r);
}

/* All steps that can fail before there are threads. fds: board and arena. Returns 0, or an exit
 * status after reporting the error. */
static int pool_prepare(struct pool *pool, const int *fds)
{
	const struct proto_pool sends_gate = { .head = { PROTO_MAGIC, PROTO_POOL_GATE } };
	const struct options *options = pool->options;
	_cleanup_close_ int gate = -1;
	struct topology *topology;
	const char *debugged;
	char error[256] = "";
	int r = layout_map(pool, fds[0], fds[1]);

	if (r == 0)
		r = pool_make_rows(pool);
	if (r < 0)
		return pool_fail(pool, "cannot map the arena", r);
	r = topology_again(pool->n_workers, options_threads(options), options->cpus, error,
			   sizeof(error), &topology);
	if (r < 0)
		return pool_fail(pool, error, r);
	r = layout_place(pool, topology);
	if (r < 0)
		return pool_fail(pool, "out of memory for the table of victims", r);
	r = pool_set_fork_mode(pool);
	if (r < 0)
		return pool_fail(pool, "fork-mode=profile is for one worker", r);
	r = layout_make(pool, fds[1]);
	if (r < 0)
		return pool_fail(pool, "arena-max is too small for this number of workers", r);
	r = fibers_reserve(pool);
	if (r < 0)
		log_warning(
			"tasks that are fibers will fail, because their stacks cannot be made: %s",
			r == -ENOTSUP ? "pages are not of 4 KiB" : strerror(-r));
	r = fiber_io_start(pool);
	if (r < 0)
		log_warning("fibers cannot wait for input and output: io_uring: %s", strerror(-r));
	r = intake_init(pool);
	if (r < 0)
		return pool_fail(pool, "no memory for the queues", r);
	/* Threads of modules, and workers, have normal priority. */
	low_latency_end();
	r = modules_load(&pool->modules, pool->board, options->module_dir);
	if (r < 0) {
		snprintf(error, sizeof(error), "module-dir %.60s (%s)", options->module_dir,
			 modules_advice(r));
		return pool_fail(pool, error, r);
	}
	debugged = pool_set_debug_steals(pool);
	if (debugged)
		log_warning("task %s was compiled with FK_DEBUG_STEALS: every fork of every task "
			    "counts as stolen, which is slow",
			    debugged);
	low_latency_begin(false); /* allowed to root, so far */
	low_latency_settle();
	/* pthread_exit() loads it at its first call, which fails in a task: the C library would
	 * abort. */
	(void)dlopen("libgcc_s.so.1", RTLD_NOW);
	r = sandbox_pool(options->sandbox, &gate);
	if (r < 0)
		return pool_fail(pool,
				 "tasks cannot be sandboxed here (sandbox = off runs without)", r);
	/* The channel is empty, so it has room. */
	if (gate >= 0)
		r = proto_send(pool->channel.fd, &sends_gate, sizeof(sends_gate), &gate, 1);
	if (r < 0)
		log_warning("no module can be loaded while jobs run: the manager cannot get the "
			    "gate: %s",
			    strerror(-r));
	return 0;
}

int pool_run(const struct options *options, int channel)
{
	struct pool *pool = NULL;
	struct shake *shake = NULL;
	_cleanup_close_ int memory = -1;
	pthread_t dispatcher = 0;
	union proto_message m;
	int fds[PROTO_MAX_FDS], r;
	uint32_t n_fds = 0;

	log_set_name("forkd-pool");
	low_latency_take_over();
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	r = proto_recv(channel, &m, fds, &n_fds, 0);
	if (r <= 0 || m.head.type != PROTO_POOL_START || n_fds != 2) {
		log_error("--pool is for forkd itself; start forkd without it");
		return EXIT_FAILURE;
	}
	pool = pool_new();
	if (!pool)
		return pool_fail_on(channel, "no memory for its tables", -errno);
	pool->crash = &crash_handler;
	pool->options = options;
	pool->pid = getpid();
	channel_init(&pool->channel, channel);
	hangs_begin();
	memory = module_memory_prepare(options->module_memory_max);
	if (memory < 0)
		r = pool_fail(pool, "cannot open /proc/self/statm", memory);
	else
		r = pool_prepare(pool, fds);
	/* No task may find these descriptors: the board is writable. */
	close(fds[0]);
	close(fds[1]);
	if (r) {
		fault_end();
		pool_free(pool);
		return r;
	}
	r = fault_begin(pool);
	(void)worker_catch_signal(pool, WORKER_SIGNAL);
	bell_begin();
	park_begin(pool);
	if (r == 0)
		r = pool_start_threads(pool, pool_worker_thread, pool_dispatcher_thread,
				       pool->n_workers, &dispatcher);
	if (r == 0)
		pool_await_threads(pool);
	if (r == 0 && pool->mode.fuzz_seed &&
	    !(shake = schedule_fuzz_start(pool, pool->mode.fuzz_seed)))
		r = -ENOMEM;
	if (r < 0)
		_exit(pool_fail(pool, "cannot start a thread", r)); /* some run already */
	r = module_memory_begin(memory, options->module_memory_max);
	if (r < 0)
		_exit(pool_fail(pool, "cannot limit the memory of tasks", r));
	memory = safe_close(memory);
	channel_tell(pool, &(struct proto_pool){
				   .head = { PROTO_MAGIC, PROTO_POOL_READY },
				   .task_hash = pool->modules.version,
				   .n_jobs = pool->modules.n_left_out,
				   .joinable = pool->modules.joinable,
			   });
	if (!channel_serve(pool))
		_exit(EXIT_FAILURE); /* the manager has gone */
	pthread_join(dispatcher, NULL);
	pool_join_workers(pool);
	schedule_fuzz_stop(shake);
	channel_send(pool, PROTO_POOL_STOPPED, 0, 0, "");
	channel_flush(pool);
	fault_end();
	pool_free(pool);
	return EXIT_SUCCESS;
}
