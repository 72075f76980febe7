/* SPDX-License-Identifier: MIT */
/*
 * vectors.h - reads the files of tests/unit/gearman/vectors, which describe their own format
 */
#pragma once

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VECTORS_LINE  8192u /* bytes of a line */
#define VECTORS_BYTES 4096u /* bytes of one value */

/* A file of vectors, one line of it at a time. */
struct vectors {
	FILE *file;
	unsigned int n; /* vectors that vectors_next() has found */
	char line[VECTORS_LINE];
	char *key;   /* of the line; "" at the end of a vector */
	char *value; /* of the line, without the newline */
};

/* Reads the next line. Returns 0 at the end of the file. Then key is "" as well. */
static int vectors_read(struct vectors *vectors)
{
	int more = fgets(vectors->line, sizeof(vectors->line), vectors->file) != NULL;

	if (!more)
		vectors->line[0] = '\0';
	vectors->line[strcspn(vectors->line, "\n")] = '\0';
	vectors->key = vectors->line;
	vectors->value = vectors->line + strcspn(vectors->line, " ");
	if (*vectors->value)
		*vectors->value++ = '\0';
	return more;
}

static void vectors_open(struct vectors *vectors, const char *name)
{
	const char *top = getenv("top_srcdir");
	char path[4096];

	(void)snprintf(path, sizeof(path), "%s/tests/unit/gearman/vectors/%s", top ? top : ".",
		       name);
	*vectors = (struct vectors){ .file = fopen(path, "re") };
	ck_assert_msg(vectors->file != NULL, "%s cannot be read: set top_srcdir", path);
}

/* Goes to the first line of the next vector. At the end closes the file and returns 0. */
static int vectors_next(struct vectors *vectors)
{
	while (vectors_read(vectors))
		if (*vectors->key && *vectors->key != '#') {
			vectors->n++;
			return 1;
		}
	ck_assert_uint_gt(vectors->n, 0);
	(void)fclose(vectors->file);
	return 0;
}

/* Returns 1 and goes to the next line after setting value, if the line has this key. */
static int vectors_has(struct vectors *vectors, const char *key, char value[VECTORS_LINE])
{
	if (strcmp(vectors->key, key) != 0)
		return 0;
	memcpy(value, vectors->value, strlen(vectors->value) + 1);
	vectors_read(vectors);
	return 1;
}

/* Decodes a value of the type BYTES. Returns the number of bytes. */
static size_t vectors_bytes(const char *text, char bytes[VECTORS_BYTES])
{
	size_t n = 0;

	while (*text) {
		unsigned int byte, times = 1;
		int length = 0;

		ck_assert_uint_lt(n, VECTORS_BYTES);
		if (*text == ' ') {
			text++;
		} else if (*text == '"') {
			while (*++text != '"') {
				ck_assert(*text && n < VECTORS_BYTES);
				bytes[n++] = *text;
			}
			text++;
		} else {
			ck_assert_int_eq(sscanf(text, "%2x%n", &byte, &length), 1);
			ck_assert_int_eq(length, 2);
			text += length;
			if (*text == '*') {
				ck_assert_int_eq(sscanf(text, "*%u%n", &times, &length), 1);
				text += length;
			}
			ck_assert_uint_le(times, VECTORS_BYTES - n);
			memset(bytes + n, (int)byte, times);
			n += times;
		}
	}
	return n;
}
