/* SPDX-License-Identifier: MIT */
/*
 * peer_threads - the fibers' benchmarks with a thread for each fiber, but P at a time
 *
 * The workloads of fiber_work.h by pthread_create() and pthread_join(). Beyond P threads a fiber is
 * a plain call: without this bound the system would soon run out of threads. Threads that wait do
 * not count.
 *
 * Threads: the runner's, and those that it and they create.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/bench/peer.h"

struct call {
	pthread_t thread;
	void (*fn)(void *arg);
	void *arg;
	struct call *next;
};

struct group {
	struct call *first;
};

static int most;
static _Atomic int running = 1;

static void *call_run(void *arg)
{
	struct call *call = arg;

	call->fn(call->arg);
	atomic_fetch_sub(&running, 1);
	return NULL;
}

static void spawn(void (*fn)(void *), void *arg, struct group *group)
{
	int n = atomic_load(&running);
	struct call *call;

	while (n < most && !atomic_compare_exchange_weak(&running, &n, n + 1))
		;
	if (n >= most) {
		fn(arg);
		return;
	}
	call = malloc(sizeof(*call));
	if (!call) {
		fputs("out of memory\n", stderr);
		exit(1);
	}
	*call = (struct call){ .fn = fn, .arg = arg, .next = group->first };
	if (pthread_create(&call->thread, NULL, call_run, call)) {
		free(call);
		atomic_fetch_sub(&running, 1);
		fn(arg);
		return;
	}
	group->first = call;
}

static void wait_for(struct group *group)
{
	struct call *call;

	if (!group->first)
		return;
	atomic_fetch_sub(&running, 1);
	while ((call = group->first)) {
		pthread_join(call->thread, NULL);
		group->first = call->next;
		free(call);
	}
	atomic_fetch_add(&running, 1);
}

#define FIBER_GROUP(name)	    struct group name = { NULL }
#define FIBER_SPAWN(fn, arg, group) spawn(fn, arg, &(group))
#define FIBER_WAIT(group)	    wait_for(&(group))
#include "tests/bench/fiber_work.h"

#define PARTS_MOST 4096 /* threads of a peer, at most */

struct part {
	pthread_t thread;
	void (*body)(int64_t first, int64_t last, void *context);
	void *context;
	int64_t first;
	int64_t last;
};

static void *part_run(void *arg)
{
	const struct part *part = arg;

	part->body(part->first, part->last, part->context);
	return NULL;
}

/* A thread for each of P parts: the control of the start of a pool. */
static void range(int64_t n, void (*body)(int64_t first, int64_t last, void *context),
		  void *context)
{
	struct part parts[PARTS_MOST];

	for (int i = 0; i < most; i++) {
		struct part *part = &parts[i];

		part->body = body;
		part->context = context;
		part->first = n * i / most;
		part->last = n * (i + 1) / most;
		if (pthread_create(&part->thread, NULL, part_run, part)) {
			fputs("cannot start a thread\n", stderr);
			exit(1);
		}
	}
	for (int i = 0; i < most; i++)
		pthread_join(parts[i].thread, NULL);
}

static void start(int threads)
{
	most = threads;
}

int main(int argc, char **argv)
{
	static const struct peer peer = {
		.name = "threads",
		.start = start,
		.fib = kernel_fib,
		.steps = fiber_steps,
		.range = range,
		.cut_fib = fiber_cut_fib,
		.cut_nqueens = fiber_cut_nqueens,
	};

	return peer_main(&peer, argc, argv);
}
