/* SPDX-License-Identifier: MIT */
/*
 * The rows in order, and lookups by name.
 *
 * Threads: the units of options; any thread, nothing here changes.
 */
#include "common/option_table.h"

#include <stdio.h>
#include <string.h>

#include "common/util.h"

const struct option_row option_rows[OPTION_ROWS] = {
#define OPTION(type, field, name, unit, min, max, def, help)                                       \
	{ OPTION_##type, offsetof(struct options, field), name, unit, min, max, def, help },
#define HIDDEN(type, field, name, unit, min, max, def)                                             \
	{ OPTION_##type, offsetof(struct options, field), name, unit, min, max, def, NULL },
#define FLAG(...)
#include "common/options.def"
#undef OPTION
#undef FLAG
};

const struct option_flag option_flags[OPTION_FLAGS] = {
#define OPTION(...)
#define FLAG(action, name, argument, help) { OPTIONS_##action, name, argument, help },
#include "common/options.def"
#undef OPTION
#undef FLAG
};

static const struct {
	size_t first; /* offset of its first option */
	const char *title;
} option_groups[] = {
#define OPTION(...)
#define FLAG(...)
#define GROUP(field, title) { offsetof(struct options, field), title },
#include "common/options.def"
#undef OPTION
#undef FLAG
};

/* Options that can be changed while forkd runs: by forkctl set, and by a reload only. */
static const size_t runtime_offsets[] = {
#define OPTION(...)
#define FLAG(...)
#define RUNTIME(field) offsetof(struct options, field),
#include "common/options.def"
#undef OPTION
#undef FLAG
};
static const size_t reload_offsets[] = {
#define OPTION(...)
#define FLAG(...)
#define RELOAD(field) offsetof(struct options, field),
#include "common/options.def"
#undef OPTION
#undef FLAG
};

const struct option_row *option_find(const char *name)
{
	for (size_t i = 0; i < OPTION_ROWS; i++)
		if (streq(option_rows[i].name, name))
			return &option_rows[i];
	return NULL;
}

/* Levenshtein's distance, with one row of the table; 0 for a prefix. Names are short; longer ones
 * count as far away. */
static unsigned int name_distance(const char *a, const char *b)
{
	unsigned int row[33];
	size_t n = strlen(b);

	if (n >= ARRAY_SIZE(row) || strlen(a) >= ARRAY_SIZE(row))
		return UINT32_MAX;
	if (*a && !strncmp(a, b, strlen(a)))
		return 0;
	for (size_t j = 0; j <= n; j++)
		row[j] = (unsigned int)j;
	for (size_t i = 1; a[i - 1]; i++) {
		unsigned int diagonal = row[0];

		row[0] = (unsigned int)i;
		for (size_t j = 1; j <= n; j++) {
			unsigned int substituted = diagonal + (a[i - 1] != b[j - 1]);
			unsigned int shifted = min(row[j], row[j - 1]) + 1;

			diagonal = row[j];
			row[j] = min(substituted, shifted);
		}
	}
	return row[n];
}

const char *option_nearest(const char *name, bool flags)
{
	unsigned int best = (unsigned int)(strlen(name) + 2) / 3 + 1; /* not near enough */
	const char *nearest = NULL;

	for (size_t i = 0; i < OPTION_ROWS; i++) {
		unsigned int d = name_distance(name, option_rows[i].name);

		if (option_rows[i].help && d < best) {
			best = d;
			nearest = option_rows[i].name;
		}
	}
	for (size_t i = 0; flags && i < OPTION_FLAGS; i++) {
		unsigned int d = name_distance(name, option_flags[i].name);

		if (*option_flags[i].help && d < best) {
			best = d;
			nearest = option_flags[i].name;
		}
	}
	return nearest;
}

const char *option_group(const struct option_row *row)
{
	for (size_t i = 0; i < ARRAY_SIZE(option_groups); i++)
		if (option_groups[i].first == row->offset)
			return option_groups[i].title;
	return NULL;
}

void option_unknown(const char *where, const char *name, char *ret_text, size_t size)
{
	const char *nearest = option_nearest(name, false);

	if (nearest)
		(void)snprintf(ret_text, size, "%s: unknown option \"%.64s\", did you mean \"%s\"?",
			       where, name, nearest);
	else
		(void)snprintf(ret_text, size,
			       "%s: unknown option \"%.64s\": forkd.conf(5) lists the options",
			       where, name);
}

static bool table_has(const size_t *offsets, size_t n, size_t offset)
{
	for (size_t i = 0; i < n; i++)
		if (offsets[i] == offset)
			return true;
	return false;
}

bool option_is_runtime(const struct option_row *row)
{
	return table_has(runtime_offsets, ARRAY_SIZE(runtime_offsets), row->offset);
}

bool option_is_reloadable(const struct option_row *row)
{
	return option_is_runtime(row) ||
	       table_has(reload_offsets, ARRAY_SIZE(reload_offsets), row->offset);
}
