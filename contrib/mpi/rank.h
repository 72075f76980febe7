/* SPDX-License-Identifier: MIT */
#pragma once

#include <forkd/pool.h>
#include <stdbool.h>
#include <stdint.h>

/* What the programs in this directory share: options, the pool of a rank, errors. See rank.c. */

/* An option of a program: --NAME=VALUE. */
struct rank_option {
	const char *name;
	const char **value; /* its default, then its value */
};

/* This process. */
struct rank {
	int rank;
	int size;		   /* number of ranks */
	const char *pool, *module; /* options; module NULL: the default */
	uint32_t workers;	   /* option */
	fk_client *client;	   /* of the pool; NULL with --pool=none */
	const fk_task *task;
};

/*
 * Starts MPI and reads the options.
 * help: text of --help, without the options that all programs have.
 * options: those of the program; the last one has the name NULL.
 * with_none: the program has --pool=none.
 * If the options are --help or malformed it ends the program.
 */
struct rank rank_start(int argc, char *argv[], const char *help, const struct rank_option *options,
		       bool with_none);

/*
 * Opens the pool and finds a task.
 * module: file with the task, if --module is not given. task: its name. heap: bytes of
 * rank_alloc().
 */
void rank_open(struct rank *rank, const char *module, const char *task, uint64_t heap);

/* Closes the pool and ends MPI. */
void rank_end(struct rank *rank);

/* Reports that the options are wrong, on rank 0, and ends all ranks with status 2. */
void rank_usage(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* Reads the number of an option, from min to max; else rank_usage(). */
int64_t rank_number(const char *name, const char *text, int64_t min, int64_t max);

/* Reports which rank failed and why, and ends the job: MPI_Abort(). */
void rank_fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* rank_fail() if a function of MPI failed. what: "receive a message". */
void rank_check(int err, const char *what);

/* rank_fail() if a function of forkd failed. */
void rank_check_pool(int err, const char *what);

/* Memory of fk_alloc(), or of malloc() with --pool=none. */
void *rank_alloc(struct rank *rank, size_t size);
void rank_free(struct rank *rank, void *data);

/* Gets the result of a job that has ended and releases it; rank_fail() if it is not DONE. */
void rank_result(struct rank *rank, fk_job job, void *result, size_t size);
