/* SPDX-License-Identifier: MIT */
/*
 * guest.c - a program with a pool, for valgrind and sanitizers: check-guest
 *
 * It runs code in each way and on each kind of stack. There are tasks that are stolen, plain
 * functions, and nested calls on other C stacks of a worker. Fibers on the three kinds of stacks
 * migrate and wait. All memory is the program's own. With the argument "leave" the program ends
 * with an open pool. With another argument it makes a mistake, which the checker must report:
 *
 *	overflow  a nested call on a fiber's stack writes beyond an array on the heap
 *	race      the parts of a loop write to the same variable
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <forkd/fiber.h>
#include <forkd/pool.h>
#include <forkd/task.h>

#include "tests/support/fib.h"

#define N      1000
#define INNER  64
#define FIBERS 8

static bool overflow;
static int ends[2]; /* of a pipe */
static long raced;
static _Atomic bool by_two; /* of the pool's threads */

static void must(bool holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "%s: %s\n", what, fk_error_text());
	_exit(2);
}

/* Uses much of a stack, so that a checker sees the redzones of its array. */
static void fill(int64_t first, int64_t last, void *context)
{
	char ones[3000];
	long *x = context;

	memset(ones, 1, sizeof(ones));
	for (; first < last; first++)
		x[first] = first * ones[first % (int64_t)sizeof(ones)];
}

static void race(int64_t first, int64_t last, void *context)
{
	static _Atomic pthread_t racer;
	pthread_t other = atomic_exchange_explicit(&racer, pthread_self(), memory_order_relaxed);

	(void)context;
	raced += last - first;
	if (other && other != pthread_self())
		atomic_store_explicit(&by_two, true, memory_order_relaxed);
	usleep(100);
}

static void check(long *x, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		must(x[i] == i, "a number is wrong");
	memset(x, 0, (size_t)n * sizeof(*x));
}

/* The inner loop writes to the stack of the outer one. */
static void nest(int64_t first, int64_t last, void *context)
{
	long x[INNER] = { 0 };
	int64_t result = 0;

	(void)context;
	for (; first < last; first++) {
		must(!fk_for_grain(NULL, 0, INNER, 4, fill, x), "nested fk_for");
		check(x, INNER);
		must(!FK_RUN(NULL, &result, fib, 8) && result == 21, "nested FK_RUN");
	}
}

static int descending(const void *a, const void *b, void *context)
{
	long x = *(const long *)a, y = *(const long *)b;

	(void)context;
	return (x < y) - (x > y);
}

struct fiber_arg {
	uint32_t kind;
	long done;
};

static void fiber(void *arg)
{
	struct fiber_arg *to = arg;
	int64_t result = 0;
	long *x = calloc(INNER, sizeof(*x));

	must(x && !fk_fiber_sleep(100000), "fk_fiber_sleep");
	/* The loop's data would be on the shared stack. */
	if (to->kind == FK_STACK_SHARED)
		fill(0, INNER, x);
	else
		must(!fk_for_grain(NULL, 0, INNER, 4, fill, x), "fk_for of a fiber");
	must(!fk_fiber_yield(), "fk_fiber_yield");
	check(x, INNER);
	if (overflow && to->kind == FK_STACK_GUARDED)
		fill(0, INNER + 1, x);
	must(!FK_FIBER_CALL(&result, fib, 10) && result == 55, "FK_FIBER_CALL");
	must(fk_fiber_write(ends[1], x, 1, FK_NEVER) == 1, "fk_fiber_write");
	must(fk_fiber_read(ends[0], x, 1, FK_NEVER) == 1, "fk_fiber_read");
	if (!fk_fiber_block_begin()) {
		usleep(100);
		must(!fk_fiber_block_end(), "fk_fiber_block_end");
	}
	free(x);
	to->done++;
}

FK_FIBER_TASK(int64_t, fibers, (uint32_t, kind))
{
	struct fiber_arg args[FIBERS] = { 0 };
	struct fk_counter counter = FK_COUNTER;
	int64_t done = 0;

	for (int i = 0; i < FIBERS; i++) {
		args[i].kind = kind;
		must(!fk_fiber_spawn_on(fiber, &args[i], &counter, kind, FK_FIBER_STACK),
		     "fk_fiber_spawn_on");
	}
	must(!fk_counter_wait(&counter, 0), "fk_counter_wait");
	for (int i = 0; i < FIBERS; i++)
		done += args[i].done;
	return done;
}

int main(int argc, char **argv)
{
	const struct fk_local_options options = { .workers = 3 };
	long *x = calloc(N, sizeof(*x));
	fk_client *pool;
	int64_t result;
	fk_job job;

	overflow = argc > 1 && !strcmp(argv[1], "overflow");
	must(x && !pipe2(ends, O_NONBLOCK) && !fk_open_local(&options, &pool), "fk_open_local");
	for (int i = 0; i < 5; i++) {
		must(!FK_RUN(pool, &result, fib, 14) && result == 377, "FK_RUN");
		must(!fk_for(pool, 0, N, fill, x), "fk_for");
		check(x, N);
	}
	while (argc > 1 && !strcmp(argv[1], "race") && !by_two)
		must(!fk_for_grain(pool, 0, N, 1, race, NULL), "fk_for with a race");
	must(!fk_for_grain(pool, 0, 20, 1, nest, NULL), "fk_for of loops");
	fill(0, N, x);
	must(!fk_sort(pool, x, N, sizeof(*x), descending, NULL) && x[0] == N - 1, "fk_sort");
	must(!FK_SUBMIT(pool, &job, &result, fib, 12) && !fk_wait(pool, job, FK_FOREVER) &&
		     !fk_release(pool, job) && result == 144,
	     "FK_SUBMIT");
	for (uint32_t kind = FK_STACK_GUARDED; kind <= FK_STACK_SHARED; kind++)
		must(!FK_RUN(pool, &result, fibers, kind) && result == FIBERS, "fibers");
	close(ends[0]);
	close(ends[1]);
	free(x);
	if (argc < 2 || strcmp(argv[1], "leave"))
		must(!fk_close(pool), "fk_close");
	return 0;
}
