/* SPDX-License-Identifier: MIT */
/* keys.c - forkctl top: what each key changes */
#include "client/forkctl/top/top.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "client/forkctl/common.h"
#include "common/clock.h"
#include "common/util.h"

#define TOP_PAGE 10u /* rows */

__attribute__((format(printf, 2, 3))) static void say(struct top *top, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	(void)vsnprintf(top->message, sizeof(top->message), format, args);
	va_end(args);
}

static void show(struct top *top, uint32_t view)
{
	top->view = (enum top_view)(view % TOP_VIEWS);
	top->scroll = 0;
}

/* Sorts by the next column, or by the previous one. */
static void move_order(struct top *top, int step)
{
	enum top_table table = top_table_of(top);
	uint32_t n = top_n_columns(table);
	struct top_order *order = &top->order[table];

	*order = top_order_of(table, (order->column + n + (uint32_t)step) % n);
	say(top, "%s by %s", top_tables[table].title,
	    top_tables[table].columns[order->column].data.title);
}

static void reverse(struct top *top)
{
	struct top_order *order = &top->order[top_table_of(top)];

	order->down = !order->down;
}

/* Sets the next longer or shorter interval: 1, 2, 5, 10, ... tenths of a second. */
static void change_interval(struct top *top, bool longer)
{
	static const uint64_t tenths[] = { 1,	2,   5,	  10,	20,   50,   100,
					   200, 300, 600, 3000, 6000, 36000 };
	uint64_t now = top->interval_ns / (100 * NSEC_PER_MSEC), next = now;
	struct forkctl_text text;

	for (size_t i = 0; i < ARRAY_SIZE(tenths); i++) {
		if (longer && tenths[i] > now) {
			next = tenths[i];
			break;
		}
		if (!longer && tenths[i] < now)
			next = tenths[i];
	}
	top->interval_ns = max(next, UINT64_C(1)) * 100 * NSEC_PER_MSEC;
	say(top, "every %s", forkctl_time(&text, top->interval_ns));
}

static void scroll_by(struct top *top, int64_t n)
{
	top->scroll = (uint32_t)max((int64_t)top->scroll + n, (int64_t)0);
}

/* Applies a key while the filter is edited. */
static bool edit(struct top *top, int key)
{
	size_t n = strlen(top->filter);

	switch (key) {
	case TOP_KEY_ESCAPE:
		*top->filter = '\0';
		top->editing = false;
		return true;
	case TOP_KEY_ENTER:
		top->editing = false;
		return true;
	case TOP_KEY_ERASE:
		/* Remove all bytes of a UTF-8 character. */
		while (n && ((unsigned char)top->filter[--n] & 0xc0) == 0x80)
			;
		top->filter[n] = '\0';
		return true;
	}
	if (key < ' ' || key > 255 || key == 127 || n + 1 >= sizeof(top->filter))
		return false;
	top->filter[n] = (char)key;
	top->filter[n + 1] = '\0';
	top->scroll = 0;
	return true;
}

bool top_key(struct top *top, int key)
{
	bool had_help = top->help;

	if (key == TOP_KEY_NONE)
		return false;
	*top->message = '\0';
	top->help = false;
	if (top->editing)
		return edit(top, key) || had_help;
	switch (key) {
	case 'q':
	case 'Q':
	case TOP_KEY_QUIT:
		top->quit = true;
		break;
	case 'h':
	case '?':
	case TOP_KEY_HELP:
		top->help = !had_help;
		break;
	case '\t':
		show(top, top->view + 1u);
		break;
	case TOP_KEY_BACK_TAB:
		show(top, top->view + TOP_VIEWS - 1u);
		break;
	case '1' ... '0' + TOP_VIEWS:
		show(top, (uint32_t)(key - '1'));
		break;
	case '>':
	case TOP_KEY_RIGHT:
		move_order(top, 1);
		break;
	case '<':
	case TOP_KEY_LEFT:
		move_order(top, -1);
		break;
	case 'r':
		reverse(top);
		break;
	case '/':
	case TOP_KEY_FILTER:
		top->editing = true;
		break;
	case TOP_KEY_ESCAPE:
		*top->filter = '\0';
		break;
	case 'p':
	case ' ':
		top->paused = !top->paused;
		break;
	case '+':
		change_interval(top, true);
		break;
	case '-':
		change_interval(top, false);
		break;
	case TOP_KEY_UP:
		scroll_by(top, -1);
		break;
	case TOP_KEY_DOWN:
		scroll_by(top, 1);
		break;
	case TOP_KEY_PAGE_UP:
		scroll_by(top, -(int64_t)TOP_PAGE);
		break;
	case TOP_KEY_PAGE_DOWN:
		scroll_by(top, TOP_PAGE);
		break;
	case TOP_KEY_HOME:
		top->scroll = 0;
		break;
	case TOP_KEY_END:
		/* top_draw() limits it to the number of rows. */
		top->scroll = UINT32_MAX / 2;
		break;
	case TOP_KEY_RESIZE:
		break;
	default:
		say(top, "this key has no function: ? lists the keys");
	}
	return true;
}
