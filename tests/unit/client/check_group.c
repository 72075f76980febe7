/* SPDX-License-Identifier: MIT */
/* group: one wait for many jobs. Uses tests/support/fake.h; tests/model/group.c has the
 * interleavings of the group's word. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>

#include "tests/support/requests.h"
#include "tests/support/threads.h"

static void put_into(fk_group group, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		requests[i].options.group = group;
}

START_TEST(group_has_ended_when_all_its_jobs_have)
{
	fk_group group;

	start(1, 0);
	ck_assert_int_eq(fk_group_new(client, &group), 0);
	ck_assert_int_eq(fk_group_wait(client, group, FK_FOREVER), 0);
	put_into(group, 5);
	/* The last three jobs are in no group. */
	ck_assert_int_eq(fk_submit_batch(client, requests, 8, 0, jobs), 0);
	for (;;) {
		uint32_t left = 0;

		for (uint32_t k = 0; k < 5; k++)
			left += !fk_poll(client, jobs[k]);
		ck_assert_int_eq(fk_group_wait(client, group, 0), left ? -ETIMEDOUT : 0);
		ck_assert_int_eq(fk_group_wait(client, group, 1000), left ? -ETIMEDOUT : 0);
		ck_assert_int_eq(fk_group_free(client, group), left ? -EBUSY : 0);
		if (!left)
			break;
		run_one();
	}
	ck_assert_int_eq(fk_group_wait(client, group, 0), -FK_E_NO_GROUP);
	ck_assert_int_eq(fk_group_free(client, group), -FK_E_NO_GROUP);
	ck_assert_int_eq(fk_submit_batch(client, requests, 1, 0, jobs), -FK_E_NO_GROUP);
	run_all();
	ck_assert_int_eq(fk_release_batch(client, jobs, 8), 0);
	stop();
}
END_TEST

START_TEST(one_group_too_many_is_refused)
{
	fk_group groups[LIMIT_GROUPS];
	fk_group one;

	start(1, 0);
	for (uint32_t i = 0; i < LIMIT_GROUPS; i++) {
		ck_assert_int_eq(fk_group_new(client, &groups[i]), 0);
		ck_assert_uint_ne(groups[i], 0);
		for (uint32_t k = 0; k < i; k++)
			ck_assert_uint_ne(groups[i], groups[k]);
	}
	ck_assert_int_eq(fk_group_new(client, &one), -FK_E_GROUPS_FULL);
	ck_assert_int_eq(fk_group_free(client, groups[9]), 0);
	ck_assert_int_eq(fk_group_new(client, &one), 0);
	ck_assert_uint_ne(one, groups[9]);
	ck_assert_int_eq(fk_group_wait(client, one, 0), 0);
	ck_assert_int_eq(fk_group_wait(client, groups[9], 0), -FK_E_NO_GROUP);
	ck_assert_int_eq(fk_group_wait(client, 0, 0), -FK_E_NO_GROUP);
	ck_assert_int_eq(fk_group_wait(client, UINT64_MAX, 0), -FK_E_NO_GROUP);
	ck_assert_int_eq(fk_group_free(client, 0), -FK_E_NO_GROUP);
	stop();
}
END_TEST

static fk_group waited;
static _Atomic uint32_t came_back;

static void *wait_for_group(void *unused)
{
	int err = fk_group_wait(client, waited, FK_FOREVER);

	(void)unused;
	/* The results are visible, too. */
	for (uint32_t i = 0; i < JOBS && !err; i++) {
		int64_t sum;

		if (fk_result(client, jobs[i], &sum, sizeof(sum)) || sum != i + 1000)
			err = -EPROTO;
	}
	atomic_fetch_add(&came_back, 1);
	return (void *)(intptr_t)err;
}

/* One sleep for all of them; each waiter may sleep, spin or find them ended. */
START_TEST(waiters_of_a_group_are_woken_by_its_last_job)
{
	start(3, 3);
	ck_assert_int_eq(fk_group_new(client, &waited), 0);
	put_into(waited, JOBS);
	for (uint32_t round = 0; round < 200; round++) {
		pthread_t threads[2];

		ck_assert_int_eq(fk_submit_batch(client, requests, JOBS, 0, jobs), 0);
		threads_start(threads, 2, wait_for_group);
		threads_join(threads, 2);
		ck_assert_int_eq(fk_release_batch(client, jobs, JOBS), 0);
	}
	ck_assert_int_eq(fk_group_free(client, waited), 0);
	stop();
}
END_TEST

START_TEST(waiter_of_a_group_sleeps_until_its_end)
{
	struct group *group;
	pthread_t thread;

	start(1, 0);
	ck_assert_int_eq(fk_group_new(client, &waited), 0);
	put_into(waited, JOBS);
	group = &client->groups[waited & 0xffff];
	ck_assert_int_eq(fk_submit_batch(client, requests, JOBS, 0, jobs), 0);
	pthread_create(&thread, NULL, wait_for_group, NULL);
	while (!(atomic_load(&group->word) & GROUP_WAITER))
		sched_yield();
	for (uint32_t i = 0; i < JOBS; i++) {
		ck_assert_uint_eq(atomic_load(&came_back), 0);
		ck_assert_uint_eq(group_count(atomic_load(&group->word)), JOBS - i);
		run_one();
	}
	threads_join(&thread, 1);
	ck_assert_int_eq(fk_release_batch(client, jobs, JOBS), 0);
	stop();
}
END_TEST

/* As if the pool had died between an outcome and the step that counts it. */
START_TEST(uncounted_job_does_not_delay_a_wait)
{
	struct group *group;
	uint32_t payload;
	fk_group next;
	fk_group other;

	LOCAL_REFUSE("a pool that dies");
	start(1, 0);
	ck_assert_int_eq(fk_group_new(client, &waited), 0);
	put_into(waited, 10);
	group = &client->groups[waited & 0xffff];
	ck_assert_int_eq(fk_submit_batch(client, requests, 10, 0, jobs), 0);
	for (int i = 0; i < 9; i++)
		run_one();
	ck_assert_int_eq(fake_take(&payload), 0);
	(void)job_finish(&client->jobs[ring_payload_job(payload)],
			 client->jobs[ring_payload_job(payload)].generation, JOB_CRASHED);
	ck_assert_uint_eq(group_count(atomic_load(&group->word)), 1);
	ck_assert_int_eq(fk_group_wait(client, waited, FK_FOREVER), 0);
	/* An expired wait checks the jobs as well, a poll at intervals. */
	ck_assert_int_eq(fk_group_wait(client, waited, 1000), 0);
	while (fk_group_wait(client, waited, 0))
		;
	/* The group can still be used, and no other group gets its number before the count is
	 * right. */
	ck_assert_int_eq(fk_release_batch(client, jobs, 10), 0);
	ck_assert_int_eq(fk_submit_batch(client, requests, 10, 0, jobs), 0);
	ck_assert_int_eq(fk_group_wait(client, waited, 1000), -ETIMEDOUT);
	ck_assert_int_eq(fk_group_free(client, waited), -EBUSY);
	run_all();
	ck_assert_int_eq(fk_group_wait(client, waited, FK_FOREVER), 0);
	ck_assert_int_eq(fk_group_free(client, waited), 0);
	ck_assert_int_eq(fk_group_new(client, &next), 0);
	ck_assert_uint_ne(next & 0xffff, waited & 0xffff);
	/* The count was only late. */
	(void)group_done(group, 1);
	ck_assert_int_eq(fk_group_new(client, &other), 0);
	ck_assert_uint_eq(other & 0xffff, waited & 0xffff);
	ck_assert_uint_ne(other, waited);
	ck_assert_int_eq(fk_release_batch(client, jobs, 10), 0);
	stop();
}
END_TEST

/* As an event loop does. The first of two was not counted down. */
START_TEST(groups_polled_in_turn_are_each_checked)
{
	fk_group groups[2];
	uint32_t payload;
	int err;

	start(1, 0);
	for (uint32_t i = 0; i < 2; i++) {
		ck_assert_int_eq(fk_group_new(client, &groups[i]), 0);
		requests[i].options.group = groups[i];
		ck_assert_int_eq(fk_submit_batch(client, &requests[i], 1, 0, &jobs[i]), 0);
	}
	ck_assert_int_eq(fake_take(&payload), 0);
	(void)fake_finish(jobs[0], JOB_CRASHED);
	do {
		err = fk_group_wait(client, groups[0], 0);
		ck_assert_int_eq(fk_group_wait(client, groups[1], 0), -ETIMEDOUT);
	} while (err == -ETIMEDOUT);
	ck_assert_int_eq(err, 0);
	fake_close();
}
END_TEST

static void *hang_up_when_waited_for(void *unused)
{
	(void)unused;
	while (!(atomic_load(&client->groups[waited & 0xffff].word) & GROUP_WAITER))
		sched_yield();
	fake_hang_up();
	return NULL;
}

START_TEST(wait_for_a_group_ends_when_the_daemon_is_gone)
{
	pthread_t thread;

	start(1, 0);
	ck_assert_int_eq(fk_group_new(client, &waited), 0);
	put_into(waited, JOBS);
	ck_assert_int_eq(fk_submit_batch(client, requests, JOBS, 0, jobs), 0);
	pthread_create(&thread, NULL, hang_up_when_waited_for, NULL);
	ck_assert_int_eq(fk_group_wait(client, waited, FK_FOREVER), -ECONNRESET);
	pthread_join(thread, NULL);
	ck_assert_int_eq(fk_submit_batch(client, requests, 1, FK_WAIT_ROOM, jobs), -ECONNRESET);
	/* The state of the group when the daemon ended. */
	for (uint32_t i = 0; i < JOBS; i++)
		(void)fake_finish(jobs[i], JOB_CANCELLED);
	ck_assert_int_eq(fk_group_wait(client, waited, FK_FOREVER), 0);
	ck_assert_int_eq(fk_group_free(client, waited), 0);
	ck_assert_int_eq(fk_release_batch(client, jobs, JOBS), 0);
	stop();
}
END_TEST

CHECK_MAIN("group")
