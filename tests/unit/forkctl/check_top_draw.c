/* SPDX-License-Identifier: MIT */
/* forkctl top: drawing on a canvas of any size */
#include "tests/support/top_rig.h"

#define COLUMNS 80u

/* Returns a screen of this size, and checks that no line is too long. */
static const char *screen(uint32_t rows, uint32_t columns)
{
	static char text[65536];
	struct top_text *canvas = top_text_new(rows, columns);
	FILE *out = fmemopen(text, sizeof(text), "w");
	const char *line = text;

	ck_assert_ptr_nonnull(out);
	ck_assert_uint_le(top_draw(&top, &frame, top_text_canvas(canvas), true), rows);
	top_text_print(canvas, rows, out);
	ck_assert_int_eq(fclose(out), 0);
	top_text_free(canvas);
	for (uint32_t i = 0; i < rows; i++) {
		size_t n = strcspn(line, "\n");
		char alone[1024];

		(void)snprintf(alone, sizeof(alone), "%.*s", (int)n, line);
		ck_assert_int_le(out_width(alone), (int)columns);
		line += n + 1;
	}
	return text;
}

static void assert_shows(const char *text, const char *what)
{
	ck_assert_msg(strstr(text, what), "there is no %s in\n%s", what, text);
}

/* A pool with work: a running worker, a searching one, two that sleep. */
static void work(void)
{
	uint64_t at = clock_ns();

	look(at - S);
	run(0, 1, 5, 0, at - S / 2);
	stopwatch_set(&board->running[0].busy, true, 1);
	stopwatch_set(&board->running[0].busy, false, 1 + 3 * S / 4);
	for (uint32_t i = 2; i < N_WORKERS; i++) {
		stopwatch_set(&board->running[i].asleep, true, 1);
		stopwatch_set(&board->running[i].asleep, false, 1 + S);
	}
	atomic_store(&board->workers[1].wake, WAKE_LOOKING);
	atomic_store(&board->settled_ns, at + S);
	ended(1, 12345, 0, S / 2);
	look(at);
}

START_TEST(screen_shows_everything_in_80_columns)
{
	const char *text;

	work();
	text = screen(24, COLUMNS);
	assert_shows(text, "forkd 0.1  running for 0 s  pool 4711, lazy");
	assert_shows(text, "every 1.00 s\n");
	assert_shows(text, "Pool   18.8% of 4 workers  [||||||");
	assert_shows(text, "WORKER  CPU  NODE  STATE");
	assert_shows(text, "running     75.0% [|||");
	assert_shows(text, "searching    0.0% [:::");
	assert_shows(text, "sleeping     0.0% [   ");
	assert_shows(text, "  101  fib:fib\n");
	assert_shows(text, "4000000002   12.5% [||");
	assert_shows(text, " 12.3k ");
	assert_shows(text, "LEVEL  STEALS/S");
	/* Levels without an attempt are omitted. */
	ck_assert_ptr_null(strstr(text, "farther"));
	atomic_store(&board->counters[1].attempts_farther, 1);
	look(clock_ns());
	text = screen(24, COLUMNS);
	assert_shows(text, "\nfarther ");
	ck_assert_ptr_null(strstr(text, "\nfar "));
	keys("6");
	assert_shows(screen(24, COLUMNS), "\nfar ");
	keys("1");
	text = screen(24, COLUMNS);
	assert_shows(text, "\n1 all 2 workers 3 users");
	assert_shows(text, "? help q quit");
}
END_TEST

START_TEST(every_view_is_drawn_in_every_size)
{
	static const uint32_t sizes[][2] = { { 1, 1 },	 { 2, 3 },   { 5, 20 },	  { 6, 40 },
					     { 10, 60 }, { 24, 80 }, { 40, 120 }, { 300, 500 } };

	work();
	(void)strcpy(top.trouble, "not running for 3 s: connection refused");
	for (uint32_t v = 0; v < 3 * TOP_VIEWS; v++) {
		top.view = (enum top_view)(v % TOP_VIEWS);
		top.help = v / TOP_VIEWS == 1;
		top.editing = v / TOP_VIEWS == 2;
		for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
			(void)screen(sizes[i][0], sizes[i][1]);
	}
	top_frame_fini(&frame);
	(void)screen(24, 80);
}
END_TEST

START_TEST(long_table_is_scrolled)
{
	board->manager.n_workers = 60;
	for (uint32_t i = 3; i < 40; i++)
		client(i, 100 + i, 4000000002, "many");
	look(10 * S);
	look(11 * S);
	keys("2");
	assert_shows(screen(24, COLUMNS), " 42 more  ");
	ck_assert(top_key(&top, TOP_KEY_DOWN));
	assert_shows(screen(24, COLUMNS), " 41 more  ");
	ck_assert(top_key(&top, TOP_KEY_END));
	assert_shows(screen(24, COLUMNS), "\n    59    0     0");
	ck_assert_uint_eq(top.scroll, 42);
	ck_assert_ptr_null(strstr(screen(24, COLUMNS), "more"));
	ck_assert(top_key(&top, TOP_KEY_HOME));
	ck_assert_uint_eq(top.scroll, 0);
	/* With other tables on the screen, each table has its share of the lines. It shows how many
	 * are hidden if its titles leave room. */
	keys("1");
	assert_shows(screen(24, COLUMNS), "\nLEVEL");
	assert_shows(screen(24, COLUMNS), "\nTASK");
	/* 19 lines: tenants have 3, levels 2, tasks 1; 7 and 6 are left. */
	assert_shows(screen(24, COLUMNS), " 54 more  ");
	assert_shows(screen(24, COLUMNS), " 35 more  ");
}
END_TEST

START_TEST(names_of_any_bytes_have_their_width)
{
	atomic_store(&board->n_tasks, 0);
	task(0, "m\xc3\xa4:\xe2\x82\xac\x1b\xc2\x9b\xc2\xa0");
	run(0, 1, 5, 0, clock_ns());
	look(10 * S);
	look(11 * S);
	assert_shows(screen(24, COLUMNS), "  101  m\xc3\xa4:\xe2\x82\xac??\xc2\xa0\n");
}
END_TEST

START_TEST(ended_forkd_is_reported)
{
	work();
	(void)strcpy(top.trouble, "not running for 3 s: connection refused");
	assert_shows(screen(24, COLUMNS), "forkd 0.1  not running for 3 s: connection refused");
	*top.trouble = '\0';
	atomic_store(&board->manager.pool_pid, 0);
	atomic_store(&board->manager.crashes, 2);
	look(clock_ns());
	assert_shows(screen(24, COLUMNS), "the pool is not running, crashes: 2");
}
END_TEST

CHECK_MAIN("top_draw")
