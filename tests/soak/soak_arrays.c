/* SPDX-License-Identifier: MIT */
/* soak_arrays.c - jobs of soak_stress on arrays of numbers and of records: array, sort */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "tests/soak/soak.h"

#define SOAK_NUMBER 30000u /* numbers in a buffer, at most */

struct array {
	union {
		void *data;
		int64_t *i64;
		double *f64;
	};
	size_t n;
	int64_t sum;
	int64_t min;
	int64_t max;
	union fk_value value;
};

/* Integers, so that sums of doubles are exact in any order. */
static bool new_array(struct soak *s, struct array *ret_array, bool doubles)
{
	struct array a = { .n = 1 + draw_size(s, SOAK_NUMBER), .min = INT64_MAX, .max = INT64_MIN };

	a.data = take(s, a.n * 8);
	if (!a.data)
		return false;
	for (size_t i = 0; i < a.n; i++) {
		int64_t x = (int64_t)draw(s, 1 << 20) - (1 << 19);

		a.sum += x;
		a.min = min(a.min, x);
		a.max = max(a.max, x);
		if (doubles)
			a.f64[i] = (double)x;
		else
			a.i64[i] = x;
	}
	a.value = as_buffer(a.data, a.n * 8);
	*ret_array = a;
	return true;
}

/* All arrays have integers. */
static int64_t number_at(const struct array *a, size_t i, bool doubles)
{
	return doubles ? (int64_t)a->f64[i] : a->i64[i];
}

static bool compare(struct soak *s, const char *task, const struct array *a, bool right)
{
	return right || wrong(s, "%s: wrong for %zu numbers", task, a->n);
}

/* ------------------------------------------------------------------------ sums */

/* A number as the task returns it. */
union number {
	int64_t i64;
	double f64;
};

static bool is_number(union number found, int64_t wanted, bool doubles)
{
	return doubles ? found.f64 == (double)wanted : found.i64 == wanted;
}

static bool run_sum(struct soak *s, const char *task, bool doubles)
{
	union number found = { 0 };
	struct array a;

	return new_array(s, &a, doubles) && call(s, task, &found, sizeof(found), &a.value, 1) &&
	       compare(s, task, &a, is_number(found, a.sum, doubles));
}

static bool run_sum_i64(struct soak *s)
{
	return run_sum(s, "array:sum_i64", false);
}

static bool run_sum_f64(struct soak *s)
{
	return run_sum(s, "array:sum_f64", true);
}

static bool run_prefix(struct soak *s, const char *task, bool doubles)
{
	static int64_t before[SOAK_NUMBER + 1];
	union number found = { 0 };
	bool right = true;
	int64_t sum = 0;
	struct array a;

	if (!new_array(s, &a, doubles))
		return false;
	for (size_t i = 0; i < a.n; i++)
		before[i] = number_at(&a, i, doubles);
	if (!call(s, task, &found, sizeof(found), &a.value, 1))
		return false;
	for (size_t i = 0; i < a.n; i++) {
		sum += before[i];
		right = right && number_at(&a, i, doubles) == sum;
	}
	return compare(s, task, &a, right && is_number(found, a.sum, doubles));
}

static bool run_prefix_i64(struct soak *s)
{
	return run_prefix(s, "array:prefix_i64", false);
}

static bool run_prefix_f64(struct soak *s)
{
	return run_prefix(s, "array:prefix_f64", true);
}

/* Products below 2^38, and fewer than 2^15 of them: exact too. */
static bool run_dot(struct soak *s)
{
	double found = 0, wanted = 0, *b;
	union fk_value values[2];
	struct array a;

	if (!new_array(s, &a, true))
		return false;
	b = take(s, a.n * 8);
	if (!b)
		return false;
	for (size_t i = 0; i < a.n; i++) {
		b[i] = (double)draw(s, 1 << 19);
		wanted += a.f64[i] * b[i];
	}
	values[0] = a.value;
	values[1] = as_buffer(b, a.n * 8);
	return call(s, "array:dot_f64", &found, sizeof(found), values, 2) &&
	       compare(s, "array:dot_f64", &a, found == wanted);
}

/* ------------------------------------------------------------------------ statistics */

static bool run_minmax(struct soak *s, const char *task, bool doubles)
{
	union number found[2] = { 0 };
	struct array a;

	return new_array(s, &a, doubles) && call(s, task, found, sizeof(found), &a.value, 1) &&
	       compare(s, task, &a,
		       is_number(found[0], a.min, doubles) && is_number(found[1], a.max, doubles));
}

static bool run_minmax_i64(struct soak *s)
{
	return run_minmax(s, "array:minmax_i64", false);
}

static bool run_minmax_f64(struct soak *s)
{
	return run_minmax(s, "array:minmax_f64", true);
}

static bool run_stats(struct soak *s)
{
	struct {
		int64_t n;
		double min, max, mean, sd;
	} found = { 0 };
	double squares = 0, mean, sd;
	struct array a;

	if (!new_array(s, &a, true))
		return false;
	mean = (double)a.sum / (double)a.n;
	for (size_t i = 0; i < a.n; i++)
		squares += (a.f64[i] - mean) * (a.f64[i] - mean);
	sd = a.n > 1 ? sqrt(squares / (double)(a.n - 1)) : 0;
	/* Its sums are in another order than these: equal except for rounding. */
	return call(s, "array:stats_f64", &found, sizeof(found), &a.value, 1) &&
	       compare(s, "array:stats_f64", &a,
		       found.n == (int64_t)a.n && found.min == (double)a.min &&
			       found.max == (double)a.max && fabs(found.mean - mean) < 1e-6 &&
			       fabs(found.sd - sd) < 1e-6);
}

static bool run_scale(struct soak *s)
{
	union fk_value values[2];
	double sum = 0;
	struct array a;

	if (!new_array(s, &a, true))
		return false;
	values[0] = a.value;
	values[1] = (union fk_value){ .f64 = 4 };
	if (!call(s, "array:scale_f64", NULL, 0, values, 2))
		return false;
	for (size_t i = 0; i < a.n; i++)
		sum += a.f64[i];
	return compare(s, "array:scale_f64", &a, sum == 4 * (double)a.sum);
}

static bool run_histogram(struct soak *s, const char *task, bool doubles)
{
	enum { BINS = 16 };
	int64_t wanted[BINS] = { 0 }, outside = 0, found = -1, *counts;
	union fk_value values[4];
	struct array a;

	if (!new_array(s, &a, doubles))
		return false;
	/* Bins of 2^15 from -2^18 on: no rounding. */
	for (size_t i = 0; i < a.n; i++) {
		int64_t at = number_at(&a, i, doubles) + 262144;

		if (at >= 0 && at < BINS * 32768)
			wanted[at / 32768]++;
		else
			outside++;
	}
	counts = take(s, sizeof(wanted));
	if (!counts)
		return false;
	values[0] = a.value;
	if (doubles) {
		values[1] = (union fk_value){ .f64 = -262144.0 };
		values[2] = (union fk_value){ .f64 = 262144.0 };
	} else {
		values[1] = (union fk_value){ .i64 = -262144 };
		values[2] = (union fk_value){ .i64 = 262144 };
	}
	values[3] = as_buffer(counts, sizeof(wanted));
	return call(s, task, &found, sizeof(found), values, 4) &&
	       compare(s, task, &a, found == outside && !memcmp(counts, wanted, sizeof(wanted)));
}

static bool run_histogram_i64(struct soak *s)
{
	return run_histogram(s, "array:histogram_i64", false);
}

static bool run_histogram_f64(struct soak *s)
{
	return run_histogram(s, "array:histogram_f64", true);
}

/* ------------------------------------------------------------------------ orders */

static bool run_sort(struct soak *s, const char *task, bool doubles)
{
	bool right = true;
	int64_t sum = 0;
	struct array a;

	if (!new_array(s, &a, doubles) || !call(s, task, NULL, 0, &a.value, 1))
		return false;
	for (size_t i = 0; i < a.n; i++) {
		sum += number_at(&a, i, doubles);
		right = right && (!i || number_at(&a, i - 1, doubles) <= number_at(&a, i, doubles));
	}
	return compare(s, task, &a, right && sum == a.sum);
}

static bool run_sort_i64(struct soak *s)
{
	return run_sort(s, "sort:i64", false);
}

static bool run_sort_f64(struct soak *s)
{
	return run_sort(s, "sort:f64", true);
}

struct record {
	uint32_t serial; /* its old index */
	int32_t number;
	char text[12];
};

static struct record draw_record(struct soak *s, size_t serial)
{
	struct record record = { .serial = (uint32_t)serial };

	/* Few values, so that some are in several records. */
	record.number = (int32_t)draw(s, 1000) - 500;
	for (size_t i = 0; i < sizeof(record.text); i++)
		record.text[i] = (char)('a' + draw(s, 2));
	return record;
}

/* Returns true if a precedes b, by key, and for equal keys by the old order. */
static bool is_before(const struct record *a, const struct record *b, bool by_text)
{
	int order = by_text ? memcmp(a->text, b->text, sizeof(a->text))
			    : (a->number > b->number) - (a->number < b->number);

	return order < 0 || (order == 0 && a->serial < b->serial);
}

/* Each output record was in the input, and none is there twice: so none is missing. */
static bool run_sort_records(struct soak *s)
{
	static struct record before[SOAK_NUMBER + 1];
	size_t n = 1 + draw_size(s, SOAK_NUMBER);
	struct record *records = take(s, n * sizeof(*records));
	bool by_text = draw(s, 2), right = true;
	union fk_value values[4];

	if (!records)
		return false;
	for (size_t i = 0; i < n; i++)
		records[i] = before[i] = draw_record(s, i);
	values[0] = as_buffer(records, n * sizeof(*records));
	values[1] = (union fk_value){ .i64 = sizeof(*records) };
	values[2] = (union fk_value){ .i64 = by_text ? offsetof(struct record, text)
						     : offsetof(struct record, number) };
	values[3] = (union fk_value){ .str = by_text ? "b12" : "i32" };
	if (!call(s, "sort:records", NULL, 0, values, 4))
		return false;
	for (size_t i = 0; i < n && right; i++)
		right = records[i].serial < n &&
			!memcmp(&records[i], &before[records[i].serial], sizeof(*records)) &&
			(!i || is_before(&records[i - 1], &records[i], by_text));
	return right || wrong(s, "sort:records: wrong for %zu by %s", n, values[3].str);
}

const struct soak_row soak_arrays[] = {
	{ "array:sum_i64", run_sum_i64 },
	{ "array:sum_f64", run_sum_f64 },
	{ "array:prefix_i64", run_prefix_i64 },
	{ "array:prefix_f64", run_prefix_f64 },
	{ "array:dot_f64", run_dot },
	{ "array:minmax_i64", run_minmax_i64 },
	{ "array:minmax_f64", run_minmax_f64 },
	{ "array:stats_f64", run_stats },
	{ "array:scale_f64", run_scale },
	{ "array:histogram_i64", run_histogram_i64 },
	{ "array:histogram_f64", run_histogram_f64 },
	{ "sort:i64", run_sort_i64 },
	{ "sort:f64", run_sort_f64 },
	{ "sort:records", run_sort_records },
	{ NULL, NULL },
};
