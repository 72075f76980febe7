/* SPDX-License-Identifier: MIT */
/* common/option_list.h - lists of users and groups, each with what it has or may */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "common/option_table.h"

#define OPTION_LIST_MAX 255u /* entries of a list */

/* Where an error is in a text, and why; all of it if size is 0, and what is allowed if why is
 * empty. */
struct option_fault {
	uint32_t at;
	uint32_t size;
	char why[160];
};

/*
 * Adds to a list what stands in text, with commas between; nothing in it empties the list. The list
 * is NULL if it is empty. On failure it stays as it is.
 * -EINVAL: not such a list; -ERANGE: a number out of the row's range, or too many entries; -ENOENT:
 * no such user or group; -ENOMEM.
 */
int option_list_add(const struct option_row *row, struct options_list **list, const char *text,
		    struct option_fault *ret_fault);

/* Writes an entry as option_list_add() takes it, its user or group as a number. */
void option_list_print(const struct option_row *row, const struct options_entry *entry, FILE *out);

/* What is allowed, for messages and manuals. */
void option_list_print_allowed(const struct option_row *row, FILE *out);

/* As whom a list knows a user: the most that fits of OPTIONS_USER, OPTIONS_GROUP, OPTIONS_ANYBODY
 * in this order, or OPTIONS_NOBODY. */
enum options_who option_list_knows(const struct options_list *list,
				   const struct options_peer *peer);

/* True if an entry is of those that count for a user, whom the list knows as this. */
bool option_list_counts(const struct options_entry *entry, const struct options_peer *peer,
			enum options_who known);

/* The number that a list has for a user; of several groups the largest. unset: if it has none,
 * and what the number 0 stands for. */
uint64_t option_list_number(const struct options_list *list, const struct options_peer *peer,
			    uint64_t unset);

/* True if it has an entry for a group. */
bool option_list_has_groups(const struct option_row *row, const struct options_list *list);
