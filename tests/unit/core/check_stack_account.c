/* SPDX-License-Identifier: MIT */
/* stack account - the stack memory that each job has, the charge for it, and its limit: with the
 * arena alone, and in a whole pool */
#include <check.h>
#include <errno.h>
#include <string.h>

#include "daemon/core/stacklet.h"
#include "tests/support/check_unit.h"
#include "tests/support/quiet.h"
#include "tests/support/stack_room.h"

static _Atomic uint64_t account;

static void bill(struct stack_cache *from, uint64_t max)
{
	atomic_store(&account, 0);
	stack_bill(from, &account, max);
}

static uint64_t stack_size(struct fk_stack *top, bool first)
{
	uint64_t bytes = top->spare ? UINT64_C(1) << top->spare->size_log : 0;

	for (; top; top = top->prev) {
		bytes += top->prev ? UINT64_C(1) << top->size_log : 0;
		bytes += top->nested ? stack_size(top->nested, true) : 0;
	}
	return bytes + (first ? STACK_MIN : 0);
}

/* A nested call on this stacklet, with others within it. It gives its stack away, or keeps it. */
static void nest(struct fk_stack *top, uint64_t *seed)
{
	struct fk_stack *stack = stack_nest(&room_cache, top), *above;

	if (!stack)
		return;
	if (room_random(seed, 2))
		nest(stack, seed);
	above = stack_push(&room_cache, stack, stack_first(stack), 64);
	if (above)
		ck_assert_ptr_eq(stack_pop(&room_cache, above), stack);
	if (!room_random(seed, 4)) {
		stack_free(&room_cache, stack);
		stack = NULL;
	}
	stack_unnest(&room_cache, top, stack);
}

/* I3 of stacklet.h, in any order of pushes, pops, hand-overs and nested calls. */
START_TEST(account_is_the_sum_of_the_stacklets_of_a_job)
{
	enum { N = 8 };
	const uint64_t max = 3u << 20;
	struct fk_stack *tops[N];
	uint64_t seed = 1, refused = 0, most = 0;
	uint32_t on = 0; /* the one on which the worker runs */

	room_begin(ROOM_MAX);
	bill(&room_cache, max);
	for (uint32_t i = 0; i < N; i++) {
		tops[i] = stack_new(&room_cache);
		ck_assert(i == on || stack_give(&room_cache, tops[i]));
	}
	for (uint32_t step = 0; step < 100000; step++) {
		uint64_t sum = 0, before = atomic_load(&account);
		uint32_t what = (uint32_t)room_random(&seed, 9);
		struct fk_stack *next;

		if (what < 4) {
			next = stack_push(&room_cache, tops[on], stack_first(tops[on]),
					  room_random(&seed, 1000) ? 64
								   : room_random(&seed, 1 << 20));
			/* Its spare may have been replaced. */
			ck_assert(next || atomic_load(&account) <= before);
			refused += !next;
			tops[on] = next ? next : tops[on];
		} else if (what < 7) {
			if (tops[on]->prev)
				tops[on] = stack_pop(&room_cache, tops[on]);
		} else if (what < 8) {
			nest(tops[on], &seed);
		} else {
			ck_assert(stack_give(&room_cache, tops[on]) || atomic_load(&account) > max);
			on = (uint32_t)room_random(&seed, N);
			stack_take(&room_cache);
		}
		for (uint32_t i = 0; i < N; i++)
			sum += stack_size(tops[i], i != on);
		ck_assert_uint_eq(atomic_load(&account), sum);
		ck_assert_uint_le(sum, max + STACK_MIN);
		most = sum > most ? sum : most;
	}
	ck_assert_uint_gt(refused, 0);
	ck_assert_uint_gt(most, max - 4 * STACK_MIN);
	for (uint32_t i = 0; i < N; i++) {
		while (tops[i]->prev)
			tops[i] = stack_pop(&room_cache, tops[i]);
		if (i != on)
			stack_take(&room_cache);
		stack_free(&room_cache, tops[i]);
	}
	ck_assert_uint_eq(atomic_load(&account), 0);
	ck_assert_int_eq(room_cache.bytes, 0);
	room_end();
}
END_TEST

START_TEST(memory_beyond_the_limit_of_a_job_is_never_taken)
{
	struct fk_stack *stack;
	uint64_t allocated;
	char *next;

	room_begin(ROOM_MAX);
	bill(&room_cache, 1u << 20);
	stack = stack_new(&room_cache);
	next = room_arena.next;
	allocated = room_cache.allocated;
	ck_assert_ptr_null(stack_push(&room_cache, stack, stack_first(stack), 1u << 20));
	ck_assert_ptr_eq(room_arena.next, next);
	ck_assert_uint_eq(room_cache.allocated, allocated);
	ck_assert_uint_eq(atomic_load(&account), 0);
	/* A stack that is handed to a frame belongs to the job. */
	for (uint32_t i = 0; i < (1u << 20) / STACK_MIN; i++) {
		ck_assert(stack_give(&room_cache, stack));
		stack = stack_new(&room_cache);
	}
	ck_assert(!stack_give(&room_cache, stack));
	room_end();
}
END_TEST

START_TEST(job_that_takes_all_leaves_memory_for_small_jobs_and_workers)
{
	_Atomic uint64_t small = 0;
	uint64_t deep = 0;
	struct stack_cache other;
	struct fk_stack *stack, *top, *next;
	uint32_t n = 0;

	room_begin(ROOM_MAX);
	stack_cache_init(&other, &room_arena);
	bill(&room_cache, UINT64_MAX);
	stack = top = stack_new(&room_cache);
	while ((next = stack_push(&room_cache, top, stack_first(top), 64)))
		top = next;
	deep = atomic_load(&account);
	ck_assert_uint_le(deep, ROOM_MAX - ROOM_MAX / 16);
	ck_assert_uint_ge(deep, ROOM_MAX - ROOM_MAX / 16 - 2 * STACK_MIN);
	/* Many stacks do not get more either. */
	ck_assert(!stack_give(&room_cache, top));
	stack_take(&room_cache);
	/* Small jobs: as long as possible, until only the workers' share is left. */
	for (;;) {
		struct fk_stack *at;

		atomic_store(&small, 0);
		stack_bill(&other, &small, UINT64_MAX);
		at = stack_new(&other);
		ck_assert_ptr_nonnull(at);
		while ((next = stack_push(&other, at, stack_first(at), 64)))
			at = next;
		if (atomic_load(&room_arena.left) < ROOM_MAX / 64 + STACK_SMALL / 2)
			break;
		ck_assert_uint_ge(atomic_load(&small), STACK_SMALL / 2 - STACK_MIN);
		ck_assert_uint_le(atomic_load(&small), STACK_SMALL);
		n++;
	}
	ck_assert_uint_ge(n, (ROOM_MAX / 16 - ROOM_MAX / 64) / STACK_SMALL - 1);
	/* Workers still get their own stacks. */
	for (uint64_t left = atomic_load(&room_arena.left); left; left -= STACK_MIN)
		ck_assert_ptr_nonnull(stack_new(&other));
	ck_assert_ptr_null(stack_new(&other));
	/* The deep job ends, and all others have room. */
	while (top->prev)
		top = stack_pop(&room_cache, top);
	stack_free(&room_cache, stack);
	ck_assert_uint_eq(atomic_load(&account), 0);
	ck_assert_uint_ge(atomic_load(&room_arena.left), deep - 8 * STACK_KEEP);
	ck_assert_ptr_nonnull(room_stack(&other, 16u << 20));
	room_end();
}
END_TEST

/* ------------------------------------------------------------------------ in a pool */

FK_TASK(int64_t, child, (int64_t, n), int64_t x;)
{
	if (n < 0)
		FK_LEAF(0);
}
FK_BODY(child)
{
	FK_CALL(x, child, -1);
	FK_RETURN(self->n + self->x);
}
FK_END(child)

FK_TASK(int64_t, wide, (int64_t, n), int64_t i; int64_t x[1024];)
{
	if (n < 0)
		FK_LEAF(0);
}
FK_BODY(wide)
{
	for (self->i = 0; self->i < self->n; self->i++)
		FK_FORK(x[self->i], child, 1);
	FK_JOIN();
	for (self->i = 1; self->i < self->n; self->i++)
		self->x[0] += self->x[self->i];
	FK_RETURN(self->x[0]);
}
FK_END(wide)

FK_TASK(int64_t, blocks, (int64_t, n), unsigned char *memory;)
{
	if (n < 0)
		FK_LEAF(-1);
}
FK_BODY(blocks)
{
	FK_ALLOC(memory, (size_t)self->n);
	if (!self->memory)
		FK_RETURN(-2);
	memset(self->memory, 1, (size_t)self->n);
	FK_RETURN(self->n);
}
FK_END(blocks)

FK_EXPORT(wide, 0, "forks next to each other")
FK_EXPORT(blocks, 0, "a block")
FK_MODULE(t, "test tasks")

static struct rig rig;

static void late(struct pool *pool)
{
	pool->mode.late_children = true;
}

/* Each child waits on its own stack of one small stacklet until its parent is at its join. */
START_TEST(job_of_many_small_stacks_gets_exactly_its_limit)
{
	for (uint32_t workers = 1; workers <= 4; workers *= 4) {
		int64_t n = 1000;

		rig_prepare = late;
		rig_start(&rig, workers, &fk_module, true);
		for (int i = 0; i < 3; i++) {
			atomic_store(&rig.pool->settings.stack_max, (uint64_t)n * STACK_MIN / 4);
			ck_assert_int_eq(rig_call(&rig, "t:wide", n / 8), n / 8);
			quiet(&rig);
			rig_submit(&rig, 1, "t:wide", &n, sizeof(n));
			ck_assert_uint_eq(rig_wait(&rig, 1), JOB_FAILED);
			ck_assert_int_eq(atomic_load(&rig.jobs[1].code), -ENOMEM);
			quiet(&rig);
			atomic_store(&rig.pool->settings.stack_max, (uint64_t)n * STACK_MIN * 2);
			ck_assert_int_eq(rig_call(&rig, "t:wide", n), n);
			quiet(&rig);
		}
		rig_stop(&rig);
	}
}
END_TEST

/* The same record again, at once: nothing of the previous job is on its account. */
START_TEST(account_is_closed_before_the_job_has_its_outcome)
{
	const int64_t half = 1 << 20;

	for (uint32_t workers = 1; workers <= 4; workers *= 4)
		for (int forced = 0; forced < 2; forced++) {
			rig_start(&rig, workers, &fk_module, forced);
			/* Room for one block with its stacklet, but not for another. */
			atomic_store(&rig.pool->settings.stack_max, 2 * half + 65536);
			for (int i = 0; i < 500; i++)
				ck_assert_int_eq(rig_call(&rig, "t:blocks", half), half);
			/* The dispatcher cleans all of it. */
			quiet(&rig);
			rig_stop(&rig);
		}
}
END_TEST

CHECK_MAIN("stack_account")
