/* SPDX-License-Identifier: MIT */
/* admission: clients are admitted or refused by their request, the options, and the free
 * resources */
#define CHECK_SETUP    begin
#define CHECK_TEARDOWN end

#include "daemon/manager/admission.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <forkd/client.h>

#include "common/clock.h"
#include "common/option_list.h"
#include "common/util.h"
#include "shm/job.h"
#include "shm/layout.h"
#include "tests/support/check_unit.h"

static struct options options;
static struct proto_hello hello;
static struct admission_peer peer;
static struct admission_room room;
static struct admission_verdict verdict;

/* All resources for an ordinary client are available. */
static void begin(void)
{
	ck_assert_int_eq(options_init(&options), 0);
	options.clients_max = 4;
	options.jobs_max = 512;
	options.heap_max = 2 << 20;
	options.shared_memory_max = 8 << 20;
	hello = (struct proto_hello){
		.head = { PROTO_MAGIC, PROTO_HELLO },
		.version = PROTO_VERSION,
		.layout_hash = LAYOUT_HASH,
	};
	peer = (struct admission_peer){ .who.uid = 1000, .pid = 77 };
	room = (struct admission_room){
		.memory = options.shared_memory_max,
		.most = { .clients = 4, .jobs = UINT64_MAX, .bytes = UINT64_MAX },
	};
	/* Unwritten bytes would be sent to the client. */
	memset(&verdict, 'x', sizeof(verdict));
}

static void end(void)
{
	options_fini(&options);
}

static void greet(void)
{
	admission_hello(&hello, &options, &peer, &room, &verdict);
}

static void said(int code, const char *text)
{
	size_t n = strlen(verdict.text);

	ck_assert_msg(strstr(verdict.text, text) != NULL, "\"%s\" says nothing of \"%s\"",
		      verdict.text, text);
	ck_assert_int_eq(verdict.code, code);
	for (size_t i = n; i < sizeof(verdict.text); i++)
		ck_assert_int_eq(verdict.text[i], 0);
}

static void refused(int code, const char *text)
{
	greet();
	said(code, text);
}

START_TEST(request_without_sizes_gets_the_defaults)
{
	greet();
	ck_assert_int_eq(verdict.code, 0);
	ck_assert_uint_eq(verdict.n_jobs, 256);
	ck_assert_uint_eq(verdict.heap_size, 1 << 20);
	options.jobs_max = 100;
	options.heap_max = 64 << 10;
	greet();
	ck_assert_int_eq(verdict.code, 0);
	ck_assert_uint_eq(verdict.n_jobs, 100);
	ck_assert_uint_eq(verdict.heap_size, 64 << 10);
}
END_TEST

START_TEST(client_gets_the_requested_sizes_within_the_limits)
{
	hello.n_jobs = 512;
	hello.heap_size = (2 << 20) - 1;
	greet();
	ck_assert_int_eq(verdict.code, 0);
	ck_assert_uint_eq(verdict.n_jobs, 512);
	ck_assert_uint_eq(verdict.heap_size, 2 << 20);
	hello.n_jobs = 513;
	refused(-E2BIG, "at most jobs-max (512)");
	hello.n_jobs = UINT32_MAX;
	refused(-E2BIG, "4294967295 jobs");
	hello.n_jobs = 1;
	hello.heap_size = (2 << 20) + 1;
	refused(-FK_E_HEAP_SIZE, "at most heap-max (2097152)");
	hello.heap_size = UINT64_MAX;
	refused(-FK_E_HEAP_SIZE, "18446744073709551615 bytes");
}
END_TEST

START_TEST(client_of_another_release_is_refused_before_its_request_is_read)
{
	hello.n_jobs = UINT32_MAX;
	room.clients = 4;
	hello.layout_hash++;
	refused(-EPROTO, "another release");
	hello.version = 77;
	refused(-EPROTO, "version 77");
	room.stopping = true;
	refused(-ESHUTDOWN, "forkd is stopping");
}
END_TEST

START_TEST(client_whose_end_cannot_be_watched_is_refused)
{
	static const int shortages[] = { -EMFILE, -ENFILE, -ENOMEM };

	for (uint32_t i = 0; i < ARRAY_SIZE(shortages); i++) {
		peer.unwatched = shortages[i];
		refused(-FK_E_FORKD_MEMORY, "LimitNOFILE");
	}
	peer.unwatched = -ESRCH;
	refused(-ESRCH, "pid 77) has ended");
	peer.unwatched = -EINVAL;
	refused(-ESRCH, "pid 77) has ended");
}
END_TEST

START_TEST(last_slot_is_given_and_no_more)
{
	room.clients = 3;
	greet();
	ck_assert_int_eq(verdict.code, 0);
	room.clients = 4;
	refused(-EUSERS, "clients-max (4)");
}
END_TEST

START_TEST(last_byte_is_given_and_no_more)
{
	uint64_t size = client_segment_heap_offset(256) + (1 << 20);

	room.memory = size;
	greet();
	ck_assert_int_eq(verdict.code, 0);
	room.tenant_size = 4096;
	refused(-FK_E_SHARED_MEMORY, "shared-memory-max (8388608 bytes)");
	room.memory += 4096;
	greet();
	ck_assert_int_eq(verdict.code, 0);
	room.memory--;
	refused(-FK_E_SHARED_MEMORY, "shared-memory-max");
}
END_TEST

START_TEST(one_user_too_many_is_refused)
{
	room.tenants_full = true;
	refused(-FK_E_USERS, "128 users");
}
END_TEST

START_TEST(refusal_of_a_uid_at_its_limit_names_the_limit)
{
	uint64_t size = client_segment_heap_offset(256) + (1 << 20);

	room.most = (struct quota_sums){ .clients = 3, .jobs = 600, .bytes = 3 * size };
	room.held = (struct quota_sums){ .clients = 2, .jobs = 344, .bytes = 2 * size };
	greet();
	ck_assert_int_eq(verdict.code, 0);
	room.held.bytes++;
	refused(-FK_E_USER_MEMORY, "exceed user-shared-memory-max");
	ck_assert_ptr_nonnull(strstr(verdict.text, "uid 1000 has"));
	room.held.jobs++;
	refused(-FK_E_USER_JOBS, "256 more exceed user-jobs-max (600)");
	room.held.clients++;
	refused(-FK_E_USER_CLIENTS,
		"uid 1000 has 3 connections, and may have user-clients-max (3)");
	room.most.clients = room.held.clients = 1;
	refused(-FK_E_USER_CLIENTS, "uid 1000 has 1 connection, and may have user-clients-max (1)");
	/* The shared limit is checked first: it may be the same number. */
	room.clients = 4;
	refused(-EUSERS, "clients-max (4)");
}
END_TEST

START_TEST(unmapped_uid_is_treated_as_an_unknown_user)
{
	peer.stranger = true;
	peer.who.uid = 65534;
	refused(-EACCES, "PrivateUsers");
	ck_assert_ptr_nonnull(strstr(verdict.text, "map the user"));
	admission_set(&peer, 65534, PROTO_SET, &verdict);
	said(-EACCES, "user namespace");
}
END_TEST

static void option(const char *name, const char *value)
{
	struct options_error error;

	ck_assert_msg(options_set(&options, name, value, "here", &error) == 0, "%s", error.text);
}

/* Alice is uid 1000, in the groups 50 and 60; bob is 1001, in no group. */
static const uint32_t alices_gids[] = { 60, 50 };
static const struct options_peer alice = { .uid = 1000, .n_gids = 2, .gids = alices_gids };
static const struct options_peer bob = { .uid = 1001 };

static const struct {
	const char *allow, *deny;
	const char *alice; /* the refusal for alice; NULL: she is admitted */
	const char *bob;
} lists[] = {
	{ "", "", NULL, NULL },
	{ "1000", "", NULL, "uid 1001 may not use this forkd: allow" },
	{ "@50", "", NULL, "neither it nor one of its groups" },
	{ "@51,1001", "", "uid 1000 may not use this forkd: allow", NULL },
	{ "*", "", NULL, NULL },
	{ "", "1000", "deny in forkd.conf lists it,", NULL },
	{ "", "@60", "deny in forkd.conf lists one of its groups,", NULL },
	{ "", "*", "deny in forkd.conf lists all users,", "deny in forkd.conf lists all users," },
	/* The more precise entry counts, and of two equally precise ones the refusal. */
	{ "1000", "*", NULL, "deny in forkd.conf lists all users," },
	{ "@50", "*", NULL, "deny in forkd.conf lists all users," },
	{ "1000", "@50", NULL, "neither it nor one of its groups" },
	{ "@50", "1000", "deny in forkd.conf lists it,", "neither it nor one of its groups" },
	{ "@50", "@60", "deny in forkd.conf lists one of its groups,",
	  "neither it nor one of its groups" },
	{ "@50,*", "@60", "deny in forkd.conf lists one of its groups,", NULL },
	{ "1000,1001", "1000", "deny in forkd.conf lists it,", NULL },
	{ "*", "*", "deny in forkd.conf lists all users,", "deny in forkd.conf lists all users," },
};

static void meets(const struct options_peer *who, const char *text)
{
	peer.who = *who;
	if (text) {
		refused(-EACCES, text);
	} else {
		greet();
		ck_assert_msg(verdict.code == 0, "%s", verdict.text);
	}
}

START_TEST(allow_and_deny_decide_about_a_connection)
{
	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		option("allow", "");
		option("allow", lists[i].allow);
		option("deny", "");
		option("deny", lists[i].deny);
		meets(&alice, lists[i].alice);
		meets(&bob, lists[i].bob);
	}
}
END_TEST

START_TEST(denied_user_gets_no_information_about_limits)
{
	option("deny", "*");
	room.clients = 4;
	hello.n_jobs = UINT32_MAX;
	peer.unwatched = -EMFILE;
	meets(&alice, "deny in forkd.conf");
	peer.stranger = true;
	refused(-EACCES, "PrivateUsers");
	/* Only root and forkd's own user may change settings, whatever the lists contain. */
	peer.stranger = false;
	admission_set(&peer, 1000, PROTO_SET, &verdict);
	ck_assert_int_eq(verdict.code, 0);
}
END_TEST

START_TEST(client_of_unknown_groups_is_refused)
{
	peer.groupless = -ENOMEM;
	refused(-FK_E_FORKD_MEMORY, "the groups of your process: Cannot allocate memory");
}
END_TEST

static const struct {
	const char *tasks;
	uint64_t alice, bob; /* bits of the entries that apply */
} task_lists[] = {
	{ "", 0, 0 },
	{ "1000:a:*", 1, 0 },
	{ "*:a:*", 1, 1 },
	{ "1000:a:*,*:b:*,1000:c:*", 1 | 4, 2 },
	{ "@50:a:*,*:b:*", 1, 2 },
	{ "*:a:*,@50:b:*,@51:c:*,@60:d:*,@60:e:*", 2 | 8 | 16, 1 },
	{ "@50:a:*,1000:b:*,@60:c:*", 2, 0 },
	{ "*:a:*,*:b:*,1001:c:*", 1 | 2, 4 },
};

START_TEST(tasks_are_those_of_the_most_precise_entries)
{
	for (size_t i = 0; i < ARRAY_SIZE(task_lists); i++) {
		option("allow-tasks", "");
		option("allow-tasks", task_lists[i].tasks);
		meets(&alice, NULL);
		ck_assert_uint_eq(verdict.rights.rules[0], task_lists[i].alice);
		meets(&bob, NULL);
		ck_assert_uint_eq(verdict.rights.rules[0], task_lists[i].bob);
		for (uint32_t k = 1; k < PROTO_RULES; k++)
			ck_assert_uint_eq(verdict.rights.rules[k], 0);
	}
}
END_TEST

START_TEST(last_entry_has_a_bit)
{
	char text[32];

	for (uint32_t i = 0; i < OPTION_LIST_MAX - 1; i++) {
		(void)snprintf(text, sizeof(text), "%u:a:*", 2000 + i);
		option("allow-tasks", text);
	}
	option("allow-tasks", "1000:a:*");
	meets(&alice, NULL);
	ck_assert_uint_eq(verdict.rights.rules[3], UINT64_C(1) << 62);
	ck_assert_uint_eq(
		verdict.rights.rules[0] | verdict.rights.rules[1] | verdict.rights.rules[2], 0);
}
END_TEST

START_TEST(connected_user_is_checked_against_lists_and_not_against_limits)
{
	option("allow-tasks", "1000:a:*,@50:b:*");
	option("deny", "1001");
	room.clients = 4;
	peer.unwatched = -ESRCH;
	peer.who = alice;
	admission_again(&options, &peer, &verdict);
	ck_assert_int_eq(verdict.code, 0);
	ck_assert_uint_eq(verdict.rights.rules[0], 1);
	ck_assert_uint_eq(verdict.rights.weight, 100);
	/* An empty set is not the same as all. */
	peer.who = bob;
	admission_again(&options, &peer, &verdict);
	said(-EACCES, "deny in forkd.conf lists it,");
	ck_assert_uint_eq(verdict.rights.rules[PROTO_RULES - 1], PROTO_RULES_NONE);
	peer.who = alice;
	peer.groupless = -ENOMEM;
	admission_again(&options, &peer, &verdict);
	said(-FK_E_FORKD_MEMORY, "the groups of your process");
	ck_assert_uint_eq(verdict.rights.rules[PROTO_RULES - 1], PROTO_RULES_NONE);
}
END_TEST

START_TEST(weight_is_the_largest_of_the_users_groups)
{
	meets(&alice, NULL);
	ck_assert_uint_eq(verdict.rights.weight, 100);
	option("user-weights", "@50:300,@60:200,*:50");
	meets(&alice, NULL);
	ck_assert_uint_eq(verdict.rights.weight, 300);
	meets(&bob, NULL);
	ck_assert_uint_eq(verdict.rights.weight, 50);
	option("user-weights", "1000:10");
	meets(&alice, NULL);
	ck_assert_uint_eq(verdict.rights.weight, 10);
}
END_TEST

START_TEST(default_deadline_is_the_longest_of_the_users_groups_and_0_is_none)
{
	meets(&alice, NULL);
	ck_assert_uint_eq(verdict.rights.default_deadline, 0);
	option("default-deadline", "@50:3s,@60:2s,@51:0,*:1s");
	meets(&alice, NULL);
	ck_assert_uint_eq(verdict.rights.default_deadline, 3 * NSEC_PER_SEC);
	meets(&bob, NULL);
	ck_assert_uint_eq(verdict.rights.default_deadline, NSEC_PER_SEC);
	option("default-deadline", "1000:0");
	meets(&alice, NULL);
	ck_assert_uint_eq(verdict.rights.default_deadline, 0);
}
END_TEST

START_TEST(message_is_identified_by_type_and_size)
{
	union proto_message m = { .hello = hello };

	ck_assert_uint_eq(admission_wish(&m, sizeof(m.hello)), ADMISSION_ATTACH);
	ck_assert_uint_eq(admission_wish(&m, sizeof(m.hello) - 1), ADMISSION_NONE);
	ck_assert_uint_eq(admission_wish(&m, sizeof(m.hello) + 1), ADMISSION_NONE);
	ck_assert_uint_eq(admission_wish(&m, -EBADMSG), ADMISSION_NONE);
	m.head.type = PROTO_SET;
	ck_assert_uint_eq(admission_wish(&m, sizeof(m.hello)), ADMISSION_NONE);
	ck_assert_uint_eq(admission_wish(&m, sizeof(m.set)), ADMISSION_SET);
	m.head.type = PROTO_LIFT;
	ck_assert_uint_eq(admission_wish(&m, sizeof(m.set)), ADMISSION_SET);
	m.head.type = PROTO_UNIMPORT;
	ck_assert_uint_eq(admission_wish(&m, sizeof(m.set)), ADMISSION_NONE);
	ck_assert_uint_eq(admission_wish(&m, sizeof(m.import)), ADMISSION_IMPORT);
	m.head.type = PROTO_CANCEL;
	ck_assert_uint_eq(admission_wish(&m, sizeof(m.cancel)), ADMISSION_NONE);
	verdict = admission_none();
	said(-EBADMSG, "not a HELLO");
}
END_TEST

START_TEST(only_root_and_the_owner_may_change_settings)
{
	peer.who.uid = 0;
	admission_set(&peer, 1000, PROTO_SET, &verdict);
	ck_assert_int_eq(verdict.code, 0);
	peer.who.uid = 1000;
	admission_set(&peer, 1000, PROTO_SET, &verdict);
	ck_assert_int_eq(verdict.code, 0);
	peer.who.uid = 1001;
	admission_set(&peer, 1000, PROTO_SET, &verdict);
	said(-EPERM, "this is uid 1001");
	ck_assert_ptr_nonnull(strstr(verdict.text, "set: only root"));
	admission_set(&peer, 1000, PROTO_LIFT, &verdict);
	said(-EPERM, "may lift one");
	/* Several commands use this request. */
	admission_ask(&peer, 1000, PROTO_CONFIG, 0, &verdict);
	said(-EPERM, "only root and the user that forkd runs as (uid 1000)");
	ck_assert_ptr_null(strstr(verdict.text, "config:"));
}
END_TEST

START_TEST(refusals_without_a_message_have_a_text)
{
	verdict = admission_late(5 * UINT64_C(1000000000));
	said(-FK_E_LATE, "no HELLO within 5 s");
	verdict = admission_stopping();
	said(-ESHUTDOWN, "forkd is stopping");
	verdict = admission_failed(-ENOSPC);
	said(-FK_E_FORKD_MEMORY, "No space left on device");
	verdict = admission_crowded(1000);
	said(-FK_E_CROWDED, "most of them of uid 1000");
}
END_TEST

CHECK_MAIN("admission")
