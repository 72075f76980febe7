/* SPDX-License-Identifier: MIT */
/* control_group.h - creates control groups, if the system allows it */
#pragma once

#include <check.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"

#define CONTROL_GROUP_V2                                                                           \
	"/sys/fs/cgroup" /* mount point of version 2; version 1 has its controllers in it */

struct control_group {
	char directory[400];
	bool made;
};

/* Returns false if the file does not exist or does not accept the text. */
static inline bool control_group_put(const struct control_group *group, const char *name,
				     const char *text)
{
	_cleanup_close_ int fd = -1;
	char path[512];

	(void)snprintf(path, sizeof(path), "%s/%s", group->directory, name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
}

static inline void control_group_end(struct control_group *group)
{
	if (group->made)
		ck_assert_int_eq(rmdir(group->directory), 0);
	group->made = false;
}

/* Creates a group below the mount point and writes text to its file. Returns false on failure. */
static inline bool control_group_make(struct control_group *group, const char *mount,
				      const char *name, const char *text)
{
	(void)snprintf(group->directory, sizeof(group->directory), "%s/forkd-check-%d", mount,
		       (int)getpid());
	group->made = mkdir(group->directory, 0755) == 0;
	if (group->made && control_group_put(group, name, text))
		return true;
	control_group_end(group);
	return false;
}

static inline bool control_group_enter(const struct control_group *group, pid_t pid)
{
	char text[16];

	(void)snprintf(text, sizeof(text), "%d", (int)pid);
	return control_group_put(group, "cgroup.procs", text);
}
