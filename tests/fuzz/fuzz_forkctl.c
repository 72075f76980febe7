/* SPDX-License-Identifier: MIT */
/*
 * fuzz_forkctl.c - bytes as the arguments of forkctl's commands that call tasks
 *
 * The first line names the command. Its words follow, one per line, up to an empty line; then a
 * line with a signature, and the contents of a file that an argument names with @. The target reads
 * the command's own table of options, and converts the words to values of these types. There is no
 * forkd: the client has a heap of exactly the size that forkctl would request.
 *
 * WHAT MUST BE TRUE
 *   Options are in the ranges of their table, and only words remain. The heap has room for all
 *   buffers. A second reading of a number gives the same value. Otherwise the exit code is that of
 *   wrong usage.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/forkctl/common.h"
#include "client/forkctl/forkctl.h"
#include "client/forkctl/arguments.h"
#include "client/lib/client_state.h"
#include "client/lib/heap.h"
#include "common/util.h"
#include "tests/fuzz/fuzz.h"

#define WORDS 32

static const struct {
	const char *name;
	const struct forkctl_option *options;
} commands[] = {
	{ "call", forkctl_call_options },
	{ "check", forkctl_check_options },
	{ "profile", forkctl_profile_options },
};

static size_t field_size(enum forkctl_option_type type)
{
	switch (type) {
	case FORKCTL_FLAG:
		return sizeof(int);
	case FORKCTL_NUMBER:
		return sizeof(uint32_t);
	case FORKCTL_TIME:
	case FORKCTL_SECONDS:
		return sizeof(struct forkctl_limit);
	case FORKCTL_TEXT:
	case FORKCTL_CHOICE:
		return sizeof(const char *);
	case FORKCTL_LIST:
		return sizeof(struct forkctl_words);
	}
	return 0;
}

/* Returns memory for a command's struct, of exactly the size that its options use. */
static char *new_values(const struct forkctl_option *options)
{
	size_t size = 0;
	char *values;

	for (const struct forkctl_option *o = options; o->name; o++)
		size = max(size, o->offset + field_size(o->type));
	values = calloc(1, size);
	FUZZ_ASSERT(values);
	return values;
}

static void check_option(const struct forkctl_option *o, const void *field)
{
	const struct forkctl_words *list = field;
	const struct forkctl_limit *limit = field;
	uint32_t number;

	switch (o->type) {
	case FORKCTL_FLAG:
		FUZZ_ASSERT(*(const int *)field == 0 || *(const int *)field == 1);
		break;
	case FORKCTL_NUMBER:
		memcpy(&number, field, sizeof(number));
		FUZZ_ASSERT(!number || (number >= o->least && number <= o->most));
		break;
	case FORKCTL_TIME:
	case FORKCTL_SECONDS:
		FUZZ_ASSERT(!limit->text || (limit->ns >= o->least && limit->ns <= o->most));
		break;
	case FORKCTL_TEXT: /* of the command line, or NULL */
	case FORKCTL_CHOICE:
		break;
	case FORKCTL_LIST:
		FUZZ_ASSERT(list->n <= FORKCTL_WORDS);
		for (uint32_t i = 0; i < list->n; i++)
			FUZZ_ASSERT(list->words[i]);
		break;
	}
}

/* A word that names a file is changed to one of these: only data of the input is read. */
static char *safe_word(char *word)
{
	static char path[64];
	static int fd = -1;
	static const char *const names[] = { "@",     "@/dev/null", "@/nonexistent", path,
					     "@:100", "@:",	    "@:4X" };

	if (word[0] != '@')
		return word;
	if (fd < 0) {
		fd = memfd_create("fuzz", 0);
		FUZZ_ASSERT(fd >= 0);
		(void)snprintf(path, sizeof(path), "@/proc/self/fd/%d", fd);
	}
	/* Sizes after a colon: no heap of a terabyte. */
	if (word[1] == ':')
		return (char *)(uintptr_t)names[4 + (unsigned char)word[2] % 3];
	return (char *)(uintptr_t)names[word[1] ? 1 + (unsigned char)word[1] % 3 : 0];
}

/* Fills that file with the rest of the input. */
static void fill_file(char *const *words, uint32_t n, struct fuzz_input rest)
{
	for (uint32_t i = 0; i < n; i++) {
		int fd;

		if (strncmp(words[i], "@/proc", 6))
			continue;
		fd = open(words[i] + 1, O_WRONLY | O_TRUNC | O_CLOEXEC);
		FUZZ_ASSERT(fd >= 0);
		FUZZ_ASSERT(write(fd, rest.at, (size_t)(rest.end - rest.at)) == rest.end - rest.at);
		(void)close(fd);
		return;
	}
}

static bool is_zero(const char *data, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if (data[i])
			return false;
	return true;
}

static void check_value(const struct signature_item *item, const struct forkctl_args *args,
			uint32_t i, const union fk_value *value, const struct heap *heap)
{
	char text[64];
	int64_t n;
	double x;

	switch ((enum signature_type)item->type) {
	case SIGNATURE_I64:
		(void)snprintf(text, sizeof(text), "%" PRId64, value->i64);
		FUZZ_ASSERT(forkctl_parse_i64(text, &n) == 0 && n == value->i64);
		break;
	case SIGNATURE_F64:
		(void)snprintf(text, sizeof(text), "%.17g", value->f64);
		FUZZ_ASSERT(forkctl_parse_f64(text, &x) == 0);
		FUZZ_ASSERT(x == value->f64 || (isnan(x) && isnan(value->f64)));
		break;
	case SIGNATURE_STR:
		FUZZ_ASSERT(value->str == args->words[i]);
		break;
	case SIGNATURE_BUF:
	case SIGNATURE_IOBUF:
		FUZZ_ASSERT(value->buf.size == args->files[i].size);
		FUZZ_ASSERT(heap_contains(heap, value->buf.data, value->buf.size));
		FUZZ_ASSERT(!args->files[i].open);
		if (!args->files[i].data)
			FUZZ_ASSERT(is_zero(value->buf.data, value->buf.size));
		else
			FUZZ_ASSERT(!memcmp(value->buf.data, args->files[i].data, value->buf.size));
		break;
	}
}

/* Checks the words as arguments of a task. */
static void check_values(char *const *words, uint32_t n, const char *signature)
{
	static const _Atomic uint32_t alive = 1;
	struct fk_client client = { .alive = &alive };
	struct fk_client_task task = { .name = "fuzz:task" };
	union fk_value values[SIGNATURE_MAX_ARGS];
	struct forkctl_args args = { .n = 0 };
	int err = forkctl_args_init(&args, words, n);
	void *base;
	uint64_t size;

	FUZZ_ASSERT(err == 0 || (err == FORKCTL_USAGE && n > SIGNATURE_MAX_ARGS));
	if (err || signature_parse(signature, &task.signature, NULL))
		goto out;
	(void)snprintf(task.text, sizeof(task.text), "%s", signature);
	size = forkctl_args_heap(&args);
	base = aligned_alloc(4096, size);
	FUZZ_ASSERT(base);
	heap_init(&client.heap, base, size, size);
	err = forkctl_values(&args, &client, &task, values);
	FUZZ_ASSERT(err == 0 || err == FORKCTL_USAGE);
	if (err == 0) {
		FUZZ_ASSERT(n == task.signature.n_args);
		forkctl_fill(&args, &task, values);
		for (uint32_t i = 0; i < n; i++)
			check_value(&task.signature.args[i], &args, i, &values[i], &client.heap);
	}
	heap_fini(&client.heap);
	free(base);
out:
	forkctl_args_fini(&args);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input input = { data, data + size };
	char *words[WORDS], *argv[WORDS], *signature, *values;
	const struct forkctl_option *options;
	int argc = 1, n, err;

	words[0] = argv[0] = fuzz_text(&input, '\n');
	options = commands[0].options;
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		if (streq(words[0], commands[i].name))
			options = commands[i].options;
	while (argc < WORDS && fuzz_more(&input) && *input.at != '\n') {
		words[argc] = fuzz_text(&input, '\n');
		argv[argc] = safe_word(words[argc]);
		argc++;
	}
	(void)fuzz_u8(&input);
	signature = fuzz_text(&input, '\n');

	values = new_values(options);
	n = argc;
	err = forkctl_options(options, values, &n, argv);
	FUZZ_ASSERT(err == 0 || err == FORKCTL_USAGE);
	if (err == 0) {
		FUZZ_ASSERT(n >= 1 && n <= argc && argv[0] == words[0]);
		for (const struct forkctl_option *o = options; o->name; o++)
			check_option(o, values + o->offset);
		if (n > 1) {
			fill_file(argv + 2, (uint32_t)n - 2, input);
			check_values(argv + 2, (uint32_t)n - 2, signature);
		}
	}
	free(values);
	free(signature);
	for (int i = 0; i < argc; i++)
		free(words[i]);
	return 0;
}
