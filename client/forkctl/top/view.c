/* SPDX-License-Identifier: MIT */
/*
 * view.c - forkctl top: its tables and views, the order of rows, the filter
 *
 * INVARIANTS
 *   I1. Rows with equal values in the sort column keep their order in the frame, so that they do
 *       not change places at each refresh.
 *   I2. The filter compares the text of the cells, including those that do not fit on the screen.
 */
#include "client/forkctl/top/top.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "client/forkctl/common.h"
#include "common/util.h"

const struct top_table_info top_tables[TOP_TABLES] = {
	[TOP_WORKERS] = {
		.title = "Workers",
		.columns = {
			{ .data = { "worker", "WORKER", OUT_NUMBER }, .up = 1 },
			{ .data = { "cpu", "CPU", OUT_NUMBER }, .up = 1 },
			{ .data = { "node", "NODE", OUT_NUMBER }, .up = 1 },
			{ .data = { "state", "STATE", OUT_TEXT } },
			{ .data = { "run", "USE", OUT_PERCENT }, .more = "search", .bar = 1 },
			{ .data = { "jobs_rate", "JOBS/S", OUT_RATE }, .drop = 2 },
			{ .data = { "steals_rate", "STEALS/S", OUT_RATE }, .drop = 3 },
			{ .data = { "running_ns", "FOR", OUT_TIME }, .drop = 1 },
			{ .data = { "pid", "PID", OUT_NUMBER }, .up = 1 },
			{ .data = { "user", "USER", OUT_TEXT }, .drop = 4 },
			{ .data = { "task", "TASK", OUT_TEXT } },
		},
	},
	[TOP_USERS] = {
		.title = "Users", .sort = 1, .down = true,
		.columns = {
			{ .data = { "user", "USER", OUT_TEXT } },
			{ .data = { "share", "CPU", OUT_PERCENT }, .bar = 1 },
			{ .data = { "weight", "WEIGHT", OUT_NUMBER } },
			{ .data = { "clients", "CLIENTS", OUT_NUMBER }, .drop = 4 },
			{ .data = { "workers", "WORKERS", OUT_NUMBER }, .drop = 5 },
			{ .data = { "running", "RUN", OUT_NUMBER } },
			{ .data = { "queued", "QUEUED", OUT_NUMBER } },
			{ .data = { "jobs_rate", "JOBS/S", OUT_RATE } },
			{ .data = { "failed_rate", "FAILED/S", OUT_RATE }, .drop = 3 },
			{ .data = { "mean_ns", "MEAN", OUT_TIME }, .drop = 6 },
			{ .data = { "wait_p50_ns", "WAIT P50", OUT_TIME }, .drop = 2 },
			{ .data = { "wait_p99_ns", "WAIT P99", OUT_TIME }, .drop = 1 },
			{ .data = { "memory_bytes", "MEMORY", OUT_BYTES }, .drop = 7 },
		},
	},
	[TOP_TASKS] = {
		.title = "Tasks", .sort = 1, .down = true,
		.columns = {
			{ .data = { "task", "TASK", OUT_TEXT } },
			{ .data = { "jobs_rate", "JOBS/S", OUT_RATE } },
			{ .data = { "mean_ns", "MEAN", OUT_TIME } },
			{ .data = { "running", "WORKERS", OUT_NUMBER } },
			{ .data = { "jobs", "JOBS", OUT_NUMBER }, .drop = 1 },
		},
	},
	[TOP_CLIENTS] = {
		.title = "Clients", .sort = 4, .down = true,
		.columns = {
			{ .data = { "client", "CLIENT", OUT_NUMBER }, .up = 1, .drop = 1 },
			{ .data = { "pid", "PID", OUT_NUMBER }, .up = 1 },
			{ .data = { "user", "USER", OUT_TEXT } },
			{ .data = { "command", "COMMAND", OUT_TEXT } },
			{ .data = { "share", "CPU", OUT_PERCENT }, .bar = 1 },
			{ .data = { "weight", "WEIGHT", OUT_NUMBER }, .drop = 4 },
			{ .data = { "workers", "WORKERS", OUT_NUMBER }, .drop = 5 },
			{ .data = { "running", "RUN", OUT_NUMBER } },
			{ .data = { "queued", "QUEUED", OUT_NUMBER } },
			{ .data = { "jobs_rate", "JOBS/S", OUT_RATE } },
			{ .data = { "failed_rate", "FAILED/S", OUT_RATE }, .drop = 6 },
			{ .data = { "mean_ns", "MEAN", OUT_TIME }, .drop = 2 },
			{ .data = { "mean_wait_ns", "WAIT", OUT_TIME }, .drop = 3 },
			{ .data = { "memory_bytes", "MEMORY", OUT_BYTES }, .drop = 3 },
			{ .data = { "age_ns", "FOR", OUT_AGE }, .drop = 7 },
		},
	},
	[TOP_STEALS] = {
		.title = "Steals",
		.columns = {
			{ .data = { "level", "LEVEL", OUT_TEXT } },
			{ .data = { "steals", "STEALS/S", OUT_RATE } },
			{ .data = { "attempts", "TRIES/S", OUT_RATE } },
			{ .data = { "found", "FOUND", OUT_PERCENT } },
			{ .data = { "share", "SHARE", OUT_PERCENT }, .bar = 1 },
		},
	},
	[TOP_THIEVES] = {
		.title = "Thieves",
		.columns = {
			{ .data = { "worker", "WORKER", OUT_NUMBER }, .up = 1 },
			{ .data = { "node", "NODE", OUT_NUMBER }, .up = 1 },
			{ .data = { "near", "NEAR/S", OUT_RATE } },
			{ .data = { "far", "FAR/S", OUT_RATE } },
			{ .data = { "farther", "FARTHER/S", OUT_RATE } },
			{ .data = { "attempts", "TRIES/S", OUT_RATE } },
			{ .data = { "found", "FOUND", OUT_PERCENT } },
			{ .data = { "job_steals", "JOBS/S", OUT_RATE } },
			{ .data = { "forks_stolen", "STOLEN/S", OUT_RATE }, .drop = 1 },
			{ .data = { "sleeps", "SLEEPS/S", OUT_RATE }, .drop = 2 },
		},
	},
};

const struct top_view_info top_views[TOP_VIEWS] = {
	[TOP_VIEW_ALL] = { "all",
			   { TOP_WORKERS, TOP_USERS, TOP_CLIENTS, TOP_STEALS, TOP_TASKS },
			   5 },
	[TOP_VIEW_WORKERS] = { "workers", { TOP_WORKERS }, 1 },
	[TOP_VIEW_USERS] = { "users", { TOP_USERS }, 1 },
	[TOP_VIEW_TASKS] = { "tasks", { TOP_TASKS }, 1 },
	[TOP_VIEW_CLIENTS] = { "clients", { TOP_CLIENTS }, 1 },
	[TOP_VIEW_STEALS] = { "steals", { TOP_STEALS, TOP_THIEVES }, 2 },
};

void top_init(struct top *top, uint64_t interval_ns)
{
	*top = (struct top){ .interval_ns = interval_ns };
	for (size_t i = 0; i < TOP_TABLES; i++)
		top->order[i] = (struct top_order){ top_tables[i].sort, top_tables[i].down };
}

uint32_t top_n_columns(enum top_table table)
{
	uint32_t n = 0;

	while (n < TOP_COLUMNS && top_tables[table].columns[n].data.key)
		n++;
	return n;
}

enum top_table top_table_of(const struct top *top)
{
	const struct top_view_info *view = &top_views[top->view];

	return view->tables[view->n - 1];
}

int top_find_view(const char *name)
{
	for (int i = 0; i < TOP_VIEWS; i++)
		if (streq(top_views[i].name, name))
			return i;
	return -1;
}

int top_find_column(enum top_table table, const char *title)
{
	for (uint32_t i = 0; i < top_n_columns(table); i++)
		if (!strcasecmp(top_tables[table].columns[i].data.title, title))
			return (int)i;
	return -1;
}

/* ------------------------------------------------------------------------ order */

struct top_order top_order_of(enum top_table table, uint32_t column)
{
	const struct top_column *c = &top_tables[table].columns[column];

	return (struct top_order){ column, !c->up && !out_is_left(c->data.format) };
}

/* A row with its index before sorting. */
struct place {
	json_t *row;
	size_t index;
	const char *key;
	bool down;
};

/* null is less than any value. */
static int compare_values(const json_t *a, const json_t *b)
{
	double d;

	if (json_is_string(a) && json_is_string(b))
		return strcasecmp(json_string_value(a), json_string_value(b));
	if (json_is_number(a) != json_is_number(b) || json_is_string(a) != json_is_string(b))
		return json_is_null(b) || !b ? 1 : -1;
	d = json_number_value(a) - json_number_value(b);
	return (d > 0) - (d < 0);
}

static int compare_places(const void *left, const void *right)
{
	const struct place *a = left, *b = right;
	int d = compare_values(json_object_get(a->row, a->key), json_object_get(b->row, b->key));

	if (d)
		return a->down ? -d : d;
	return a->index < b->index ? -1 : 1;
}

static json_t *in_order(json_t *rows, const char *key, bool down)
{
	size_t n = json_array_size(rows), i;
	_cleanup_free_ struct place *places = calloc(n + 1, sizeof(*places));
	json_t *sorted = json_array(), *row;

	if (!places)
		exit(forkctl_fail(FORKCTL_FAILED, "out of memory"));
	json_array_foreach(rows, i, row) places[i] = (struct place){ row, i, key, down };
	qsort(places, n, sizeof(*places), compare_places);
	for (i = 0; i < n; i++)
		(void)json_array_append(sorted, places[i].row);
	json_decref(rows);
	return sorted;
}

/* ------------------------------------------------------------------------ filter */

static bool has_text(const json_t *row, enum top_table table, const char *text)
{
	struct out_cell cell;

	for (uint32_t i = 0; i < top_n_columns(table); i++) {
		const struct out_column *c = &top_tables[table].columns[i].data;

		if (strcasestr(out_show(&cell, json_object_get(row, c->key), c->format), text))
			return true;
	}
	return false;
}

/* In the view of all tables, levels that this machine does not have are not shown. */
static bool is_shown(const struct top *top, const json_t *row, enum top_table table)
{
	if (table == TOP_STEALS)
		return top->view != TOP_VIEW_ALL || json_is_true(json_object_get(row, "tried"));
	return !*top->filter || has_text(row, table, top->filter);
}

json_t *top_rows(const struct top *top, const struct top_frame *frame, enum top_table table)
{
	const struct top_order *order = &top->order[table];
	json_t *rows = json_array(), *row;
	size_t i;

	json_array_foreach(frame->rows[table], i, row)
	{
		if (is_shown(top, row, table))
			(void)json_array_append(rows, row);
	}
	/* Levels are not sorted: they are in the order of their distance. */
	if (table == TOP_STEALS)
		return rows;
	return in_order(rows, top_tables[table].columns[order->column].data.key, order->down);
}
