/* SPDX-License-Identifier: MIT */
/* layout: the hash distinguishes layouts, and the shared structures keep the promises of their
 * comments. */
#include "shm/layout.h"

#include "common/util.h"
#include "tests/unit/shm/check_layout.h"
#include "tests/support/check_unit.h"

/* A constant of the compiler, or this does not compile. */
_Static_assert(LAYOUT_HASH != 0, "the hash is known at compile time");

/* Fields of different writers, named by the first of each, are in separate lines. */
#define assert_line(type, field)                                                                   \
	ck_assert_msg(offsetof(type, field) % CACHE_LINE == 0, #type "." #field " opens no line")

START_TEST(same_layout_has_the_same_hash)
{
	ck_assert_uint_eq(layout_hash_same, LAYOUT_HASH);
}
END_TEST

START_TEST(other_ring_size_has_another_hash)
{
	ck_assert_uint_ne(layout_hash_of_smaller_rings, LAYOUT_HASH);
}
END_TEST

START_TEST(hash_depends_on_each_number_and_their_order)
{
	uint64_t h = 5;

	ck_assert_uint_ne(LAYOUT_MIX(LAYOUT_MIX(h, 1), 2), LAYOUT_MIX(LAYOUT_MIX(h, 2), 1));
	ck_assert_uint_ne(LAYOUT_MIX(LAYOUT_MIX(h, 1), 2), LAYOUT_MIX(LAYOUT_MIX(h, 1), 3));
	ck_assert_uint_ne(LAYOUT_MIX(LAYOUT_MIX(h, 1), 2), LAYOUT_MIX(LAYOUT_MIX(h, 9), 2));
	ck_assert_uint_ne(LAYOUT_MIX(h, 0), h);
}
END_TEST

START_TEST(no_two_writers_share_a_cache_line)
{
	assert_line(struct board, manager);
	assert_line(struct board, dispatcher);
	assert_line(struct board, n_tasks);
	assert_line(struct board, workers);
	assert_line(struct board, counters);
	assert_line(struct board, clients);
	assert_line(struct board, crashes);
	assert_line(struct board_client, jobs);
	assert_line(struct board, tenants);
	assert_line(struct board_tenant, dropped);
	assert_line(struct board, times);
	assert_line(struct ring, tail);
	assert_line(struct ring, slots);
	assert_line(struct tenant_segment, summary);
	assert_line(struct tenant_segment, rings);
	assert_line(struct job, args);
	assert_line(struct job, state);
	assert_line(struct job, result);
	assert_line(struct group, word);
	assert_line(struct arena, fault);
	assert_line(struct arena, workers);
	assert_line(struct arena, rings);
	ck_assert_uint_eq(sizeof(struct board_counters) % CACHE_LINE, 0);
	ck_assert_uint_eq(sizeof(struct board_worker) % CACHE_LINE, 0);
	ck_assert_uint_eq(sizeof(struct board_times) % CACHE_LINE, 0);
	ck_assert_uint_eq(sizeof(struct ledger_worker) % CACHE_LINE, 0);
	ck_assert_uint_eq(sizeof(struct ring) % CACHE_LINE, 0);
}
END_TEST

START_TEST(limits_fit_into_their_bit_fields)
{
	ck_assert_uint_eq(LIMIT_CLIENTS, 1u << RING_CLIENT_BITS);
	ck_assert_uint_le(LIMIT_JOBS, 1u << RING_JOB_BITS);
	ck_assert_uint_eq(RING_JOB_BITS + RING_CLIENT_BITS + RING_GEN_BITS, 31);
	ck_assert_uint_eq(TENANT_SUMMARY_WORDS * 64, LIMIT_WORKERS);
	ck_assert_uint_eq(LIMIT_ARGS, sizeof(((struct job *)0)->args));
	ck_assert_uint_eq(LIMIT_RESULT, sizeof(((struct job *)0)->result));
	ck_assert_uint_eq((uint64_t)LIMIT_CLIENTS * LIMIT_JOBS >> 32, 0);
}
END_TEST

START_TEST(tenant_segment_has_room_for_its_rings)
{
	for (uint32_t n = 1; n <= LIMIT_WORKERS; n *= 2) {
		uint64_t size = tenant_segment_size(n);

		ck_assert_uint_eq(size % 4096, 0);
		ck_assert_uint_ge(size,
				  offsetof(struct tenant_segment, rings) + n * sizeof(struct ring));
	}
}
END_TEST

START_TEST(messages_have_no_holes_that_differ_between_compilers)
{
	ck_assert_uint_eq(sizeof(struct proto_head), 8);
	ck_assert_uint_eq(sizeof(struct proto_hello), 32);
	ck_assert_uint_eq(sizeof(struct proto_welcome), 16);
	ck_assert_uint_eq(sizeof(struct proto_error), 256);
	ck_assert_uint_eq(sizeof(struct proto_pool), 352);
	ck_assert_uint_eq(sizeof(struct proto_cancel), 16);
	ck_assert_uint_eq(sizeof(union proto_message), 352);
}
END_TEST

CHECK_MAIN("layout")
