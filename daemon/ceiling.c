/* SPDX-License-Identifier: MIT */
/*
 * daemon/ceiling.c - how much memory there is for forkd, by the kernel's word
 *
 * WHAT IT IS
 *   A control group has a limit (MemoryMax= of systemd), and so may each that it is in: who is over
 *   the least of them is killed. They are read by the names in /proc/self/cgroup, of version 2
 *   (0::/name) and of version 1 (6:memory:/name), where /sys/fs/cgroup has them. Inside a container
 *   only the lowest of them may be seen, at the root of what is mounted, or a name may lead out of
 *   it; whatever is not there limits nothing.
 *   The machine's memory is asked by sysinfo(2): the unit of systemd hides /proc/meminfo.
 *
 * WHO CALLS IT, ON WHICH THREAD
 *   budget.c, when forkd starts, for the manager and for --check-config. A limit that is changed
 *   later counts from the next start on.
 */
#include "daemon/ceiling.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysinfo.h>

#include "common/cleanup.h"
#include "common/number.h"
#include "common/util.h"

#define CEILING_PATH (2 * PATH_MAX)

/* The number in a file; UINT64_MAX if there is none. */
static uint64_t ceiling_read(const char *path)
{
	_cleanup_fclose_ FILE *file = fopen(path, "re");
	char line[32];
	const char *rest;
	uint64_t bytes;

	if (!file || !fgets(line, sizeof(line), file) || number_parse(line, 10, &bytes, &rest) < 0)
		return UINT64_MAX;
	return bytes;
}

/* A group of this name, and all that it is in. mount: where they are; file: of their limits. */
static void ceiling_climb(const char *root, const char *mount, char *group, const char *file,
			  struct ceiling *ceiling)
{
	char path[CEILING_PATH];
	size_t len;

	if (strstr(group, "/.."))
		*group = '\0';
	for (;;) {
		uint64_t bytes;

		len = strlen(group);
		while (len && group[len - 1] == '/')
			group[--len] = '\0';
		(void)snprintf(path, sizeof(path), "%s%s%s/%s", root, mount, group, file);
		bytes = ceiling_read(path);
		if (bytes < ceiling->bytes) {
			ceiling->bytes = bytes;
			(void)snprintf(ceiling->where, sizeof(ceiling->where), "%s of %.160s", file,
				       len ? group : "its control group");
		}
		if (!len)
			return;
		*strrchr(group, '/') = '\0';
	}
}

void ceiling_find(const char *root, uint64_t machine, struct ceiling *ret)
{
	_cleanup_fclose_ FILE *file = NULL;
	char line[CEILING_PATH];

	*ret = (struct ceiling){ .bytes = machine, .where = "the machine's memory" };
	(void)snprintf(line, sizeof(line), "%s/proc/self/cgroup", root);
	file = fopen(line, "re");
	/* HIERARCHY:CONTROLLERS:NAME */
	while (file && fgets(line, sizeof(line), file)) {
		char *controllers = strchr(line, ':');
		char *name = controllers ? strchr(controllers + 1, ':') : NULL;

		if (!name || name[1] != '/')
			continue;
		*name++ = '\0';
		name[strcspn(name, "\n")] = '\0';
		if (streq(controllers, ":"))
			ceiling_climb(root, "/sys/fs/cgroup", name, "memory.max", ret);
		else if (streq(controllers, ":memory"))
			ceiling_climb(root, "/sys/fs/cgroup/memory", name, "memory.limit_in_bytes",
				      ret);
	}
}

uint64_t ceiling_machine(void)
{
	struct sysinfo info;

	/* It fails for a bad address only. */
	if (sysinfo(&info) < 0)
		return UINT64_MAX;
	return (uint64_t)info.totalram * info.mem_unit;
}
