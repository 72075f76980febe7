/* SPDX-License-Identifier: MIT */
/* job: one outcome per generation, and a thread that waits for it is woken. tests/model/job.c has
 * the interleavings. */
#include "shm/job.h"

#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "shm/futex.h"
#include "tests/support/check_unit.h"

static struct job job;

static void submit(uint32_t generation)
{
	atomic_store_explicit(&job.state, job_state(generation, JOB_PENDING), memory_order_relaxed);
}

static uint32_t state(void)
{
	return atomic_load_explicit(&job.state, memory_order_relaxed);
}

START_TEST(new_record_is_idle)
{
	ck_assert_uint_eq(job_outcome(&job), JOB_IDLE);
	ck_assert_uint_eq(job_announce_waiter(&job), 0);
	ck_assert_uint_eq(state(), 0);
}
END_TEST

START_TEST(word_separates_generation_waiter_and_outcome)
{
	ck_assert_uint_eq(job_state(JOB_GEN_MASK, 0), 0xffffff00u);
	ck_assert_uint_eq(job_state(JOB_GEN_MASK + 1, JOB_DONE), JOB_DONE);
	ck_assert_uint_eq(JOB_OUTCOME_MASK & (JOB_WAITER | JOB_WATCHED), 0);
	ck_assert_uint_eq((JOB_OUTCOME_MASK | JOB_WAITER | JOB_WATCHED) + 1, 1u << JOB_GEN_SHIFT);
	for (uint32_t outcome = JOB_IDLE; outcome <= JOB_LOST; outcome++) {
		atomic_store_explicit(&job.state, job_state(0xabcdef, outcome) | JOB_WAITER,
				      memory_order_relaxed);
		ck_assert_uint_eq(job_outcome(&job), outcome);
		ck_assert_uint_eq(state() >> JOB_GEN_SHIFT, 0xabcdef);
	}
}
END_TEST

START_TEST(finish_without_a_waiter_wakes_no_thread)
{
	submit(5);
	ck_assert_uint_eq(job_outcome(&job), JOB_PENDING);
	ck_assert_uint_eq(job_finish(&job, 5, JOB_DONE), 0);
	ck_assert_uint_eq(state(), job_state(5, JOB_DONE));
}
END_TEST

START_TEST(finish_clears_and_returns_the_waiter_bit)
{
	submit(5);
	ck_assert_uint_eq(job_announce_waiter(&job), job_state(5, JOB_PENDING) | JOB_WAITER);
	ck_assert_uint_eq(job_finish(&job, 5, JOB_CRASHED), JOB_WAITER);
	ck_assert_uint_eq(state(), job_state(5, JOB_CRASHED));
}
END_TEST

START_TEST(second_waiter_sleeps_on_the_same_value)
{
	uint32_t value;

	submit(9);
	value = job_announce_waiter(&job);
	ck_assert_uint_eq(job_announce_waiter(&job), value);
	ck_assert_uint_eq(state(), value);
}
END_TEST

START_TEST(finish_clears_and_returns_the_watched_bit)
{
	submit(5);
	ck_assert_int_eq(job_watch(&job), 1);
	ck_assert_int_eq(job_watch(&job), 1);
	ck_assert_uint_eq(job_outcome(&job), JOB_PENDING);
	ck_assert_uint_eq(state(), job_state(5, JOB_PENDING) | JOB_WATCHED);
	/* Both bits are independent. */
	ck_assert_uint_eq(job_announce_waiter(&job),
			  job_state(5, JOB_PENDING) | JOB_WATCHED | JOB_WAITER);
	ck_assert_uint_eq(job_finish(&job, 5, JOB_LOST), JOB_WATCHED | JOB_WAITER);
	ck_assert_uint_eq(state(), job_state(5, JOB_LOST));
	ck_assert_int_eq(job_watch(&job), 0);
}
END_TEST

START_TEST(job_with_an_outcome_needs_no_wait)
{
	for (uint32_t outcome = JOB_DONE; outcome <= JOB_LOST; outcome++) {
		submit(1);
		job_finish(&job, 1, outcome);
		ck_assert_uint_eq(job_announce_waiter(&job), 0);
		ck_assert_uint_eq(state(), job_state(1, outcome));
	}
}
END_TEST

START_TEST(outcome_overwrites_any_value_of_the_client)
{
	atomic_store_explicit(&job.state, UINT32_MAX, memory_order_relaxed);
	ck_assert_uint_eq(job_finish(&job, 3, JOB_DONE), JOB_WAITER | JOB_WATCHED);
	ck_assert_uint_eq(state(), job_state(3, JOB_DONE));
}
END_TEST

START_TEST(value_to_sleep_on_is_never_0)
{
	for (uint32_t generation = 0; generation < 1000; generation++) {
		submit(generation);
		ck_assert_uint_ne(job_announce_waiter(&job), 0);
	}
	submit(JOB_GEN_MASK);
	ck_assert_uint_ne(job_announce_waiter(&job), 0);
}
END_TEST

START_TEST(cancel_applies_to_one_generation)
{
	ck_assert_int_eq(job_want_end(&job, 5), 1);
	ck_assert_int_eq(job_is_unwanted(&job, 5), 1);
	ck_assert_int_eq(job_is_unwanted(&job, 4), 0);
	ck_assert_int_eq(job_is_unwanted(&job, 6), 0);
	/* Twice, and for the next generation. */
	ck_assert_int_eq(job_want_end(&job, 5), 1);
	ck_assert_int_eq(job_want_end(&job, 6), 1);
	ck_assert_int_eq(job_is_unwanted(&job, 6), 1);
	/* A late one does not clear a later one. */
	ck_assert_int_eq(job_want_end(&job, 5), 0);
	job_unwant_end(&job, 5);
	ck_assert_int_eq(job_is_unwanted(&job, 6), 1);
	job_unwant_end(&job, 6);
	ck_assert_uint_eq(atomic_load(&job.cancel), 0);
	/* Generations wrap; and 0 is later than none. */
	ck_assert_int_eq(job_want_end(&job, JOB_GEN_MASK), 1);
	ck_assert_int_eq(job_want_end(&job, 1), 1);
	ck_assert_int_eq(job_want_end(&job, JOB_GEN_MASK), 0);
	job_forget_end(&job);
	ck_assert_int_eq(job_is_unwanted(&job, 1), 0);
	for (uint32_t generation = 1; generation <= JOB_GEN_MASK; generation += 4095) {
		ck_assert_int_eq(job_want_end(&job, generation), 1);
		job_forget_end(&job);
	}
}
END_TEST

START_TEST(records_and_heap_are_at_their_documented_offsets)
{
	for (uint32_t n = 0; n < 3000; n += 7) {
		uint64_t heap = client_segment_heap_offset(n);

		ck_assert_uint_eq(heap % 4096, 0);
		uint64_t end = sizeof(struct client_segment) + n * sizeof(struct job) +
			       LIMIT_GROUPS * sizeof(struct group) + sizeof(struct watch);

		ck_assert_uint_ge(heap, end);
		ck_assert_uint_lt(heap, end + 4096);
	}
	ck_assert_uint_gt(client_segment_heap_offset(LIMIT_JOBS), LIMIT_JOBS * sizeof(struct job));
	ck_assert_uint_eq(sizeof(struct client_segment) % 64, 0);
	ck_assert_uint_eq(offsetof(struct job, result) % 64, 0);
	ck_assert_ptr_eq(client_segment_groups(&job, 1), &job + 1);
	ck_assert_ptr_eq(watch_of(client_segment_groups(&job, 1)),
			 (char *)(&job + 1) + LIMIT_GROUPS * sizeof(struct group));
	ck_assert_ptr_null(watch_of(NULL));
}
END_TEST

START_TEST(place_separates_kind_index_and_strictness)
{
	ck_assert_uint_eq(job_place(JOB_PLACE_NONE, 0, 0), 0);
	for (uint32_t kind = 0; kind <= JOB_PLACE_KIND_MASK; kind++) {
		for (int strict = 0; strict < 2; strict++) {
			uint32_t place = job_place(kind, kind * 77 + 5, strict);

			ck_assert_uint_eq(job_place_kind(place), kind);
			ck_assert_uint_eq(job_place_index(place), kind * 77 + 5);
			ck_assert_int_eq(job_place_strict(place), strict);
		}
	}
	ck_assert_uint_eq(job_place_index(job_place(JOB_PLACE_NODE, UINT32_MAX, 1)),
			  JOB_PLACE_INDEX_MASK);
}
END_TEST

START_TEST(group_is_found_by_its_number_and_no_other)
{
	static struct group groups[LIMIT_GROUPS];

	ck_assert_ptr_null(group_of(groups, 0));
	for (uint32_t i = 0; i < LIMIT_GROUPS; i++)
		ck_assert_ptr_eq(group_of(groups, i + 1), &groups[i]);
	ck_assert_ptr_null(group_of(groups, LIMIT_GROUPS + 1));
	ck_assert_ptr_null(group_of(groups, UINT32_MAX));
}
END_TEST

START_TEST(group_counts_and_its_generation_wraps)
{
	static struct group group;
	uint32_t word;

	for (uint32_t round = 1; round < 0x20000; round++) {
		group_add(&group, 2);
		group_add(&group, 1);
		word = group_load(&group);
		ck_assert_uint_eq(group_count(word), 3);
		ck_assert_uint_eq(group_generation(word), round & 0xffff);
		ck_assert_int_eq(group_done(&group, 1), 0);
		ck_assert_uint_eq(group_announce(&group, round & 0xffff),
				  (word - 1) | GROUP_WAITER);
		ck_assert_uint_eq(group_announce(&group, (round + 1) & 0xffff), 0);
		ck_assert_int_eq(group_done(&group, 1), 0);
		ck_assert_int_ne(group_done(&group, 1), 0);
		ck_assert_uint_eq(group_count(group_load(&group)), 0);
		ck_assert_uint_eq(group_announce(&group, round & 0xffff), 0);
	}
}
END_TEST

/* Malformed data of a client: one step each, and no more. */
START_TEST(negative_count_stays_in_its_word)
{
	struct group groups[3] = { 0 };

	ck_assert_int_eq(group_done(&groups[1], 1), 0);
	ck_assert_uint_eq(atomic_load(&groups[0].word), 0);
	ck_assert_uint_eq(atomic_load(&groups[2].word), 0);
	for (uint32_t i = 0; i < 64; i++)
		ck_assert_uint_eq(groups[1].reserved[i % 60], 0);
}
END_TEST

#define ROUNDS	3000u
#define WAITERS 2u

static _Atomic uint32_t finished[WAITERS]; /* rounds whose end this waiter has seen */

static void *wait_for_all(void *arg)
{
	uint32_t id = (uint32_t)(uintptr_t)arg;

	for (uint32_t round = 1; round <= ROUNDS; round++) {
		uint32_t value;
		uint64_t result;

		/* Not before it is submitted. */
		while ((state() >> JOB_GEN_SHIFT) != round)
			sched_yield();
		while ((value = job_announce_waiter(&job)) != 0)
			futex_wait(&job.state, value, 0);
		ck_assert_uint_eq(job_outcome(&job), JOB_DONE);
		memcpy(&result, job.result, sizeof(result));
		ck_assert_uint_eq(result, round * UINT64_C(0x100000001));
		atomic_store_explicit(&finished[id], round, memory_order_release);
	}
	return NULL;
}

/* Every round may sleep or not; a waiter that is not woken hangs the test. */
START_TEST(waiters_see_the_whole_result_and_all_are_woken)
{
	pthread_t threads[WAITERS];

	for (uintptr_t i = 0; i < WAITERS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, wait_for_all, (void *)i), 0);
	for (uint32_t round = 1; round <= ROUNDS; round++) {
		uint64_t result = round * UINT64_C(0x100000001);

		memset(job.result, 0, sizeof(job.result));
		atomic_store_explicit(&job.state, job_state(round, JOB_PENDING),
				      memory_order_release);
		for (volatile uint32_t spin = 0; spin < round % 512; spin = spin + 1)
			;
		memcpy(job.result, &result, sizeof(result));
		if (job_finish(&job, round, JOB_DONE))
			ck_assert_int_ge(futex_wake(&job.state, INT_MAX), 0);
		for (uint32_t i = 0; i < WAITERS; i++)
			while (atomic_load_explicit(&finished[i], memory_order_acquire) != round)
				sched_yield();
	}
	for (uint32_t i = 0; i < WAITERS; i++)
		ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
}
END_TEST

CHECK_MAIN("job")
