/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdint.h>

/* Shared by the members of bench_compose: processes that run parallel jobs, each on the pool of its
 * own library, or all on one forkd. compose_member.c has the main() of each program; its side is
 * one more file: compose_forkd.c, compose_local.c, compose_omp.c or compose_tbb.cc. */

#ifdef __cplusplus
extern "C" {
#endif

#define COMPOSE_MEMBERS 64
#define COMPOSE_JOBS	16384 /* of a member, in one run */

/* The leaf of every side: an object file that is compiled once (compose_leaf.c). */
int64_t compose_leaf(int64_t i, int64_t rounds);

/* Called before the first job. socket: of the forkd; the other sides need none. */
void compose_start(const char *socket);

/* One job: the sum of the leaves 0 <= i < leaves, as a user of the library writes it. Ends the
 * program on failure. */
int64_t compose_sum(int64_t leaves, int64_t rounds);

#ifdef __cplusplus
}
#endif
