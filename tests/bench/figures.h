/* SPDX-License-Identifier: MIT */
/* figures.h - numbers that benchmark programs read and print */
#pragma once

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Reads a whole number of the command line. Returns 0; or prints an error and returns -EINVAL if it
 * is not in low to high. */
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

/* Parses a command line that has only these options, at most FIGURES_OPTIONS; the last has no name.
 * Sets the given values. Ends the program with status 2 on any other argument. */
void figures_options(int argc, char **argv, const struct figures_option *options);

/* Returns zeroed memory for n objects of this size; ends the program if there is none. */
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

/* Returns the quantile q (0 to 1) of n > 0 sorted numbers. */
uint64_t figures_quantile(const uint64_t *sorted, size_t n, double q);

/* Sorts n > 0 times and prints `, "name": {"p50": ..., "p99": ..., "p999": ..., "max": ...}`. */
void figures_print(const char *name, uint64_t *times, size_t n);

/* Returns how many rounds of work_leaf() take this time on an idle machine. */
int64_t figures_rounds(uint64_t ns);
