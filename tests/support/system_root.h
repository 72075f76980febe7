/* SPDX-License-Identifier: MIT */
/* system_root.h - a directory that serves as the system's root: a new one for each test */
#pragma once

#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/check_unit.h"

#undef CHECK_SETUP
#undef CHECK_TEARDOWN
#define CHECK_SETUP    make_root
#define CHECK_TEARDOWN remove_root

static char root[32];

static inline void make_root(void)
{
	/* In memory, if possible: on a disk, a new file takes up to 2 ms. */
	(void)snprintf(root, sizeof(root), "%s/forkd-root-XXXXXX",
		       access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	ck_assert_ptr_nonnull(mkdtemp(root));
}

static inline void remove_root(void)
{
	char command[64];

	(void)snprintf(command, sizeof(command), "rm -rf %s", root);
	ck_assert_int_eq(system(command), 0);
}

/* Writes a file below the root, and creates its parent directories. */
static inline void put(const char *path, const char *text)
{
	char full[PATH_MAX];
	FILE *file;

	(void)snprintf(full, sizeof(full), "%s%s", root, path);
	for (char *slash = full + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
		*slash = '\0';
		(void)mkdir(full, 0755);
		*slash = '/';
	}
	file = fopen(full, "w");
	ck_assert_ptr_nonnull(file);
	ck_assert_int_ge(fputs(text, file), 0);
	ck_assert_int_eq(fclose(file), 0);
}
