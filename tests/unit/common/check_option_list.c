/* SPDX-License-Identifier: MIT */
/* option_list: lists of users and groups: their text, the users in them, and the number for a user:
 * a table of uids, groups and lists */
#include "common/option_list.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/util.h"
#include "tests/support/options.h"

#define UNSET 7u

static const uint32_t gids[] = { 50, 100, 27 };
static const struct options_peer alice = { .uid = 1000, .n_gids = ARRAY_SIZE(gids), .gids = gids };

static void is_read_as(const char *name, const char *value, const char *text)
{
	_cleanup_free_ char *all = NULL;

	init();
	ck_assert_msg(set(name, value) == 0, "%s", error.text);
	all = printed();
	ck_assert_msg(strstr(all, text) != NULL, "no \"%s\" in:\n%s", text, all);
}

START_TEST(entry_applies_to_a_user_a_group_or_all)
{
	is_read_as("allow", "1000,@50,*", "\nallow = 1000\nallow = @50\nallow = *\n");
	is_read_as("deny", "root,@root, @4294967294",
		   "\ndeny = 0\ndeny = @0\ndeny = @4294967294\n");
	is_read_as("user-weights", "root:50,@root:7,*:10000",
		   "\nuser-weights = 0:50\nuser-weights = @0:7\nuser-weights = *:10000\n");
	is_read_as("user-clients-max", "@50:0,1:9",
		   "\nuser-clients-max = @50:0\nuser-clients-max = 1:9\n");
	is_read_as("user-shared-memory-max", "1000:64M,*:1",
		   "\nuser-shared-memory-max = 1000:64M\nuser-shared-memory-max = *:1\n");
	is_read_as("default-deadline", "1000:90s,*:1",
		   "\ndefault-deadline = 1000:90s\ndefault-deadline = *:1s\n");
	is_read_as("allow-tasks", "1:fib:*,1:sort:[a-z]?4,*:*",
		   "\nallow-tasks = 1:fib:*\nallow-tasks = 1:sort:[a-z]?4\nallow-tasks = *:*\n");
}
END_TEST

START_TEST(single_group_needs_no_at_sign_and_the_last_one_counts)
{
	is_read_as("socket-group", "root", "\nsocket-group = 0\n");
	is_read_as("socket-group", "@root", "\nsocket-group = 0\n");
	is_read_as("socket-group", "4294967294", "\nsocket-group = 4294967294\n");
	ck_assert_int_eq(set("socket-group", "50"), 0);
	ck_assert_uint_eq(o.socket_group->n, 1);
	ck_assert_int_eq(o.socket_group->entries[0].who, OPTIONS_GROUP);
	ck_assert_uint_eq(o.socket_group->entries[0].id, 50);
	FAILS(set("socket-group", "1,2"), -EINVAL, "must be the name or gid of one group");
	FAILS(set("socket-group", "no-such-group"), -ENOENT, "there is no group \"no-such-group\"");
}
END_TEST

START_TEST(number_alone_is_the_limit_of_all_users)
{
	is_read_as("user-clients-max", "5", "\nuser-clients-max = *:5\n");
	is_read_as("user-jobs-max", "1000000", "\nuser-jobs-max = *:1000000\n");
	is_read_as("user-shared-memory-max", "1G", "\nuser-shared-memory-max = *:1G\n");
	is_read_as("default-deadline", "60s", "\ndefault-deadline = *:1min\n");
	is_read_as("default-deadline", "0", "\ndefault-deadline = *:0\n");
	is_read_as("user-clients-max", "0,@50:3",
		   "\nuser-clients-max = *:0\nuser-clients-max = @50:3\n");
}
END_TEST

START_TEST(list_is_extended_until_it_is_cleared)
{
	char many[OPTION_LIST_MAX * 4];
	size_t n = 0;

	ck_assert_int_eq(set("user-weights", "1000:200"), 0);
	ck_assert_int_eq(set("user-weights", "@50:3,*:4"), 0);
	ck_assert_uint_eq(o.user_weights->n, 3);
	/* Each user once, even in different lines. */
	ck_assert_int_eq(set("user-weights", "1001:1,1000:1"), -EINVAL);
	ck_assert_str_eq(
		error.text,
		"here: user-weights: bad value \"1000:1\" in \"1001:1,1000:1\": it is in the "
		"list already, by name or by number");
	ck_assert_uint_eq(o.user_weights->n, 3);
	ck_assert_int_eq(set("user-weights", ""), 0);
	ck_assert_ptr_null(o.user_weights);
	/* A user may have several patterns, but no pattern twice. */
	ck_assert_int_eq(set("allow-tasks", "1:fib:*,1:sort:*,2:fib:*"), 0);
	ck_assert_int_eq(set("allow-tasks", "1:sort:*"), -EINVAL);
	ck_assert_uint_eq(o.allow_tasks->n, 3);

	for (uint32_t i = 0; i < OPTION_LIST_MAX; i++)
		n += (size_t)snprintf(many + n, sizeof(many) - n, "%s%u", i ? "," : "", i);
	ck_assert_int_eq(set("allow", many), 0);
	ck_assert_uint_eq(o.allow->n, OPTION_LIST_MAX);
	ck_assert_int_eq(set("allow", "999"), -ERANGE);
	ck_assert_str_eq(error.text, "here: allow: bad value \"999\": a list has at most 255 "
				     "entries, in all of its lines");
	ck_assert_uint_eq(o.allow->n, OPTION_LIST_MAX);
}
END_TEST

START_TEST(errors_are_shown_with_a_remedy)
{
	ck_assert_int_eq(set("allow", "root,no-such-user,@root"), -ENOENT);
	ck_assert_str_eq(error.text, "here: allow: bad value \"no-such-user\" in "
				     "\"root,no-such-user,@root\": there is no user "
				     "\"no-such-user\": add it to the system, or write a uid");
	ck_assert_int_eq(set("user-jobs-max", "@no-such-group:5"), -ENOENT);
	ck_assert_str_eq(error.text,
			 "here: user-jobs-max: bad value \"@no-such-group:5\": there is "
			 "no group \"no-such-group\": add it to the system, or write "
			 "@ and a gid");
	FAILS(set("allow-tasks", "root:fib"), -EINVAL,
	      "tasks: bad value \"root:fib\": must be a list such as "
	      "alice:sort:*,*:fib:fib, of users (uid, name, @group, @gid or *) and "
	      "MODULE:TASK, which may have wildcards");
	FAILS(set("user-shared-memory-max", "@50:1M,5:17T"), -ERANGE,
	      "bad value \"5:17T\" in \"@50:1M,5:17T\": must be a size from 0 to 16T, or "
	      "a list such as alice:64M,*:16M");
	ck_assert_ptr_null(o.allow);
	ck_assert_ptr_null(o.allow_tasks);
}
END_TEST

/* Alice is uid 1000, in the groups 50, 100 and 27. */
static const struct {
	const char *list; /* of user-jobs-max */
	enum options_who known;
	uint64_t number;
} rows[] = {
	{ "", OPTIONS_NOBODY, UNSET },
	{ "1001:5", OPTIONS_NOBODY, UNSET },
	{ "@51:5,@1000:6", OPTIONS_NOBODY, UNSET },
	{ "50:5", OPTIONS_NOBODY, UNSET },
	{ "1000:5", OPTIONS_USER, 5 },
	{ "@100:5", OPTIONS_GROUP, 5 },
	{ "*:5", OPTIONS_ANYBODY, 5 },
	{ "5", OPTIONS_ANYBODY, 5 },
	/* The user's entry precedes those of groups, whatever the numbers, and these precede the
	 * entry for all. */
	{ "@50:500,1000:5,*:5000", OPTIONS_USER, 5 },
	{ "*:5000,1000:50000,@50:500", OPTIONS_USER, 50000 },
	{ "*:5000,@27:5", OPTIONS_GROUP, 5 },
	/* Of several groups the largest; groups of other users do not count. */
	{ "@50:5,@27:9,@100:6,@101:900", OPTIONS_GROUP, 9 },
	{ "@27:9,@50:5", OPTIONS_GROUP, 9 },
	/* 0 is the same as no entry. */
	{ "1000:0,@50:500,*:5", OPTIONS_USER, UNSET },
	{ "@50:0,@27:5", OPTIONS_GROUP, UNSET },
	{ "@50:0,@27:8", OPTIONS_GROUP, 8 },
	{ "*:0", OPTIONS_ANYBODY, UNSET },
};

START_TEST(user_precedes_groups_which_precede_the_entry_for_all)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		uint64_t number;

		init();
		ck_assert_int_eq(set("user-jobs-max", rows[i].list), 0);
		number = option_list_number(o.user_jobs_max, &alice, UNSET);
		ck_assert_msg(number == rows[i].number, "\"%s\" says %u", rows[i].list,
			      (unsigned int)number);
		ck_assert_uint_eq(option_list_knows(o.user_jobs_max, &alice), rows[i].known);
	}
}
END_TEST

START_TEST(groups_are_requested_only_if_a_list_has_groups)
{
	static const struct {
		const char *name, *none, *some;
	} lists[] = {
		{ "allow", "1000,*", "@50" },
		{ "deny", "50", "*,@50" },
		{ "allow-tasks", "50:a:b,*:*", "@50:a:b" },
		{ "user-weights", "50:5", "@50:5" },
		{ "user-clients-max", "5", "@50:5" },
		{ "user-jobs-max", "5", "5,@50:5" },
		{ "user-shared-memory-max", "50:5", "@50:5" },
	};

	/* It is not a list of users. */
	ck_assert_int_eq(set("socket-group", "50"), 0);
	ck_assert(!options_have_groups(&o));
	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		init();
		ck_assert_int_eq(set(lists[i].name, lists[i].none), 0);
		ck_assert(!options_have_groups(&o));
		ck_assert_int_eq(set(lists[i].name, ""), 0);
		ck_assert_int_eq(set(lists[i].name, lists[i].some), 0);
		ck_assert(options_have_groups(&o));
	}
}
END_TEST

CHECK_MAIN("option_list")
