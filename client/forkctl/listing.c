/* SPDX-License-Identifier: MIT */
#include "client/forkctl/listing.h"

#include <fnmatch.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>

#include "client/forkctl/common.h"
#include "common/number.h"
#include "common/util.h"

const struct forkctl_option forkctl_json_options[] = {
	LISTING_JSON(0),
	{ 0 },
};

const struct forkctl_option forkctl_table_options[] = {
	LISTING_JSON(0),
	LISTING_NO_HEADER(0),
	{ 0 },
};

int listing_uid(const char *command, const char *text, uint32_t *ret_uid)
{
	const struct passwd *user;
	const char *rest;
	uint64_t uid;

	if (number_parse(text, 10, &uid, &rest) < 0 || *rest || uid >= UINT32_MAX) {
		user = getpwnam(text);
		if (!user)
			return forkctl_fail(FORKCTL_USAGE, "%s: there is no user %.64s", command,
					    text);
		uid = user->pw_uid;
	}
	*ret_uid = (uint32_t)uid;
	return 0;
}

int listing_check(const struct listing *l, const char *command)
{
	if (l->json && (l->no_header || l->quiet))
		return forkctl_fail(FORKCTL_USAGE, "%s: --json and --%s are mutually exclusive",
				    command, l->quiet ? "quiet" : "no-header");
	return 0;
}

int listing_parse(const struct forkctl_option *options, bool patterns, int argc, char *argv[],
		  struct listing *ret)
{
	struct listing l = LISTING_ALL;
	int err = forkctl_options(options, &l, &argc, argv);

	if (!err)
		err = listing_check(&l, argv[0]);
	if (!err && argc > 1 && !patterns)
		err = forkctl_fail(FORKCTL_USAGE, "%s takes no arguments, not %s", argv[0],
				   argv[1]);
	if (!err && l.user)
		err = listing_uid(argv[0], l.user, &l.uid);
	if (err)
		return err;
	l.patterns = argv + 1;
	l.n_patterns = argc - 1;
	*ret = l;
	return 0;
}

int listing_open(const char *socket, const struct forkctl_option *options, bool patterns, int argc,
		 char *argv[], struct listing *ret, fk_client **ret_client)
{
	int err = listing_parse(options, patterns, argc, argv, ret);

	return err ? err : forkctl_open_machine(socket, 1, FORKCTL_HEAP_SMALL, ret_client);
}

static bool listing_fits(const char *pattern, const char *text, bool task)
{
	const char *colon = task && !strchr(pattern, ':') ? strchr(text, ':') : NULL;
	char module[64];

	if (fnmatch(pattern, text, 0) == 0)
		return true;
	if (!colon || (size_t)(colon - text) >= sizeof(module))
		return false;
	(void)snprintf(module, sizeof(module), "%.*s", (int)(colon - text), text);
	return fnmatch(pattern, module, 0) == 0;
}

static bool listing_has(const struct listing *l, const json_t *row, const char *key)
{
	const char *text = json_string_value(json_object_get(row, key));
	bool fits = !l->n_patterns;

	if (l->user && json_integer_value(json_object_get(row, "uid")) != l->uid)
		return false;
	if (l->client != LISTING_ANY &&
	    json_integer_value(json_object_get(row, "client")) != l->client)
		return false;
	if (l->state && !streq(json_string_value(json_object_get(row, "state")), l->state))
		return false;
	for (int i = 0; text && i < l->n_patterns; i++)
		fits |= listing_fits(l->patterns[i], text, streq(key, "task"));
	return fits;
}

void listing_select(const struct listing *l, json_t *rows, const char *key)
{
	for (size_t i = json_array_size(rows); i-- > 0;)
		if (!listing_has(l, json_array_get(rows, i), key))
			(void)json_array_remove(rows, i);
}

void listing_print(const struct listing *l, const char *below, const json_t *rows,
		   const struct out_column *columns)
{
	const struct out_column first[] = { columns[0], { NULL } };

	out_print_table(below, rows, l->quiet ? first : columns, !l->no_header && !l->quiet);
}
