/* SPDX-License-Identifier: MIT */
#include "daemon/host/cgroup.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/number.h"
#include "common/util.h"

#define CGROUP_PATH (2 * PATH_MAX)

/* True if name is in a list such as "cpu,cpuacct". */
static bool cgroup_names(const char *controllers, const char *name)
{
	size_t length = strlen(name);

	for (const char *at = controllers; *at; at += strspn(at, ",")) {
		size_t n = strcspn(at, ",");

		if (n == length && !memcmp(at, name, n))
			return true;
		at += n;
	}
	return false;
}

/* Calls level() for a group and for each one above it that is mounted here. group: "/" or
 * "/a/b". */
static void cgroup_climb(const char *mount, char *group,
			 void (*level)(void *context, const char *directory), void *context)
{
	char directory[CGROUP_PATH];
	size_t length;

	/* Outside of the visible part. */
	if (strstr(group, "/.."))
		*group = '\0';
	do {
		length = strlen(group);
		while (length && group[length - 1] == '/')
			group[--length] = '\0';
		if (snprintf(directory, sizeof(directory), "%s%s", mount, group) <
		    (int)sizeof(directory))
			level(context, directory);
		if (length)
			*strrchr(group, '/') = '\0';
	} while (length);
}

void cgroup_each(const char *root, const char *controller,
		 void (*level)(void *context, const char *directory), void *context)
{
	_cleanup_fclose_ FILE *file = NULL;
	char line[CGROUP_PATH], mount[CGROUP_PATH];

	(void)snprintf(line, sizeof(line), "%s/proc/self/cgroup", root);
	file = fopen(line, "re");
	/* HIERARCHY:CONTROLLERS:NAME, where version 2 has no controllers */
	while (file && fgets(line, sizeof(line), file)) {
		char *controllers = strchr(line, ':');
		char *name = controllers ? strchr(++controllers, ':') : NULL;

		if (!name || name[1] != '/')
			continue;
		*name++ = '\0';
		name[strcspn(name, "\n")] = '\0';
		if (*controllers && !cgroup_names(controllers, controller))
			continue;
		if (snprintf(mount, sizeof(mount), "%s/sys/fs/cgroup%s%s", root,
			     *controllers ? "/" : "", controllers) < (int)sizeof(mount))
			cgroup_climb(mount, name, level, context);
	}
}

uint32_t cgroup_read(const char *directory, const char *name, uint64_t *ret, uint32_t max)
{
	_cleanup_fclose_ FILE *file = NULL;
	char text[CGROUP_PATH + 32];
	const char *at = text;
	uint32_t n = 0;

	(void)snprintf(text, sizeof(text), "%s/%s", directory, name);
	file = fopen(text, "re");
	if (!file || !fgets(text, sizeof(text), file))
		return 0;
	while (n < max && number_parse(at, 10, &ret[n], &at) == 0) {
		at += strspn(at, " \n");
		n++;
	}
	return n;
}

static void cgroup_take_quota(void *context, const char *directory)
{
	uint32_t *least = context;
	uint64_t n[2]; /* quota and period */

	/* In version 1, -1 means no quota. */
	if (cgroup_read(directory, "cpu.max", n, 2) < 2 &&
	    (!cgroup_read(directory, "cpu.cfs_quota_us", n, 1) ||
	     !cgroup_read(directory, "cpu.cfs_period_us", n + 1, 1)))
		return;
	if (n[1])
		n[0] = max(n[0] / n[1] + (n[0] % n[1] > 0), UINT64_C(1));
	if (n[1] && n[0] < UINT32_MAX && (!*least || n[0] < *least))
		*least = (uint32_t)n[0];
}

uint32_t cgroup_cpus(const char *root)
{
	uint32_t least = 0;

	cgroup_each(root, "cpu", cgroup_take_quota, &least);
	return least;
}
