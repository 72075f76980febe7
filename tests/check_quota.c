/* SPDX-License-Identifier: MIT */
/* quota - what each uid may hold, and whose newest connection makes room */
#include "daemon/quota.h"

#include "common/util.h"
#include "tests/check_unit.h"

#define HOG(...)                                                                                   \
	quota_hog((const uint32_t[]){ __VA_ARGS__ },                                               \
		  ARRAY_SIZE(((const uint32_t[]){ __VA_ARGS__ })))

/* The newest stands first. */
START_TEST(who_has_most_makes_room_and_among_equals_not_who_came_last)
{
	ck_assert_uint_eq(HOG(2), 2);
	ck_assert_uint_eq(HOG(3, 2, 3, 2, 3), 3);
	ck_assert_uint_eq(HOG(4, 4, 3, 3, 1), 3);
	ck_assert_uint_eq(HOG(4, 3, 4, 3, 1), 3);
	ck_assert_uint_eq(HOG(4, 4, 4, 3, 3), 4);
	ck_assert_uint_eq(HOG(1, 2, 3, 0), 0);
}
END_TEST

START_TEST(one_among_as_many_as_there_can_be_is_found)
{
	uint32_t uids[QUOTA_GREETINGS + 1];

	for (uint32_t i = 0; i < ARRAY_SIZE(uids); i++)
		uids[i] = i;
	uids[100] = 7;
	ck_assert_uint_eq(quota_hog(uids, ARRAY_SIZE(uids)), 7);
}
END_TEST

START_TEST(by_default_an_eighth_is_left_to_the_others)
{
	struct options o;
	struct quota_sums most;

	ck_assert_int_eq(options_init(&o), 0);
	most = quota_for(&o, 1000);
	ck_assert_uint_eq(most.clients, 224);
	ck_assert_uint_eq(most.jobs, UINT64_MAX);
	ck_assert_uint_eq(most.bytes, UINT64_C(896) << 20);
	o.max_clients = 7;
	ck_assert_uint_eq(quota_for(&o, 1000).clients, 7);
	o.max_clients = 8;
	ck_assert_uint_eq(quota_for(&o, 1000).clients, 7);
	o.limit_clients = 3;
	o.limit_jobs = 1000;
	o.limit_bytes = 65536;
	most = quota_for(&o, 1000);
	ck_assert_uint_eq(most.clients, 3);
	ck_assert_uint_eq(most.jobs, 1000);
	ck_assert_uint_eq(most.bytes, 65536);
	options_fini(&o);
}
END_TEST

CHECK_MAIN("quota", who_has_most_makes_room_and_among_equals_not_who_came_last,
	   one_among_as_many_as_there_can_be_is_found, by_default_an_eighth_is_left_to_the_others)
