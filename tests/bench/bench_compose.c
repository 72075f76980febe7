/* SPDX-License-Identifier: MIT */
/*
 * bench_compose.c - the mutual cost of processes with parallel work
 *
 * Starts K processes (members), which run parallel jobs at the same time. Each has the pool of its
 * own library, or all share one private forkd:
 *
 * 	bench_compose SIDE [--members K] [--ms T] [--warm-ms W] [--leaves N] [--rounds R]
 * 		[--small S] [--gap-us G]
 * 	bench_compose rounds
 *
 * SIDE     one of sides[] below
 * leaves   of a job, each with R rounds of work_leaf(); rounds prints how many take 100 us
 * small    member 0 runs jobs of S leaves instead, with a pause of about G us before each
 *
 * Prints one line of JSON for the T ms after W ms of warm-up:
 * 	{"bench": "compose", "side": "forkd", "members": 8, "seconds": 1.5,
 * 	 "jobs": 149.3, "least": 17.9, "most": 19.2, (all but small ones; of a member)
 * 	 "voluntary": 312, "involuntary": 290, (context switches)
 * 	 "cpu_s": 2.98, "others_s": 0.01, "stolen_s": 0, (CPU time: theirs, others', taken away)
 * 	 "pss_kib": 9120, "idle_kib": 8000, (memory; allocated, and not touched)
 * 	 "job_ns": [...], "small_ns": [...]} (those that began in that time, in order)
 * forkd's manager and pool count as members.
 * Exit status 0; 1 if a result was wrong; 2 for a wrong command line. No time makes it fail.
 *
 * Threads: one. The members are separate programs: compose_member.c.
 */
#include <errno.h>
#include <math.h>
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
#include "common/util.h"
#include "shm/futex.h"
#include "tests/bench/bench_pool.h"
#include "tests/bench/compose_shared.h"
#include "tests/bench/figures.h"
#include "tests/bench/usage.h"
#include "tests/bench/work.h"

#define PATIENCE_NS (60 * NSEC_PER_SEC)

struct side {
	const char *name;
	const char *program; /* next to this one */
	bool forkd;
	bool passive; /* OMP_WAIT_POLICY */
};

static const struct side sides[] = {
	{ .name = "forkd", .program = "compose_forkd", .forkd = true },
	{ .name = "local", .program = "compose_local" },
	{ .name = "onetbb", .program = "compose_tbb" },
	{ .name = "libgomp", .program = "compose_libgomp" },
	{ .name = "libgomp-passive", .program = "compose_libgomp", .passive = true },
	{ .name = "libomp", .program = "compose_libomp" },
	{ .name = "libomp-passive", .program = "compose_libomp", .passive = true },
};

static uint32_t n_members = 8;
static uint32_t window_ms = 1000;
static uint32_t warm_ms = 300;
static uint32_t leaves = 1000;
static uint32_t rounds = 100000;
static uint32_t small;
static uint32_t gap_us = 7000;

static struct bench_pool pool;
static struct compose_shared *shared;
/* The members, followed by forkd's two processes. */
static pid_t processes[COMPOSE_MEMBERS + 2];
static uint32_t n_processes;

/* Figures of some members' jobs in the window. */
struct figures {
	double jobs;
	double least; /* smallest of a member */
	double most;
	uint64_t *times; /* of jobs that began in it */
	size_t n_times;
};

/* -------------------------------------------------------------------------------- the members */

static int64_t sum_of(int64_t n)
{
	int64_t sum = 0;

	for (int64_t i = 0; i < n; i++)
		sum += work_leaf(i, rounds);
	return sum;
}

static void set_work(void)
{
	struct compose_work big = { .leaves = leaves, .rounds = rounds };

	big.expected = sum_of(leaves);
	for (uint32_t i = 0; i < n_members; i++)
		shared->members[i].work = big;
	if (small)
		shared->members[0].work = (struct compose_work){
			.leaves = small,
			.rounds = rounds,
			.expected = sum_of(small),
			.gap_us = gap_us,
		};
}

static _Noreturn void exec_member(const struct side *side, uint32_t member, int fd, pid_t parent)
{
	char directory[2048];
	char path[2304];
	char words[2][16];
	ssize_t size = readlink("/proc/self/exe", directory, sizeof(directory) - 1);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent || size < 0)
		_exit(1);
	directory[size] = '\0';
	*strrchr(directory, '/') = '\0';
	snprintf(path, sizeof(path), "%s/%s", directory, side->program);
	snprintf(words[0], sizeof(words[0]), "%d", fd);
	snprintf(words[1], sizeof(words[1]), "%u", member);
	if (side->passive)
		setenv("OMP_WAIT_POLICY", "passive", 1);
	execl(path, side->program, words[0], words[1], side->forkd ? pool.socket : NULL, NULL);
	fprintf(stderr, "cannot start %s: %s\n", path, strerror(errno));
	_exit(127);
}

static void start_members(const struct side *side)
{
	pid_t parent = getpid();
	/* The members inherit it. */
	int fd = memfd_create("bench_compose", 0);

	if (fd < 0 || ftruncate(fd, sizeof(*shared)) < 0)
		bench_die("no shared memory: %s", strerror(errno));
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (shared == MAP_FAILED)
		bench_die("no shared memory: %s", strerror(errno));
	set_work();
	for (uint32_t i = 0; i < n_members; i++) {
		pid_t pid = fork();

		if (pid < 0)
			bench_die("cannot fork: %s", strerror(errno));
		if (!pid)
			exec_member(side, i, fd, parent);
		processes[n_processes++] = pid;
	}
	close(fd);
}

static void start_forkd(void)
{
	fk_client *client;

	bench_pool_start_plain(&pool, BENCH_MODULES_TEST);
	client = bench_pool_open(&pool, 0, 0);
	processes[n_members] = pool.manager;
	processes[n_members + 1] = bench_pool_pid(client);
	fk_close(client);
}

static void check_members(void)
{
	for (uint32_t i = 0; i < n_members; i++)
		if (waitpid(processes[i], NULL, WNOHANG) == processes[i])
			bench_die("member %u has ended", i);
}

/* Waits until all members have counted. */
static void await(_Atomic uint32_t *counter)
{
	uint64_t end = clock_ns() + PATIENCE_NS;
	uint32_t n;

	/* ORDER compose/counter [B2]: acquire. Pairs with the release in count() of
	 * compose_member.c. */
	while ((n = atomic_load_explicit(counter, memory_order_acquire)) < n_members) {
		futex_wait(counter, n, clock_ns() + NSEC_PER_SEC / 10);
		check_members();
		if (clock_ns() > end)
			bench_die("only %u of %u members answer", n, n_members);
	}
}

static void sleep_ms(uint32_t ms)
{
	struct timespec time = clock_to_timespec(ms * NSEC_PER_MSEC);

	nanosleep(&time, NULL);
	check_members();
}

static void set_phase(enum compose_phase phase)
{
	/* Relaxed: nothing is passed; the member's work was set before the member started. */
	atomic_store_explicit(&shared->phase, phase, memory_order_relaxed);
	futex_wake(&shared->phase, COMPOSE_MEMBERS);
}

static void kill_members(void)
{
	for (uint32_t i = 0; i < n_members; i++)
		kill(processes[i], SIGKILL);
	for (uint32_t i = 0; i < n_members; i++)
		waitpid(processes[i], NULL, 0);
}

/* ------------------------------------------------------------------------------- results */

static void add_jobs(struct compose_member *member, uint64_t began, uint64_t ended,
		     struct figures *sum)
{
	/* ORDER compose/jobs [B1]: acquire: the jobs below n are stored. Pairs with the release in
	 * run() of compose_member.c. */
	uint32_t n = atomic_load_explicit(&member->n_jobs, memory_order_acquire);
	double jobs = 0;

	for (uint32_t i = 0; i < n; i++) {
		const struct compose_job *job = &member->jobs[i];
		uint64_t from = max(job->began_ns, began);
		uint64_t to = min(job->ended_ns, ended);

		if (from < to)
			jobs += (double)(to - from) / (double)(job->ended_ns - job->began_ns);
		if (job->began_ns >= began && job->began_ns < ended)
			sum->times[sum->n_times++] = job->ended_ns - job->began_ns;
	}
	sum->least = min(sum->least, jobs);
	sum->most = max(sum->most, jobs);
	sum->jobs += jobs;
}

static void print_times(const char *name, struct figures *figures)
{
	printf(", \"%s\": [", name);
	figures_sort(figures->times, figures->n_times);
	for (size_t i = 0; i < figures->n_times; i++)
		printf("%s%llu", i ? ", " : "", (unsigned long long)figures->times[i]);
	printf("]");
}

static void print_kib(const char *name, int64_t kib)
{
	if (kib < 0)
		printf(", \"%s\": null", name);
	else
		printf(", \"%s\": %lld", name, (long long)kib);
}

static void print(const struct side *side, const struct usage *before, const struct usage *after,
		  struct usage_memory memory, int64_t memfds_kib)
{
	struct usage used = usage_between(*before, *after);
	struct figures big = { .least = HUGE_VAL };
	struct figures few = { .least = HUGE_VAL };
	uint64_t others = used.machine_ns > used.cpu_ns ? used.machine_ns - used.cpu_ns : 0;

	big.times = figures_new((size_t)n_members * COMPOSE_JOBS);
	few.times = figures_new(COMPOSE_JOBS);
	for (uint32_t i = 0; i < n_members; i++)
		add_jobs(&shared->members[i], before->at_ns, after->at_ns,
			 small && i == 0 ? &few : &big);
	printf("{\"bench\": \"compose\", \"side\": \"%s\", \"members\": %u, \"seconds\": %.6f, "
	       "\"jobs\": %.3f, \"least\": %.3f, \"most\": %.3f, \"voluntary\": %llu, "
	       "\"involuntary\": %llu, \"cpu_s\": %.4f, \"others_s\": %.2f, \"stolen_s\": %.2f",
	       side->name, n_members, (double)used.at_ns * 1e-9, big.jobs, big.least, big.most,
	       (unsigned long long)used.voluntary, (unsigned long long)used.involuntary,
	       (double)used.cpu_ns * 1e-9, (double)others * 1e-9, (double)used.stolen_ns * 1e-9);
	print_kib("pss_kib", memory.pss_kib);
	print_kib("idle_kib", memory.pss_kib < 0 ? -1 : max(memfds_kib - memory.shared_kib, 0));
	print_times("job_ns", &big);
	print_times("small_ns", &few);
	printf("}\n");
	free(big.times);
	free(few.times);
}

static void run(const struct side *side)
{
	struct usage before;
	struct usage after;
	struct usage_memory memory;
	int64_t memfds_kib = 0;

	if (side->forkd)
		start_forkd();
	start_members(side);
	if (side->forkd)
		n_processes += 2;
	await(&shared->n_ready);
	set_phase(COMPOSE_RUN);
	sleep_ms(warm_ms);
	before = usage_now(processes, n_processes);
	sleep_ms(window_ms);
	after = usage_now(processes, n_processes);
	set_phase(COMPOSE_OVER);
	memory = usage_memory(processes, n_processes);
	if (side->forkd)
		memfds_kib = usage_memfds(pool.manager);
	await(&shared->n_past);
	kill_members();
	if (side->forkd)
		bench_pool_stop(&pool);
	print(side, &before, &after, memory, memfds_kib);
}

int main(int argc, char **argv)
{
	const struct figures_option options[] = {
		{ "members", 1, COMPOSE_MEMBERS, &n_members }, { "ms", 1, 1000000, &window_ms },
		{ "warm-ms", 0, 1000000, &warm_ms },	       { "leaves", 1, 100000000, &leaves },
		{ "rounds", 1, 1000000000, &rounds },	       { "small", 0, 100000000, &small },
		{ "gap-us", 2, 100000000, &gap_us },	       { NULL, 0, 0, NULL },
	};

	if (argc == 2 && !strcmp(argv[1], "rounds")) {
		printf("{\"rounds\": %lld}\n", (long long)figures_rounds(100000));
		return 0;
	}
	for (size_t i = 0; argc > 1 && i < ARRAY_SIZE(sides); i++)
		if (!strcmp(argv[1], sides[i].name)) {
			figures_options(argc - 1, argv + 1, options);
			run(&sides[i]);
			return 0;
		}
	fprintf(stderr, "usage: %s rounds|SIDE [OPTION...]; SIDE is one of", argv[0]);
	for (size_t i = 0; i < ARRAY_SIZE(sides); i++)
		fprintf(stderr, " %s", sides[i].name);
	fputc('\n', stderr);
	return 2;
}
