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

		if (!row->help)
			continue;
		fprintf(out, "  --%s=%s (%s)\n", row->name, row_argument(row),
			*row->def ? row->def : "empty");
		print_indented(out, row->help);
	}
	fputs("\nFor the command line alone:\n", out);
	for (size_t i = 0; i < OPTION_FLAGS; i++) {
		const struct option_flag *row = &option_flags[i];

		if (!*row->help)
			continue;
		fprintf(out, "  --%s%s%s\n", row->name, row->argument ? "=" : "",
			row->argument ? row->argument : "");
		print_indented(out, row->help);
	}
}

void options_print_man(FILE *out, bool flags)
{
	for (size_t i = 0; i < OPTION_ROWS; i++) {
		const struct option_row *row = &option_rows[i];

		if (!row->help)
			continue;
		if (flags)
			fprintf(out, ".It Fl -%s Ns = Ns Ar %s\n", row->name, row_argument(row));
		else
			fprintf(out, ".It Cm %s No = Ar %s\n", row->name, row_argument(row));
		fprintf(out, "%s\nMust be ", row->help);
		option_value_print_allowed(row, out);
		fprintf(out, ".\nDefault: %s.\n", *row->def ? row->def : "empty");
		if (option_is_runtime(row))
			fputs("Can be changed while forkd runs:\n.Cm set\nin\n.Xr forkctl 1 .\n",
			      out);
		if (option_is_reloadable(row))
			fputs("A reload changes it.\n", out);
	}
	for (size_t i = 0; flags && i < OPTION_FLAGS; i++) {
		const struct option_flag *row = &option_flags[i];

		if (!*row->help)
			continue;
		fprintf(out, ".It Fl -%s", row->name);
		if (row->argument)
			fprintf(out, " Ns = Ns Ar %s", row->argument);
		fprintf(out, "\n%s\n", row->help);
	}
}

void options_print_sample(FILE *out)
{
	fputs("# forkd.conf(5): every option of forkd, at its default.\n"
	      "# forkd reads the files forkd.conf.d/*.conf after this one.\n\n[forkd]\n",
	      out);
	for (size_t i = 0; i < OPTION_ROWS; i++)
		if (option_rows[i].help)
			fprintf(out, "\n# %s\n# %s = %s\n", option_rows[i].help,
				option_rows[i].name, option_rows[i].def);
}
