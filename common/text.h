/* SPDX-License-Identifier: MIT */
/* Text for users: error messages, and control characters that a terminal may obey. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Returns the number of bytes of the control character that text begins with, in UTF-8, or 0 if it
 * begins with another character. Terminals obey those from U+0080 to U+009F like those of ASCII.
 * text ends with a null byte, which counts as a control character. */
static inline size_t text_control(const char *text)
{
	unsigned char first = (unsigned char)text[0], second;

	if (first < 0x20 || first == 0x7f)
		return 1;
	second = first == 0xc2 ? (unsigned char)text[1] : 0;
	return second >= 0x80 && second < 0xa0 ? 2 : 0;
}

/* Returns true if the text has no control character. */
static inline bool text_is_line(const char *text)
{
	while (*text && !text_control(text))
		text++;
	return !*text;
}

/* Replaces each byte of control characters in the size bytes at text by '?'. A null byte follows
 * them. */
static inline void text_make_line(char *text, size_t size)
{
	for (size_t i = 0; i < size; i++)
		for (size_t n = text_control(text + i); n > 0; n--)
			text[i + n - 1] = '?';
}

/* Writes why a caller is refused, by a format and its arguments, into size bytes at text, cut short
 * if it does not fit. Its value is code, which is evaluated afterwards. */
#define text_refuse(text, size, code, ...) ((void)snprintf(text, size, __VA_ARGS__), (code))
