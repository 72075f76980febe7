/* SPDX-License-Identifier: MIT */
/*
 * The command line is read twice: first for the flags, of which one names the file; then, when the
 * file has been read, for the options that override it.
 *
 * Threads: forkd's main(), before there are threads.
 */
#include "common/options_args.h"

#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/option_table.h"
#include "common/option_value.h"
#include "common/options_dir.h"
#include "common/options_file.h"

/* First value returned by getopt_long() for options. Each option has a unique value; otherwise
 * getopt would accept an ambiguous abbreviation as the first match. */
#define ARGS_FIRST 256

/* Reports an argument that getopt_long() has not recognised: a letter, or else the word. */
static int args_refuse(const char *word, struct options_error *error)
{
	const char *nearest;
	char name[65];

	/* If there are several letters after one -, getopt may not have finished the word. */
	if (optopt && optopt < ARGS_FIRST) {
		options_error_set(error, "command line: unknown option \"-%c\": see --help",
				  optopt < 0 ? '?' : optopt);
		return -ENOENT;
	}
	(void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(word + 2, "="), word + 2);
	if (optopt) { /* known */
		options_error_set(error, "command line: --%s: takes no value", name);
		return -EINVAL;
	}
	nearest = option_nearest(name, true);
	if (nearest)
		options_error_set(error,
				  "command line: unknown option \"--%s\", did you mean \"--%s\"?",
				  name, nearest);
	else
		options_error_set(error, "command line: unknown option \"--%s\": see --help", name);
	return -ENOENT;
}

/* Sets an option that getopt_long() has found. The first value of a list replaces that of the file;
 * further values are added. */
static int args_set(struct options *o, const struct option_row *row, bool *seen,
		    struct options_error *error)
{
	if (option_is_list(row) && !*seen)
		option_value_fini(row, option_field(row, o));
	*seen = true;
	return options_set(o, row->name, optarg, "command line", error);
}

/* Reads the command line once. With o, sets the options; without, only looks for flags. The first
 * flag that is an action wins. */
static int args_getopt(struct options *o, int argc, char *argv[], enum options_action *action,
		       const char **config, struct options_error *error)
{
	struct option longs[OPTION_ROWS + OPTION_FLAGS + 1] = { 0 };
	bool seen[OPTION_ROWS] = { false };
	int c, r;

	for (int i = 0; i < OPTION_ROWS; i++)
		longs[i] = (struct option){ option_rows[i].name, required_argument, NULL,
					    ARGS_FIRST + i };
	for (int i = 0; i < OPTION_FLAGS; i++)
		longs[OPTION_ROWS + i] = (struct option){
			option_flags[i].name,
			option_flags[i].argument ? required_argument : no_argument,
			NULL,
			ARGS_FIRST + OPTION_ROWS + i,
		};

	opterr = 0;
	optind = 0; /* resets glibc's getopt */
	while ((c = getopt_long(argc, argv, ":", longs, NULL)) != -1) {
		if (c == ':') {
			options_error_set(error, "command line: %.64s: a value is missing",
					  argv[optind - 1]);
			return -EINVAL;
		}
		if (c < ARGS_FIRST)
			return args_refuse(argv[optind - 1], error);
		if (c >= ARGS_FIRST + OPTION_ROWS) {
			enum options_action asked =
				option_flags[c - ARGS_FIRST - OPTION_ROWS].action;

			if (asked == OPTIONS_CONFIG)
				*config = optarg;
			else if (*action == OPTIONS_RUN)
				*action = asked;
			continue;
		}
		r = o ? args_set(o, &option_rows[c - ARGS_FIRST], &seen[c - ARGS_FIRST], error) : 0;
		if (r < 0)
			return r;
	}
	if (optind < argc) {
		options_error_set(error,
				  "command line: \"%.100s\": forkd takes options only, see --help",
				  argv[optind]);
		return -EINVAL;
	}
	return 0;
}

int options_args_parse(struct options *o, int argc, char *argv[], enum options_action *ret_action,
		       struct options_error *ret_error)
{
	_cleanup_fclose_ FILE *file = NULL;
	enum options_action action = OPTIONS_RUN;
	const char *config = NULL;
	struct options made;
	int r;

	r = options_init(&made);
	if (r < 0) {
		options_error_set(ret_error, "options: out of memory");
		return r;
	}

	r = args_getopt(NULL, argc, argv, &action, &config, ret_error);
	if (r < 0)
		goto fail;

	if (config && !*config) {
		r = -EINVAL;
		options_error_set(ret_error,
				  "command line: --config: the name of a file is missing");
		goto fail;
	}
	if (action == OPTIONS_RUN || action == OPTIONS_CHECK || action == OPTIONS_DRY_RUN) {
		const char *name = config ? config : FK_CONFIG_FILE;

		r = options_file_open(&file, name, ret_error);
		if (r < 0 && (config || r != -ENOENT))
			goto fail;
		r = file ? options_file_read(&made, file, name, ret_error) : 0;
		if (r == 0)
			r = options_dir_read(&made, name, ret_error);
		if (r < 0)
			goto fail;
	}

	r = args_getopt(&made, argc, argv, &action, &config, ret_error);
	if (r < 0)
		goto fail;
	r = options_check(&made, ret_error);
	if (r < 0)
		goto fail;

	*o = made;
	*ret_action = action;
	return 0;
fail:
	options_fini(&made);
	return r;
}
