/* SPDX-License-Identifier: MIT */
/*
 * bench_hidden.c - the time that a continuation waits while its worker runs a long leaf
 *
 * Starts a private forkd and runs jobs that fork and then stay in a leaf until thieves have taken
 * all continuations (modules/hidden.c):
 *
 * 	bench_hidden [--threads P] [--samples N]
 *
 * 	public   one continuation, which thieves can see at once
 * 	hidden   HIDDEN of them: more than a worker publishes, so that a signal publishes some
 * 	         during the leaf
 *
 * After each job the control: one thread of this program sends a signal to another one, which runs
 * on another CPU; the time until its handler has run. One line of JSON each:
 * 	{"bench": "hidden", "what": "public", "threads": 2, "samples": 500, "exposed": 0,
 * 	 "first_ns": {"p50": ..., "p99": ..., "p999": ..., "max": ...}, "last_ns": {...},
 * 	 "signal_ns": {...}}
 * first, last: from the start of the leaf until a thief ran the first (last) continuation.
 * exposed: samples in which a signal published entries during a leaf. Exit status 0; 1 if work
 * was never taken; 2 for a wrong command line. No time makes it fail.
 *
 * Threads: the main thread, and the target of the signals, which sleeps while a job runs.
 *
 * INVARIANTS
 *   I1. `ask` counts the controls. From a new number on, the target spins until the handler, on its
 *       own thread, has stored `got`.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/clock.h"
#include "shm/fence.h"
#include "shm/futex.h"
#include "shm/limits.h"
#include "tests/bench/bench_pool.h"
#include "tests/bench/figures.h"

#define HIDDEN 16

static struct bench_pool pool;
static fk_client *client;

/* Relaxed throughout, except for got: only the numbers are passed. */
static struct {
	/* the main thread writes */
	_Alignas(64) _Atomic uint32_t ask;
	/* the target's thread writes */
	_Alignas(64) _Atomic uint32_t spinning;
	_Atomic uint32_t got;
	_Atomic uint64_t got_ns;
} control;

static void on_signal(int signo)
{
	(void)signo;
	atomic_store_explicit(&control.got_ns, clock_ns(), memory_order_relaxed);
	/* ORDER hidden/got [B2]: release: publishes got_ns. Pairs with control_signal(). */
	atomic_store_explicit(&control.got,
			      atomic_load_explicit(&control.spinning, memory_order_relaxed),
			      memory_order_release);
}

static void *target(void *arg)
{
	(void)arg;
	for (uint32_t last = 0;; last++) {
		while (atomic_load_explicit(&control.ask, memory_order_relaxed) == last)
			(void)futex_wait(&control.ask, last, 0);
		atomic_store_explicit(&control.spinning, last + 1, memory_order_relaxed);
		while (atomic_load_explicit(&control.got, memory_order_relaxed) == last)
			fence_pause();
	}
	return NULL;
}

/* Two threads on two CPUs, if there are two. */
static pthread_t control_start(void)
{
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	cpu_set_t all;
	cpu_set_t one;
	pthread_t thread;
	int cpu = 0;

	sigaction(SIGUSR1, &action, NULL);
	if (pthread_create(&thread, NULL, target, NULL))
		bench_die("cannot start a thread");
	if (sched_getaffinity(0, sizeof(all), &all) == 0 && CPU_COUNT(&all) > 1) {
		while (!CPU_ISSET(cpu, &all))
			cpu++;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		CPU_CLR(cpu, &all);
		(void)pthread_setaffinity_np(thread, sizeof(one), &one);
		(void)pthread_setaffinity_np(pthread_self(), sizeof(all), &all);
	}
	return thread;
}

static uint64_t control_signal(pthread_t thread, uint32_t number)
{
	uint64_t began;

	atomic_store_explicit(&control.ask, number, memory_order_relaxed);
	(void)futex_wake(&control.ask, 1);
	while (atomic_load_explicit(&control.spinning, memory_order_relaxed) != number)
		sched_yield();
	began = clock_ns();
	(void)pthread_kill(thread, SIGUSR1);
	/* ORDER hidden/got [B2]: acquire. Pairs with on_signal(). */
	while (atomic_load_explicit(&control.got, memory_order_acquire) != number)
		sched_yield();
	return atomic_load_explicit(&control.got_ns, memory_order_relaxed) - began;
}

static void measure(const char *what, int64_t depth, pthread_t thread, uint32_t threads,
		    uint32_t samples)
{
	const fk_task *task = bench_pool_task(client, "hidden:nest");
	uint64_t *first = figures_new(samples);
	uint64_t *last = figures_new(samples);
	uint64_t *signals = figures_new(samples);
	union fk_value value = { .i64 = depth };
	static uint32_t number;
	uint32_t exposed = 0;

	for (uint32_t i = 0; i < samples; i++) {
		uint64_t before = bench_pool_counter(client, "published_by_signal");
		struct {
			int64_t first;
			int64_t last;
		} result;

		bench_pool_call(client, task, &value, 1, &result, sizeof(result));
		if (result.last < 0)
			bench_die("work behind a leaf was not taken within ten seconds");
		first[i] = (uint64_t)result.first;
		last[i] = (uint64_t)result.last;
		exposed += bench_pool_counter(client, "published_by_signal") != before;
		signals[i] = control_signal(thread, ++number);
	}
	printf("{\"bench\": \"hidden\", \"what\": \"%s\", \"threads\": %u, \"samples\": %u, "
	       "\"exposed\": %u",
	       what, threads, samples, exposed);
	figures_print("first_ns", first, samples);
	figures_print("last_ns", last, samples);
	figures_print("signal_ns", signals, samples);
	printf("}\n");
	(void)fflush(stdout);
	free(first);
	free(last);
	free(signals);
}

int main(int argc, char **argv)
{
	uint32_t threads = 2, samples = 500;
	const struct figures_option options[] = {
		{ "threads", 2, LIMIT_WORKERS, &threads },
		{ "samples", 1, 1000000, &samples },
		{ NULL, 0, 0, NULL },
	};
	pthread_t thread;

	figures_options(argc, argv, options);
	bench_pool_start(&pool, BENCH_MODULES_TEST, (int)threads);
	client = bench_pool_open(&pool, 0, 0);
	thread = control_start();
	measure("public", 1, thread, threads, samples);
	measure("hidden", HIDDEN, thread, threads, samples);
	fk_close(client);
	bench_pool_stop(&pool);
	return 0;
}
