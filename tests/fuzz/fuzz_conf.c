/* SPDX-License-Identifier: MIT */
/*
 * fuzz_conf.c - bytes as a forkd.conf
 *
 * WHAT MUST BE TRUE
 *   The whole file is read, and options_print() writes the same options; or the error is one line
 *   that names a line of the file, and exactly the lines before it were read.
 */
#include <errno.h>

#include "tests/fuzz/fuzz_options.h"

/* Returns the start of line number `line`, from 1. */
static size_t line_start(const uint8_t *data, size_t size, unsigned long line)
{
	size_t at = 0;

	while (--line) {
		const uint8_t *end = at < size ? memchr(data + at, '\n', size - at) : NULL;

		FUZZ_ASSERT(end);
		at = (size_t)(end - data) + 1;
	}
	return at;
}

static void check_error(const struct options *o, const uint8_t *data, size_t size,
			const struct options_error *error)
{
	static const char where[] = "forkd.conf:";
	struct options_error none = { "" };
	struct options before;
	unsigned long line;
	char *rest;

	FUZZ_ASSERT(fuzz_is_line(error->text));
	FUZZ_ASSERT(!strncmp(error->text, where, sizeof(where) - 1));
	line = strtoul(error->text + sizeof(where) - 1, &rest, 10);
	FUZZ_ASSERT(line > 0 && *rest == ':');
	fuzz_options_init(&before);
	FUZZ_ASSERT(fuzz_read_conf(&before, data, line_start(data, size, line), &none) == 0);
	FUZZ_ASSERT(fuzz_same_options(o, &before, true));
	options_fini(&before);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct options_error error = { "" };
	struct options o;
	int r;

	fuzz_options_init(&o);
	r = fuzz_read_conf(&o, data, size, &error);
	FUZZ_ASSERT(r == 0 || r == -EBADMSG || r == -ENOENT || r == -EINVAL || r == -ERANGE ||
		    r == -EPERM);
	/* inih would not see the text after one. */
	FUZZ_ASSERT(r < 0 || !size || !memchr(data, '\0', size));
	if (r == 0)
		fuzz_check_options(&o);
	else
		check_error(&o, data, size, &error);
	options_fini(&o);
	return 0;
}
