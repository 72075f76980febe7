/* SPDX-License-Identifier: MIT */
/*
 * counters_watch.c - forkctl counters --watch: counters per second, and the times of jobs
 *
 * On a terminal the screen is redrawn at each interval with the counters that are not 0, as far as
 * there are lines. Otherwise one line is printed for each counter that has changed, after the time.
 * A new pool counts from 0, so 0 is subtracted then. Below are the wait time and run time of jobs
 * that ended in the interval, for each user.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "client/forkctl/common.h"
#include "client/lib/client.h"
#include "client/forkctl/board_rows.h"
#include "client/forkctl/counters.h"
#include "client/forkctl/job_times.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/util.h"

/* The counters at one time. */
struct sample {
	uint64_t time_ns;
	uint32_t generation; /* of the pool */
	struct times times;
	int64_t sums[];
};

static const struct out_column watch_columns[] = {
	{ "name", "COUNTER", OUT_TEXT },
	{ "unit", "UNIT", OUT_TEXT },
	{ "per_second", "PER SECOND", OUT_NUMBER },
	{ "sum", "SUM", OUT_NUMBER },
	{ NULL },
};

static const struct out_column watch_times[] = {
	{ "user", "USER", OUT_TEXT },
	{ "time", "TIME", OUT_TEXT },
	{ "per_second", "PER SECOND", OUT_NUMBER },
	{ "p50_ns", "P50", OUT_TIME },
	{ "p90_ns", "P90", OUT_TIME },
	{ "p99_ns", "P99", OUT_TIME },
	{ "max_ns", "MAX", OUT_TIME },
	{ NULL },
};

static struct sample *sample_new(void)
{
	struct sample *s = calloc(1, sizeof(*s) + board_n_counters * sizeof(s->sums[0]));

	if (!s)
		exit(forkctl_fail(FORKCTL_FAILED, "out of memory"));
	return s;
}

static void sample_take(struct sample *s, const struct board *board)
{
	s->generation = LOAD(board->manager.pool_generation);
	s->time_ns = clock_ns();
	for (uint32_t i = 0; i < board_n_counters; i++)
		s->sums[i] = (int64_t)board_counter_sum(board, &board_counter_rows[i]);
	times_read(&s->times, board);
}

static double sample_seconds(const struct sample *old, const struct sample *now)
{
	return max((double)(now->time_ns - old->time_ns) / 1e9, 1e-9);
}

/* Rows of the histograms with jobs that ended between the samples. */
static json_t *sample_times(const struct sample *old, const struct sample *now)
{
	_cleanup_free_ struct times *times = times_new();

	*times = now->times;
	times_subtract(times, &old->times);
	return times_rows(times, sample_seconds(old, now), true);
}

/* One row for each counter; per_second is null for a gauge. */
static json_t *sample_rows(const struct sample *old, const struct sample *now)
{
	double seconds = sample_seconds(old, now);
	json_t *rows = json_array();

	for (uint32_t i = 0; i < board_n_counters; i++) {
		const struct counter_row *counter = &board_counter_rows[i];
		int64_t before = now->generation == old->generation ? old->sums[i] : 0;
		double rate = (double)(now->sums[i] - before) / seconds;

		(void)json_array_append_new(
			rows,
			json_pack("{s:s, s:s, s:I, s:o}", "name", counter->name, "unit",
				  counter->unit, "sum", (json_int_t)now->sums[i], "per_second",
				  counter->gauge ? json_null() : json_real(rate)));
	}
	return rows;
}

/* Redraws the screen with the counters that are not 0, as far as there are lines. */
static void print_screen(const json_t *rows, const json_t *times, uint64_t interval_ns)
{
	_cleanup_json_ json_t *shown = json_array(), *users = json_array();
	struct winsize size = { .ws_row = 24 };
	struct forkctl_text text;
	size_t room;

	(void)ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
	/* The title takes four lines. */
	room = max(size.ws_row, (unsigned short)8) - 4u;
	/* Users take at most half of the lines, with titles and an empty line. */
	for (size_t i = 0; i < json_array_size(times) && i + 2 < room / 2; i++)
		(void)json_array_append(users, json_array_get(times, i));
	if (json_array_size(users))
		room -= json_array_size(users) + 2;
	for (size_t i = 0; i < json_array_size(rows) && json_array_size(shown) < room; i++) {
		json_t *row = json_array_get(rows, i);

		if (json_integer_value(json_object_get(row, "sum")))
			(void)json_array_append(shown, row);
	}
	printf("\033[H\033[2J");
	printf("forkd, every %s\n\n", forkctl_time(&text, interval_ns));
	out_print_table("", shown, watch_columns, true);
	if (json_array_size(users))
		out_print_table("\n", users, watch_times, true);
}

static void print_time_lines(const json_t *times)
{
	_cleanup_json_ json_t *now = out_number(out_now_ns());
	struct out_cell when, cell;
	const json_t *row;
	size_t i;

	json_array_foreach(times, i, row)
	{
		printf("%s  user_%s  %s  %s jobs/s", out_show(&when, now, OUT_DATE),
		       json_string_value(json_object_get(row, "time")),
		       json_string_value(json_object_get(row, "user")),
		       out_show(&cell, json_object_get(row, "per_second"), OUT_NUMBER));
		for (const struct out_column *c = &watch_times[3]; c->key; c++)
			printf("  %s %s", c->title,
			       out_show(&cell, json_object_get(row, c->key), c->format));
		(void)putchar('\n');
	}
}

static void print_lines(const json_t *rows)
{
	_cleanup_json_ json_t *now = out_number(out_now_ns());
	struct out_cell when, rate;
	json_t *row;
	size_t i;

	json_array_foreach(rows, i, row)
	{
		const json_t *value = json_object_get(row, "per_second");

		if (json_is_real(value) && json_real_value(value) != 0)
			printf("%s  %s  %s %s/s\n", out_show(&when, now, OUT_DATE),
			       json_string_value(json_object_get(row, "name")),
			       out_show(&rate, value, OUT_NUMBER),
			       json_string_value(json_object_get(row, "unit")));
	}
}

static int print_object(const json_t *rows, const json_t *times, const struct sample *old,
			const struct sample *now)
{
	return out_print_json(
		json_pack("{s:o, s:o, s:o, s:O, s:O}", "time_ns", out_number(out_now_ns()),
			  "interval_ns", out_number(now->time_ns - old->time_ns), "generation",
			  out_number(now->generation), "counters", rows, "times", times),
		0);
}

static void print_sample(const struct sample *old, const struct sample *now, uint64_t interval_ns,
			 int json)
{
	_cleanup_json_ json_t *rows = sample_rows(old, now);
	_cleanup_json_ json_t *times = sample_times(old, now);

	if (json) {
		(void)print_object(rows, times, old, now);
	} else if (isatty(STDOUT_FILENO)) {
		print_screen(rows, times, interval_ns);
	} else {
		print_lines(rows);
		print_time_lines(times);
	}
}

int watch_run(fk_client *client, uint64_t interval_ns, uint32_t count, int json)
{
	_cleanup_free_ struct sample *old = sample_new();
	_cleanup_free_ struct sample *now = sample_new();
	uint64_t next = clock_ns();

	sample_take(old, client->board);
	for (uint32_t i = 0; !count || i < count; i++) {
		struct timespec until = clock_to_timespec(next += interval_ns);
		struct sample *taken = now;

		while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
			;
		if (client_gone(client))
			return forkctl_fail(FORKCTL_NO_DAEMON, "forkd has ended");
		sample_take(now, client->board);
		print_sample(old, now, interval_ns, json);
		/* The reader of a pipe may have ended. */
		if (fflush(stdout) != 0)
			return FORKCTL_FAILED;
		now = old;
		old = taken;
	}
	return FORKCTL_OK;
}
