/* SPDX-License-Identifier: MIT */
/* quota - the limits of each uid, and whose newest connection is closed to make room */
#include "daemon/manager/quota.h"

#include "common/util.h"
#include "tests/support/options.h"

#define HOG(...)                                                                                   \
	quota_hog((const uint32_t[]){ __VA_ARGS__ },                                               \
		  ARRAY_SIZE(((const uint32_t[]){ __VA_ARGS__ })))

static const struct options_peer alice = { .uid = 1000 };

/* The newest is the first. */
START_TEST(user_with_most_connections_makes_room_but_not_the_newest_of_equals)
{
	ck_assert_uint_eq(HOG(2), 2);
	ck_assert_uint_eq(HOG(3, 2, 3, 2, 3), 3);
	ck_assert_uint_eq(HOG(4, 4, 3, 3, 1), 3);
	ck_assert_uint_eq(HOG(4, 3, 4, 3, 1), 3);
	ck_assert_uint_eq(HOG(4, 4, 4, 3, 3), 4);
	ck_assert_uint_eq(HOG(1, 2, 3, 0), 0);
}
END_TEST

START_TEST(user_is_found_in_a_full_table)
{
	uint32_t uids[QUOTA_GREETINGS + 1];

	for (uint32_t i = 0; i < ARRAY_SIZE(uids); i++)
		uids[i] = i;
	uids[100] = 7;
	ck_assert_uint_eq(quota_hog(uids, ARRAY_SIZE(uids)), 7);
}
END_TEST

START_TEST(default_leaves_an_eighth_to_other_users)
{
	struct quota_sums most;

	o.shared_memory_max = 1 << 30; /* as memory_budget.c does */
	most = quota_for(&o, &alice);
	ck_assert_uint_eq(most.clients, 224);
	ck_assert_uint_eq(most.jobs, UINT64_MAX);
	ck_assert_uint_eq(most.bytes, UINT64_C(896) << 20);
	o.clients_max = 7;
	ck_assert_uint_eq(quota_for(&o, &alice).clients, 7);
	o.clients_max = 8;
	ck_assert_uint_eq(quota_for(&o, &alice).clients, 7);
}
END_TEST

START_TEST(uid_that_requests_too_often_waits_and_others_do_not)
{
	static struct quota_pace pace;
	const uint64_t now = 7 * NSEC_PER_SEC, cost = QUOTA_CONNECT_NS;
	const uint64_t burst = QUOTA_BURST_NS / cost, later = now + 2 * QUOTA_BURST_NS;

	for (uint64_t i = 0; i < burst; i++)
		ck_assert_uint_eq(quota_charge(&pace, 1, cost, now), 0);
	ck_assert_uint_eq(quota_charge(&pace, 1, cost, now), cost);
	ck_assert_uint_eq(quota_charge(&pace, 0, cost, now), 0);
	ck_assert_uint_eq(quota_charge(&pace, 2, cost, now), 0);
	/* Waiting is free; one more request is allowed when its time comes. */
	ck_assert_uint_eq(quota_charge(&pace, 1, cost, now + cost - 1), 1);
	ck_assert_uint_eq(quota_charge(&pace, 1, cost, now + cost), 0);
	ck_assert_uint_eq(quota_charge(&pace, 1, cost, now + cost), cost);
	/* The full burst is allowed again later, but not more. */
	for (uint64_t i = 0; i < burst; i++)
		ck_assert_uint_eq(quota_charge(&pace, 1, cost, later), 0);
	ck_assert_uint_gt(quota_charge(&pace, 1, cost, later), 0);
}
END_TEST

START_TEST(requests_of_a_uid_wait_in_sequence)
{
	static struct quota_pace pace;
	const uint64_t now = 7 * NSEC_PER_SEC, cost = QUOTA_REQUEST_NS;
	const uint64_t burst = QUOTA_REQUEST_BURST_NS / cost;

	for (uint64_t i = 0; i < burst; i++)
		ck_assert_uint_eq(quota_reserve(&pace, 1, cost, now), 0);
	for (uint64_t i = 1; i <= LIMIT_CLIENTS; i++)
		ck_assert_uint_eq(quota_reserve(&pace, 1, cost, now), i * cost);
	/* Each waits separately, and there is time for a connection. */
	ck_assert_uint_eq(quota_charge(&pace, 1, QUOTA_CONNECT_NS, now), 0);
	ck_assert_uint_eq(quota_reserve(&pace, 2, cost, now), 0);
}
END_TEST

#define STEP (100 * NSEC_PER_USEC)

/* The maximum of connections, each of which sends the next request when the last one was served. */
START_TEST(uid_whose_connections_send_requests_in_loops_can_connect)
{
	static struct quota_pace pace;
	static uint64_t due[LIMIT_CLIENTS];
	const uint64_t began = 7 * NSEC_PER_SEC, end = began + 4 * NSEC_PER_SEC;
	uint64_t served = 0, connected = 0, longest = 0;

	while (!quota_charge(&pace, 1, QUOTA_CONNECT_NS, began))
		;
	for (uint64_t now = began; now < end; now += STEP) {
		for (uint32_t i = 0; i < LIMIT_CLIENTS; i++) {
			uint64_t wait;

			if (due[i] > now)
				continue;
			wait = quota_reserve(&pace, 1, QUOTA_REQUEST_NS, now);
			due[i] = now + wait;
			served++;
			longest = max(longest, wait);
		}
		if ((now - began) % QUOTA_CONNECT_NS == 0)
			connected += !quota_charge(&pace, 1, QUOTA_CONNECT_NS, now);
	}
	ck_assert_uint_ge(connected, 10);
	ck_assert_uint_le(longest, QUOTA_BURST_NS - QUOTA_REQUEST_BURST_NS +
					   LIMIT_CLIENTS * QUOTA_REQUEST_NS);
	ck_assert_uint_le(served * QUOTA_REQUEST_NS + connected * QUOTA_CONNECT_NS,
			  end - began + QUOTA_BURST_NS);
}
END_TEST

START_TEST(uid_that_is_ahead_is_not_displaced_by_others)
{
	static struct quota_pace pace;
	const uint64_t now = 7 * NSEC_PER_SEC;

	while (!quota_charge(&pace, 1, QUOTA_CONNECT_NS, now))
		;
	for (uint32_t uid = 2; uid < 10 * QUOTA_PACED; uid++)
		ck_assert_uint_eq(quota_charge(&pace, uid, QUOTA_CONNECT_NS, now), 0);
	ck_assert_uint_gt(quota_charge(&pace, 1, QUOTA_CONNECT_NS, now), 0);
}
END_TEST

START_TEST(options_limit_users_and_groups)
{
	static const uint32_t gids[] = { 50, 60 };
	const struct options_peer bob = { .uid = 1001, .n_gids = 1, .gids = gids };
	const struct options_peer carol = { .uid = 1002, .n_gids = 2, .gids = gids };
	struct quota_sums most;

	ck_assert_int_eq(set("user-clients-max", "3,@50:5,@60:0,1000:2"), 0);
	ck_assert_int_eq(set("user-jobs-max", "@50:1000"), 0);
	ck_assert_int_eq(set("user-shared-memory-max", "65536,@60:1M,@50:2M"), 0);
	most = quota_for(&o, &alice);
	ck_assert_uint_eq(most.clients, 2);
	ck_assert_uint_eq(most.jobs, UINT64_MAX);
	ck_assert_uint_eq(most.bytes, 65536);
	most = quota_for(&o, &bob);
	ck_assert_uint_eq(most.clients, 5);
	ck_assert_uint_eq(most.jobs, 1000);
	ck_assert_uint_eq(most.bytes, 2 << 20);
	most = quota_for(&o, &carol);
	ck_assert_uint_eq(most.clients, 224);
	ck_assert_uint_eq(most.bytes, 2 << 20);
}
END_TEST

CHECK_MAIN("quota")
