/* SPDX-License-Identifier: MIT */
/*
 * profile.c - forkctl profile: work, span and parallelism of a job
 *
 * Runs a task in private forkds: unchanged on one worker, unchanged on all workers, and measured by
 * daemon/core/work_span.c, which stores work and span on the board. Prints the parallelism and
 * bounds of the speedup on P workers. The lower bound is Brent's with the burdened span; the upper
 * bound is the minimum of P and the parallelism.
 *
 *	forkctl profile [OPTION...] MODULE:TASK [ARG...] | FILE.so TASK [ARG...]
 *
 * The job runs several times. Each interval between two reads of the clock counts with its minimum,
 * if all runs have the same intervals. Each figure is the minimum of all runs, because other
 * activity of the machine only adds to it.
 *
 * The three ways to run the job should use the same CPU time. If they do not, each runs once more
 * with samples of the tasks that use it (daemon/core/sample.c), and the tasks that differ are
 * named.
 */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "client/forkctl/case.h"
#include "client/forkctl/child_command.h"
#include "client/forkctl/common.h"
#include "client/forkctl/forkctl.h"
#include "client/forkctl/options.h"
#include "client/lib/client_state.h"
#include "common/clock.h"
#include "common/relaxed.h"
#include "common/util.h"

#define PROFILE_TIMES	5u
#define PROFILE_TIME	(600 * NSEC_PER_SEC)
#define PROFILE_WORKERS 256u /* maximum in the last line of the table */

/* Maximum error of the CPU time that a job is charged, per worker: ns. */
#define PROFILE_BLUR_NS	    (5.0 * NSEC_PER_MSEC)
#define PROFILE_SETTLE_TIME (30 * NSEC_PER_SEC) /* maximum wait until workers have left a job */

#define PROFILE_SAMPLES	    240u		/* samples for each way to run the job */
#define PROFILE_SAMPLE_CPU  (5 * NSEC_PER_SEC)	/* CPU time of jobs after which sampling ends */
#define PROFILE_SAMPLE_TIME (60 * NSEC_PER_SEC) /* wall time after which sampling ends */
#define PROFILE_SLOW	    2.0			/* slowdown from which a task is reported */

enum profile_way {
	PROFILE_STOLEN, /* on one worker, every fork treated as stolen: measured */
	PROFILE_ONE,	/* on one worker */
	PROFILE_ALL,	/* on all workers */
	PROFILE_WAYS,
};

struct profile_task {
	char name[sizeof(((struct board_sample *)NULL)->task)];
	uint64_t samples[PROFILE_WAYS];
};

/* Minimum of all runs, ns; shared with the processes that run the task. */
struct profile_figures {
	uint32_t runs;
	double plain; /* run time on one worker */
	double all;   /* CPU time on all workers */
	uint32_t workers;
	double ran;  /* sum of all run times on one worker */
	double idle; /* part of ran without a CPU */
	struct profile_task tasks[BOARD_SAMPLES];
	uint32_t n_tasks;
	uint64_t samples[PROFILE_WAYS];
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
	int varies; /* the number of forks differs between runs */
};

struct profile_job {
	const char *task;
	char directory[256]; /* with a link to FILE.so, or empty */
	struct forkctl_case given;
	uint32_t times;
	struct forkctl_limit timeout;
	struct forkctl_limit burden;
	enum profile_way way;
	int samples; /* only take samples */
	struct profile_figures *figures;
};

const struct forkctl_option forkctl_profile_options[] = {
	{ "-n", "--repeat", "N", "Run the job N times (default: 5)", FORKCTL_NUMBER,
	  offsetof(struct profile_job, times), 1, 1000000 },
	{ "", "--burden", "TIME", "Use this burden of a steal (default: measured)", FORKCTL_TIME,
	  offsetof(struct profile_job, burden), 1, NSEC_PER_SEC },
	{ "", "--timeout", "TIME", "Time limit of each run (default: 10min)", FORKCTL_TIME,
	  offsetof(struct profile_job, timeout), 1, UINT64_MAX },
	{ 0 },
};

static int report(const struct profile_job *job, const struct forkctl_outcome *o)
{
	struct forkctl_text text;

	if (o->outcome == FK_PENDING || o->outcome == FK_EXPIRED)
		return forkctl_fail(FORKCTL_FAILED,
				    "%s: time limit exceeded: use a longer --timeout", job->task);
	return forkctl_fail(FORKCTL_FAILED, "%s: %s", job->task, case_outcome(o, &text));
}

static double least(uint32_t runs, double so_far, double now)
{
	return runs ? min(so_far, now) : now;
}

/* Relaxed, all of it: the job's outcome was seen. */
#define LOAD(field) load_relaxed(&board->field)

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

/* For a forkd with one worker. Relaxed: a statistic of a job that has ended. */
static bool profile_has_fibers(const fk_client *client)
{
	return load_relaxed(&client->board->counters[0].fibers);
}

/* Counts a run of the unchanged task. For a short run on one worker the wall time is more exact
 * than the CPU time. */
static void take_time(struct profile_figures *f, enum profile_way way, uint32_t i, double run,
		      double cpu)
{
	if (way == PROFILE_ALL) {
		f->all = least(i, f->all, cpu);
		return;
	}
	if (run <= cpu + PROFILE_BLUR_NS)
		cpu = run;
	f->plain = least(i, f->plain, cpu);
	f->ran += run;
	f->idle += run - cpu;
}

/* True if a worker has a job. */
static bool profile_is_running(const fk_client *client)
{
	for (uint32_t i = 0; i < client->n_workers; i++)
		/* ORDER account/shown [P1]: acquire, what was charged for the job before. */
		if (atomic_load_explicit(&client->board->running[i].job, memory_order_acquire) !=
		    UINT32_MAX)
			return true;
	return false;
}

/* Returns the CPU time charged for all jobs so far, ns. Waits until all workers have left the job:
 * one that is preempted at the end of the job is charged later. */
static uint64_t profile_cpu(const fk_client *client)
{
	const struct timespec pause = clock_to_timespec(100 * NSEC_PER_USEC);
	uint64_t began = clock_ns();

	while (profile_is_running(client) && clock_ns() - began < PROFILE_SETTLE_TIME)
		(void)nanosleep(&pause, NULL);
	/* Relaxed: a statistic. */
	return load_relaxed(&client->board->clients[client->id].cpu_ns);
}

/* Relaxed: statistics. */
static uint64_t count_samples(const struct board *board)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < BOARD_SAMPLES; i++)
		n += load_relaxed(&board->samples[i].n);
	return n;
}

/* Finds or adds the entry of a task; NULL if there is no room. */
static struct profile_task *find_task(struct profile_figures *f, const char *name)
{
	struct profile_task *t = f->tasks;

	while (t < f->tasks + f->n_tasks && !streq(t->name, name))
		t++;
	if (t == f->tasks + ARRAY_SIZE(f->tasks))
		return NULL;
	if (t == f->tasks + f->n_tasks) {
		memcpy(t->name, name, sizeof(t->name));
		f->n_tasks++;
	}
	return t;
}

static void take_samples(struct profile_figures *f, enum profile_way way, const struct board *board)
{
	for (uint32_t i = 0; i < BOARD_SAMPLES; i++) {
		const struct board_sample *row = &board->samples[i];
		uint64_t n = load_relaxed(&row->n);
		struct profile_task *t = NULL;

		/* ORDER sample/name [S1]: acquire, the name of a row that is NAMED. */
		if (atomic_load_explicit(&row->state, memory_order_acquire) == BOARD_SAMPLE_NAMED)
			t = find_task(f, row->task);
		if (t)
			t->samples[way] += n;
		f->samples[way] += n;
	}
}

/* True if the job is to run again. run: the number of runs so far. */
static bool profile_continues(const struct profile_job *job, const fk_client *client, uint32_t run,
			      uint32_t times, uint64_t began)
{
	if (!job->samples)
		return run <= times;
	return count_samples(client->board) < PROFILE_SAMPLES &&
	       profile_cpu(client) < PROFILE_SAMPLE_CPU && clock_ns() - began < PROFILE_SAMPLE_TIME;
}

/* Finds the task: MODULE:TASK, or TASK of the file. *ret: on the board. Prints errors. Returns 0 or
 * an exit code. */
static int find_name(const struct profile_job *job, const struct board *board, const char **ret)
{
	/* ORDER board/tasks [B1]: acquire, so that the entries are complete (board.h, I2). */
	uint32_t n = min(atomic_load_explicit(&board->n_tasks, memory_order_acquire), LIMIT_TASKS);

	*ret = job->task;
	if (!job->directory[0] || strchr(job->task, ':'))
		return 0;
	for (uint32_t i = 0; i < n; i++) {
		const char *name = board->tasks[i].name;
		const char *colon = memchr(name, ':', sizeof(board->tasks[i].name) - 1);

		*ret = name;
		if (colon && streq(colon + 1, job->task))
			return 0;
	}
	return forkctl_fail(FORKCTL_USAGE, "there is no task %s in the file", job->task);
}

/* Runs the job in one way, in the client process of the private forkd. */
static int run_job(const char *socket, void *context)
{
	const struct profile_job *job = context;
	struct profile_figures *f = job->figures;
	struct forkctl_call_values call;
	uint32_t times = job->times;
	uint64_t began = clock_ns();
	const struct board *board;
	const char *name;
	fk_client *client;
	int err = forkctl_open_machine(socket, 1, case_heap(&job->given), &client);

	if (err)
		return err;
	board = client->board;
	if (job->way == PROFILE_ALL)
		f->workers = client->n_workers;
	err = find_name(job, board, &name);
	if (!err)
		err = case_open(&job->given, client, name, &call);
	/* The first run warms up caches and memory. */
	for (uint32_t i = 0; !err && profile_continues(job, client, i, times, began); i++) {
		uint64_t before = load_relaxed(&board->profile.jobs);
		uint64_t cpu = profile_cpu(client), jobs;
		struct forkctl_outcome o;

		err = case_run(&job->given, &call, job->timeout.ns, &o);
		cpu = profile_cpu(client) - cpu;
		jobs = load_relaxed(&board->profile.jobs) - before;
		if (err)
			err = forkctl_fail(FORKCTL_FAILED, "%s", fk_error_text());
		else if (o.outcome != FK_DONE)
			err = report(job, &o);
		else if (job->samples)
			continue;
		else if (job->way != PROFILE_STOLEN)
			take_time(f, job->way, i, (double)o.run_ns, (double)cpu);
		else if (!jobs && f->varies++)
			err = forkctl_fail(
				FORKCTL_FAILED, "%s: %s", job->task,
				profile_has_fibers(client)
					? "the task runs fibers, which profile cannot measure"
					: "out of memory for the profile");
		else if (!jobs)
			times++; /* its intervals differed; from now on jobs are not compared */
		else if (i)
			take_figures(f, &board->profile);
	}
	if (!err && job->samples)
		take_samples(f, job->way, board);
	(void)fk_close(client);
	return err;
}

static int run_session(struct profile_job *job)
{
	char burden[64], directory[288], sample[] = "--sample=2ms";
	char *more[4] = { burden };
	int n = 1;

	if (job->directory[0])
		more[n++] = directory;
	if (job->samples)
		more[n] = sample;
	(void)snprintf(directory, sizeof(directory), "--module-dir=%s", job->directory);
	(void)snprintf(burden, sizeof(burden), "--fork-burden=%" PRIu64 "ns", job->burden.ns);
	return forkctl_with_forkd(job->way == PROFILE_STOLEN ? "profile" : "normal",
				  job->way != PROFILE_ALL, more, run_job, job);
}

/* Runs the job in each way. */
static int run_all(struct profile_job *job)
{
	int status = 0;

	for (job->way = 0; !status && job->way < PROFILE_WAYS; job->way++)
		status = run_session(job);
	return status;
}

/* ------------------------------------------------------------------------ output */

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

/* Corrects the assumed cost of reading the clock within this job. The work without measurement is
 * known, so the difference to it gives the cost, limited to its error. The remaining error is as
 * large as the correction. */
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
	char plain[128];
	int n = snprintf(plain, sizeof(plain), "(%s as it runs on one worker",
			 forkctl_time(&text, (uint64_t)f->plain));

	if (f->workers > 1)
		n += snprintf(plain + n, sizeof(plain) - (size_t)n, ", %s on %" PRIu32,
			      forkctl_time(&text, (uint64_t)f->all), f->workers);
	(void)snprintf(plain + n, sizeof(plain) - (size_t)n, ")");
	print_time("work T1", f->work, f->work_error, plain);
	if (f->idle > f->ran / 10)
		printf("%-22s %9.0f%%  of the time on one worker: other programs ran, or the task "
		       "slept\n",
		       "without a CPU", 100 * f->idle / f->ran);
	print_time("span Tinf", f->span, f->span_error, "");
	printf("%-22s %10.2f\n", "parallelism T1/Tinf", parallelism);
	print_time("burdened span", f->burdened, 0, "");
	printf("%-22s %10.2f\n", "burdened parallelism", max(ratio(f->work, f->burdened), 0.0));
	printf("%-22s %10" PRIu64 "  %" PRIu64 " on the span%s\n", "forks", f->forks, f->span_forks,
	       f->varies ? "; differs between runs" : "");
	printf("%-22s %10" PRIu64 "  %" PRIu64 " with a frame, %" PRIu64 " without\n", "tasks",
	       f->frames + f->leaves, f->frames, f->leaves);
	printf("%-22s %7.2f ns\n", "charged for a fork", f->fork);
	print_time("burden of a steal", f->burden, 0, "");
	printf("\n%-10s %s\n", "workers", "speedup");
	for (uint32_t p = 1; p <= PROFILE_WORKERS; p *= 2) {
		double low = ratio(f->work, f->work / p + f->burdened);

		printf("%-10" PRIu32 " %.2f to %.2f\n", p, min(low, (double)p),
		       min((double)p, parallelism));
		/* End one line after more workers are of no use. */
		if (p >= 16 && p > 2 * parallelism)
			break;
	}
	if (f->work_error > f->work / 2)
		printf("\nThe tasks are shorter than one reading of the clock (%.1f ns): T1 and "
		       "Tinf "
		       "are rough estimates, their ratio is more exact.\n",
		       f->read);
}

/* ------------------------------------------------------------------------ tasks that differ */

static bool takes_longer(double cpu, double than, uint32_t workers)
{
	return cpu > 1.25 * than + PROFILE_BLUR_NS * workers;
}

/* Returns the CPU time of a task in one job, ns: its share of the samples. */
static double time_of(const struct profile_figures *f, const struct profile_task *t,
		      enum profile_way way)
{
	const double all[] = { f->work, f->plain, f->all };

	return ratio((double)t->samples[way], (double)f->samples[way]) * all[way];
}

/* Returns the time of a task relative to another way to run it. Without samples there it counts
 * with one, and the value is a minimum. 0 if the task has few samples, or the value is less than
 * PROFILE_SLOW. */
static double slowdown(const struct profile_figures *f, const struct profile_task *t,
		       enum profile_way way, enum profile_way other)
{
	struct profile_task had = *t;
	double times;

	had.samples[other] = max(had.samples[other], UINT64_C(1));
	times = ratio(time_of(f, t, way), time_of(f, &had, other));
	return times >= PROFILE_SLOW && t->samples[way] >= PROFILE_SAMPLES / 4 ? times : 0;
}

/* Text before a slowdown: without samples in the other way it is a minimum. */
static const char *at_least(const struct profile_task *t, enum profile_way other)
{
	return t->samples[other] ? "" : "at least ";
}

static void print_tasks(const struct profile_figures *f)
{
	uint32_t n_slow = 0;

	if (!f->n_tasks) {
		printf("no task was sampled: the time was used by forkd itself\n");
		return;
	}
	printf("\n%-22s %12s %12s", "CPU time by task", "in T1", "on 1 worker");
	if (f->workers > 1)
		printf(" %4" PRIu32 " workers", f->workers);
	printf("\n");
	for (uint32_t i = 0; i < f->n_tasks; i++) {
		const struct profile_task *t = &f->tasks[i];
		struct forkctl_text text;

		printf("%-22s", t->name);
		for (enum profile_way way = 0; way < PROFILE_ALL + (f->workers > 1); way++)
			printf(" %12s", forkctl_time(&text, (uint64_t)time_of(f, t, way)));
		printf("\n");
	}
	printf("\n");
	for (uint32_t i = 0; i < f->n_tasks; i++) {
		const struct profile_task *t = &f->tasks[i];
		double code = slowdown(f, t, PROFILE_ONE, PROFILE_STOLEN);
		double shared = slowdown(f, t, PROFILE_ALL, PROFILE_ONE);

		if (code)
			printf("%s takes %s%.1f times as long on one worker as in T1: the code "
			       "that the compiler generated for forks that are not stolen is "
			       "slower\n",
			       t->name, at_least(t, PROFILE_STOLEN), code);
		if (f->workers > 1 && shared)
			printf("%s takes %s%.1f times as long on %" PRIu32
			       " workers as on one: the workers compete for memory or write to the "
			       "same cache lines, or the task has more work there\n",
			       t->name, at_least(t, PROFILE_ONE), shared, f->workers);
		n_slow += code || shared;
	}
	if (!n_slow)
		printf("no task takes %.0f times as long in one run as in another\n", PROFILE_SLOW);
}

/* If the job takes longer in one way than in another, finds the tasks that do. */
static int explain(struct profile_job *job)
{
	struct profile_figures *f = job->figures;
	int status;

	if (!takes_longer(f->plain, f->work, 1) &&
	    !(f->workers > 1 && takes_longer(f->all, f->plain, f->workers)))
		return 0;
	printf("\nThe CPU time differs between the runs: repeating each with samples of the "
	       "tasks.\n");
	(void)fflush(stdout);
	job->samples = 1;
	status = run_all(job);
	if (!status)
		print_tasks(f);
	return status;
}

/* ------------------------------------------------------------------------ the command line */

static int parse_command_line(struct profile_job *job, int argc, char *argv[])
{
	int err = forkctl_options(forkctl_profile_options, job, &argc, argv);
	int file;

	if (err)
		return err;
	file = argc > 1 && forkctl_is_module_file(argv[1]);
	if (file) {
		err = forkctl_link_modules(1, argv + 1, job->directory, sizeof(job->directory));
		if (err)
			return err;
		argc--;
		argv++;
	}
	if (argc < 2)
		return forkctl_fail(FORKCTL_USAGE,
				    file ? "profile: give a task of the file after it"
					 : "profile: no task given: `forkctl session -- forkctl "
					   "tasks` lists tasks");
	job->task = argv[1];
	if (!file && !strchr(job->task, ':'))
		return forkctl_fail(FORKCTL_USAGE, "a task must be named MODULE:TASK, not %s",
				    job->task);
	return forkctl_args_init(&job->given.args, argv + 2, (uint32_t)argc - 2);
}

/* Measures the job in each way and prints the figures. */
static int measure(struct profile_job *job)
{
	int status;

	job->figures = mmap(NULL, sizeof(*job->figures), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (job->figures == MAP_FAILED)
		return forkctl_fail(FORKCTL_FAILED, "out of memory");
	status = run_all(job);
	if (!status) {
		settle(job->figures);
		print_figures(job->figures);
		status = explain(job);
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
				    "profile starts private forkds: remove --socket");
	status = parse_command_line(&job, argc, argv);
	if (!status)
		status = measure(&job);
	forkctl_unlink_modules(1, job.directory);
	forkctl_args_fini(&job.given.args);
	return status;
}
