/* SPDX-License-Identifier: MIT */
/*
 * batch and group: many jobs by one word of a ring, their options, and one wait for all of them.
 * Against tests/fake.h; tests/model/group.c has the interleavings of the group's word.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "client/client.h"
#include "common/clock.h"
#include "common/util.h"
#include "shm/futex.h"
#include "shm/wake.h"
#include "tests/check_unit.h"
#include "tests/fake.h"

#define JOBS 64u /* of fake_start() */

static fk_client *client;
static struct fk_request requests[JOBS + 1];
static int64_t numbers[JOBS][2];
static fk_job jobs[JOBS];

static void start(uint32_t n_workers, uint32_t n_running)
{
	fake_start(n_workers, n_running);
	client = must_open();
	for (uint32_t i = 0; i < JOBS; i++) {
		numbers[i][0] = i;
		numbers[i][1] = 1000;
		requests[i] = (struct fk_request){
			.task = must_find(client, "test:add"),
			.args = numbers[i],
			.size = 16,
		};
	}
}

/* All records are free, and as fk_submit() wants them. */
static void must_be_clean(void)
{
	for (uint32_t i = 0; i < JOBS; i++) {
		struct job *job = &client->jobs[i];

		ck_assert_int_ge(slots_take(client), 0);
		ck_assert_uint_eq(job->next, 0);
		ck_assert_uint_eq(job->deadline_ns, 0);
		ck_assert_uint_eq(job->weight, 0);
		ck_assert_uint_eq(job->group, 0);
		ck_assert_uint_eq(job->place, 0);
		ck_assert_uint_eq(client->slots[i].options, 0);
		ck_assert_uint_ne(job_outcome(job), JOB_PENDING);
	}
	ck_assert_int_eq(slots_take(client), -EAGAIN);
	for (uint32_t i = 0; i < JOBS; i++)
		slots_give(client, i);
	ck_assert_uint_eq(heap_used(&client->heap), 0);
}

static void stop(void)
{
	must_be_clean();
	fk_close(client);
	fake_stop();
}

/* Words in all rings. */
static uint64_t words(void)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < fake.n_workers; i++)
		n += atomic_load(&fake.tenant->rings[i].tail) - fake.heads[i];
	return n;
}

static void run_all(void)
{
	uint32_t payload;

	while (fake_take(&payload) >= 0)
		fake_run(payload);
}

/* ------------------------------------------------------------------ batches */

START_TEST(a_batch_is_one_word_and_a_chain_in_its_order)
{
	uint32_t payload;
	uint32_t index;

	start(1, 0);
	ck_assert_int_eq(fk_submit_batch(client, requests, 40, 0, jobs), 0);
	ck_assert_uint_eq(words(), 1);
	ck_assert_int_eq(ring_peek(&fake.tenant->rings[0], 0, &payload), RING_OK);
	index = ring_payload_job(payload);
	for (uint32_t i = 0; i < 40; i++) {
		struct job *job = &client->jobs[index];

		ck_assert_uint_eq(jobs[i] & 0xffff, index);
		ck_assert_uint_eq(jobs[i] >> 16, job->generation);
		ck_assert_uint_eq(job->state, job_state(job->generation, JOB_PENDING));
		ck_assert_mem_eq(job->args, numbers[i], 16);
		ck_assert_uint_eq(job->next == 0, i == 39);
		index = job->next - 1;
	}
	run_all();
	for (uint32_t i = 0; i < 40; i++) {
		int64_t sum;

		ck_assert_int_eq(fk_wait(client, jobs[i], 0), 0);
		ck_assert_int_eq(fk_result(client, jobs[i], &sum, sizeof(sum)), 0);
		ck_assert_int_eq(sum, i + 1000);
	}
	ck_assert_int_eq(fk_release_batch(client, jobs, 40), 0);
	ck_assert_int_eq(fk_release_batch(client, jobs, 40), -ESTALE);
	stop();
}
END_TEST

START_TEST(one_and_none_are_batches_too)
{
	fk_job job = 7;

	start(1, 0);
	ck_assert_int_eq(fk_submit_batch(client, requests, 0, 0, &job), 0);
	ck_assert_uint_eq(words(), 0);
	ck_assert_uint_eq(job, 7);
	ck_assert_int_eq(fk_submit_batch(client, requests, 1, 0, &job), 0);
	ck_assert_uint_eq(client_job(client, job)->next, 0);
	ck_assert_uint_eq(client->slots[job & 0xffff].options, 0);
	run_all();
	ck_assert_int_eq(fk_wait(client, job, 0), 0);
	ck_assert_int_eq(fk_release_batch(client, &job, 1), 0);
	ck_assert_int_eq(fk_release_batch(client, NULL, 0), 0);
	stop();
}
END_TEST

START_TEST(with_too_few_records_nothing_is_submitted)
{
	fk_job more[JOBS];

	start(1, 0);
	memset(more, 0x55, sizeof(more));
	ck_assert_int_eq(fk_submit_batch(client, requests, JOBS + 1, 0, more), -E2BIG);
	ck_assert_int_eq(fk_submit_batch(client, requests, JOBS - 10, 0, jobs), 0);
	ck_assert_int_eq(fk_submit_batch(client, requests, 11, 0, more), -EAGAIN);
	ck_assert_uint_eq(words(), 1);
	for (uint32_t i = 0; i < 11; i++)
		ck_assert_uint_eq(more[i], UINT64_C(0x5555555555555555));
	/* What there is was not touched. */
	ck_assert_int_eq(fk_submit_batch(client, requests, 10, 0, more), 0);
	ck_assert_int_eq(fk_release_batch(client, jobs, JOBS - 10), -EBUSY);
	run_all();
	ck_assert_int_eq(fk_release_batch(client, jobs, JOBS - 10), 0);
	ck_assert_int_eq(fk_release_batch(client, more, 10), 0);
	stop();
}
END_TEST

START_TEST(with_all_rings_full_nothing_is_submitted)
{
	fk_group group;
	uint64_t position;

	start(2, 0);
	ck_assert_int_eq(fk_group_new(client, &group), 0);
	for (uint32_t ring = 0; ring < 2; ring++)
		while (ring_push(&fake.tenant->rings[ring], 0, &position) == RING_OK)
			;
	for (uint32_t i = 0; i < 20; i++)
		requests[i].group = i % 3 ? group : 0;
	ck_assert_int_eq(fk_submit_batch(client, requests, 20, 0, jobs), -EAGAIN);
	ck_assert_uint_eq(words(), 2 * RING_SLOTS);
	ck_assert_int_eq(fk_group_wait(client, group, 0), 0);
	ck_assert_int_eq(fk_group_free(client, group), 0);
	stop();
}
END_TEST

START_TEST(one_bad_request_is_the_end_of_the_batch)
{
	static const struct {
		struct fk_request change; /* what is not 0 in it is put into a good one */
		int err;
	} bad[] = {
		{ { .size = 8 }, -EINVAL },
		{ { .flags = FK_WAIT_ROOM }, -EINVAL },
		{ { .flags = 8 }, -EINVAL },
		{ { .flags = FK_STRICT }, -EINVAL },
		{ { .place_index = 1 }, -EINVAL },
		{ { .place = FK_PLACE_WORKER, .place_index = 2 }, -EINVAL },
		{ { .place = FK_PLACE_NODE, .place_index = 77 }, -EINVAL },
		{ { .place = 3 }, -EINVAL },
		{ { .reserved = { 1 } }, -EINVAL },
		{ { .reserved = { 0, 1 } }, -EINVAL },
		{ { .group = 1 }, -ESTALE },
		{ { .group = 1 << 16 | 5 }, -ESTALE }, /* of the right form, and nobody has it */
		{ { .group = UINT64_MAX }, -ESTALE },
	};
	union fk_value text = { .str = "four" };
	union fk_value none = { .str = NULL };
	char local[4];
	union fk_value outside = { .buf = { local, 4 } };
	fk_group group;

	start(2, 0);
	ck_assert_int_eq(fk_group_new(client, &group), 0);
	for (uint32_t i = 0; i < 9; i++) {
		requests[i].group = group;
		requests[i].task = must_find(client, "test:len");
		requests[i].values = &text;
		requests[i].size = 1;
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		const struct fk_request *b = &bad[i].change;
		struct fk_request saved = requests[6];

		requests[6].size = b->size ? b->size : saved.size;
		requests[6].flags = b->flags;
		requests[6].place = b->place;
		requests[6].place_index = b->place_index;
		requests[6].group = b->group ? b->group : saved.group;
		memcpy(requests[6].reserved, b->reserved, sizeof(b->reserved));
		ck_assert_int_eq(fk_submit_batch(client, requests, 9, 0, jobs), bad[i].err);
		requests[6] = saved;
	}
	ck_assert_int_eq(fk_submit_batch(client, requests, 9, FK_IDEMPOTENT, jobs), -EINVAL);
	/* What shows only when it is packed, when others have been. */
	requests[6].values = &none;
	ck_assert_int_eq(fk_submit_batch(client, requests, 9, 0, jobs), -EINVAL);
	requests[6].task = must_find(client, "test:inc");
	requests[6].values = &outside;
	ck_assert_int_eq(fk_submit_batch(client, requests, 9, 0, jobs), -EFAULT);
	requests[6].task = NULL;
	ck_assert_int_eq(fk_submit_batch(client, requests, 9, 0, jobs), -EINVAL);
	requests[6] = requests[5];
	atomic_store(&fake.board->tasks[1].flags, TASK_GONE);
	ck_assert_int_eq(fk_submit_batch(client, requests, 9, 0, jobs), -ENOENT);
	atomic_store(&fake.board->tasks[1].flags, 0);
	ck_assert_uint_eq(words(), 0);
	ck_assert_int_eq(fk_group_wait(client, group, 0), 0);
	must_be_clean();
	/* And the good ones are. */
	ck_assert_int_eq(fk_submit_batch(client, requests, 9, 0, jobs), 0);
	ck_assert_int_eq(fk_group_wait(client, group, 0), -ETIMEDOUT);
	run_all();
	ck_assert_int_eq(fk_group_wait(client, group, 0), 0);
	ck_assert_int_eq(fk_release_batch(client, jobs, 9), 0);
	stop();
}
END_TEST

START_TEST(options_stand_in_the_record_and_go_with_the_job)
{
	uint64_t before = clock_ns();
	struct job *job;
	fk_group group;

	start(2, 0);
	atomic_store(&fake.board->workers[1].node, 3);
	ck_assert_int_eq(fk_group_new(client, &group), 0);
	requests[0].timeout_ns = 5 * NSEC_PER_SEC;
	requests[0].weight = 7;
	requests[0].group = group;
	requests[0].flags = FK_STRICT | FK_IDEMPOTENT;
	requests[0].place = FK_PLACE_NODE;
	requests[0].place_index = 3;
	ck_assert_int_eq(fk_submit_batch(client, requests, 1, 0, jobs), 0);
	job = client_job(client, jobs[0]);
	ck_assert_uint_ge(job->deadline_ns, before + 5 * NSEC_PER_SEC);
	ck_assert_uint_le(job->deadline_ns, clock_ns() + 5 * NSEC_PER_SEC);
	ck_assert_uint_eq(job->weight, 7);
	ck_assert_uint_eq(job->group, (group & 0xffff) + 1);
	ck_assert_uint_eq(job->flags, JOB_IDEMPOTENT);
	ck_assert_uint_eq(job->place, job_place(JOB_PLACE_NODE, 3, 1));
	ck_assert_uint_eq(job_place_kind(job->place), JOB_PLACE_NODE);
	ck_assert_uint_eq(job_place_index(job->place), 3);
	ck_assert_int_ne(job_place_strict(job->place), 0);
	run_all();
	ck_assert_int_eq(fk_release(client, jobs[0]), 0);
	/* For ever. */
	requests[1].timeout_ns = UINT64_MAX;
	ck_assert_int_eq(fk_submit_batch(client, &requests[1], 1, 0, jobs), 0);
	ck_assert_uint_eq(client_job(client, jobs[0])->deadline_ns, UINT64_MAX);
	run_all();
	ck_assert_int_eq(fk_release(client, jobs[0]), 0);
	/* The same record without any. */
	ck_assert_int_eq(fk_submit(client, requests[0].task, numbers, 16, 0, jobs), 0);
	ck_assert_ptr_eq(client_job(client, jobs[0]), job);
	ck_assert_uint_eq(job->deadline_ns | job->weight | job->group | job->place, 0);
	run_all();
	ck_assert_int_eq(fk_release(client, jobs[0]), 0);
	stop();
}
END_TEST

/* The ring that one more of requests[0] goes to, or a negative errno. */
static int ring_of_next(void)
{
	uint64_t tails[FAKE_WORKERS];
	int err;

	for (uint32_t i = 0; i < fake.n_workers; i++)
		tails[i] = atomic_load(&fake.tenant->rings[i].tail);
	err = fk_submit_batch(client, requests, 1, 0, jobs);
	if (err)
		return err;
	/* The pool's end of it. */
	fake_run((uint32_t)(jobs[0] & 0xffff) | ring_payload(client->id, 0, 0));
	ck_assert_int_eq(fk_release_batch(client, jobs, 1), 0);
	for (uint32_t i = 0; i < fake.n_workers; i++)
		if (atomic_load(&fake.tenant->rings[i].tail) != tails[i])
			return (int)i;
	return -ENOENT;
}

static void fill(uint32_t ring)
{
	uint64_t position;

	while (ring_push(&fake.tenant->rings[ring], 0, &position) == RING_OK)
		;
}

START_TEST(a_place_is_a_ring)
{
	uint32_t seen = 0;

	start(4, 0);
	for (uint32_t i = 0; i < 4; i++) {
		atomic_store(&fake.board->workers[i].node, i / 2 + 5);
		atomic_store(&fake.board->workers[i].wake, WAKE_BUSY);
	}
	/* Without a place whoever looks is better. */
	atomic_store(&fake.board->workers[0].wake, WAKE_LOOKING);
	ck_assert_int_eq(ring_of_next(), 0);
	requests[0].place = FK_PLACE_WORKER;
	for (uint32_t i = 0; i < 4; i++) {
		requests[0].place_index = i;
		ck_assert_int_eq(ring_of_next(), (int)i);
	}
	requests[0].place = FK_PLACE_NODE;
	requests[0].place_index = 6;
	for (int i = 0; i < 100; i++)
		seen |= 1u << ring_of_next();
	ck_assert_uint_eq(seen, 0xc);
	/* Of a node too: who looks, then who sleeps. */
	atomic_store(&fake.board->workers[3].wake, WAKE_SLEEPING);
	for (int i = 0; i < 10; i++)
		ck_assert_int_eq(ring_of_next(), 3);
	atomic_store(&fake.board->workers[2].wake, WAKE_LOOKING);
	for (int i = 0; i < 10; i++)
		ck_assert_int_eq(ring_of_next(), 2);
	/* What is full gives way within the place if it is strict, else anywhere. */
	requests[0].flags = FK_STRICT;
	fill(2);
	ck_assert_int_eq(ring_of_next(), 3);
	fill(3);
	ck_assert_int_eq(ring_of_next(), -EAGAIN);
	requests[0].place = FK_PLACE_WORKER;
	requests[0].place_index = 3;
	ck_assert_int_eq(ring_of_next(), -EAGAIN);
	requests[0].flags = 0;
	ck_assert_int_le(ring_of_next(), 1);
	stop();
}
END_TEST

START_TEST(a_record_of_a_chain_is_used_again_while_the_rest_waits)
{
	uint32_t payload;
	int64_t sum;
	fk_job again;

	start(1, 0);
	ck_assert_int_eq(fk_submit_batch(client, requests, JOBS, 0, jobs), 0);
	for (uint32_t i = 0; i < 3; i++) {
		uint32_t k;

		ck_assert_int_eq(fake_take(&payload), 0);
		fake_run(payload);
		for (k = 0; (jobs[k] & 0xffff) != ring_payload_job(payload); k++)
			;
		ck_assert_int_eq(fk_poll(client, jobs[k]), 1);
		ck_assert_int_eq(fk_release(client, jobs[k]), 0);
		ck_assert_int_eq(fk_submit(client, requests[k].task, numbers[k], 16, 0, &again), 0);
		ck_assert_uint_eq(again & 0xffff, jobs[k] & 0xffff);
		ck_assert_uint_eq(again >> 16, (jobs[k] >> 16) + 1);
		jobs[k] = again;
	}
	ck_assert_uint_eq(words(), 3);
	run_all();
	for (uint32_t i = 0; i < JOBS; i++) {
		ck_assert_int_eq(fk_result(client, jobs[i], &sum, sizeof(sum)), 0);
		ck_assert_int_eq(sum, i + 1000);
	}
	ck_assert_int_eq(fk_release_batch(client, jobs, JOBS), 0);
	stop();
}
END_TEST

#define THREADS 4
#define ROUNDS	300

/* Batches that fit into the table only one at a time, and single jobs between them. */
static void *submit_often(void *arg)
{
	uint32_t id = (uint32_t)(uintptr_t)arg;
	uint32_t n = id ? 40 + id : 1;
	fk_job mine[JOBS];

	for (uint32_t round = 0; round < ROUNDS; round++) {
		if (fk_submit_batch(client, requests, n, FK_WAIT_ROOM, mine))
			return arg;
		for (uint32_t i = 0; i < n; i++) {
			int64_t sum;

			if (fk_wait(client, mine[i], FK_FOREVER) ||
			    fk_result(client, mine[i], &sum, sizeof(sum)) || sum != i + 1000)
				return arg;
		}
		if (fk_release_batch(client, mine, n))
			return arg;
	}
	return NULL;
}

START_TEST(batches_that_wait_for_room_do_not_wait_for_each_other)
{
	pthread_t threads[THREADS];

	start(3, 3);
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, submit_often, (void *)i);
	for (int i = 0; i < THREADS; i++) {
		void *failed;

		pthread_join(threads[i], &failed);
		ck_assert_ptr_null(failed);
	}
	ck_assert_uint_eq(fake.n_words, THREADS * ROUNDS);
	stop();
}
END_TEST

static _Atomic uint32_t large_done;

static void *submit_sixty(void *unused)
{
	fk_job mine[60];
	intptr_t err = fk_submit_batch(client, requests, 60, FK_WAIT_ROOM, mine);

	(void)unused;
	for (int i = 0; i < 60 && !err; i++)
		err = fk_wait(client, mine[i], FK_FOREVER);
	if (!err)
		err = fk_release_batch(client, mine, 60);
	atomic_fetch_add(&large_done, 1);
	return (void *)err;
}

/* What is free stays free for others, who could not end and release theirs without it. */
START_TEST(a_batch_that_waits_for_room_holds_none)
{
	pthread_t threads[2];
	fk_job more[24];
	uint32_t payload;

	start(1, 0);
	ck_assert_int_eq(fk_submit_batch(client, requests, 40, 0, jobs), 0);
	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, submit_sixty, NULL);
	while (atomic_load(&client->room_waiters) != 2 * CLIENT_ROOM_CHAIN)
		sched_yield();
	for (int round = 0; round < 100; round++) {
		ck_assert_int_eq(fk_submit_batch(client, requests, 24, 0, more), 0);
		run_all();
		ck_assert_int_eq(fk_release_batch(client, more, 24), 0);
	}
	/* Each slot alone, so that no wake stands for several. */
	for (int i = 0; i < 40; i++)
		ck_assert_int_eq(fk_release(client, jobs[i]), 0);
	/* One of the two has its turn, and then the other. */
	while (atomic_load(&large_done) < 2) {
		if (fake_take(&payload) >= 0)
			fake_run(payload);
		else
			sched_yield();
	}
	for (int i = 0; i < 2; i++) {
		void *err;

		pthread_join(threads[i], &err);
		ck_assert_ptr_null(err);
	}
	stop();
}
END_TEST

static _Atomic uint32_t owners[JOBS];

static void *take_and_give(void *arg)
{
	uint32_t random = (uint32_t)(uintptr_t)arg * 2654435761u + 99;

	for (int round = 0; round < 20000; round++) {
		uint32_t n, index, last = 0;
		int first;

		random = random * 1664525u + 1013904223u;
		n = random >> 16 & 31;
		first = n ? slots_take_chain(client, n) : slots_take(client);
		if (first < 0)
			continue;
		index = (uint32_t)first;
		for (uint32_t i = 0; i < max(n, 1u); i++) {
			if (atomic_fetch_add(&owners[index], 1))
				return arg;
			last = index;
			index = atomic_load_explicit(&client->slots[index].next,
						     memory_order_relaxed) -
				1;
		}
		index = (uint32_t)first;
		for (uint32_t i = 0; i < max(n, 1u); i++) {
			atomic_store(&owners[index], 0);
			index = atomic_load_explicit(&client->slots[index].next,
						     memory_order_relaxed) -
				1;
		}
		if (n)
			slots_give_chain(client, (uint32_t)first, last);
		else
			slots_give(client, (uint32_t)first);
	}
	return NULL;
}

START_TEST(every_slot_has_one_owner)
{
	pthread_t threads[THREADS];

	start(1, 0);
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, take_and_give, (void *)(i + 1));
	for (int i = 0; i < THREADS; i++) {
		void *failed;

		pthread_join(threads[i], &failed);
		ck_assert_ptr_null(failed);
	}
	stop();
}
END_TEST

/* ------------------------------------------------------------------ groups */

static void put_into(fk_group group, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		requests[i].group = group;
}

START_TEST(a_group_has_ended_when_all_its_jobs_have)
{
	fk_group group;
	uint32_t payload;

	start(1, 0);
	ck_assert_int_eq(fk_group_new(client, &group), 0);
	ck_assert_int_eq(fk_group_wait(client, group, FK_FOREVER), 0);
	put_into(group, 5);
	/* The last three are in no group. */
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
		ck_assert_int_eq(fake_take(&payload), 0);
		fake_run(payload);
	}
	ck_assert_int_eq(fk_group_wait(client, group, 0), -ESTALE);
	ck_assert_int_eq(fk_group_free(client, group), -ESTALE);
	ck_assert_int_eq(fk_submit_batch(client, requests, 1, 0, jobs), -ESTALE);
	run_all();
	ck_assert_int_eq(fk_release_batch(client, jobs, 8), 0);
	stop();
}
END_TEST

START_TEST(there_are_so_many_groups_and_no_more)
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
	ck_assert_int_eq(fk_group_new(client, &one), -EAGAIN);
	ck_assert_int_eq(fk_group_free(client, groups[9]), 0);
	ck_assert_int_eq(fk_group_new(client, &one), 0);
	ck_assert_uint_ne(one, groups[9]);
	ck_assert_int_eq(fk_group_wait(client, one, 0), 0);
	ck_assert_int_eq(fk_group_wait(client, groups[9], 0), -ESTALE);
	ck_assert_int_eq(fk_group_wait(client, 0, 0), -ESTALE);
	ck_assert_int_eq(fk_group_wait(client, UINT64_MAX, 0), -ESTALE);
	ck_assert_int_eq(fk_group_free(client, 0), -ESTALE);
	stop();
}
END_TEST

static fk_group waited;
static _Atomic uint32_t came_back;

static void *wait_for_group(void *unused)
{
	int err = fk_group_wait(client, waited, FK_FOREVER);

	(void)unused;
	/* The results are there too. */
	for (uint32_t i = 0; i < JOBS && !err; i++) {
		int64_t sum;

		if (fk_result(client, jobs[i], &sum, sizeof(sum)) || sum != i + 1000)
			err = -EPROTO;
	}
	atomic_fetch_add(&came_back, 1);
	return (void *)(intptr_t)err;
}

/* One sleep for all of them: whether a waiter sleeps, spins or finds them ended is chance. */
START_TEST(waiters_of_a_group_are_woken_by_its_last_job)
{
	start(3, 3);
	ck_assert_int_eq(fk_group_new(client, &waited), 0);
	put_into(waited, JOBS);
	for (uint32_t round = 0; round < 200; round++) {
		pthread_t threads[2];

		ck_assert_int_eq(fk_submit_batch(client, requests, JOBS, 0, jobs), 0);
		for (int i = 0; i < 2; i++)
			pthread_create(&threads[i], NULL, wait_for_group, NULL);
		for (int i = 0; i < 2; i++) {
			void *err;

			pthread_join(threads[i], &err);
			ck_assert_int_eq((int)(intptr_t)err, 0);
		}
		ck_assert_int_eq(fk_release_batch(client, jobs, JOBS), 0);
	}
	ck_assert_int_eq(fk_group_free(client, waited), 0);
	stop();
}
END_TEST

START_TEST(a_waiter_sleeps_until_then)
{
	struct group *group;
	pthread_t thread;
	uint32_t payload;
	void *err;

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
		ck_assert_int_eq(fake_take(&payload), 0);
		fake_run(payload);
	}
	pthread_join(thread, &err);
	ck_assert_int_eq((int)(intptr_t)err, 0);
	ck_assert_int_eq(fk_release_batch(client, jobs, JOBS), 0);
	stop();
}
END_TEST

/* As if the pool had died between an outcome and the step that counts it. */
START_TEST(a_job_that_was_not_counted_does_not_hold_a_wait_up)
{
	struct group *group;
	uint32_t payload;
	fk_group next;
	fk_group other;

	start(1, 0);
	ck_assert_int_eq(fk_group_new(client, &waited), 0);
	put_into(waited, 10);
	group = &client->groups[waited & 0xffff];
	ck_assert_int_eq(fk_submit_batch(client, requests, 10, 0, jobs), 0);
	for (int i = 0; i < 9; i++) {
		ck_assert_int_eq(fake_take(&payload), 0);
		fake_run(payload);
	}
	ck_assert_int_eq(fake_take(&payload), 0);
	(void)job_finish(&client->jobs[ring_payload_job(payload)],
			 client->jobs[ring_payload_job(payload)].generation, JOB_CRASHED);
	ck_assert_uint_eq(group_count(atomic_load(&group->word)), 1);
	ck_assert_int_eq(fk_group_wait(client, waited, FK_FOREVER), 0);
	/* Whose time is over looks as well, and who only looks does so now and then. */
	ck_assert_int_eq(fk_group_wait(client, waited, 1000), 0);
	while (fk_group_wait(client, waited, 0))
		;
	/* It can be used on, and its number goes to nobody else before the count is right. */
	ck_assert_int_eq(fk_release_batch(client, jobs, 10), 0);
	ck_assert_int_eq(fk_submit_batch(client, requests, 10, 0, jobs), 0);
	ck_assert_int_eq(fk_group_wait(client, waited, 1000), -ETIMEDOUT);
	ck_assert_int_eq(fk_group_free(client, waited), -EBUSY);
	run_all();
	ck_assert_int_eq(fk_group_wait(client, waited, FK_FOREVER), 0);
	ck_assert_int_eq(fk_group_free(client, waited), 0);
	ck_assert_int_eq(fk_group_new(client, &next), 0);
	ck_assert_uint_ne(next & 0xffff, waited & 0xffff);
	/* It was only late. */
	(void)group_done(group, 1);
	ck_assert_int_eq(fk_group_new(client, &other), 0);
	ck_assert_uint_eq(other & 0xffff, waited & 0xffff);
	ck_assert_uint_ne(other, waited);
	ck_assert_int_eq(fk_release_batch(client, jobs, 10), 0);
	stop();
}
END_TEST

/* As an event loop does. The first of two was not counted down. */
START_TEST(groups_that_are_polled_in_turn_are_each_looked_at)
{
	fk_group groups[2];
	uint32_t payload;
	int err;

	start(1, 0);
	for (uint32_t i = 0; i < 2; i++) {
		ck_assert_int_eq(fk_group_new(client, &groups[i]), 0);
		requests[i].group = groups[i];
		ck_assert_int_eq(fk_submit_batch(client, &requests[i], 1, 0, &jobs[i]), 0);
	}
	ck_assert_int_eq(fake_take(&payload), 0);
	(void)job_finish(client_job(client, jobs[0]), (uint32_t)(jobs[0] >> 16), JOB_CRASHED);
	do {
		err = fk_group_wait(client, groups[0], 0);
		ck_assert_int_eq(fk_group_wait(client, groups[1], 0), -ETIMEDOUT);
	} while (err == -ETIMEDOUT);
	ck_assert_int_eq(err, 0);
	fk_close(client);
	fake_stop();
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

START_TEST(who_waits_for_a_group_finds_out_that_the_daemon_is_gone)
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
	/* As it stood when it went. */
	for (uint32_t i = 0; i < JOBS; i++)
		(void)job_finish(client_job(client, jobs[i]), (uint32_t)(jobs[i] >> 16),
				 JOB_CANCELLED);
	ck_assert_int_eq(fk_group_wait(client, waited, FK_FOREVER), 0);
	ck_assert_int_eq(fk_group_free(client, waited), 0);
	ck_assert_int_eq(fk_release_batch(client, jobs, JOBS), 0);
	stop();
}
END_TEST

START_TEST(who_waits_for_records_finds_it_out_too)
{
	fk_job more[2];

	start(1, 0);
	ck_assert_int_eq(fk_submit_batch(client, requests, JOBS - 1, 0, jobs), 0);
	fake_hang_up();
	ck_assert_int_eq(fk_submit_batch(client, requests, 2, FK_WAIT_ROOM, more), -ECONNRESET);
	ck_assert_int_eq(fk_release_batch(client, jobs, JOBS - 1), 0);
	fk_close(client);
	fake_stop();
}
END_TEST

CHECK_MAIN("batch", a_batch_is_one_word_and_a_chain_in_its_order, one_and_none_are_batches_too,
	   with_too_few_records_nothing_is_submitted, with_all_rings_full_nothing_is_submitted,
	   one_bad_request_is_the_end_of_the_batch, options_stand_in_the_record_and_go_with_the_job,
	   a_place_is_a_ring, a_record_of_a_chain_is_used_again_while_the_rest_waits,
	   batches_that_wait_for_room_do_not_wait_for_each_other,
	   a_batch_that_waits_for_room_holds_none, every_slot_has_one_owner,
	   a_group_has_ended_when_all_its_jobs_have, there_are_so_many_groups_and_no_more,
	   waiters_of_a_group_are_woken_by_its_last_job, a_waiter_sleeps_until_then,
	   a_job_that_was_not_counted_does_not_hold_a_wait_up,
	   groups_that_are_polled_in_turn_are_each_looked_at,
	   who_waits_for_a_group_finds_out_that_the_daemon_is_gone,
	   who_waits_for_records_finds_it_out_too)
