/* SPDX-License-Identifier: MIT */
/* tests/bench/figures.h - numbers that benchmark programs read and print */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* A whole number of the command line. Ends the program with status 2 if it is none from low to
 * high. */
int64_t figures_number(const char *arg, int64_t low, int64_t high);

/* Room for n numbers, zeros. Ends the program if there is none. */
uint64_t *figures_new(size_t n);

/* Sorts n numbers, upwards. */
void figures_sort(uint64_t *values, size_t n);

/* Of n > 0 sorted numbers the one that a share q (0 to 1) of them does not pass. */
uint64_t figures_quantile(const uint64_t *sorted, size_t n, double q);

/* Sorts n > 0 times and prints `, "name": {"p50": ..., "p99": ..., "p999": ..., "max": ...}`. */
void figures_print(const char *name, uint64_t *times, size_t n);
