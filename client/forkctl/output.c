/* SPDX-License-Identifier: MIT */
#include "client/forkctl/output.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/forkctl/common.h"
#include "common/clock.h"
#include "common/text.h"
#include "common/util.h"

#define OUT_COLUMNS 32u

static void *out_alloc(size_t size)
{
	void *p = malloc(size);

	if (!p)
		exit(forkctl_fail(FORKCTL_FAILED, "out of memory"));
	return p;
}

void out_init(void)
{
	json_set_alloc_funcs(out_alloc, free);
}

/* ------------------------------------------------------------------------ values */

json_t *out_text(const char *text, size_t size)
{
	size_t n = strnlen(text, size);
	json_t *value = json_stringn(text, n);
	_cleanup_free_ char *plain = NULL;

	if (value)
		return value;
	plain = out_alloc(n + 1);
	for (size_t i = 0; i < n; i++)
		plain[i] = (unsigned char)text[i] < 0x80 ? text[i] : '?';
	return json_stringn(plain, n);
}

json_t *out_number(uint64_t number)
{
	return json_integer((json_int_t)number);
}

json_t *out_index(uint32_t index)
{
	return index == UINT32_MAX ? json_null() : json_integer(index);
}

uint64_t out_now_ns(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * NSEC_PER_SEC + (uint64_t)now.tv_nsec;
}

/* ------------------------------------------------------------------------ cells */

static void show_date(struct out_cell *cell, uint64_t ns)
{
	time_t seconds = (time_t)(ns / NSEC_PER_SEC);
	struct tm tm;

	if (!localtime_r(&seconds, &tm) || !strftime(cell->text, sizeof(cell->text), "%F %T", &tm))
		(void)strcpy(cell->text, "?");
}

static void show_bytes(struct out_cell *cell, double bytes)
{
	static const char units[] = { 'K', 'M', 'G', 'T' };
	size_t unit = 0;

	if (bytes < 1024) {
		(void)snprintf(cell->text, sizeof(cell->text), "%.0f", bytes);
		return;
	}
	for (bytes /= 1024; bytes >= 1024 && unit < ARRAY_SIZE(units) - 1; bytes /= 1024)
		unit++;
	(void)snprintf(cell->text, sizeof(cell->text), "%.1f%c", bytes, units[unit]);
}

static void show_rate(struct out_cell *cell, double n)
{
	static const char *const units[] = { "", "k", "M", "G", "T" };
	int digits = n > 0 && n < 9.95;
	size_t unit = 0;

	if (n >= 9999.5) {
		for (; n >= 999.5 && unit < ARRAY_SIZE(units) - 1; n /= 1000)
			unit++;
		digits = n < 9.995 ? 2 : n < 99.95 ? 1 : 0;
	}
	(void)snprintf(cell->text, sizeof(cell->text), "%.*f%s", digits, n, units[unit]);
}

/* Shows a time in its two largest units. */
static void show_age(struct out_cell *cell, uint64_t ns)
{
	uint64_t s = ns / NSEC_PER_SEC;

	if (s < 60)
		(void)snprintf(cell->text, sizeof(cell->text), "%" PRIu64 " s", s);
	else if (s < 3600)
		(void)snprintf(cell->text, sizeof(cell->text), "%" PRIu64 " min %" PRIu64 " s",
			       s / 60, s % 60);
	else if (s < 86400)
		(void)snprintf(cell->text, sizeof(cell->text), "%" PRIu64 " h %" PRIu64 " min",
			       s / 3600, s / 60 % 60);
	else
		(void)snprintf(cell->text, sizeof(cell->text), "%" PRIu64 " d %" PRIu64 " h",
			       s / 86400, s / 3600 % 24);
}

static void show_text(struct out_cell *cell, const char *text)
{
	size_t i, n;

	for (i = 0; i < sizeof(cell->text) - 1 && *text; i++) {
		n = text_control(text);
		cell->text[i] = n ? '?' : *text;
		text += n ? n : 1;
	}
	cell->text[i] = '\0';
}

const char *out_show(struct out_cell *cell, const json_t *value, enum out_format format)
{
	struct forkctl_text time;
	json_int_t n = json_integer_value(value);

	if (!value || json_is_null(value))
		return "-";
	if (json_is_boolean(value))
		return json_is_true(value) ? "yes" : "no";
	switch (format) {
	case OUT_TEXT:
	case OUT_NUMBER:
		if (json_is_string(value))
			show_text(cell, json_string_value(value));
		else if (json_is_real(value))
			(void)snprintf(cell->text, sizeof(cell->text), "%.1f",
				       json_real_value(value));
		else
			(void)snprintf(cell->text, sizeof(cell->text), "%" JSON_INTEGER_FORMAT, n);
		break;
	case OUT_TIME:
		show_text(cell, forkctl_time(&time, (uint64_t)n));
		break;
	case OUT_DATE:
		show_date(cell, (uint64_t)n);
		break;
	case OUT_BYTES:
		show_bytes(cell, json_number_value(value));
		break;
	case OUT_HEX:
		(void)snprintf(cell->text, sizeof(cell->text), "0x%" PRIx64, (uint64_t)n);
		break;
	case OUT_PERCENT:
		(void)snprintf(cell->text, sizeof(cell->text), "%.1f%%",
			       100 * json_number_value(value));
		break;
	case OUT_AGE:
		show_age(cell, (uint64_t)n);
		break;
	case OUT_RATE:
		show_rate(cell, json_number_value(value));
		break;
	}
	return cell->text;
}

/* ------------------------------------------------------------------------ tables */

static const char *show_member(struct out_cell *cell, const json_t *row,
			       const struct out_column *column)
{
	const json_t *value = json_object_get(row, column->key);

	if (column->index)
		value = json_array_get(value, column->index - 1);
	return out_show(cell, value, column->format);
}

int out_width(const char *text)
{
	int n = 0;

	for (; *text; text++)
		n += (*text & 0xc0) != 0x80;
	return n;
}

int out_is_left(enum out_format format)
{
	return format == OUT_TEXT || format == OUT_DATE;
}

static void print_cell(const char *text, const struct out_column *column, int columns, int last)
{
	int left = out_is_left(column->format);
	int blanks = columns - out_width(text);

	printf("%*s%s%*s%s", left ? 0 : blanks, "", text, left && !last ? blanks : 0, "",
	       last ? "\n" : "  ");
}

void out_print_table(const char *below, const json_t *rows, const struct out_column *columns,
		     bool header)
{
	int widths[OUT_COLUMNS];
	struct out_cell cell;
	const json_t *row;
	uint32_t n = 0;
	size_t i;

	for (; n < OUT_COLUMNS && columns[n].key; n++) {
		widths[n] = header ? out_width(columns[n].title) : 0;
		json_array_foreach(rows, i, row) widths[n] =
			max(widths[n], out_width(show_member(&cell, row, &columns[n])));
	}
	printf("%s", below);
	for (uint32_t c = 0; header && c < n; c++)
		print_cell(columns[c].title, &columns[c], widths[c], c + 1 == n);
	json_array_foreach(rows, i, row) for (uint32_t c = 0; c < n; c++) print_cell(
		show_member(&cell, row, &columns[c]), &columns[c], widths[c], c + 1 == n);
}

int out_print_json(json_t *document, size_t indent)
{
	_cleanup_json_ json_t *whole = json_pack("{s:i}", "schema", OUT_SCHEMA);
	int r;

	(void)json_object_update_new(whole, document);
	r = json_dumpf(whole, stdout, JSON_INDENT(indent) | JSON_REAL_PRECISION(12));
	(void)putchar('\n');
	return r < 0 ? FORKCTL_FAILED : FORKCTL_OK;
}
