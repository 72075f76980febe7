/* SPDX-License-Identifier: MIT */
/*
 * bench_cancel.c - the time from a cancel until the job has ended
 *
 * Starts a private forkd and cancels running jobs:
 *
 * 	bench_cancel [--threads P] [--samples N]
 *
 * 	tree    a fork-join tree of leaves of 10 us
 * 	fib     a fork-join tree of a few instructions a task
 * 	pit     PIT nested forks, each with such a leaf after the fork, and a tree of leaves at the
 * 	        bottom; cancelled from there, with all forks outstanding
 *
 * For each kind of job three times are measured in turn, from the same state: the job keeps all
 * workers busy, and this program has just slept for a random time.
 * 	futex   control: a thread of this program is woken by a futex, and answers by one
 * 	relay   control: the path of a cancel, without its work. A packet to a thread (as to the
 * 	        manager), one from it to another thread (as to the pool), and an answer by a futex.
 * 	        seen is the time until the second thread had its packet
 * 	cancel  from before fk_cancel() until fk_wait() returns; ended is the time until the job had
 * 	        its outcome, by the clock of the worker that gave it (ended_ns of the record)
 * The cost of forkd itself is cancel - relay, and within pool and manager ended - seen. One line of
 * JSON for each kind of job:
 * 	{"bench": "cancel", "what": "tree", "threads": 2, "samples": 50, "missed": 0,
 * 	 "leaf_ns": 10000, "client_ns": {"p50": ..., "p99": ..., "p999": ..., "max": ...},
 * 	 "ended_ns": {...}, "relay_ns": {...}, "seen_ns": {...}, "futex_ns": {...},
 * 	 "pss_before_kib": ..., "pss_running_kib": ..., "pss_after_kib": ...,
 * 	 "stacks_before": ..., "stacks_after": ..., "unwound": ..., "steals": ...}
 * missed: jobs that had ended before they were cancelled. running: before the cancel of one more
 * job. stacks: bytes of stacklets in use, by the workers' counters. unwound, steals: frames that
 * ended by the cancel, and frames stolen before, in a job.
 * Exit status 0; 1 if a job ended in another way, or not within 10 s; 2 for a wrong command line.
 * No time makes it fail.
 *
 * Threads: the main thread measures; the controls have three threads, which otherwise sleep.
 *
 * INVARIANTS
 *   I1. `answer` counts the controls. It is stored by the task, after seen_ns, and the main
 *       thread starts no control before it has seen the answer of the last one.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "client/lib/client.h"
#include "common/clock.h"
#include "shm/futex.h"
#include "shm/limits.h"
#include "tests/bench/bench_pool.h"
#include "tests/bench/figures.h"

#define PIT	    4000000
#define GIVE_UP_NS  UINT64_C(10000000000)
#define SETTLE_NS   999999999
#define LEAF_NS	    10000
#define LEAF_ROUNDS 8000 /* about LEAF_NS */
#define HEAP	    (1u << 20)
#define PACKET	    64

struct kind {
	const char *what;
	const char *modules;
	const char *task;
	union fk_value values[3];
	size_t n;
	uint64_t leaf_ns;
	bool flagged; /* its last value is a flag, which it sets at its full depth */
};

/* State that the controls share. */
static struct {
	/* the main thread writes */
	_Alignas(64) _Atomic uint32_t question;
	/* echo() and second() write */
	_Alignas(64) _Atomic uint32_t answer;
	uint64_t seen_ns;
	/* written once */
	_Alignas(64) int to_first[2];
	int to_second[2];
} control;

struct samples {
	uint64_t *client, *ended, *relay, *seen, *futex;
};

static struct bench_pool pool;
static fk_client *client;
static _Atomic uint32_t *flag;

/* ----------------------------------------------------------------------------------- controls */

static void await(_Atomic uint32_t *word, uint32_t value)
{
	uint32_t now;

	/* ORDER cancel/answer [B1]: acquire: makes seen_ns visible. Pairs with answer(). */
	while ((now = atomic_load_explicit(word, memory_order_acquire)) != value)
		(void)futex_wait(word, now, 0);
}

static void answer(uint32_t value)
{
	control.seen_ns = clock_ns();
	/* ORDER cancel/answer [B1]: release. Pairs with await(). */
	atomic_store_explicit(&control.answer, value, memory_order_release);
	(void)futex_wake(&control.answer, 1);
}

static void *echo(void *arg)
{
	(void)arg;
	for (uint32_t next = 1;; next += 2) {
		await(&control.question, next);
		answer(next);
	}
	return NULL;
}

static void *first(void *arg)
{
	uint32_t packet[PACKET / sizeof(uint32_t)];

	(void)arg;
	while (recv(control.to_first[1], packet, sizeof(packet), 0) > 0)
		(void)send(control.to_second[0], packet, sizeof(packet), 0);
	return NULL;
}

static void *second(void *arg)
{
	uint32_t packet[PACKET / sizeof(uint32_t)];

	(void)arg;
	while (recv(control.to_second[1], packet, sizeof(packet), 0) > 0)
		answer(packet[0]);
	return NULL;
}

static void controls_start(void)
{
	void *(*const runs[])(void *) = { echo, first, second };
	pthread_t thread;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, control.to_first) < 0 ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET, 0, control.to_second) < 0)
		bench_die("no sockets: %s", strerror(errno));
	/* They end with the process. */
	for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++)
		if (pthread_create(&thread, NULL, runs[i], NULL) || pthread_detach(thread))
			bench_die("cannot start a thread");
}

/* Odd numbers are echo()'s, even ones first()'s; the two alternate. */
static uint64_t control_futex(uint32_t number)
{
	uint64_t began = clock_ns();

	/* Relaxed: only the number is passed. */
	atomic_store_explicit(&control.question, number, memory_order_relaxed);
	(void)futex_wake(&control.question, 1);
	await(&control.answer, number);
	return clock_ns() - began;
}

static uint64_t control_relay(uint32_t number, uint64_t *ret_seen_ns)
{
	uint32_t packet[PACKET / sizeof(uint32_t)] = { number };
	uint64_t began = clock_ns();
	uint64_t took;

	if (send(control.to_first[0], packet, sizeof(packet), 0) < 0)
		bench_die("cannot send: %s", strerror(errno));
	await(&control.answer, number);
	took = clock_ns() - began;
	*ret_seen_ns = control.seen_ns - began;
	return took;
}

/* --------------------------------------------------------------------------------------- jobs */

/* One to three milliseconds. */
static void pause_randomly(void)
{
	static uint64_t random = 1;
	struct timespec ts = { 0 };

	random = random * 6364136223846793005 + 1442695040888963407;
	ts.tv_nsec = 1000000 + (long)((random >> 33) % 2000000);
	(void)nanosleep(&ts, NULL);
}

/* Submits the job; returns when it runs: a pit, when it has its full depth. */
static fk_job start(const struct kind *kind)
{
	uint64_t roots = bench_pool_counter(client, "jobs_started");
	union fk_value values[3];
	fk_job job;
	int r;

	memcpy(values, kind->values, sizeof(values));
	if (kind->flagged)
		values[kind->n - 1].buf = (struct fk_buffer){ .data = flag, .size = sizeof(*flag) };
	/* Relaxed: only the flag is passed. */
	atomic_store_explicit(flag, 0, memory_order_relaxed);
	r = fk_submit_values(client, bench_pool_task(client, kind->task), values, kind->n, 0, &job);
	if (r < 0)
		bench_die("%s: %s", kind->task, fk_strerror(r));
	/* Counted when it starts, or with the strand: in that case only the pause counts. */
	for (int i = 0;
	     !kind->flagged && i < 1000 && bench_pool_counter(client, "jobs_started") == roots; i++)
		;
	while (kind->flagged && !atomic_load_explicit(flag, memory_order_relaxed) &&
	       fk_poll(client, job) == 0)
		pause_randomly();
	pause_randomly();
	return job;
}

/* Returns true if the job was cancelled, and had not ended before. */
static bool cancel(const struct kind *kind, fk_job job, uint64_t *ret_ns, uint64_t *ret_ended_ns)
{
	uint64_t began = clock_ns();
	int outcome;
	int r;

	do
		r = fk_cancel(client, job);
	while (r == -FK_E_REQUESTS_FULL);
	if (r == 0)
		r = fk_wait(client, job, GIVE_UP_NS);
	*ret_ns = clock_ns() - began;
	outcome = r < 0 ? r : fk_outcome(client, job, NULL, NULL);
	/* Relaxed: written before the outcome. */
	*ret_ended_ns =
		atomic_load_explicit(&client_job(client, job)->ended_ns, memory_order_relaxed) -
		began;
	if (r == 0)
		r = fk_release(client, job);
	if (r < 0)
		bench_die("%s: %s", kind->task, fk_strerror(r));
	if (outcome != FK_CANCELLED && outcome != FK_DONE)
		bench_die("%s: the outcome is %s", kind->task, fk_outcome_name(outcome));
	return outcome == FK_CANCELLED;
}

static void measure(const struct kind *kind, uint32_t threads, uint32_t samples)
{
	struct timespec settle = { .tv_nsec = SETTLE_NS };
	struct samples s = { figures_new(samples), figures_new(samples), figures_new(samples),
			     figures_new(samples), figures_new(samples) };
	int64_t stacks = (int64_t)bench_pool_counter(client, "stack_bytes");
	int64_t before = bench_pool_pss(client);
	static uint32_t number;
	uint32_t missed = 0;
	int64_t running;
	uint64_t ignored;
	uint64_t steals;
	uint64_t unwound;
	fk_job job = start(kind);

	running = bench_pool_pss(client);
	(void)cancel(kind, job, &ignored, &ignored);
	(void)nanosleep(&settle, NULL);
	steals = bench_pool_counter(client, "steals");
	unwound = bench_pool_counter(client, "unwound");
	for (uint32_t i = 0; i < samples; i++) {
		job = start(kind);
		s.futex[i] = control_futex(++number);
		pause_randomly();
		s.relay[i] = control_relay(++number, &s.seen[i]);
		pause_randomly();
		missed += !cancel(kind, job, &s.client[i], &s.ended[i]);
	}
	(void)nanosleep(&settle, NULL);
	printf("{\"bench\": \"cancel\", \"what\": \"%s\", \"threads\": %u, \"samples\": %u, "
	       "\"missed\": %u, \"leaf_ns\": %llu",
	       kind->what, threads, samples, missed, (unsigned long long)kind->leaf_ns);
	figures_print("client_ns", s.client, samples);
	figures_print("ended_ns", s.ended, samples);
	figures_print("relay_ns", s.relay, samples);
	figures_print("seen_ns", s.seen, samples);
	figures_print("futex_ns", s.futex, samples);
	printf(", \"pss_before_kib\": %lld, \"pss_running_kib\": %lld, \"pss_after_kib\": %lld, "
	       "\"stacks_before\": %lld, \"stacks_after\": %lld, \"unwound\": %llu, "
	       "\"steals\": %llu}\n",
	       (long long)before, (long long)running, (long long)bench_pool_pss(client),
	       (long long)stacks, (long long)bench_pool_counter(client, "stack_bytes"),
	       (unsigned long long)((bench_pool_counter(client, "unwound") - unwound) / samples),
	       (unsigned long long)((bench_pool_counter(client, "steals") - steals) / samples));
	(void)fflush(stdout);
	free(s.client);
	free(s.ended);
	free(s.relay);
	free(s.seen);
	free(s.futex);
}

int main(int argc, char **argv)
{
	uint32_t threads = 2, samples = 50;
	const struct figures_option options[] = {
		{ "threads", 1, LIMIT_WORKERS, &threads },
		{ "samples", 1, 100000, &samples },
		{ NULL, 0, 0, NULL },
	};
	static const struct kind kinds[] = {
		{ .what = "tree",
		  .modules = BENCH_MODULES_TEST,
		  .task = "busy:tree",
		  .values = { { .i64 = 100000000 }, { .i64 = LEAF_ROUNDS } },
		  .n = 2,
		  .leaf_ns = LEAF_NS },
		{ .what = "fib",
		  .modules = BENCH_MODULES_COUNTED,
		  .task = "fib:fib",
		  .values = { { .i64 = 60 } },
		  .n = 1 },
		{ .what = "pit",
		  .modules = BENCH_MODULES_TEST,
		  .task = "busy:pit",
		  .values = { { .i64 = PIT }, { .i64 = LEAF_ROUNDS } },
		  .n = 3,
		  .leaf_ns = LEAF_NS,
		  .flagged = true },
	};

	figures_options(argc, argv, options);
	controls_start();
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		void *mem;

		bench_pool_start(&pool, kinds[i].modules, (int)threads);
		client = bench_pool_open(&pool, 0, HEAP);
		if (fk_alloc(client, sizeof(*flag), &mem) < 0)
			bench_die("no memory in the heap");
		flag = mem;
		measure(&kinds[i], threads, samples);
		fk_close(client);
		bench_pool_stop(&pool);
	}
	return 0;
}
