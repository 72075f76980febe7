/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "modules/uts_tree.h"
#include "tests/bench/kernel.h"

/* The common part of the programs of `make bench`: see peer.c. */

#ifdef __cplusplus
extern "C" {
#endif

/* One fork-join library: its name and each benchmark of work.h written for it. */
struct peer {
	const char *name;
	void (*start)(int threads); /* once, before the first run; may be NULL */
	int64_t (*fib)(int64_t n);
	void (*flat)(uint32_t *out, int64_t n, int64_t rounds);
	double (*integrate)(double n, double eps);
	int64_t (*nqueens)(int32_t n);
	struct uts_count (*uts)(const struct uts_tree *tree);
	void (*sort)(int64_t *a, int64_t *tmp, int64_t n); /* the result is in a */
	void (*matmul)(const float *a, const float *b, float *c, int64_t n);
	int64_t (*steps)(struct kernel_job *job); /* see kernel.c; job may be changed */
	int64_t (*blocks)(int64_t n);		  /* see blocks.h */

	/* A parallel loop as a user writes it: calls body for parts that cover 0 <= i < n. Within a
	 * body as well. NULL: the library has none. */
	void (*range)(int64_t n, void (*body)(int64_t first, int64_t last, void *context),
		      void *context);
	void (*stop)(void); /* after the last run: ends the threads; may be NULL */

	/* For peers that are compared with fibers (fiber_work.h); NULL for the others. */
	int64_t (*cut_fib)(int64_t n, int64_t cutoff);
	int64_t (*cut_nqueens)(int32_t n, int32_t rows);

	/* Only for a peer whose tasks run in another process; all NULL for the others. */
	void (*prepare)(const char *bench, size_t bytes); /* arrays of this total size follow */
	void *(*alloc)(size_t bytes);			  /* memory for an array */
	void (*release)(void *mem);
	/* Called after each timed run: writes more members of its JSON object. */
	void (*note)(char *ret, size_t size);
	/* Called around one more run, which is not timed: the same, for all runs. */
	void (*watch)(bool begin, char *ret, size_t size);
};

/* Stack of each thread that runs tasks, in MiB: T3L is 17844 calls deep, waits nest deeper. */
#define PEER_STACK_MIB 512

/* The whole of main(): options, runs, checks, one line of JSON per run. Exit status. */
int peer_main(const struct peer *peer, int argc, char **argv);

#ifdef __cplusplus
}
#endif
