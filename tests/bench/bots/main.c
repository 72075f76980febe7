/* SPDX-License-Identifier: MIT */
/*
 * bots/main.c - runs one kernel twice: KERNEL_LIBRARY SIZE THREADS
 *
 * Prints a line of JSON about the second run. The first one starts the threads, and writes to the
 * memory once. Exit status 1: a result is wrong.
 */
#include <inttypes.h>
#include <limits.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/clock.h"
#include "tests/bench/bots/bots.h"

#define KEPT (32 << 20) /* bytes of a block that malloc() maps on its own, at least */

int main(int argc, char **argv)
{
	uint64_t result = 0;
	uint64_t ns = 0;

	if (argc < 3)
		return 2;
	/* Freed memory keeps its pages. Otherwise the page faults of a kernel depend on what the
	 * library happens to allocate behind it. A sanitizer's malloc() refuses both. */
	(void)mallopt(M_MMAP_THRESHOLD, KEPT);
	(void)mallopt(M_TRIM_THRESHOLD, INT_MAX);
	for (int run = 0; run < 2; run++) {
		uint64_t began;

		bots_prepare(atoi(argv[1]));
		began = clock_ns();
		bots_run(atoi(argv[2]));
		ns = clock_ns() - began;
		result = bots_result();
		if (!result) {
			fputs("the result is wrong\n", stderr);
			return 1;
		}
	}
	printf("{\"seconds\": %.6f, \"result\": \"%016" PRIx64 "\"}\n", (double)ns / NSEC_PER_SEC,
	       result);
	return 0;
}
