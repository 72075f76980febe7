/* SPDX-License-Identifier: MIT */
/* permission: which task is refused to which tenant and client, and for which reason */
#include "daemon/core/task_permission.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "common/option_list.h"
#include "common/util.h"
#include "daemon/host/module.h"
#include "tests/support/check_unit.h"
#include "tests/support/options.h"

#define HASH(task) (UINT64_C(0xabcdef0000) + (task))

static struct permission permission;
static struct modules modules;
static const _Atomic uint64_t nothing[PERMISSION_WORDS];

static void setup(uint32_t n_tasks)
{
	memset(&permission, 0, sizeof(permission));
	modules.n_tasks = n_tasks;
	for (uint32_t i = 0; i < n_tasks; i++)
		modules.tasks[i].hash = HASH(i);
}

static int refuse(uint32_t tenant, uint64_t task, bool refused)
{
	return permission_set(&permission, &modules, tenant, task, refused);
}

/* Checks that exactly these tasks are refused to this tenant, and none to any other. */
static void refused_are(uint32_t tenant, uint32_t from, uint32_t to)
{
	uint32_t wrong = 0;

	for (uint32_t t = 0; t < LIMIT_TENANTS; t++)
		for (uint32_t i = 0; i < LIMIT_TASKS; i++)
			wrong += permission_check(&permission, nothing, t, i) !=
				 (t == tenant && i >= from && i < to ? -EKEYREVOKED : 0);
	ck_assert_uint_eq(wrong, 0);
}

START_TEST(each_task_is_refused_to_each_tenant_separately)
{
	static const uint32_t tasks[] = { 0, 1, 63, 64, 127, LIMIT_TASKS - 1 };
	static const uint32_t tenants[] = { 0, 1, LIMIT_TENANTS - 1 };

	setup(LIMIT_TASKS);
	refused_are(0, 0, 0);
	for (size_t t = 0; t < ARRAY_SIZE(tenants); t++)
		for (size_t i = 0; i < ARRAY_SIZE(tasks); i++) {
			ck_assert_int_eq(refuse(tenants[t], HASH(tasks[i]), true), 0);
			refused_are(tenants[t], tasks[i], tasks[i] + 1);
			ck_assert_int_eq(refuse(tenants[t], HASH(tasks[i]), false), 0);
			refused_are(0, 0, 0);
		}
}
END_TEST

START_TEST(refusal_of_all_tasks_keeps_the_state_of_single_ones)
{
	setup(LIMIT_TASKS);
	ck_assert_int_eq(refuse(5, HASH(70), true), 0);
	ck_assert_int_eq(refuse(5, 0, true), 0);
	refused_are(5, 0, LIMIT_TASKS);
	ck_assert_int_eq(refuse(5, 0, false), 0);
	refused_are(5, 70, 71);
}
END_TEST

START_TEST(missing_permission_is_reported_before_quarantine_and_stays)
{
	const _Atomic uint64_t denied[PERMISSION_WORDS] = { [1] = UINT64_C(1) << (70 - 64) };

	setup(LIMIT_TASKS);
	ck_assert_int_eq(permission_check(&permission, denied, 5, 70), -FK_E_DENIED);
	ck_assert_int_eq(permission_check(&permission, denied, 5, 71), 0);
	ck_assert_int_eq(refuse(5, 0, true), 0);
	ck_assert_int_eq(permission_check(&permission, denied, 5, 70), -FK_E_DENIED);
	ck_assert_int_eq(permission_check(&permission, denied, 5, 71), -EKEYREVOKED);
	ck_assert_int_eq(refuse(5, 0, false), 0);
	permission_clear(&permission, 5);
	ck_assert_int_eq(permission_check(&permission, denied, 5, 70), -FK_E_DENIED);
	ck_assert_int_eq(permission_check(&permission, denied, 5, 71), 0);
}
END_TEST

/* Checks which tasks a client with these rules may call. */
static void calls(const uint64_t *rules, const char *const *names)
{
	_Atomic uint64_t denied[PERMISSION_WORDS];
	uint64_t bits[PERMISSION_WORDS];

	memset(bits, 0xa5, sizeof(bits));
	permission_deny(&permission, &modules, rules, bits);
	for (uint32_t i = 0; i < PERMISSION_WORDS; i++)
		atomic_init(&denied[i], bits[i]);
	for (uint32_t i = 0; i < modules.n_tasks; i++) {
		bool may = names && *names && streq(*names, modules.tasks[i].name);

		names += may;
		ck_assert_msg((permission_check(&permission, denied, 0, i) == 0) == may, "%s",
			      modules.tasks[i].name);
	}
	ck_assert(!names || !*names);
}

/* Sends the rules as the manager does. */
static void rules_are(const struct options_list *tasks)
{
	for (uint32_t i = 0; tasks && i < tasks->n; i++)
		ck_assert_int_eq(permission_rule(&permission, i, tasks->entries[i].task), 0);
}

START_TEST(client_may_call_tasks_of_any_of_its_rules_and_all_without_rules)
{
	static const char *const all[] = { "fib:fib", "sort:f64", "sort:i64", "uts:uts", NULL };
	static const char *const none[] = { NULL };
	static const char *const all_fib[] = { "fib:fib", NULL };
	static const char *const two[] = { "fib:fib", "sort:i64", NULL };
	static const char *const sorts[] = { "sort:f64", "sort:i64", NULL };
	static const char *const not_uts[] = { "fib:fib", "sort:f64", "sort:i64", NULL };
	static const struct {
		uint64_t rules;
		const char *const *names;
	} rows[] = {
		{ 0, all },
		{ 1 << 0, sorts },
		{ 1 << 1, two },
		{ 1 << 2, none },
		{ 1 << 3, all },
		{ 1 << 4, none },
		{ 1 << 0 | 1 << 1 | 1 << 2, not_uts },
	};
	const uint64_t last[PROTO_RULES] = { 0, 0, 0, UINT64_C(1) << 62 };
	const uint64_t of_no_entry[PROTO_RULES] = { 0, 0, 0, PROTO_RULES_NONE };
	char text[64];

	setup(0);
	for (; all[modules.n_tasks]; modules.n_tasks++)
		strcpy(modules.tasks[modules.n_tasks].name, all[modules.n_tasks]);
	init();
	ck_assert_int_eq(set("allow-tasks", "1:sort:*,1:[fs]*:*i[b6]*,1:*:nothing,*:*,2:FIB:fib"),
			 0);
	rules_are(o.allow_tasks);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		calls((uint64_t[PROTO_RULES]){ rows[i].rules }, rows[i].names);
	for (uint32_t i = o.allow_tasks->n; i < OPTION_LIST_MAX; i++) {
		(void)snprintf(text, sizeof(text), "%u:sort:*", i);
		ck_assert_int_eq(set("allow-tasks", text), 0);
	}
	rules_are(o.allow_tasks);
	calls(last, sorts);
	calls(of_no_entry, none);
	ck_assert_int_eq(set("allow-tasks", ""), 0);
	/* Another list, in which the same bits mean other rules. */
	ck_assert_int_eq(set("allow-tasks", "1:fib:fib,1:no:such,1:*:*i64"), 0);
	rules_are(o.allow_tasks);
	calls((uint64_t[PROTO_RULES]){ 1 << 0 }, all_fib);
	calls((uint64_t[PROTO_RULES]){ 1 << 0 | 1 << 2 }, two);
	calls(of_no_entry, none);
	options_fini(&o);
}
END_TEST

START_TEST(unknown_client_or_task_changes_nothing)
{
	setup(3);
	ck_assert_int_eq(refuse(0, HASH(3), true), -ENOENT);
	ck_assert_int_eq(refuse(LIMIT_TENANTS, HASH(0), true), -EINVAL);
	ck_assert_int_eq(refuse(UINT32_MAX, 0, true), -EINVAL);
	refused_are(0, 0, 0);
}
END_TEST

static _Atomic uint32_t done;

static void *look(void *arg)
{
	uint64_t *wrong = arg;

	do {
		int r = permission_check(&permission, nothing, 3, 9);

		*wrong += r != 0 && r != -EKEYREVOKED;
		*wrong += permission_check(&permission, nothing, 3, 10) != 0;
	} while (!atomic_load(&done));
	return NULL;
}

START_TEST(permissions_change_while_workers_read_them)
{
	pthread_t thread;
	uint64_t wrong = 0;
	int bad = 0;

	setup(LIMIT_TASKS);
	ck_assert_int_eq(pthread_create(&thread, NULL, look, &wrong), 0);
	for (uint32_t i = 0; i < 100000; i++)
		bad |= refuse(3, HASH(9), i % 2);
	atomic_store(&done, 1);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_assert_int_eq(bad, 0);
	ck_assert_uint_eq(wrong, 0);
}
END_TEST

CHECK_MAIN("permission")
