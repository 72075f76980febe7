/* SPDX-License-Identifier: MIT */
/* common/option_list.h - lists of users and groups, each with a number or a pattern */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "common/option_table.h"

#define OPTION_LIST_MAX 255u /* entries of a list */

/* The position of an error in a text, and its cause. size 0: all of the text; why empty: the
 * allowed values. */
struct option_fault {
	uint32_t at;
	uint32_t size;
	char why[160];
};

/* Adds the entries in text, separated by commas, to a list; an empty text clears the list. An empty
 * list is NULL. The list is unchanged on failure. -EINVAL: malformed; -ERANGE: a number out of the
 * row's range, or too many entries; -ENOENT: no such user or group; -ENOMEM. */
int option_list_add(const struct option_row *row, struct options_list **list, const char *text,
		    struct option_fault *ret_fault);

/* Writes an entry as option_list_add() reads it, its user or group as a number. */
void option_list_print(const struct option_row *row, const struct options_entry *entry, FILE *out);

/* Writes the allowed values, for messages and manuals. */
void option_list_print_allowed(const struct option_row *row, FILE *out);

/* Returns how a list matches a user: the first match of OPTIONS_USER, OPTIONS_GROUP,
 * OPTIONS_ANYBODY in this order, or OPTIONS_NOBODY. */
enum options_who option_list_knows(const struct options_list *list,
				   const struct options_peer *peer);

/* Returns true if an entry counts for a user, whom the list matches as known. */
bool option_list_counts(const struct options_entry *entry, const struct options_peer *peer,
			enum options_who known);

/* Returns the number of a list for a user; of several groups the largest. unset: returned if there
 * is none, or if it is 0. */
uint64_t option_list_number(const struct options_list *list, const struct options_peer *peer,
			    uint64_t unset);

/* Returns true if it has an entry for a group. */
bool option_list_has_groups(const struct option_row *row, const struct options_list *list);
