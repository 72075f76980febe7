/* SPDX-License-Identifier: MIT */
/* ledger: a row is one word with separate parts; the arena's parts do not overlap. */
#include "shm/ledger.h"

#include <string.h>

#include "common/util.h"
#include "shm/job.h"
#include "tests/support/check_unit.h"

static void assert_same(struct ledger_row a, struct ledger_row b)
{
	ck_assert_uint_eq(a.generation, b.generation);
	ck_assert_uint_eq(a.state, b.state);
	ck_assert_uint_eq(a.outcome, b.outcome);
	ck_assert_uint_eq(a.flags, b.flags);
	ck_assert_uint_eq(a.worker, b.worker);
	ck_assert_uint_eq(a.task, b.task);
}

START_TEST(row_unpacks_as_it_was_packed)
{
	struct ledger_row row = {
		.generation = 0xabcdef,
		.state = LEDGER_FINISHING,
		.outcome = JOB_LOST,
		.flags = LEDGER_FLAG_IDEMPOTENT,
		.worker = LIMIT_WORKERS - 1,
		.task = LIMIT_TASKS,
	};

	assert_same(ledger_unpack(ledger_pack(row)), row);
}
END_TEST

START_TEST(parts_of_a_row_are_independent)
{
	static const struct ledger_row rows[] = {
		{ .generation = 0xffffff }, { .state = 15 },   { .outcome = 15 },
		{ .flags = 255 },	    { .worker = 255 }, { .task = 0xffff },
	};
	uint64_t seen = 0;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		uint64_t word = ledger_pack(rows[i]);

		assert_same(ledger_unpack(word), rows[i]);
		ck_assert_uint_eq(seen & word, 0);
		seen |= word;
	}
	ck_assert_uint_eq(seen, UINT64_MAX);
}
END_TEST

START_TEST(oversized_values_are_truncated_to_their_part)
{
	struct ledger_row row = { .generation = UINT32_MAX };

	ck_assert_uint_eq(ledger_pack(row), 0xffffff);
	row = (struct ledger_row){ .state = UINT32_MAX };
	assert_same(ledger_unpack(ledger_pack(row)), (struct ledger_row){ .state = 15 });
	row = (struct ledger_row){ .worker = UINT32_MAX };
	assert_same(ledger_unpack(ledger_pack(row)), (struct ledger_row){ .worker = 255 });
}
END_TEST

START_TEST(row_of_zeros_is_free_and_without_a_generation)
{
	assert_same(ledger_unpack(0), (struct ledger_row){ .state = LEDGER_FREE });
}
END_TEST

START_TEST(row_has_room_for_all_limits)
{
	ck_assert_uint_eq(
		ledger_unpack(ledger_pack((struct ledger_row){ .generation = JOB_GEN_MASK }))
			.generation,
		JOB_GEN_MASK);
	ck_assert_uint_le(JOB_LOST, 15);
	ck_assert_uint_le(LIMIT_WORKERS - 1, 255);
	ck_assert_uint_le(LIMIT_TASKS, 0xffff);
	ck_assert_uint_le(LEDGER_COPYING, 15);
}
END_TEST

START_TEST(parts_of_the_arena_do_not_overlap)
{
	static const uint32_t clients[] = { 1, 7, LIMIT_CLIENTS };
	static const uint32_t jobs[] = { 1, 1000, LIMIT_JOBS };

	ck_assert_uint_ge(arena_rows_offset(), sizeof(struct arena));
	ck_assert_uint_eq(arena_rows_offset() % 4096, 0);
	for (size_t c = 0; c < ARRAY_SIZE(clients); c++)
		for (size_t j = 0; j < ARRAY_SIZE(jobs); j++) {
			uint64_t workers = arena_workers_offset(clients[c], jobs[j]);

			ck_assert_uint_ge(workers,
					  arena_rows_offset() + (uint64_t)clients[c] * jobs[j] * 8);
			ck_assert_uint_eq(workers % (2u << 20), 0);
		}
}
END_TEST

START_TEST(rows_are_found_for_any_contents_of_the_head)
{
	static struct arena arena;

	memset(&arena, 0xff, sizeof(arena));
	ck_assert_ptr_eq((char *)arena_rows(&arena), (char *)&arena + arena_rows_offset());
}
END_TEST

CHECK_MAIN("ledger")
