/* SPDX-License-Identifier: MIT */
/*
 * Starts a private forkd in one of the modes of daemon/pool/schedule_fuzz.c. A separate process
 * makes all calls (forkctl_with_forkd()), and writes each result to a file in memory:
 *
 * 	serial		one worker, nothing is stolen: the reference
 * 	serial, again	a result that differs depends on more than the arguments
 * 	stolen		every fork is treated as stolen, children first, and the C stack is
 * 			overwritten between strands
 * 	late		the same, but the continuation of a fork runs before the child
 * 	random		workers are preempted and signalled at random; each call is made several
 * 			times
 *
 * A forkd whose task hangs is stopped, then killed. If forkd dies, the run ends, and missing
 * results count as different. In the reference run this is an error.
 */
#include "client/forkctl/check/run.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "client/lib/client_state.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/util.h"

#define RUN_REPEATS 5u /* of each call in a random run */

static const struct {
	const char *mode;
	const char *name;
} kinds[] = {
	[RUN_SERIAL] = { "normal", "serial" },
	[RUN_AGAIN] = { "normal", "serial, again" },
	[RUN_STOLEN] = { "stolen", "every fork stolen" },
	[RUN_LATE] = { "late", "every fork stolen, children late" },
	[RUN_RANDOM] = { "random", "random preemption" },
};

void run_skip(struct run_subject *subject, const char *task)
{
	if (run_skips(subject, task) || subject->n_skip == LIMIT_TASKS)
		return;
	(void)snprintf(subject->skip[subject->n_skip++], sizeof(subject->skip[0]), "%s", task);
}

int run_skips(const struct run_subject *subject, const char *task)
{
	for (uint32_t i = 0; i < subject->n_skip; i++)
		if (streq(subject->skip[i], task))
			return 1;
	return 0;
}

const char *run_name(const struct run *run, char *text, size_t size)
{
	char seed[32] = "";

	if (run->kind == RUN_RANDOM)
		(void)snprintf(seed, sizeof(seed), ", seed %" PRIu32, run->seed);
	(void)snprintf(text, size, "%s%s, %" PRIu32 " worker%s", kinds[run->kind].name, seed,
		       run->workers, forkctl_plural(run->workers));
	return text;
}

/* ------------------------------------------------------------------------ process of the run */

struct run_context {
	const struct run_subject *subject;
	const struct run *run;
	int fd; /* where the results go */
};

/* Makes one call, several times in a random run. Sets *ret_go_on to 0 if forkd cannot be used any
 * more. Returns 0 or an exit code. */
static int make_call(const struct run_context *x, const struct forkctl_case *c, fk_client *client,
		     const char *name, struct forkctl_outcome *ret_outcome, int *ret_go_on)
{
	int serial = x->run->kind == RUN_SERIAL;
	uint32_t repeat = x->run->kind == RUN_RANDOM ? RUN_REPEATS : 1;
	uint64_t limit = c->generated && serial ? RUN_GEN_TIME : x->subject->time_ns;
	struct forkctl_call_values call;
	int err = case_open(c, client, name, &call);

	*ret_go_on = 0;
	if (err)
		return err;
	for (uint32_t i = 0; i < repeat; i++) {
		err = case_run(c, &call, limit, ret_outcome);
		if (err) {
			err = forkctl_fail(FORKCTL_FAILED, "%s", fk_error_text());
			return serial ? err : 0;
		}
		err = result_write(x->fd, c, &call, ret_outcome);
		/* The buffers of a job that hangs must not be freed. */
		if (err || ret_outcome->outcome == FK_PENDING)
			return err;
		if (ret_outcome->outcome == FK_CRASHED)
			break;
	}
	case_close(&call);
	*ret_go_on = 1;
	return 0;
}

/* Calls a task at all levels, until it crashes or takes too long. */
static int call_generated(const struct run_context *x, fk_client *client, const char *task,
			  int *ret_go_on)
{
	*ret_go_on = 1;
	for (uint32_t level = 0; level < CASE_LEVELS && *ret_go_on; level++) {
		struct forkctl_case c = { .generated = 1, .level = level };
		struct forkctl_outcome outcome = { .outcome = FK_PENDING };
		int err;

		if (x->run->kind != RUN_SERIAL &&
		    !result_says(result_find(&x->subject->reference, task, level)))
			continue;
		err = make_call(x, &c, client, task, &outcome, ret_go_on);
		if (err)
			return err;
		if (outcome.outcome == FK_CRASHED || outcome.outcome == FK_EXPIRED)
			break;
	}
	return 0;
}

static int call_all(const struct run_context *x, fk_client *client)
{
	const struct board *board = client->board;
	const char *module = x->subject->module;
	size_t length = module ? strlen(module) : 0;
	uint32_t found = 0;
	int go_on = 1;
	int err = 0;
	/* ORDER board/tasks [B1]: acquire, so that the entries are complete (board.h, I2). */
	uint32_t n = min(atomic_load_explicit(&board->n_tasks, memory_order_acquire), LIMIT_TASKS);

	for (uint32_t i = 0; i < n && go_on && !err; i++) {
		char task[64 + 1] = "";

		memcpy(task, board->tasks[i].name, sizeof(board->tasks[i].name));
		if (length && (strncmp(task, module, length) != 0 || task[length] != ':'))
			continue;
		found++;
		if (!run_skips(x->subject, task))
			err = call_generated(x, client, task, &go_on);
	}
	if (found)
		return err;
	if (module)
		return forkctl_fail(FORKCTL_USAGE,
				    "there is no module %s: `forkctl session -- forkctl tasks` "
				    "lists all tasks",
				    module);
	return forkctl_fail(FORKCTL_USAGE, "no task to check: see the messages of forkd above");
}

static int make_calls(const char *socket, void *context)
{
	const struct run_context *x = context;
	const struct run_subject *subject = x->subject;
	struct forkctl_case all = { .generated = 1 };
	const struct forkctl_case *c = subject->given.args.n ? &subject->given : &all;
	struct forkctl_outcome outcome = { 0 };
	fk_client *client;
	int go_on;
	int err = forkctl_open_machine(socket, 4, case_heap(c), &client);

	if (err)
		return err;
	if (!subject->task) {
		err = call_all(x, client);
	} else {
		const fk_task *task;

		/* A task without arguments: nothing to generate. */
		if (fk_task_find(client, subject->task, &task) == 0 && task->signature.n_args == 0)
			c = &subject->given;
		err = c->generated ? call_generated(x, client, subject->task, &go_on)
				   : make_call(x, c, client, subject->task, &outcome, &go_on);
	}
	(void)fk_close(client);
	return err;
}

/* ------------------------------------------------------------------------ process of forkctl */

/* Maps the file. */
static int map_text(int fd, struct results *ret_text)
{
	struct results text = { 0 };
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	text.size = (size_t)st.st_size;
	if (text.size) {
		text.data = mmap(NULL, text.size, PROT_READ, MAP_SHARED, fd, 0);
		if (text.data == MAP_FAILED)
			return -errno;
	}
	*ret_text = text;
	return 0;
}

int run_do(const struct run_subject *subject, const struct run *run, struct results *ret_text)
{
	_cleanup_close_ int fd = memfd_create("forkctl-check", MFD_CLOEXEC);
	struct run_context context = { .subject = subject, .run = run, .fd = fd };
	char seed[32], directory[288];
	char *more[] = { seed, subject->directory[0] ? directory : NULL, NULL };
	int status;

	if (fd < 0)
		return forkctl_fail(FORKCTL_FAILED, "cannot create a memory file: %s",
				    strerrordesc_np(errno));
	(void)snprintf(seed, sizeof(seed), "--fork-seed=%" PRIu32, run->seed);
	(void)snprintf(directory, sizeof(directory), "--module-dir=%s", subject->directory);
	status =
		forkctl_with_forkd(kinds[run->kind].mode, run->workers, more, make_calls, &context);
	if (status)
		return status;
	status = map_text(fd, ret_text);
	if (status)
		return forkctl_fail(FORKCTL_FAILED, "cannot read the results: %s",
				    strerrordesc_np(-status));
	return 0;
}

void run_free(struct results *text)
{
	if (text->data)
		(void)munmap(text->data, text->size);
	*text = (struct results){ 0 };
}
