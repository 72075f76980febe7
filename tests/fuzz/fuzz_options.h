/* SPDX-License-Identifier: MIT */
/* tests/fuzz/fuzz_options.h - what must be true of forkd's options, whatever they were read from */
#ifndef TESTS_FUZZ_FUZZ_OPTIONS_H
#define TESTS_FUZZ_FUZZ_OPTIONS_H

#include <stdbool.h>

#include <hwloc.h>

#include "common/option_list.h"
#include "common/option_table.h"
#include "common/options_file.h"
#include "common/options_print.h"
#include "common/util.h"
#include "tests/fuzz/fuzz.h"

/* What options_file_read() takes as a line, without its end. */
#define FUZZ_LINE 198u

static inline bool fuzz_same_list(const struct options_list *a, const struct options_list *b)
{
	if (!a || !b)
		return a == b;
	return a->n == b->n && !memcmp(a->entries, b->entries, a->n * sizeof(a->entries[0]));
}

static inline bool fuzz_same_option(const struct option_row *row, const void *a, const void *b)
{
	hwloc_const_bitmap_t set, other;

	switch (row->type) {
	case OPTION_PATH:
		return streq(*(char *const *)a, *(char *const *)b);
	case OPTION_CPULIST:
		set = *(hwloc_bitmap_t const *)a;
		other = *(hwloc_bitmap_t const *)b;
		return set && other ? hwloc_bitmap_isequal(set, other) : set == other;
	case OPTION_USERS:
	case OPTION_WEIGHTS:
	case OPTION_COUNTS:
	case OPTION_SIZES:
	case OPTION_TASKS:
		return fuzz_same_list(option_list(row, a), option_list(row, b));
	case OPTION_SIZE:
	case OPTION_AUTOSIZE:
	case OPTION_DURATION:
		return !memcmp(a, b, sizeof(uint64_t));
	default:
		return !memcmp(a, b, sizeof(unsigned int));
	}
}

/* Those of the command line alone included, or not. */
static inline bool fuzz_same_options(const struct options *a, const struct options *b, bool hidden)
{
	for (size_t i = 0; i < OPTION_ROWS; i++)
		if ((hidden || option_rows[i].help) &&
		    !fuzz_same_option(&option_rows[i], option_const_field(&option_rows[i], a),
				      option_const_field(&option_rows[i], b)))
			return false;
	return true;
}

static inline void fuzz_check_list(const struct option_row *row, const struct options_list *list)
{
	FUZZ_ASSERT(!list || (list->n && list->n <= OPTION_LIST_MAX));
	for (uint32_t i = 0; list && i < list->n; i++) {
		const struct options_entry *e = &list->entries[i];

		FUZZ_ASSERT(e->number >= row->min && e->number <= row->max);
		FUZZ_ASSERT(e->who > OPTIONS_NOBODY && e->who <= OPTIONS_USER);
		FUZZ_ASSERT(memchr(e->task, '\0', sizeof(e->task)));
		FUZZ_ASSERT(!*e->task == (row->type != OPTION_TASKS));
		for (uint32_t k = 0; k < i; k++)
			FUZZ_ASSERT(list->entries[k].id != e->id ||
				    list->entries[k].who != e->who ||
				    !streq(list->entries[k].task, e->task));
	}
}

/* The option has a value that its row allows. */
static inline void fuzz_check_range(const struct option_row *row, const void *field)
{
	const char *path;
	hwloc_const_bitmap_t set;
	unsigned int word;
	uint64_t number;

	memcpy(&number, field, sizeof(number));
	memcpy(&word, field, sizeof(word));
	switch (row->type) {
	case OPTION_PATH:
		path = *(char *const *)field;
		FUZZ_ASSERT(path[0] == '/' && strlen(path) <= row->max && fuzz_is_line(path));
		break;
	case OPTION_CPULIST:
		set = *(hwloc_bitmap_t const *)field;
		FUZZ_ASSERT(!set || (hwloc_bitmap_last(set) >= 0 &&
				     (uint64_t)hwloc_bitmap_last(set) <= row->max));
		break;
	case OPTION_USERS:
	case OPTION_WEIGHTS:
	case OPTION_COUNTS:
	case OPTION_SIZES:
	case OPTION_TASKS:
		fuzz_check_list(row, option_list(row, field));
		break;
	case OPTION_ENUM:
		for (const char *c = row->unit; *c; c++)
			word -= *c == '|' && word;
		FUZZ_ASSERT(word == 0);
		break;
	case OPTION_INT:
	case OPTION_OCTAL:
		FUZZ_ASSERT(word >= row->min && word <= row->max);
		break;
	case OPTION_AUTOSIZE:
		FUZZ_ASSERT(!number || (number >= row->min && number <= row->max));
		break;
	case OPTION_SIZE:
	case OPTION_DURATION:
		FUZZ_ASSERT(number >= row->min && number <= row->max);
		break;
	}
}

/* Reads bytes as a forkd.conf. */
static inline int fuzz_read_conf(struct options *o, const void *data, size_t size,
				 struct options_error *ret_error)
{
	FILE *file = fmemopen((void *)(uintptr_t)data, size, "r");
	int r;

	FUZZ_ASSERT(file);
	r = options_file_read(o, file, "forkd.conf", ret_error);
	(void)fclose(file);
	return r;
}

/* Every option is in its range; what options_print() writes is read to the same options, where each
 * line can be read. */
static inline void fuzz_check_options(const struct options *o)
{
	struct options_error error = { "" };
	struct options again;
	bool hidden = false, readable = true;
	char *text = NULL;
	size_t size;
	FILE *file = open_memstream(&text, &size);

	FUZZ_ASSERT(file);
	options_print(o, file);
	for (size_t i = 0; i < OPTION_ROWS; i++)
		fuzz_check_range(&option_rows[i], option_const_field(&option_rows[i], o));
	FUZZ_ASSERT(fclose(file) == 0);
	for (const char *line = text; *line; line = strchr(line, '\n') + 1)
		readable &= strcspn(line, "\n") <= FUZZ_LINE;
	for (size_t i = 0; i < OPTION_ROWS; i++)
		hidden |= !option_rows[i].help && strstr(text, option_rows[i].name);
	if (readable && !hidden) {
		FUZZ_ASSERT(options_init(&again) == 0);
		FUZZ_ASSERT(fuzz_read_conf(&again, text, size, &error) == 0);
		FUZZ_ASSERT(fuzz_same_options(o, &again, false));
		options_fini(&again);
	}
	free(text);
}

#endif
