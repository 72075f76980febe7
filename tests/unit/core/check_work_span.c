/* SPDX-License-Identifier: MIT */
/* Work and span, exactly: the tasks themselves advance the clock of these profiles. So each result
 * is known in closed form, or computed from the same steps by another rule. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/core/work_span.h"
#include "tests/support/check_unit.h"
#include "tests/support/rig.h"

#define FORK   3   /* ns charged for a fork */
#define BURDEN 100 /* ns charged for a steal */

static struct rig rig;
static uint64_t now;
static uint64_t off; /* ns of these without a CPU */

static uint64_t read_now(void)
{
	return now;
}

static uint64_t read_cpu(void)
{
	return now - off;
}

static void tick(uint64_t ns)
{
	now += ns;
}

/* ---------------------------------------------------------------- tasks */

FK_LEAF_TASK(int64_t, leaf, (int64_t, n))
{
	tick((uint64_t)n);
	return n;
}

/* The same with a frame. */
FK_TASK(int64_t, framed, (int64_t, n))
FK_NO_LEAF(framed)
{
	tick((uint64_t)self->n);
	FK_RETURN(self->n);
}
FK_END(framed)

FK_TASK(int64_t, chain, (int64_t, n), int64_t x;)
{
	tick(5);
	if (n == 0)
		FK_LEAF(0);
}
FK_BODY(chain)
{
	FK_CALL(x, chain, self->n - 1);
	FK_RETURN(self->x + 1);
}
FK_END(chain)

FK_TASK(int64_t, forked_chain, (int64_t, n), int64_t x;)
{
	tick(5);
	if (n == 0)
		FK_LEAF(0);
}
FK_BODY(forked_chain)
{
	FK_FORK(x, forked_chain, self->n - 1);
	FK_JOIN();
	FK_RETURN(self->x + 1);
}
FK_END(forked_chain)

FK_TASK(int64_t, flat, (int64_t, n), int64_t x; int64_t i;)
FK_NO_LEAF(flat)
{
	for (self->i = 0; self->i < self->n; self->i++)
		FK_FORK(x, leaf, 1000);
	FK_JOIN();
	FK_RETURN(self->n);
}
FK_END(flat)

/* Each leaf is longer than the previous one; the steps between them are part of the span. */
FK_TASK(int64_t, stairs, (int64_t, n), int64_t x; int64_t i;)
FK_NO_LEAF(stairs)
{
	for (self->i = 1; self->i <= self->n; self->i++) {
		tick(2);
		FK_FORK(x, framed, 10 * self->i);
		tick(1);
	}
	FK_JOIN();
	tick(7);
	FK_RETURN(self->n);
}
FK_END(stairs)

FK_FINE_TASK(int64_t, fib, (int64_t, n), int64_t x; int64_t y;)
{
	tick(1);
	if (n < 2)
		FK_LEAF(n);
}
FK_BODY(fib)
{
	FK_FORK(x, fib, self->n - 1);
	FK_CALL(y, fib, self->n - 2);
	FK_JOIN();
	FK_RETURN(self->x + self->y);
}
FK_END(fib)

FK_TASK(int64_t, balanced, (int64_t, depth), int64_t x; int64_t y;)
{
	if (depth == 0) {
		tick(64);
		FK_LEAF(1);
	}
}
FK_BODY(balanced)
{
	FK_FORK(x, balanced, self->depth - 1);
	FK_FORK(y, balanced, self->depth - 1);
	FK_JOIN();
	FK_RETURN(self->x + self->y);
}
FK_END(balanced)

/* A called child with its own scope, while a child of its parent is outstanding. */
FK_TASK(int64_t, inner, (int64_t, n), int64_t x; int64_t y;)
FK_NO_LEAF(inner)
{
	tick(4);
	FK_FORK(x, leaf, self->n);
	FK_FORK(y, framed, self->n);
	FK_JOIN();
	tick(6);
	FK_RETURN(self->x + self->y);
}
FK_END(inner)

FK_TASK(int64_t, outer, (int64_t, n), int64_t x; int64_t y;)
FK_NO_LEAF(outer)
{
	FK_FORK(x, framed, self->n);
	FK_CALL(y, inner, 50);
	tick(8);
	FK_JOIN();
	FK_RETURN(self->x + self->y);
}
FK_END(outer)

FK_TASK(int64_t, scopes, (int64_t, n), int64_t x; char *memory;)
FK_NO_LEAF(scopes)
{
	FK_FORK(x, framed, 10);
	FK_JOIN();
	FK_ALLOC(memory, (size_t)self->n);
	FK_GO_TO_WORKER(0);
	FK_FORK(x, leaf, 20);
	FK_JOIN();
	FK_RETURN(self->x);
}
FK_END(scopes)

FK_TASK(int64_t, failing, (int64_t, n), int64_t x; int64_t y;)
{
	if (n == 0)
		FK_LEAF_FAIL(77);
}
FK_BODY(failing)
{
	FK_FORK(x, framed, 5);
	FK_FORK(y, failing, self->n - 1);
	FK_JOIN();
	FK_RETURN(self->x + self->y);
}
FK_END(failing)

/* A tree of random steps. */
static uint64_t mix(uint64_t seed, uint64_t i)
{
	uint64_t x = seed * UINT64_C(0x9e3779b97f4a7c15) + i * UINT64_C(0xbf58476d1ce4e5b9) + 1;

	x ^= x >> 29;
	x *= UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 32;
}

static int is_leaf(uint64_t seed, int64_t depth)
{
	return depth == 0 || seed % 5 == 0;
}

FK_TASK(int64_t, tree, (int64_t, seed, int64_t, depth), int64_t x[8]; uint64_t i; uint64_t step;)
{
	tick((uint64_t)seed % 7);
	if (is_leaf((uint64_t)seed, depth))
		FK_LEAF(1);
}
FK_BODY(tree)
{
	for (self->i = 0; self->i <= (uint64_t)self->seed % 6; self->i++) {
		self->step = mix((uint64_t)self->seed, self->i);
		tick(self->step % 11);
		if (self->step >> 8 & 2)
			FK_FORK(x[self->i], tree, (int64_t)(self->step >> 16), self->depth - 1);
		else if (self->step >> 8 & 1)
			FK_CALL(x[self->i], tree, (int64_t)(self->step >> 16), self->depth - 1);
		else
			FK_JOIN();
	}
	tick(1);
	FK_JOIN();
	tick(2);
	FK_RETURN(1);
}
FK_END(tree)

FK_EXPORT(chain, 0, "")
FK_EXPORT(forked_chain, 0, "")
FK_EXPORT(leaf, 0, "")
FK_EXPORT(flat, 0, "")
FK_EXPORT(stairs, 0, "")
FK_EXPORT(fib, 0, "")
FK_EXPORT(balanced, 0, "")
FK_EXPORT(outer, 0, "")
FK_EXPORT(scopes, 0, "")
FK_EXPORT(failing, 0, "")
FK_EXPORT(tree, 0, "")
FK_MODULE(profile, "")

/* ---------------------------------------------------------------- running them */

static void prepare(struct pool *pool)
{
	struct profile_clock clock = { read_now, 1, NULL };
	struct profile_costs costs = { .fork = FORK, .burden = BURDEN };

	pool->mode.profile = profile_new(clock, costs);
	ck_assert_ptr_nonnull(pool->mode.profile);
}

static void start(void)
{
	rig_prepare = prepare;
	rig_start(&rig, 1, &fk_module, true);
}

static void stop(void)
{
	struct profile *profile = rig.pool->mode.profile;

	rig_stop(&rig);
	profile_free(profile);
}

#define FIGURE(name) atomic_load(&rig.pool->board->profile.name)

/* Runs a task, and compares its profile. Times in ns. */
#define CHECK_PROFILE(task, arg, work, span, burdened, n_forks)                                    \
	do {                                                                                       \
		uint64_t jobs = FIGURE(jobs);                                                      \
                                                                                                   \
		rig_call(&rig, "profile:" task, arg);                                              \
		ck_assert_uint_eq(FIGURE(jobs), jobs + 1);                                         \
		ck_assert_uint_eq(FIGURE(work_ps), (uint64_t)(work)*1000);                         \
		ck_assert_uint_eq(FIGURE(span_ps), (uint64_t)(span)*1000);                         \
		ck_assert_uint_eq(FIGURE(burdened_ps), (uint64_t)(burdened)*1000);                 \
		ck_assert_uint_eq(FIGURE(forks), (uint64_t)(n_forks));                             \
	} while (0)

START_TEST(span_of_a_single_leaf_is_its_work)
{
	start();
	CHECK_PROFILE("leaf", 17, 17, 17, 17, 0);
	CHECK_PROFILE("leaf", 0, 0, 0, 0, 0);
	ck_assert_uint_eq(FIGURE(frames), 0);
	ck_assert_uint_eq(FIGURE(leaves), 0);
	stop();
}
END_TEST

START_TEST(chain_of_calls_has_no_parallelism)
{
	start();
	for (uint64_t n = 0; n <= 1000; n += 250) {
		CHECK_PROFILE("chain", (int64_t)n, 5 * (n + 1), 5 * (n + 1), 5 * (n + 1), 0);
		ck_assert_uint_eq(FIGURE(frames), n);
	}
	stop();
}
END_TEST

START_TEST(chain_of_forks_has_no_parallelism_and_every_burden)
{
	start();
	for (uint64_t n = 0; n <= 1000; n += 250) {
		uint64_t all = 5 * (n + 1) + FORK * n;

		CHECK_PROFILE("forked_chain", (int64_t)n, all, all, all + BURDEN * n, n);
		ck_assert_uint_eq(FIGURE(span_forks), n);
		ck_assert_uint_eq(FIGURE(frames), n);
		ck_assert_uint_eq(FIGURE(leaves), n > 0);
	}
	stop();
}
END_TEST

START_TEST(span_of_a_flat_loop_is_its_forks_and_one_leaf)
{
	start();
	for (uint64_t n = 1; n <= 1000; n *= 10) {
		CHECK_PROFILE("flat", (int64_t)n, (1000 + FORK) * n, 1000 + FORK * n,
			      1000 + (FORK + BURDEN) * n, n);
		ck_assert_uint_eq(FIGURE(leaves), n);
		ck_assert_uint_eq(FIGURE(span_forks), n);
	}
	stop();
}
END_TEST

START_TEST(span_follows_the_longest_child)
{
	start();
	for (uint64_t n = 1; n <= 100; n *= 10)
		CHECK_PROFILE("stairs", (int64_t)n, (3 + FORK) * n + 10 * n * (n + 1) / 2 + 7,
			      (2 + FORK) * n + (n - 1) + 10 * n + 7,
			      (2 + FORK + BURDEN) * n + (n - 1) + 10 * n + 7, n);
	stop();
}
END_TEST

START_TEST(span_of_fib_is_its_longest_branch)
{
	uint64_t f[24] = { 0, 1 };

	for (int i = 2; i < 24; i++)
		f[i] = f[i - 1] + f[i - 2];
	start();
	for (uint64_t n = 2; n <= 20; n += 3)
		CHECK_PROFILE("fib", (int64_t)n, 2 * f[n + 1] - 1 + FORK * (f[n + 1] - 1),
			      1 + (n - 1) * (1 + FORK), 1 + (n - 1) * (1 + FORK + BURDEN),
			      f[n + 1] - 1);
	stop();
}
END_TEST

START_TEST(parallelism_of_a_balanced_tree_is_that_of_its_leaves)
{
	start();
	for (uint64_t d = 0; d <= 12; d += 3) {
		uint64_t leaves = UINT64_C(1) << d;

		/* The second fork of each level follows the first one. */
		CHECK_PROFILE("balanced", (int64_t)d, 64 * leaves + 2 * FORK * (leaves - 1),
			      64 + 2 * FORK * d, 64 + 2 * (FORK + BURDEN) * d, 2 * (leaves - 1));
	}
	stop();
}
END_TEST

START_TEST(called_child_is_part_of_its_parents_strand)
{
	/* inner: 4, two forks of 50, 6. */
	const uint64_t work = 4 + 2 * FORK + 100 + 6, span = 4 + 2 * FORK + 50 + 6;

	start();
	/* Shorter than the called child and its continuation; and longer. */
	CHECK_PROFILE("outer", 10, FORK + 10 + work + 8, FORK + span + 8,
		      FORK + BURDEN + span + 2 * BURDEN + 8, 3);
	CHECK_PROFILE("outer", 1000, FORK + 1000 + work + 8, FORK + 1000, FORK + BURDEN + 1000, 3);
	stop();
}
END_TEST

START_TEST(consecutive_scopes_add_up)
{
	start();
	CHECK_PROFILE("scopes", 10000, 30 + 2 * FORK, 30 + 2 * FORK, 30 + 2 * (FORK + BURDEN), 2);
	stop();
}
END_TEST

START_TEST(failed_job_has_no_profile_and_does_not_affect_the_next)
{
	int64_t n = 10;

	start();
	CHECK_PROFILE("leaf", 17, 17, 17, 17, 0);
	rig_submit(&rig, 0, "profile:failing", &n, sizeof(n));
	ck_assert_uint_eq(rig_wait(&rig, 0), JOB_FAILED);
	ck_assert_uint_eq(FIGURE(jobs), 1);
	ck_assert_uint_eq(FIGURE(work_ps), 17000);
	CHECK_PROFILE("flat", 10, (1000 + FORK) * 10, 1000 + FORK * 10, 1000 + (FORK + BURDEN) * 10,
		      10);
	stop();
}
END_TEST

/* Cost of a tree: the end of each child, counted from its own beginning, is kept until the join. */
struct cost {
	uint64_t work, span, burdened, forks;
};

static struct cost cost_of_tree(uint64_t seed, int64_t depth)
{
	struct cost c = { seed % 7, seed % 7, seed % 7, 0 };
	uint64_t ends[8], burdened_ends[8];
	int n = 0;

	if (is_leaf(seed, depth))
		return c;
	for (uint64_t i = 0; i <= seed % 6 + 1; i++) {
		uint64_t step = mix(seed, i);
		bool last = i == seed % 6 + 1;
		struct cost child = { 0 };
		uint64_t own = last ? 1 : step % 11;

		c.work += own, c.span += own, c.burdened += own;
		if (!last && step >> 8 & 3) {
			child = cost_of_tree(step >> 16, depth - 1);
			c.work += child.work;
			c.forks += child.forks;
		}
		if (!last && step >> 8 & 2) {
			c.work += FORK, c.span += FORK, c.burdened += FORK;
			c.forks++;
			ends[n] = c.span + child.span;
			burdened_ends[n++] = c.burdened + child.burdened + BURDEN;
			c.burdened += BURDEN;
		} else if (!last && step >> 8 & 1) {
			c.span += child.span;
			c.burdened += child.burdened;
		} else {
			for (; n > 0; n--) {
				c.span = max(c.span, ends[n - 1]);
				c.burdened = max(c.burdened, burdened_ends[n - 1]);
			}
		}
	}
	c.work += 2, c.span += 2, c.burdened += 2;
	return c;
}

START_TEST(costs_of_random_trees_follow_from_their_steps)
{
	uint64_t forks = 0;

	start();
	for (uint64_t i = 0; i < 300; i++) {
		struct {
			uint64_t seed;
			int64_t depth;
		} args = { mix(i, 99) >> 16, (int64_t)(i % 8) };
		struct cost want = cost_of_tree(args.seed, args.depth);

		rig_submit(&rig, 0, "profile:tree", &args, sizeof(args));
		ck_assert_uint_eq(rig_wait(&rig, 0), JOB_DONE);
		ck_assert_uint_eq(FIGURE(work_ps), want.work * 1000);
		ck_assert_uint_eq(FIGURE(span_ps), want.span * 1000);
		ck_assert_uint_eq(FIGURE(burdened_ps), want.burdened * 1000);
		ck_assert_uint_eq(FIGURE(forks), want.forks);
		forks += want.forks;
	}
	ck_assert_uint_gt(forks, 5000);
	stop();
}
END_TEST

/* Other activity of the machine, in some intervals of some jobs. */
static uint64_t disturbed;

FK_TASK(int64_t, noisy, (int64_t, n), int64_t x; int64_t i;)
FK_NO_LEAF(noisy)
{
	for (self->i = 0; self->i < self->n; self->i++) {
		tick(mix(disturbed, (uint64_t)self->i) % 3 ? 0 : UINT64_C(5000000000));
		tick(3);
		FK_FORK(x, framed, 10 + (int64_t)(mix(disturbed, (uint64_t)-self->i) % 2));
	}
	FK_JOIN();
	FK_RETURN(self->n);
}
FK_END(noisy)

FK_EXPORT(noisy, 0, "")

/* A leaf of n ns during which other programs have the CPU. */
FK_LEAF_TASK(int64_t, preempted, (int64_t, n))
{
	tick((uint64_t)n + 1000000);
	off += 1000000;
	return n;
}

FK_TASK(int64_t, preempted_twice, (int64_t, n), int64_t x;)
FK_NO_LEAF(preempted_twice)
{
	tick(7);
	FK_FORK(x, preempted, self->n);
	FK_FORK(x, preempted, self->n);
	FK_JOIN();
	FK_RETURN(self->n);
}
FK_END(preempted_twice)

FK_EXPORT(preempted_twice, 0, "")

static void prepare_preempted(struct pool *pool)
{
	struct profile_clock clock = { read_now, 1, read_cpu };
	struct profile_costs costs = { .fork = FORK, .burden = BURDEN };

	pool->mode.profile = profile_new(clock, costs);
	ck_assert_ptr_nonnull(pool->mode.profile);
}

START_TEST(time_without_a_cpu_is_not_counted)
{
	rig_prepare = prepare_preempted;
	rig_start(&rig, 1, &fk_module, true);
	for (uint64_t n = 0; n <= 1000000; n += 1000000 / 4)
		CHECK_PROFILE("preempted_twice", (int64_t)n, 7 + 2 * (n + FORK), 7 + n + 2 * FORK,
			      7 + n + 2 * (FORK + BURDEN), 2);
	stop();
}
END_TEST

static void prepare_repeated(struct pool *pool)
{
	struct profile_clock clock = { read_now, 1, NULL };
	struct profile_costs costs = { .fork = FORK, .burden = BURDEN, .repeat = true };

	pool->mode.profile = profile_new(clock, costs);
	ck_assert_ptr_nonnull(pool->mode.profile);
}

START_TEST(each_interval_of_a_repeated_job_counts_with_its_least_time)
{
	const uint64_t n = 20;

	rig_prepare = prepare_repeated;
	rig_start(&rig, 1, &fk_module, true);
	for (disturbed = 0; disturbed < 40; disturbed++)
		rig_call(&rig, "profile:noisy", (int64_t)n);
	CHECK_PROFILE("noisy", (int64_t)n, (3 + FORK + 10) * n, (3 + FORK) * n + 10,
		      (3 + FORK + BURDEN) * n + 10, n);
	ck_assert_uint_eq(FIGURE(jobs), 41);
	stop();
}
END_TEST

START_TEST(job_that_differs_from_its_repeats_counts_alone)
{
	int64_t n = 10;

	rig_prepare = prepare_repeated;
	rig_start(&rig, 1, &fk_module, true);
	CHECK_PROFILE("flat", n, (1000 + FORK) * 10, 1000 + FORK * 10, 1000 + (FORK + BURDEN) * 10,
		      10);
	/* This job was taken for a repeat until its end. */
	rig_call(&rig, "profile:balanced", 3);
	ck_assert_uint_eq(FIGURE(jobs), 1);
	CHECK_PROFILE("leaf", 17, 17, 17, 17, 0);
	CHECK_PROFILE("flat", n, (1000 + FORK) * 10, 1000 + FORK * 10, 1000 + (FORK + BURDEN) * 10,
		      10);
	stop();
}
END_TEST

START_TEST(costs_of_the_machine_are_measured)
{
	struct profile_clock clock = profile_processor_clock();
	struct profile_costs costs = profile_measure(clock, 0);

	/* Checks only that costs exist; their size depends on the machine. */
	ck_assert(clock.ns_per_tick > 0);
	ck_assert(costs.read > 0 && costs.read_error > 0 && costs.fork > 0 && costs.burden > 0);
	ck_assert(costs.adapt && costs.repeat);
	costs = profile_measure(clock, 1234);
	ck_assert(costs.burden == 1234 && !costs.adapt);
}
END_TEST

CHECK_MAIN("profile")
