/* SPDX-License-Identifier: MIT */
/*
 * client/forkctl_call.c - forkctl call: runs a task with arguments typed by its signature
 *
 * WHAT IT IS
 *   The size of the heap has to be known before the connection exists, and the types of the
 *   arguments only after it. So every argument that begins with @ and names a file is read first;
 *   where the signature then says str, the argument is taken as the text that it is.
 *
 *	forkctl call [-n N] [-t] [-o FILE]... [LIMIT]... MODULE:TASK ARG...
 *
 *   Options may stand behind the task as well; "-5" is a number and "--" ends the options.
 */
#include "client/forkctl.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/util.h"

struct call {
	const char *name;
	char *args[SIGNATURE_MAX_ARGS];
	struct forkctl_file files[SIGNATURE_MAX_ARGS];
	uint32_t n_args;
	const char *outputs[SIGNATURE_MAX_ARGS];
	uint32_t n_outputs;
	uint64_t repeat;
	int timing;
	/* as they were written, NULL for none */
	const char *timeout;
	const char *deadline;
	const char *weight;
	const char *worker;
	const char *node;
	uint64_t timeout_ns;
	struct fk_request request;
	fk_client *client;
	const fk_task *task;
	union fk_value values[SIGNATURE_MAX_ARGS];
};

/* What one argument is in messages: "argument 2 (eps:f64)". */
static const char *argument(char *text, size_t size, const struct signature *signature, uint32_t i)
{
	const struct signature_item *item = &signature->args[i];

	(void)snprintf(text, size, "argument %" PRIu32 " (%s%s%s)", i + 1, item->name,
		       item->name[0] ? ":" : "", signature_type_name(item->type));
	return text;
}

int forkctl_read_file(const char *path, struct forkctl_file *ret_file)
{
	_cleanup_close_ int opened = -1;
	_cleanup_free_ char *data = NULL;
	size_t room = 65536;
	size_t size = 0;
	struct stat st;
	int fd = STDIN_FILENO;

	if (!streq(path, "-")) {
		opened = open(path, O_RDONLY | O_CLOEXEC);
		if (opened < 0)
			return -errno;
		fd = opened;
	}
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0)
		room = (size_t)st.st_size + 1;
	for (;;) {
		ssize_t n;

		if (!data || size == room) {
			char *more = realloc(data, data ? room * 2 : room);

			if (!more)
				return -ENOMEM;
			room = data ? room * 2 : room;
			data = more;
		}
		n = read(fd, data + size, room - size);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		size += (size_t)n;
	}
	ret_file->data = steal_ptr(data);
	ret_file->size = size;
	return 0;
}

static int write_file(const char *path, const char *data, size_t size)
{
	_cleanup_close_ int opened = -1;
	int fd = STDOUT_FILENO;

	if (!streq(path, "-")) {
		opened = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
		if (opened < 0)
			return -errno;
		fd = opened;
	}
	while (size) {
		ssize_t n = write(fd, data, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		data += n;
		size -= (size_t)n;
	}
	if (opened >= 0 && fsync(opened) < 0 && errno != EINVAL && errno != EROFS)
		return -errno;
	return 0;
}

/* The value of an option: behind "=", or the next word. NULL: there is none. */
static const char *option_value(int argc, char *argv[], int *i)
{
	char *equals = strchr(argv[*i], '=');

	if (equals && argv[*i][1] == '-')
		return equals + 1;
	return *i + 1 < argc ? argv[++*i] : NULL;
}

static int is_option(const char *word, const char *brief, const char *full)
{
	size_t n = strlen(full);

	return streq(word, brief) || (!strncmp(word, full, n) && (!word[n] || word[n] == '='));
}

/* An argument, not an option: what does not begin with -, a lone -, and negative numbers. */
static int is_argument(const char *word)
{
	return word[0] != '-' || !word[1] || strchr("0123456789.", word[1]) ||
	       !strncmp(word, "-inf", 4) || !strncmp(word, "-nan", 4);
}

static int parse_repeat(const char *value, uint64_t *ret_repeat)
{
	char *end;

	errno = 0;
	*ret_repeat = strtoull(value, &end, 10);
	return errno || *end || end == value || value[0] == '-' || !*ret_repeat;
}

/* A number of 32 bits, from least on. */
static int parse_u32(const char *text, uint64_t least, uint32_t *ret)
{
	unsigned long long n;
	char *end;

	errno = 0;
	n = strtoull(text, &end, 10);
	if (errno || *end || end == text || text[0] == '-' || n < least || n > UINT32_MAX)
		return -EINVAL;
	*ret = (uint32_t)n;
	return 0;
}

/* The value of one of the options that go into the request, once it is known what they are. */
static int parse_limits(struct call *call)
{
	struct fk_request *r = &call->request;

	if (call->timeout && forkctl_parse_time(call->timeout, &call->timeout_ns))
		return forkctl_fail(FORKCTL_USAGE,
				    "--timeout wants a time such as 500ms, 20s or 5min, not %s",
				    call->timeout);
	if (call->deadline && forkctl_parse_time(call->deadline, &r->timeout_ns))
		return forkctl_fail(FORKCTL_USAGE,
				    "--deadline wants a time such as 500ms, 20s or 5min, not %s",
				    call->deadline);
	if (call->weight && parse_u32(call->weight, 1, &r->weight))
		return forkctl_fail(FORKCTL_USAGE, "--weight wants a number from 1 on, not %s",
				    call->weight);
	if (call->worker && call->node)
		return forkctl_fail(FORKCTL_USAGE, "--worker and --node cannot both be obeyed");
	if (call->worker || call->node) {
		const char *text = call->worker ? call->worker : call->node;

		if (parse_u32(text, 0, &r->place_index))
			return forkctl_fail(FORKCTL_USAGE, "--%s wants a number, not %s",
					    call->worker ? "worker" : "node", text);
		r->place = call->worker ? FK_PLACE_WORKER : FK_PLACE_NODE;
		r->flags |= FK_STRICT;
	}
	return 0;
}

/* The option that a word is, and where its value goes; NULL: none of those with one. */
static const char **limit_option(struct call *call, const char *word)
{
	if (is_option(word, "--timeout", "--timeout"))
		return &call->timeout;
	if (is_option(word, "--deadline", "--deadline"))
		return &call->deadline;
	if (is_option(word, "--weight", "--weight"))
		return &call->weight;
	if (is_option(word, "--worker", "--worker"))
		return &call->worker;
	if (is_option(word, "--node", "--node"))
		return &call->node;
	return NULL;
}

static int parse_command_line(struct call *call, int argc, char *argv[])
{
	int options = 1;

	for (int i = 1; i < argc; i++) {
		const char *word = argv[i];
		const char *value;

		if (options && streq(word, "--")) {
			options = 0;
		} else if (!options || is_argument(word)) {
			if (!call->name)
				call->name = word;
			else if (call->n_args == SIGNATURE_MAX_ARGS)
				return forkctl_fail(
					FORKCTL_USAGE,
					"a task has at most %u arguments, %s is too many",
					SIGNATURE_MAX_ARGS, word);
			else
				call->args[call->n_args++] = argv[i];
		} else if (is_option(word, "-t", "--timing")) {
			call->timing = 1;
		} else if (is_option(word, "-n", "--repeat")) {
			value = option_value(argc, argv, &i);
			if (!value || parse_repeat(value, &call->repeat))
				return forkctl_fail(FORKCTL_USAGE,
						    "--repeat wants a number from 1 on, not %s",
						    value ? value : "nothing");
		} else if (is_option(word, "-o", "--output")) {
			value = option_value(argc, argv, &i);
			if (!value)
				return forkctl_fail(FORKCTL_USAGE, "-o wants a file");
			if (call->n_outputs == SIGNATURE_MAX_ARGS)
				return forkctl_fail(FORKCTL_USAGE, "too many -o");
			call->outputs[call->n_outputs++] = value;
		} else if (limit_option(call, word)) {
			value = option_value(argc, argv, &i);
			if (!value)
				return forkctl_fail(FORKCTL_USAGE, "%s wants a value", word);
			*limit_option(call, word) = value;
		} else {
			return forkctl_fail(FORKCTL_USAGE,
					    "call has no option %s (`forkctl call --help` lists "
					    "them); text that begins with - goes behind --",
					    word);
		}
	}
	if (!call->name)
		return forkctl_fail(FORKCTL_USAGE,
				    "call which task? `forkctl tasks` lists them all");
	if (!strchr(call->name, ':'))
		return forkctl_fail(FORKCTL_USAGE, "a task is called MODULE:TASK, not %s",
				    call->name);
	return parse_limits(call);
}

int forkctl_parse_i64(const char *text, int64_t *ret)
{
	char *end;

	errno = 0;
	*ret = strtoll(text, &end, 0);
	return errno || *end || end == text ? -EINVAL : 0;
}

int forkctl_parse_f64(const char *text, double *ret)
{
	char *end;

	*ret = strtod(text, &end);
	return *end || end == text ? -EINVAL : 0;
}

static int set_buffer(struct call *call, uint32_t i)
{
	const struct signature *signature = &call->task->signature;
	struct forkctl_file *file = &call->files[i];
	void *data;
	char text[64];
	int err;

	argument(text, sizeof(text), signature, i);
	if (call->args[i][0] != '@')
		return forkctl_fail(FORKCTL_USAGE, "%s: %s is a buffer: give a file, as @FILE: %s",
				    call->name, text, call->args[i]);
	if (file->err)
		return forkctl_fail(FORKCTL_USAGE, "%s: %s: cannot read %s: %s", call->name, text,
				    call->args[i] + 1, strerrordesc_np(-file->err));
	err = fk_alloc(call->client, file->size, &data);
	if (err)
		return forkctl_fail(FORKCTL_FAILED, "%s: %s: %s", call->name, text,
				    fk_strerror(err));
	if (file->size)
		memcpy(data, file->data, file->size);
	call->values[i].buf = (struct fk_buffer){ .data = data, .size = file->size };
	return 0;
}

static int set_values(struct call *call)
{
	const struct signature *signature = &call->task->signature;
	uint32_t n_iobufs = 0;
	char text[64];

	if (call->n_args != signature->n_args)
		return forkctl_fail(FORKCTL_USAGE,
				    "%s takes %" PRIu32 " argument%s (%s), not %" PRIu32,
				    call->name, signature->n_args,
				    signature->n_args == 1 ? "" : "s",
				    fk_task_signature(call->task), call->n_args);
	for (uint32_t i = 0; i < signature->n_args; i++) {
		int err = 0;

		switch ((enum signature_type)signature->args[i].type) {
		case SIGNATURE_I64:
			err = forkctl_parse_i64(call->args[i], &call->values[i].i64);
			if (err)
				return forkctl_fail(FORKCTL_USAGE,
						    "%s: %s must be a whole number of 64 bits, "
						    "not %s",
						    call->name,
						    argument(text, sizeof(text), signature, i),
						    call->args[i]);
			break;
		case SIGNATURE_F64:
			err = forkctl_parse_f64(call->args[i], &call->values[i].f64);
			if (err)
				return forkctl_fail(FORKCTL_USAGE,
						    "%s: %s must be a number, not %s", call->name,
						    argument(text, sizeof(text), signature, i),
						    call->args[i]);
			break;
		case SIGNATURE_STR:
			call->values[i].str = call->args[i];
			break;
		case SIGNATURE_IOBUF:
			n_iobufs++;
			err = set_buffer(call, i);
			break;
		case SIGNATURE_BUF:
			err = set_buffer(call, i);
			break;
		}
		if (err)
			return err;
	}
	if (call->n_outputs > n_iobufs)
		return forkctl_fail(FORKCTL_USAGE, "%s has %" PRIu32 " iobuf for -o, not %" PRIu32,
				    call->name, n_iobufs, call->n_outputs);
	return 0;
}

static void print_result(const struct signature *signature, const uint8_t *result)
{
	for (uint32_t i = 0; i < signature->n_results; i++) {
		const struct signature_item *item = &signature->results[i];

		if (item->name[0])
			printf("%s=", item->name);
		if (item->type == SIGNATURE_F64) {
			char text[40];
			double value;

			memcpy(&value, result + item->offset, sizeof(value));
			/* As short as it can be and still mean the same number. */
			for (int digits = 15; digits <= 17; digits++) {
				(void)snprintf(text, sizeof(text), "%.*g", digits, value);
				if (strtod(text, NULL) == value)
					break;
			}
			printf("%s\n", text);
		} else {
			int64_t value;

			memcpy(&value, result + item->offset, sizeof(value));
			printf("%" PRId64 "\n", value);
		}
	}
}

/* One line on what became of a job that is not DONE. */
static int report_outcome(const struct call *call, fk_job job)
{
	int code;
	int signo;
	int outcome = fk_outcome(call->client, job, &code, &signo);
	const char *help = "";
	int task = board_find_task(call->client->board, call->name);

	if (task >= 0)
		help = call->client->board->tasks[task].help;

	if (outcome == FK_CANCELLED && forkctl_interrupted())
		return forkctl_fail(FORKCTL_FAILED, "%s: CANCELLED: interrupted", call->name);
	if (outcome == FK_CANCELLED && call->timeout)
		return forkctl_fail(FORKCTL_FAILED, "%s: CANCELLED after --timeout=%s", call->name,
				    call->timeout);
	if (outcome == FK_EXPIRED && call->deadline)
		return forkctl_fail(FORKCTL_FAILED, "%s: EXPIRED after --deadline=%s", call->name,
				    call->deadline);
	if (outcome == FK_CRASHED)
		return forkctl_fail(FORKCTL_FAILED, "%s: CRASHED by signal %d (%s)", call->name,
				    signo, sigabbrev_np(signo) ? sigabbrev_np(signo) : "?");
	if (outcome == FK_FAILED && code < 0)
		return forkctl_fail(FORKCTL_FAILED, "%s: FAILED: %s (%s: %s)", call->name,
				    strerrordesc_np(-code) ? strerrordesc_np(-code) : "?",
				    fk_task_signature(call->task), help);
	if (outcome == FK_FAILED)
		return forkctl_fail(FORKCTL_FAILED, "%s: FAILED with code %d of its own (%s: %s)",
				    call->name, code, fk_task_signature(call->task), help);
	return forkctl_fail(FORKCTL_FAILED, "%s: %s", call->name, fk_outcome_name(outcome));
}

struct times {
	uint64_t wait;
	uint64_t run;
	uint64_t round_trip;
};

static int run_once(struct call *call, uint8_t *ret_result, struct times *ret_times)
{
	struct fk_timings timings;
	uint64_t start = clock_ns();
	fk_job job;
	int err;

	err = fk_submit_batch(call->client, &call->request, 1, FK_WAIT_ROOM, &job);
	if (!err) {
		forkctl_interruptible(job);
		err = fk_wait(call->client, job, call->timeout ? call->timeout_ns : FK_FOREVER);
		if (err == -ETIMEDOUT) {
			forkctl_cancel(call->client, job);
			err = fk_wait(call->client, job, FK_FOREVER);
		}
		forkctl_interruptible(0);
	}
	if (err)
		return forkctl_fail(err == -ECONNRESET ? FORKCTL_NO_DAEMON : FORKCTL_FAILED,
				    "%s: %s", call->name, fk_strerror(err));
	ret_times->round_trip = clock_ns() - start;
	if (fk_outcome(call->client, job, NULL, NULL) != FK_DONE)
		return report_outcome(call, job);
	(void)fk_timings(call->client, job, &timings);
	ret_times->wait = timings.wait_ns;
	ret_times->run = timings.run_ns;
	err = fk_result(call->client, job, ret_result, LIMIT_RESULT);
	if (err)
		return forkctl_fail(FORKCTL_FAILED, "%s: %s", call->name, fk_strerror(err));
	(void)fk_release(call->client, job);
	/* It was faster; there is no next one. */
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

/* Least, middle and greatest of one of the times. */
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
	const struct signature *signature = &call->task->signature;
	uint64_t kept = min(call->repeat, UINT64_C(1) << 20);
	_cleanup_free_ struct times *times = calloc(kept, sizeof(*times));
	uint8_t result[LIMIT_RESULT];
	uint32_t output = 0;
	int err;

	if (!times)
		return forkctl_fail(FORKCTL_FAILED, "out of memory");
	for (uint64_t i = 0; i < call->repeat; i++) {
		err = run_once(call, result, &times[i % kept]);
		if (err)
			return err;
	}
	for (uint32_t i = 0; i < signature->n_args && output < call->n_outputs; i++) {
		const char *path = call->outputs[output];

		if (signature->args[i].type != SIGNATURE_IOBUF)
			continue;
		err = write_file(path, call->values[i].buf.data, call->values[i].buf.size);
		if (err)
			return forkctl_fail(FORKCTL_FAILED, "cannot write %s: %s", path,
					    strerrordesc_np(-err));
		output++;
	}
	print_result(signature, result);
	(void)fflush(stdout);
	if (call->timing) {
		print_times("wait", times, kept, offsetof(struct times, wait));
		print_times("run", times, kept, offsetof(struct times, run));
		print_times("round trip", times, kept, offsetof(struct times, round_trip));
	}
	return FORKCTL_OK;
}

/* There is such a worker, or node. */
static int check_place(const struct call *call)
{
	const struct board *board = call->client->board;
	uint32_t n = call->client->n_workers;

	if (call->worker && call->request.place_index >= n)
		return forkctl_fail(FORKCTL_USAGE,
				    "--worker=%s: there is no such worker, they are 0 to %" PRIu32
				    " (`forkctl status`)",
				    call->worker, n - 1);
	for (uint32_t i = 0; call->node; i++) {
		if (i == n)
			return forkctl_fail(FORKCTL_USAGE,
					    "--node=%s: no worker is on such a NUMA node "
					    "(`forkctl status`)",
					    call->node);
		/* Relaxed: written once, before this client connected. */
		if (atomic_load_explicit(&board->workers[i].node, memory_order_relaxed) ==
		    call->request.place_index)
			break;
	}
	return 0;
}

static int find_and_run(struct call *call)
{
	int err = fk_task_find(call->client, call->name, &call->task);

	if (err == -ENOENT)
		return forkctl_fail(FORKCTL_USAGE,
				    "there is no task %s: `forkctl tasks` lists them all",
				    call->name);
	if (err)
		return forkctl_fail(FORKCTL_FAILED, "%s: %s", call->name, fk_strerror(err));
	err = set_values(call);
	if (!err)
		err = check_place(call);
	if (err)
		return err;
	call->request.task = call->task;
	call->request.values = call->values;
	call->request.size = call->n_args;
	forkctl_catch_interrupts(call->client);
	return run_all(call);
}

int forkctl_call(const char *socket, int argc, char *argv[])
{
	struct call call = { .repeat = 1 };
	uint64_t heap = FORKCTL_HEAP_SMALL;
	int status = parse_command_line(&call, argc, argv);

	for (uint32_t i = 0; !status && i < call.n_args; i++) {
		if (call.args[i][0] == '@')
			call.files[i].err = forkctl_read_file(call.args[i] + 1, &call.files[i]);
		heap += align_up(call.files[i].size, HEAP_ALIGN) + HEAP_ALIGN +
			align_up(strlen(call.args[i]) + 1, HEAP_ALIGN);
	}
	if (!status)
		status = forkctl_open(socket, 1, align_up(heap, 4096), &call.client);
	if (!status) {
		status = find_and_run(&call);
		(void)fk_close(call.client);
	}
	for (uint32_t i = 0; i < call.n_args; i++)
		free(call.files[i].data);
	return status;
}
