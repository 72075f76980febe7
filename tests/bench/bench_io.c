/* SPDX-License-Identifier: MIT */
/*
 * bench_io - reads from many pipes, by a fiber for each, and by a plain epoll loop
 *
 * One thread writes small messages to N pipes, as fast as it can (io_work.h). Others read them at
 * the same time, one message per call:
 *
 * 	epoll	a loop on one thread: epoll_wait(2), then read(2) from what is ready
 * 	epoll2	the same on two, each with half of the pipes
 * 	fibers	N fibers in a forkd with two workers (modules/io.c), which read until the end
 *
 * 	bench_io [--threads P] [--pipes N] [--messages M] [--rounds R] [--only fibers]
 *
 * The ways take turns in each round, beginning with another one each time. One line of JSON for
 * each run:
 * 	{"bench": "io", "way": "fibers", "pattern": "rounds", "round": 0, "pipes": 10000,
 * 	 "messages": 1000000, "seconds": 1.5, "cpu_seconds": 2.8, "waits": 120000, "turns": 4000}
 * cpu_seconds: of the process, with the writer and the creation of the pipes. waits: reads of
 * fibers that had to wait; turns: of the thread that waits for them. N pipes need 2N descriptors;
 * RLIMIT_NOFILE can reduce N. Exit status 0; 1 if data is missing; 2 for a wrong command line.
 *
 * Threads: the main thread, the writer, and the loops.
 */
#include <inttypes.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <time.h>

#include "common/util.h"
#include "tests/bench/bench_pool.h"
#include "tests/bench/io_work.h"

#define EVENTS 512
#define SPARE  128u /* descriptors for all else */

static struct bench_pool pool;
static fk_client *client;

struct loop {
	struct io_work *work;
	uint64_t first, step;
	int epoll;
	pthread_t thread;
};

static void loop_init(struct loop *loop, struct io_work *work, uint64_t first, uint64_t step)
{
	*loop = (struct loop){ .work = work, .first = first, .step = step };
	loop->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (loop->epoll < 0)
		bench_die("epoll_create1: %s", strerror(errno));
	for (uint64_t i = first; i < work->n; i += step) {
		struct epoll_event event = { .events = EPOLLIN, .data.u64 = i };

		if (epoll_ctl(loop->epoll, EPOLL_CTL_ADD, work->pipes[i].ends[0], &event) < 0)
			bench_die("epoll_ctl: %s", strerror(errno));
	}
}

static void *loop_run(void *arg)
{
	struct loop *loop = arg;
	uint64_t open = (loop->work->n - loop->first + loop->step - 1) / loop->step;
	struct epoll_event events[EVENTS];
	uint64_t message[IO_MESSAGE / 8];

	while (open) {
		int n = epoll_wait(loop->epoll, events, EVENTS, -1);

		for (int i = 0; i < n; i++) {
			struct io_pipe *pipe = &loop->work->pipes[events[i].data.u64];

			if (read(pipe->ends[0], message, sizeof(message)) == sizeof(message)) {
				pipe->messages++;
				pipe->sum += message[0];
			} else {
				(void)epoll_ctl(loop->epoll, EPOLL_CTL_DEL, pipe->ends[0], NULL);
				open--;
			}
		}
	}
	(void)close(loop->epoll);
	return NULL;
}

static uint64_t run_epoll(uint64_t n, uint64_t messages, bool random, uint32_t threads)
{
	struct io_work work;
	struct loop loops[2];
	int r = io_begin(&work, n, messages, random);

	if (r < 0)
		bench_die("%" PRIu64 " pipes: %s", n, strerror(-r));
	for (uint32_t i = 0; i < threads; i++)
		loop_init(&loops[i], &work, i, threads);
	r = io_write(&work);
	for (uint32_t i = 0; i < threads && r == 0; i++)
		r = -pthread_create(&loops[i].thread, NULL, loop_run, &loops[i]);
	if (r < 0)
		bench_die("cannot start a thread: %s", strerror(-r));
	for (uint32_t i = 0; i < threads; i++)
		pthread_join(loops[i].thread, NULL);
	return io_end(&work);
}

static uint64_t run_fibers(uint64_t n, uint64_t messages, bool random)
{
	const union fk_value values[] = { { .i64 = (int64_t)n },
					  { .i64 = (int64_t)messages },
					  { .i64 = random } };
	int64_t ns = 0;

	bench_pool_call(client, bench_pool_task(client, "io:fibers"), values, 3, &ns, sizeof(ns));
	return (uint64_t)ns;
}

/* Returns the CPU time of a process, ended threads included. */
static uint64_t cpu_ns(pid_t pid)
{
	struct timespec used;
	clockid_t id;

	if (clock_getcpuclockid(pid, &id) != 0 || clock_gettime(id, &used) < 0)
		bench_die("no CPU clock of process %d", (int)pid);
	return (uint64_t)used.tv_sec * NSEC_PER_SEC + (uint64_t)used.tv_nsec;
}

static void run(const char *way, bool random, uint64_t round, uint64_t n, uint64_t messages)
{
	uint64_t waits = bench_pool_counter(client, "fiber_io_waits");
	uint64_t turns = bench_pool_counter(client, "poller_passes");
	bool fibers = !strcmp(way, "fibers");
	pid_t pid = fibers ? bench_pool_pid(client) : getpid();
	uint64_t cpu = cpu_ns(pid);
	uint64_t ns;

	if (fibers)
		ns = run_fibers(n, messages, random);
	else
		ns = run_epoll(n, messages, random, strcmp(way, "epoll") ? 2 : 1);
	if (!ns)
		bench_die("%s: not all was read that was written", way);
	printf("{\"bench\": \"io\", \"way\": \"%s\", \"pattern\": \"%s\", \"round\": %" PRIu64
	       ", \"pipes\": %" PRIu64 ", \"messages\": %" PRIu64 ", \"seconds\": %.6f"
	       ", \"cpu_seconds\": %.2f, \"waits\": %" PRIu64 ", \"turns\": %" PRIu64 "}\n",
	       way, random ? "random" : "rounds", round, n, messages, (double)ns / 1e9,
	       (double)(cpu_ns(pid) - cpu) / 1e9,
	       bench_pool_counter(client, "fiber_io_waits") - waits,
	       bench_pool_counter(client, "poller_passes") - turns);
	(void)fflush(stdout);
}

/* Makes as many pipes as RLIMIT_NOFILE allows. */
static uint64_t pipes_at_most(uint64_t n)
{
	struct rlimit limit = { 2 * n + SPARE, 2 * n + SPARE };

	if (setrlimit(RLIMIT_NOFILE, &limit) < 0) {
		if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
			bench_die("getrlimit: %s", strerror(errno));
		limit.rlim_cur = min(limit.rlim_max, 2 * n + SPARE);
		(void)setrlimit(RLIMIT_NOFILE, &limit);
	}
	return min(n, (limit.rlim_cur - SPARE) / 2);
}

static uint64_t number(const char *text)
{
	char *end;
	uint64_t n = strtoull(text, &end, 10);

	if (!n || *end) {
		fprintf(stderr, "bench_io: %s: not a number\n", text);
		exit(2);
	}
	return n;
}

int main(int argc, char **argv)
{
	static const char *const ways[] = { "epoll", "epoll2", "fibers" };
	uint64_t threads = 2, n = 10000, messages = 1000000, rounds = 5;
	const char *only = NULL;

	for (int i = 1; i < argc; i += 2) {
		uint64_t *what = !strcmp(argv[i], "--threads")	? &threads
			       : !strcmp(argv[i], "--pipes")	? &n
			       : !strcmp(argv[i], "--messages") ? &messages
			       : !strcmp(argv[i], "--rounds")	? &rounds
								: NULL;

		if (!strcmp(argv[i], "--only") && i + 1 < argc) {
			only = argv[i + 1];
			continue;
		}
		if (!what || i + 1 == argc) {
			fprintf(stderr, "bench_io [--threads P] [--pipes N] [--messages M] "
					"[--rounds R] [--only epoll|epoll2|fibers]\n");
			return 2;
		}
		*what = number(argv[i + 1]);
	}
	n = pipes_at_most(n);
	bench_pool_start(&pool, BENCH_MODULES_TEST, (int)threads);
	client = bench_pool_open(&pool, 64, 1 << 16);
	for (uint64_t round = 0; round < rounds; round++) {
		for (uint64_t i = 0; i < 2 * ARRAY_SIZE(ways); i++) {
			const char *way = ways[(i + round) % ARRAY_SIZE(ways)];

			if (!only || !strcmp(way, only))
				run(way, i >= ARRAY_SIZE(ways), round, n, messages);
		}
	}
	fk_close(client);
	bench_pool_stop(&pool);
	return 0;
}
