/* SPDX-License-Identifier: MIT */
/* common/option_table.h - options.def as a table */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/options.h"

/* How a value is written and stored: options.def; the lists last. */
enum option_type {
	OPTION_PATH,
	OPTION_INT,
	OPTION_AUTOINT,
	OPTION_OCTAL,
	OPTION_SIZE,
	OPTION_AUTOSIZE,
	OPTION_DURATION,
	OPTION_ENUM,
	OPTION_CPULIST,
	OPTION_USERS,
	OPTION_WEIGHTS,
	OPTION_COUNTS,
	OPTION_SIZES,
	OPTION_TIMES,
	OPTION_TASKS,
};

struct option_row {
	enum option_type type;
	size_t offset; /* in struct options */
	const char *name;
	const char *unit;
	uint64_t min;
	uint64_t max;
	const char *def;
	const char *help; /* NULL: hidden */
};

/* A flag that only the command line has. */
struct option_flag {
	enum options_action action;
	const char *name;
	const char *argument; /* or NULL */
	const char *help;     /* empty: hidden */
};

/* Their numbers. */
enum {
	OPTION_ROWS = 0
#define OPTION(...) +1
#define HIDDEN(...) +1
#define FLAG(...)
#include "common/options.def"
#undef OPTION
#undef FLAG
	,
	OPTION_FLAGS = 0
#define OPTION(...)
#define FLAG(...) +1
#include "common/options.def"
#undef OPTION
#undef FLAG
};

extern const struct option_row option_rows[OPTION_ROWS];
extern const struct option_flag option_flags[OPTION_FLAGS];

/* Returns the address of an option in a struct options. */
static inline void *option_field(const struct option_row *row, struct options *o)
{
	return (char *)o + row->offset;
}

static inline const void *option_const_field(const struct option_row *row, const struct options *o)
{
	return (const char *)o + row->offset;
}

/* Returns true for a number or a word, which needs no separate memory. */
static inline bool option_is_plain(const struct option_row *row)
{
	return row->type > OPTION_PATH && row->type < OPTION_CPULIST;
}

/* Returns true if it is stored as a struct options_list. */
static inline bool option_is_list(const struct option_row *row)
{
	return row->type >= OPTION_USERS;
}

static inline const struct options_list *option_list(const struct option_row *row,
						     const void *field)
{
	return option_is_list(row) ? *(struct options_list *const *)field : NULL;
}

/* Returns NULL if there is no such option. */
const struct option_row *option_find(const char *name);

/* Returns the visible name that was most likely meant; with flags, also of flags. NULL: every name
 * differs in more than a third of the letters. */
const char *option_nearest(const char *name, bool flags);

/* Returns the title of the group that begins with the option; NULL for other options. */
const char *option_group(const struct option_row *row);

/* Writes the error of a name that no option has, with the nearest name if there is one. */
void option_unknown(const char *where, const char *name, char *ret_text, size_t size);

/* Return true if it can be changed while forkd runs: by forkctl set; by a reload, which includes
 * those. */
bool option_is_runtime(const struct option_row *row);
bool option_is_reloadable(const struct option_row *row);
