/* SPDX-License-Identifier: MIT */
/* batch: many jobs by one word of a ring, each with its options. Uses tests/support/fake.h. */
#include <errno.h>
#include <string.h>

#include "common/clock.h"
#include "common/util.h"
#include "shm/wake.h"
#include "tests/support/requests.h"

START_TEST(batch_is_one_word_and_a_chain_in_order)
{
	uint32_t index;

	start(1, 0);
	ck_assert_int_eq(fk_submit_batch(client, requests, 40, 0, jobs), 0);
	ck_assert_uint_eq(words(), 1);
	index = (uint32_t)jobs[0] & 0xffff;
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
	for (uint32_t i = 0; i < 40; i++)
		ck_assert_int_eq(fk_wait(client, jobs[i], 0), 0);
	must_be_sums(jobs, 40);
	ck_assert_int_eq(fk_release_batch(client, jobs, 40), 0);
	ck_assert_int_eq(fk_release_batch(client, jobs, 40), -ESTALE);
	stop();
}
END_TEST

START_TEST(batches_of_one_and_none_are_accepted)
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

START_TEST(too_few_records_submit_nothing)
{
	fk_job more[JOBS];

	start(1, 0);
	memset(more, 0x55, sizeof(more));
	ck_assert_int_eq(fk_submit_batch(client, requests, JOBS + 1, 0, more), -FK_E_BATCH_SIZE);
	ck_assert_int_eq(fk_submit_batch(client, requests, JOBS - 10, 0, jobs), 0);
	ck_assert_int_eq(fk_submit_batch(client, requests, 11, 0, more), -FK_E_NO_RECORD);
	ck_assert_uint_eq(words(), 1);
	for (uint32_t i = 0; i < 11; i++)
		ck_assert_uint_eq(more[i], UINT64_C(0x5555555555555555));
	/* Submitted jobs are not affected. */
	ck_assert_int_eq(fk_submit_batch(client, requests, 10, 0, more), 0);
	ck_assert_int_eq(fk_release_batch(client, jobs, JOBS - 10), -EBUSY);
	run_all();
	ck_assert_int_eq(fk_release_batch(client, jobs, JOBS - 10), 0);
	ck_assert_int_eq(fk_release_batch(client, more, 10), 0);
	stop();
}
END_TEST

static void fill(uint32_t ring)
{
	uint64_t position;

	LOCAL_REFUSE("words of no job");
	while (ring_push(&fake.tenant->rings[ring], 0, &position) == RING_OK)
		;
}

START_TEST(full_rings_submit_nothing)
{
	fk_group group;

	start(2, 0);
	ck_assert_int_eq(fk_group_new(client, &group), 0);
	fill(0);
	fill(1);
	for (uint32_t i = 0; i < 20; i++)
		requests[i].options.group = i % 3 ? group : 0;
	ck_assert_int_eq(fk_submit_batch(client, requests, 20, 0, jobs), -FK_E_RINGS_FULL);
	ck_assert_uint_eq(words(), 2 * RING_SLOTS);
	ck_assert_int_eq(fk_group_wait(client, group, 0), 0);
	ck_assert_int_eq(fk_group_free(client, group), 0);
	stop();
}
END_TEST

START_TEST(each_request_selects_whether_its_buffers_are_copied)
{
	/* The second byte of each: a local job uses an aligned buffer in place. */
	static _Alignas(8) char bytes[JOBS][8];
	union fk_value values[JOBS];
	void *in_heap;

	start(2, 0);
	ck_assert_int_eq(fk_alloc(client, 8, &in_heap), 0);
	memset(in_heap, 0, 8);
	for (uint32_t i = 0; i < JOBS; i++) {
		values[i].buf = i == 5 ? FK_BUFFER(in_heap, 1) : FK_BUFFER(&bytes[i][1], 1);
		bytes[i][1] = (char)i;
		requests[i] = (struct fk_request){
			.task = must_find(client, "test:inc"),
			.values = &values[i],
			.size = 1,
			.options.flags = i == 5 ? 0 : FK_COPY_BUFFERS,
		};
	}
	/* One of them is not copied: the copies of the others are freed. */
	requests[JOBS - 1].options.flags = 0;
	ck_assert_int_eq(fk_submit_batch(client, requests, JOBS, 0, jobs), fake_outside());
	ck_assert_uint_eq(heap_used(&client->heap), 64);
	requests[JOBS - 1].options.flags = FK_COPY_BUFFERS;
	ck_assert_int_eq(fk_submit_batch(client, requests, JOBS, 0, jobs), 0);
	ck_assert_uint_eq(heap_used(&client->heap), 64 * JOBS);
	run_all();
	for (uint32_t i = 0; i < JOBS; i++) {
		ck_assert_int_eq(bytes[i][1], (char)i);
		ck_assert_int_eq(fk_result(client, jobs[i], NULL, 0), 0);
		ck_assert_int_eq(bytes[i][1], (char)(i == 5 ? 5 : i + 1));
	}
	ck_assert_int_eq(*(char *)in_heap, 1);
	ck_assert_int_eq(fk_release_batch(client, jobs, JOBS), 0);
	ck_assert_int_eq(fk_free(client, in_heap), 0);
	stop();
}
END_TEST

START_TEST(one_invalid_request_refuses_the_batch)
{
	static const struct {
		struct fk_request change; /* its non-zero members are copied to a valid request */
		int err;
	} bad[] = {
		{ { .size = 8 }, -FK_E_SIGNATURE },
		{ { .options.flags = FK_WAIT_ROOM }, -FK_E_FLAGS },
		{ { .options.flags = UINT32_C(1) << 31 }, -FK_E_FLAGS },
		{ { .options.flags = FK_COPY_BUFFERS, .size = 16 }, -FK_E_SIGNATURE },
		{ { .options.flags = FK_STRICT }, -FK_E_OPTIONS },
		{ { .options.flags = FK_RELEASE }, -FK_E_OPTIONS },
		{ { .options.flags = FK_RELEASE | FK_WATCH }, -FK_E_OPTIONS },
		{ { .options.place_index = 1 }, -FK_E_OPTIONS },
		{ { .options.place = FK_PLACE_WORKER, .options.place_index = 2 }, -FK_E_PLACE },
		{ { .options.place = FK_PLACE_NODE, .options.place_index = 77 }, -FK_E_PLACE },
		{ { .options.place = 3 }, -FK_E_PLACE },
		{ { .options.weight = FK_WEIGHT_MAX + 1 }, -FK_E_WEIGHT },
		{ { .options.reserved = { 1 } }, -FK_E_RESERVED },
		{ { .options.reserved = { [3] = 1 } }, -FK_E_RESERVED },
		{ { .options.group = 1 }, -FK_E_NO_GROUP },
		{ { .options.group = 1 << 16 | 5 }, -FK_E_NO_GROUP }, /* no such group */
		{ { .options.group = UINT64_MAX }, -FK_E_NO_GROUP },
	};
	union fk_value text = { .str = "four" };
	union fk_value none = { .str = NULL };
	_Alignas(8) char local[5];
	union fk_value outside = { .buf = { local + 1, 4 } };
	fk_group group;

	start(2, 0);
	ck_assert_int_eq(fk_group_new(client, &group), 0);
	for (uint32_t i = 0; i < 9; i++) {
		requests[i].options.group = group;
		requests[i].task = must_find(client, "test:len");
		requests[i].values = &text;
		requests[i].size = 1;
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		const struct fk_request *b = &bad[i].change;
		struct fk_request saved = requests[6];

		requests[6].size = b->size ? b->size : saved.size;
		requests[6].options = b->options;
		if (!b->options.group)
			requests[6].options.group = group;
		ck_assert_int_eq(fk_submit_batch(client, requests, 9, 0, jobs), bad[i].err);
		requests[6] = saved;
	}
	ck_assert_int_eq(fk_submit_batch(client, requests, 9, FK_IDEMPOTENT, jobs), -FK_E_FLAGS);
	/* An error that is found when the request is packed, after others were packed. */
	requests[6].values = &none;
	ck_assert_int_eq(fk_submit_batch(client, requests, 9, 0, jobs), -FK_E_NULL);
	requests[6].task = must_find(client, "test:inc");
	requests[6].values = &outside;
	ck_assert_int_eq(fk_submit_batch(client, requests, 9, 0, jobs), fake_outside());
	requests[6].task = NULL;
	ck_assert_int_eq(fk_submit_batch(client, requests, 9, 0, jobs), -FK_E_NULL);
	requests[6] = requests[5];
	atomic_store(&fake_task("test:len")->flags, TASK_GONE);
	ck_assert_int_eq(fk_submit_batch(client, requests, 9, 0, jobs), -FK_E_TASK_GONE);
	atomic_store(&fake_task("test:len")->flags, 0);
	ck_assert_uint_eq(words(), 0);
	ck_assert_int_eq(fk_group_wait(client, group, 0), 0);
	must_be_clean();
	/* Valid requests are accepted. */
	ck_assert_int_eq(fk_submit_batch(client, requests, 9, 0, jobs), 0);
	ck_assert_int_eq(fk_group_wait(client, group, 0), -ETIMEDOUT);
	run_all();
	ck_assert_int_eq(fk_group_wait(client, group, 0), 0);
	ck_assert_int_eq(fk_release_batch(client, jobs, 9), 0);
	stop();
}
END_TEST

START_TEST(options_are_stored_in_the_record_and_cleared_with_the_job)
{
	uint64_t before = clock_ns();
	struct job *job;
	fk_group group;

	start(2, 0);
	atomic_store(&fake.board->workers[1].node, 3);
	ck_assert_int_eq(fk_group_new(client, &group), 0);
	requests[0].options.timeout_ns = 5 * NSEC_PER_SEC;
	requests[0].options.weight = 7;
	requests[0].options.group = group;
	requests[0].options.flags = FK_STRICT | FK_IDEMPOTENT;
	requests[0].options.place = FK_PLACE_NODE;
	requests[0].options.place_index = 3;
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
	/* Never. */
	requests[1].options.timeout_ns = UINT64_MAX;
	ck_assert_int_eq(fk_submit_batch(client, &requests[1], 1, 0, jobs), 0);
	ck_assert_uint_eq(client_job(client, jobs[0])->deadline_ns, UINT64_MAX);
	run_all();
	ck_assert_int_eq(fk_release(client, jobs[0]), 0);
	/* The same record without options. */
	ck_assert_int_eq(fk_submit_packed(client, requests[0].task, numbers, 16, 0, jobs), 0);
	ck_assert_ptr_eq(client_job(client, jobs[0]), job);
	ck_assert_uint_eq(job->deadline_ns | job->weight | job->group | job->place, 0);
	run_all();
	ck_assert_int_eq(fk_release(client, jobs[0]), 0);
	stop();
}
END_TEST

/* Returns the ring of the next requests[0], or a negative errno. */
static int ring_of_next(void)
{
	uint64_t tails[FAKE_WORKERS];
	int err;

	for (uint32_t i = 0; i < fake.n_workers; i++)
		tails[i] = atomic_load(&fake.tenant->rings[i].tail);
	err = fk_submit_batch(client, requests, 1, 0, jobs);
	if (err)
		return err;
	/* The pool's part: runs the job. */
	fake_run((uint32_t)(jobs[0] & 0xffff) | ring_payload(client->id, 0, 0));
	ck_assert_int_eq(fk_release_batch(client, jobs, 1), 0);
	for (uint32_t i = 0; i < fake.n_workers; i++)
		if (atomic_load(&fake.tenant->rings[i].tail) != tails[i])
			return (int)i;
	return -ENOENT;
}

START_TEST(place_selects_the_ring)
{
	uint32_t seen = 0;

	LOCAL_REFUSE("workers without work to do are not busy");
	start(4, 0);
	for (uint32_t i = 0; i < 4; i++) {
		atomic_store(&fake.board->workers[i].node, i / 2 + 5);
		atomic_store(&fake.board->workers[i].wake, WAKE_BUSY);
	}
	/* Without a place a searching worker is preferred. */
	atomic_store(&fake.board->workers[0].wake, WAKE_LOOKING);
	ck_assert_int_eq(ring_of_next(), 0);
	requests[0].options.place = FK_PLACE_WORKER;
	for (uint32_t i = 0; i < 4; i++) {
		requests[0].options.place_index = i;
		ck_assert_int_eq(ring_of_next(), (int)i);
	}
	requests[0].options.place = FK_PLACE_NODE;
	requests[0].options.place_index = 6;
	for (int i = 0; i < 100; i++)
		seen |= 1u << ring_of_next();
	ck_assert_uint_eq(seen, 0xc);
	/* Within a node too: a searching worker, then a sleeping one. */
	atomic_store(&fake.board->workers[3].wake, WAKE_SLEEPING);
	for (int i = 0; i < 10; i++)
		ck_assert_int_eq(ring_of_next(), 3);
	atomic_store(&fake.board->workers[2].wake, WAKE_LOOKING);
	for (int i = 0; i < 10; i++)
		ck_assert_int_eq(ring_of_next(), 2);
	/* A full ring is replaced by another one of the place if the place is strict, else by
	 * any. */
	requests[0].options.flags = FK_STRICT;
	fill(2);
	ck_assert_int_eq(ring_of_next(), 3);
	fill(3);
	ck_assert_int_eq(ring_of_next(), -FK_E_RINGS_FULL);
	requests[0].options.place = FK_PLACE_WORKER;
	requests[0].options.place_index = 3;
	ck_assert_int_eq(ring_of_next(), -FK_E_RINGS_FULL);
	requests[0].options.flags = 0;
	ck_assert_int_le(ring_of_next(), 1);
	stop();
}
END_TEST

START_TEST(record_of_a_chain_is_reused_while_the_rest_waits)
{
	uint32_t payload;
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
		ck_assert_int_eq(
			fk_submit_packed(client, requests[k].task, numbers[k], 16, 0, &again), 0);
		ck_assert_uint_eq(again & 0xffff, jobs[k] & 0xffff);
		ck_assert_uint_eq(again >> 16, (jobs[k] >> 16) + 1);
		jobs[k] = again;
	}
	ck_assert_uint_eq(words(), 4);
	run_all();
	must_be_sums(jobs, JOBS);
	ck_assert_int_eq(fk_release_batch(client, jobs, JOBS), 0);
	stop();
}
END_TEST

CHECK_MAIN("batch")
