/* SPDX-License-Identifier: MIT */
#pragma once

#include "tests/bench/peer.h"

/* Shared by peer.c, peer_loops.c and peer_steps.c: one run of a benchmark, and its outcome. */

struct run {
	const struct peer *peer;
	const char *bench;
	char **args; /* NULL at the end */
	int threads;
	int repeat;
	int status;    /* exit status */
	long base_kib; /* peak memory before the benchmark: the library has its threads then */
};

struct outcome {
	char result[64];
	const char *wrong; /* NULL: the result is right */
	char extra[256];   /* more members of the JSON object */
	char noted[256];   /* the same, from the peer */
	double seconds;
	int64_t tasks;
};

/* Stores a result, and the error if it is not the expected one. */
void peer_check(struct outcome *out, int64_t result, int64_t expected, const char *wrong);

/* Returns the seconds of a clock that is never set. */
double peer_now(void);

/* Returns memory whose pages are populated; ends the program if there is none. */
void *peer_touched(const struct peer *peer, size_t bytes);
void peer_untouched(const struct peer *peer, void *mem);

/* Fills in n numbers to be sorted; returns a sum over them that is independent of their order. */
uint64_t peer_sort_fill(int64_t *numbers, int64_t n);
/* Checks that these are the same numbers, in order; stores an error in `out`. */
void peer_sort_check(const int64_t *numbers, int64_t n, uint64_t sum, struct outcome *out);

/* Benchmarks with arrays and steps; -EINVAL for wrong arguments. */
int peer_run_matmul(struct run *run, struct outcome *out);
int peer_run_loop(struct run *run, struct outcome *out);
int peer_run_heat(struct run *run, struct outcome *out);
int peer_run_bfs(struct run *run, struct outcome *out);
int peer_run_mergesort(struct run *run, struct outcome *out);
int peer_run_moves(struct run *run, struct outcome *out);

/* Loops over plain functions; -EINVAL for wrong arguments. */
int peer_run_each(struct run *run, struct outcome *out);
int peer_run_nest(struct run *run, struct outcome *out);
int peer_run_empty(struct run *run, struct outcome *out);

/* The start of the library, or its memory when idle: prints its own line. Returns the exit status.
 * Before any other use of the library. */
int peer_run_start(const struct run *run);

/* Returns the bytes of all arrays that one of them needs; 0: it is none of them. steps: its second
 * argument. */
size_t peer_steps_bytes(const char *bench, int64_t n, int64_t steps);
