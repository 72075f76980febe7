/* SPDX-License-Identifier: MIT */
/* submit: single jobs, from submission to release. Uses tests/support/fake.h; check_batch.c has
 * batches. */
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "client/lib/record_pool.h"
#include "common/clock.h"
#include "tests/support/check_unit.h"
#include "tests/support/fake.h"
#include "tests/support/local.h"
#include "tests/support/threads.h"

START_TEST(call_returns_the_result)
{
	struct {
		int64_t length;
		double half;
	} two;
	int64_t sum = 0;
	char *data;
	void *memory;

	fake_open(2, 2);
	ck_assert_int_eq(fk_call(client, "test:add", &sum, (int64_t)40, (int64_t)-2), 0);
	ck_assert_int_eq(sum, 38);
	ck_assert_int_eq(fk_call(client, "test:len", &two, "seven_7"), 0);
	ck_assert_int_eq(two.length, 7);
	ck_assert_double_eq(two.half, 3.5);
	ck_assert_int_eq(fk_alloc(client, 3, &memory), 0);
	data = memory;
	memcpy(data, "abc", 3);
	ck_assert_int_eq(fk_call(client, "test:inc", NULL, FK_BUFFER(data, 3)), 0);
	ck_assert_int_eq(memcmp(data, "bcd", 3), 0);
	ck_assert_int_eq(fk_free(client, data), 0);
	ck_assert_int_eq(fk_free(client, data), -FK_E_NOT_ALLOCATED);
	ck_assert_uint_eq(heap_used(&client->heap), 0);
	fake_close();
}
END_TEST

START_TEST(arguments_that_do_not_fit_the_signature_are_refused)
{
	union fk_value values[3] = { { .i64 = 1 }, { .i64 = 2 } };
	int64_t packed[3] = { 1, 2, 3 };
	const fk_task *task;
	_Alignas(8) char local[5];
	int64_t sum;
	fk_job job = 7;

	fake_open(1, 1);
	ck_assert_int_eq(fk_task_find(client, "test:none", &task), -FK_E_NO_TASK);
	ck_assert_int_eq(fk_task_find(client, "test:odd", &task), -FK_E_TASK_UNREADABLE);
	task = must_find(client, "test:add");
	ck_assert_str_eq(fk_task_name(task), "test:add");
	ck_assert_str_eq(fk_task_signature(task), "a:i64, b:i64 -> i64");
	ck_assert_ptr_eq(task, must_find(client, "test:add"));
	ck_assert_int_eq(fk_submit_packed(client, task, packed, 24, 0, &job), -FK_E_SIGNATURE);
	ck_assert_int_eq(fk_submit_packed(client, task, packed, 8, 0, &job), -FK_E_SIGNATURE);
	ck_assert_int_eq(fk_submit_packed(client, task, packed, 16, 4, &job), -FK_E_FLAGS);
	ck_assert_int_eq(fk_submit_packed(client, task, NULL, 16, 0, &job), -FK_E_NULL);
	ck_assert_int_eq(fk_submit_values(client, task, values, 3, 0, &job), -FK_E_SIGNATURE);
	ck_assert_str_eq(fk_error_text(), "test:add: 3 arguments, but the signature has 2");
	ck_assert_int_eq(fk_submit_packed(client, task, packed, 16, FK_COPY_BUFFERS, &job),
			 -FK_E_FLAGS);
	ck_assert_int_eq(fk_submit(client, must_find(client, "test:inc"), 0, &job,
				   FK_BUFFER(local + 1, 4)),
			 fake_outside());
	ck_assert_uint_eq(job, 7);
	ck_assert_int_eq(fk_submit_packed(client, task, packed, 16, FK_IDEMPOTENT, &job), 0);
	ck_assert_int_eq(fk_wait(client, job, FK_FOREVER), 0);
	ck_assert_uint_eq(client_job(client, job)->flags, JOB_IDEMPOTENT);
	ck_assert_int_eq(fk_result(client, job, &sum, 4), -FK_E_RESULT_SIZE);
	ck_assert_int_eq(fk_result(client, job, &sum, 8), 0);
	ck_assert_int_eq(sum, 3);
	atomic_store(&fake_task("test:add")->flags, TASK_GONE);
	ck_assert_int_eq(fk_submit_packed(client, task, packed, 16, 0, &job), -FK_E_TASK_GONE);
	ck_assert_int_eq(fk_call(client, "test:add", &sum, (int64_t)1, (int64_t)2), -FK_E_NO_TASK);
	fake_close();
}
END_TEST

START_TEST(buffers_are_copied_in_by_the_submission_and_back_by_the_result)
{
	_Alignas(8) char bytes[5] = { 0, 1, 2, 3, 4 }, *numbers = bytes + 1;
	uint32_t payload;
	fk_job job;

	fake_open(1, 0);
	ck_assert_int_eq(fk_submit(client, must_find(client, "test:inc"), FK_COPY_BUFFERS, &job,
				   FK_BUFFER(numbers, 4)),
			 0);
	memset(numbers, 9, 4);
	ck_assert_int_eq(fk_result(client, job, NULL, 0), -EINPROGRESS);
	ck_assert_int_eq(fake_take(&payload), 0);
	fake_run(payload);
	ck_assert_int_eq(fk_wait(client, job, FK_FOREVER), 0);
	ck_assert_int_eq(memcmp(numbers, "\x9\x9\x9\x9", 4), 0);
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(fk_result(client, job, NULL, 0), 0);
		ck_assert_int_eq(memcmp(numbers, "\x2\x3\x4\x5", 4), 0);
		memset(numbers, 9, 4);
	}
	ck_assert_uint_eq(heap_used(&client->heap), 64);
	ck_assert_int_eq(fk_release(client, job), 0);
	ck_assert_int_eq(memcmp(numbers, "\x9\x9\x9\x9", 4), 0);
	ck_assert_uint_eq(heap_used(&client->heap), 0);
	fake_close();
}
END_TEST

START_TEST(buffers_of_a_job_that_is_not_done_do_not_change)
{
	/* A pool in the test does not lose a job. */
	static const uint32_t outcomes[] = { JOB_FAILED, JOB_CANCELLED, JOB_LOST };
	const size_t n = ARRAY_SIZE(outcomes) - local_is_on();
	/* A local job would use an aligned buffer in place. */
	_Alignas(8) char bytes[5] = { 0, 1, 2, 3, 4 }, *numbers = bytes + 1;
	fk_job job;

	fake_open(1, 0);
	for (size_t i = 0; i < n; i++) {
		ck_assert_int_eq(fk_submit(client, must_find(client, "test:inc"), FK_COPY_BUFFERS,
					   &job, FK_BUFFER(numbers, 4)),
				 0);
		memset(client->heap.base, 7, 64);
		fake_end(job, outcomes[i]);
		ck_assert_int_lt(fk_result(client, job, NULL, 0), 0);
		ck_assert_int_eq(memcmp(numbers, "\x1\x2\x3\x4", 4), 0);
		ck_assert_int_eq(fk_release(client, job), 0);
		ck_assert_uint_eq(heap_used(&client->heap), 0);
	}
	fake_close();
}
END_TEST

START_TEST(copies_of_a_job_that_was_not_submitted_are_freed)
{
	_Alignas(8) char bytes[5] = { 0, 1, 2, 3, 4 }, *numbers = bytes + 1;
	const fk_task *task;
	fk_job job;
	int err;

	fake_open(1, 0);
	task = must_find(client, "test:inc");
	do {
		err = fk_submit(client, task, FK_COPY_BUFFERS, &job, FK_BUFFER(numbers, 4));
	} while (!err);
	ck_assert_int_eq(err, -FK_E_NO_RECORD);
	ck_assert_uint_eq(heap_used(&client->heap), UINT64_C(64) * client->n_jobs);
	/* fk_close() frees the others. */
	fake_close();
}
END_TEST

/* A new pool has other modules: the same index is another task, or another version of the task. */
START_TEST(index_of_a_replaced_task_is_refused)
{
	struct board_task *board; /* of the tasks of the test */
	struct board_task add;
	const fk_task *task, *moved, *newer;
	int64_t packed[2] = { 1, 2 }, sum;
	struct fk_request request;
	fk_job job;

	/* No worker runs these jobs: only the hashes are compared here. */
	LOCAL_REFUSE_CLUSTER("a board that the test changes");
	fake_open(1, 0);
	board = fake_task("test:add");
	task = must_find(client, "test:add");
	request = (struct fk_request){ .task = task, .args = packed, .size = 16 };
	add = board[0];
	board[0] = board[2];
	ck_assert_int_eq(fk_submit_packed(client, task, packed, 16, 0, &job), -FK_E_TASK_GONE);
	ck_assert_int_eq(fk_submit_batch(client, &request, 1, 0, &job), -FK_E_TASK_GONE);
	ck_assert_int_eq(fk_call(client, "test:add", &sum, (int64_t)1, (int64_t)2), -FK_E_NO_TASK);
	/* It is found at its new index. */
	board[3] = add;
	moved = must_find(client, "test:add");
	ck_assert_ptr_ne(moved, task);
	ck_assert_int_eq(fk_submit_packed(client, moved, packed, 16, 0, &job), 0);
	ck_assert_uint_eq(client_job(client, job)->task, &board[3] - fake.board->tasks);
	ck_assert_int_eq(fk_submit_packed(client, task, packed, 16, 0, &job), -FK_E_TASK_GONE);
	/* The same name with another signature is another task. */
	(void)strcpy(board[3].signature, "a:f64, b:i64 -> i64");
	atomic_store(&board[3].hash, signature_hash(board[3].name, board[3].signature));
	ck_assert_int_eq(fk_submit_packed(client, moved, packed, 16, 0, &job), -FK_E_TASK_GONE);
	newer = must_find(client, "test:add");
	ck_assert_ptr_ne(newer, moved);
	ck_assert_str_eq(fk_task_signature(newer), "a:f64, b:i64 -> i64");
	/* An entry that is being written is not a task. */
	board[3].signature[0] = 'x';
	atomic_store(&board[3].hash, 1);
	ck_assert_int_eq(fk_task_find(client, "test:add", &task), -FK_E_NO_TASK);
	fake_close();
}
END_TEST

/* A daemon of n workers, one of which a job keeps until it is released. */
static fk_job keep_one(uint32_t n)
{
	fk_job job;

	fake_open(n, n);
	atomic_store(&fake.hold, 1);
	ck_assert_int_eq(fk_submit(client, must_find(client, "test:hold"), 0, &job), 0);
	fake_await_held(1);
	return job;
}

START_TEST(handle_is_invalid_after_its_release)
{
	struct fk_timings timings;
	fk_job job = keep_one(1);
	fk_job next;

	ck_assert_int_eq(fk_release(client, job), -EBUSY);
	ck_assert_int_eq(fk_poll(client, job), 0);
	ck_assert_int_eq(fk_outcome(client, job, NULL, NULL), FK_PENDING);
	ck_assert_int_eq(fk_result(client, job, NULL, 0), -EINPROGRESS);
	ck_assert_int_eq(fk_timings(client, job, &timings), -EINPROGRESS);
	ck_assert_int_eq(fk_wait(client, job, 0), -ETIMEDOUT);
	ck_assert_int_eq(fk_wait(client, job, 2 * NSEC_PER_MSEC), -ETIMEDOUT);
	fake_let_go();
	ck_assert_int_eq(fk_wait(client, job, FK_FOREVER), 0);
	ck_assert_int_eq(fk_poll(client, job), 1);
	ck_assert_int_eq(fk_timings(client, job, &timings), 0);
	ck_assert_uint_ge(timings.run_ns, NSEC_PER_MSEC);
	ck_assert_int_eq(fk_release(client, job), 0);
	ck_assert_int_eq(fk_release(client, job), -ESTALE);
	ck_assert_int_eq(fk_wait(client, job, 0), -ESTALE);
	ck_assert_int_eq(fk_outcome(client, job, NULL, NULL), -ESTALE);
	ck_assert_int_eq(fk_submit(client, must_find(client, "test:crash"), 0, &next), 0);
	ck_assert_uint_eq(next & 0xffff, job & 0xffff);
	ck_assert_uint_ne(next, job);
	ck_assert_int_eq(fk_poll(client, job), -ESTALE);
	ck_assert_int_eq(fk_poll(client, 0), -ESTALE);
	ck_assert_int_eq(fk_poll(client, UINT64_MAX), -ESTALE);
	fake_close();
}
END_TEST

START_TEST(every_handle_is_invalid_before_the_first_job)
{
	int64_t sum;

	fake_open(1, 1);
	for (fk_job job = 0; job < client->n_jobs; job += client->n_jobs - 1) {
		ck_assert_int_eq(fk_poll(client, job), -ESTALE);
		ck_assert_int_eq(fk_wait(client, job, 0), -ESTALE);
		ck_assert_int_eq(fk_cancel(client, job), -ESTALE);
		ck_assert_int_eq(fk_outcome(client, job, NULL, NULL), -ESTALE);
		ck_assert_int_eq(fk_release(client, job), -ESTALE);
	}
	ck_assert_int_eq(fk_call(client, "test:add", &sum, (int64_t)1, (int64_t)2), 0);
	ck_assert_int_eq(sum, 3);
	fake_close();
}
END_TEST

/* Returns the resident KiB of the mapping with this address. */
static unsigned long resident_kib(const void *address)
{
	FILE *file = fopen("/proc/self/smaps", "re");
	unsigned long from, to, kib;
	char line[512];
	int found = 0;

	ck_assert_ptr_nonnull(file);
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			found = (uintptr_t)address >= from && (uintptr_t)address < to;
		if (found && sscanf(line, "Rss: %lu", &kib) == 1) {
			fclose(file);
			return kib;
		}
	}
	ck_abort_msg("it is not mapped");
}

START_TEST(only_used_records_are_resident)
{
	fk_job job;

	fake_start(1, 1);
	fake.n_jobs = 4096;
	client = must_open();
	ck_assert_uint_eq(client->n_jobs, 4096);
	ck_assert_int_eq(fk_submit(client, must_find(client, "test:crash"), 0, &job), 0);
	ck_assert_int_eq(fk_wait(client, job, FK_FOREVER), 0);
	/* All of them are more than 1 MiB; the kernel may map 64 KiB around used memory. */
	ck_assert_uint_le(resident_kib(client->jobs), 256);
	fake_close();
}
END_TEST

START_TEST(generations_wrap_and_skip_zero)
{
	const fk_task *task;
	fk_job job;

	fake_start(1, 1);
	fake.n_jobs = 1;
	client = must_open();
	task = must_find(client, "test:crash");
	atomic_store(&client->slots[0].generation, JOB_GEN_MASK);
	ck_assert_int_eq(fk_submit(client, task, 0, &job), 0);
	ck_assert_int_eq(fk_wait(client, job, FK_FOREVER), 0);
	ck_assert_int_eq(fk_release(client, job), 0);
	ck_assert_int_eq(fk_submit(client, task, 0, &job), 0);
	/* The record has 24 bits of it. */
	ck_assert_uint_eq(job >> 16, JOB_GEN_MASK + UINT64_C(2));
	ck_assert_uint_eq(client_job(client, job)->generation, 1);
	ck_assert_int_eq(fk_wait(client, job, FK_FOREVER), 0);
	fake_close();
}
END_TEST

#define THREADS 4
#define CALLS	2000

static void *call_often(void *number)
{
	for (int64_t i = 0; i < CALLS; i++) {
		int64_t sum;

		if (fk_call(client, "test:add", &sum, i, i) || sum != 2 * i)
			return number;
	}
	return NULL;
}

START_TEST(threads_may_share_a_client)
{
	pthread_t threads[THREADS];

	fake_open(3, 3);
	threads_start(threads, THREADS, call_often);
	threads_join(threads, THREADS);
	/* Every slot was returned exactly once. */
	for (uint32_t i = 0; i < client->n_jobs; i++)
		ck_assert_int_ge(records_take(client), 0);
	ck_assert_int_eq(records_take(client), -FK_E_NO_RECORD);
	fake_close();
}
END_TEST

START_TEST(job_in_the_ring_of_a_busy_worker_is_run_by_another)
{
	fk_job job = keep_one(2);
	int64_t sum;

	for (int64_t i = 0; i < 100; i++)
		ck_assert_int_eq(fk_call(client, "test:add", &sum, i, i), 0);
	fake_let_go();
	ck_assert_int_eq(fk_wait(client, job, FK_FOREVER), 0);
	fake_close();
}
END_TEST

CHECK_MAIN("submit")
