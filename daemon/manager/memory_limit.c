/* SPDX-License-Identifier: MIT */
/*
 * memory_limit.c - how much memory forkd may use, according to the kernel
 *
 * A control group has a limit (MemoryMax= of systemd), and so may each of its ancestors (cgroup.h):
 * the least of them counts. A file that cannot be read limits nothing. The machine's memory comes
 * from sysinfo(2), because the systemd unit hides /proc/meminfo. A change takes effect at the next
 * start.
 */
#include "daemon/manager/memory_limit.h"

#include <stdio.h>
#include <string.h>
#include <sys/sysinfo.h>

#include "common/util.h"
#include "daemon/host/cgroup.h"

static void memory_limit_take(void *context, const char *directory)
{
	static const char *const files[] = { "memory.max", "memory.limit_in_bytes" };
	struct memory_limit *limit = context;
	uint64_t bytes;

	for (uint32_t i = 0; i < ARRAY_SIZE(files); i++) {
		if (!cgroup_read(directory, files[i], &bytes, 1) || bytes >= limit->bytes)
			continue;
		limit->bytes = bytes;
		(void)snprintf(limit->where, sizeof(limit->where), "%.*s/%s",
			       (int)(sizeof(limit->where) - strlen(files[i]) - 2), directory,
			       files[i]);
	}
}

void memory_limit_find(const char *root, uint64_t machine, struct memory_limit *ret)
{
	*ret = (struct memory_limit){ .bytes = machine, .where = "the machine's memory" };
	cgroup_each(root, "memory", memory_limit_take, ret);
}

uint64_t memory_limit_machine(void)
{
	struct sysinfo info;

	/* It fails only for an invalid address. */
	if (sysinfo(&info) < 0)
		return UINT64_MAX;
	return (uint64_t)info.totalram * info.mem_unit;
}
