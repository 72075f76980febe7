/* SPDX-License-Identifier: MIT */
/*
 * Used instead of getopt: a negative number is an argument, and the error of a value names the
 * accepted values. "-n 3", "-n3", "--repeat 3" and "--repeat=3" are the same if the value is
 * required. If it is optional, "--watch 3" is an option and a word.
 */
#include "client/forkctl/options.h"

#include <inttypes.h>
#include <string.h>

#include "client/forkctl/common.h"
#include "common/number.h"
#include "common/util.h"

#define OPTIONS_WIDTH 26 /* columns of --help before the text, unless an option is longer */

/* Not an option. */
static int is_word(const char *word)
{
	return word[0] != '-' || !word[1] || strchr("0123456789.", word[1]) ||
	       !strncmp(word, "-inf", 4) || !strncmp(word, "-nan", 4);
}

/* The option at the start of a word; *ret_value: the value in the same word, or NULL. */
static const struct forkctl_option *find(const struct forkctl_option *options, const char *word,
					 const char **ret_value)
{
	for (const struct forkctl_option *o = options; o->name; o++) {
		size_t n = strlen(o->name), brief = strlen(o->brief);

		*ret_value = NULL;
		if (streq(word, o->brief) || streq(word, o->name))
			return o;
		if (!strncmp(word, o->name, n) && word[n] == '=')
			*ret_value = word + n + 1;
		else if (brief && !strncmp(word, o->brief, brief))
			*ret_value = word + brief;
		if (*ret_value)
			return o;
	}
	return NULL;
}

static int store_number(const struct forkctl_option *o, uint32_t *field, const char *text)
{
	const char *rest;
	uint64_t n;

	if (number_parse(text, 10, &n, &rest) || *rest || n < o->least || n > o->most)
		return forkctl_fail(FORKCTL_USAGE,
				    "%s must be a whole number from %" PRIu64 " to %" PRIu64
				    ", not %s",
				    o->name, o->least, o->most, *text ? text : "nothing");
	*field = (uint32_t)n;
	return 0;
}

static int store_time(const struct forkctl_option *o, struct forkctl_limit *field, const char *text)
{
	struct forkctl_text most;
	uint64_t ns;

	if (number_parse_unit(text, &number_durations, o->type == FORKCTL_SECONDS ? "s" : NULL,
			      &ns) ||
	    ns < o->least)
		return forkctl_fail(FORKCTL_USAGE, "%s must be a time%s, not %s", o->name,
				    o->type == FORKCTL_SECONDS
					    ? ", such as 2 (seconds) or 500ms"
					    : " with a unit, such as 50us, 20ms, 5s or 2min",
				    *text ? text : "nothing");
	if (ns > o->most)
		return forkctl_fail(FORKCTL_USAGE, "%s must be at most %s, not %s", o->name,
				    forkctl_time(&most, o->most), text);
	*field = (struct forkctl_limit){ .ns = ns, .text = text };
	return 0;
}

static int store_choice(const struct forkctl_option *o, const char **field, const char *text)
{
	size_t n = strlen(text);

	for (const char *word = o->value; *word; word += strspn(word, "|")) {
		size_t end = strcspn(word, "|");

		if (n == end && !strncmp(text, word, n)) {
			*field = text;
			return 0;
		}
		word += end;
	}
	return forkctl_fail(FORKCTL_USAGE, "%s must be one of %s, not %s", o->name, o->value,
			    *text ? text : "nothing");
}

static int store(const struct forkctl_option *o, void *values, const char *text)
{
	void *field = (char *)values + o->offset;
	struct forkctl_words *list = field;

	switch (o->type) {
	case FORKCTL_FLAG:
		*(int *)field = 1;
		return 0;
	case FORKCTL_NUMBER:
		return store_number(o, field, text);
	case FORKCTL_TIME:
	case FORKCTL_SECONDS:
		return store_time(o, field, text);
	case FORKCTL_TEXT:
		*(const char **)field = text;
		return 0;
	case FORKCTL_CHOICE:
		return store_choice(o, field, text);
	case FORKCTL_LIST:
		if (list->n == FORKCTL_WORDS)
			return forkctl_fail(FORKCTL_USAGE, "%s can be given at most %u times",
					    o->name, FORKCTL_WORDS);
		list->words[list->n++] = text;
		return 0;
	}
	return 0;
}

/* command: argv[0] of forkctl_options(), which may be the program itself. */
static int unknown(const char *command, const char *word)
{
	const char *program = forkctl_program();
	int is_program = streq(command, program);

	return forkctl_fail(FORKCTL_USAGE,
			    "%s has no option %s (`%s%s%s --help` lists them); put -- before an "
			    "argument that begins with -",
			    command, word, program, is_program ? "" : " ",
			    is_program ? "" : command);
}

int forkctl_options(const struct forkctl_option *options, void *values, int *argc, char *argv[])
{
	int only_words = 0;
	int words = 1;

	for (int i = 1; i < *argc; i++) {
		const struct forkctl_option *o;
		const char *value;
		int err;

		if (only_words || is_word(argv[i])) {
			argv[words++] = argv[i];
			continue;
		}
		if (streq(argv[i], "--")) {
			only_words = 1;
			continue;
		}
		o = find(options, argv[i], &value);
		if (!o)
			return unknown(argv[0], argv[i]);
		if (!o->value && value)
			return forkctl_fail(FORKCTL_USAGE, "%s takes no value: %s", o->name,
					    argv[i]);
		if (o->value && !value)
			value = o->alone;
		if (o->value && !value && i + 1 == *argc)
			return forkctl_fail(FORKCTL_USAGE, "%s requires a value: %s", o->name,
					    o->value);
		if (o->value && !value)
			value = argv[++i];
		err = store(o, values, value);
		if (err)
			return err;
	}
	*argc = words;
	return 0;
}

uint32_t forkctl_intervals(const struct forkctl_limit *time, uint64_t interval_ns)
{
	uint64_t n = time->ns / interval_ns;

	return time->text ? (uint32_t)max(min(n, (uint64_t)UINT32_MAX), UINT64_C(1)) : 0;
}

/* "-n, --repeat N", as --help shows it. Returns its length. */
static int option_text(const struct forkctl_option *o, char *ret, size_t size)
{
	return snprintf(ret, size, "%s%s%s%s%s%s", *o->brief ? o->brief : "  ",
			*o->brief ? ", " : "  ", o->name,
			o->alone   ? "[="
			: o->value ? " "
				   : "",
			o->value ? o->value : "", o->alone ? "]" : "");
}

void forkctl_print_options(const struct forkctl_option *options, FILE *out)
{
	char text[80];
	int width = 0;

	for (const struct forkctl_option *o = options; o->name; o++) {
		int n = option_text(o, text, sizeof(text));

		width = n <= OPTIONS_WIDTH ? max(width, n) : width;
	}
	for (const struct forkctl_option *o = options; o->name; o++) {
		if (option_text(o, text, sizeof(text)) <= width)
			(void)fprintf(out, "  %-*s  %s\n", width, text, o->help);
		else
			(void)fprintf(out, "  %s\n%*s%s\n", text, width + 4, "", o->help);
	}
}
