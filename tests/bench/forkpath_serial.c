/* SPDX-License-Identifier: MIT */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/*
 * Purpose
 *   The serial function with which tests/bench/forkpath compares a fork:
 *
 *       forkpath_serial N [REPEAT]
 *
 *   prints the minimum time of all runs, in nanoseconds. Built without inlining, so that each task
 *   is a call.
 */

static int64_t fib(int64_t n)
{
	int64_t x;
	int64_t y;

	if (n < 2)
		return n;
	x = fib(n - 1);
	y = fib(n - 2);
	return x + y;
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

int main(int argc, char **argv)
{
	long repeat = argc > 2 ? strtol(argv[2], NULL, 10) : 1;
	uint64_t least = UINT64_MAX;
	volatile int64_t n;

	if (argc < 2 || argc > 3) {
		fprintf(stderr, "usage: %s N [REPEAT]\n", argv[0]);
		return 2;
	}
	n = strtol(argv[1], NULL, 10);
	for (long i = 0; i < repeat; i++) {
		uint64_t began = now_ns();
		volatile int64_t result = fib(n);
		uint64_t took = now_ns() - began;

		(void)result;
		least = took < least ? took : least;
	}
	printf("%llu\n", (unsigned long long)least);
	return 0;
}
