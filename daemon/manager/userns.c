/* SPDX-License-Identifier: MIT */
/*
 * userns.c - the user namespace of forkd: which uids and gids it can tell apart
 *
 * In a user namespace that maps only some uids, as PrivateUsers=yes of systemd makes it,
 * SO_PEERCRED shows the same uid, /proc/sys/kernel/overflowuid, for all other users. They would be
 * one tenant, with rings that all of them can write. The same applies to groups: the overflow gid
 * must not match a group that forkd.conf names.
 */
#include "daemon/manager/userns.h"

#include <inttypes.h>
#include <stdio.h>

#include "common/cleanup.h"

#define USERNS_OVERFLOW 65534u /* if the kernel does not show it */

bool userns_is_whole(const char *map)
{
	uint64_t sum = 0, n;
	int size;

	/* Lines of "inside outside count", which do not overlap. -1 is no id. */
	for (; sscanf(map, "%*u %*u %" SCNu64 "%n", &n, &size) == 1; map += size)
		sum += n;
	return sum == UINT32_MAX;
}

/* Returns the id that is shown for all unmapped ids. */
static uint32_t userns_overflow(const char *map_path, const char *overflow_path)
{
	_cleanup_fclose_ FILE *map = fopen(map_path, "re");
	_cleanup_fclose_ FILE *overflow = fopen(overflow_path, "re");
	_cleanup_free_ char *text = NULL;
	uint32_t id = USERNS_OVERFLOW;
	size_t size = 0;

	/* No file: the kernel has no such namespaces. */
	if (!map)
		return USERNS_NO_STRANGERS;
	if (getdelim(&text, &size, '\0', map) > 0 && userns_is_whole(text))
		return USERNS_NO_STRANGERS;
	if (overflow && fscanf(overflow, "%" SCNu32, &id) != 1)
		id = USERNS_OVERFLOW;
	return id;
}

uint32_t userns_stranger(void)
{
	return userns_overflow("/proc/self/uid_map", "/proc/sys/kernel/overflowuid");
}

uint32_t userns_strange_group(void)
{
	return userns_overflow("/proc/self/gid_map", "/proc/sys/kernel/overflowgid");
}
