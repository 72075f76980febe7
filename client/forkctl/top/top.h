/* SPDX-License-Identifier: MIT */
/*
 * top.h - the parts of forkctl top
 *
 *	board -> top_sample_take() -> top_frame_make() -> top_draw() -> canvas: terminal, or text
 *	         model.c                      draw.c
 *	keys  -> top_key() -> struct top: which view, how sorted, ...
 *	         keys.c
 *
 * Only screen.c uses the terminal, and only top.c connects to forkd.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "client/forkctl/output.h"
#include "client/forkctl/job_times.h"
#include "shm/board.h"

/* ------------------------------------------------------------------------ the model */

/* Tables of a frame. */
enum top_table {
	TOP_WORKERS,
	TOP_USERS,
	TOP_TASKS,
	TOP_CLIENTS,
	TOP_STEALS,  /* one for each level */
	TOP_THIEVES, /* steals by worker */
	TOP_TABLES,
};

/* The state of the board at one time: counts since the pool started. */
struct top_sample {
	uint64_t time_ns; /* CLOCK_MONOTONIC; 0: none was taken */
	uint32_t generation;
	json_t *head;
	json_t *rows[TOP_TABLES];
	struct times *times; /* wait times of each user's jobs */
};

/* Rates between two samples, and the state at the second one. */
struct top_frame {
	json_t *head;
	json_t *rows[TOP_TABLES];
};

/* Frees the previous content of *ret_sample. */
void top_sample_take(struct top_sample *ret_sample, const struct board *board, uint64_t now_ns);
void top_sample_fini(struct top_sample *sample);

/* Makes a frame of two samples. Rates are null if `old` is empty or of another pool. */
void top_frame_make(struct top_frame *ret_frame, const struct top_sample *old,
		    const struct top_sample *now);
void top_frame_fini(struct top_frame *frame);

/* ------------------------------------------------------------------------ tables and views */

struct top_column {
	struct out_column data;
	const char *more; /* member of the second part of a bar */
	uint8_t bar;	  /* the column is a bar: OUT_PERCENT of 1 */
	uint8_t up;	  /* an identifier: sorted in ascending order */
	uint8_t drop;	  /* 0: always shown; columns with the largest number are removed first */
};

#define TOP_COLUMNS 16u

struct top_table_info {
	const char *title;
	struct top_column columns[TOP_COLUMNS];
	uint32_t sort; /* initial sort column */
	bool down;     /* initially in descending order */
};

extern const struct top_table_info top_tables[TOP_TABLES];

/* Views: all tables, or one. */
enum top_view {
	TOP_VIEW_ALL,
	TOP_VIEW_WORKERS,
	TOP_VIEW_USERS,
	TOP_VIEW_TASKS,
	TOP_VIEW_CLIENTS,
	TOP_VIEW_STEALS,
	TOP_VIEWS,
};

#define TOP_VIEW_TABLES 5u

struct top_view_info {
	const char *name;
	enum top_table tables[TOP_VIEW_TABLES]; /* keys sort and scroll the last one */
	uint32_t n;
};

extern const struct top_view_info top_views[TOP_VIEWS];

struct top_order {
	uint32_t column;
	bool down;
};

/* The settings of the user, and messages. */
struct top {
	enum top_view view;
	struct top_order order[TOP_TABLES];
	char filter[64]; /* empty: none */
	bool editing;	 /* keys are added to the filter */
	bool paused;
	bool help;
	bool quit;
	uint32_t scroll; /* rows of the view's last table above the screen */
	uint64_t interval_ns;
	char message[80];  /* shown until the next key */
	char trouble[160]; /* why the frame is outdated; empty: it is current */
};

void top_init(struct top *top, uint64_t interval_ns);

/* Returns the rows of a table whose cells contain the filter's text, sorted. */
json_t *top_rows(const struct top *top, const struct top_frame *frame, enum top_table table);

/* Returns the number of columns of a table. */
uint32_t top_n_columns(enum top_table table);

/* The index of a view, or of a column of a table, by its name; -1: there is none. */
int top_find_view(const char *name);
int top_find_column(enum top_table table, const char *title);

/* The order by this column: ascending for names and identifiers, else descending. */
struct top_order top_order_of(enum top_table table, uint32_t column);

/* The table that keys sort and scroll. */
enum top_table top_table_of(const struct top *top);

/* ------------------------------------------------------------------------ keys */

/* Keys that are not characters. */
enum top_key {
	TOP_KEY_NONE,
	TOP_KEY_ESCAPE = 27,
	TOP_KEY_UP = 256,
	TOP_KEY_DOWN,
	TOP_KEY_LEFT,
	TOP_KEY_RIGHT,
	TOP_KEY_PAGE_UP,
	TOP_KEY_PAGE_DOWN,
	TOP_KEY_HOME,
	TOP_KEY_END,
	TOP_KEY_ENTER,
	TOP_KEY_ERASE,
	TOP_KEY_BACK_TAB,
	TOP_KEY_HELP,
	TOP_KEY_FILTER,
	TOP_KEY_QUIT,
	TOP_KEY_RESIZE,
};

#define TOP_INTERVAL_MIN (100 * NSEC_PER_MSEC)
#define TOP_INTERVAL_MAX (3600 * NSEC_PER_SEC)

/* Applies a key. Returns true if the screen must be redrawn. */
bool top_key(struct top *top, int key);

/* ------------------------------------------------------------------------ drawing */

enum top_style {
	TOP_PLAIN,
	TOP_STRONG,
	TOP_FAINT,
	TOP_TITLE,  /* title of a table */
	TOP_SORTED, /* title of the sort column */
	TOP_RUN,    /* part of a bar: time with a job */
	TOP_SEARCH, /* part of a bar: time without a job */
	TOP_GOOD,
	TOP_BAD,
	TOP_STYLES,
};

struct top_canvas {
	uint32_t rows;
	uint32_t columns;
	/* Writes a text at a position. It must not extend beyond the canvas. */
	void (*put)(struct top_canvas *canvas, uint32_t y, uint32_t x, const char *text,
		    enum top_style style);
};

/* Draws a frame. keys: with the line that lists the keys. Returns the number of rows used. */
uint32_t top_draw(struct top *top, const struct top_frame *frame, struct top_canvas *canvas,
		  bool keys);

#define TOP_HEAD 4u /* rows above the tables */

/* A canvas in memory, which is printed as text. */
struct top_text;
struct top_text *top_text_new(uint32_t rows, uint32_t columns);
void top_text_free(struct top_text *text);
struct top_canvas *top_text_canvas(struct top_text *text);
/* Prints the first rows, without trailing blanks. */
void top_text_print(const struct top_text *text, uint32_t rows, FILE *out);
DEFINE_CLEANUP(struct top_text *, top_text_free);

/* ------------------------------------------------------------------------ the terminal */

/* Sets up the terminal. top_screen_close(), or any end of the program, restores it. Prints errors.
 * Returns 0 or an exit code. */
int top_screen_open(void);
void top_screen_close(void);

/* Start and end the drawing of a frame. It becomes visible at the end. */
struct top_canvas *top_screen_begin(void);
void top_screen_end(void);

/* Waits for a key until a time (CLOCK_MONOTONIC). Returns it, or TOP_KEY_NONE. Signals that end the
 * program do so here. */
int top_screen_key(uint64_t until_ns);
