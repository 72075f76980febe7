/* SPDX-License-Identifier: MIT */
/*
 * tests/bench/figures.c - numbers that benchmark programs read and print
 *
 * WHAT IT IS
 *   Numbers of the command line, and quantiles of what was measured, as members of a JSON object.
 *
 * WHO CALLS IT, ON WHICH THREAD
 *   Any thread, on numbers of its own.
 */
#include "tests/bench/figures.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

int64_t figures_number(const char *arg, int64_t low, int64_t high)
{
	char *end;
	long long value;

	errno = 0;
	value = strtoll(arg ? arg : "", &end, 10);
	if (!arg || end == arg || *end || errno || value < low || value > high) {
		fprintf(stderr, "'%s' is not a number from %lld to %lld\n", arg ? arg : "",
			(long long)low, (long long)high);
		exit(2);
	}
	return value;
}

uint64_t *figures_new(size_t n)
{
	uint64_t *values = calloc(n, sizeof(*values));

	if (!values) {
		fputs("out of memory\n", stderr);
		exit(1);
	}
	return values;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a;
	uint64_t y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

void figures_sort(uint64_t *values, size_t n)
{
	qsort(values, n, sizeof(*values), compare);
}

uint64_t figures_quantile(const uint64_t *sorted, size_t n, double q)
{
	return sorted[(size_t)(q * (double)(n - 1) + 0.5)];
}

void figures_print(const char *name, uint64_t *times, size_t n)
{
	figures_sort(times, n);
	printf(", \"%s\": {\"p50\": %llu, \"p99\": %llu, \"p999\": %llu, \"max\": %llu}", name,
	       (unsigned long long)figures_quantile(times, n, 0.5),
	       (unsigned long long)figures_quantile(times, n, 0.99),
	       (unsigned long long)figures_quantile(times, n, 0.999),
	       (unsigned long long)figures_quantile(times, n, 1));
}
