/* SPDX-License-Identifier: MIT */
/*
 * The size of the heap must be known before the connection is made, but the types of the arguments
 * are known only after it. So the file of every word that begins with @ is read first. If the
 * signature then has str, the word itself is the argument. "@:64K" is a buffer of this size, of
 * zeros. A file whose name begins with a colon is "@./:name".
 */
#include "client/forkctl/arguments.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/forkctl/common.h"
#include "client/lib/client_state.h"
#include "common/cleanup.h"
#include "common/number.h"
#include "common/util.h"

#define SIZE_MOST (UINT64_C(1) << 40) /* bytes: maximum of heap-max */

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

static int read_size(const char *text, struct forkctl_file *ret_file)
{
	uint64_t size = 0;
	int err = *text ? number_parse_unit(text, &number_sizes, "", &size) : 0;

	if (err || size > SIZE_MOST)
		return err ? err : -ERANGE;
	ret_file->size = size;
	ret_file->open = !*text;
	return 0;
}

int forkctl_args_init(struct forkctl_args *args, char *const *words, uint32_t n)
{
	if (n > SIGNATURE_MAX_ARGS)
		return forkctl_fail(FORKCTL_USAGE, "a task has at most %u arguments, not %" PRIu32,
				    SIGNATURE_MAX_ARGS, n);
	*args = (struct forkctl_args){ .words = words, .n = n };
	for (uint32_t i = 0; i < n; i++) {
		struct forkctl_file *file = &args->files[i];

		if (words[i][0] == '@')
			file->err = words[i][1] == ':' ? read_size(words[i] + 2, file)
						       : forkctl_read_file(words[i] + 1, file);
	}
	return 0;
}

void forkctl_args_fini(struct forkctl_args *args)
{
	for (uint32_t i = 0; i < SIGNATURE_MAX_ARGS; i++)
		free(args->files[i].data);
	memset(args->files, 0, sizeof(args->files));
}

uint64_t forkctl_args_heap(const struct forkctl_args *args)
{
	uint64_t heap = FORKCTL_HEAP_SMALL;

	for (uint32_t i = 0; i < args->n; i++)
		heap += align_up(args->files[i].size, HEAP_ALIGN) + HEAP_ALIGN +
			align_up(strlen(args->words[i]) + 1, HEAP_ALIGN);
	return align_up(heap, 4096);
}

int forkctl_parse_i64(const char *text, int64_t *ret)
{
	const char *digits = text + (text[0] == '-' || text[0] == '+');
	long long n;
	char *end;

	if (digits[0] < '0' || digits[0] > '9')
		return -EINVAL; /* strtoll() would accept leading blanks */
	errno = 0;
	n = strtoll(text, &end, digits[0] == '0' && (digits[1] | 32) == 'x' ? 16 : 10);
	if (errno || *end)
		return -EINVAL;
	*ret = n;
	return 0;
}

int forkctl_parse_f64(const char *text, double *ret)
{
	double x;
	char *end;

	if (!text[0] || strchr(" \t\n\v\f\r", text[0]))
		return -EINVAL;
	errno = 0;
	x = strtod(text, &end);
	/* ERANGE of a number that is too small is accepted: x is 0 or subnormal. */
	if (*end || end == text || (errno == ERANGE && fabs(x) > 1))
		return -EINVAL;
	*ret = x;
	return 0;
}

static int open_buffer(const struct forkctl_args *args, fk_client *client, const char *name,
		       uint32_t i, struct fk_buffer *ret_buffer)
{
	const struct forkctl_file *file = &args->files[i];
	const char *word = args->words[i];
	void *data;
	int err;

	if (word[0] != '@' || !word[1])
		return forkctl_fail(FORKCTL_USAGE,
				    "%s is a buffer: give @FILE, or a size such as @:64K, not %s",
				    name, *word ? word : "nothing");
	if (file->open)
		return forkctl_fail(FORKCTL_USAGE,
				    "%s: @: without a size is only for an iobuf of `forkctl call`: "
				    "give a size such as @:64K",
				    name);
	if (file->err && word[1] == ':')
		return forkctl_fail(FORKCTL_USAGE,
				    "%s must be a size, such as @:64K or @:10M, "
				    "not %s",
				    name, word);
	if (file->err)
		return forkctl_fail(FORKCTL_USAGE, "%s: cannot read %s: %s", name, word + 1,
				    strerrordesc_np(-file->err));
	if (client) {
		err = fk_alloc(client, file->size, &data);
	} else {
		data = malloc(file->size + 1);
		err = data ? 0 : -ENOMEM;
	}
	if (err)
		return forkctl_fail(FORKCTL_FAILED, "%s: %s: %s", name, word,
				    client ? fk_error_text() : fk_strerror(err));
	*ret_buffer = (struct fk_buffer){ .data = data, .size = file->size };
	return 0;
}

int forkctl_find(fk_client *client, const char *name, const char *list, const fk_task **ret_task)
{
	int err = fk_task_find(client, name, ret_task);

	/* A cluster says more. */
	if (err == -FK_E_NO_TASK && !client->waker.local)
		return forkctl_fail(FORKCTL_USAGE, "there is no task %s: `%s` lists tasks", name,
				    list);
	if (err)
		return forkctl_fail(FORKCTL_FAILED, "%s", fk_error_text());
	return 0;
}

int forkctl_values(const struct forkctl_args *args, fk_client *client, const fk_task *task,
		   union fk_value *values)
{
	const struct signature *signature = &task->signature;
	int err = 0;

	if (args->n != signature->n_args)
		return forkctl_fail(FORKCTL_USAGE,
				    "%s takes %" PRIu32 " argument%s (%s), not %" PRIu32,
				    fk_task_name(task), signature->n_args,
				    forkctl_plural(signature->n_args), fk_task_signature(task),
				    args->n);
	for (uint32_t i = 0; !err && i < args->n; i++) {
		const struct signature_item *item = &signature->args[i];
		const char *word = args->words[i];
		const char *wants = NULL;
		char name[160];

		(void)snprintf(name, sizeof(name), "%s: argument %" PRIu32 " (%s%s%s)",
			       fk_task_name(task), i + 1, item->name, item->name[0] ? ":" : "",
			       signature_type_name(item->type));
		switch ((enum signature_type)item->type) {
		case SIGNATURE_I64:
			if (forkctl_parse_i64(word, &values[i].i64))
				wants = "a whole number of 64 bits";
			break;
		case SIGNATURE_F64:
			if (forkctl_parse_f64(word, &values[i].f64))
				wants = "a number that fits into 64 bits";
			break;
		case SIGNATURE_STR:
			values[i].str = word;
			break;
		case SIGNATURE_BUF:
		case SIGNATURE_IOBUF:
			err = open_buffer(args, client, name, i, &values[i].buf);
			break;
		}
		if (wants)
			err = forkctl_fail(FORKCTL_USAGE, "%s must be %s, not %s", name, wants,
					   *word ? word : "nothing");
	}
	return err;
}

void forkctl_fill(const struct forkctl_args *args, const fk_task *task, union fk_value *values)
{
	for (uint32_t i = 0; i < task->signature.n_args; i++) {
		const struct forkctl_file *file = &args->files[i];

		if (!signature_is_buffer(task->signature.args[i].type) || !file->size)
			continue;
		if (file->data)
			memcpy(values[i].buf.data, file->data, file->size);
		else
			memset(values[i].buf.data, 0, file->size);
	}
}
