/* SPDX-License-Identifier: MIT */
/* figures.h - numbers that benchmark programs read and print */
#pragma once

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* A whole number of the command line. Returns 0, or -EINVAL after a line on stderr if it is none
 * from low to high. */
static inline int figures_read(const char *arg, int64_t low, int64_t high, int64_t *ret_value)
{
	char *end;
	long long value;

	errno = 0;
	value = strtoll(arg ? arg : "", &end, 10);
	if (!arg || end == arg || *end || errno || value < low || value > high) {
		fprintf(stderr, "'%s' is not a number from %lld to %lld\n", arg ? arg : "",
			(long long)low, (long long)high);
		return -EINVAL;
	}
	*ret_value = value;
	return 0;
}

/* The same, but ends the program with status 2. */
int64_t figures_number(const char *arg, int64_t low, int64_t high);

/* An option --name, which takes a number from low to high. */
struct figures_option {
	const char *name;
	uint32_t low, high;
	uint32_t *value;
};

#define FIGURES_OPTIONS 8u

/* A command line of nothing but these, up to one without a name; at most FIGURES_OPTIONS. Sets the
 * values that are named. Ends the program with status 2 if there is anything else. */
void figures_options(int argc, char **argv, const struct figures_option *options);

/* Room for n objects of this size, zeros. Ends the program if there is none. */
static inline void *figures_alloc(size_t n, size_t size)
{
	void *memory = calloc(n, size);

	if (!memory) {
		fputs("out of memory\n", stderr);
		exit(1);
	}
	return memory;
}

static inline uint64_t *figures_new(size_t n)
{
	return figures_alloc(n, sizeof(uint64_t));
}

/* Sorts n numbers, upwards. */
void figures_sort(uint64_t *values, size_t n);

/* Of n > 0 sorted numbers the one that a share q (0 to 1) of them does not pass. */
uint64_t figures_quantile(const uint64_t *sorted, size_t n, double q);

/* Sorts n > 0 times and prints `, "name": {"p50": ..., "p99": ..., "p999": ..., "max": ...}`. */
void figures_print(const char *name, uint64_t *times, size_t n);

/* How many rounds of work_leaf() take so long when nothing else runs. */
int64_t figures_rounds(uint64_t ns);
