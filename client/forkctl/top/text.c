/* SPDX-License-Identifier: MIT */
/* text.c - forkctl top: a canvas in memory, printed as text */
#include <stdlib.h>
#include <string.h>

#include "client/forkctl/common.h"
#include "client/forkctl/top/top.h"

#define TEXT_BYTES 8u /* of a character: with the lines above it */

struct top_text {
	struct top_canvas canvas;
	char cells[][TEXT_BYTES]; /* one character each; empty: a blank */
};

static void text_put(struct top_canvas *canvas, uint32_t y, uint32_t x, const char *text,
		     enum top_style style)
{
	struct top_text *to = (struct top_text *)canvas;
	char *cell = NULL;

	(void)style;
	for (; *text; text++) {
		size_t n;

		if (((unsigned char)*text & 0xc0) != 0x80) {
			cell = to->cells[(size_t)y * canvas->columns + x++];
			memset(cell, 0, TEXT_BYTES);
		}
		n = cell ? strlen(cell) : TEXT_BYTES;
		if (n < TEXT_BYTES - 1)
			cell[n] = *text;
	}
}

struct top_text *top_text_new(uint32_t rows, uint32_t columns)
{
	struct top_text *text = calloc(1, sizeof(*text) + (size_t)rows * columns * TEXT_BYTES);

	if (!text)
		exit(forkctl_fail(FORKCTL_FAILED, "out of memory"));
	text->canvas = (struct top_canvas){ rows, columns, text_put };
	return text;
}

void top_text_free(struct top_text *text)
{
	free(text);
}

struct top_canvas *top_text_canvas(struct top_text *text)
{
	return &text->canvas;
}

void top_text_print(const struct top_text *text, uint32_t rows, FILE *out)
{
	for (uint32_t y = 0; y < rows && y < text->canvas.rows; y++) {
		const char(*line)[TEXT_BYTES] = &text->cells[(size_t)y * text->canvas.columns];
		uint32_t n = text->canvas.columns;

		while (n && (!line[n - 1][0] || line[n - 1][0] == ' '))
			n--;
		for (uint32_t x = 0; x < n; x++)
			(void)fputs(line[x][0] ? line[x] : " ", out);
		(void)putc('\n', out);
	}
}
