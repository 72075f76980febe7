/* SPDX-License-Identifier: MIT */
/*
 * forkd/algorithm.h against plain loops: sizes around the grain, every grain, one, two and eight
 * workers, and every fork treated as stolen.
 */
#define CHECK_TIMEOUT 300

#include <check.h>
#include <errno.h>
#include <malloc.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <forkd/algorithm.h>

#include "daemon/worker.h"
#include "tests/check_unit.h"
#include "tests/compile.h"
#include "tests/rig.h"

#define MAX   20000u
#define GUARD 64u /* elements behind the last that must stay as they are */

static struct rig rig;

/* What the next job works on; the test writes it before it submits. */
static struct {
	size_t n;
	size_t grain;
	int64_t from;
	int64_t to;
	bool with_buffer;
	bool in_place;
	int64_t fails_at;
} ask;

static const struct {
	uint32_t workers;
	bool forced;
} modes[] = { { 1, false }, { 2, false }, { 8, false }, { 1, true }, { 3, true } };

#define N_MODES (sizeof(modes) / sizeof(modes[0]))

static const size_t grains[] = { 0, 1, 7, 64 };

#define N_GRAINS (sizeof(grains) / sizeof(grains[0]))

/* Around each grain, and some that are large beside all but the automatic one. */
static const size_t sizes[] = { 0, 1, 2, 3, 6, 7, 8, 63, 64, 65, 129, 1000, 4999 };

#define N_SIZES (sizeof(sizes) / sizeof(sizes[0]))

#define for_each_size_and_grain()                                                                  \
	for (size_t s_ = 0; s_ < N_SIZES; s_++)                                                    \
		for (size_t g_ = 0; g_ < N_GRAINS; g_++)                                           \
			if (ask.n = sizes[s_], ask.grain = grains[g_], true)

/* libcheck's own assertions write to a file, which is too slow for each element. */
#define must(condition)                                                                            \
	do {                                                                                       \
		if (!(condition))                                                                  \
			ck_abort_msg("%s: n %zu, grain %zu", #condition, ask.n, ask.grain);        \
	} while (0)

extern const struct fk_module fk_module;

static void start(size_t mode)
{
	rig_start(&rig, modes[mode].workers, &fk_module, modes[mode].forced);
}

static uint64_t random_state = 88172645463325252u;

static uint64_t random_next(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

/* ---------------------------------------------------------------- for each */

static int64_t numbers[MAX + GUARD], others[MAX + GUARD];

static void add_to(int64_t *x, int64_t context)
{
	*x += context;
}

static int fail_at(int64_t *x, int64_t context)
{
	*x += 1;
	return x - numbers == context ? -EDOM : 0;
}

static void mark(int64_t i)
{
	numbers[i - ask.from]++;
}

static int fail_range(int64_t i, int64_t context)
{
	return i == context ? 77 : 0;
}

FK_FOR_EACH(each_add, int64_t, add_to, int64_t)
FK_FOR_EACH(each_fail, int64_t, fail_at, int64_t)
FK_FOR_RANGE(range_mark, mark)
FK_FOR_RANGE(range_fail, fail_range, int64_t)

/* Every job of this file takes one number, and most of them do not look at it. */
#define JOB_VOID(NAME, task, ...)                                                                  \
	FK_TASK(int64_t, NAME, (int64_t, unused), )                                                \
	FK_NO_LEAF(NAME)                                                                           \
	{                                                                                          \
		FK_CALL_VOID(task, __VA_ARGS__);                                                   \
		FK_RETURN(0);                                                                      \
	}                                                                                          \
	FK_END(NAME)                                                                               \
	FK_EXPORT(NAME, "unused:i64 -> i64", 0, "A test")

#define JOB(NAME, type, result, task, ...)                                                         \
	FK_TASK(int64_t, NAME, (int64_t, unused), type value;)                                     \
	FK_NO_LEAF(NAME)                                                                           \
	{                                                                                          \
		FK_CALL(value, task, __VA_ARGS__);                                                 \
		result = self->value;                                                              \
		FK_RETURN(0);                                                                      \
	}                                                                                          \
	FK_END(NAME)                                                                               \
	FK_EXPORT(NAME, "unused:i64 -> i64", 0, "A test")

JOB_VOID(job_each, each_add, numbers, ask.n, ask.grain, 3)
JOB_VOID(job_each_fail, each_fail, numbers, ask.n, ask.grain, ask.fails_at)
JOB_VOID(job_range, range_mark, ask.from, ask.to, ask.grain)
JOB_VOID(job_range_fail, range_fail, ask.from, ask.to, ask.grain, ask.fails_at)

#define run(NAME) rig_call(&rig, "algorithm:" #NAME, 0)

START_TEST(for_each_meets_each_element_once)
{
	for (size_t m = 0; m < N_MODES; m++) {
		start(m);
		for_each_size_and_grain()
		{
			memset(numbers, 0, sizeof(numbers));
			run(job_each);
			for (size_t i = 0; i < MAX + GUARD; i++)
				must(numbers[i] == (i < ask.n ? 3 : 0));
		}
		rig_stop(&rig);
	}
}
END_TEST

START_TEST(for_range_meets_each_number_once)
{
	static const int64_t froms[] = { 0, -500, INT64_MIN, INT64_MAX - 4999 };

	for (size_t m = 0; m < N_MODES; m++) {
		start(m);
		for (size_t f = 0; f < sizeof(froms) / sizeof(froms[0]); f++)
			for_each_size_and_grain()
			{
				ask.from = froms[f];
				ask.to = ask.from + (int64_t)ask.n;
				memset(numbers, 0, sizeof(numbers));
				run(job_range);
				for (size_t i = 0; i < MAX; i++)
					must(numbers[i] == (i < ask.n));
			}
		/* The other way round there is nothing. */
		ask.from = INT64_MAX;
		ask.to = INT64_MIN;
		memset(numbers, 0, sizeof(numbers));
		run(job_range);
		for (size_t i = 0; i < MAX; i++)
			must(numbers[i] == 0);
		rig_stop(&rig);
	}
}
END_TEST

/* Forks are counted where each of them is stolen: as many as there are leaves, but one. */
START_TEST(leaves_are_as_long_as_the_grain_says)
{
	static const struct {
		size_t n, grain, leaves;
	} cases[] = {
		{ 1024, 1, 1024 },
		{ 1024, 64, 16 },
		{ 1024, 1023, 2 },
		{ 1024, 1024, 1 },
		{ FK_LEAF_BYTES / sizeof(int64_t), 0, 1 },
		{ FK_LEAF_BYTES / sizeof(int64_t) + 1, 0, 2 },
		{ 1024, SIZE_MAX, 1 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		rig_start(&rig, 1, &fk_module, true);
		ask.n = cases[i].n;
		ask.grain = cases[i].grain;
		run(job_each);
		ck_assert_uint_eq(rig_counter(&rig, steals), cases[i].leaves - 1);
		rig_stop(&rig);
	}
	ck_assert_uint_eq(FK_GRAIN(1), 2001);
	ck_assert_uint_eq(FK_GRAIN(1000000), 1);
}
END_TEST

static void fails(const char *job, int code)
{
	int64_t unused = 0;

	rig_submit(&rig, 1, job, &unused, sizeof(unused));
	ck_assert_uint_eq(rig_wait(&rig, 1), JOB_FAILED);
	ck_assert_int_eq(atomic_load(&rig.jobs[1].code), code);
}

/* Where the leaf of the i-th of n elements ends. */
static size_t leaf_end(size_t first, size_t n, size_t i)
{
	if (n <= FK_GRAIN_OF(ask.grain, int64_t))
		return first + n;
	return i < first + n / 2 ? leaf_end(first, n / 2, i)
				 : leaf_end(first + n / 2, n - n / 2, i);
}

START_TEST(a_function_that_fails_fails_the_job)
{
	for (size_t m = 0; m < N_MODES; m++) {
		start(m);
		ask.n = 4999;
		for (size_t g = 0; g < N_GRAINS; g++) {
			ask.grain = grains[g];
			for (ask.fails_at = 0; ask.fails_at < 4999; ask.fails_at += 833) {
				size_t end = leaf_end(0, ask.n, (size_t)ask.fails_at);

				memset(numbers, 0, sizeof(numbers));
				fails("algorithm:job_each_fail", -EDOM);
				/* The leaf did not go on behind it, and none ran twice. */
				must(numbers[ask.fails_at] == 1);
				for (size_t i = 0; i < MAX; i++)
					must(numbers[i] <= (i < ask.n));
				for (size_t i = (size_t)ask.fails_at + 1; i < end; i++)
					must(numbers[i] == 0);
				ask.from = -4999;
				ask.to = 4999;
				fails("algorithm:job_range_fail", 77);
			}
		}
		/* What fails in none does not fail, and the pool serves after all these. */
		ask.fails_at = 5000;
		run(job_each_fail);
		run(job_range_fail);
		rig_stop(&rig);
	}
}
END_TEST

/* ---------------------------------------------------------------- map */

static int32_t small[MAX + GUARD];

static int64_t squared(const int32_t *x)
{
	return (int64_t)*x * *x;
}

static int64_t plus(const int64_t *x, int64_t context)
{
	return *x + context;
}

FK_MAP(map_squares, int32_t, int64_t, squared)
FK_MAP(map_plus, int64_t, int64_t, plus, int64_t)
JOB_VOID(job_squares, map_squares, small, numbers, ask.n, ask.grain)
JOB_VOID(job_plus, map_plus, numbers, numbers, ask.n, ask.grain, 5)

START_TEST(map_is_the_plain_loop)
{
	for (size_t i = 0; i < MAX; i++)
		small[i] = (int32_t)random_next();
	for (size_t m = 0; m < N_MODES; m++) {
		start(m);
		for_each_size_and_grain()
		{
			memset(numbers, 0, sizeof(numbers));
			run(job_squares);
			for (size_t i = 0; i < MAX; i++)
				must(numbers[i] == (i < ask.n ? (int64_t)small[i] * small[i] : 0));
			run(job_plus);
			for (size_t i = 0; i < MAX; i++)
				must(numbers[i] ==
				     (i < ask.n ? (int64_t)small[i] * small[i] + 5 : 0));
		}
		rig_stop(&rig);
	}
}
END_TEST

/* ---------------------------------------------------------------- fold */

/* x -> a x + b modulo 2^64: to compose such functions is associative and not commutative. */
struct affine {
	uint64_t a;
	uint64_t b;
};

static struct affine compose(struct affine first, struct affine then)
{
	return (struct affine){ then.a * first.a, then.a * first.b + then.b };
}

static struct affine follow(struct affine f, const int64_t *x)
{
	return compose(f, (struct affine){ (uint64_t)*x | 1, (uint64_t)*x >> 7 });
}

static struct affine follow_number(struct affine f, int64_t i, const int64_t *table)
{
	return follow(f, &table[i - ask.from]);
}

static double add_inverse(double sum, const int64_t *x, double context)
{
	return sum + context / (double)*x;
}

FK_FOLD(fold_affine, int64_t, struct affine, ((struct affine){ 1, 0 }), follow, compose)
FK_FOLD_RANGE(fold_numbers, struct affine, ((struct affine){ 1, 0 }), follow_number, compose,
	      const int64_t *)
FK_FOLD(fold_double, int64_t, double, 0.0, add_inverse, fk_add_f64, double)

static struct affine affine;
static double real;

JOB(job_fold, struct affine, affine, fold_affine, numbers, ask.n, ask.grain)
JOB(job_fold_range, struct affine, affine, fold_numbers, ask.from, ask.to, ask.grain, numbers)
JOB(job_fold_double, double, real, fold_double, numbers, ask.n, ask.grain, 0.1)

static void fill_random(void)
{
	for (size_t i = 0; i < MAX; i++)
		numbers[i] = (int64_t)random_next();
}

START_TEST(fold_combines_in_the_order_of_the_array)
{
	fill_random();
	for (size_t m = 0; m < N_MODES; m++) {
		start(m);
		for_each_size_and_grain()
		{
			struct affine right = { 1, 0 };

			for (size_t i = 0; i < ask.n; i++)
				right = follow(right, &numbers[i]);
			affine = (struct affine){ 0, 0 };
			run(job_fold);
			ck_assert_uint_eq(affine.a, right.a);
			ck_assert_uint_eq(affine.b, right.b);
			ask.from = -100;
			ask.to = ask.from + (int64_t)ask.n;
			affine = (struct affine){ 0, 0 };
			run(job_fold_range);
			ck_assert_uint_eq(affine.a, right.a);
			ck_assert_uint_eq(affine.b, right.b);
		}
		rig_stop(&rig);
	}
}
END_TEST

/* The tree that algorithm.h promises. */
static double fold_reference(const int64_t *data, size_t n, size_t grain)
{
	double sum = 0;

	if (n > grain)
		return fold_reference(data, n / 2, grain) +
		       fold_reference(data + n / 2, n - n / 2, grain);
	for (size_t i = 0; i < n; i++)
		sum = add_inverse(sum, &data[i], 0.1);
	return sum;
}

START_TEST(a_floating_point_fold_depends_on_n_and_grain_alone)
{
	double right[N_GRAINS];

	for (size_t i = 0; i < MAX; i++)
		numbers[i] = (int64_t)i - 9999 + (i == 9999);
	for (size_t g = 0; g < N_GRAINS; g++)
		right[g] = fold_reference(numbers, MAX, FK_GRAIN_OF(grains[g], int64_t));
	/* Else any order would do. */
	ck_assert(right[0] != right[1] && right[1] != right[2] && right[2] != right[3]);
	ask.n = MAX;
	for (size_t m = 0; m < N_MODES; m++) {
		start(m);
		for (size_t g = 0; g < N_GRAINS; g++) {
			ask.grain = grains[g];
			run(job_fold_double);
			ck_assert(memcmp(&real, &right[g], sizeof(real)) == 0);
		}
		rig_stop(&rig);
	}
}
END_TEST

/* ---------------------------------------------------------------- scan */

static struct affine prefixes[MAX + GUARD];

static int64_t add_number(int64_t sum, const int64_t *x, int64_t context)
{
	return fk_add_i64(sum, (int64_t)((uint64_t)*x * (uint64_t)context));
}

static double add_real(double sum, const double *x)
{
	return sum + *x;
}

FK_SCAN(scan_affine, int64_t, struct affine, ((struct affine){ 1, 0 }), follow, compose)
FK_SCAN_EXCLUSIVE(scan_affine_exclusive, int64_t, struct affine, ((struct affine){ 1, 0 }), follow,
		  compose)
FK_SCAN(scan_sum, int64_t, int64_t, 0, add_number, fk_add_i64, int64_t)
FK_SCAN_EXCLUSIVE(scan_sum_exclusive, int64_t, int64_t, 0, add_number, fk_add_i64, int64_t)
FK_SCAN(scan_real, double, double, 0.0, add_real, fk_add_f64)

static int64_t total;
static double reals[MAX], running[MAX];

JOB(job_scan, struct affine, affine, scan_affine, numbers, prefixes, ask.n, ask.grain)
JOB(job_scan_exclusive, struct affine, affine, scan_affine_exclusive, numbers, prefixes, ask.n,
    ask.grain)
JOB(job_scan_in_place, int64_t, total, scan_sum, others, others, ask.n, ask.grain, 3)
JOB(job_scan_exclusive_in_place, int64_t, total, scan_sum_exclusive, others, others, ask.n,
    ask.grain, 3)
JOB(job_scan_real, double, real, scan_real, reals, running, ask.n, ask.grain)

static void expect_prefixes(bool exclusive)
{
	struct affine sum = { 1, 0 };

	for (size_t i = 0; i < ask.n; i++) {
		struct affine next = follow(sum, &numbers[i]);

		must(prefixes[i].a == (exclusive ? sum.a : next.a));
		must(prefixes[i].b == (exclusive ? sum.b : next.b));
		sum = next;
	}
	ck_assert_uint_eq(affine.a, sum.a);
	ck_assert_uint_eq(affine.b, sum.b);
	for (size_t i = ask.n; i < MAX + GUARD; i++)
		must((prefixes[i].a | prefixes[i].b) == 0);
}

START_TEST(scan_is_the_plain_loop)
{
	fill_random();
	for (size_t m = 0; m < N_MODES; m++) {
		start(m);
		for_each_size_and_grain()
		{
			memset(prefixes, 0, sizeof(prefixes));
			run(job_scan);
			expect_prefixes(false);
			memset(prefixes, 0, sizeof(prefixes));
			run(job_scan_exclusive);
			expect_prefixes(true);
		}
		rig_stop(&rig);
	}
}
END_TEST

START_TEST(scan_in_place_is_the_plain_loop)
{
	fill_random();
	for (size_t m = 0; m < N_MODES; m++) {
		start(m);
		for_each_size_and_grain()
		{
			for (int exclusive = 0; exclusive < 2; exclusive++) {
				int64_t sum = 0;

				memcpy(others, numbers, sizeof(others));
				if (exclusive)
					run(job_scan_exclusive_in_place);
				else
					run(job_scan_in_place);
				for (size_t i = 0; i < ask.n; i++) {
					int64_t next = add_number(sum, &numbers[i], 3);

					must(others[i] == (exclusive ? sum : next));
					sum = next;
				}
				ck_assert_int_eq(total, sum);
				for (size_t i = ask.n; i < MAX; i++)
					must(others[i] == numbers[i]);
			}
		}
		rig_stop(&rig);
	}
}
END_TEST

START_TEST(a_floating_point_scan_depends_on_n_and_grain_alone)
{
	static double right[N_GRAINS][MAX];

	for (size_t i = 0; i < MAX; i++)
		reals[i] = 1.0 / ((double)i - 9999.5);
	ask.n = MAX;
	for (size_t m = 0; m < N_MODES; m++) {
		start(m);
		for (size_t g = 0; g < N_GRAINS; g++) {
			ask.grain = grains[g];
			run(job_scan_real);
			if (m == 0)
				memcpy(right[g], running, sizeof(running));
			ck_assert(memcmp(right[g], running, sizeof(running)) == 0);
		}
		rig_stop(&rig);
	}
	/* Else any order would do. */
	ck_assert(memcmp(right[1], right[2], sizeof(running)) != 0);
	for (size_t i = 0; i < MAX; i++)
		must(fabs(right[1][i] - right[2][i]) < 1e-9);
}
END_TEST

/* ---------------------------------------------------------------- sort */

/* Sorted by key; seq tells where it stood, so that every element is another one. */
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

/* No order at all, and never the same answer. */
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

/* Many keys, few, one, sorted, reversed, a saw, sorted but for the last. */
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

/* Sorted, stable, and each is what it was. */
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
	for (size_t m = 0; m < N_MODES; m++) {
		start(m);
		for (int kind = 0; kind < KEYS_END; kind++)
			for_each_size_and_grain()
			{
				fill_records(kind);
				ask.with_buffer = (ask.n + (size_t)kind) % 2;
				run(job_sort);
				expect_sorted();
			}
		rig_stop(&rig);
	}
}
END_TEST

START_TEST(sort_of_a_large_array_is_stable)
{
	for (size_t m = 0; m < N_MODES; m++) {
		start(m);
		ask.n = MAX;
		ask.grain = 0;
		for (int kind = 0; kind < KEYS_END; kind++) {
			fill_records(kind);
			ask.with_buffer = kind % 2;
			run(job_sort);
			expect_sorted();
		}
		rig_stop(&rig);
	}
}
END_TEST

START_TEST(sort_by_what_is_no_order_stays_within_its_arrays)
{
	for (size_t m = 0; m < N_MODES; m++) {
		start(m);
		for_each_size_and_grain()
		{
			fill_records(KEYS_RANDOM);
			ask.with_buffer = true;
			run(job_no_order);
			expect_guards();
			/* Garbage, but of these elements only: no memory of anybody else's. */
			for (size_t i = 0; i < ask.n; i++) {
				must(records[i].seq < ask.n);
				must(records[i].check == before[records[i].seq].check);
			}
		}
		rig_stop(&rig);
	}
}
END_TEST

/* ---------------------------------------------------------------- memory */

/* More elements than any memory holds: the task must not touch one before it fails. */
JOB_VOID(job_sort_huge, sort_records, records, NULL, SIZE_MAX / 8, ask.grain)
JOB(job_scan_huge, int64_t, total, scan_sum, others, others, SIZE_MAX / 2, 1, 3)

START_TEST(without_temporary_memory_scan_and_sort_fail)
{
	start(1);
	fails("algorithm:job_sort_huge", -ENOMEM);
	fails("algorithm:job_scan_huge", -ENOMEM);
	ask.n = 100;
	fill_records(KEYS_RANDOM);
	run(job_sort);
	expect_sorted();
	rig_stop(&rig);
}
END_TEST

/* The job fails in the middle, as if it had been cancelled: at so many calls of these. */
static _Atomic int calls_left;

static void call(void)
{
	if (atomic_fetch_sub_explicit(&calls_left, 1, memory_order_relaxed) == 0)
		fk_rt_fail(&worker_self()->fk, -EDOM);
}

static bool failing_less(const struct record *a, const struct record *b)
{
	call();
	return a->key < b->key;
}

static int64_t failing_add(int64_t sum, const int64_t *x)
{
	call();
	return fk_add_i64(sum, *x);
}

FK_SORT(failing_sort, struct record, failing_less)
FK_SCAN(failing_scan, int64_t, int64_t, 0, failing_add, fk_add_i64)
JOB_VOID(job_failing_sort, failing_sort, records, NULL, ask.n, ask.grain)
JOB(job_failing_scan, int64_t, total, failing_scan, numbers, others, ask.n, ask.grain)

static size_t allocated(void)
{
	struct mallinfo2 info = mallinfo2();

	return info.uordblks + info.hblkhd;
}

/* Under AddressSanitizer, which has a malloc of its own, its leak check looks. */
START_TEST(temporary_memory_is_given_back_when_the_job_fails)
{
	enum { ROUNDS = 200 };

	for (size_t m = 0; m < N_MODES; m++) {
		uint64_t unwound;
		size_t had;

		start(m);
		ask.n = 4999;
		ask.grain = 16;
		fill_records(KEYS_RANDOM);
		had = 0;
		for (int i = 0; i < ROUNDS; i++) {
			atomic_store(&calls_left, 20 * i);
			fails("algorithm:job_failing_sort", -EDOM);
			atomic_store(&calls_left, 20 * i);
			fails("algorithm:job_failing_scan", -EDOM);
			/* What the pool keeps for the next job is there by then. */
			if (i == ROUNDS / 4)
				had = allocated();
		}
		/* Each sort took 80 kB, each scan 2.5. */
		ck_assert_uint_lt(allocated(), had + (200 << 10));
		unwound = rig_counter(&rig, unwound);
		if (modes[m].forced)
			ck_assert_uint_gt(unwound, ROUNDS);
		/* And the pool still sorts. */
		fill_records(KEYS_RANDOM);
		run(job_sort);
		expect_sorted();
		rig_stop(&rig);
	}
}
END_TEST

/* ---------------------------------------------------------------- invoke */

FK_TASK(int64_t, double_of, (int64_t, n), )
{
	FK_LEAF(2 * n);
}
FK_NO_BODY(double_of)
FK_END(double_of)

static int64_t told[8];

FK_TASK(fk_void, tell, (int64_t, i, int64_t, n), )
{
	told[i] = n;
	FK_LEAF();
}
FK_NO_BODY(tell)
FK_END(tell)

FK_TASK(int64_t, invoking, (int64_t, n), int64_t x[8]; struct affine f; double sum;)
FK_NO_LEAF(invoking)
{
	/* One, two different ones, three of which the last is void, and eight. */
	FK_INVOKE((x[0], double_of, 1));
	FK_INVOKE((x[1], double_of, self->x[0]), (void, tell, 0, self->n));
	FK_INVOKE((f, fold_affine, numbers, 1000, 64), (sum, fold_double, numbers, 1000, 64, 0.1),
		  (void, tell, 1, self->x[1]));
	affine = self->f;
	real = self->sum;
	FK_INVOKE((x[2], double_of, 2), (void, tell, 2, 2), (x[3], double_of, 3),
		  (void, tell, 3, 3), (x[4], double_of, 4), (void, tell, 4, 4),
		  (x[5], double_of, 5), (x[6], double_of, 6));
	FK_RETURN(self->x[0] + self->x[1] + self->x[2] + self->x[3] + self->x[4] + self->x[5] +
		  self->x[6]);
}
FK_END(invoking)
FK_EXPORT(invoking, "n:i64 -> i64", 0, "A test")

START_TEST(invoke_runs_every_task_and_waits_for_all)
{
	struct affine right = { 1, 0 };
	double sum;

	fill_random();
	sum = fold_reference(numbers, 1000, 64);
	for (size_t i = 0; i < 1000; i++)
		right = follow(right, &numbers[i]);
	for (size_t m = 0; m < N_MODES; m++) {
		static const int64_t expected[8] = { 9, 4, 2, 3, 4 };

		start(m);
		memset(told, 0, sizeof(told));
		ck_assert_int_eq(rig_call(&rig, "algorithm:invoking", 9),
				 2 + 4 + 4 + 6 + 8 + 10 + 12);
		ck_assert(memcmp(told, expected, sizeof(told)) == 0);
		ck_assert_uint_eq(affine.a, right.a);
		ck_assert_uint_eq(affine.b, right.b);
		ck_assert(memcmp(&real, &sum, sizeof(real)) == 0);
		if (modes[m].forced && modes[m].workers == 1)
			/* All but the last of each were forked: 0, 1, 2 and 7, and the folds' own. */
			ck_assert_uint_eq(rig_counter(&rig, steals), 0 + 1 + 2 + 7 + 15 + 15);
		rig_stop(&rig);
	}
}
END_TEST

FK_MODULE(algorithm, "Algorithms, to be tested")

/* ---------------------------------------------------------------- what the compiler catches */

static void refused(const char *text, const char *message)
{
	ck_assert_msg(compile("algorithm.h", text) != 0, "compiled, but must not: %s", text);
	ck_assert_msg(strstr(compile_message, message) != NULL, "refused, but for: %s",
		      compile_message);
}

static void taken(const char *text)
{
	int status = compile("algorithm.h", text);

	ck_assert_msg(status == 0 && !compile_message[0], "%s", compile_message);
}

#define STEP "static inline double step(double s, const double *x) { return s + *x; }\n"
#define LESS "static inline bool less(const int *a, const int *b) { return *a < *b; }\n"
#define USE(task, ...)                                                                             \
	"FK_TASK(int64_t, use, (int64_t, n), double d; int i;)\nFK_NO_LEAF(use) { " task           \
	"(" __VA_ARGS__ "); FK_RETURN(0); } FK_END(use) "                                          \
	"FK_EXPORT(use, \"n:i64 -> i64\", 0, \"A task\")"

START_TEST(what_is_right_compiles_without_a_word)
{
	taken(STEP
	      "FK_FOLD(f, double, double, 0, step, fk_add_f64)\n" USE("FK_CALL", "d, f, 0, 0, 0"));
	/* The example of forkd-modules(7). */
	taken("static double add(double sum, const double *x)\n{\n\treturn sum + *x;\n}\n"
	      "FK_FOLD(sum, double, double, 0.0, add, fk_add_f64)\n"
	      "FK_TASK(double, total, (struct fk_buf, data), double sum;)\n"
	      "FK_NO_LEAF(total)\n{\n"
	      "FK_CALL(sum, sum, self->data.data, self->data.size / 8, 0);\n"
	      "FK_RETURN(self->sum);\n}\nFK_END(total)\n"
	      "FK_EXPORT(total, \"data:buf -> f64\", 0, \"The sum\")");
	taken(STEP "FK_SCAN(f, double, double, 0, step, fk_add_f64)\n" USE("FK_CALL",
									   "d, f, 0, 0, 0, 0"));
	taken(LESS "FK_SORT(f, int, less)\n" USE("FK_CALL_VOID", "f, 0, 0, 0, 0"));
	taken("static void e(int *x) { ++*x; }\nFK_FOR_EACH(f, int, e)\n" USE("FK_CALL_VOID",
									      "f, 0, 0, 0"));
	taken("static char c(const int *x) { return (char)*x; }\nFK_MAP(f, int, char, c)\n" USE(
		"FK_CALL_VOID", "f, 0, 0, 0, 0"));
}
END_TEST

START_TEST(a_function_of_another_type_is_an_error_that_says_which_is_right)
{
	refused("static void e(long *x) { ++*x; }\nFK_FOR_EACH(f, int, e)",
		"f: it must be void or int e(int *)");
	refused("static void e(int *x) { ++*x; }\nFK_FOR_EACH(f, int, e, double)",
		"f: it must be void or int e(int *, double)");
	refused("static void e(int x) { (void)x; }\nFK_FOR_RANGE(f, e)",
		"f: it must be void or int e(int64_t)");
	refused("static int m(int *x) { return *x; }\nFK_MAP(f, int, int, m)",
		"f: it must be int m(const int *)");
	refused(STEP "FK_FOLD(f, float, double, 0, step, fk_add_f64)",
		"f: it must be double step(double, const float *)");
	refused(STEP "FK_FOLD(f, double, double, 0, step, fk_add_i64)",
		"f: it must be double fk_add_i64(double, double)");
	refused(STEP "FK_FOLD_RANGE(f, double, 0, step, fk_add_f64)",
		"f: it must be double step(double, int64_t)");
	refused(STEP "FK_SCAN(f, double, float, 0, step, fk_add_f64)",
		"f: it must be float step(float, const double *)");
	refused("static bool less(int a, int b) { return a < b; }\nFK_SORT(f, int, less)",
		"f: it must be bool or int less(const int *, const int *)");
}
END_TEST

START_TEST(an_array_of_another_type_is_an_error)
{
	ck_assert_int_ne(
		compile("algorithm.h",
			"#pragma GCC diagnostic error \"-Wincompatible-pointer-types\"\n" LESS
			"FK_SORT(f, int, less)\n" USE("FK_CALL_VOID", "f, &self->d, 0, 0, 0")),
		0);
	/* And is this what it was refused for? */
	taken(LESS "FK_SORT(f, int, less)\n" USE("FK_CALL_VOID", "f, &self->i, 0, 0, 0"));
}
END_TEST

CHECK_MAIN("algorithm", for_each_meets_each_element_once, for_range_meets_each_number_once,
	   leaves_are_as_long_as_the_grain_says, a_function_that_fails_fails_the_job,
	   map_is_the_plain_loop, fold_combines_in_the_order_of_the_array,
	   a_floating_point_fold_depends_on_n_and_grain_alone, scan_is_the_plain_loop,
	   scan_in_place_is_the_plain_loop, a_floating_point_scan_depends_on_n_and_grain_alone,
	   sort_sorts_and_is_stable, sort_of_a_large_array_is_stable,
	   sort_by_what_is_no_order_stays_within_its_arrays,
	   without_temporary_memory_scan_and_sort_fail,
	   temporary_memory_is_given_back_when_the_job_fails,
	   invoke_runs_every_task_and_waits_for_all, what_is_right_compiles_without_a_word,
	   a_function_of_another_type_is_an_error_that_says_which_is_right,
	   an_array_of_another_type_is_an_error)
