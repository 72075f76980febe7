/* SPDX-License-Identifier: MIT */
/*
 * fuzz_args.c - bytes as forkd's command line and the forkd.conf that it reads
 *
 * One word per line, up to an empty line. The rest is the file, whatever its name.
 *
 * WHAT MUST BE TRUE
 *   The options pass options_check(), and options_print() writes them; or one line names the error,
 *   and the caller's options are unchanged.
 */
#include <errno.h>

#include "common/options_args.h"
#include "tests/fuzz/fuzz_options.h"

#define WORDS 24

/* The forkd.conf. */
static struct fuzz_input conf;

/* The linker replaces options_file_open(), options_dir_read() and fclose() by these: --wrap.
 * libFuzzer closes files, too. */
int __wrap_options_file_open(FILE **ret_file, const char *name, struct options_error *ret_error);
int __wrap_options_dir_read(struct options *o, const char *name, struct options_error *ret_error);
int __real_fclose(FILE *file);
int __wrap_fclose(FILE *file);

int __wrap_options_file_open(FILE **ret_file, const char *name, struct options_error *ret_error)
{
	(void)name;
	(void)ret_error;
	*ret_file = fuzz_file_open(conf.at, (size_t)(conf.end - conf.at));
	return 0;
}

int __wrap_options_dir_read(struct options *o, const char *name, struct options_error *ret_error)
{
	(void)o;
	(void)name;
	(void)ret_error;
	return 0;
}

int __wrap_fclose(FILE *file)
{
	if (file != fuzz_stream)
		return __real_fclose(file);
	fuzz_file_close();
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input input = { data, data + size };
	char *argv[WORDS + 2] = { strdup("forkd") }, *words[WORDS + 2];
	enum options_action action = OPTIONS_CONFIG;
	struct options_error error = { "" };
	struct options o, untouched;
	int argc = 1, r;

	while (argc < WORDS && fuzz_more(&input) && *input.at != '\n')
		argv[argc++] = fuzz_text(&input, '\n');
	(void)fuzz_u8(&input);
	/* getopt moves them. */
	memcpy(words, argv, sizeof(words));
	memset(&untouched, 0xa5, sizeof(untouched));
	o = untouched;

	conf = size ? input : (struct fuzz_input){ (const uint8_t *)"", (const uint8_t *)"" };
	r = options_args_parse(&o, argc, argv, &action, &error);
	FUZZ_ASSERT(!fuzz_file.at);

	if (r == 0) {
		FUZZ_ASSERT(action != OPTIONS_CONFIG && action <= OPTIONS_VERSION);
		FUZZ_ASSERT(options_check(&o, &error) == 0);
		fuzz_check_options(&o);
		options_fini(&o);
	} else {
		FUZZ_ASSERT(r == -EBADMSG || r == -ENOENT || r == -EINVAL || r == -ERANGE ||
			    r == -EPERM);
		FUZZ_ASSERT(fuzz_is_line(error.text));
		FUZZ_ASSERT(action == OPTIONS_CONFIG && !memcmp(&o, &untouched, sizeof(o)));
	}
	for (int i = 0; i < argc; i++)
		free(words[i]);
	return 0;
}
