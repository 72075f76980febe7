/* SPDX-License-Identifier: MIT */
/*
 * Threads: the units of options. A list with names of users is not thread-safe (option_list.c).
 *
 * INVARIANTS
 *   I1. A value is parsed and checked before anything is changed: an error changes nothing.
 *   I2. A printed value reads back the same.
 */
#include "common/option_value.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <hwloc.h>

#include "common/cleanup.h"
#include "common/number.h"
#include "common/text.h"
#include "common/util.h"

/* ------------------------------------------------------------------------ values from text */

static int parse_plain(const char *text, int base, uint64_t *ret)
{
	const char *rest;
	uint64_t value;
	int r;

	r = number_parse(text, base, &value, &rest);
	if (r < 0)
		return r;
	if (*rest)
		return -EINVAL;
	*ret = value;
	return 0;
}

/* Sets the index of @text among the words of @words. */
static int parse_enum(const char *text, const char *words, uint64_t *ret)
{
	size_t len = strlen(text);
	uint64_t index = 0;

	for (const char *w = words;; w++, index++) {
		size_t n = strcspn(w, "|");

		if (n == len && memcmp(w, text, n) == 0) {
			*ret = index;
			return 0;
		}
		w += n;
		if (!*w)
			return -EINVAL;
	}
}

/* Parses ranges of numbers up to @max, separated by commas. hwloc's own reader takes "5-" for all
 * from 5 on, and does not accept 08. The empty list is NULL. */
static int parse_cpulist(const char *text, uint64_t max, hwloc_bitmap_t *ret)
{
	hwloc_bitmap_t set = NULL;
	const char *p = text;
	int r = 0;

	if (*text && !(set = hwloc_bitmap_alloc()))
		return -ENOMEM;
	while (*p) {
		uint64_t from = 0, to;

		r = number_parse(p, 10, &from, &p);
		to = from;
		if (r == 0 && *p == '-')
			r = number_parse(p + 1, 10, &to, &p);
		if (r == 0 && (from > max || to > max))
			r = -ERANGE;
		if (r == 0 && (to < from || (*p && (*p != ',' || !p[1]))))
			r = -EINVAL;
		if (r == 0 && hwloc_bitmap_set_range(set, (unsigned int)from, (int)to) < 0)
			r = -ENOMEM;
		if (r < 0) {
			hwloc_bitmap_free(set);
			return r;
		}
		p += *p == ',';
	}
	*ret = set;
	return 0;
}

/* ------------------------------------------------------------------------ text from values */

static void print_number(FILE *out, const struct option_row *row, uint64_t value)
{
	switch (row->type) {
	case OPTION_OCTAL:
		fprintf(out, "%04" PRIo64, value);
		break;
	case OPTION_SIZE:
		number_print_unit(value, &number_sizes, out);
		break;
	case OPTION_AUTOSIZE:
		if (value)
			number_print_unit(value, &number_sizes, out);
		else
			fputs("auto", out);
		break;
	case OPTION_AUTOINT:
		fprintf(out, value ? "%" PRIu64 : "auto", value);
		break;
	case OPTION_DURATION:
		number_print_unit(value, &number_durations, out);
		break;
	default:
		fprintf(out, "%" PRIu64, value);
		break;
	}
}

static void print_word(FILE *out, const char *words, unsigned int index)
{
	const char *w = words;

	while (index--)
		w += strcspn(w, "|") + 1;
	fprintf(out, "%.*s", (int)strcspn(w, "|"), w);
}

static void print_list(const struct option_row *row, const struct options_list *list, FILE *out)
{
	for (uint32_t i = 0; list && i < list->n; i++) {
		if (i)
			fputc(',', out);
		option_list_print(row, &list->entries[i], out);
	}
}

void option_value_print(const struct option_row *row, const void *field, FILE *out)
{
	switch (row->type) {
	case OPTION_PATH:
		fputs(*(char *const *)field, out);
		break;
	case OPTION_INT:
	case OPTION_AUTOINT:
	case OPTION_OCTAL:
		print_number(out, row, *(const unsigned int *)field);
		break;
	case OPTION_SIZE:
	case OPTION_AUTOSIZE:
	case OPTION_DURATION:
		print_number(out, row, *(const uint64_t *)field);
		break;
	case OPTION_ENUM:
		print_word(out, row->unit, *(const unsigned int *)field);
		break;
	case OPTION_CPULIST: {
		hwloc_const_bitmap_t set = *(hwloc_bitmap_t const *)field;
		_cleanup_free_ char *text = NULL;

		if (set && hwloc_bitmap_list_asprintf(&text, set) >= 0)
			fputs(text, out);
		break;
	}
	case OPTION_USERS:
	case OPTION_WEIGHTS:
	case OPTION_COUNTS:
	case OPTION_SIZES:
	case OPTION_TIMES:
	case OPTION_TASKS:
		print_list(row, option_list(row, field), out);
		break;
	}
}

void option_value_print_allowed(const struct option_row *row, FILE *out)
{
	static const char *const nouns[] = {
		[OPTION_INT] = "a whole number",
		[OPTION_AUTOINT] = "auto, or a whole number",
		[OPTION_OCTAL] = "octal permissions",
		[OPTION_SIZE] = "a size (bytes, or with K, M, G, T)",
		[OPTION_AUTOSIZE] = "auto, or a size (bytes, or with K, M, G, T)",
	};

	switch (row->type) {
	case OPTION_PATH:
		fprintf(out,
			"an absolute path of at most %" PRIu64 " bytes, without ; and "
			"control characters",
			row->max);
		break;
	case OPTION_ENUM:
		for (const char *w = row->unit;;) {
			size_t n = strcspn(w, "|");

			fprintf(out, "%.*s", (int)n, w);
			if (!w[n])
				break;
			w += n + 1;
			fputs(strchr(w, '|') ? ", " : " or ", out);
		}
		break;
	case OPTION_CPULIST:
		fprintf(out, "a list of CPUs such as 0-3,8, up to %" PRIu64, row->max);
		break;
	default:
		if (option_is_list(row)) {
			option_list_print_allowed(row, out);
			break;
		}
		if (row->type == OPTION_DURATION)
			fprintf(out, "a duration (in %s, or with ns, us, ms, s, min or h) from ",
				row->unit);
		else
			fprintf(out, "%s from ", nouns[row->type]);
		print_number(out, row, row->min);
		fputs(" to ", out);
		print_number(out, row, row->max);
		break;
	}
}

/* ------------------------------------------------------------------------ a field */

static size_t value_size(const struct option_row *row)
{
	switch (row->type) {
	case OPTION_INT:
	case OPTION_AUTOINT:
	case OPTION_OCTAL:
	case OPTION_ENUM:
		return sizeof(unsigned int);
	case OPTION_SIZE:
	case OPTION_AUTOSIZE:
	case OPTION_DURATION:
		return sizeof(uint64_t);
	default:
		return sizeof(void *);
	}
}

/* Refuses a path that a line of forkd.conf cannot have: control characters, comment characters of
 * inih, a blank at the end (I2). */
static bool path_is_plain(const char *path)
{
	return text_is_line(path) && !strchr(path, ';') && path[strlen(path) - 1] != ' ';
}

int option_value_set(const struct option_row *row, void *field, const char *text,
		     struct option_fault *ret_fault)
{
	uint64_t number = 0;
	int r = 0;

	*ret_fault = (struct option_fault){ .size = 0 };
	switch (row->type) {
	case OPTION_PATH: {
		char *copy;

		if (text[0] != '/' || !path_is_plain(text))
			return -EINVAL;
		if (strlen(text) > row->max)
			return -ERANGE;
		copy = strdup(text);
		if (!copy)
			return -ENOMEM;
		free(*(char **)field);
		*(char **)field = copy;
		return 0;
	}
	case OPTION_CPULIST: {
		hwloc_bitmap_t set = NULL;

		r = parse_cpulist(text, row->max, &set);
		if (r < 0)
			return r;
		hwloc_bitmap_free(*(hwloc_bitmap_t *)field);
		*(hwloc_bitmap_t *)field = set;
		return 0;
	}
	case OPTION_USERS:
	case OPTION_WEIGHTS:
	case OPTION_COUNTS:
	case OPTION_SIZES:
	case OPTION_TIMES:
	case OPTION_TASKS:
		return option_list_add(row, field, text, ret_fault);
	case OPTION_ENUM:
		r = parse_enum(text, row->unit, &number);
		if (r < 0)
			return r;
		*(unsigned int *)field = (unsigned int)number;
		return 0;
	case OPTION_AUTOINT:
		if (streq(text, "auto")) {
			*(unsigned int *)field = 0;
			return 0;
		}
		r = parse_plain(text, 10, &number);
		break;
	case OPTION_INT:
		r = parse_plain(text, 10, &number);
		break;
	case OPTION_OCTAL:
		r = parse_plain(text, 8, &number);
		break;
	case OPTION_AUTOSIZE:
		if (streq(text, "auto")) {
			*(uint64_t *)field = 0;
			return 0;
		}
		r = number_parse_unit(text, &number_sizes, "", &number);
		break;
	case OPTION_SIZE:
		r = number_parse_unit(text, &number_sizes, "", &number);
		break;
	case OPTION_DURATION:
		r = number_parse_unit(text, &number_durations, row->unit, &number);
		break;
	}
	if (r < 0)
		return r;
	if (number < row->min || number > row->max)
		return -ERANGE;
	if (value_size(row) == sizeof(unsigned int))
		*(unsigned int *)field = (unsigned int)number;
	else
		*(uint64_t *)field = number;
	return 0;
}

void option_value_fini(const struct option_row *row, void *field)
{
	if (row->type == OPTION_PATH) {
		free(*(char **)field);
		*(char **)field = NULL;
	} else if (row->type == OPTION_CPULIST) {
		hwloc_bitmap_free(*(hwloc_bitmap_t *)field);
		*(hwloc_bitmap_t *)field = NULL;
	} else if (option_is_list(row)) {
		free(*(struct options_list **)field);
		*(struct options_list **)field = NULL;
	}
}

static size_t list_size(const struct options_list *list)
{
	return sizeof(*list) + list->n * sizeof(list->entries[0]);
}

int option_value_copy(const struct option_row *row, const void *field, void *ret_field)
{
	const void *old = option_is_plain(row) ? NULL : *(void *const *)field;
	void *copy = NULL;

	if (option_is_plain(row)) {
		memcpy(ret_field, field, value_size(row));
		return 0;
	}
	if (!old) {
		*(void **)ret_field = NULL;
		return 0;
	}
	if (row->type == OPTION_PATH)
		copy = strdup(old);
	else if (row->type == OPTION_CPULIST)
		copy = hwloc_bitmap_dup(old);
	else if ((copy = malloc(list_size(old))))
		memcpy(copy, old, list_size(old));
	*(void **)ret_field = copy;
	return copy ? 0 : -ENOMEM;
}

static bool lists_equal(const struct options_list *a, const struct options_list *b)
{
	if (!a || !b || a->n != b->n)
		return a == b;
	for (uint32_t i = 0; i < a->n; i++) {
		const struct options_entry *x = &a->entries[i], *y = &b->entries[i];

		if (x->who != y->who || x->id != y->id || x->number != y->number ||
		    !streq(x->task, y->task))
			return false;
	}
	return true;
}

bool option_value_equals(const struct option_row *row, const void *a, const void *b)
{
	const void *x, *y;

	if (option_is_plain(row))
		return !memcmp(a, b, value_size(row));
	x = *(void *const *)a;
	y = *(void *const *)b;
	if (option_is_list(row))
		return lists_equal(x, y);
	if (!x || !y)
		return x == y;
	return row->type == OPTION_PATH ? streq(x, y) : hwloc_bitmap_isequal(x, y);
}

void option_value_swap(const struct option_row *row, void *a, void *b)
{
	size_t size = value_size(row);
	uint64_t held = 0;

	_Static_assert(sizeof(void *) <= sizeof(held), "room for a pointer");
	memcpy(&held, a, size);
	memcpy(a, b, size);
	memcpy(b, &held, size);
}
