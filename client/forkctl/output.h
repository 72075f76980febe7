/* SPDX-License-Identifier: MIT */
/*
 * output.h - the output of commands, as tables and as JSON
 *
 * A command makes Jansson objects. `--json` prints them whole; a table prints some of their members
 * in a format for each column. So all data of tables is also in the JSON output (forkd-json(5)).
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/cleanup.h"

/* Incremented when a member changes its meaning or is removed. New members can appear any time. */
#define OUT_SCHEMA 1

/* How a value is shown: null always as "-". */
enum out_format {
	OUT_TEXT,
	OUT_NUMBER,
	OUT_TIME,  /* ns: "12.3 us" */
	OUT_AGE,   /* ns: "2 h 14 min" */
	OUT_DATE,  /* ns of CLOCK_REALTIME: "2026-01-31 12:00:00" */
	OUT_BYTES, /* "1.5M" */
	OUT_HEX,
	OUT_PERCENT, /* of 1 */
	OUT_RATE,    /* "0.5", "1234", "12.3k", "4.56M" */
};

struct out_column {
	const char *key; /* the member of each row; NULL ends a table */
	const char *title;
	enum out_format format;
	uint32_t index; /* of an array: the element + 1 */
};

/* Without memory forkctl ends with a message, so no value made after this is NULL. */
void out_init(void);

/* A text of at most size bytes, up to a zero byte. Bytes that are not UTF-8 become '?'. */
json_t *out_text(const char *text, size_t size);
json_t *out_number(uint64_t number);
/* null for UINT32_MAX. */
json_t *out_index(uint32_t index);

/* CLOCK_REALTIME. */
uint64_t out_now_ns(void);

/* The text of a value in a table, in cell or a constant. Control characters become '?'. */
struct out_cell {
	char text[256];
};
const char *out_show(struct out_cell *cell, const json_t *value, enum out_format format);

/* The number of characters of a text. */
int out_width(const char *text);

/* True for formats that are aligned to the left: all others are numbers. */
int out_is_left(enum out_format format);

/* Prints titles, with `header`, and rows. Each column is as wide as its widest cell. `below` is
 * printed before all of it. */
void out_print_table(const char *below, const json_t *rows, const struct out_column *columns,
		     bool header);

/* Prints the document with the member schema, and frees it. indent 0: on one line. Returns an exit
 * code. */
int out_print_json(json_t *document, size_t indent);

#define _cleanup_json_ _cleanup_(json_decrefp) /* of Jansson */
