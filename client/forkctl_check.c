/* SPDX-License-Identifier: MIT */
/*
 * client/forkctl_check.c - forkctl check: does it matter who runs which part of a task, and when?
 *
 * WHAT IT IS
 *   Runs calls of a module's tasks in private forkds, one after the other, and compares what comes
 *   out byte for byte: outcome, code, results, the contents of each iobuf.
 *
 *	serial		one worker, nothing is stolen: the reference
 *	serial, again	what differs here depends on more than its arguments
 *	stolen		every fork is treated as stolen, children first, and the C stack is
 *			overwritten between strands: on one worker and on several
 *	late		the same, but what follows a fork runs before the child
 *	random		more workers than CPUs, asked for attention and signalled at random; each
 *			call several times for each seed
 *
 *	forkctl check [OPTION...] MODULE | MODULE:TASK [ARG...] | FILE.so...
 *
 *   Without arguments every task is called with generated ones (forkctl_case.c); what cannot be
 *   checked by them is left out, and said to be. A FILE.so need not be installed: its forkd gets a
 *   folder with links to the files.
 *
 * HOW
 *   The process of each run (forkctl_with_forkd()) writes records to a file in memory, which this
 *   one compares with the records of the reference. A task that crashes or hangs costs its own run.
 *
 * WHAT HAPPENS IF A PEER DIES HERE
 *   A forkd whose task hangs is stopped, then killed. What a run has not recorded counts as
 *   different.
 */
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/forkctl_record.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/util.h"

#define CHECK_SEEDS    4u
#define CHECK_REPEATS  5u /* of each call in a random run */
#define CHECK_WORKERS  64u
#define CHECK_TIME     (60 * NSEC_PER_SEC) /* for a call */
#define CHECK_GEN_TIME NSEC_PER_SEC	   /* for one with generated arguments, serially */
#define CHECK_OPTIONS  8

enum check_kind {
	CHECK_SERIAL,
	CHECK_AGAIN,
	CHECK_STOLEN,
	CHECK_LATE,
	CHECK_RANDOM,
};

struct check_run {
	enum check_kind kind;
	uint32_t workers;
	uint32_t seed;
};

/* What is wrong with a task. */
struct check_fault {
	char task[64 + 1];
	uint32_t runs; /* that differ */
	char first[640];
	const char *means;
};

struct check {
	struct forkctl_case given;
	const char *task;   /* MODULE:TASK, or NULL: */
	const char *module; /* all of this, or with NULL all there are */
	char folder[256];   /* of links to the files that were named, or empty */
	uint32_t seeds;
	uint32_t seed;
	uint32_t workers; /* 0: as many as suits */
	uint64_t time_ns;
	const struct check_run *run;
	int fd; /* where the run's records go */
	struct record_text reference;
	char skip[LIMIT_TASKS][64 + 1]; /* tasks that are left out */
	uint32_t n_skip;
	struct check_fault *faults;
	uint32_t n_faults;
	uint32_t differing;
	uint32_t runs;
};

/* ------------------------------------------------------------------------ in a run's process */

/* Makes one call, as often as the run wants. Sets *ret_go_on to 0 if the forkd is of no use now. */
static int make_call(const struct check *check, const struct forkctl_case *c, fk_client *client,
		     const char *name, struct forkctl_outcome *ret_outcome, int *ret_go_on)
{
	uint32_t repeat = check->run->kind == CHECK_RANDOM ? CHECK_REPEATS : 1;
	uint64_t limit =
		c->generated && check->run->kind == CHECK_SERIAL ? CHECK_GEN_TIME : check->time_ns;
	struct forkctl_call_values call;
	int err = case_open(c, client, name, &call);

	*ret_go_on = !err;
	if (err)
		return err;
	for (uint32_t i = 0; !err && i < repeat && *ret_go_on; i++) {
		/* If forkd is gone the record is missed. */
		*ret_go_on = case_run(c, &call, limit, ret_outcome) == 0;
		if (*ret_go_on)
			err = record_write(check->fd, c, &call, ret_outcome);
		if (ret_outcome->outcome == FK_PENDING)
			*ret_go_on = 0;
		if (ret_outcome->outcome == FK_CRASHED)
			break;
	}
	/* The buffers of a job that hangs stay its own. */
	if (*ret_go_on)
		case_close(&call);
	return err;
}

static int is_left_out(const struct check *check, const char *task)
{
	for (uint32_t i = 0; i < check->n_skip; i++)
		if (streq(check->skip[i], task))
			return 1;
	return 0;
}

/* All levels of one task, until it crashes or takes too long. */
static int call_generated(const struct check *check, fk_client *client, const char *task,
			  int *ret_go_on)
{
	for (uint32_t level = 0; level < CASE_LEVELS && *ret_go_on; level++) {
		struct forkctl_case c = { .generated = 1, .level = level };
		struct forkctl_outcome outcome = { .outcome = FK_PENDING };
		const struct record *want = record_find(&check->reference, task, level);
		int err;

		if (check->run->kind != CHECK_SERIAL && !record_says(want))
			continue;
		err = make_call(check, &c, client, task, &outcome, ret_go_on);

		if (err)
			return err;
		if (outcome.outcome == FK_CRASHED || outcome.outcome == FK_EXPIRED)
			break;
	}
	return 0;
}

static int call_all(const struct check *check, fk_client *client)
{
	const struct board *board = client->board;
	size_t length = check->module ? strlen(check->module) : 0;
	uint32_t found = 0;
	int go_on = 1;
	int err = 0;
	/* ORDER board/tasks [B1]: acquire, so that the entries are complete (board.h, I2). */
	uint32_t n = min(atomic_load_explicit(&board->n_tasks, memory_order_acquire), LIMIT_TASKS);

	for (uint32_t i = 0; i < n && go_on && !err; i++) {
		char task[64 + 1] = "";

		memcpy(task, board->tasks[i].name, sizeof(board->tasks[i].name));
		if (length && (strncmp(task, check->module, length) != 0 || task[length] != ':'))
			continue;
		found++;
		if (!is_left_out(check, task))
			err = call_generated(check, client, task, &go_on);
	}
	if (!found)
		return forkctl_fail(FORKCTL_USAGE,
				    check->module ? "there is no module %s: `forkctl session -- "
						    "forkctl tasks` lists them all"
						  : "%sno task to check: forkd says above why",
				    check->module ? check->module : "");
	return err;
}

static int run_calls(const char *socket, void *context)
{
	const struct check *check = context;
	struct forkctl_case all = { .generated = 1 };
	const struct forkctl_case *c = check->task && check->given.n_args ? &check->given : &all;
	struct forkctl_outcome outcome = { 0 };
	fk_client *client;
	int go_on = 1;
	int err = forkctl_open(socket, 4, case_heap(c), &client);

	if (err)
		return err;
	if (!check->task) {
		err = call_all(check, client);
	} else {
		const fk_task *task;

		/* Nothing to generate: the arguments were given. */
		if (fk_task_find(client, check->task, &task) == 0 && task->signature.n_args == 0)
			c = &check->given;
		err = c->generated ? call_generated(check, client, check->task, &go_on)
				   : make_call(check, c, client, check->task, &outcome, &go_on);
	}
	(void)fk_close(client);
	return err;
}

/* ------------------------------------------------------------------------ comparing */

static const char *run_name(const struct check_run *run, char *text, size_t size)
{
	static const char *const names[] = {
		[CHECK_SERIAL] = "serial",
		[CHECK_AGAIN] = "serial, again",
		[CHECK_STOLEN] = "every fork stolen",
		[CHECK_LATE] = "every fork stolen, children late",
		[CHECK_RANDOM] = "random preemption",
	};
	char seed[32] = "";

	if (run->kind == CHECK_RANDOM)
		(void)snprintf(seed, sizeof(seed), ", seed %" PRIu32, run->seed);
	(void)snprintf(text, size, "%s%s, %" PRIu32 " worker%s", names[run->kind], seed,
		       run->workers, run->workers == 1 ? "" : "s");
	return text;
}

/* What a difference in this run usually means. */
static const char *meaning(enum check_kind kind, const struct record *record)
{
	if (!record || record->outcome.outcome == FK_PENDING)
		return "it hangs: a task waits for something that only another of its job does, or "
		       "goes on with a value that was lost";
	if (record->outcome.outcome == FK_CRASHED)
		return "a pointer was lost: it stood in an ordinary variable across a fork, call "
		       "or "
		       "join; or forkd says above what is not allowed (FK_ALLOC or FK_FREE where a "
		       "fork is outstanding, a return without FK_JOIN)";
	switch (kind) {
	case CHECK_SERIAL:
	case CHECK_AGAIN:
		return "the result depends on more than the arguments: time, addresses, what an "
		       "earlier call left behind, memory that nobody has written";
	case CHECK_STOLEN:
		return "an ordinary variable is used across a fork, call or join: it has to be in "
		       "the frame, among the locals of FK_TASK";
	case CHECK_LATE:
		return "a result is read before FK_JOIN, or a child and what follows its fork use "
		       "the same memory, so that their order shows";
	case CHECK_RANDOM:
		break;
	}
	return "a race: children use the same memory without atomics, or results are combined in "
	       "the order in which children end by an operation that is not associative";
}

/* Notes that a task differs in a run; the first time that it does, how. Prints it, too. */
static void note(struct check *check, const char *run, const struct record *record,
		 const char *what, const char *means)
{
	struct check_fault *fault = check->faults;
	struct check_fault *end = check->faults + check->n_faults;

	printf("         %s(%s): %s\n", record->task, record->args, what);
	while (fault < end && !streq(fault->task, record->task))
		fault++;
	if (fault == end) {
		struct check_fault *more =
			reallocarray(check->faults, check->n_faults + 1, sizeof(*check->faults));

		if (!more)
			return;
		check->faults = more;
		fault = &more[check->n_faults++];
		memset(fault, 0, sizeof(*fault));
		memcpy(fault->task, record->task, sizeof(fault->task));
		fault->means = means;
		(void)snprintf(fault->first, sizeof(fault->first), "%s: %s(%s): %s", run,
			       record->task, record->args, what);
	}
	fault->runs++;
}

/* The first call of a task that differs from the reference. True if there is one. */
static int compare_task(struct check *check, const struct check_run *run, const char *name,
			const struct record_text *text, const char *task)
{
	const struct record *want, *got;
	char what[256];
	size_t at = 0;

	while ((got = record_next(text, &at))) {
		if (!streq(got->task, task))
			continue;
		want = record_find(&check->reference, task, got->level);
		if (record_says(want) && record_differs(want, got, what, sizeof(what))) {
			note(check, name, got, what, meaning(run->kind, got));
			return 1;
		}
	}
	for (at = 0; (want = record_next(&check->reference, &at));) {
		if (!streq(want->task, task) || !record_says(want) ||
		    record_find(text, task, want->level))
			continue;
		note(check, name, want, "there is no outcome", meaning(run->kind, NULL));
		return 1;
	}
	return 0;
}

/* Says how the run differs from the reference. */
static void compare_run(struct check *check, const struct check_run *run,
			const struct record_text *text)
{
	const struct record *record;
	const char *last = "";
	char name[96];
	uint32_t n = 0, wrong = 0;
	size_t at = 0;

	(void)run_name(run, name, sizeof(name));
	while (record_next(text, &at))
		n++;
	printf("%-45s %4" PRIu32 " calls:\n", name, n);
	for (at = 0; (record = record_next(&check->reference, &at)); last = record->task)
		if (!streq(record->task, last) && !is_left_out(check, record->task))
			wrong += (uint32_t)compare_task(check, run, name, text, record->task);
	if (wrong)
		printf("         DIFFERENT: %" PRIu32 " task%s\n", wrong, wrong == 1 ? "" : "s");
	else
		printf("         the same\n");
	check->runs++;
	check->differing += wrong > 0;
}

/* ------------------------------------------------------------------------ runs */

/* Runs everything in a forkd of its own. Returns an exit code. */
static int do_run(struct check *check, const struct check_run *run, struct record_text *ret_text)
{
	static const char *const modes[] = {
		[CHECK_SERIAL] = "normal", [CHECK_AGAIN] = "normal",  [CHECK_STOLEN] = "stolen",
		[CHECK_LATE] = "late",	   [CHECK_RANDOM] = "random",
	};
	_cleanup_close_ int fd = memfd_create("forkctl-check", MFD_CLOEXEC);
	char mode[32], workers[32], seed[32], folder[288];
	char stop[] = "--stop-timeout=100ms", memory[] = "--memory-max=4G",
	     heap[] = "--heap-max=2G";
	char *options[CHECK_OPTIONS];
	int n = 0, status;
	struct stat st;

	if (fd < 0)
		return forkctl_fail(FORKCTL_FAILED, "no memory file: %s", strerrordesc_np(errno));
	(void)snprintf(mode, sizeof(mode), "--fork-mode=%s", modes[run->kind]);
	(void)snprintf(workers, sizeof(workers), "--workers=%" PRIu32, run->workers);
	(void)snprintf(seed, sizeof(seed), "--fork-seed=%" PRIu32, run->seed);
	(void)snprintf(folder, sizeof(folder), "--module-dir=%s", check->folder);
	options[n++] = mode;
	options[n++] = workers;
	options[n++] = seed;
	options[n++] = stop;
	options[n++] = memory;
	options[n++] = heap;
	if (check->folder[0])
		options[n++] = folder;
	check->run = run;
	check->fd = fd;
	status = forkctl_with_forkd(n, options, run_calls, check);
	if (status)
		return status;
	ret_text->data = NULL;
	ret_text->size = 0;
	if (fstat(fd, &st) < 0 || st.st_size == 0)
		return 0;
	ret_text->data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (ret_text->data == MAP_FAILED)
		return forkctl_fail(FORKCTL_FAILED, "cannot read what was recorded: %s",
				    strerrordesc_np(errno));
	ret_text->size = (size_t)st.st_size;
	return 0;
}

static void free_text(struct record_text *text)
{
	if (text->data)
		(void)munmap(text->data, text->size);
	*text = (struct record_text){ 0 };
}

static void leave_out(struct check *check, const struct record *record, const char *why)
{
	char text[64];

	if (is_left_out(check, record->task) || check->n_skip == LIMIT_TASKS)
		return;
	memcpy(check->skip[check->n_skip++], record->task, sizeof(record->task));
	printf("left out: %s: %s%s\n", record->task, why,
	       record_outcome(record, text, sizeof(text)));
}

/* The reference, as often as a task hangs in it. */
static int run_reference(struct check *check, const struct check_run *run)
{
	for (;;) {
		const struct record *record, *hung = NULL;
		size_t at = 0;
		int status = do_run(check, run, &check->reference);

		if (status)
			return status;
		while ((record = record_next(&check->reference, &at)))
			if (record->outcome.outcome == FK_PENDING)
				hung = record;
		if (!hung)
			return 0;
		if (check->given.n_args || is_left_out(check, hung->task))
			return forkctl_fail(FORKCTL_FAILED, "%s(%s) does not end, even serially",
					    hung->task, hung->args);
		leave_out(check, hung, "give it arguments: with generated ones it ");
		free_text(&check->reference);
	}
}

/* How many calls of a task the reference has; 0: none that says anything, for this reason. */
static uint32_t judge_task(const struct check *check, const char *task, const char **ret_why)
{
	const struct record *record;
	uint32_t done = 0, failed = 0, crashed = 0;
	size_t at = 0;

	while ((record = record_next(&check->reference, &at))) {
		if (!streq(record->task, task))
			continue;
		done += record->outcome.outcome == FK_DONE;
		failed += record->outcome.outcome == FK_FAILED;
		crashed += record->outcome.outcome == FK_CRASHED;
	}
	if (crashed) {
		*ret_why = "even serially it ";
		return 0;
	}
	/* With arguments that were given a failure is an answer, too. */
	*ret_why = "give it arguments: with generated ones it ";
	return done || check->given.n_args ? done + failed : 0;
}

/* Which calls of a task are compared, and how many would take too long. */
static void print_checked(const struct check *check, const char *task)
{
	const struct record *record;
	uint32_t late = 0;
	size_t at = 0;

	printf("checked:  %s", task);
	while ((record = record_next(&check->reference, &at)))
		if (streq(record->task, task) && record_says(record))
			printf(" (%s)", record->args);
		else if (streq(record->task, task))
			late++;
	if (late)
		printf("; others took more than %u s",
		       (unsigned int)(CHECK_GEN_TIME / NSEC_PER_SEC));
	printf("\n");
}

/* Says what is checked, and what is left out. */
static int judge_reference(struct check *check)
{
	const struct record *record;
	const char *last = "";
	uint32_t kept = 0;
	size_t at = 0;

	while ((record = record_next(&check->reference, &at))) {
		const char *why;
		uint32_t n;

		if (streq(record->task, last) || is_left_out(check, record->task))
			continue;
		last = record->task;
		n = judge_task(check, record->task, &why);
		kept += n;
		if (!n)
			leave_out(check, record, why);
		else
			print_checked(check, record->task);
	}
	return kept ? 0 : forkctl_fail(FORKCTL_FAILED, "nothing is left to check");
}

static int run_all(struct check *check)
{
	cpu_set_t set;
	uint32_t cpus = sched_getaffinity(0, sizeof(set), &set) ? 1 : (uint32_t)CPU_COUNT(&set);
	uint32_t some = check->workers ? check->workers : min(cpus + 1, CHECK_WORKERS);
	uint32_t many = check->workers ? check->workers : min(2 * cpus + 1, CHECK_WORKERS);
	const struct check_run serial = { CHECK_SERIAL, 1, 1 };
	/* On one worker first: what differs there differs each time, and says more. */
	struct check_run runs[] = {
		{ CHECK_AGAIN, 1, 1 },	   { CHECK_STOLEN, 1, 1 },  { CHECK_LATE, 1, 1 },
		{ CHECK_STOLEN, some, 1 }, { CHECK_LATE, some, 1 },
	};
	int status = run_reference(check, &serial);

	if (!status)
		status = judge_reference(check);
	for (uint32_t i = 0; !status && i < ARRAY_SIZE(runs) + check->seeds; i++) {
		struct check_run random = { CHECK_RANDOM, many,
					    check->seed + i - (uint32_t)ARRAY_SIZE(runs) };
		const struct check_run *run = i < ARRAY_SIZE(runs) ? &runs[i] : &random;
		struct record_text text;

		status = do_run(check, run, &text);
		if (status)
			return status;
		compare_run(check, run, &text);
		free_text(&text);
		/* What differs from itself cannot differ from another. */
		for (uint32_t f = 0; run->kind == CHECK_AGAIN && f < check->n_faults; f++)
			memcpy(check->skip[check->n_skip++], check->faults[f].task,
			       sizeof(check->faults[f].task));
	}
	return status;
}

/* ------------------------------------------------------------------------ the command line */

/* The value of an option --NAME VALUE or --NAME=VALUE; NULL: it is another. */
static const char *option(const char *name, int argc, char *argv[], int *i)
{
	size_t n = strlen(name);

	if (strncmp(argv[*i], name, n) != 0)
		return NULL;
	if (argv[*i][n] == '=')
		return argv[*i] + n + 1;
	if (argv[*i][n])
		return NULL;
	return *i + 1 < argc ? argv[++*i] : "";
}

static int parse_count(const char *name, const char *text, uint32_t most, uint32_t *ret)
{
	int64_t n;

	if (forkctl_parse_i64(text, &n) || n < 1 || n > most)
		return forkctl_fail(FORKCTL_USAGE,
				    "%s wants a number from 1 to %" PRIu32 ", not %s", name, most,
				    text);
	*ret = (uint32_t)n;
	return 0;
}

static int parse_options(struct check *check, int argc, char *argv[], int *ret_next)
{
	int err = 0;
	int i;

	for (i = 1; !err && i < argc && argv[i][0] == '-'; i++) {
		const char *value;

		if (streq(argv[i], "--")) {
			i++;
			break;
		}
		if ((value = option("--seeds", argc, argv, &i)))
			err = parse_count("--seeds", value, 1000000, &check->seeds);
		else if ((value = option("--seed", argc, argv, &i)))
			err = parse_count("--seed", value, INT32_MAX, &check->seed);
		else if ((value = option("--workers", argc, argv, &i)))
			err = parse_count("--workers", value, LIMIT_WORKERS, &check->workers);
		else if ((value = option("--timeout", argc, argv, &i)))
			err = forkctl_parse_time(value, &check->time_ns) || !check->time_ns
				    ? forkctl_fail(FORKCTL_USAGE,
						   "--timeout wants a time such as 20s or 5min, "
						   "not %s",
						   value)
				    : 0;
		else
			err = forkctl_fail(FORKCTL_USAGE,
					   "check has no option %s (`forkctl check --help` lists "
					   "them)",
					   argv[i]);
	}
	*ret_next = i;
	return err;
}

static int is_file(const char *word)
{
	size_t n = strlen(word);

	return strchr(word, '/') || (n > 3 && streq(word + n - 3, ".so"));
}

/* A folder with a link to each of the files. */
static int make_folder(struct check *check, int n, char *files[])
{
	const char *tmp = secure_getenv("TMPDIR");

	if (!tmp || tmp[0] != '/' || strlen(tmp) > 200)
		tmp = "/tmp";
	(void)snprintf(check->folder, sizeof(check->folder), "%s/forkctl-check-XXXXXX", tmp);
	if (!mkdtemp(check->folder)) {
		check->folder[0] = '\0';
		return forkctl_fail(FORKCTL_FAILED, "cannot make a folder in %s: %s", tmp,
				    strerrordesc_np(errno));
	}
	for (int i = 0; i < n; i++) {
		_cleanup_free_ char *path = realpath(files[i], NULL);
		char link[288];

		if (!path)
			return forkctl_fail(FORKCTL_USAGE, "cannot read %s: %s", files[i],
					    strerrordesc_np(errno));
		(void)snprintf(link, sizeof(link), "%s/%d.so", check->folder, i);
		if (symlink(path, link) < 0)
			return forkctl_fail(FORKCTL_FAILED, "cannot make %s: %s", link,
					    strerrordesc_np(errno));
	}
	return 0;
}

static void remove_folder(struct check *check, int n)
{
	char link[288];

	if (!check->folder[0])
		return;
	for (int i = 0; i < n; i++) {
		(void)snprintf(link, sizeof(link), "%s/%d.so", check->folder, i);
		(void)unlink(link);
	}
	(void)rmdir(check->folder);
}

static int parse_subject(struct check *check, int argc, char *argv[], int next)
{
	int n = argc - next;

	if (n == 0)
		return forkctl_fail(
			FORKCTL_USAGE,
			"check what? MODULE, MODULE:TASK with arguments, or FILE.so...");
	if (is_file(argv[next]))
		return make_folder(check, n, argv + next);
	if (!strchr(argv[next], ':')) {
		check->module = argv[next];
		return n == 1 ? 0
			      : forkctl_fail(FORKCTL_USAGE,
					     "a module takes no arguments: MODULE:TASK %s ...",
					     argv[next + 1]);
	}
	if (n - 1 > (int)SIGNATURE_MAX_ARGS)
		return forkctl_fail(FORKCTL_USAGE, "a task has at most %u arguments",
				    SIGNATURE_MAX_ARGS);
	check->task = argv[next];
	return case_load(&check->given, argv + next + 1, (uint32_t)n - 1);
}

int forkctl_check(const char *socket, int argc, char *argv[])
{
	struct check *check = calloc(1, sizeof(*check));
	int next = 1;
	int status;

	if (!check)
		return forkctl_fail(FORKCTL_FAILED, "out of memory");
	check->seeds = CHECK_SEEDS;
	check->seed = 1;
	check->time_ns = CHECK_TIME;
	status = socket ? forkctl_fail(FORKCTL_USAGE, "check starts forkds of its own: leave "
						      "--socket out")
			: parse_options(check, argc, argv, &next);
	if (!status)
		status = parse_subject(check, argc, argv, next);
	if (!status)
		status = run_all(check);
	for (uint32_t i = 0; i < check->n_faults; i++)
		(void)forkctl_fail(FORKCTL_FAILED,
				   "%s differs in %" PRIu32 " of %" PRIu32
				   " runs, first in: %s. This usually means: %s.",
				   check->faults[i].task, check->faults[i].runs, check->runs,
				   check->faults[i].first, check->faults[i].means);
	if (!status && check->differing)
		status = forkctl_fail(FORKCTL_FAILED,
				      "%" PRIu32 " of %" PRIu32 " runs differ from the serial one",
				      check->differing, check->runs);
	else if (!status)
		printf("%s gives the same in all %" PRIu32 " runs as serially\n",
		       check->folder[0] ? "every task" : argv[next], check->runs);
	remove_folder(check, argc - next);
	free_text(&check->reference);
	case_unload(&check->given);
	free(check->faults);
	free(check);
	return status;
}
