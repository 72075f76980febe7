/* SPDX-License-Identifier: MIT */
#include "contrib/mpi/rank.h"

#include <errno.h>
#include <getopt.h>
#include <mpi.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * Purpose
 *   Start and end of a rank, and its errors. A rank that cannot continue prints which rank it is,
 *   on which machine, and why. MPI_Abort() then ends all ranks, and mpirun exits with status 1. If
 *   a rank is killed mpirun itself prints its number and signal, and ends the others.
 *
 * Threads
 *   Only the main thread calls MPI, while the workers of the pool run tasks: MPI_THREAD_FUNNELED.
 */

#define OPTIONS_MAX 8

static const char common_help[] =
	"  --pool=local|machine   pool within a rank: its own, or the forkd of the machine\n"
	"  --workers=N            workers of the local pool; 0: one for each core of the rank\n"
	"  --module=FILE          module of the local pool\n"
	"  --help                 prints this text\n";
static const char none_help[] = "  --pool=none            no pool: plain MPI, one thread\n";

static const char *program = "mpi";

static int my_rank(void)
{
	int rank = 0;

	(void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	return rank;
}

static void stop(int status) __attribute__((noreturn));
static void stop(int status)
{
	(void)MPI_Finalize();
	exit(status);
}

void rank_usage(const char *format, ...)
{
	va_list list;

	if (!my_rank()) {
		va_start(list, format);
		fprintf(stderr, "%s: ", program);
		vfprintf(stderr, format, list);
		fprintf(stderr, "; --help lists the options\n");
		va_end(list);
	}
	stop(2);
}

void rank_fail(const char *format, ...)
{
	char machine[MPI_MAX_PROCESSOR_NAME] = "?";
	int length, size = 1;
	char text[512];
	va_list list;

	va_start(list, format);
	(void)vsnprintf(text, sizeof(text), format, list);
	va_end(list);
	(void)MPI_Get_processor_name(machine, &length);
	(void)MPI_Comm_size(MPI_COMM_WORLD, &size);
	fprintf(stderr, "%s: rank %d of %d on %s, process %d: %s\n", program, my_rank(), size,
		machine, (int)getpid(), text);
	(void)MPI_Abort(MPI_COMM_WORLD, 1);
	_exit(1);
}

void rank_check(int err, const char *what)
{
	char text[MPI_MAX_ERROR_STRING] = "?";
	int length;

	if (!err)
		return;
	(void)MPI_Error_string(err, text, &length);
	rank_fail("cannot %s: %s", what, text);
}

void rank_check_pool(int err, const char *what)
{
	if (err)
		rank_fail("cannot %s: %s", what, fk_strerror(err));
}

int64_t rank_number(const char *name, const char *text, int64_t min, int64_t max)
{
	char *end;
	long long value;

	errno = 0;
	value = strtoll(text, &end, 10);
	if (end == text || *end || errno || value < min || value > max)
		rank_usage("--%s: '%s' is not a number from %lld to %lld", name, text,
			   (long long)min, (long long)max);
	return value;
}

static void parse(int argc, char *argv[], const char *help, const struct rank_option *options,
		  const struct rank_option *common, bool with_none)
{
	const struct rank_option *all[OPTIONS_MAX];
	struct option list[OPTIONS_MAX + 2] = { { "help", no_argument, NULL, 'h' } };
	int n = 0, found, which = 0;

	for (; options->name; options++)
		all[n++] = options;
	for (; common->name; common++)
		all[n++] = common;
	for (int i = 0; i < n; i++)
		list[i + 1] = (struct option){ all[i]->name, required_argument, NULL, 'v' };
	opterr = 0;
	while ((found = getopt_long(argc, argv, "", list, &which)) != -1) {
		if (found == 'h') {
			if (!my_rank())
				printf("%s%s%s", help, common_help, with_none ? none_help : "");
			stop(0);
		}
		if (found != 'v')
			rank_usage("unknown option, or an option without its value: '%s'",
				   argv[optind - 1]);
		*all[which - 1]->value = optarg;
	}
	if (optind < argc)
		rank_usage("unexpected argument '%s'", argv[optind]);
}

struct rank rank_start(int argc, char *argv[], const char *help, const struct rank_option *options,
		       bool with_none)
{
	struct rank rank = { .pool = "local" };
	const char *workers = "0";
	const struct rank_option common[] = { { "pool", &rank.pool },
					      { "workers", &workers },
					      { "module", &rank.module },
					      { NULL, NULL } };
	int level;

	program = program_invocation_short_name;
	if (MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level)) {
		fprintf(stderr, "%s: cannot start MPI\n", program);
		exit(1);
	}
	(void)MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	rank_check(MPI_Comm_rank(MPI_COMM_WORLD, &rank.rank), "find its rank");
	rank_check(MPI_Comm_size(MPI_COMM_WORLD, &rank.size), "find the number of ranks");
	if (level < MPI_THREAD_FUNNELED)
		rank_fail("this MPI does not support threads (MPI_THREAD_FUNNELED)");
	parse(argc, argv, help, options, common, with_none);
	if (strcmp(rank.pool, "local") && strcmp(rank.pool, "machine") &&
	    !(with_none && !strcmp(rank.pool, "none")))
		rank_usage("--pool: '%s' is not local%s", rank.pool,
			   with_none ? ", machine or none" : " or machine");
	rank.workers = (uint32_t)rank_number("workers", workers, 0, 256);
	if (strcmp(rank.pool, "local") && (rank.workers || rank.module))
		rank_usage("--workers and --module are for --pool=local");
	return rank;
}

void rank_open(struct rank *rank, const char *module, const char *task, uint64_t heap)
{
	bool local = !strcmp(rank->pool, "local");
	int err;

	if (!strcmp(rank->pool, "none"))
		return;
	if (local)
		err = fk_open_local(&(const struct fk_local_options){ .workers = rank->workers,
								      .heap_size = heap },
				    &rank->client);
	else
		err = fk_open(NULL, NULL, &rank->client);
	if (err)
		rank_fail("cannot open the pool: %s", fk_error_text());
	if (local && fk_load(rank->client, rank->module ? rank->module : module))
		rank_fail("cannot load the module: %s", fk_error_text());
	if (fk_task_find(rank->client, task, &rank->task))
		rank_fail("cannot find the task: %s", fk_error_text());
}

void rank_end(struct rank *rank)
{
	rank_check_pool(fk_close(rank->client), "close the pool");
	(void)MPI_Finalize();
}

void *rank_alloc(struct rank *rank, size_t size)
{
	void *data = NULL;

	if (!rank->client)
		data = malloc(size ? size : 1);
	else if (fk_alloc(rank->client, size ? size : 1, &data))
		rank_fail("no memory: %s", fk_error_text());
	if (!data)
		rank_fail("no memory: %zu bytes", size);
	return data;
}

void rank_free(struct rank *rank, void *data)
{
	if (rank->client)
		(void)fk_free(rank->client, data);
	else
		free(data);
}

void rank_result(struct rank *rank, fk_job job, void *result, size_t size)
{
	int outcome = fk_outcome(rank->client, job, NULL, NULL);

	if (fk_result(rank->client, job, result, size))
		rank_fail("the job ended as %s: %s", fk_outcome_name(outcome), fk_error_text());
	rank_check_pool(fk_release(rank->client, job), "release a job");
}
