/* SPDX-License-Identifier: MIT */
/* fiber.c - tasks that are fibers, some of which crash or fail */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <forkd/fiber.h>

#include "tests/support/fiber_tree.h"
#include "tests/support/maze.h"

/* ------------------------------------------------------------------------ that end well */

FK_EXPORT_RESULTS(tree, (int64_t, sum), 0, "The n-th Fibonacci number, a fiber for each")

FK_EXPORT_RESULTS(calls, (int64_t, sum), 0, "Ten times the n-th Fibonacci number, by frames")
FK_EXPORT_RESULTS(both, (int64_t, sum), 0, "Eleven times the n-th Fibonacci number")

/* ------------------------------------------------------------------------ a maze */

/* Fibers yield and pause only up to this height above the leaves. If they did so further up, all of
 * a maze would begin at once, and an endless maze would use up all memory. */
#define MAZE_YIELDS 8

/* While this many have begun and not ended, no fiber yields or pauses. Each time another way begins
 * at the top, so an endless maze would have more fibers the later it is cancelled. */
#define MAZE_MANY 2000

struct maze {
	uint64_t place;
	int64_t depth;
	uint64_t value;
	struct fk_counter *told; /* counted down at the end, or NULL */
};

FK_DECLARE(uint64_t, maze_frame, (uint64_t, place, int64_t, depth), uint64_t values[MAZE_WAYS];
	   uint32_t way; uint32_t ways;)

static struct fk_local maze_here = FK_LOCAL(NULL);
static _Atomic uint32_t maze_begun;

static void maze_walk(void *arg);

/* CLOCK_MONOTONIC, ns. */
static uint64_t maze_now(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* Decides how a place is walked: 0: by frames. */
static uint64_t maze_manner(uint64_t place)
{
	return maze_mix(place ^ 77) % 4;
}

/* Starts a fiber for the way. A fiber on a shared stack must not be one to which others have
 * pointers. */
static void maze_enter(struct maze *way, struct fk_counter *all)
{
	bool last = !maze_ways(way->place, way->depth) || !maze_manner(way->place);
	int r;

	if (way->place & 1)
		r = fk_fiber_spawn(maze_walk, way, all);
	else if (way->place & 2)
		r = fk_fiber_spawn_on(maze_walk, way, all, FK_STACK_SLAB, 16384);
	else
		r = fk_fiber_spawn_on(maze_walk, way, all,
				      last ? FK_STACK_SHARED : FK_STACK_GUARDED, 16384);
	if (r < 0)
		(void)fk_fiber_fail(r);
}

static bool maze_may_wait(const struct maze *self)
{
	/* Relaxed: only a number. */
	return self->depth <= MAZE_YIELDS &&
	       atomic_load_explicit(&maze_begun, memory_order_relaxed) < MAZE_MANY;
}

/* Waits for the ways, in a manner that the place decides. */
static void maze_wait(const struct maze *self, struct fk_counter *all, uint32_t ways)
{
	void **here = fk_fiber_local(&maze_here);

	*here = (void *)(uintptr_t)self;
	switch (maze_mix(~self->place) % 3) {
	case 0:
		for (uint32_t i = ways; i > 0; i--)
			(void)fk_counter_wait(all, i - 1);
		break;
	case 1:
		if (maze_may_wait(self))
			(void)fk_fiber_yield();
		__attribute__((fallthrough));
	default:
		(void)fk_counter_wait(all, 0);
		break;
	}
}

/* Some fibers wait for something outside of the maze. */
static void maze_pause(const struct maze *self)
{
	const struct timespec nap = { .tv_nsec = 20000 };
	uint64_t how = maze_mix(self->place ^ 99) % 64;
	int ends[2];

	if (!maze_may_wait(self))
		return;
	switch (how) {
	case 0:
		if (fk_fiber_block_begin() == 0) {
			(void)nanosleep(&nap, NULL);
			(void)fk_fiber_block_end();
		}
		break;
	case 1:
		(void)fk_fiber_sleep(20000);
		break;
	case 2:
		if (pipe(ends) < 0)
			break;
		(void)fk_fiber_poll(ends[0], POLLIN, maze_now() + 20000);
		(void)close(ends[0]);
		(void)close(ends[1]);
		break;
	case 3:
		(void)fk_fiber_yield();
		break;
	default:
		break;
	}
}

static void maze_walk(void *arg)
{
	struct maze *self = arg;
	uint32_t ways = maze_ways(self->place, self->depth);
	struct fk_counter told = FK_COUNTER_OF(ways);
	struct fk_counter all = FK_COUNTER;
	struct maze below[MAZE_WAYS];
	uint64_t values[MAZE_WAYS];
	void *outside = *fk_fiber_local(&maze_here);
	uint64_t how = maze_manner(self->place);

	atomic_fetch_add_explicit(&maze_begun, 1, memory_order_relaxed);
	maze_pause(self);
	if (how == 0 && ways) {
		if (FK_FIBER_CALL(&self->value, maze_frame, self->place, self->depth) < 0)
			self->value = 0;
	} else {
		for (uint32_t i = 0; i < ways; i++) {
			below[i] = (struct maze){ .place = maze_way(self->place, i),
						  .depth = self->depth - 1,
						  .told = how == 1 ? &told : NULL };
			maze_enter(&below[i], &all);
		}
		if (how == 1)
			(void)fk_counter_wait(&told, 0);
		maze_wait(self, &all, ways);
		for (uint32_t i = 0; i < ways; i++)
			values[i] = below[i].value;
		self->value = maze_sum(self->place, values, ways);
		/* The local belongs to the fiber, on whichever worker it has run. */
		if (*fk_fiber_local(&maze_here) != self)
			self->value = 0;
	}
	*fk_fiber_local(&maze_here) = outside;
	atomic_fetch_sub_explicit(&maze_begun, 1, memory_order_relaxed);
	if (self->told)
		(void)fk_counter_add(self->told, -1);
}

FK_FIBER_TASK(uint64_t, maze_fiber, (uint64_t, place, int64_t, depth))
{
	struct maze root = { .place = place, .depth = depth };

	maze_walk(&root);
	return root.value;
}

FK_DEFINE(uint64_t, maze_frame, (uint64_t, place, int64_t, depth))
FK_NO_LEAF(maze_frame)
{
	self->ways = maze_ways(self->place, self->depth);
	for (self->way = 0; self->way < self->ways; self->way++) {
		if (self->way % 2)
			FK_FORK(values[self->way], maze_fiber, maze_way(self->place, self->way),
				self->depth - 1);
		else
			FK_FORK(values[self->way], maze_frame, maze_way(self->place, self->way),
				self->depth - 1);
	}
	FK_JOIN();
	FK_RETURN(maze_sum(self->place, self->values, self->ways));
}
FK_END(maze_frame)

FK_TASK(int64_t, maze, (int64_t, place, int64_t, depth), uint64_t value;)
FK_NO_LEAF(maze)
{
	if (self->place % 2)
		FK_CALL(value, maze_fiber, (uint64_t)self->place, self->depth);
	else
		FK_CALL(value, maze_frame, (uint64_t)self->place, self->depth);
	FK_RETURN((int64_t)self->value);
}
FK_END(maze)
FK_EXPORT_RESULTS(maze, (int64_t, value), 0, "The value of a maze, by fibers and frames")

/* ------------------------------------------------------------------------ that wait */

static void waits(void *arg)
{
	(void)fk_counter_wait(arg, 0);
}

/* Fibers that wait for a counter that never reaches 0. Each one ends and counts itself. */
FK_FIBER_TASK(int64_t, forever, (int64_t, n))
{
	struct fk_counter never = FK_COUNTER_OF(1);
	struct fk_counter waiting = FK_COUNTER;

	for (int64_t i = 0; i < n; i++)
		if (fk_fiber_spawn(waits, &never, &waiting) < 0)
			break;
	return fk_counter_wait(&waiting, 0);
}
FK_EXPORT(forever, 0, "Runs n fibers that wait until the job is cancelled")

static void reads(void *arg)
{
	const int *ends = arg;
	char byte;

	(void)fk_fiber_read(ends[0], &byte, 1, FK_NEVER);
}

/* The same, for bytes that never arrive. */
FK_FIBER_TASK(int64_t, reading, (int64_t, n))
{
	struct fk_counter waiting = FK_COUNTER;
	int ends[2];

	if (pipe(ends) < 0)
		return fk_fiber_fail(-errno);
	for (int64_t i = 0; i < n; i++)
		if (fk_fiber_spawn(reads, ends, &waiting) < 0)
			break;
	(void)fk_counter_wait(&waiting, 0);
	(void)close(ends[0]);
	(void)close(ends[1]);
	return 0;
}
FK_EXPORT(reading, 0, "Runs n fibers that read until the job is cancelled")

struct pipe {
	int ends[2];
	int64_t n;
	int64_t sum;
};

static void sends(void *arg)
{
	struct pipe *self = arg;

	for (int64_t i = 1; i <= self->n; i++)
		if (fk_fiber_write(self->ends[1], &i, sizeof(i), FK_NEVER) != sizeof(i))
			break;
	(void)close(self->ends[1]);
}

static void receives(void *arg)
{
	struct pipe *self = arg;
	int64_t x;

	while (fk_fiber_read(self->ends[0], &x, sizeof(x), FK_NEVER) == sizeof(x))
		self->sum += x;
	(void)close(self->ends[0]);
}

/* Pipes with room for one page of numbers. A sender of more waits for the receiver. */
FK_FIBER_TASK(int64_t, talk, (int64_t, n))
{
	struct fk_counter all = FK_COUNTER;
	struct pipe pipes[16] = { { .n = 0 } };
	int64_t sum = 0;

	for (size_t i = 0; i < 16; i++) {
		pipes[i].n = n;
		if (pipe(pipes[i].ends) < 0)
			return -errno;
		(void)fcntl(pipes[i].ends[1], F_SETPIPE_SZ, 4096);
		(void)fk_fiber_spawn(receives, &pipes[i], &all);
		(void)fk_fiber_spawn(sends, &pipes[i], &all);
	}
	(void)fk_counter_wait(&all, 0);
	for (size_t i = 0; i < 16; i++)
		sum += pipes[i].sum;
	return sum;
}
FK_EXPORT_RESULTS(talk, (int64_t, sum), 0,
		  "16 times the sum of the numbers to n, sent through pipes")

#define CIRCLES 100

struct circle {
	struct fk_counter one, other;
	_Atomic bool whole; /* both fibers count */
	bool *child_runs;   /* on the stack of one fiber */
};

static void is_child(void *arg)
{
	struct circle *circle = arg;

	*circle->child_runs = true;
	waits(&circle->one);
	*circle->child_runs = false;
}

/* Its child waits for it and uses its stack, so the child's wait must end before its own. */
static void is_parent(void *arg)
{
	struct fk_counter child = FK_COUNTER;
	struct circle *circle = arg;
	bool child_runs = false;

	circle->child_runs = &child_runs;
	(void)fk_fiber_spawn(is_child, circle, &child);
	waits(&child);
	if (child_runs)
		abort();
}

static void is_one(void *arg)
{
	struct circle *circle = arg;

	while (!atomic_load(&circle->whole))
		(void)fk_fiber_yield();
	waits(&circle->other);
}

static void is_other(void *arg)
{
	waits(&((struct circle *)arg)->one);
}

/* n pairs of fibers that wait for each other's end, and n such pairs of a parent and its child. */
FK_FIBER_TASK(int64_t, circle, (int64_t, n))
{
	struct circle circles[2 * CIRCLES];

	for (size_t i = 0; i < 2 * CIRCLES; i++)
		circles[i] = (struct circle){ .one = FK_COUNTER, .other = FK_COUNTER };
	for (int64_t i = 0; i < n && i < CIRCLES; i++) {
		(void)fk_fiber_spawn(is_one, &circles[2 * i], &circles[2 * i].one);
		(void)fk_fiber_spawn(is_other, &circles[2 * i], &circles[2 * i].other);
		atomic_store(&circles[2 * i].whole, true);
		(void)fk_fiber_spawn(is_parent, &circles[2 * i + 1], &circles[2 * i + 1].one);
	}
	for (size_t i = 0; i < 2 * CIRCLES; i++) {
		waits(&circles[i].one);
		waits(&circles[i].other);
	}
	return n;
}
FK_EXPORT(circle, 0, "Fibers that never end unless the job ends")

static void waits_again(void *arg)
{
	while (fk_counter_wait(arg, 0) == -ECANCELED)
		;
}

FK_FIBER_TASK(int64_t, stubborn, (int64_t, n))
{
	struct fk_counter own = FK_COUNTER;

	(void)fk_fiber_spawn(waits_again, &own, &own);
	waits(&own);
	return n;
}
FK_EXPORT(stubborn, 0, "A fiber that waits for its own end again and again")

/* ------------------------------------------------------------------------ signals */

static _Atomic uintptr_t handled_at[2]; /* an address on the handler's stack: SIGUSR1, SIGUSR2 */

static void handles(int signo)
{
	char here;

	atomic_store(&handled_at[signo == SIGUSR2], (uintptr_t)&here);
}

/* Returns true if `at` is below `here` on the stack of the same fiber. */
static int64_t is_below(uintptr_t at, uintptr_t here)
{
	return at < here && here - at < FK_FIBER_STACK;
}

static void gets_signals(void *arg)
{
	static const int signos[] = { SIGUSR1, SIGUSR2 };
	int64_t *where = arg;
	sigset_t set;
	char here;

	sigemptyset(&set);
	for (int i = 0; i < 2; i++) {
		/* Workers of a local pool block it. */
		(void)sigaddset(&set, signos[i]);
		(void)pthread_sigmask(SIG_UNBLOCK, &set, NULL);
		(void)raise(signos[i]);
		if (atomic_load(&handled_at[i]))
			*where |=
				is_below(handled_at[i], (uintptr_t)&here) ? 1 << 2 * i : 2 << 2 * i;
	}
	(void)fk_fiber_yield();
}

/* Reports where the handlers of two signals ran that fibers sent to themselves. First signal: 1 on
 * the fiber's stack, 2 elsewhere. Second signal, with SA_ONSTACK: 4 and 8. */
FK_FIBER_TASK(int64_t, signals, (int64_t, n))
{
	struct sigaction action = { .sa_handler = handles };
	int64_t where[8] = { 0 }, all;
	struct fk_counter every = FK_COUNTER;

	(void)sigaction(SIGUSR1, &action, NULL);
	action.sa_flags = SA_ONSTACK;
	(void)sigaction(SIGUSR2, &action, NULL);
	for (int64_t i = 0; i < n; i++)
		(void)fk_fiber_spawn(gets_signals, &where[i], &every);
	(void)fk_counter_wait(&every, 0);
	all = where[0];
	for (int64_t i = 1; i < n; i++)
		all = where[i] == all ? all : -1;
	return all;
}
FK_EXPORT_RESULTS(signals, (int64_t, where), 0, "Up to 8 fibers that handle signals")

/* ------------------------------------------------------------------------ that end badly */

static __attribute__((noinline)) int64_t deeper(int64_t n)
{
	volatile char here[512];

	memset((void *)(uintptr_t)here, (int)n, sizeof(here));
	return n ? deeper(n - 1) + here[n % 512] : 0;
}

static int64_t depth;

static void overflow(void *arg)
{
	(void)arg;
	depth = deeper(1 << 20);
}

static void leaves(void *arg)
{
	(void)arg;
	exit(7);
}

static void thread_ends(void *arg)
{
	(void)arg;
	pthread_exit(NULL);
}

/* Bypasses the C library. */
static void thread_vanishes(void *arg)
{
	(void)arg;
	syscall(SYS_exit, 0);
}

static void aborts(void *arg)
{
	(void)arg;
	abort();
}

/* 0: too deep; 1: exit(); 2: pthread_exit(); 3: abort(); 4: fails with EDOM; 5: too deep on a
 * shared stack; 6: exit(2). Other fibers wait at the same time. */
FK_FIBER_TASK(int64_t, ends, (int64_t, how))
{
	struct fk_counter never = FK_COUNTER_OF(1);
	struct fk_counter all = FK_COUNTER;

	for (int i = 0; i < 10; i++)
		(void)fk_fiber_spawn(waits, &never, &all);
	switch (how) {
	case 0:
		(void)fk_fiber_spawn(overflow, NULL, &all);
		break;
	case 5:
		for (int i = 0; i < 10; i++)
			(void)fk_fiber_spawn_on(waits, &never, &all, FK_STACK_SHARED, 1);
		(void)fk_fiber_spawn_on(overflow, NULL, &all, FK_STACK_SHARED, 1);
		break;
	case 4:
		(void)fk_fiber_fail(-EDOM);
		break;
	case 1:
		(void)fk_fiber_spawn(leaves, NULL, &all);
		break;
	case 2:
		(void)fk_fiber_spawn(thread_ends, NULL, &all);
		break;
	case 3:
		(void)fk_fiber_spawn(aborts, NULL, &all);
		break;
	case 6:
		(void)fk_fiber_spawn(thread_vanishes, NULL, &all);
		break;
	default:
		break;
	}
	return fk_counter_wait(&all, 0);
}
FK_EXPORT(ends, 0, "A fiber that ends badly, in one of several ways")

/* ------------------------------------------------------------------------ sections */

static _Atomic int64_t spinning;

FK_LEAF_TASK(int64_t, spin, (int64_t, n))
{
	atomic_store(&spinning, 1);
	while (atomic_load(&spinning))
		(void)sched_yield();
	return n;
}
FK_EXPORT(spin, 0, "Does not end by itself")

struct bad {
	void (*end)(void *arg);
	bool late; /* set when the worker runs another job */
};

static void ends_in_section(void *arg)
{
	struct bad *bad = arg;

	if (fk_fiber_block_begin() < 0)
		return;
	while (bad->late && !atomic_load(&spinning))
		(void)sched_yield();
	bad->end(NULL);
}

FK_FIBER_TASK(int64_t, ends_aside, (int64_t, how, int64_t, late))
{
	static void (*const ends_by[])(void *) = { overflow, leaves, thread_ends, aborts,
						   thread_vanishes };
	struct bad bad = { ends_by[how], late };
	struct fk_counter all = FK_COUNTER;

	(void)fk_fiber_spawn(ends_in_section, &bad, &all);
	return fk_counter_wait(&all, 0);
}
FK_EXPORT(ends_aside, 0, "One in a section that may block")

FK_FIBER_TASK(int64_t, naps, (int64_t, ms))
{
	struct timespec nap = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };
	int r;

	if (fk_fiber_block_begin() < 0)
		return -1;
	r = nanosleep(&nap, NULL);
	return fk_fiber_block_end() < 0 ? -1 : r;
}
FK_EXPORT(naps, 0, "Sleeps in a section that may block")

FK_EXPORT(fib, 0, "The n-th Fibonacci number, by frames")

FK_MODULE(fiber, "Tasks that are fibers")
