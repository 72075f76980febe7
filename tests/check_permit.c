/* SPDX-License-Identifier: MIT */
/*
 * permit: which reason refuses which task to which tenant, and that they are kept apart
 */
#include "daemon/permit.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "daemon/module.h"
#include "tests/check_unit.h"

#define HASH(task) (UINT64_C(0xabcdef0000) + (task))

static struct permit permit;
static struct modules modules;

static void setup(uint32_t n_tasks)
{
	memset(&permit, 0, sizeof(permit));
	modules.n_tasks = n_tasks;
	for (uint32_t i = 0; i < n_tasks; i++)
		modules.tasks[i].hash = HASH(i);
}

static int set(uint32_t tenant, uint64_t task, int error, bool refused)
{
	return permit_set(&permit, &modules, tenant, task, error, refused);
}

/* These are refused to this tenant, with this error, and no other to any. */
static void refused_are(uint32_t tenant, uint32_t from, uint32_t to, int error)
{
	uint32_t wrong = 0;

	for (uint32_t t = 0; t < LIMIT_TENANTS; t++)
		for (uint32_t i = 0; i < LIMIT_TASKS; i++)
			wrong += permit_check(&permit, t, i) !=
				 (t == tenant && i >= from && i < to ? error : 0);
	ck_assert_uint_eq(wrong, 0);
}

START_TEST(each_task_is_refused_to_each_tenant_by_itself)
{
	static const uint32_t tasks[] = { 0, 1, 63, 64, 127, LIMIT_TASKS - 1 };
	static const uint32_t tenants[] = { 0, 1, LIMIT_TENANTS - 1 };

	setup(LIMIT_TASKS);
	refused_are(0, 0, 0, 0);
	for (size_t t = 0; t < ARRAY_SIZE(tenants); t++)
		for (size_t i = 0; i < ARRAY_SIZE(tasks); i++) {
			ck_assert_int_eq(set(tenants[t], HASH(tasks[i]), -EKEYREVOKED, true), 0);
			refused_are(tenants[t], tasks[i], tasks[i] + 1, -EKEYREVOKED);
			ck_assert_int_eq(set(tenants[t], HASH(tasks[i]), -EKEYREVOKED, false), 0);
			refused_are(0, 0, 0, 0);
		}
}
END_TEST

START_TEST(every_task_may_be_refused_at_once_and_single_ones_stay_what_they_were)
{
	setup(LIMIT_TASKS);
	ck_assert_int_eq(set(5, HASH(70), -EKEYREVOKED, true), 0);
	ck_assert_int_eq(set(5, 0, -EKEYREVOKED, true), 0);
	refused_are(5, 0, LIMIT_TASKS, -EKEYREVOKED);
	ck_assert_int_eq(set(5, 0, -EKEYREVOKED, false), 0);
	refused_are(5, 70, 71, -EKEYREVOKED);
}
END_TEST

START_TEST(one_reason_ends_and_the_other_stays)
{
	setup(LIMIT_TASKS);
	ck_assert_int_eq(set(5, HASH(70), -EKEYREVOKED, true), 0);
	ck_assert_int_eq(set(5, HASH(70), -EACCES, true), 0);
	refused_are(5, 70, 71, -EACCES);
	ck_assert_int_eq(set(5, HASH(70), -EKEYREVOKED, false), 0);
	refused_are(5, 70, 71, -EACCES);
	ck_assert_int_eq(set(5, HASH(70), -EKEYREVOKED, true), 0);
	ck_assert_int_eq(set(5, HASH(70), -EACCES, false), 0);
	refused_are(5, 70, 71, -EKEYREVOKED);
	ck_assert_int_eq(set(5, 0, -EACCES, true), 0);
	refused_are(5, 0, LIMIT_TASKS, -EACCES);
}
END_TEST

START_TEST(what_is_not_there_changes_nothing)
{
	setup(3);
	ck_assert_int_eq(set(0, HASH(3), -EKEYREVOKED, true), -ENOENT);
	ck_assert_int_eq(set(LIMIT_TENANTS, HASH(0), -EKEYREVOKED, true), -EINVAL);
	ck_assert_int_eq(set(UINT32_MAX, 0, -EKEYREVOKED, true), -EINVAL);
	ck_assert_int_eq(set(0, HASH(0), -EPERM, true), -EINVAL);
	ck_assert_int_eq(set(0, HASH(0), 0, true), -EINVAL);
	refused_are(0, 0, 0, 0);
}
END_TEST

static _Atomic uint32_t done;

static void *look(void *arg)
{
	uint64_t *wrong = arg;

	do {
		int r = permit_check(&permit, 3, 9);

		*wrong += r != 0 && r != -EKEYREVOKED && r != -EACCES;
		*wrong += permit_check(&permit, 3, 10) != 0;
	} while (!atomic_load(&done));
	return NULL;
}

START_TEST(workers_look_while_it_changes)
{
	pthread_t thread;
	uint64_t wrong = 0;
	int bad = 0;

	setup(LIMIT_TASKS);
	ck_assert_int_eq(pthread_create(&thread, NULL, look, &wrong), 0);
	for (uint32_t i = 0; i < 100000; i++)
		bad |= set(3, HASH(9), i % 2 ? -EACCES : -EKEYREVOKED, i % 4 < 2);
	atomic_store(&done, 1);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_assert_int_eq(bad, 0);
	ck_assert_uint_eq(wrong, 0);
}
END_TEST

CHECK_MAIN("permit", each_task_is_refused_to_each_tenant_by_itself,
	   every_task_may_be_refused_at_once_and_single_ones_stay_what_they_were,
	   one_reason_ends_and_the_other_stays, what_is_not_there_changes_nothing,
	   workers_look_while_it_changes)
