/* SPDX-License-Identifier: MIT */
/* pool: groups, victims and placement of memory, on synthetic machines. */
#include "daemon/core/worker.h"
#include "daemon/pool/process.h"

#include <check.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/pool/arena_layout.h"
#include "daemon/host/topology.h"
#include "daemon/host/victims.h"
#include "tests/support/check_unit.h"
#include "tests/support/rig.h"
#include "tests/support/tasks.h"

#define PAGE 4096u

static struct rig rig;

FK_MODULE(t, "test tasks")

extern const struct fk_module fk_module;

START_TEST(workers_know_their_group_and_have_their_own_pages)
{
	rig_start_on(&rig, "numa:2 core:2 pu:1", 6, &fk_module, false);
	ck_assert_uint_eq(rig.pool->n_groups, 2);
	for (uint32_t i = 0; i < 6; i++) {
		struct worker *w = &rig.pool->workers[i];

		ck_assert_uint_eq(w->group, i % 4 / 2);
		ck_assert_ptr_eq(w->engine.cache.arena, &rig.pool->stacks[w->group]);
		ck_assert_uint_eq((uintptr_t)w % PAGE, 0);
		ck_assert_uint_eq(sizeof(*w) % PAGE, 0);
	}
	rig_stop(&rig);
}
END_TEST

START_TEST(groups_share_the_stacklets_memory_in_equal_parts)
{
	char *end;

	rig_start_on(&rig, "numa:3 core:2 pu:1", 6, &fk_module, false);
	end = (char *)rig.pool->arena + rig.pool->arena_size;
	for (uint32_t g = 0; g < 3; g++) {
		struct stack_arena *arena = &rig.pool->stacks[g];

		ck_assert_uint_eq((uintptr_t)arena->begin % PAGE, 0);
		ck_assert_ptr_eq(arena->end, g < 2 ? arena[1].begin : end);
		ck_assert_ptr_eq(arena->sibling, &rig.pool->stacks[(g + 1) % 3]);
		ck_assert_int_le(labs((arena->end - arena->begin) -
				      (rig.pool->stacks->end - rig.pool->stacks->begin)),
				 3 * PAGE);
		/* Each of its two workers has a stack by now. */
		pthread_mutex_lock(&arena->lock);
		ck_assert_int_ge(arena->next - arena->begin, 2 * STACK_MIN);
		pthread_mutex_unlock(&arena->lock);
	}
	rig_stop(&rig);
}
END_TEST

START_TEST(one_node_has_one_arena_of_the_full_size)
{
	rig_start_on(&rig, "core:4 pu:1", 4, &fk_module, false);
	ck_assert_uint_eq(rig.pool->n_groups, 1);
	ck_assert_ptr_eq(rig.pool->stacks->sibling, rig.pool->stacks);
	ck_assert_ptr_eq(rig.pool->stacks->end, (char *)rig.pool->arena + rig.pool->arena_size);
	ck_assert_int_eq(rig_call(&rig, "t:fib", 15), 610);
	rig_stop(&rig);
}
END_TEST

START_TEST(victims_follow_the_machine)
{
	rig_start_on(&rig, "numa:2 core:2 pu:1", 4, &fk_module, false);
	ck_assert_uint_eq(rig.pool->victims->n, 4);
	ck_assert_uint_eq(victims_order(rig.pool->victims, 2)[0], 3);
	ck_assert_uint_eq(victims_level(rig.pool->victims, 0, 1), 0);
	ck_assert_uint_eq(victims_level(rig.pool->victims, 0, 2), 1);
	rig_stop(&rig);
}
END_TEST

static uint64_t arena_bytes(void)
{
	struct stat st;

	ck_assert_int_eq(fstat(rig.arena_fd, &st), 0);
	return (uint64_t)st.st_blocks * 512;
}

/* Before the workers start: sets the memory of a former pool. */
static void lay_out_again(struct pool *pool)
{
	struct topology *topology;
	char error[256], *first, *last;
	uint64_t before;

	/* Of the first group a page in the middle; of the third group all pages; of the second
	 * group none. */
	first = pool->stacks[0].begin + 1000 * PAGE;
	last = pool->stacks[2].end - PAGE;
	*first = *last = 1;
	/* Workers must see neither of these. */
	pool->workers[0].job.row = 77;
	pool->workers[0].engine.frames.entries[5000].word = 99;
	before = arena_bytes();
	layout_unplace(pool);
	memset(&pool->idle.lazy, 0, sizeof(pool->idle.lazy));
	ck_assert_int_eq(
		topology_new("numa:3 core:2 pu:1", 6, 0, NULL, error, sizeof(error), &topology), 0);
	ck_assert_int_eq(layout_place(pool, topology), 0);
	ck_assert_int_eq(layout_make(pool, rig.arena_fd), 0);
	ck_assert_ptr_eq(pool->stacks[0].next, first + STACK_MIN);
	ck_assert_ptr_eq(pool->stacks[1].next, pool->stacks[1].begin);
	ck_assert_ptr_eq(pool->stacks[2].next, last + PAGE);
	ck_assert(stack_arena_dirty(pool->stacks));
	ck_assert_int_eq(first[0] + last[0], 2);
	ck_assert_uint_eq(pool->workers[0].job.row, WORKER_NO_JOB);
	ck_assert_uint_eq(pool->workers[0].engine.frames.entries[5000].word, 0);
	/* The page of the deque was released, and no other page was added. */
	ck_assert_uint_le(arena_bytes(), before);
}

START_TEST(memory_of_a_former_pool_is_released_during_work)
{
	uint64_t fresh;

	rig_start_on(&rig, "numa:3 core:2 pu:1", 6, &fk_module, false);
	fresh = arena_bytes();
	rig_stop(&rig);
	rig_prepare = lay_out_again;
	rig_start_on(&rig, "numa:3 core:2 pu:1", 6, &fk_module, false);
	ck_assert_int_eq(rig_call(&rig, "t:fib", 15), 610);
	while (stack_arena_dirty(rig.pool->stacks))
		sched_yield();
	ck_assert_uint_le(arena_bytes(), fresh + 6 * (64 << 10) + 2 * PAGE);
	rig_stop(&rig);
}
END_TEST

START_TEST(stacks_stolen_across_groups_give_correct_results)
{
	rig_start_on(&rig, "numa:4 core:1 pu:1", 6, &fk_module, true);
	for (int i = 0; i < 10; i++)
		ck_assert_int_eq(rig_call(&rig, "t:fib", 15), 610);
	rig_stop(&rig);
}
END_TEST

CHECK_MAIN("pool")
