/* SPDX-License-Identifier: MIT */
/* bench_pool.h - a private forkd of this build tree for one benchmark program */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <forkd/client.h>

/* Directory of the build tree from which the daemon loads its modules. */
#define BENCH_MODULES_SHIPPED "daemon/modules/.libs"	  /* fib, integrate, nqueens, uts ... */
#define BENCH_MODULES_TEST    "tests/bench/modules/.libs" /* modules that are not shipped */
#define BENCH_MODULES_COUNTED "tests/bench/modules/counted/.libs" /* fib, flat that count forks */

struct bench_pool {
	char directory[64]; /* its temporary directory; empty: there is none */
	char socket[96];
	char notify[96];
	pid_t manager; /* 0: not running */
};

/* Starts forkd with this many workers and waits until it is ready. $FORKD_BIN overrides the forkd
 * of this build tree, which is found from /proc/self/exe. On failure it ends the program with
 * status 1 and a line on stderr. The daemon always ends with this program. */
void bench_pool_start(struct bench_pool *pool, const char *modules, int workers);

/* The same with one more option of forkd, as --name=value. */
void bench_pool_start_with(struct bench_pool *pool, const char *modules, int workers,
			   const char *option);

/* The same with its own defaults: a worker on each core, the usual limits. */
void bench_pool_start_plain(struct bench_pool *pool, const char *modules);

/* Writes the path of a program of this build tree, which is found from /proc/self/exe. */
void bench_pool_path(char *ret_path, size_t size, const char *program);

/* Stops the daemon, waits until manager and pool have ended, removes the directory. May be called
 * twice. */
void bench_pool_stop(struct bench_pool *pool);

/* Connects; n_jobs and heap_size as in struct fk_open_options. Ends the program on failure. */
fk_client *bench_pool_open(const struct bench_pool *pool, uint32_t n_jobs, uint64_t heap_size);

/* Finds a task or ends the program. */
const fk_task *bench_pool_task(fk_client *client, const char *name);

/* Submits, waits, copies the result (size bytes) and releases. If the job is not DONE, prints its
 * outcome and ends the program. */
void bench_pool_call(fk_client *client, const fk_task *task, const union fk_value *values, size_t n,
		     void *result, size_t size);

/* Returns the sum over all workers of a counter of shm/counters.def, by its name. */
uint64_t bench_pool_counter(fk_client *client, const char *name);

/* The process that runs the workers. */
pid_t bench_pool_pid(fk_client *client);

/* Returns the PSS of the pool process now, in KiB; -1 if it cannot be read. */
int64_t bench_pool_pss(fk_client *client);

/* Returns the peak resident set of the pool process, in KiB; -1 if it cannot be read. */
int64_t bench_pool_rss_peak(fk_client *client);

/* Returns the resident set of the pool process now. */
int64_t bench_pool_rss(fk_client *client);

/* Returns the peak resident set of the manager process. */
int64_t bench_pool_manager_rss(const struct bench_pool *pool);

/* Samples the PSS of the pool every 20 ms on a separate thread, until stopped. */
void bench_pool_sample_start(fk_client *client);
/* Stops it; returns the maximum, including the last sample. */
int64_t bench_pool_sample_stop(void);

/* Ends the program with status 1 and this line, after stopping the daemon. */
void bench_die(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
