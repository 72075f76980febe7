/* SPDX-License-Identifier: MIT */
/* pool: groups, victims and where memory lies, on machines that are not here. */
#include "daemon/pool.h"

#include <check.h>

#include "daemon/topology.h"
#include "daemon/victims.h"
#include "tests/check_unit.h"
#include "tests/rig.h"
#include "tests/tasks.h"

#define PAGE 4096u

static struct rig rig;

FK_MODULE(t, "test tasks")

extern const struct fk_module fk_module;

START_TEST(workers_know_their_group_and_have_pages_of_their_own)
{
	rig_start_on(&rig, "numa:2 core:2 pu:1", 6, &fk_module, false);
	ck_assert_uint_eq(rig.pool->n_groups, 2);
	for (uint32_t i = 0; i < 6; i++) {
		struct worker *w = &rig.pool->workers[i];

		ck_assert_uint_eq(w->group, i % 4 / 2);
		ck_assert_ptr_eq(w->cache.arena, &rig.pool->stacks[w->group]);
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
		/* Its two workers have a stack each by now. */
		pthread_mutex_lock(&arena->lock);
		ck_assert_int_ge(arena->next - arena->begin, 2 * STACK_MIN);
		pthread_mutex_unlock(&arena->lock);
	}
	rig_stop(&rig);
}
END_TEST

START_TEST(one_node_has_one_arena_that_is_all)
{
	rig_start_on(&rig, "core:4 pu:1", 4, &fk_module, false);
	ck_assert_uint_eq(rig.pool->n_groups, 1);
	ck_assert_ptr_eq(rig.pool->stacks->sibling, rig.pool->stacks);
	ck_assert_ptr_eq(rig.pool->stacks->end, (char *)rig.pool->arena + rig.pool->arena_size);
	ck_assert_int_eq(rig_call(&rig, "t:fib", 15), 610);
	rig_stop(&rig);
}
END_TEST

START_TEST(victims_are_those_of_the_machine)
{
	rig_start_on(&rig, "numa:2 core:2 pu:1", 4, &fk_module, false);
	ck_assert_uint_eq(rig.pool->victims->n, 4);
	ck_assert_uint_eq(victims_order(rig.pool->victims, 2)[0], 3);
	ck_assert_uint_eq(victims_level(rig.pool->victims, 0, 1), 0);
	ck_assert_uint_eq(victims_level(rig.pool->victims, 0, 2), 1);
	rig_stop(&rig);
}
END_TEST

START_TEST(stacks_that_are_stolen_across_groups_give_right_results)
{
	rig_start_on(&rig, "numa:4 core:1 pu:1", 6, &fk_module, true);
	for (int i = 0; i < 10; i++)
		ck_assert_int_eq(rig_call(&rig, "t:fib", 15), 610);
	rig_stop(&rig);
}
END_TEST

CHECK_MAIN("pool", workers_know_their_group_and_have_pages_of_their_own,
	   groups_share_the_stacklets_memory_in_equal_parts, one_node_has_one_arena_that_is_all,
	   victims_are_those_of_the_machine,
	   stacks_that_are_stolen_across_groups_give_right_results)
