/* SPDX-License-Identifier: MIT */
/*
 * top.c - forkctl top: shows the state of forkd continuously
 *
 * A loop takes a sample of the board at each interval, computes a frame from the last two samples
 * and draws it. Keys are read in between. With --batch frames are printed as text.
 *
 * If forkd dies: the end of the socket is detected at the next refresh. The screen keeps the last
 * frame with a note, and a new connection is tried at each interval. --batch ends.
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/forkctl/common.h"
#include "client/forkctl/forkctl.h"
#include "client/lib/client.h"
#include "client/forkctl/top/top.h"
#include "common/clock.h"
#include "common/number.h"
#include "common/util.h"

#define TOP_TEXT_COLUMNS 100u
#define TOP_FIRST	 (250 * NSEC_PER_MSEC) /* maximum time to the second sample */

struct top_options {
	struct forkctl_limit interval;
	int batch;
	int once;
	int reverse;
	uint32_t count;
	struct forkctl_limit duration;
	const char *view;
	const char *sort;
	const char *filter;
};

const struct forkctl_option forkctl_top_options[] = {
	{ "-i", "--interval", "TIME", "Refresh at this interval (default: 1s)", FORKCTL_SECONDS,
	  offsetof(struct top_options, interval), TOP_INTERVAL_MIN, TOP_INTERVAL_MAX },
	{ "-b", "--batch", NULL, "Print frames as text, without a terminal", FORKCTL_FLAG,
	  offsetof(struct top_options, batch), 0, 0 },
	{ "-n", "--count", "N", "Stop --batch after N frames (default: never)", FORKCTL_NUMBER,
	  offsetof(struct top_options, count), 1, UINT32_MAX },
	{ "", "--duration", "TIME", "Exit after this time (default: never)", FORKCTL_SECONDS,
	  offsetof(struct top_options, duration), 1, UINT64_MAX },
	{ "", "--once", NULL, "Same as --batch --count 1", FORKCTL_FLAG,
	  offsetof(struct top_options, once), 0, 0 },
	{ "", "--view", "all|workers|users|tasks|clients|steals", "Show this view (default: all)",
	  FORKCTL_CHOICE, offsetof(struct top_options, view), 0, 0 },
	{ "", "--sort", "COLUMN", "Sort by the column with this title", FORKCTL_TEXT,
	  offsetof(struct top_options, sort), 0, 0 },
	{ "", "--reverse", NULL, "Reverse the order", FORKCTL_FLAG,
	  offsetof(struct top_options, reverse), 0, 0 },
	{ "", "--filter", "TEXT", "Show only rows that contain this text", FORKCTL_TEXT,
	  offsetof(struct top_options, filter), 0, 0 },
	{ 0 },
};

/* The connection, its samples, and the frame made of them. */
struct look {
	const char *socket;
	fk_client *client; /* NULL: no connection */
	uint64_t gone_ns;  /* time at which the connection was lost */
	struct top_sample old;
	struct top_sample now;
	struct top_frame frame;
};

static void look_fini(struct look *look)
{
	if (look->client)
		(void)fk_close(look->client);
	top_sample_fini(&look->old);
	top_sample_fini(&look->now);
	top_frame_fini(&look->frame);
}

/* Takes a sample, and makes the frame that ends with it. */
static void look_again(struct look *look)
{
	struct top_sample taken = look->old;

	look->old = look->now;
	look->now = taken;
	top_sample_take(&look->now, look->client->board, clock_ns());
	top_frame_make(&look->frame, &look->old, &look->now);
}

/* ------------------------------------------------------------------------ text */

/* Prints all rows of the view. Returns 0 or an exit code. */
static int print_frame(struct top *top, const struct top_frame *frame)
{
	const struct top_view_info *view = &top_views[top->view];
	const char *columns = getenv("COLUMNS");
	_cleanup_(top_text_freep) struct top_text *text = NULL;
	uint32_t rows = TOP_HEAD;
	const char *rest;
	uint64_t n;

	if (!columns || number_parse(columns, 10, &n, &rest) || *rest || n < 20 || n > 1000)
		n = TOP_TEXT_COLUMNS;
	for (uint32_t i = 0; i < view->n; i++)
		rows += 1 + (uint32_t)json_array_size(frame->rows[view->tables[i]]);
	text = top_text_new(rows, (uint32_t)n);
	rows = top_draw(top, frame, top_text_canvas(text), false);
	top_text_print(text, rows, stdout);
	(void)putchar('\n');
	return fflush(stdout) == 0 ? FORKCTL_OK : FORKCTL_FAILED;
}

static void sleep_until(uint64_t ns)
{
	const struct timespec until = clock_to_timespec(ns);

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
		;
}

static int run_batch(struct look *look, struct top *top, uint32_t count)
{
	uint64_t next = clock_ns();

	look_again(look);
	for (uint32_t i = 0; !count || i < count; i++) {
		int err;

		sleep_until(next += top->interval_ns);
		if (client_gone(look->client))
			return forkctl_fail(FORKCTL_NO_DAEMON, "forkd has ended");
		look_again(look);
		err = print_frame(top, &look->frame);
		if (err)
			return err;
	}
	return FORKCTL_OK;
}

/* ------------------------------------------------------------------------ the screen */

/* Connects if necessary. Returns false if there is no connection; top->trouble has the reason. */
static bool look_connects(struct look *look, struct top *top)
{
	struct fk_open_options options = { .n_jobs = 1, .heap_size = FORKCTL_HEAP_SMALL };
	struct out_cell age;
	_cleanup_json_ json_t *ns = NULL;

	if (look->client && !client_gone(look->client))
		return true;
	if (look->client) {
		(void)fk_close(look->client);
		look->client = NULL;
		look->gone_ns = clock_ns();
		top_sample_fini(&look->old);
		top_sample_fini(&look->now);
	}
	if (!fk_open(look->socket, &options, &look->client)) {
		*top->trouble = '\0';
		return true;
	}
	look->client = NULL;
	ns = out_number(clock_ns() - look->gone_ns);
	(void)snprintf(top->trouble, sizeof(top->trouble), "not running for %s: %.120s",
		       out_show(&age, ns, OUT_AGE), fk_error_text());
	return false;
}

static int run_screen(struct look *look, struct top *top, uint64_t duration_ns)
{
	uint64_t next = clock_ns(), least = TOP_FIRST;
	uint64_t end = duration_ns < UINT64_MAX - next ? next + duration_ns : UINT64_MAX;
	int err = top_screen_open();

	while (!err && !top->quit && clock_ns() < end) {
		uint64_t now = clock_ns(), interval = top->interval_ns;

		if (now >= next && !top->paused) {
			if (look_connects(look, top))
				look_again(look);
			/* Rates need two samples: the second one is taken soon. */
			next = now + min(top->interval_ns, least);
			least = UINT64_MAX;
		}
		(void)top_draw(top, &look->frame, top_screen_begin(), true);
		top_screen_end();
		(void)top_key(top, top_screen_key(min(top->paused ? UINT64_MAX : next, end)));
		if (top->interval_ns != interval)
			next = min(next, clock_ns() + top->interval_ns);
	}
	top_screen_close();
	return err;
}

/* ------------------------------------------------------------------------ the command */

struct names {
	char text[256];
};

/* The titles of a table's columns. */
static const char *column_names(struct names *names, enum top_table table)
{
	size_t n = 0;

	for (uint32_t i = 0; i < top_n_columns(table) && n < sizeof(names->text); i++)
		n += (size_t)snprintf(names->text + n, sizeof(names->text) - n, "%s%s",
				      i ? ", " : "", top_tables[table].columns[i].data.title);
	return names->text;
}

/* Applies the options about the view. Returns 0 or an exit code. */
static int choose(struct top *top, const struct top_options *o)
{
	int column;
	struct top_order *order;
	struct names names;
	enum top_table table;

	top->view = o->view ? (enum top_view)top_find_view(o->view) : TOP_VIEW_ALL;
	table = top_table_of(top);
	order = &top->order[table];
	if (o->sort) {
		column = top_find_column(table, o->sort);
		if (column < 0)
			return forkctl_fail(FORKCTL_USAGE,
					    "--sort: the columns of the view %s are %s, not %s",
					    top_views[top->view].name, column_names(&names, table),
					    o->sort);
		*order = top_order_of(table, (uint32_t)column);
	}
	order->down ^= o->reverse != 0;
	if (o->filter && strlen(o->filter) >= sizeof(top->filter))
		return forkctl_fail(FORKCTL_USAGE, "--filter must be at most %zu bytes long",
				    sizeof(top->filter) - 1);
	(void)strcpy(top->filter, o->filter ? o->filter : "");
	return 0;
}

int forkctl_top(const char *socket, int argc, char *argv[])
{
	struct top_options o = { .interval = { .ns = NSEC_PER_SEC } };
	struct look look = { .socket = socket };
	struct top top;
	int err = forkctl_options(forkctl_top_options, &o, &argc, argv);

	if (err)
		return err;
	if (argc > 1)
		return forkctl_fail(FORKCTL_USAGE, "top takes no arguments, not %s", argv[1]);
	if (o.count && !o.batch)
		return forkctl_fail(FORKCTL_USAGE, "--count requires --batch");
	if (o.duration.text && (o.count || o.once))
		return forkctl_fail(FORKCTL_USAGE, "--%s and --duration are mutually exclusive",
				    o.once ? "once" : "count");
	o.count += forkctl_intervals(&o.duration, o.interval.ns);
	top_init(&top, o.interval.ns);
	err = choose(&top, &o);
	if (!err)
		err = forkctl_open_machine(socket, 1, FORKCTL_HEAP_SMALL, &look.client);
	if (err)
		return err;
	if (o.batch || o.once)
		err = run_batch(&look, &top, o.once ? 1 : o.count);
	else
		err = run_screen(&look, &top, o.duration.text ? o.duration.ns : UINT64_MAX);
	look_fini(&look);
	return err;
}
