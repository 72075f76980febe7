/* SPDX-License-Identifier: MIT */
/* quota - what each uid holds and may hold, and whose newest connection makes room */
#define CHECK_SETUP    begin
#define CHECK_TEARDOWN NULL

#include "daemon/quota.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/util.h"
#include "tests/check_unit.h"

static struct quota quota;

static void begin(void)
{
	quota = (struct quota){ .n = 0 };
}

static void greetings(uint32_t uid, uint32_t n)
{
	quota_take(&quota, uid, &(struct quota_sums){ .greetings = n });
}

START_TEST(what_is_taken_is_held_until_it_is_given_back)
{
	const struct quota_sums one = { .clients = 1, .jobs = 256, .bytes = 4096 };
	const struct quota_sums greeting = { .greetings = 1 };
	struct quota_sums held;

	quota_take(&quota, 1000, &one);
	quota_take(&quota, 1001, &one);
	quota_take(&quota, 1000, &greeting);
	quota_take(&quota, 1000, &one);
	held = quota_held(&quota, 1000);
	ck_assert_uint_eq(held.clients, 2);
	ck_assert_uint_eq(held.greetings, 1);
	ck_assert_uint_eq(held.jobs, 512);
	ck_assert_uint_eq(held.bytes, 8192);
	ck_assert_uint_eq(quota.all.clients, 3);
	ck_assert_uint_eq(quota.all.bytes, 3 * 4096);
	quota_give(&quota, 1000, &one);
	quota_give(&quota, 1000, &greeting);
	quota_give(&quota, 1000, &one);
	held = quota_held(&quota, 1000);
	ck_assert_uint_eq(held.clients + held.greetings + held.jobs + held.bytes, 0);
	ck_assert_uint_eq(quota_held(&quota, 1001).jobs, 256);
	quota_give(&quota, 1001, &one);
	ck_assert_uint_eq(quota.n, 0);
	ck_assert_uint_eq(quota.all.jobs, 0);
}
END_TEST

START_TEST(nothing_is_nothing)
{
	const struct quota_sums nothing = { .clients = 0 };

	quota_take(&quota, 1000, &nothing);
	ck_assert_uint_eq(quota.n, 0);
	quota_give(&quota, 1000, &nothing);
	quota_check(&quota, 1000, &nothing);
}
END_TEST

START_TEST(there_is_room_for_as_many_users_as_there_can_be_connections)
{
	for (uint32_t uid = 0; uid < QUOTA_USERS; uid++)
		greetings(uid, 1);
	ck_assert_uint_eq(quota.n, QUOTA_USERS);
	for (uint32_t uid = 0; uid < QUOTA_USERS; uid += 2)
		quota_give(&quota, uid, &(struct quota_sums){ .greetings = 1 });
	for (uint32_t uid = 0; uid < QUOTA_USERS; uid++)
		ck_assert_uint_eq(quota_held(&quota, uid).greetings, uid % 2);
}
END_TEST

START_TEST(who_has_most_makes_room_and_among_equals_not_who_came_last)
{
	quota_take(&quota, 1, &(struct quota_sums){ .clients = 100 });
	greetings(2, 3);
	greetings(3, 4);
	ck_assert_uint_eq(quota_hog(&quota), 3);
	greetings(4, 4);
	ck_assert_uint_eq(quota_hog(&quota), 3);
	greetings(4, 1);
	ck_assert_uint_eq(quota_hog(&quota), 4);
	greetings(1, 6);
	ck_assert_uint_eq(quota_hog(&quota), 1);
}
END_TEST

START_TEST(sums_that_differ_from_those_of_the_sessions_end_the_process)
{
	static const struct quota_sums right = { .clients = 1, .greetings = 1, .bytes = 2 };
	static const struct quota_sums wrong[] = {
		{ .clients = 2, .greetings = 1, .bytes = 2 },
		{ .clients = 1, .bytes = 2 },
		{ .clients = 1, .greetings = 1, .jobs = 1, .bytes = 2 },
		{ .clients = 1, .greetings = 1, .bytes = 3 },
	};

	quota_take(&quota, 1000, &right);
	quota_check(&quota, 1000, &right);
	for (uint32_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		int status;
		pid_t child = fork();

		if (child == 0) {
			(void)close(STDERR_FILENO);
			quota_check(&quota, 1000, &wrong[i]);
			_exit(0);
		}
		ck_assert_int_eq(waitpid(child, &status, 0), child);
		ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	}
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

CHECK_MAIN("quota", what_is_taken_is_held_until_it_is_given_back, nothing_is_nothing,
	   there_is_room_for_as_many_users_as_there_can_be_connections,
	   who_has_most_makes_room_and_among_equals_not_who_came_last,
	   by_default_an_eighth_is_left_to_the_others,
	   sums_that_differ_from_those_of_the_sessions_end_the_process)
