/* SPDX-License-Identifier: MIT */
/*
 * debug_steals: in a module that is compiled with FK_DEBUG_STEALS no local variable of a body
 * survives a fork, call or join. Each run shows it, on one worker too. Other values are as always.
 */
#define FK_DEBUG_STEALS
#include <check.h>

#include "tests/support/check_unit.h"
#include "tests/support/rig.h"
#include "tests/support/fib.h"

/* The variables are uninitialized on purpose when a body is resumed. */
#ifdef __clang__
#pragma clang diagnostic ignored "-Wconditional-uninitialized"
#endif

#define LOST INT64_C(-0x5a5a5a5a5a5a5a5b) /* each byte is 0xa5 */

static struct rig rig;

/* Ends in its first block. */
FK_LEAF_TASK(int64_t, leaf, (int64_t, n))
{
	return n;
}

/* Ends in its second block, on a frame. */
FK_TASK(int64_t, framed, (int64_t, n), )
FK_NO_LEAF(framed)
{
	FK_RETURN(self->n);
}
FK_END(framed)

FK_TASK(int64_t, read, (const int64_t *, from), )
FK_NO_LEAF(read)
{
	FK_RETURN(*self->from);
}
FK_END(read)

FK_TASK(fk_void, write, (int64_t *, to, int64_t, n), )
FK_NO_LEAF(write)
{
	*self->to = self->n;
	FK_RETURN();
}
FK_END(write)

FK_LEAF_TASK(fk_void, write_leaf, (int64_t *, to, int64_t, n))
{
	*to = n;
}

#define TASK(name) FK_TASK(int64_t, name, (int64_t, n), int64_t x; int64_t sum;) FK_NO_LEAF(name)
#define END(name)  FK_END(name) FK_EXPORT(name, 0, "")

/* The last fork is the only one. */
#define LOCALS_LOST(child)                                                                         \
	TASK(after_fork_of_##child)                                                                \
	{                                                                                          \
		int64_t mine = self->n;                                                            \
		FK_FORK(x, child, self->n);                                                        \
		self->sum = mine;                                                                  \
		FK_JOIN();                                                                         \
		FK_RETURN(self->sum);                                                              \
	}                                                                                          \
	END(after_fork_of_##child)                                                                 \
	TASK(constant_after_##child)                                                               \
	{                                                                                          \
		int64_t mine = 1;                                                                  \
		FK_FORK(x, child, self->n);                                                        \
		FK_JOIN();                                                                         \
		FK_RETURN(mine);                                                                   \
	}                                                                                          \
	END(constant_after_##child)                                                                \
	TASK(across_join_of_##child)                                                               \
	{                                                                                          \
		int64_t mine;                                                                      \
		FK_FORK(x, child, self->n);                                                        \
		mine = self->n;                                                                    \
		FK_JOIN();                                                                         \
		FK_RETURN(mine);                                                                   \
	}                                                                                          \
	END(across_join_of_##child)                                                                \
	TASK(after_call_of_##child)                                                                \
	{                                                                                          \
		int64_t mine = self->n;                                                            \
		FK_CALL(x, child, self->n);                                                        \
		FK_RETURN(mine);                                                                   \
	}                                                                                          \
	END(after_call_of_##child)                                                                 \
	TASK(counts_with_##child)                                                                  \
	{                                                                                          \
		self->sum = 0;                                                                     \
		for (uint32_t i = 0; i < 8; i++) {                                                 \
			self->sum++;                                                               \
			FK_FORK(x, child, self->n);                                                \
			FK_JOIN();                                                                 \
		}                                                                                  \
		FK_RETURN(self->sum);                                                              \
	}                                                                                          \
	END(counts_with_##child)
LOCALS_LOST(leaf)
LOCALS_LOST(framed)

TASK(reads_a_local)
{
	int64_t mine = self->n;

	FK_FORK(x, read, &mine);
	FK_JOIN();
	FK_RETURN(self->x);
}
END(reads_a_local)

TASK(writes_a_local)
{
	int64_t mine;

	FK_FORK_VOID(write, &mine, self->n);
	FK_JOIN();
	FK_RETURN(mine);
}
END(writes_a_local)

TASK(writes_a_local_in_a_leaf)
{
	int64_t mine;

	FK_CALL_VOID(write_leaf, &mine, self->n);
	FK_RETURN(mine);
}
END(writes_a_local_in_a_leaf)

TASK(reads_a_result_early)
{
	self->x = 0;
	FK_FORK(x, framed, self->n);
	self->sum = self->x;
	FK_JOIN();
	FK_RETURN(self->sum);
}
END(reads_a_result_early)

FK_EXPORT(fib, 0, "")
FK_MODULE(lost, "")

#define N_RUNS 3

START_TEST(locals_are_lost_in_each_run)
{
	static const char *const tasks[] = {
		"lost:after_fork_of_leaf",  "lost:after_fork_of_framed",
		"lost:constant_after_leaf", "lost:constant_after_framed",
		"lost:across_join_of_leaf", "lost:across_join_of_framed",
		"lost:after_call_of_leaf",  "lost:after_call_of_framed",
	};

	for (uint32_t workers = 1; workers <= 3; workers += 2) {
		rig_start(&rig, workers, &fk_module, false);
		for (size_t i = 0; i < sizeof(tasks) / sizeof(tasks[0]); i++)
			for (int run = 0; run < N_RUNS; run++)
				ck_assert_msg(rig_call(&rig, tasks[i], 7) == LOST, "%s", tasks[i]);
		rig_stop(&rig);
	}
}
END_TEST

START_TEST(loop_counter_is_lost)
{
	rig_start(&rig, 1, &fk_module, false);
	for (int run = 0; run < N_RUNS; run++) {
		/* 0xa5a5a5a5 is not below 8. */
		ck_assert_int_eq(rig_call(&rig, "lost:counts_with_leaf", 7), 1);
		ck_assert_int_eq(rig_call(&rig, "lost:counts_with_framed", 7), 1);
	}
	rig_stop(&rig);
}
END_TEST

START_TEST(child_with_the_address_of_a_local_neither_reads_nor_writes_it)
{
	rig_start(&rig, 1, &fk_module, false);
	for (int run = 0; run < N_RUNS; run++) {
		ck_assert_int_eq(rig_call(&rig, "lost:reads_a_local", 7), LOST);
		ck_assert_int_eq(rig_call(&rig, "lost:writes_a_local", 7), LOST);
		ck_assert_int_eq(rig_call(&rig, "lost:writes_a_local_in_a_leaf", 7), LOST);
	}
	rig_stop(&rig);
}
END_TEST

START_TEST(result_is_not_there_before_the_join)
{
	rig_start(&rig, 1, &fk_module, false);
	for (int run = 0; run < N_RUNS; run++)
		ck_assert_int_eq(rig_call(&rig, "lost:reads_a_result_early", 7), 0);
	rig_stop(&rig);
}
END_TEST

START_TEST(members_of_the_frame_survive)
{
	for (uint32_t workers = 1; workers <= 3; workers += 2) {
		rig_start(&rig, workers, &fk_module, false);
		for (int run = 0; run < N_RUNS; run++)
			ck_assert_int_eq(rig_call(&rig, "lost:fib", 14), 377);
		/* Each inner node of fib forks once. */
		ck_assert_uint_ge(rig_counter(&rig, steals), N_RUNS * 609);
		rig_stop(&rig);
	}
}
END_TEST

CHECK_MAIN("debug_steals")
