/* SPDX-License-Identifier: MIT */
/*
 * draw.c - forkctl top: the layout of a frame on a canvas of any size
 *
 *	forkd 0.1  running for 2 h 14 min  pool 4711, lazy, 0 crashes     1.00 s
 *	Pool   [||||||||||||||||||||||||||||||||::::               71.3% of 2 CPUs]
 *	Jobs ...
 *	Steals ...
 *	TITLES OF A TABLE       as many tables as the view has
 *	rows
 *	1 all  2 workers ...    keys
 *
 * Each table gets the lines that it needs, as far as there are enough: small tables first, the rest
 * is shared equally. Columns are as wide as their widest cell. Bars take the rest of the line. If
 * the line is too short, columns are removed in the order of top_column.drop.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "client/forkctl/common.h"
#include "client/forkctl/top/top.h"
#include "common/util.h"

#define GAP	 2u  /* columns between two cells */
#define BAR_MIN	 17u /* columns of a cell with a bar: "100.0% [||||:: ]" */
#define BAR_MAX	 52u
#define BAR_TEXT 7u   /* columns of the number before the bar */
#define BAR_ROOM 400u /* maximum columns between the ends of a bar */

static const char *text_of(struct out_cell *cell, const json_t *row, const char *key,
			   enum out_format format)
{
	return out_show(cell, json_object_get(row, key), format);
}

/* Cuts a text after this number of characters. */
static void cut(char *text, uint32_t columns)
{
	uint32_t n = 0;

	for (; *text; text++)
		if (((unsigned char)*text & 0xc0) != 0x80 && n++ == columns) {
			*text = '\0';
			return;
		}
}

/* Puts a text, cut at the end of the line. Returns the column after it. */
__attribute__((format(printf, 5, 6))) static uint32_t put(struct top_canvas *canvas, uint32_t y,
							  uint32_t x, enum top_style style,
							  const char *format, ...)
{
	char text[512];
	va_list args;

	if (y >= canvas->rows || x >= canvas->columns)
		return x;
	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	cut(text, canvas->columns - x);
	canvas->put(canvas, y, x, text, style);
	return x + (uint32_t)out_width(text);
}

/* ------------------------------------------------------------------------ bars */

/* Draws [||||::::      ]: two shares of 1. columns: its width, more than 2. */
static void put_bar(struct top_canvas *canvas, uint32_t y, uint32_t x, uint32_t columns,
		    const json_t *run, const json_t *search)
{
	uint32_t room = min(columns - 2, BAR_ROOM);
	uint32_t first = (uint32_t)(json_real_value(run) * room + 0.5);
	uint32_t both = (uint32_t)((json_real_value(run) + json_real_value(search)) * room + 0.5);
	char bar[BAR_ROOM + 1];

	both = min(both, room);
	memset(bar, '|', first);
	bar[first] = '\0';
	(void)put(canvas, y, x, TOP_STRONG, "[");
	(void)put(canvas, y, x + 1, TOP_RUN, "%s", bar);
	memset(bar, ':', both - first);
	bar[both - first] = '\0';
	(void)put(canvas, y, x + 1 + first, TOP_SEARCH, "%s", bar);
	(void)put(canvas, y, x + 1 + room, TOP_STRONG, "]");
}

/* ------------------------------------------------------------------------ the head */

static void draw_manager(const struct top *top, const json_t *head, struct top_canvas *canvas)
{
	const json_t *manager = json_object_get(head, "manager");
	const json_t *pool = json_object_get(head, "pool");
	bool runs = streq(json_string_value(json_object_get(manager, "state")), "running");
	bool crashed = json_integer_value(json_object_get(pool, "crashes")) > 0;
	struct out_cell a, b;
	char every[160];
	struct forkctl_text text;
	uint32_t x, n;

	(void)snprintf(every, sizeof(every), "%severy %s", top->paused ? "PAUSED  " : "",
		       forkctl_time(&text, top->interval_ns));
	n = (uint32_t)strlen(every);
	x = put(canvas, 0, 0, TOP_STRONG, "forkd %s", text_of(&a, manager, "version", OUT_TEXT));
	if (*top->trouble) {
		x = put(canvas, 0, x + 2, TOP_BAD, "%s", top->trouble);
	} else {
		x = put(canvas, 0, x + 2, runs ? TOP_GOOD : TOP_BAD, "%s",
			text_of(&a, manager, "state", OUT_TEXT));
		x = put(canvas, 0, x, TOP_PLAIN, " for %s",
			text_of(&a, manager, "age_ns", OUT_AGE));
		if (json_is_null(json_object_get(pool, "pid")))
			x = put(canvas, 0, x + 2, TOP_BAD, "the pool is not running");
		else
			x = put(canvas, 0, x + 2, TOP_PLAIN, "pool %s, %s",
				text_of(&a, pool, "pid", OUT_NUMBER),
				text_of(&b, pool, "scheduler", OUT_TEXT));
		if (crashed)
			x = put(canvas, 0, x, TOP_BAD, ", crashes: %s",
				text_of(&a, pool, "crashes", OUT_NUMBER));
	}
	if (x + 2 + n <= canvas->columns)
		(void)put(canvas, 0, canvas->columns - n, top->paused ? TOP_STRONG : TOP_FAINT,
			  "%s", every);
}

static void draw_pool(const json_t *head, struct top_canvas *canvas)
{
	const json_t *pool = json_object_get(head, "pool");
	json_int_t offline = json_integer_value(json_object_get(pool, "offline"));
	struct out_cell a, b;
	char text[128];
	uint32_t x;
	int n;

	n = snprintf(
		text, sizeof(text), "%.15s of %.15s worker%s",
		text_of(&a, head, "run", OUT_PERCENT), text_of(&b, pool, "workers", OUT_NUMBER),
		forkctl_plural((uint64_t)json_integer_value(json_object_get(pool, "workers"))));
	if (offline && n > 0)
		n += snprintf(text + n, sizeof(text) - (size_t)n,
			      ", %" JSON_INTEGER_FORMAT " offline", offline);
	(void)put(canvas, 1, 0, TOP_STRONG, "Pool");
	x = put(canvas, 1, 7, TOP_STRONG, "%s", text) + GAP;
	if (x + BAR_MIN <= canvas->columns)
		put_bar(canvas, 1, x, canvas->columns - x, json_object_get(head, "run"),
			json_object_get(head, "search"));
}

/* A number and its name. */
struct item {
	const char *key;
	const char *name; /* after the number */
	enum out_format format;
};

static void draw_items(const json_t *row, struct top_canvas *canvas, uint32_t y, const char *title,
		       const struct item *items, size_t n)
{
	uint32_t x = 7;

	(void)put(canvas, y, 0, TOP_STRONG, "%s", title);
	for (size_t i = 0; i < n; i++) {
		struct out_cell cell;
		const char *text = text_of(&cell, row, items[i].key, items[i].format);
		int name = out_width(items[i].name);

		/* Singular. */
		if (items[i].format == OUT_NUMBER && streq(text, "1") &&
		    items[i].name[name - 1] == 's')
			name--;
		if (x + (uint32_t)(out_width(text) + name) > canvas->columns)
			continue;
		x = put(canvas, y, x, TOP_STRONG, "%s", text);
		x = put(canvas, y, x, TOP_PLAIN, "%.*s", name, items[i].name) + GAP;
	}
}

static void draw_head(const struct top *top, const json_t *head, struct top_canvas *canvas)
{
	static const struct item jobs[] = {
		{ "jobs_rate", "/s", OUT_RATE },       { "running", " running", OUT_NUMBER },
		{ "queued", " queued", OUT_NUMBER },   { "failed_rate", "/s failed", OUT_RATE },
		{ "clients", " clients", OUT_NUMBER }, { "users", " users", OUT_NUMBER },
	};
	static const struct item steals[] = {
		{ "steals", "/s", OUT_RATE },
		{ "steal_attempts", "/s tries", OUT_RATE },
		{ "sleeps", "/s sleeps", OUT_RATE },
		{ "heap_bytes", " shared", OUT_BYTES },
		{ "stack_bytes", " stacks", OUT_BYTES },
		{ "wakes", "/s wakes", OUT_RATE },
	};
	_cleanup_json_ json_t *row = json_copy((json_t *)(uintptr_t)head);

	draw_manager(top, head, canvas);
	draw_pool(head, canvas);
	(void)json_object_update(row, json_object_get(head, "connections"));
	draw_items(row, canvas, 2, "Jobs", jobs, ARRAY_SIZE(jobs));
	draw_items(row, canvas, 3, "Steals", steals, ARRAY_SIZE(steals));
}

/* ------------------------------------------------------------------------ tables */

/* The widths of the columns of a table; 0: the column does not fit. */
struct layout {
	uint32_t n;
	uint32_t widths[TOP_COLUMNS];
};

/* Returns the width of the widest cell of a column, or of its title. */
static uint32_t width_of(const struct top_column *column, const json_t *rows)
{
	int width = out_width(column->data.title);
	struct out_cell cell;
	const json_t *row;
	size_t i;

	if (column->bar)
		return BAR_MIN;
	json_array_foreach(rows, i, row) width =
		max(width, out_width(text_of(&cell, row, column->data.key, column->data.format)));
	return (uint32_t)width;
}

static uint32_t layout_width(const struct layout *l)
{
	uint32_t width = 0;

	for (uint32_t i = 0; i < l->n; i++)
		width += l->widths[i] ? l->widths[i] + (width ? GAP : 0) : 0;
	return width;
}

/* The column to remove next; l->n: all remaining ones must stay. */
static uint32_t layout_least(const struct layout *l, const struct top_column *columns)
{
	uint32_t least = l->n;

	for (uint32_t i = 0; i < l->n; i++)
		if (l->widths[i] && columns[i].drop &&
		    (least == l->n || columns[i].drop > columns[least].drop))
			least = i;
	return least;
}

static void layout_make(struct layout *l, enum top_table table, const json_t *rows,
			uint32_t columns)
{
	const struct top_column *c = top_tables[table].columns;
	uint32_t least, last;

	l->n = top_n_columns(table);
	for (uint32_t i = 0; i < l->n; i++)
		l->widths[i] = width_of(&c[i], rows);
	/* The last column may be cut if it is text. */
	last = l->n - 1;
	while (layout_width(l) > columns && (least = layout_least(l, c)) < l->n)
		l->widths[least] = 0;
	if (layout_width(l) > columns && out_is_left(c[last].data.format))
		l->widths[last] -= min(layout_width(l) - columns, l->widths[last] - 1);
	for (uint32_t i = 0; i < l->n; i++)
		if (c[i].bar && layout_width(l) < columns)
			l->widths[i] = min(l->widths[i] + columns - layout_width(l), BAR_MAX);
}

static void draw_titles(const struct top *top, struct top_canvas *canvas, uint32_t y,
			enum top_table table, const struct layout *l)
{
	const struct top_column *c = top_tables[table].columns;
	bool sorted = table == top_table_of(top) && table != TOP_STEALS;
	uint32_t x = 0;

	(void)put(canvas, y, 0, TOP_TITLE, "%*s", (int)min(canvas->columns, 500u), "");
	for (uint32_t i = 0; i < l->n; i++) {
		int left = out_is_left(c[i].data.format) || c[i].bar;

		if (!l->widths[i])
			continue;
		(void)put(canvas, y, x,
			  sorted && i == top->order[table].column ? TOP_SORTED : TOP_TITLE, "%*s",
			  left ? -(int)l->widths[i] : (int)l->widths[i], c[i].data.title);
		x += l->widths[i] + GAP;
	}
}

static enum top_style style_of(const struct top_column *column, const char *text)
{
	if (!streq(column->data.key, "state"))
		return TOP_PLAIN;
	return streq(text, "running")	? TOP_RUN
	     : streq(text, "searching") ? TOP_SEARCH
	     : streq(text, "offline")	? TOP_BAD
					: TOP_FAINT;
}

static void draw_row(struct top_canvas *canvas, uint32_t y, enum top_table table,
		     const struct layout *l, const json_t *row)
{
	const struct top_column *c = top_tables[table].columns;
	uint32_t x = 0;

	for (uint32_t i = 0; i < l->n; i++) {
		struct out_cell cell;
		const char *text = text_of(&cell, row, c[i].data.key, c[i].data.format);
		uint32_t width = (uint32_t)out_width(text);
		uint32_t room = c[i].bar ? BAR_TEXT - 1 : l->widths[i];

		if (!l->widths[i])
			continue;
		(void)put(canvas, y,
			  out_is_left(c[i].data.format) || width > room ? x : x + room - width,
			  style_of(&c[i], text), "%s", text);
		if (c[i].bar)
			put_bar(canvas, y, x + BAR_TEXT, l->widths[i] - BAR_TEXT,
				json_object_get(row, c[i].data.key),
				c[i].more ? json_object_get(row, c[i].more) : NULL);
		x += l->widths[i] + GAP;
	}
}

/* Shows the number of rows below: after a title with room for it, or at the end of the line. */
static void draw_more(struct top_canvas *canvas, uint32_t y, enum top_table table,
		      const struct layout *l, uint32_t n)
{
	const struct top_column *c = top_tables[table].columns;
	uint32_t x = 0, width, end = canvas->columns;
	char text[32];

	width = (uint32_t)snprintf(text, sizeof(text), " %u more", n);
	for (uint32_t i = 0; i < l->n; i++) {
		bool left = out_is_left(c[i].data.format) || c[i].bar;

		if (left && l->widths[i] >= (uint32_t)out_width(c[i].data.title) + width) {
			end = x + l->widths[i];
			break;
		}
		x += l->widths[i] ? l->widths[i] + GAP : 0;
	}
	if (end >= width)
		(void)put(canvas, y, end - width, TOP_TITLE, "%s", text);
}

/* Draws a table in at most this number of lines, including its titles. Returns the number of
 * lines that it used. */
static uint32_t draw_table(struct top *top, const json_t *rows, struct top_canvas *canvas,
			   uint32_t y, enum top_table table, uint32_t lines)
{
	uint32_t n = (uint32_t)json_array_size(rows), room = lines - 1, from = 0;
	struct layout l;

	if (table == top_table_of(top)) {
		top->scroll = min(top->scroll, n > room ? n - room : 0);
		from = top->scroll;
	}
	layout_make(&l, table, rows, canvas->columns);
	draw_titles(top, canvas, y, table, &l);
	for (uint32_t i = 0; i < room && from + i < n; i++)
		draw_row(canvas, y + 1 + i, table, &l, json_array_get(rows, from + i));
	if (from + room < n)
		draw_more(canvas, y, table, &l, n - from - room);
	return 1 + min(room, n - from);
}

/* Divides lines between the tables of a view: a table that needs less than an equal part gets all
 * that it needs. */
static void share_lines(const uint32_t *wanted, uint32_t n, uint32_t lines, uint32_t *ret_lines)
{
	bool done[TOP_VIEW_TABLES] = { false };
	uint32_t left = n;

	for (uint32_t round = 0; round < n; round++) {
		uint32_t least = n;

		for (uint32_t i = 0; i < n; i++)
			if (!done[i] && (least == n || wanted[i] < wanted[least]))
				least = i;
		ret_lines[least] = min(wanted[least], lines / left--);
		lines -= ret_lines[least];
		done[least] = true;
	}
}

static uint32_t draw_view(struct top *top, const struct top_frame *frame, struct top_canvas *canvas,
			  uint32_t y, uint32_t end)
{
	const struct top_view_info *view = &top_views[top->view];
	uint32_t wanted[TOP_VIEW_TABLES], lines[TOP_VIEW_TABLES];
	json_t *rows[TOP_VIEW_TABLES];

	for (uint32_t i = 0; i < view->n; i++) {
		rows[i] = top_rows(top, frame, view->tables[i]);
		wanted[i] = 1 + (uint32_t)json_array_size(rows[i]);
	}
	share_lines(wanted, view->n, end > y ? end - y : 0, lines);
	for (uint32_t i = 0; i < view->n; i++) {
		if (lines[i])
			y += draw_table(top, rows[i], canvas, y, view->tables[i], lines[i]);
		json_decref(rows[i]);
	}
	return y;
}

/* ------------------------------------------------------------------------ keys */

static void draw_keys(const struct top *top, struct top_canvas *canvas)
{
	static const char *const more[] = { "? help", "q quit", "/ filter", "<> sort",
					    "r reverse" };
	uint32_t y = canvas->rows - 1, x = 0;

	if (top->editing) {
		(void)put(canvas, y, 0, TOP_STRONG, "Filter: %s_", top->filter);
		return;
	}
	if (*top->message) {
		(void)put(canvas, y, 0, TOP_STRONG, "%s", top->message);
		return;
	}
	for (uint32_t i = 0; i < TOP_VIEWS; i++)
		x = put(canvas, y, x, i == top->view ? TOP_SORTED : TOP_FAINT, "%u %s", i + 1,
			top_views[i].name) +
		    1;
	if (*top->filter)
		x = put(canvas, y, x + 1, TOP_BAD, "only: %s", top->filter);
	for (size_t i = 0; i < ARRAY_SIZE(more); i++)
		if (x + 1 + strlen(more[i]) <= canvas->columns)
			x = put(canvas, y, x + 1, TOP_FAINT, "%s", more[i]);
}

static void draw_help(struct top_canvas *canvas)
{
	static const char *const lines[] = {
		"1 to 6, Tab   show: all, workers, users, tasks, clients, steals",
		"< >           sort by the column to the left, to the right",
		"r             reverse the order",
		"/             show only rows with this text; Esc: show all rows",
		"Up Down ...   scroll the rows",
		"p, Space      pause, resume",
		"+ -           longer interval, shorter interval",
		"?             show this help, hide it",
		"q             quit",
		"",
		"Bars: ||| running a job, ::: searching for one, blank: sleeping or offline.",
		"CPU: share of the time of all workers. In the view \"all\" the keys sort the last",
		"table. The columns are explained in forkctl-top(1).",
	};

	for (uint32_t i = 0; i < ARRAY_SIZE(lines); i++)
		(void)put(canvas, 5 + i, 2, TOP_PLAIN, "%s", lines[i]);
}

uint32_t top_draw(struct top *top, const struct top_frame *frame, struct top_canvas *canvas,
		  bool keys)
{
	uint32_t end = canvas->rows - (keys ? 1 : 0), y = TOP_HEAD;

	if (!frame->head) {
		(void)put(canvas, 0, 0, TOP_STRONG, "forkd");
		(void)put(canvas, 0, 7, TOP_BAD, "%s", top->trouble);
	} else {
		draw_head(top, frame->head, canvas);
		if (top->help)
			draw_help(canvas);
		else
			y = draw_view(top, frame, canvas, y, end);
	}
	if (keys)
		draw_keys(top, canvas);
	return min(y, canvas->rows);
}
