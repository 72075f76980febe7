/* SPDX-License-Identifier: MIT */
#include "tests/bench/peer_run.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/bench/figures.h"
#include "tests/bench/work.h"

/*
 * Purpose
 *   The benchmarks of a library in the user's own program, for peer.c: loops over plain functions,
 *   the start of the library's threads, and its memory. Each library has one function for it,
 *   struct peer.range.
 *
 * Timing
 *   A loop is repeated. `seconds` is the median of its times. start is the first thing that a
 *   process does, and each process does it once.
 *
 * Control
 *   The smallest possible cost of a loop on other threads: a thread that polls a word answers by
 *   another word. Control and loops are measured in turns. `control` is the median of its times.
 */

#define TURNS	  20
#define REPS_MOST 1000000
#define SIZE_MOST 10000000

/* One loop: what its body needs. */
struct range {
	const struct peer *peer;
	uint32_t *out;	/* of each index */
	int64_t base;	/* the first index, as the leaf knows it */
	int64_t n;	/* numbers of an inner loop */
	int64_t rounds; /* of each leaf */
	uint64_t *times;
	int64_t reps;
};

static uint64_t now_ns(void)
{
	return (uint64_t)(peer_now() * 1e9);
}

/* ------------------------------------------------------------------------------ loops of leaves */

static void run_leaves(int64_t first, int64_t last, void *context)
{
	const struct range *range = context;

	for (int64_t i = first; i < last; i++)
		range->out[i] = work_leaf(range->base + i, range->rounds);
}

/* An inner loop for each number. */
static void run_inner(int64_t first, int64_t last, void *context)
{
	const struct range *range = context;

	for (int64_t i = first; i < last; i++) {
		struct range inner = *range;

		inner.base = i * range->n;
		inner.out += inner.base;
		range->peer->range(range->n, run_leaves, &inner);
	}
}

static double median_s(uint64_t *times, size_t n)
{
	figures_sort(times, n);
	return (double)figures_quantile(times, n, 0.5) * 1e-9;
}

/* A loop of n, with inner loops of inner numbers each unless that is 0, and all its runs. */
static int run_loops(struct run *run, struct outcome *out, int64_t n, int64_t inner,
		     char *const *more)
{
	int64_t all = inner ? n * inner : n;
	struct range range = { .peer = run->peer, .n = inner };
	uint64_t expected = 0;
	uint64_t sum = 0;

	if (figures_read(more[0], 0, 1000000, &range.rounds) < 0 ||
	    figures_read(more[1], 1, REPS_MOST, &range.reps) < 0)
		return -EINVAL;
	range.times = figures_new((size_t)range.reps);
	range.out = peer_touched(run->peer, (size_t)all * sizeof(*range.out));
	for (int64_t i = 0; i < range.reps; i++) {
		memset(range.out, 0, (size_t)all * sizeof(*range.out));
		range.times[i] = now_ns();
		run->peer->range(n, inner ? run_inner : run_leaves, &range);
		range.times[i] = now_ns() - range.times[i];
	}
	for (int64_t i = 0; i < all; i++) {
		sum += range.out[i];
		expected += work_leaf(i, range.rounds);
	}
	out->seconds = median_s(range.times, (size_t)range.reps);
	out->tasks = all;
	peer_check(out, (int64_t)(sum >> 1), (int64_t)(expected >> 1), "not the sum of all leaves");
	peer_untouched(run->peer, range.out);
	free(range.times);
	return 0;
}

int peer_run_each(struct run *run, struct outcome *out)
{
	int64_t n;

	if (!run->peer->range || figures_read(run->args[0], 1, SIZE_MOST, &n) < 0)
		return -EINVAL;
	return run_loops(run, out, n, 0, run->args + 1);
}

int peer_run_nest(struct run *run, struct outcome *out)
{
	int64_t inner;
	int64_t n;

	if (!run->peer->range || figures_read(run->args[0], 1, SIZE_MOST, &n) < 0 ||
	    figures_read(run->args[1], 1, SIZE_MOST / n, &inner) < 0)
		return -EINVAL;
	return run_loops(run, out, n, inner, run->args + 2);
}

/* ---------------------------------------------------------------------------------- empty loops */

static void run_nothing(int64_t first, int64_t last, void *context)
{
	(void)first;
	(void)last;
	(void)context;
}

static void run_count(int64_t first, int64_t last, void *context)
{
	const struct range *range = context;

	for (int64_t i = first; i < last; i++)
		range->out[i]++;
}

static void time_empty(const struct range *range)
{
	for (int64_t i = 0; i < range->reps; i++) {
		range->times[i] = now_ns();
		range->peer->range(range->n, run_nothing, NULL);
		range->times[i] = now_ns() - range->times[i];
	}
}

/* The body of a loop of one number: all runs of the empty loop, inside it. */
static void run_inside(int64_t first, int64_t last, void *context)
{
	(void)first;
	(void)last;
	time_empty(context);
}

/* Two threads: each writes its own word. */
struct hand_over {
	_Alignas(64) _Atomic int64_t ping; /* -1: the end */
	_Alignas(64) _Atomic int64_t pong;
};

static int64_t hand_over_await(_Atomic int64_t *word, int64_t old)
{
	int64_t seen;

	/* ORDER peer/hand_over [H1]: acquire: the other side's time ends after ours. Pairs with
	 * hand_over_say(). */
	while ((seen = atomic_load_explicit(word, memory_order_acquire)) == old)
		;
	return seen;
}

static void hand_over_say(_Atomic int64_t *word, int64_t value)
{
	/* ORDER peer/hand_over [H1]: release. Pairs with hand_over_await(). */
	atomic_store_explicit(word, value, memory_order_release);
}

static void *hand_over_answer(void *arg)
{
	struct hand_over *both = arg;
	int64_t seen = 0;

	while ((seen = hand_over_await(&both->ping, seen)) >= 0)
		hand_over_say(&both->pong, seen);
	return NULL;
}

static void time_hand_overs(uint64_t *times, int64_t reps)
{
	struct hand_over both = { .ping = 0 };
	pthread_t thread;

	if (pthread_create(&thread, NULL, hand_over_answer, &both)) {
		fputs("cannot start a thread\n", stderr);
		exit(1);
	}
	for (int64_t i = 0; i < reps; i++) {
		times[i] = now_ns();
		hand_over_say(&both.ping, i + 1);
		(void)hand_over_await(&both.pong, i);
		times[i] = now_ns() - times[i];
	}
	hand_over_say(&both.ping, -1);
	pthread_join(thread, NULL);
}

int peer_run_empty(struct run *run, struct outcome *out)
{
	struct range range = { .peer = run->peer };
	int64_t counted = 0;
	uint64_t *controls;
	uint64_t *times;
	bool inside;
	int64_t n;

	if (!run->peer->range || figures_read(run->args[0], 1, SIZE_MOST, &n) < 0 ||
	    figures_read(run->args[1], 1, REPS_MOST, &range.reps) < 0)
		return -EINVAL;
	inside = !strcmp(run->args[2], "inside");
	if (!inside && strcmp(run->args[2], "outside"))
		return -EINVAL;
	range.n = n;
	range.out = figures_alloc((size_t)n, sizeof(*range.out));
	times = figures_new((size_t)range.reps * TURNS);
	controls = figures_new((size_t)range.reps * TURNS);
	run->peer->range(n, run_count, &range);
	for (int64_t i = 0; i < n; i++)
		counted += range.out[i] == 1;
	for (int64_t turn = 0; turn < TURNS; turn++) {
		range.times = times + turn * range.reps;
		time_hand_overs(controls + turn * range.reps, range.reps);
		if (inside)
			run->peer->range(1, run_inside, &range);
		else
			time_empty(&range);
	}
	out->seconds = median_s(times, (size_t)range.reps * TURNS);
	out->tasks = n;
	snprintf(out->extra, sizeof(out->extra), ", \"control\": %.9f",
		 median_s(controls, (size_t)range.reps * TURNS));
	peer_check(out, counted, n, "not each number once");
	free(controls);
	free(times);
	free(range.out);
	return 0;
}

/* --------------------------------------------------------------------------- start and memory */

/* Resident memory of this process by what is mapped, in KiB. */
struct resident {
	long heap;
	long anonymous; /* stacks too */
	long shared;	/* memfds */
	long files;
};

static long *resident_of(struct resident *sum, const char *path)
{
	if (!strcmp(path, "[heap]"))
		return &sum->heap;
	if (!strncmp(path, "/memfd:", 7))
		return &sum->shared;
	return path[0] == '/' ? &sum->files : &sum->anonymous;
}

static struct resident resident_now(void)
{
	FILE *f = fopen("/proc/self/smaps", "re");
	struct resident sum = { 0 };
	long *kind = &sum.anonymous;
	char line[512];

	while (f && fgets(line, sizeof(line), f)) {
		unsigned long from, to;
		char path[256] = "";
		long kib;

		if (sscanf(line, "%lx-%lx %*s %*s %*s %*s %255s", &from, &to, path) >= 2)
			kind = resident_of(&sum, path);
		else if (sscanf(line, "Rss: %ld", &kib) == 1)
			*kind += kib;
	}
	if (f)
		fclose(f);
	return sum;
}

static void print_resident(const char *name, struct resident kib)
{
	printf(", \"%s\": {\"heap\": %ld, \"anonymous\": %ld, \"shared\": %ld, \"files\": %ld}",
	       name, kib.heap, kib.anonymous, kib.shared, kib.files);
}

int peer_run_start(const struct run *run)
{
	const struct timespec pause = { .tv_nsec = 100000000 };
	bool memory = !strcmp(run->bench, "idle");
	uint32_t counts[64] = { 0 };
	struct range range = { .out = counts };
	struct resident resident[3];
	int64_t n = run->threads;
	double first;
	double end;

	if (!run->peer->range || run->args[0] || n > 64)
		return 2;
	if (memory) {
		/* The first time takes memory itself. */
		(void)resident_now();
		resident[0] = resident_now();
	}
	first = -peer_now();
	if (run->peer->start)
		run->peer->start(run->threads);
	run->peer->range(n, run_count, &range);
	first += peer_now();
	if (memory) {
		nanosleep(&pause, NULL);
		resident[1] = resident_now();
	}
	end = -peer_now();
	if (run->peer->stop)
		run->peer->stop();
	end += peer_now();
	for (int64_t i = 0; i < n; i++)
		if (counts[i] != 1) {
			fprintf(stderr, "%s: number %d was not counted once\n", run->peer->name,
				(int)i);
			return 1;
		}
	printf("{\"peer\": \"%s\", \"bench\": \"%s\", \"threads\": %d", run->peer->name, run->bench,
	       run->threads);
	if (memory) {
		resident[2] = resident_now();
		print_resident("before_kib", resident[0]);
		print_resident("idle_kib", resident[1]);
		print_resident("after_kib", resident[2]);
	} else {
		printf(", \"seconds\": %.9f, \"stop_seconds\": %.9f", first, end);
	}
	printf("}\n");
	return 0;
}
