/* SPDX-License-Identifier: MIT */
/* forkd/algorithm/sort.h: order, stability and bounds, and its memory. */
#define CHECK_TIMEOUT 300

#include <check.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "tests/support/counted.h"

#include <forkd/algorithm.h>

#include "tests/support/algorithm.h"
#include "tests/support/check_unit.h"
#include "tests/support/counted_fail.h"

/* Sorted by key; seq is the original index, so that every element is unique. */
struct record {
	uint32_t key;
	uint32_t seq;
	uint64_t check;
};

static struct record records[MAX + GUARD], buffer[MAX + GUARD], before[MAX];

static bool record_less(const struct record *a, const struct record *b)
{
	return a->key < b->key;
}

/* Not an order: each call has another result. */
static _Atomic uint32_t answers;

static int no_order(const struct record *a, const struct record *b, uint32_t context)
{
	uint32_t n = atomic_fetch_add_explicit(&answers, 1, memory_order_relaxed);

	return (int)(((a->seq ^ b->seq) + n * 2654435761u) >> context & 1);
}

FK_SORT(sort_records, struct record, record_less)
FK_SORT(sort_nothing, struct record, no_order, uint32_t)
JOB_VOID(job_sort, sort_records, records, ask.with_buffer ? buffer : NULL, ask.n, ask.grain)
JOB_VOID(job_no_order, sort_nothing, records, ask.with_buffer ? buffer : NULL, ask.n, ask.grain, 13)

/* Many keys, few, one, sorted, reversed, sawtooth, sorted except the last. */
enum { KEYS_RANDOM, KEYS_FEW, KEYS_EQUAL, KEYS_UP, KEYS_DOWN, KEYS_SAW, KEYS_ALMOST, KEYS_END };

static uint32_t record_key(int kind, uint32_t i, uint32_t n)
{
	switch (kind) {
	case KEYS_RANDOM:
		return (uint32_t)random_next();
	case KEYS_FEW:
		return (uint32_t)random_next() % 4;
	case KEYS_EQUAL:
		return 5;
	case KEYS_UP:
		return i;
	case KEYS_DOWN:
		return n - i;
	case KEYS_SAW:
		return i % 97;
	default:
		return i + 1 == n ? n / 2 : i;
	}
}

static void fill_records(int kind)
{
	memset(records, 0xee, (ask.n + GUARD) * sizeof(records[0]));
	memset(buffer, 0xdd, (ask.n + GUARD) * sizeof(buffer[0]));
	for (uint32_t i = 0; i < ask.n; i++) {
		records[i].key = record_key(kind, i, (uint32_t)ask.n);
		records[i].seq = i;
		records[i].check = (uint64_t)records[i].key * 31 + i;
	}
	memcpy(before, records, ask.n * sizeof(before[0]));
}

static void expect_guards(void)
{
	const unsigned char *end = (const unsigned char *)&records[ask.n];
	const unsigned char *buffer_end = (const unsigned char *)&buffer[ask.n];

	for (size_t i = 0; i < GUARD * sizeof(records[0]); i++) {
		must(end[i] == 0xee);
		must(buffer_end[i] == 0xdd);
	}
}

/* Sorted, stable, and each element is unchanged. */
static void expect_sorted(void)
{
	for (uint32_t i = 0; i < ask.n; i++) {
		must(records[i].check == (uint64_t)records[i].key * 31 + records[i].seq);
		must(records[i].seq < ask.n);
		must(before[records[i].seq].key == records[i].key);
		if (i && records[i - 1].key == records[i].key)
			must(records[i - 1].seq < records[i].seq);
		else if (i)
			must(records[i - 1].key < records[i].key);
	}
	expect_guards();
}

START_TEST(sort_sorts_and_is_stable)
{
	for_each_mode (m, &fk_module) {
		for (int kind = 0; kind < KEYS_END; kind++)
			for_each_size_and_grain () {
				fill_records(kind);
				ask.with_buffer = (ask.n + (size_t)kind) % 2;
				run(job_sort);
				expect_sorted();
			}
	}
}
END_TEST

START_TEST(sort_of_a_large_array_is_stable)
{
	for_each_mode (m, &fk_module) {
		ask.n = MAX;
		ask.grain = 0;
		for (int kind = 0; kind < KEYS_END; kind++) {
			fill_records(kind);
			ask.with_buffer = kind % 2;
			run(job_sort);
			expect_sorted();
		}
	}
}
END_TEST

START_TEST(sort_by_an_invalid_order_stays_within_its_arrays)
{
	for_each_mode (m, &fk_module) {
		for_each_size_and_grain () {
			fill_records(KEYS_RANDOM);
			ask.with_buffer = true;
			run(job_no_order);
			expect_guards();
			/* In any order, but only these elements. */
			for (size_t i = 0; i < ask.n; i++) {
				must(records[i].seq < ask.n);
				must(records[i].check == before[records[i].seq].check);
			}
		}
	}
}
END_TEST

/* ---------------------------------------------------------------- memory */

static void sort_refill(void)
{
	fill_records(KEYS_RANDOM);
}

static void sort_works(void)
{
	sort_refill();
	run(job_sort);
	expect_sorted();
}

/* More elements than any memory holds: the task must not access one before it fails. */
JOB_VOID(job_sort_huge, sort_records, records, NULL, SIZE_MAX / 8, ask.grain)

START_TEST(without_temporary_memory_a_sort_fails)
{
	start_mode(0, &fk_module);
	fails("algorithm:job_sort_huge", -ENOMEM);
	ask.n = 100;
	sort_works();
}
END_TEST

static bool failing_less(const struct record *a, const struct record *b)
{
	counted_fail_here();
	return a->key < b->key;
}

FK_SORT(failing_sort, struct record, failing_less)
JOB_VOID(job_failing_sort, failing_sort, records, NULL, ask.n, ask.grain)

START_TEST(temporary_memory_is_freed_if_the_job_fails)
{
	counted_fail_in_the_middle("algorithm:job_failing_sort", sort_refill, sort_works);
}
END_TEST

START_TEST(temporary_memory_is_freed_if_an_allocation_fails)
{
	counted_fail_as_it_is_taken("algorithm:job_failing_sort", sort_refill);
}
END_TEST

FK_MODULE(algorithm, "Algorithms, to be tested")

CHECK_MAIN("sort")
