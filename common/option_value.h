/* SPDX-License-Identifier: MIT */
/* common/option_value.h - one value of an option: from text, to text, and its allowed values */
#pragma once

#include <stdio.h>

#include "common/option_list.h"
#include "common/option_table.h"

/* Sets a field from text; the old value is freed. A list is extended. On failure the field keeps
 * its value, and *ret_fault has the wrong part of a list. -EINVAL: malformed; -ERANGE: out of
 * range; -ENOENT: no such user or group; -ENOMEM. */
int option_value_set(const struct option_row *row, void *field, const char *text,
		     struct option_fault *ret_fault);

/* Frees the value of a field, which is 0 then. */
void option_value_fini(const struct option_row *row, void *field);

/* Copies a field; ret_field has no value yet. Returns 0 or -ENOMEM. */
int option_value_copy(const struct option_row *row, const void *field, void *ret_field);

/* Returns true if both are equal; lists also in the same order. */
bool option_value_equals(const struct option_row *row, const void *a, const void *b);

/* Exchanges two fields. */
void option_value_swap(const struct option_row *row, void *a, void *b);

/* Writes it as option_value_set() reads it. */
void option_value_print(const struct option_row *row, const void *field, FILE *out);

/* Writes the allowed values, for messages and manuals: "a whole number from 0 to 256". */
void option_value_print_allowed(const struct option_row *row, FILE *out);
