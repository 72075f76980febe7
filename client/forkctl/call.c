/* SPDX-License-Identifier: MIT */
/*
 * call.c - forkctl call: runs a task with arguments typed by its signature
 *
 * Runs one job at a time and prints its results. A task of the module can compute the size of an
 * output buffer (output_size.h). A result with the name `size` is the number of bytes used.
 *
 *	forkctl call [OPTION...] MODULE:TASK ARG...
 */
#include "client/forkctl/common.h"
#include "client/forkctl/forkctl.h"
#include "client/lib/client.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/forkctl/case.h"
#include "client/forkctl/options.h"
#include "client/forkctl/progress.h"
#include "client/forkctl/output_size.h"
#include "client/forkctl/arguments.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/util.h"

#define CALL_ANYWHERE UINT32_MAX
#define CALL_GRACE    NSEC_PER_SEC

struct call {
	const char *name;
	struct forkctl_args args;
	struct forkctl_words outputs;
	uint32_t repeat;
	int timing;
	int idempotent;
	struct forkctl_limit timeout;
	struct forkctl_limit deadline;
	uint32_t worker; /* CALL_ANYWHERE: any */
	uint32_t node;
	struct fk_request request;
	fk_client *client;
	const fk_task *task;
	union fk_value values[SIGNATURE_MAX_ARGS];
	struct progress progress;
};

const struct forkctl_option forkctl_call_options[] = {
	{ "-n", "--repeat", "N", "Run the task N times, one after the other (default: 1)",
	  FORKCTL_NUMBER, offsetof(struct call, repeat), 1, UINT32_MAX },
	{ "-o", "--output", "FILE",
	  "Write the iobuf to FILE, - for standard output; once per iobuf", FORKCTL_LIST,
	  offsetof(struct call, outputs), 0, 0 },
	{ "-t", "--timing", NULL, "Print the wait time, run time, round trip and CPU time",
	  FORKCTL_FLAG, offsetof(struct call, timing), 0, 0 },
	{ "", "--timeout", "TIME", "Cancel the job after this time, such as 500ms (default: never)",
	  FORKCTL_TIME, offsetof(struct call, timeout), 1, UINT64_MAX },
	{ "", "--deadline", "TIME",
	  "Let forkd end the job as EXPIRED after this time (default: never)", FORKCTL_TIME,
	  offsetof(struct call, deadline), 1, UINT64_MAX },
	{ "", "--idempotent", NULL, "The job may run a second time, if its end is not known",
	  FORKCTL_FLAG, offsetof(struct call, idempotent), 0, 0 },
	{ "", "--worker", "K", "Start the job on this worker only (default: any)", FORKCTL_NUMBER,
	  offsetof(struct call, worker), 0, LIMIT_WORKERS - 1 },
	{ "", "--node", "N", "Start the job on a worker of this NUMA node only (default: any)",
	  FORKCTL_NUMBER, offsetof(struct call, node), 0, INT32_MAX },
	{ 0 },
};

static int write_file(const char *path, const char *data, size_t size)
{
	_cleanup_close_ int opened = -1;
	int fd = STDOUT_FILENO;
	int err;

	if (!streq(path, "-")) {
		opened = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
		if (opened < 0)
			return -errno;
		fd = opened;
	}
	err = forkctl_write(fd, data, size);
	if (err)
		return err;
	if (opened >= 0 && fsync(opened) < 0 && errno != EINVAL && errno != EROFS)
		return -errno;
	return 0;
}

static int parse_command_line(struct call *call, int argc, char *argv[])
{
	struct fk_request *r = &call->request;
	int err = forkctl_options(forkctl_call_options, call, &argc, argv);

	if (err)
		return err;
	if (argc < 2)
		return forkctl_fail(FORKCTL_USAGE,
				    "call: no task given: `forkctl tasks` lists tasks");
	call->name = argv[1];
	if (!strchr(call->name, ':'))
		return forkctl_fail(FORKCTL_USAGE, "a task must be named MODULE:TASK, not %s",
				    call->name);
	if (call->worker != CALL_ANYWHERE && call->node != CALL_ANYWHERE)
		return forkctl_fail(FORKCTL_USAGE, "--worker and --node are mutually exclusive");
	r->options.timeout_ns = call->deadline.ns;
	r->options.flags = call->idempotent ? FK_IDEMPOTENT : 0;
	if (call->worker != CALL_ANYWHERE || call->node != CALL_ANYWHERE) {
		int to_worker = call->worker != CALL_ANYWHERE;

		r->options.place = to_worker ? FK_PLACE_WORKER : FK_PLACE_NODE;
		r->options.place_index = to_worker ? call->worker : call->node;
		r->options.flags |= FK_STRICT;
	}
	return forkctl_args_init(&call->args, argv + 2, (uint32_t)argc - 2);
}

/* There must be an iobuf for each output file. */
static int check_outputs(const struct call *call)
{
	const struct signature *signature = &call->task->signature;
	uint32_t n = 0;

	for (uint32_t i = 0; i < signature->n_args; i++)
		n += signature->args[i].type == SIGNATURE_IOBUF;
	if (call->outputs.n <= n)
		return 0;
	return forkctl_fail(FORKCTL_USAGE,
			    "%s: more files for output (-o: %" PRIu32
			    ") than iobuf arguments (%" PRIu32 ")",
			    call->name, call->outputs.n, n);
}

/* The bytes of an iobuf that are output: the result `size` if there is one iobuf, else all. */
static size_t output_size(const struct signature *signature, const uint8_t *result, size_t all)
{
	uint32_t n = 0;
	int64_t size;

	for (uint32_t i = 0; i < signature->n_args; i++)
		n += signature->args[i].type == SIGNATURE_IOBUF;
	for (uint32_t i = 0; n == 1 && i < signature->n_results; i++) {
		const struct signature_item *item = &signature->results[i];

		if (item->type != SIGNATURE_I64 || !streq(item->name, "size"))
			continue;
		memcpy(&size, result + item->offset, sizeof(size));
		if (size >= 0 && (uint64_t)size <= all)
			return (size_t)size;
	}
	return all;
}

/* Returns 0 or an exit code. */
static int write_outputs(const struct call *call, const uint8_t *result)
{
	const struct signature *signature = &call->task->signature;
	uint32_t output = 0;

	for (uint32_t i = 0; i < signature->n_args && output < call->outputs.n; i++) {
		const char *path = call->outputs.words[output];
		const struct fk_buffer *buf = &call->values[i].buf;
		int err;

		if (signature->args[i].type != SIGNATURE_IOBUF)
			continue;
		err = write_file(path, buf->data, output_size(signature, result, buf->size));
		if (err)
			return forkctl_fail(FORKCTL_FAILED, "cannot write %s: %s", path,
					    strerrordesc_np(-err));
		output++;
	}
	return 0;
}

/* The stream for results: one that no iobuf is written to. */
static FILE *result_stream(const struct call *call)
{
	for (uint32_t i = 0; i < call->outputs.n; i++)
		if (streq(call->outputs.words[i], "-"))
			return stderr;
	return stdout;
}

static void print_result(const struct signature *signature, const uint8_t *result, FILE *out)
{
	for (uint32_t i = 0; i < signature->n_results; i++) {
		const struct signature_item *item = &signature->results[i];

		if (item->name[0])
			(void)fprintf(out, "%s=", item->name);
		if (item->type == SIGNATURE_F64) {
			char text[40];
			double value;

			memcpy(&value, result + item->offset, sizeof(value));
			/* The shortest text that is read as the same number. */
			for (int digits = 15; digits <= 17; digits++) {
				(void)snprintf(text, sizeof(text), "%.*g", digits, value);
				if (strtod(text, NULL) == value)
					break;
			}
			(void)fprintf(out, "%s\n", text);
		} else {
			int64_t value;

			memcpy(&value, result + item->offset, sizeof(value));
			(void)fprintf(out, "%" PRId64 "\n", value);
		}
	}
}

/* Prints the outcome of a job that is not DONE. */
static int report_outcome(const struct call *call, fk_job job)
{
	struct forkctl_outcome o = { 0 };
	struct forkctl_case given = { .args = call->args };
	struct forkctl_call_values values = { .client = call->client, .task = call->task };
	struct forkctl_text text;
	char args[256];
	struct fk_timings timings;

	o.outcome = fk_outcome(call->client, job, &o.code, &o.signo);
	if (fk_timings(call->client, job, &timings) == 0)
		o.run_ns = timings.run_ns;
	if (o.outcome == FK_CANCELLED && forkctl_interrupted())
		return forkctl_fail(FORKCTL_FAILED, "%s: CANCELLED: interrupted", call->name);
	if (o.outcome == FK_CANCELLED && call->timeout.text)
		return forkctl_fail(FORKCTL_FAILED, "%s: CANCELLED after --timeout=%s", call->name,
				    call->timeout.text);
	if (o.outcome == FK_EXPIRED && !o.code && call->deadline.text)
		return forkctl_fail(FORKCTL_FAILED, "%s: EXPIRED after --deadline=%s", call->name,
				    call->deadline.text);
	if (call->client->waker.local && (o.outcome != FK_FAILED || !o.run_ns)) {
		/* A cluster has a text. */
		(void)fk_result(call->client, job, NULL, 0);
		return forkctl_fail(FORKCTL_FAILED, "%s: %s", call->name, fk_error_text());
	}
	if (o.outcome == FK_CRASHED)
		return forkctl_fail(FORKCTL_FAILED, "%s: %s: `forkctl crashes` shows where",
				    call->name, case_outcome(&o, &text));
	if (o.outcome != FK_FAILED || !o.run_ns || o.code == -ENOMEM || o.code == -EPROTO)
		return forkctl_fail(FORKCTL_FAILED, "%s: %s", call->name, case_outcome(&o, &text));
	/* The arguments are the most frequent cause. */
	memcpy(values.values, call->values, sizeof(values.values));
	case_describe(&given, &values, args, sizeof(args));
	return forkctl_fail(FORKCTL_FAILED, "%s(%s): %s (%s: %s)", call->name, args,
			    case_outcome(&o, &text), fk_task_signature(call->task),
			    fk_task_help(call->task));
}

struct times {
	uint64_t wait;
	uint64_t run;
	uint64_t round_trip;
	uint64_t cpu; /* of all workers */
};

/* CPU time of all jobs of this connection. */
static uint64_t cpu_ns(const fk_client *client)
{
	return board_client_cpu(client->board, client->id, clock_ns());
}

static int run_once(struct call *call, uint8_t *ret_result, struct times *ret_times)
{
	struct fk_timings timings;
	uint64_t start, cpu = cpu_ns(call->client);
	int err, outcome = FK_PENDING;
	fk_job job;

	/* Before the clock starts: the last run may have changed the buffers. */
	forkctl_fill(&call->args, call->task, call->values);
	progress_next(&call->progress);
	start = clock_ns();
	err = fk_submit_batch(call->client, &call->request, 1, FK_WAIT_ROOM, &job);
	if (!err) {
		forkctl_interruptible(job);
		err = progress_wait(&call->progress, job,
				    call->timeout.text ? call->timeout.ns : FK_FOREVER);
		if (err == -ETIMEDOUT) {
			forkctl_cancel(call->client, job);
			err = progress_wait(&call->progress, job, FK_FOREVER);
		}
		if (err)
			(void)error_of_task(call->client, err, call->name);
		forkctl_interruptible(0);
	}
	if (!err)
		outcome = fk_outcome(call->client, job, NULL, NULL);
	if (outcome != FK_DONE || forkctl_interrupted())
		progress_clear(&call->progress);
	if (err)
		return forkctl_fail(err == -ECONNRESET ? FORKCTL_NO_DAEMON : FORKCTL_FAILED, "%s",
				    fk_error_text());
	ret_times->round_trip = clock_ns() - start;
	if (outcome != FK_DONE)
		return report_outcome(call, job);
	(void)fk_timings(call->client, job, &timings);
	ret_times->wait = timings.wait_ns;
	ret_times->run = timings.run_ns;
	/* max(): a running job is counted up to now but charged later for less: cpu may fall. */
	ret_times->cpu = max(cpu_ns(call->client), cpu) - cpu;
	err = fk_result(call->client, job, ret_result, LIMIT_RESULT);
	if (err)
		return forkctl_fail(FORKCTL_FAILED, "%s: %s", call->name, fk_error_text());
	(void)fk_release(call->client, job);
	/* The job ended before the cancel; there is no next run. */
	if (forkctl_interrupted())
		return forkctl_fail(FORKCTL_FAILED, "%s: interrupted", call->name);
	return 0;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a;
	uint64_t y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Prints minimum, median and maximum of one of the times. */
static void print_times(const char *name, const struct times *times, uint64_t n, size_t offset)
{
	_cleanup_free_ uint64_t *values = calloc(n, sizeof(*values));
	struct forkctl_text text[3];

	if (!values)
		return;
	for (uint64_t i = 0; i < n; i++)
		values[i] = *(const uint64_t *)(const void *)((const char *)&times[i] + offset);
	qsort(values, n, sizeof(*values), compare);
	if (n == 1)
		(void)fprintf(stderr, "%-10s  %s\n", name, forkctl_time(&text[0], values[0]));
	else
		(void)fprintf(stderr, "%-10s  min %s, median %s, max %s\n", name,
			      forkctl_time(&text[0], values[0]),
			      forkctl_time(&text[1], values[n / 2]),
			      forkctl_time(&text[2], values[n - 1]));
}

static int run_all(struct call *call)
{
	uint32_t kept = min(call->repeat, 1u << 20);
	_cleanup_free_ struct times *times = calloc(kept, sizeof(*times));
	uint8_t result[LIMIT_RESULT];
	int err;

	if (!times)
		return forkctl_fail(FORKCTL_FAILED, "out of memory");
	progress_init(&call->progress, call->client, call->name, call->repeat);
	for (uint32_t i = 0; i < call->repeat; i++) {
		err = run_once(call, result, &times[i % kept]);
		if (err)
			return err;
	}
	progress_clear(&call->progress);
	err = write_outputs(call, result);
	if (err)
		return err;
	print_result(&call->task->signature, result, result_stream(call));
	(void)fflush(stdout);
	if (call->timing) {
		print_times("wait", times, kept, offsetof(struct times, wait));
		print_times("run", times, kept, offsetof(struct times, run));
		print_times("round trip", times, kept, offsetof(struct times, round_trip));
		/* A cluster does not report it. */
		if (!call->client->waker.local)
			print_times("CPU", times, kept, offsetof(struct times, cpu));
	}
	return FORKCTL_OK;
}

/* The worker or node must exist. */
static int check_place(const struct call *call)
{
	uint32_t n = call->client->n_workers;

	if (call->worker != CALL_ANYWHERE && call->worker >= n)
		return forkctl_fail(FORKCTL_USAGE,
				    "--worker must be from 0 to %" PRIu32 ", not %" PRIu32
				    ": `forkctl status` lists the workers",
				    n - 1, call->worker);
	if (call->node != CALL_ANYWHERE && !batch_has_node(call->client, call->node))
		return forkctl_fail(FORKCTL_USAGE,
				    "--node=%" PRIu32
				    ": there is no worker on this NUMA node: `forkctl "
				    "status` lists the workers",
				    call->node);
	return 0;
}

static int find_and_run(struct call *call)
{
	int err = forkctl_find(call->client, call->name, "forkctl tasks", &call->task);

	if (err)
		return err;
	err = forkctl_values(&call->args, call->client, call->task, call->values);
	if (!err)
		err = check_outputs(call);
	if (!err)
		err = check_place(call);
	if (err)
		return err;
	/* A cluster does not pass a cancel on. So the machine ends the job, a little later. */
	if (call->client->waker.local && call->timeout.text && !call->deadline.text)
		call->request.options.timeout_ns =
			call->timeout.ns + min(CALL_GRACE, UINT64_MAX - call->timeout.ns);
	call->request.task = call->task;
	call->request.values = call->values;
	call->request.size = call->args.n;
	forkctl_catch_interrupts(call->client);
	return run_all(call);
}

int forkctl_call(const char *socket, int argc, char *argv[])
{
	struct call call = { .repeat = 1, .worker = CALL_ANYWHERE, .node = CALL_ANYWHERE };
	int status = parse_command_line(&call, argc, argv);

	if (!status && size_is_open(&call.args))
		status = size_ask(socket, call.name, &call.args);
	if (!status)
		status = forkctl_open(socket, 1, forkctl_args_heap(&call.args), &call.client);
	if (!status) {
		status = find_and_run(&call);
		(void)fk_close(call.client);
	}
	forkctl_args_fini(&call.args);
	return status;
}
