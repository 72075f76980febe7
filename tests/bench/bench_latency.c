/* SPDX-License-Identifier: MIT */
/*
 * bench_latency.c - the latency of a small job while another client floods the pool
 *
 * Starts a private forkd and measures one job of 100 us, submitted at random times, from before the
 * submission until its end is seen:
 *
 * 	bench_latency [--threads P] [--rounds R] [--samples N]
 *
 * alternately on an idle pool (the control) and while another process floods it, with
 * 	batch   4,096 jobs of 10 us at once, over and over
 * 	tree    one fork-join job of many leaves of 10 us, over and over
 * under the same uid and, if this program may change its uid, under another one.
 *
 * One line of JSON for each kind of flood:
 * 	{"bench": "latency", "flood": "batch", "uids": 2, "threads": 2, "samples": 600,
 * 	 "client_ns": {"p50": ..., "p99": ..., "p999": ..., "max": ...}, "client_ns_curve": [...],
 * 	 "pool_ns": {...}, "control_client_ns": {...}, "control_pool_ns": {...}, (a curve for each)
 * 	 "job_ns": 100000, "leaf_ns": 10000, "flood_jobs": 123456}
 * client is the time of the client. pool is forkd's time for the same job (fk_timings: from
 * submission to end). It excludes the time in which the client waits for a CPU, because the workers
 * use all. curve has a value for each of 0, 5 ... 95, 99, 99.9 and 100 per cent.
 * Exit status 0; 1 if a result was wrong; 2 for a wrong command line. No time makes it fail.
 *
 * Threads: the main thread measures; each flood is a separate process with its own connection.
 *
 * INVARIANTS
 *   I1. At most one flood is active. A control begins only after the flood has stored in `active`
 *       that it has no job left.
 *
 * If a peer dies: floods end with their parent (PR_SET_PDEATHSIG). The parent detects a dead flood
 * when it waits for it.
 */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "shm/futex.h"
#include "shm/limits.h"
#include "tests/bench/bench_pool.h"
#include "tests/bench/figures.h"
#include "tests/bench/work.h"

#define JOB_NS	     100000
#define LEAF_NS	     10000
#define BATCH	     4096u
#define TREE_NS	     500000000 /* how long one tree keeps all workers busy */
#define GAP_US_MIN   200
#define GAP_US_MAX   3000
#define OTHER_UID    65531
#define FLOODS_MAX   4
#define HEAP	     (1u << 20)
#define SAMPLES_WARM 20

enum kind {
	FLOOD_BATCH,
	FLOOD_TREE,
};

static const char *const kind_names[] = { "batch", "tree" };

/* Shared with the floods. */
struct shared {
	/* the parent writes: number of the active flood, 0 for none, plus a count that makes each
	 * turn unique */
	_Alignas(64) _Atomic uint32_t turn;
	/* the parent sets 1; the active flood answers with 2, and with 0 when its turn has ended
	 * and it has no job left */
	_Alignas(64) _Atomic uint32_t active;
	/* floods write */
	_Atomic uint64_t jobs;
	_Atomic uint32_t failed;
};

struct samples {
	uint64_t *client;
	uint64_t *pool;
	uint32_t n;
};

struct flood {
	enum kind kind;
	bool other_uid;
	pid_t pid;
	uint64_t jobs;
	struct samples beside;
	struct samples control;
};

static struct bench_pool pool;
static struct shared *shared;
static struct flood floods[FLOODS_MAX];
static uint32_t n_floods;
static uint32_t threads = 2;
static uint32_t rounds = 4;
static uint32_t samples = 150;
static int64_t job_rounds;
static int64_t leaf_rounds;
/* results that floods expect: of each job of a batch, of a tree */
static int64_t batch_expected[BATCH];
static int64_t tree_expected;

/* ------------------------------------------------------------------------------------- floods */

static bool my_turn(uint32_t number)
{
	/* ORDER flood/turn [F1]: acquire. Pairs with the release in set_turn(). */
	return atomic_load_explicit(&shared->turn, memory_order_acquire) % 16 == number;
}

/* The data of one flood of batches. */
struct batch {
	struct fk_request requests[BATCH];
	union fk_value values[BATCH][2];
	fk_job jobs[BATCH];
	fk_group group;
};

static int check_result(fk_client *client, fk_job job, int64_t expected)
{
	int64_t result;
	int r = fk_wait(client, job, FK_FOREVER);

	if (r == 0)
		r = fk_result(client, job, &result, sizeof(result));
	if (r == 0 && result != expected)
		r = -EBADMSG;
	if (r == 0)
		r = fk_release(client, job);
	return r;
}

/* Submits all jobs by one call, and waits for them by one sleep. */
static int flood_batch(fk_client *client, const fk_task *task, struct batch *batch)
{
	struct fk_request *requests = batch->requests;
	int r;

	for (uint32_t i = 0; i < BATCH; i++) {
		batch->values[i][0].i64 = i;
		batch->values[i][1].i64 = leaf_rounds;
		requests[i] = (struct fk_request){ .task = task,
						   .values = batch->values[i],
						   .size = 2,
						   .options.group = batch->group };
	}
	r = fk_submit_batch(client, requests, BATCH, FK_WAIT_ROOM, batch->jobs);
	if (r == 0)
		r = fk_group_wait(client, batch->group, FK_FOREVER);
	for (uint32_t i = 0; i < BATCH && r == 0; i++) {
		int64_t result;

		r = fk_result(client, batch->jobs[i], &result, sizeof(result));
		if (r == 0 && result != batch_expected[i])
			r = -EBADMSG;
	}
	return r < 0 ? r : fk_release_batch(client, batch->jobs, BATCH);
}

static int64_t tree_leaves(void)
{
	return (int64_t)TREE_NS / LEAF_NS * threads;
}

/* Before the floods: this takes seconds of work, which the first round would measure. */
static void expect(void)
{
	for (int64_t i = 0; i < tree_leaves(); i++)
		tree_expected += work_leaf(i, leaf_rounds);
	for (uint32_t i = 0; i < BATCH; i++)
		batch_expected[i] = work_leaf(i, leaf_rounds);
}

static int flood_tree(fk_client *client, const fk_task *task)
{
	union fk_value values[2] = { { .i64 = tree_leaves() }, { .i64 = leaf_rounds } };
	fk_job job;
	int r = fk_submit_values(client, task, values, 2, 0, &job);

	return r < 0 ? r : check_result(client, job, tree_expected);
}

static void flood(const struct flood *self, uint32_t number)
{
	struct batch *batch = calloc(1, sizeof(*batch));
	fk_client *client;
	const fk_task *task;
	int r = batch ? 0 : -ENOMEM;

	if (self->other_uid && setuid(OTHER_UID) < 0)
		bench_die("cannot become uid %d: %s", OTHER_UID, strerror(errno));
	/* The change of user clears this. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	client = bench_pool_open(&pool, BATCH, HEAP);
	task = bench_pool_task(client, self->kind == FLOOD_BATCH ? "busy:spin" : "busy:tree");
	if (r == 0)
		r = fk_group_new(client, &batch->group);
	while (r == 0) {
		uint32_t seen = atomic_load_explicit(&shared->turn, memory_order_relaxed);

		if (seen % 16 != number) {
			futex_wait(&shared->turn, seen, 0);
			continue;
		}
		atomic_store_explicit(&shared->active, 2, memory_order_relaxed);
		futex_wake(&shared->active, 1);
		while (r == 0 && my_turn(number)) {
			if (self->kind == FLOOD_BATCH)
				r = flood_batch(client, task, batch);
			else
				r = flood_tree(client, task);
			atomic_fetch_add_explicit(&shared->jobs,
						  self->kind == FLOOD_BATCH ? BATCH : 1,
						  memory_order_relaxed);
		}
		/* ORDER flood/active [F2]: release, all jobs have ended. Pairs
		 * with await_flood(). */
		atomic_store_explicit(&shared->active, 0, memory_order_release);
		futex_wake(&shared->active, 1);
	}
	fprintf(stderr, "flood of %s: %s\n", kind_names[self->kind], fk_strerror(r));
	atomic_store_explicit(&shared->failed, 1, memory_order_relaxed);
	atomic_store_explicit(&shared->active, 0, memory_order_release);
	futex_wake(&shared->active, 1);
	_exit(1);
}

static void start_flood(enum kind kind, bool other_uid)
{
	struct flood *new = &floods[n_floods++];
	pid_t parent = getpid();

	new->kind = kind;
	new->other_uid = other_uid;
	fflush(stdout);
	new->pid = fork();
	if (new->pid < 0)
		bench_die("cannot fork: %s", strerror(errno));
	if (new->pid)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	flood(new, n_floods);
}

/* Waits until active is no longer `value`. */
static void await_flood(uint32_t value)
{
	/* ORDER flood/active [F2]: acquire. Pairs with the release in flood(). */
	while (atomic_load_explicit(&shared->active, memory_order_acquire) == value) {
		futex_wait(&shared->active, value, 0);
		if (waitpid(-1, NULL, WNOHANG) > 0)
			bench_die("a flood has ended");
	}
	if (atomic_load_explicit(&shared->failed, memory_order_relaxed))
		bench_die("a flood has failed");
}

/* number: of the flood, from 1; returns when it is active. 0 for none; returns when all its jobs
 * have ended. */
static void set_turn(uint32_t number)
{
	uint32_t next = (atomic_load_explicit(&shared->turn, memory_order_relaxed) / 16 + 1) * 16;

	if (number)
		atomic_store_explicit(&shared->active, 1, memory_order_relaxed);
	/* ORDER flood/turn [F1]: release: publishes active. Pairs with my_turn(). */
	atomic_store_explicit(&shared->turn, next + number, memory_order_release);
	futex_wake(&shared->turn, FLOODS_MAX);
	await_flood(number ? 1 : 2);
}

/* ------------------------------------------------------------------------------------ samples */

static void samples_init(struct samples *s)
{
	s->client = figures_new((size_t)rounds * samples);
	s->pool = figures_new((size_t)rounds * samples);
	s->n = 0;
}

static void measure(fk_client *client, const fk_task *task, struct samples *to, uint32_t n)
{
	static uint64_t random = 1;

	for (uint32_t i = 0; i < n; i++) {
		union fk_value values[2] = { { .i64 = i }, { .i64 = job_rounds } };
		struct timespec gap = { 0 };
		struct fk_timings timings = { 0 };
		int64_t result = 0;
		uint64_t began;
		uint64_t ended;
		fk_job job;
		int r;

		random = random * 6364136223846793005 + 1442695040888963407;
		gap.tv_nsec =
			(long)(GAP_US_MIN + (random >> 33) % (GAP_US_MAX - GAP_US_MIN)) * 1000;
		nanosleep(&gap, NULL);
		began = clock_ns();
		r = fk_submit_values(client, task, values, 2, FK_WAIT_ROOM, &job);
		if (r == 0)
			r = fk_wait(client, job, FK_FOREVER);
		ended = clock_ns();
		if (r == 0)
			r = fk_timings(client, job, &timings);
		if (r == 0)
			r = fk_result(client, job, &result, sizeof(result));
		if (r == 0)
			r = fk_release(client, job);
		if (r < 0)
			bench_die("busy:spin: %s", fk_strerror(r));
		if (result != work_leaf(i, job_rounds))
			bench_die("busy:spin: the result is wrong");
		if (!to)
			continue;
		to->client[to->n] = ended - began;
		to->pool[to->n] = timings.wait_ns + timings.run_ns;
		to->n++;
	}
}

/* The same as figures_print(), with the whole curve. */
static void print_quantiles(const char *name, uint64_t *values, uint32_t n)
{
	static const double shares[] = { 0.99, 0.999, 1 };
	const char *comma = "";

	figures_print(name, values, n);
	printf(", \"%s_curve\": [", name);
	for (int percent = 0; percent < 100; percent += 5, comma = ", ")
		printf("%s%llu", comma,
		       (unsigned long long)figures_quantile(values, n, percent / 100.0));
	for (size_t i = 0; i < sizeof(shares) / sizeof(shares[0]); i++)
		printf(", %llu", (unsigned long long)figures_quantile(values, n, shares[i]));
	printf("]");
}

static void print(struct flood *f)
{
	printf("{\"bench\": \"latency\", \"flood\": \"%s\", \"uids\": %d, \"threads\": %u, "
	       "\"samples\": %u, \"job_ns\": %d, \"leaf_ns\": %d, \"flood_jobs\": %llu",
	       kind_names[f->kind], f->other_uid ? 2 : 1, threads, f->beside.n, JOB_NS, LEAF_NS,
	       (unsigned long long)f->jobs);
	print_quantiles("client_ns", f->beside.client, f->beside.n);
	print_quantiles("pool_ns", f->beside.pool, f->beside.n);
	print_quantiles("control_client_ns", f->control.client, f->control.n);
	print_quantiles("control_pool_ns", f->control.pool, f->control.n);
	printf("}\n");
}

static void run(void)
{
	fk_client *client = bench_pool_open(&pool, 16, HEAP);
	const fk_task *task = bench_pool_task(client, "busy:spin");

	for (uint32_t f = 0; f < n_floods; f++) {
		samples_init(&floods[f].beside);
		samples_init(&floods[f].control);
	}
	measure(client, task, NULL, SAMPLES_WARM);
	for (uint32_t round = 0; round < rounds; round++)
		for (uint32_t f = 0; f < n_floods; f++) {
			uint64_t before;

			measure(client, task, &floods[f].control, samples);
			before = atomic_load_explicit(&shared->jobs, memory_order_relaxed);
			set_turn(f + 1);
			measure(client, task, &floods[f].beside, samples);
			set_turn(0);
			floods[f].jobs +=
				atomic_load_explicit(&shared->jobs, memory_order_relaxed) - before;
		}
	for (uint32_t f = 0; f < n_floods; f++) {
		kill(floods[f].pid, SIGKILL);
		waitpid(floods[f].pid, NULL, 0);
		print(&floods[f]);
	}
	fk_close(client);
}

int main(int argc, char **argv)
{
	const struct figures_option options[] = {
		{ "threads", 1, LIMIT_WORKERS, &threads },
		{ "rounds", 1, 10000, &rounds },
		{ "samples", 1, 100000, &samples },
		{ NULL, 0, 0, NULL },
	};

	figures_options(argc, argv, options);
	job_rounds = figures_rounds(JOB_NS);
	leaf_rounds = figures_rounds(LEAF_NS);
	expect();
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED)
		bench_die("out of memory");
	bench_pool_start(&pool, BENCH_MODULES_TEST, (int)threads);
	for (int other = 0; other <= (geteuid() == 0); other++) {
		start_flood(FLOOD_BATCH, other);
		start_flood(FLOOD_TREE, other);
	}
	run();
	bench_pool_stop(&pool);
	return 0;
}
