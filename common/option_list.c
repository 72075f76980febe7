/* SPDX-License-Identifier: MIT */
/*
 * "alice:200,@staff:150,*:100": an entry is for a user, by uid or name, for a group after @, or
 * for all. The entry of a user precedes those of groups, and these precede the entry for all. Of
 * several groups of a user the largest number counts. A list has only numbers: names are looked up
 * once, when the list is read.
 *
 * Threads: option_list_add(): the units of options; it asks getpwnam() and getgrnam(), which are
 * not thread-safe. The others: any thread.
 *
 * INVARIANTS
 *   I1. No user or group has two equal entries: the result does not depend on the order.
 *   I2. Only the entries and the peer decide: the caller passes the groups of a user, which it has
 *       from the kernel.
 */
#include "common/option_list.h"

#include <ctype.h>
#include <errno.h>
#include <grp.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/number.h"
#include "common/util.h"

#define OPTION_LIST_NAME 64u /* bytes of a user or group name, with its end */

/* ------------------------------------------------------------------------ from text */

/* Looks up a name, without its @. Returns -ENOENT with a message, or 0. */
static int list_look_up(const char *name, bool group, uint32_t *ret, struct option_fault *fault)
{
	const struct passwd *user = group ? NULL : getpwnam(name);
	const struct group *users = group ? getgrnam(name) : NULL;

	if (!user && !users) {
		(void)snprintf(fault->why, sizeof(fault->why),
			       "there is no %s \"%s\": add it to the system, or write %s",
			       group ? "group" : "user", name, group ? "@ and a gid" : "a uid");
		return -ENOENT;
	}
	*ret = group ? users->gr_gid : user->pw_uid;
	return 0;
}

/* Returns true for one user or group; each mention replaces the last one. */
static bool list_is_single(const struct option_row *row)
{
	return row->type == OPTION_USERS && row->max;
}

/* Returns true for one group, which needs no @. */
static bool list_is_group(const struct option_row *row)
{
	return list_is_single(row) && row->max == 2;
}

static int list_who(const struct option_row *row, const char *text, struct options_entry *entry,
		    struct option_fault *fault)
{
	bool group = *text == '@' || list_is_group(row);
	const char *name = text + (*text == '@'), *rest;
	uint64_t id;
	int r;

	if (streq(text, "*")) {
		entry->who = OPTIONS_ANYBODY;
		return 0;
	}
	entry->who = group ? OPTIONS_GROUP : OPTIONS_USER;
	if (!*name || strlen(name) >= OPTION_LIST_NAME)
		return -EINVAL;
	if (!isdigit((unsigned char)*name))
		return list_look_up(name, group, &entry->id, fault);
	r = number_parse(name, 10, &id, &rest);
	if (r < 0)
		return r;
	/* The largest id means "no user". */
	if (*rest || id >= UINT32_MAX)
		return -EINVAL;
	entry->id = (uint32_t)id;
	return 0;
}

/* MODULE:TASK, with the patterns of fnmatch(3), or * for all. */
static int list_task(const char *text, struct options_entry *entry)
{
	static const char plain[] = "0123456789_abcdefghijklmnopqrstuvwxyz"
				    "ABCDEFGHIJKLMNOPQRSTUVWXYZ:*?[]!^-";

	if (!streq(text, "*") && !strchr(text, ':'))
		return -EINVAL;
	if (text[strspn(text, plain)] || strlen(text) >= sizeof(entry->task))
		return -EINVAL;
	memcpy(entry->task, text, strlen(text) + 1);
	return 0;
}

static int list_number(const struct option_row *row, const char *text, uint64_t *ret)
{
	const char *rest = "";
	int r;

	if (row->type == OPTION_SIZES)
		r = number_parse_unit(text, &number_sizes, "", ret);
	else if (row->type == OPTION_TIMES)
		r = number_parse_unit(text, &number_durations, row->unit, ret);
	else
		r = number_parse(text, 10, ret, &rest);
	if (r < 0)
		return r;
	if (*rest)
		return -EINVAL;
	return *ret < row->min || *ret > row->max ? -ERANGE : 0;
}

static int list_parse(const struct option_row *row, char *text, struct options_entry *ret,
		      struct option_fault *fault)
{
	char *colon = strchr(text, ':');
	bool bare = !colon && row->type >= OPTION_COUNTS && row->type <= OPTION_TIMES;
	char *value = bare ? text : colon ? colon + 1 : NULL;
	int r;

	*ret = (struct options_entry){ .who = OPTIONS_ANYBODY };
	if (!value != (row->type == OPTION_USERS))
		return -EINVAL;
	if (colon)
		*colon = '\0';
	/* Names last: a malformed entry is reported as such. */
	if (row->type == OPTION_TASKS)
		r = list_task(value, ret);
	else
		r = value ? list_number(row, value, &ret->number) : 0;
	return r < 0 || bare ? r : list_who(row, text, ret, fault);
}

static bool list_has(const struct options_list *list, const struct options_entry *entry)
{
	for (uint32_t i = 0; i < list->n; i++)
		if (list->entries[i].who == entry->who && list->entries[i].id == entry->id &&
		    streq(list->entries[i].task, entry->task))
			return true;
	return false;
}

/* Appends an entry, for which there is room: text of this size. */
static int list_append(const struct option_row *row, struct options_list *list, const char *text,
		       size_t size, struct option_fault *fault)
{
	struct options_entry *next = &list->entries[list->n];
	char entry[OPTION_LIST_NAME + OPTIONS_TASK + 2];
	int r;

	if (size >= sizeof(entry))
		return -EINVAL;
	memcpy(entry, text, size);
	entry[size] = '\0';
	r = list_parse(row, entry, next, fault);
	if (r < 0)
		return r;
	if (list_is_single(row) && next->who != (list_is_group(row) ? OPTIONS_GROUP : OPTIONS_USER))
		return -EINVAL;
	if (list_has(list, next)) {
		(void)snprintf(fault->why, sizeof(fault->why),
			       "it is in the list already, by name or by number");
		return -EINVAL;
	}
	list->n++;
	return 0;
}

int option_list_add(const struct option_row *row, struct options_list **list, const char *text,
		    struct option_fault *ret_fault)
{
	_cleanup_free_ struct options_list *longer = NULL;
	uint32_t n = *list && !list_is_single(row) ? (*list)->n : 0;
	size_t n_more = 1;

	if (!*text) {
		free(*list);
		*list = NULL;
		return 0;
	}
	for (const char *c = text; *c; c++)
		n_more += *c == ',';
	if (list_is_single(row) && n_more > 1)
		return -EINVAL;
	if (n_more > OPTION_LIST_MAX - n) {
		(void)snprintf(ret_fault->why, sizeof(ret_fault->why),
			       "a list has at most %u entries, in all of its lines",
			       OPTION_LIST_MAX);
		return -ERANGE;
	}
	longer = calloc(1, sizeof(*longer) + (n + n_more) * sizeof(longer->entries[0]));
	if (!longer)
		return -ENOMEM;
	if (n)
		memcpy(longer, *list, sizeof(*longer) + n * sizeof(longer->entries[0]));
	for (const char *p = text;; p++) {
		size_t size;
		int r;

		p += strspn(p, " \t");
		size = strcspn(p, ",");
		ret_fault->at = (uint32_t)(p - text);
		ret_fault->size = (uint32_t)size;
		r = list_append(row, longer, p, size, ret_fault);
		if (r < 0)
			return r;
		p += size;
		if (!*p)
			break;
	}
	free(*list);
	*list = longer;
	longer = NULL;
	return 0;
}

/* ------------------------------------------------------------------------ to text */

static void list_print_number(const struct option_row *row, uint64_t number, FILE *out)
{
	if (row->type == OPTION_SIZES)
		number_print_unit(number, &number_sizes, out);
	else if (row->type == OPTION_TIMES)
		number_print_unit(number, &number_durations, out);
	else
		fprintf(out, "%" PRIu64, number);
}

void option_list_print(const struct option_row *row, const struct options_entry *entry, FILE *out)
{
	if (entry->who == OPTIONS_ANYBODY)
		fputc('*', out);
	else
		fprintf(out, "%s%" PRIu32,
			entry->who == OPTIONS_GROUP && !list_is_group(row) ? "@" : "", entry->id);
	if (row->type == OPTION_USERS)
		return;
	fputc(':', out);
	if (row->type == OPTION_TASKS)
		fputs(entry->task, out);
	else
		list_print_number(row, entry->number, out);
}

static void list_print_range(const struct option_row *row, const char *what, FILE *out)
{
	fprintf(out, "%s from ", what);
	list_print_number(row, row->min, out);
	fputs(" to ", out);
	list_print_number(row, row->max, out);
}

void option_list_print_allowed(const struct option_row *row, FILE *out)
{
	static const char who[] = "(uid, name, @group, @gid or *), each once";

	switch (row->type) {
	case OPTION_USERS:
		if (list_is_single(row))
			fputs(list_is_group(row) ? "the name or gid of one group"
						 : "the name or uid of one user",
			      out);
		else
			fprintf(out, "a list such as alice,@staff, of users %s", who);
		break;
	case OPTION_TASKS:
		fputs("a list such as alice:sort:*,*:fib:fib, of users (uid, name, @group, @gid or "
		      "*) and MODULE:TASK, which may have wildcards",
		      out);
		break;
	case OPTION_WEIGHTS:
		fprintf(out, "a list such as 1000:200,@staff:150, of users %s, and ", who);
		list_print_range(row, "weights", out);
		break;
	case OPTION_SIZES:
		list_print_range(row, "a size", out);
		fprintf(out, ", or a list such as alice:64M,*:16M, of users %s, and such sizes",
			who);
		break;
	case OPTION_TIMES:
		fprintf(out, "a duration (in %s, or with ns, us, ms, s, min or h)", row->unit);
		list_print_range(row, "", out);
		fprintf(out,
			", or a list such as alice:1min,*:10s, of users %s, and such durations",
			who);
		break;
	default:
		list_print_range(row, "a whole number", out);
		fprintf(out, ", or a list such as alice:10,*:4, of users %s, and such numbers",
			who);
		break;
	}
}

/* ------------------------------------------------------------------------ lookups */

static bool list_means(const struct options_entry *entry, const struct options_peer *peer)
{
	if (entry->who != OPTIONS_GROUP)
		return entry->who == OPTIONS_ANYBODY || entry->id == peer->uid;
	for (uint32_t i = 0; i < peer->n_gids; i++)
		if (peer->gids[i] == entry->id)
			return true;
	return false;
}

enum options_who option_list_knows(const struct options_list *list, const struct options_peer *peer)
{
	enum options_who known = OPTIONS_NOBODY;

	for (uint32_t i = 0; list && i < list->n; i++)
		if (list->entries[i].who > known && list_means(&list->entries[i], peer))
			known = list->entries[i].who;
	return known;
}

bool option_list_counts(const struct options_entry *entry, const struct options_peer *peer,
			enum options_who known)
{
	return entry->who == known && list_means(entry, peer);
}

uint64_t option_list_number(const struct options_list *list, const struct options_peer *peer,
			    uint64_t unset)
{
	enum options_who known = option_list_knows(list, peer);
	uint64_t most = 0;

	if (known == OPTIONS_NOBODY)
		return unset;
	for (uint32_t i = 0; i < list->n; i++)
		if (option_list_counts(&list->entries[i], peer, known))
			most = max(most, list->entries[i].number ? list->entries[i].number : unset);
	return most;
}

bool option_list_has_groups(const struct option_row *row, const struct options_list *list)
{
	for (uint32_t i = 0; list && !list_is_single(row) && i < list->n; i++)
		if (list->entries[i].who == OPTIONS_GROUP)
			return true;
	return false;
}
