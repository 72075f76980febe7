/* SPDX-License-Identifier: MIT */
/*
 * alloc - memory of task authors on the segmented stacks, and the total of a job
 *
 * Tasks allocate on the stack (FK_ALLOC), fill each block with its own pattern, and check it again
 * after children, thieves and other allocations. Sizes are on both sides of stacklet boundaries, in
 * every allowed order, freed explicitly or by the end of the task. A forbidden call fails its job,
 * and the log has the reason.
 *
 * THE BOUND
 *   Blumofe and Leiserson (1999), and for segmented stacks Williams and Elliott (libfork, 2024): P
 *   workers take at most P times the memory of one, up to a constant.
 *   tests/unit/core/check_stacklet.c has the constant. Here the memory that a deep job took from
 *   the
 *   arena is counted on 1, 2, 4 and 8 workers.
 */
#define CHECK_TIMEOUT 200

#include <check.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "shm/wake.h"
#include "tests/support/check_unit.h"
#include "tests/support/quiet.h"
#include "tests/support/rig.h"
#include "tests/support/tasks.h"

static struct rig rig;
static _Atomic uint64_t bad;

/* On both sides of a stacklet of 4096, 8192 ..., and rare sizes. */
static const uint32_t sizes[] = { 0,	1,    15,   16,	  17,	100,  1000,  3400,  3450,
				  3500, 3900, 3968, 4000, 4096, 5000, 8192,  10000, 16384,
				  7500, 7600, 7700, 1,	  0,	3,    40000, 65536, 1 };
#define N_SIZES (sizeof(sizes) / sizeof(sizes[0]))

static uint32_t size_of(int64_t seed)
{
	return sizes[(uint64_t)seed % N_SIZES];
}

static void fill(unsigned char *memory, int64_t seed)
{
	if (!memory || (uintptr_t)memory % 16)
		atomic_fetch_add(&bad, 1);
	memset(memory, (int)(seed * 37 + 11) & 0xff, size_of(seed));
}

static void look(const unsigned char *memory, int64_t seed)
{
	for (uint32_t i = 0; i < size_of(seed); i++)
		if (memory[i] != (unsigned char)(seed * 37 + 11)) {
			atomic_fetch_add(&bad, 1);
			return;
		}
}

/* Two blocks in each frame of a tree; the end of the task frees one of them. */
FK_TASK(int64_t, tree, (int64_t, n, int64_t, seed), unsigned char *a; unsigned char *b; int64_t x;
	int64_t y;)
{
	if (n < 2)
		FK_LEAF(n);
}
FK_BODY(tree)
{
	FK_ALLOC(a, size_of(self->seed));
	if (!self->a)
		FK_RETURN(0);
	fill(self->a, self->seed);
	FK_FORK(x, tree, self->n - 1, self->seed * 5 + 1);
	FK_CALL(y, tree, self->n - 2, self->seed * 5 + 3);
	FK_JOIN();
	look(self->a, self->seed);
	FK_ALLOC(b, size_of(self->seed + 1));
	if (!self->b)
		FK_RETURN(0);
	fill(self->b, self->seed + 1);
	if (self->n > 6) {
		/* Again, while both blocks exist. */
		self->y += self->x;
		FK_FORK(x, tree, 3, self->seed * 5 + 2);
		FK_JOIN();
		self->x = 0;
	}
	look(self->b, self->seed + 1);
	look(self->a, self->seed);
	if (self->seed % 3) {
		FK_FREE(b);
		look(self->a, self->seed);
		if (self->seed % 2)
			FK_FREE(a);
	}
	FK_RETURN(self->x + self->y);
}
FK_END(tree)

/* The same, fine-grained, with calls in between. */
FK_FINE_TASK(int64_t, fine_tree, (int64_t, n, int64_t, seed), unsigned char *a; int64_t x;
	     int64_t y;)
{
	if (n < 2)
		FK_LEAF(n);
}
FK_BODY(fine_tree)
{
	FK_CALL(x, tree, self->n - 1, self->seed + 1);
	FK_ALLOC(a, size_of(self->seed));
	if (!self->a)
		FK_RETURN(0);
	fill(self->a, self->seed);
	FK_FORK(y, fine_tree, self->n - 2, self->seed + 2);
	FK_JOIN();
	look(self->a, self->seed);
	FK_RETURN(self->x + self->y);
}
FK_END(fine_tree)

/* Allocates and frees at one depth, across every boundary. */
#define HELD 64

FK_TASK(int64_t, pile, (int64_t, rounds), unsigned char *held[HELD]; int64_t i; int64_t n;
	uint64_t random; int64_t x;)
FK_NO_LEAF(pile)
{
	self->n = 0;
	self->random = 12345;
	for (self->i = 0; self->i < self->rounds; self->i++) {
		self->random = self->random * 6364136223846793005u + 1442695040888963407u;
		if (self->n == HELD || (self->n && self->random >> 62 == 0)) {
			self->n--;
			look(self->held[self->n], self->n + self->rounds);
			FK_FREE(held[self->n]);
		} else {
			FK_ALLOC(held[self->n], size_of(self->n + self->rounds));
			fill(self->held[self->n], self->n + self->rounds);
			self->n++;
		}
		if (self->random >> 60 == 5) {
			FK_FORK(x, tree, 3, self->i);
			FK_JOIN();
		}
	}
	while (self->n) {
		self->n--;
		look(self->held[self->n], self->n + self->rounds);
		if (self->rounds % 2)
			FK_FREE(held[self->n]);
	}
	FK_RETURN(self->rounds);
}
FK_END(pile)

/* Allocates more than exists. */
FK_TASK(int64_t, greedy, (int64_t, size), char *memory; int64_t x;)
FK_NO_LEAF(greedy)
{
	FK_ALLOC(memory, (size_t)self->size);
	if (self->memory)
		memset(self->memory, 1, 1);
	FK_FREE(memory);
	FK_RETURN(self->memory != NULL);
}
FK_END(greedy)

/* Frees NULL, and continues. */
FK_TASK(int64_t, frees_null, (int64_t, n), char *memory; int64_t x; int64_t y;)
FK_NO_LEAF(frees_null)
{
	self->memory = NULL;
	FK_FREE(memory);
	FK_FORK(x, tree, self->n, 1);
	FK_JOIN();
	FK_RETURN(self->x);
}
FK_END(frees_null)

/* Never ends, and allocates more and more. */
FK_TASK(int64_t, hoards, (int64_t, n), unsigned char *memory; int64_t x; int64_t y;)
FK_NO_LEAF(hoards)
{
	FK_ALLOC(memory, size_of(self->n));
	if (!self->memory)
		FK_RETURN(0);
	fill(self->memory, self->n);
	FK_FORK(x, hoards, self->n + 1);
	FK_CALL(y, tree, 4, self->n);
	FK_JOIN();
	look(self->memory, self->n);
	FK_RETURN(self->x + self->y);
}
FK_END(hoards)

/* Misuse. */
FK_TASK(int64_t, out_of_order, (int64_t, n), char *a; char *b;)
FK_NO_LEAF(out_of_order)
{
	FK_ALLOC(a, 100);
	FK_ALLOC(b, 100);
	FK_FREE(a);
	FK_FREE(b);
	FK_RETURN(0);
}
FK_END(out_of_order)

FK_TASK(int64_t, frees_twice, (int64_t, n), char *a;)
FK_NO_LEAF(frees_twice)
{
	FK_ALLOC(a, 100);
	FK_FREE(a);
	FK_FREE(a);
	FK_RETURN(0);
}
FK_END(frees_twice)

FK_TASK(int64_t, amid_forks, (int64_t, n), char *a; int64_t x;)
FK_NO_LEAF(amid_forks)
{
	FK_FORK(x, tree, 5, 1);
	FK_ALLOC(a, 100);
	FK_JOIN();
	FK_RETURN(0);
}
FK_END(amid_forks)

FK_TASK(int64_t, frees_amid_forks, (int64_t, n), char *a; int64_t x;)
FK_NO_LEAF(frees_amid_forks)
{
	FK_ALLOC(a, 100);
	FK_FORK(x, tree, 5, 1);
	FK_FREE(a);
	FK_JOIN();
	FK_RETURN(0);
}
FK_END(frees_amid_forks)

static _Atomic int32_t unwound;

FK_DECLARE(int64_t, joins_nothing, (int64_t, n), int64_t x;)
/* The error is found after its body has ended. */
FK_UNWIND(joins_nothing)
{
	atomic_fetch_add(&unwound, 1);
	(void)self;
}
FK_DEFINE_UNWIND(int64_t, joins_nothing, (int64_t, n))
FK_NO_LEAF(joins_nothing)
{
	FK_FORK(x, tree, 5, 1);
	FK_RETURN(self->n);
}
FK_END(joins_nothing)

/* A spine of frames with a continuation to steal at each. */
FK_TASK(int64_t, spine, (int64_t, n), int64_t x; int64_t y;)
{
	if (n == 0)
		FK_LEAF(0);
}
FK_BODY(spine)
{
	FK_FORK(x, spine, self->n - 1);
	FK_CALL(y, fib, 10);
	FK_JOIN();
	FK_RETURN(self->x + self->y);
}
FK_END(spine)

/* All its children are equally deep, so that every worker can have one. */
FK_TASK(int64_t, ribs, (int64_t, n), int64_t x[16]; int64_t i; int64_t sum;)
FK_NO_LEAF(ribs)
{
	for (self->i = 0; self->i < 16; self->i++)
		FK_FORK(x[self->i], spine, self->n);
	FK_JOIN();
	self->sum = 0;
	for (self->i = 0; self->i < 16; self->i++)
		self->sum += self->x[self->i];
	FK_RETURN(self->sum);
}
FK_END(ribs)

FK_EXPORT(tree, 0, "blocks in a tree")
FK_EXPORT(fine_tree, 0, "the same, fine-grained")
FK_EXPORT(pile, 0, "many blocks in one frame")
FK_EXPORT(greedy, 0, "too large a block")
FK_EXPORT(frees_null, 0, "frees NULL")
FK_EXPORT(hoards, 0, "takes blocks for ever")
FK_EXPORT(out_of_order, 0, "frees the older one first")
FK_EXPORT(frees_twice, 0, "frees twice")
FK_EXPORT(amid_forks, 0, "allocates amid forks")
FK_EXPORT(joins_nothing, 0, "returns with a fork outstanding")
FK_EXPORT(frees_amid_forks, 0, "frees amid forks")
FK_EXPORT(ribs, 0, "deep and wide")
FK_MODULE(t, "test tasks")

static void start(uint32_t workers, bool forced)
{
	atomic_store(&bad, 0);
	rig_start(&rig, workers, &fk_module, forced);
}

static void submit_two(uint32_t job, const char *task, int64_t n, int64_t seed)
{
	int64_t args[] = { n, seed };

	rig_submit(&rig, job, task, args, sizeof(args));
}

/* After the largest blocks a worker may keep more than its first two stacklets, as spares for the
 * next job, but nothing else. */
static void stop(void)
{
	while (atomic_load(&rig.pool->idle.lazy.active))
		sched_yield();
	for (uint32_t row = 0; row < RIG_JOBS; row++)
		ck_assert_uint_eq(atomic_load(&rig.pool->rows.stack_bytes[row]), 0);
	ck_assert_int_le((int64_t)rig_counter(&rig, stack_bytes),
			 (int64_t)rig.pool->n_workers * (STACK_MIN + 2 * 65536 + 65536));
	ck_assert_uint_eq(atomic_load(&bad), 0);
	rig_stop(&rig);
}

START_TEST(blocks_keep_their_contents)
{
	for (uint32_t workers = 1; workers <= 4; workers *= 2)
		for (int forced = 0; forced < 2; forced++) {
			start(workers, forced);
			for (uint32_t round = 0; round < 3; round++) {
				for (uint32_t i = 0; i < N_SIZES; i++)
					submit_two(i, i % 2 ? "t:tree" : "t:fine_tree", 6, i);
				for (uint32_t i = 0; i < N_SIZES; i++) {
					ck_assert_uint_eq(rig_wait(&rig, i), JOB_DONE);
					ck_assert_int_eq(*(int64_t *)rig.jobs[i].result, 8);
				}
				submit_two(1, "t:tree", 11, round);
				ck_assert_uint_eq(rig_wait(&rig, 1), JOB_DONE);
			}
			stop();
		}
}
END_TEST

START_TEST(blocks_keep_their_contents_in_a_storm)
{
	for (uint32_t workers = 1; workers <= 4; workers++) {
		pthread_t storm;

		start(workers, false);
		storm = quiet_storm_begin(&rig);
		for (uint32_t i = 0; i < N_SIZES; i++) {
			submit_two(1, i % 2 ? "t:tree" : "t:fine_tree", 6, i);
			ck_assert_uint_eq(rig_wait(&rig, 1), JOB_DONE);
			ck_assert_int_eq(*(int64_t *)rig.jobs[1].result, 8);
		}
		quiet_storm_end(storm);
		stop();
	}
}
END_TEST

START_TEST(blocks_are_freed_in_reverse_order)
{
	for (uint32_t workers = 1; workers <= 4; workers *= 2)
		for (int forced = 0; forced < 2; forced++) {
			start(workers, forced);
			for (int64_t rounds = 1; rounds < 600; rounds += 51)
				ck_assert_int_eq(rig_call(&rig, "t:pile", rounds), rounds);
			stop();
		}
}
END_TEST

START_TEST(block_that_is_too_large_fails_the_job)
{
	static const int64_t none[] = { INT64_C(1) << 32,
					INT64_C(1) << 39,
					INT64_C(1) << 40,
					INT64_C(1) << 62,
					INT64_MAX - 700,
					INT64_MAX,
					-1,
					-17,
					-700 };

	start(2, false);
	ck_assert_int_eq(rig_call(&rig, "t:greedy", 1 << 20), 1);
	for (uint32_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
		rig_submit(&rig, 1, "t:greedy", &none[i], sizeof(none[i]));
		ck_assert_uint_eq(rig_wait(&rig, 1), JOB_FAILED);
		ck_assert_int_eq(atomic_load(&rig.jobs[1].code), -ENOMEM);
		ck_assert_int_eq(rig_call(&rig, "t:pile", 10), 10);
	}
	while (atomic_load(&rig.pool->idle.lazy.active))
		sched_yield();
	ck_assert_uint_eq(atomic_load(&rig.pool->rows.stack_bytes[1]), 0);
	rig_stop(&rig);
}
END_TEST

START_TEST(free_of_null_does_nothing)
{
	for (int forced = 0; forced < 2; forced++) {
		start(2, forced);
		ck_assert_int_eq(rig_call(&rig, "t:frees_null", 6), 8);
		stop();
	}
}
END_TEST

START_TEST(hoarder_fails_or_is_cancelled_and_releases_all)
{
	for (uint32_t workers = 1; workers <= 4; workers *= 2)
		for (int forced = 0; forced < 2; forced++) {
			int64_t n = 0;

			start(workers, forced);
			atomic_store(&rig.pool->settings.stack_max, 16 << 20);
			for (int i = 0; i < 5; i++) {
				rig_submit(&rig, 1, "t:hoards", &n, sizeof(n));
				ck_assert_uint_eq(rig_wait(&rig, 1), JOB_FAILED);
				ck_assert_int_eq(atomic_load(&rig.jobs[1].code), -ENOMEM);
				rig_submit(&rig, 2, "t:hoards", &n, sizeof(n));
				while (!atomic_load(&rig.pool->rows.stack_bytes[2]) &&
				       job_outcome(&rig.jobs[2]) == JOB_PENDING)
					sched_yield();
				rig_cancel(&rig, 2);
				/* The job may have failed before the cancel. */
				ck_assert_uint_ne(rig_wait(&rig, 2), JOB_DONE);
				submit_two(3, "t:tree", 6, i);
				ck_assert_uint_eq(rig_wait(&rig, 3), JOB_DONE);
			}
			while (atomic_load(&rig.pool->idle.lazy.active))
				sched_yield();
			for (uint32_t row = 0; row < RIG_JOBS; row++)
				ck_assert_uint_eq(atomic_load(&rig.pool->rows.stack_bytes[row]), 0);
			ck_assert_uint_eq(atomic_load(&bad), 0);
			rig_stop(&rig);
		}
}
END_TEST

/* Runs in a child, whose log is read: the job fails, and the worker continues. */
static void misuse(const char *task, bool forced)
{
	int64_t arg = 1;

	start(1, forced);
	rig_submit(&rig, 1, task, &arg, sizeof(arg));
	ck_assert_uint_eq(rig_wait(&rig, 1), JOB_FAILED);
	ck_assert_int_eq(rig.jobs[1].code, -EPROTO);
	ck_assert_int_eq(atomic_load(&unwound), 0);
	ck_assert_int_eq(rig_call(&rig, "t:fib", 10), 55);
	while (atomic_load(&rig.pool->idle.lazy.active))
		sched_yield();
	ck_assert_uint_eq(atomic_load(&rig.pool->rows.stack_bytes[1]), 0);
	rig_stop(&rig);
}

/* Checks that the job fails with this message. */
static void must_fail(const char *task, bool forced, const char *message)
{
	char text[4096] = "";
	size_t size = 0;
	ssize_t n;
	int pipes[2], status;
	pid_t child;

	ck_assert_int_eq(pipe(pipes), 0);
	child = fork();
	ck_assert_int_ge(child, 0);
	if (!child) {
		dup2(pipes[1], STDERR_FILENO);
		close(pipes[0]);
		close(pipes[1]);
		misuse(task, forced);
		_exit(0);
	}
	close(pipes[1]);
	while (size < sizeof(text) - 1 &&
	       (n = read(pipes[0], text + size, sizeof(text) - 1 - size)) > 0)
		size += (size_t)n;
	close(pipes[0]);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_msg(WIFEXITED(status) && !WEXITSTATUS(status), "%s: status %d, %s", task, status,
		      text);
	ck_assert_msg(strstr(text, message), "%s: %s", task, text);
}

START_TEST(misuse_is_reported)
{
	must_fail("t:out_of_order", false, "FK_FREE of what is not its newest");
	must_fail("t:out_of_order", true, "FK_FREE of what is not its newest");
	must_fail("t:frees_twice", false, "FK_FREE of what is not its newest");
	/* A fork that was not stolen has ended; here each fork is stolen. */
	must_fail("t:amid_forks", true, "FK_ALLOC where a fork is outstanding");
	must_fail("t:frees_amid_forks", true, "where a fork is outstanding");
	must_fail("t:joins_nothing", true, "returned with forks that it has not joined");
}
END_TEST

/* Returns the bytes that were ever taken from the arenas. */
static uint64_t footprint(void)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < rig.pool->n_groups; i++) {
		struct stack_arena *arena = &rig.pool->stacks[i];

		pthread_mutex_lock(&arena->lock);
		bytes += (uint64_t)(arena->next - arena->begin);
		pthread_mutex_unlock(&arena->lock);
	}
	return bytes;
}

/* A smaller depth covers the same code for ThreadSanitizer. */
#ifdef FK_SANITIZE_THREAD
#define DEPTH INT64_C(4000)
#else
#define DEPTH INT64_C(20000)
#endif

START_TEST(p_workers_take_p_times_the_memory_of_one)
{
	const int64_t depth = DEPTH;
	uint64_t one = 0;

	for (uint32_t workers = 1; workers <= 8; workers *= 2) {
		uint64_t bytes;

		rig_start_on(&rig, "numa:1 core:8 pu:1", workers, &fk_module, false);
		for (int i = 0; i < 2; i++)
			ck_assert_int_eq(rig_call(&rig, "t:ribs", depth), 16 * depth * 55);
		bytes = footprint();
		printf("M_%u = %llu bytes, %llu steals\n", workers, (unsigned long long)bytes,
		       (unsigned long long)rig_counter(&rig, steals));
		fflush(stdout);
		if (workers == 1)
			one = bytes;
		/* One rib at a time, not sixteen. */
		ck_assert_uint_ge(one, (uint64_t)depth * 72);
		ck_assert_uint_le(one, (uint64_t)depth * 72 * 5);
		/* A worker may lack the spare that another worker has, which is as large as all
		 * stacklets below it. There are also small stacks, of waiting frames. */
		ck_assert_uint_le(bytes, workers * (2 * one + 65536));
		rig_stop(&rig);
	}
}
END_TEST

/* While the dispatcher releases pages, any request wakes it at once. Here it has no chance to
 * release all, so it tries again and again. */
START_TEST(freed_memory_does_not_delay_the_dispatcher)
{
	struct stack_arena *arena;
	uint64_t switches = 0;

	start(1, false);
	arena = rig.pool->stacks;
	pthread_mutex_lock(&arena->cleaner);
	(void)rig_call(&rig, "t:ribs", 20000);
	ck_assert(stack_arena_dirty(arena));
	/* Two ticks of the dispatcher, seen by changes of its wake word. */
	for (uint32_t seen = 0, last = 0; switches < 4; last = seen) {
		seen = wake_load(&rig.pool->board->dispatcher);
		switches += wake_state(seen) == WAKE_SLEEPING && seen != last;
	}
	pthread_mutex_unlock(&arena->cleaner);
	while (stack_arena_dirty(arena))
		sched_yield();
	stop();
}
END_TEST

CHECK_MAIN("alloc")
