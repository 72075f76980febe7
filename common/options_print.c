/* SPDX-License-Identifier: MIT */
/*
 * Threads: forkd's main(), the manager for its pool, and options-man when forkd is built; one
 * thread.
 *
 * INVARIANTS
 *   I1. options_file_read() reads the output of options_print() to the same options, as long as no
 *       line is too long for it. Lists never are: each entry has its own line.
 */
#include "common/options_print.h"

#include <stdint.h>
#include <string.h>

#include "common/option_table.h"
#include "common/option_value.h"

#define ONLY_FLAGS "Command line only"

static void print_indented(FILE *out, const char *text)
{
	size_t column = 0;

	while (*text) {
		size_t n = strcspn(text, " ");

		if (column + n > 66) {
			fputc('\n', out);
			column = 0;
		}
		fprintf(out, column ? " %.*s" : "          %.*s", (int)n, text);
		column += n + 1;
		text += n;
		text += strspn(text, " ");
	}
	fputc('\n', out);
}

static const char *row_argument(const struct option_row *row)
{
	if (row->type == OPTION_TIMES)
		return "LIST";
	return row->type == OPTION_DURATION ? "TIME" : row->unit;
}

/* A hidden option is a number or a word, which fits. */
static bool option_is_default(const struct options *o, const struct option_row *row)
{
	union {
		unsigned int word;
		uint64_t number;
	} value = { .number = 0 };
	struct option_fault fault;

	return option_value_set(row, &value, row->def, &fault) == 0 &&
	       !memcmp(option_const_field(row, o), &value,
		       row->type == OPTION_DURATION ? sizeof(uint64_t) : sizeof(unsigned int));
}

void options_print(const struct options *o, FILE *out)
{
	fputs("[forkd]\n", out);
	for (size_t i = 0; i < OPTION_ROWS; i++) {
		const struct option_row *row = &option_rows[i];
		const void *field = option_const_field(row, o);
		const struct options_list *list = option_list(row, field);

		if (!row->help && option_is_default(o, row))
			continue;
		for (uint32_t k = 0; list && k < list->n; k++) {
			fprintf(out, "%s = ", row->name);
			option_list_print(row, &list->entries[k], out);
			fputc('\n', out);
		}
		if (list)
			continue;
		fprintf(out, "%s = ", row->name);
		option_value_print(row, field, out);
		fputc('\n', out);
	}
}

void options_print_help(FILE *out)
{
	fputs("Usage: forkd [OPTION...]\n"
	      "One pool of pinned workers for all processes of a machine.\n\n"
	      "Options, also for " FK_CONFIG_FILE " (as name = value):\n",
	      out);
	for (size_t i = 0; i < OPTION_ROWS; i++) {
		const struct option_row *row = &option_rows[i];
		const char *group = option_group(row);

		if (!row->help)
			continue;
		if (group)
			fprintf(out, "\n%s:\n", group);
		fprintf(out, "  --%s=%s (%s)\n", row->name, row_argument(row),
			*row->def ? row->def : "empty");
		print_indented(out, row->help);
	}
	fputs("\n" ONLY_FLAGS ":\n", out);
	for (size_t i = 0; i < OPTION_FLAGS; i++) {
		const struct option_flag *row = &option_flags[i];

		if (!*row->help)
			continue;
		fprintf(out, "  --%s%s%s\n", row->name, row->argument ? "=" : "",
			row->argument ? row->argument : "");
		print_indented(out, row->help);
	}
}

/* Begins a list of options, after the one before. */
static void man_group(FILE *out, const char *title, bool first)
{
	fprintf(out, "%s.Ss %s\n.Bl -tag -width Ds\n", first ? "" : ".El\n", title);
}

/* The values, the default, and the way to change it. */
static void man_details(FILE *out, const struct option_row *row)
{
	fputs(".Pp\n.Bl -tag -compact -width Default\n.It Li Value\n", out);
	option_value_print_allowed(row, out);
	fprintf(out, "\n.It Li Default\n%s\n.It Li Change\n", *row->def ? row->def : "empty");
	if (option_is_runtime(row))
		fputs("reload, or\n.Ql forkctl set\n.El\n", out);
	else
		fprintf(out, "%s\n.El\n", option_is_reloadable(row) ? "reload" : "restart");
}

void options_print_man(FILE *out, bool flags)
{
	for (size_t i = 0; i < OPTION_ROWS; i++) {
		const struct option_row *row = &option_rows[i];
		const char *group = option_group(row);

		if (!row->help)
			continue;
		if (group)
			man_group(out, group, i == 0);
		if (flags)
			fprintf(out, ".It Fl -%s Ns = Ns Ar %s\n", row->name, row_argument(row));
		else
			fprintf(out, ".It Cm %s No = Ar %s\n", row->name, row_argument(row));
		fprintf(out, "%s\n", row->help);
		if (!flags)
			man_details(out, row);
	}
	if (flags)
		man_group(out, ONLY_FLAGS, false);
	for (size_t i = 0; flags && i < OPTION_FLAGS; i++) {
		const struct option_flag *row = &option_flags[i];

		if (!*row->help)
			continue;
		fprintf(out, ".It Fl -%s", row->name);
		if (row->argument)
			fprintf(out, " Ns = Ns Ar %s", row->argument);
		fprintf(out, "\n%s\n", row->help);
	}
	fputs(".El\n", out);
}

void options_print_sample(FILE *out)
{
	fputs("# forkd.conf(5): every option of forkd, at its default.\n"
	      "# forkd reads the files forkd.conf.d/*.conf after this one.\n\n[forkd]\n",
	      out);
	for (size_t i = 0; i < OPTION_ROWS; i++) {
		const struct option_row *row = &option_rows[i];
		const char *group = option_group(row);

		if (!row->help)
			continue;
		if (group)
			fprintf(out, "\n# -------- %s\n", group);
		fprintf(out, "\n# %s\n# %s = %s\n", row->help, row->name, row->def);
	}
}
