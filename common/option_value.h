/* SPDX-License-Identifier: MIT */
/* common/option_value.h - one value of an option: from text, to text, and what is allowed */
#pragma once

#include <stdio.h>

#include "common/option_list.h"
#include "common/option_table.h"

/*
 * Sets a field from text; what it held is freed. To a list it is added. On failure the field keeps
 * what it has, and *ret_fault says which part of a list is wrong.
 * -EINVAL: not such a value; -ERANGE: out of its range; -ENOENT: no such user or group; -ENOMEM.
 */
int option_value_set(const struct option_row *row, void *field, const char *text,
		     struct option_fault *ret_fault);

/* Frees what a field holds; it is 0 then. */
void option_value_fini(const struct option_row *row, void *field);

/* Copies a field of which no value is held yet. Returns 0 or -ENOMEM. */
int option_value_copy(const struct option_row *row, const void *field, void *ret_field);

/* True if both say the same; of lists also in the same order. */
bool option_value_equals(const struct option_row *row, const void *a, const void *b);

/* Each has what the other had. */
void option_value_swap(const struct option_row *row, void *a, void *b);

/* Writes it as option_value_set() takes it. */
void option_value_print(const struct option_row *row, const void *field, FILE *out);

/* What is allowed, for messages and manuals: "a whole number from 0 to 256". */
void option_value_print_allowed(const struct option_row *row, FILE *out);
