/* SPDX-License-Identifier: MIT */
/*
 * options_dir.c - the files of forkd.conf.d
 *
 * Packages and administrators add options without a change of forkd.conf. As with the drop-in files
 * of systemd, a later file overrides an earlier one, and all of them override the main file.
 *
 * Threads: that of options_args_parse().
 */
#include "common/options_dir.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/options_file.h"
#include "common/util.h"

static int dir_is_conf(const struct dirent *entry)
{
	const char *end = strrchr(entry->d_name, '.');

	return entry->d_name[0] != '.' && end && streq(end, ".conf");
}

/* The same order in every locale. */
static int dir_order(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static int dir_out_of_memory(const char *name, struct options_error *error)
{
	options_error_set(error, "%s: out of memory", name);
	return -ENOMEM;
}

static int dir_read_file(struct options *o, const char *dir, const char *entry,
			 struct options_error *error)
{
	_cleanup_fclose_ FILE *file = NULL;
	_cleanup_free_ char *name = NULL;
	int r;

	if (asprintf(&name, "%s/%s", dir, entry) < 0) {
		name = NULL;
		return dir_out_of_memory(dir, error);
	}
	r = options_file_open(&file, name, error);
	return r < 0 ? r : options_file_read(o, file, name, error);
}

int options_dir_read(struct options *o, const char *name, struct options_error *ret_error)
{
	_cleanup_free_ struct dirent **entries = NULL;
	_cleanup_free_ char *dir = NULL;
	int n, r = 0;

	if (asprintf(&dir, "%s.d", name) < 0) {
		dir = NULL;
		return dir_out_of_memory(name, ret_error);
	}
	n = scandir(dir, &entries, dir_is_conf, dir_order);
	if (n < 0 && errno != ENOENT) {
		r = -errno;
		options_error_set(ret_error, "%s: cannot be read: %s", dir, strerror(-r));
	}
	for (int i = 0; i < n; i++) {
		if (r == 0)
			r = dir_read_file(o, dir, entries[i]->d_name, ret_error);
		free(entries[i]);
	}
	return r;
}
