/* SPDX-License-Identifier: MIT */
/* fuzz_options.h - properties of forkd's options, from any source */
#pragma once

#include <grp.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio_ext.h>

#include <hwloc.h>

#include "common/option_list.h"
#include "common/option_table.h"
#include "common/option_value.h"
#include "common/options_file.h"
#include "common/options_print.h"
#include "common/util.h"
#include "tests/fuzz/fuzz.h"

/* Length of a line that options_file_read() accepts, without its end. */
#define FUZZ_LINE 198u

/* ------------------------------------------------------------------------ a file in memory */

/* One FILE for all, as creating one takes longer than reading it; and the rest of its contents;
 * `at` is NULL while it is not open. */
static FILE *fuzz_stream;
static struct fuzz_input fuzz_file;

static inline ssize_t fuzz_file_read(void *cookie, char *buffer, size_t size)
{
	struct fuzz_input *left = cookie;
	size_t n = min(size, (size_t)(left->end - left->at));

	FUZZ_ASSERT(left->at);
	memcpy(buffer, left->at, n);
	left->at += n;
	return (ssize_t)n;
}

/* Must not be closed with fclose(). */
static inline FILE *fuzz_file_open(const void *data, size_t size)
{
	static const cookie_io_functions_t io = { .read = fuzz_file_read };

	if (!fuzz_stream)
		fuzz_stream = fopencookie(&fuzz_file, "r", io);
	FUZZ_ASSERT(fuzz_stream && !fuzz_file.at);
	fuzz_file.at = size ? data : (const uint8_t *)"";
	fuzz_file.end = fuzz_file.at + size;
	__fpurge(fuzz_stream);
	clearerr(fuzz_stream);
	return fuzz_stream;
}

static inline void fuzz_file_close(void)
{
	FUZZ_ASSERT(fuzz_file.at);
	fuzz_file.at = NULL;
}

/* ------------------------------------------------------------------------ users */

/* The linker replaces the functions of libc, which read files, by these: --wrap. */
struct passwd *__wrap_getpwnam(const char *name);
struct group *__wrap_getgrnam(const char *name);

struct passwd *__wrap_getpwnam(const char *name)
{
	static struct passwd root = { .pw_uid = 0 }, daemon = { .pw_uid = 1 };

	return streq(name, "root") ? &root : streq(name, "daemon") ? &daemon : NULL;
}

struct group *__wrap_getgrnam(const char *name)
{
	static struct group root = { .gr_gid = 0 }, staff = { .gr_gid = 50 };

	return streq(name, "root") ? &root : streq(name, "staff") ? &staff : NULL;
}

/* ------------------------------------------------------------------------ options */

static inline const struct options *fuzz_defaults(void)
{
	static struct options defaults;
	static bool known;

	if (!known)
		FUZZ_ASSERT(options_init(&defaults) == 0);
	known = true;
	return &defaults;
}

/* As options_init(), which reads every default again. */
static inline void fuzz_options_init(struct options *o)
{
	struct option_fault fault;

	*o = *fuzz_defaults();
	for (size_t i = 0; i < OPTION_ROWS; i++) {
		const struct option_row *row = &option_rows[i];

		/* Values in separate memory are copied; there are no lists and no CPU lists. */
		if (row->type == OPTION_PATH) {
			*(char **)option_field(row, o) = NULL;
			FUZZ_ASSERT(!option_value_set(row, option_field(row, o), row->def, &fault));
		}
	}
}

/* Compares all except the location. */
static inline bool fuzz_same_entry(const struct options_entry *a, const struct options_entry *b)
{
	return a->who == b->who && a->id == b->id && a->number == b->number &&
	       streq(a->task, b->task);
}

static inline bool fuzz_same_list(const struct options_list *a, const struct options_list *b)
{
	bool same = a == b || (a && b && a->n == b->n);

	for (uint32_t i = 0; same && a && i < a->n; i++)
		same = fuzz_same_entry(&a->entries[i], &b->entries[i]);
	return same;
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
	case OPTION_TIMES:
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

/* hidden: also compares options that only the command line has. */
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

/* Checks that the option has a value that its row allows. */
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
	case OPTION_TIMES:
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
	case OPTION_AUTOINT:
		FUZZ_ASSERT(word <= row->max);
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
	int r = options_file_read(o, fuzz_file_open(data, size), "forkd.conf", ret_error);

	fuzz_file_close();
	return r;
}

/* Returns the output of options_print(), valid up to the next call. */
static inline char *fuzz_print(const struct options *o)
{
	static FILE *file;
	static char *text;
	static size_t size;

	if (!file)
		file = open_memstream(&text, &size);
	FUZZ_ASSERT(file);
	rewind(file);
	options_print(o, file);
	FUZZ_ASSERT(fputc('\0', file) == 0 && fflush(file) == 0);
	return text;
}

/* Returns true if the line is one of this option. */
static inline bool fuzz_is_of(const char *line, const struct option_row *row)
{
	size_t n = strlen(row->name);

	return !strncmp(line, row->name, n) && !strncmp(line + n, " = ", 3);
}

/* Checks that every option is in its range, and that options_print() writes all of them in order.
 * Those that differ from the default must read back the same, if each line can be read. */
static inline void fuzz_check_options(const struct options *o)
{
	static const char head[] = "[forkd]\n";
	struct options_error error = { "" };
	struct options again;
	bool readable = true;
	char *text = fuzz_print(o), *line = text + strlen(head), *to = line;

	FUZZ_ASSERT(!strncmp(text, head, strlen(head)));
	for (size_t i = 0; i < OPTION_ROWS; i++) {
		const struct option_row *row = &option_rows[i];
		const void *field = option_const_field(row, o);
		bool same = fuzz_same_option(row, field, option_const_field(row, fuzz_defaults()));
		uint32_t lines = 0;

		fuzz_check_range(row, field);
		for (; fuzz_is_of(line, row); lines++) {
			size_t size = strcspn(line, "\n") + 1;

			readable &= row->help && size <= FUZZ_LINE + 1;
			memmove(to, line, size);
			to += same ? 0 : size;
			line += size;
		}
		FUZZ_ASSERT(lines ? row->help || !same : !row->help && same);
	}
	FUZZ_ASSERT(!*line);
	if (!readable)
		return;
	fuzz_options_init(&again);
	FUZZ_ASSERT(fuzz_read_conf(&again, text, (size_t)(to - text), &error) == 0);
	FUZZ_ASSERT(fuzz_same_options(o, &again, false));
	options_fini(&again);
}
