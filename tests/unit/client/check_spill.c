/* SPDX-License-Identifier: MIT */
/* spill: ended jobs leave a full table, and every call finds them afterwards. Uses
 * tests/support/fake.h; tests/cpp/client.cc has a real pool. */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <search.h>

#include "client/lib/client.h"
#include "common/util.h"
#include "tests/support/requests.h"
#include "tests/support/threads.h"

#define ROUNDS 10u

static fk_job later[JOBS];

/* Number of calls of calloc() and tsearch() that still succeed (local.mk). */
static _Atomic int callocs = INT_MAX, searches = INT_MAX;

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__real_tsearch(const void *key, void **root, comparison_fn_t compare);
void *__wrap_tsearch(const void *key, void **root, comparison_fn_t compare);

void *__wrap_calloc(size_t n, size_t size)
{
	return atomic_fetch_sub(&callocs, 1) > 0 ? __real_calloc(n, size) : NULL;
}

void *__wrap_tsearch(const void *key, void **root, comparison_fn_t compare)
{
	return atomic_fetch_sub(&searches, 1) > 0 ? __real_tsearch(key, root, compare) : NULL;
}

/* All records have ended jobs; then other jobs are submitted, and the first ones are spilled. */
static void fill(void)
{
	ck_assert_int_eq(fk_submit_batch(client, requests, JOBS, 0, jobs), 0);
	run_all();
}

static void spill(void)
{
	ck_assert_int_eq(fk_submit_batch(client, requests, JOBS, FK_WAIT_ROOM, later), 0);
	for (uint32_t i = 0; i < JOBS; i++)
		ck_assert_ptr_null(client_slot(client, jobs[i]));
}

static void clear(void)
{
	run_all();
	ck_assert_int_eq(fk_release_batch(client, later, JOBS), 0);
	ck_assert_ptr_null(client->spilled);
}

START_TEST(results_of_more_jobs_than_records_are_kept)
{
	static fk_job all[ROUNDS][JOBS];

	start(1, 1);
	for (uint32_t round = 0; round < ROUNDS; round++)
		for (uint32_t i = 0; i < JOBS; i++)
			ck_assert_int_eq(fk_submit_packed(client, requests[i].task, numbers[i], 16,
							  FK_WAIT_ROOM, &all[round][i]),
					 0);
	for (uint32_t round = 0; round < ROUNDS; round++) {
		for (uint32_t i = 0; i < JOBS; i++)
			ck_assert_int_eq(fk_wait(client, all[round][i], FK_FOREVER), 0);
		must_be_sums(all[round], JOBS);
		ck_assert_int_eq(fk_release_batch(client, all[round], JOBS), 0);
	}
	ck_assert_ptr_null(client->spilled);
	stop();
}
END_TEST

START_TEST(every_call_works_on_a_spilled_job)
{
	struct fk_timings before, after;
	size_t index = JOBS;
	int code = 1, signo = 1;
	int64_t sum = 0;

	start(1, 0);
	fill();
	ck_assert_int_eq(fk_timings(client, jobs[7], &before), 0);
	spill();
	ck_assert_int_eq(fk_wait(client, jobs[7], FK_FOREVER), 0);
	ck_assert_int_eq(fk_wait(client, jobs[7], 0), 0);
	ck_assert_int_eq(fk_poll(client, jobs[7]), 1);
	ck_assert_int_eq(fk_outcome(client, jobs[7], &code, &signo), FK_DONE);
	ck_assert_int_eq(code, 0);
	ck_assert_int_eq(signo, 0);
	ck_assert_int_eq(fk_result(client, jobs[7], &sum, sizeof(sum) - 1), -FK_E_RESULT_SIZE);
	ck_assert_int_eq(sum, 0);
	ck_assert_int_eq(fk_result(client, jobs[7], &sum, sizeof(sum)), 0);
	ck_assert_int_eq(sum, 1007);
	ck_assert_int_eq(fk_timings(client, jobs[7], &after), 0);
	ck_assert_uint_eq(after.wait_ns, before.wait_ns);
	ck_assert_uint_eq(after.run_ns, before.run_ns);
	ck_assert_int_eq(fk_cancel(client, jobs[7]), 0);
	ck_assert_int_eq(fk_outcome(client, later[7], NULL, NULL), FK_PENDING);
	ck_assert_uint_eq(client_job(client, jobs[7])->cancel, 0);
	ck_assert_int_eq(fk_wait_all(client, jobs, JOBS, FK_FOREVER), 0);
	ck_assert_int_eq(
		fk_wait_any(client, (fk_job[]){ later[0], jobs[7] }, 2, FK_FOREVER, &index), 0);
	ck_assert_uint_eq(index, 1);
	ck_assert_int_eq(fk_release(client, jobs[7]), 0);
	/* Once. */
	ck_assert_int_eq(fk_release(client, jobs[7]), -ESTALE);
	ck_assert_int_eq(fk_wait(client, jobs[7], FK_FOREVER), -ESTALE);
	ck_assert_int_eq(fk_poll(client, jobs[7]), -ESTALE);
	ck_assert_int_eq(fk_outcome(client, jobs[7], NULL, NULL), -ESTALE);
	ck_assert_int_eq(fk_result(client, jobs[7], &sum, sizeof(sum)), -ESTALE);
	ck_assert_int_eq(fk_timings(client, jobs[7], &after), -ESTALE);
	ck_assert_int_eq(fk_cancel(client, jobs[7]), -ESTALE);
	ck_assert_int_eq(fk_watch(client, jobs[7], NULL, NULL), -ESTALE);
	ck_assert_int_eq(fk_unwatch(client, jobs[7]), -ESTALE);
	ck_assert_int_eq(fk_wait_any(client, jobs, JOBS, FK_FOREVER, &index), -ESTALE);
	/* The others are released; the job that already was is reported. */
	ck_assert_int_eq(fk_release_batch(client, jobs, JOBS), -ESTALE);
	ck_assert_ptr_null(client->spilled);
	clear();
	stop();
}
END_TEST

START_TEST(failure_of_a_spilled_job_is_kept)
{
	const fk_task *fail;
	fk_job failed;
	int64_t sum;
	int outcome, code, signo, spilled_code, spilled_signo, err;

	start(1, 0);
	fail = must_find(client, "test:crash");
	ck_assert_int_eq(fk_submit(client, fail, 0, &failed), 0);
	run_all();
	outcome = fk_outcome(client, failed, &code, &signo);
	err = fk_result(client, failed, &sum, sizeof(sum));
	ck_assert_int_eq(outcome, FK_CRASHED);
	ck_assert_int_eq(fk_submit_batch(client, requests, JOBS, 0, later), 0);
	ck_assert_ptr_null(client_slot(client, failed));
	ck_assert_int_eq(fk_outcome(client, failed, &spilled_code, &spilled_signo), outcome);
	ck_assert_int_eq(spilled_code, code);
	ck_assert_int_eq(spilled_signo, signo);
	ck_assert_int_eq(fk_result(client, failed, &sum, sizeof(sum)), err);
	ck_assert_int_eq(fk_release(client, failed), 0);
	clear();
	stop();
}
END_TEST

static uint32_t called;

static void count_call(fk_client *c, fk_job job, void *data)
{
	ck_assert_int_eq(fk_outcome(c, job, NULL, NULL), FK_DONE);
	ck_assert_uint_eq(job, *(const fk_job *)data);
	called++;
}

/* Watched before and after they were spilled, and so are jobs of the same records. */
START_TEST(spilled_job_is_reported_once)
{
	void *data;
	fk_job job;
	int fd;

	start(1, 0);
	ck_assert_int_eq(fk_event_fd(client, &fd), 0);
	ck_assert_int_eq(fk_submit_batch(client, requests, JOBS, 0, jobs), 0);
	for (uint32_t i = 0; i < 4; i++)
		ck_assert_int_eq(fk_watch(client, jobs[i], i % 2 ? count_call : NULL, &jobs[i]), 0);
	run_all();
	spill();
	ck_assert_int_eq(fk_watch(client, jobs[0], NULL, NULL), -EALREADY);
	for (uint32_t i = 0; i < 6; i++)
		ck_assert_int_eq(fk_watch(client, later[i], NULL, &later[i]), 0);
	ck_assert_int_eq(fk_watch(client, jobs[4], NULL, &jobs[4]), 0);
	ck_assert_int_eq(fk_watch(client, jobs[5], count_call, &jobs[5]), 0);
	ck_assert(is_readable(fd));
	/* A released job is not reported, nor one whose watch was cancelled. */
	ck_assert_int_eq(fk_release(client, jobs[0]), 0);
	ck_assert_int_eq(fk_unwatch(client, jobs[1]), 0);
	ck_assert_int_eq(fk_unwatch(client, jobs[1]), -FK_E_NOT_WATCHED);
	for (uint32_t i = 2; i <= 4; i += 2) {
		ck_assert_int_eq(fk_next_completion(client, FK_FOREVER, &job, &data), 0);
		ck_assert_uint_eq(job, jobs[i]);
		ck_assert_ptr_eq(data, &jobs[i]);
	}
	ck_assert_int_eq(fk_next_completion(client, 0, &job, &data), -ETIMEDOUT);
	ck_assert_int_eq(fk_dispatch(client, FK_FOREVER), 2);
	ck_assert_uint_eq(called, 2);
	ck_assert(!is_readable(fd));
	run_all();
	for (uint32_t i = 0; i < 6; i++)
		ck_assert_int_eq(fk_next_completion(client, FK_FOREVER, &job, &data), 0);
	ck_assert_int_eq(fk_next_completion(client, 0, &job, &data), -ETIMEDOUT);
	ck_assert_int_eq(fk_release_batch(client, jobs + 1, JOBS - 1), 0);
	clear();
	stop();
}
END_TEST

START_TEST(spilled_jobs_are_reported_in_the_order_of_their_ends)
{
	static const uint32_t order[] = { 9, 3, 7, 1 };
	fk_job job;

	start(1, 0);
	fill();
	for (uint32_t i = 0; i < 4; i++)
		ck_assert_int_eq(fk_watch(client, jobs[order[i]], NULL, NULL), 0);
	spill();
	for (uint32_t i = 0; i < 4; i++) {
		ck_assert_int_eq(fk_next_completion(client, 0, &job, NULL), 0);
		ck_assert_uint_eq(job, jobs[order[i]]);
	}
	ck_assert_int_eq(fk_next_completion(client, 0, &job, NULL), -ETIMEDOUT);
	ck_assert_int_eq(fk_release_batch(client, jobs, JOBS), 0);
	clear();
	stop();
}
END_TEST

START_TEST(group_does_not_need_its_spilled_jobs)
{
	fk_group group;

	start(1, 0);
	ck_assert_int_eq(fk_group_new(client, &group), 0);
	for (uint32_t i = 0; i < JOBS; i++)
		requests[i].options.group = group;
	fill();
	ck_assert_int_eq(fk_group_wait(client, group, FK_FOREVER), 0);
	for (uint32_t i = 0; i < JOBS; i++)
		requests[i].options.group = 0;
	spill();
	ck_assert_int_eq(fk_group_wait(client, group, 0), 0);
	ck_assert_int_eq(fk_group_free(client, group), 0);
	ck_assert_int_eq(fk_release_batch(client, jobs, JOBS), 0);
	clear();
	stop();
}
END_TEST

/* Heap copies for a job are freed with its record. */
START_TEST(strings_do_not_wait_for_the_release)
{
	const fk_task *task;
	int64_t length[2];

	start(1, 0);
	task = must_find(client, "test:len");
	for (uint32_t i = 0; i < JOBS; i++)
		ck_assert_int_eq(fk_submit(client, task, 0, &jobs[i], "abc"), 0);
	run_all();
	spill();
	ck_assert_uint_eq(heap_used(&client->heap), 0);
	ck_assert_int_eq(fk_result(client, jobs[9], length, sizeof(length)), 0);
	ck_assert_int_eq(length[0], 3);
	ck_assert_int_eq(fk_release_batch(client, jobs, JOBS), 0);
	clear();
	stop();
}
END_TEST

START_TEST(spilled_job_that_failed_names_its_arguments)
{
	const fk_task *task;
	int64_t result;

	start(1, 0);
	task = must_find(client, "test:fail");
	for (uint32_t i = 0; i < JOBS; i++)
		ck_assert_int_eq(fk_submit(client, task, 0, &jobs[i], (int64_t)-EINVAL), 0);
	run_all();
	spill();
	ck_assert_int_eq(fk_result(client, jobs[9], &result, sizeof(result)), -EINVAL);
	ck_assert_str_eq(fk_error_text(), "FAILED: Invalid argument (code:i64 -> i64)");
	ck_assert_int_eq(fk_release_batch(client, jobs, JOBS), 0);
	clear();
	stop();
}
END_TEST

/* fk_result() of a spilled job needs them. */
START_TEST(copies_of_iobufs_wait_for_the_release)
{
	/* The second and third byte: a local job uses an aligned buffer in place. */
	static _Alignas(8) char numbers_of[JOBS][8];
	const fk_task *task;

	start(1, 0);
	task = must_find(client, "test:inc");
	for (uint32_t i = 0; i < JOBS; i++) {
		numbers_of[i][1] = (char)i;
		ck_assert_int_eq(fk_submit(client, task, FK_COPY_BUFFERS, &jobs[i],
					   FK_BUFFER(&numbers_of[i][1], 2)),
				 0);
	}
	run_all();
	spill();
	ck_assert_uint_eq(heap_used(&client->heap), JOBS * 64);
	for (uint32_t i = 0; i < JOBS; i++) {
		ck_assert_int_eq(fk_result(client, jobs[i], NULL, 0), 0);
		ck_assert_int_eq(numbers_of[i][1], (char)(i + 1));
		ck_assert_int_eq(numbers_of[i][2], 1);
	}
	ck_assert_int_eq(fk_release_batch(client, jobs, JOBS - 1), 0);
	ck_assert_uint_eq(heap_used(&client->heap), 64);
	/* fk_close() frees the last one. */
	fake_close();
}
END_TEST

/* The 24 bits of its record's generation have wrapped twice. */
START_TEST(handle_is_never_reused)
{
	fk_job again;
	int64_t sum;

	start(1, 0);
	fill();
	spill();
	run_all();
	ck_assert_int_eq(fk_release_batch(client, later, JOBS), 0);
	for (uint32_t i = 0; i < JOBS; i++) {
		uint64_t generation = jobs[i] >> 16;

		atomic_store(&client->slots[jobs[i] & 0xffff].generation,
			     generation + 2 * (JOB_GEN_MASK + UINT64_C(1)));
	}
	numbers[0][1] = 7;
	ck_assert_int_eq(fk_submit_packed(client, requests[0].task, numbers[0], 16, 0, &again), 0);
	ck_assert_uint_eq(again & 0xffffffffffu, jobs[again & 0xffff] & 0xffffffffffu);
	run_all();
	ck_assert_int_eq(fk_result(client, again, &sum, sizeof(sum)), 0);
	ck_assert_int_eq(sum, 7);
	must_be_sums(jobs, JOBS);
	ck_assert_int_eq(fk_release(client, again), 0);
	ck_assert_int_eq(fk_release_batch(client, jobs, JOBS), 0);
	stop();
}
END_TEST

/* There is memory for n jobs; then calloc() or tsearch() fails. */
static void spill_some(int n_callocs, int n_searches, uint32_t n)
{
	uint32_t in_table = 0;

	atomic_store(&callocs, n_callocs);
	atomic_store(&searches, n_searches);
	ck_assert_int_eq(fk_submit_packed(client, requests[0].task, numbers[0], 16, 0, &later[0]),
			 n ? 0 : -ENOMEM);
	if (!n)
		ck_assert_int_eq(fk_submit_packed(client, requests[0].task, numbers[0], 16,
						  FK_WAIT_ROOM, &later[0]),
				 -ENOMEM);
	atomic_store(&callocs, INT_MAX);
	atomic_store(&searches, INT_MAX);
	for (uint32_t i = 0; i < JOBS; i++)
		in_table += client_slot(client, jobs[i]) != NULL;
	ck_assert_uint_eq(in_table, JOBS - n);
}

START_TEST(jobs_stay_in_the_table_if_there_is_no_memory_for_them)
{
	start(1, 0);
	fill();
	spill_some(0, INT_MAX, 0);
	spill_some(INT_MAX, 0, 0);
	spill_some(3, INT_MAX, 3);
	must_be_sums(jobs, JOBS);
	ck_assert_int_eq(fk_release_batch(client, jobs, JOBS), 0);
	ck_assert_ptr_null(client->spilled);
	run_all();
	ck_assert_int_eq(fk_release(client, later[0]), 0);
	must_be_clean();
	stop();
}
END_TEST

START_TEST(fk_close_frees_what_was_spilled)
{
	start(1, 0);
	fill();
	ck_assert_int_eq(fk_watch(client, jobs[3], NULL, NULL), 0);
	spill();
	fake_close();
}
END_TEST

START_TEST(spilled_results_outlive_the_daemon)
{
	int64_t sum;

	start(1, 0);
	fill();
	spill();
	fake_hang_up();
	while (!client_gone(client))
		sched_yield();
	ck_assert_int_eq(fk_wait(client, jobs[1], FK_FOREVER), 0);
	ck_assert_int_eq(fk_result(client, jobs[1], &sum, sizeof(sum)), 0);
	ck_assert_int_eq(sum, 1001);
	ck_assert_int_eq(fk_release(client, jobs[1]), 0);
	ck_assert_int_eq(fk_result(client, later[1], &sum, sizeof(sum)), -ECONNRESET);
	fake_close();
}
END_TEST

static void *submit_two(void *unused)
{
	fk_job mine[2];
	intptr_t err = fk_submit_batch(client, requests, 2, FK_WAIT_ROOM, mine);

	(void)unused;
	if (!err)
		err = fk_wait_all(client, mine, 2, FK_FOREVER);
	return (void *)(err ? err : fk_release_batch(client, mine, 2));
}

/* Three threads wait for two records. Each checks for ended jobs, and passes the check on. */
START_TEST(each_thread_that_waits_for_room_gets_it_by_ended_jobs)
{
	pthread_t threads[3];
	void *err;

	start(1, 0);
	ck_assert_int_eq(fk_submit_batch(client, requests, JOBS, 0, jobs), 0);
	threads_start(threads, 3, submit_two);
	while (atomic_load(&client->room_waiters) != 3 * CLIENT_ROOM_CHAIN)
		sched_yield();
	for (uint32_t i = 0; i < 6; i++)
		run_one();
	/* All have room then. The jobs in the rest of the table still have to run. */
	while (atomic_load(&client->room_waiters))
		sched_yield();
	run_all();
	for (int i = 0; i < 3; i++) {
		while (pthread_tryjoin_np(threads[i], &err))
			run_all();
		ck_assert_ptr_null(err);
	}
	ck_assert_int_eq(fk_release_batch(client, jobs, JOBS), 0);
	ck_assert_ptr_null(client->spilled);
	stop();
}
END_TEST

static void *submit_strictly(void *unused)
{
	struct fk_request two[2] = { requests[0], requests[1] };
	fk_job mine[2];
	intptr_t err;

	(void)unused;
	two[0].options.place = FK_PLACE_WORKER;
	two[0].options.flags = FK_STRICT;
	err = fk_submit_batch(client, two, 2, FK_WAIT_ROOM, mine);
	if (!err)
		err = fk_wait_all(client, mine, 2, FK_FOREVER);
	return (void *)(err ? err : fk_release_batch(client, mine, 2));
}

static uint32_t n_pending(void)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < JOBS; i++)
		n += job_outcome(&client->jobs[i]) == JOB_PENDING;
	return n;
}

/* It has its records, and its ring is full. */
START_TEST(batch_that_waits_for_a_ring_blocks_no_other_thread)
{
	struct ring *ring;
	uint64_t position;
	uint32_t payload;
	pthread_t thread;
	fk_job more;
	void *err;

	start(2, 0);
	LOCAL_REFUSE("words of no job");
	ring = &fake.tenant->rings[0];
	ck_assert_int_eq(fk_submit_batch(client, requests, JOBS - 2, 0, jobs), 0);
	run_all();
	while (ring_push(ring, 0, &position) == RING_OK)
		;
	pthread_create(&thread, NULL, submit_strictly, NULL);
	while (n_pending() != 2)
		sched_yield();
	ck_assert_int_eq(fk_submit_packed(client, requests[0].task, numbers[0], 16, 0, &more), 0);
	for (uint32_t i = 0; i < JOBS - 2; i++)
		ck_assert_ptr_null(client_slot(client, jobs[i]));
	for (uint32_t i = 0; i < RING_SLOTS; i++) {
		ck_assert_int_eq(ring_peek(ring, fake.heads[0], &payload), RING_OK);
		ring_consume(ring, fake.heads[0]++);
	}
	while (pthread_tryjoin_np(thread, &err))
		run_all();
	ck_assert_ptr_null(err);
	run_all();
	ck_assert_int_eq(fk_release(client, more), 0);
	ck_assert_int_eq(fk_release_batch(client, jobs, JOBS - 2), 0);
	ck_assert_ptr_null(client->spilled);
	stop();
}
END_TEST

static void *call_it(void *number)
{
	int64_t n = (int64_t)(intptr_t)number, sum = 0;

	if (fk_call(client, "test:add", &sum, n, (int64_t)1) || sum != n + 1)
		return number;
	return NULL;
}

/* With handles of ended jobs, and of jobs that will end. */
START_TEST(call_does_not_wait_for_its_own_caller)
{
	pthread_t threads[2];

	start(2, 2);
	for (int round = 0; round < 100; round++) {
		ck_assert_int_eq(fk_submit_batch(client, requests, JOBS, FK_WAIT_ROOM, jobs), 0);
		if (round % 2)
			ck_assert_int_eq(fk_wait_all(client, jobs, JOBS, FK_FOREVER), 0);
		threads_start(threads, 2, call_it);
		threads_join(threads, 2);
		ck_assert_int_eq(fk_wait_all(client, jobs, JOBS, FK_FOREVER), 0);
		ck_assert_int_eq(fk_release_batch(client, jobs, JOBS), 0);
	}
	ck_assert_ptr_null(client->spilled);
	stop();
}
END_TEST

#define THREADS	 6u
#define HELD	 24u /* per thread: in total twice as many as there are records */
#define STRESSES 400u

static uint32_t draw(uint32_t *seed)
{
	*seed = *seed * 1664525u + 1013904223u;
	return *seed >> 16;
}

/* Submits n jobs, whose sums are their numbers from first on. */
static int submit_some(uint32_t *seed, uint32_t first, uint32_t n, fk_job *held)
{
	int64_t args[HELD][2];
	struct fk_request some[HELD];

	for (uint32_t i = 0; i < n; i++) {
		args[i][0] = first;
		args[i][1] = i;
		some[i] = (struct fk_request){ .task = requests[0].task,
					       .args = args[i],
					       .size = 16 };
	}
	if (n > 1 || draw(seed) % 2)
		return fk_submit_batch(client, some, n, FK_WAIT_ROOM, held);
	return fk_submit_packed(client, some[0].task, args[0], 16, FK_WAIT_ROOM, held);
}

/* Waits in one way or the other, takes the result and releases. */
static int take_one(uint32_t *seed, fk_job job, int64_t sum)
{
	struct fk_timings timings;
	int64_t result = -1;
	size_t index;
	int err = 0;

	switch (draw(seed) % 4) {
	case 0:
		err = fk_wait(client, job, FK_FOREVER);
		break;
	case 1:
		err = fk_wait_any(client, &job, 1, FK_FOREVER, &index);
		break;
	case 2:
		while (!(err = fk_poll(client, job)))
			sched_yield();
		err = min(err, 0);
		break;
	default:
		err = fk_watch(client, job, NULL, NULL);
		if (!err)
			err = fk_wait(client, job, FK_FOREVER);
		if (!err && draw(seed) % 2 && (err = fk_unwatch(client, job)) == -FK_E_NOT_WATCHED)
			err = 0;
	}
	if (!err && fk_outcome(client, job, NULL, NULL) != FK_DONE)
		err = -1;
	if (!err)
		err = fk_timings(client, job, &timings);
	if (!err)
		err = fk_result(client, job, &result, sizeof(result));
	if (!err && result != sum)
		err = -2;
	return err ? err : fk_release(client, job);
}

static void *submit_and_hold(void *number)
{
	uint32_t seed = (uint32_t)(uintptr_t)number * 2654435761u;
	fk_job held[HELD];
	int err = 0;

	for (uint32_t round = 0; round < STRESSES && !err; round++) {
		uint32_t n = draw(&seed) % (HELD - 1) + 1;
		uint32_t first = draw(&seed);

		/* Some as a batch, the others one by one. */
		err = submit_some(&seed, first, n, held);
		for (uint32_t i = n; i < HELD && !err; i++)
			err = submit_some(&seed, first + i, 1, &held[i]);
		for (uint32_t i = HELD; i-- > 0 && !err;)
			err = take_one(&seed, held[i], first + i);
	}
	return err ? number : NULL;
}

START_TEST(threads_hold_more_jobs_than_there_are_records)
{
	pthread_t threads[THREADS];
	fk_job job;

	start(3, 3);
	threads_start(threads, THREADS, submit_and_hold);
	threads_join(threads, THREADS);
	/* Released jobs are not reported, even if they were watched. */
	ck_assert_int_eq(fk_next_completion(client, 0, &job, NULL), -ETIMEDOUT);
	ck_assert_ptr_null(client->spilled);
	stop();
}
END_TEST

CHECK_MAIN("spill")
