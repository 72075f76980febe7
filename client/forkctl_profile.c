/* SPDX-License-Identifier: MIT */
/*
 * client/forkctl_profile.c - forkctl profile: work, span and parallelism of a job
 *
 * WHAT IT IS
 *   Runs a task in two private forkds of one worker: as it is, for the time that it takes then, and
 *   in the mode of daemon/profile.c, which leaves work and span on the board. Prints what follows
 *   from them: parallelism, and between which bounds the speedup on P workers is (below, Brent's
 *   bound with the burdened span; above, P and the parallelism).
 *
 *	forkctl profile [OPTION...] MODULE:TASK [ARG...]
 *
 *   The job runs several times, and each interval between two looks at the clock counts with its
 *   least time, as long as the job is the same each time; then each figure is the least of all
 *   runs: what else the machine does only adds to them.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "client/forkctl_case.h"
#include "client/forkctl_option.h"
#include "common/clock.h"
#include "common/util.h"

#define PROFILE_TIMES	5u
#define PROFILE_TIME	(600 * NSEC_PER_SEC)
#define PROFILE_WORKERS 256u /* the table goes on until this at most */

/* Least of all runs, ns; shared with the processes that run the task. */
struct profile_figures {
	uint32_t runs;
	double plain;
	double work;
	double span;
	double burdened;
	double work_error;
	double span_error;
	double read;
	double read_error;
	uint64_t reads;
	uint64_t span_reads;
	double fork;
	double burden;
	uint64_t forks;
	uint64_t span_forks;
	uint64_t frames;
	uint64_t leaves;
	int varies; /* the number of forks */
};

struct profile_job {
	const char *task;
	struct forkctl_case given;
	uint32_t times;
	struct forkctl_limit timeout;
	struct forkctl_limit burden;
	int plain;
	struct profile_figures *figures;
};

const struct forkctl_option forkctl_profile_options[] = {
	{ "-n", "--repeat", "N", "how often the job runs; 5", FORKCTL_NUMBER,
	  offsetof(struct profile_job, times), 1, 1000000 },
	{ "", "--burden", "TIME", "the burden of a steal, in place of the measured one",
	  FORKCTL_TIME, offsetof(struct profile_job, burden), 1, NSEC_PER_SEC },
	{ "", "--timeout", "TIME", "how long the job may take; 10min", FORKCTL_TIME,
	  offsetof(struct profile_job, timeout), 1, UINT64_MAX },
	{ 0 },
};

static int report(const struct profile_job *job, const struct forkctl_outcome *o)
{
	struct forkctl_text text;

	if (o->outcome == FK_PENDING || o->outcome == FK_EXPIRED)
		return forkctl_fail(FORKCTL_FAILED, "%s: has not ended in time: see --timeout",
				    job->task);
	return forkctl_fail(FORKCTL_FAILED, "%s: %s", job->task, case_outcome(o, &text));
}

static double least(uint32_t runs, double so_far, double now)
{
	return runs ? min(so_far, now) : now;
}

/* Relaxed, all of it: the job's outcome was seen. */
#define LOAD(field) atomic_load_explicit(&board->field, memory_order_relaxed)

static void take_figures(struct profile_figures *f, const struct board_profile *board)
{
	double span = (double)LOAD(span_ps) / 1e3;

	f->varies |= f->runs && f->forks != LOAD(forks);
	if (!f->runs || span < f->span) {
		f->span_forks = LOAD(span_forks);
		f->span_reads = LOAD(span_reads);
	}
	f->work = least(f->runs, f->work, (double)LOAD(work_ps) / 1e3);
	f->span = least(f->runs, f->span, span);
	f->burdened = least(f->runs, f->burdened, (double)LOAD(burdened_ps) / 1e3);
	f->burden = least(f->runs, f->burden, (double)LOAD(burden_ps) / 1e3);
	f->reads = LOAD(reads);
	f->read_error = (double)LOAD(read_error_ps) / 1e3;
	f->read = (double)LOAD(read_ps) / 1e3;
	f->fork = (double)LOAD(fork_ps) / 1e3;
	f->forks = LOAD(forks);
	f->frames = LOAD(frames);
	f->leaves = LOAD(leaves);
	f->runs++;
}

/* There is one worker. Relaxed: a statistic, of a job that has ended. */
static bool profile_has_fibers(const fk_client *client)
{
	return atomic_load_explicit(&client->board->counters[0].fibers, memory_order_relaxed);
}

/* In the process that talks to the forkd. */
static int run_job(const char *socket, void *context)
{
	const struct profile_job *job = context;
	struct profile_figures *f = job->figures;
	struct forkctl_call_values call;
	uint32_t times = job->times;
	fk_client *client;
	int err = forkctl_open(socket, 1, case_heap(&job->given), &client);

	if (err)
		return err;
	err = case_open(&job->given, client, job->task, &call);
	/* The first run warms up what it needs. */
	for (uint32_t i = 0; !err && i <= times; i++) {
		const struct board_profile *board = &client->board->profile;
		uint64_t before = LOAD(jobs);
		struct forkctl_outcome o;

		err = case_run(&job->given, &call, job->timeout.ns, &o);
		if (err)
			err = forkctl_fail(FORKCTL_FAILED, "%s: %s", job->task, fk_strerror(err));
		else if (o.outcome != FK_DONE)
			err = report(job, &o);
		else if (job->plain)
			f->plain = least(i, f->plain, (double)o.run_ns);
		else if (LOAD(jobs) == before && f->varies++)
			err = forkctl_fail(FORKCTL_FAILED, "%s: %s", job->task,
					   profile_has_fibers(client)
						   ? "it runs fibers, which are not measured"
						   : "no memory for its profile");
		else if (LOAD(jobs) == before)
			times++; /* it had other intervals: from now on each job has its own */
		else if (i)
			take_figures(f, board);
	}
	(void)fk_close(client);
	return err;
}

static int run_session(struct profile_job *job)
{
	char mode[32], burden[64];
	char workers[] = "--workers=1", stop[] = "--stop-timeout=100ms";
	char total[] = "--memory-total=16T", memory[] = "--memory-max=4G", heap[] = "--heap-max=2G";
	char *options[] = { mode, workers, burden, stop, total, memory, heap };

	(void)snprintf(mode, sizeof(mode), "--fork-mode=%s", job->plain ? "normal" : "profile");
	(void)snprintf(burden, sizeof(burden), "--fork-burden=%" PRIu64 "ns", job->burden.ns);
	return forkctl_with_forkd(ARRAY_SIZE(options), options, run_job, job);
}

/* ------------------------------------------------------------------------ what is printed */

static void print_time(const char *name, double ns, double error, const char *what)
{
	struct forkctl_text text[2];

	printf("%-22s %10s", name, forkctl_time(&text[0], (uint64_t)(ns + 0.5)));
	if (error > 0)
		printf("  +- %s", forkctl_time(&text[1], (uint64_t)(error + 0.5)));
	printf("%s%s\n", *what ? "  " : "", what);
}

static double ratio(double a, double b)
{
	return b > 0 ? a / b : 0;
}

/*
 * What a look at the clock costs among the instructions of this very job shows in the whole, for
 * its work without the instrument is known: within its error the cost is set right by that. What is
 * left as error is as much again.
 */
static void settle(struct profile_figures *f)
{
	double most = f->read_error;
	double off = f->reads ? (f->work - f->plain) / (double)f->reads : 0;

	off = max(min(off, most), -most);
	f->work -= off * (double)f->reads;
	f->span = max(f->span - off * (double)f->span_reads, (double)f->span_forks * f->fork);
	f->burdened = max(f->burdened - off * (double)f->span_reads, f->span);
	f->work_error = (off < 0 ? -off : off) * (double)f->reads;
	f->span_error = (off < 0 ? -off : off) * (double)f->span_reads;
}

static void print_figures(const struct profile_figures *f)
{
	struct forkctl_text text;
	double parallelism = max(ratio(f->work, f->span), 1.0);
	char plain[64];

	(void)snprintf(plain, sizeof(plain), "(%s as it runs on one worker)",
		       forkctl_time(&text, (uint64_t)f->plain));
	print_time("work T1", f->work, f->work_error, plain);
	print_time("span Tinf", f->span, f->span_error, "");
	printf("%-22s %10.2f\n", "parallelism T1/Tinf", parallelism);
	print_time("burdened span", f->burdened, 0, "");
	printf("%-22s %10.2f\n", "burdened parallelism", max(ratio(f->work, f->burdened), 0.0));
	printf("%-22s %10" PRIu64 "  %" PRIu64 " on the span%s\n", "forks", f->forks, f->span_forks,
	       f->varies ? "; not the same in each run" : "");
	printf("%-22s %10" PRIu64 "  %" PRIu64 " with a frame, %" PRIu64 " forked without\n",
	       "tasks", f->frames + f->leaves, f->frames, f->leaves);
	printf("%-22s %7.2f ns\n", "charged for a fork", f->fork);
	print_time("burden of a steal", f->burden, 0, "");
	printf("\n%-10s %s\n", "workers", "speedup");
	for (uint32_t p = 1; p <= PROFILE_WORKERS; p *= 2) {
		double low = ratio(f->work, f->work / p + f->burdened);

		printf("%-10" PRIu32 " %.2f to %.2f\n", p, min(low, (double)p),
		       min((double)p, parallelism));
		/* One line beyond what more workers could be of use for. */
		if (p >= 16 && p > 2 * parallelism)
			break;
	}
	if (f->work_error > f->work / 2)
		printf("\nThe tasks are shorter than a look at the clock (%.1f ns): T1 and Tinf "
		       "are "
		       "rough, their ratio less so.\n",
		       f->read);
}

/* ------------------------------------------------------------------------ the command line */

static int parse_command_line(struct profile_job *job, int argc, char *argv[])
{
	int err = forkctl_options(forkctl_profile_options, job, &argc, argv);

	if (err)
		return err;
	if (argc < 2)
		return forkctl_fail(FORKCTL_USAGE,
				    "profile which task? `forkctl session -- forkctl tasks` lists "
				    "them all");
	job->task = argv[1];
	if (!strchr(job->task, ':'))
		return forkctl_fail(FORKCTL_USAGE, "a task is called MODULE:TASK, not %s",
				    job->task);
	return forkctl_args_init(&job->given.args, argv + 2, (uint32_t)argc - 2);
}

/* As it is, then in the mode that measures. */
static int measure(struct profile_job *job)
{
	int status;

	job->figures = mmap(NULL, sizeof(*job->figures), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (job->figures == MAP_FAILED)
		return forkctl_fail(FORKCTL_FAILED, "out of memory");
	job->plain = 1;
	status = run_session(job);
	job->plain = 0;
	if (!status)
		status = run_session(job);
	if (!status) {
		settle(job->figures);
		print_figures(job->figures);
	}
	(void)munmap(job->figures, sizeof(*job->figures));
	return status;
}

int forkctl_profile(const char *socket, int argc, char *argv[])
{
	struct profile_job job = { .times = PROFILE_TIMES, .timeout.ns = PROFILE_TIME };
	int status;

	if (socket)
		return forkctl_fail(FORKCTL_USAGE,
				    "profile starts a forkd of its own: leave --socket out");
	status = parse_command_line(&job, argc, argv);
	if (!status)
		status = measure(&job);
	forkctl_args_fini(&job.given.args);
	return status;
}
