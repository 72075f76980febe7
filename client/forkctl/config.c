/* SPDX-License-Identifier: MIT */
/*
 * config.c - forkctl config and get: the options as the running forkd uses them
 *
 * The manager prints them as a forkd.conf, for users that may see it; the help of each comes from
 * common/options.def.
 */
#include "client/forkctl/common.h"
#include "client/forkctl/forkctl.h"
#include "client/forkctl/listing.h"
#include "shm/proto.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/forkctl/control.h"
#include "client/forkctl/output.h"
#include "common/cleanup.h"
#include "common/number.h"
#include "common/option_table.h"
#include "common/util.h"

/* The values of an option, one for each line that has it. */
static json_t *values_of(const char *text, const char *name)
{
	json_t *values = json_array();
	size_t n = strlen(name);

	for (const char *line = text; *line; line += strspn(line, "\n")) {
		size_t end = strcspn(line, "\n");

		if (end >= n + 3 && !strncmp(line, name, n) && !strncmp(line + n, " = ", 3))
			(void)json_array_append_new(values, out_text(line + n + 3, end - n - 3));
		line += end;
	}
	return values;
}

/* Bytes, ns, or a plain number; null for what is none. */
static json_t *number_of(const struct option_row *option, const char *value)
{
	uint64_t number;
	const char *rest;
	int r = -1;

	if (option->type == OPTION_SIZE || option->type == OPTION_AUTOSIZE)
		r = number_parse_unit(value, &number_sizes, "", &number);
	else if (option->type == OPTION_DURATION)
		r = number_parse_unit(value, &number_durations, NULL, &number);
	else if (option->type == OPTION_INT || option->type == OPTION_AUTOINT)
		r = number_parse(value, 10, &number, &rest);
	return r < 0 ? json_null() : out_number(number);
}

static const char *unit_of(const struct option_row *option)
{
	if (option->type == OPTION_SIZE || option->type == OPTION_AUTOSIZE)
		return "bytes";
	return option->type == OPTION_DURATION ? "ns" : "";
}

static json_t *option_row(const struct option_row *option, const char *text)
{
	_cleanup_json_ json_t *values = values_of(text, option->name);
	bool list = option_is_list(option);
	const char *first = json_string_value(json_array_get(values, 0));
	json_t *value = list ? json_incref(values) : out_text(first ? first : "", SIZE_MAX);

	return json_pack("{s:s, s:o, s:o, s:s, s:s, s:b, s:s}", "name", option->name, "value",
			 value, "number",
			 list ? json_null() : number_of(option, first ? first : ""), "unit",
			 unit_of(option), "default", option->def, "changeable",
			 option_is_runtime(option), "help", option->help);
}

/* All of them, as forkd.conf has them. Returns 0 or an exit code. */
static int config_fetch(const char *socket, char **ret_text)
{
	_cleanup_fclose_ FILE *file = NULL;
	size_t room = 0;
	uint64_t n;
	int err = forkctl_fetch(socket, PROTO_CONFIG, &n, &file);

	if (err)
		return err;
	if (getdelim(ret_text, &room, '\0', file) < 0)
		return forkctl_fail(FORKCTL_FAILED, "cannot read the answer of forkd");
	return 0;
}

int forkctl_option_value(const char *socket, const char *name, char **ret)
{
	_cleanup_free_ char *text = NULL;
	_cleanup_json_ json_t *values = NULL;
	int err = config_fetch(socket, &text);

	if (err)
		return err;
	*ret = NULL;
	values = values_of(text, name);
	if (json_array_size(values))
		*ret = strdup(json_string_value(json_array_get(values, 0)));
	return *ret ? 0
		    : forkctl_fail(FORKCTL_FAILED, "the answer of forkd has no option %s", name);
}

int forkctl_check_option(const char *command, const char *name)
{
	char text[512];

	for (size_t i = 0; i < OPTION_ROWS; i++)
		if (option_rows[i].help && streq(option_rows[i].name, name))
			return FORKCTL_OK;
	option_unknown(command, name, text, sizeof(text));
	return forkctl_fail(FORKCTL_USAGE, "%s", text);
}

int forkctl_get(const char *socket, int argc, char *argv[])
{
	_cleanup_free_ char *text = NULL;
	_cleanup_json_ json_t *values = NULL;
	const json_t *value;
	size_t i;
	int err;

	if (argc != 2)
		return forkctl_fail(FORKCTL_USAGE,
				    "get takes the name of one option: `forkctl get scheduler`");
	err = forkctl_check_option(argv[0], argv[1]);
	if (!err)
		err = config_fetch(socket, &text);
	if (err)
		return err;
	values = values_of(text, argv[1]);
	json_array_foreach(values, i, value) printf("%s\n", json_string_value(value));
	return FORKCTL_OK;
}

int forkctl_config(const char *socket, int argc, char *argv[])
{
	_cleanup_free_ char *text = NULL;
	struct listing l;
	int err = listing_parse(forkctl_json_options, false, argc, argv, &l);
	json_t *rows;

	if (!err)
		err = config_fetch(socket, &text);
	if (err)
		return err;
	if (!l.json) {
		(void)fputs(text, stdout);
		return FORKCTL_OK;
	}
	rows = json_array();
	for (size_t i = 0; i < OPTION_ROWS; i++)
		if (option_rows[i].help)
			(void)json_array_append_new(rows, option_row(&option_rows[i], text));
	return out_print_json(json_pack("{s:o}", "options", rows), 2);
}
