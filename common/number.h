/* SPDX-License-Identifier: MIT */
/* common/number.h - numbers with and without units, from text and to text */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* A unit that may follow a number. */
struct number_unit {
	const char *text;
	uint64_t factor;
};

/* A list of them, the largest last. */
struct number_units {
	const struct number_unit *list;
	size_t n;
};

extern const struct number_units number_sizes;	   /* K, M, G, T: in bytes */
extern const struct number_units number_durations; /* ns, us, ms, s, min, h: in ns */

/*
 * Reads digits of a base up to 10, without blanks or a sign before them. Sets *ret_rest to the text
 * after them. -EINVAL without a digit, -ERANGE if it does not fit.
 */
int number_parse(const char *text, int base, uint64_t *ret, const char **ret_rest);

/* Reads a decimal number with a unit, after optional blanks, and no text after it. unit: used if
 * none is written; "" for 1, NULL if one must be written. -EINVAL, -ERANGE. */
int number_parse_unit(const char *text, const struct number_units *units, const char *unit,
		      uint64_t *ret);

/* Writes it with the largest unit that divides it, so that the value is exact. */
void number_print_unit(uint64_t value, const struct number_units *units, FILE *out);
