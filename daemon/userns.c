/* SPDX-License-Identifier: MIT */
/*
 * daemon/userns.c - the user namespace that forkd runs in: which uids it can tell apart
 *
 * WHAT IT IS
 *   In a user namespace that has some uids only, as PrivateUsers=yes of systemd makes it, peers of
 *   all other uids look the same (SO_PEERCRED): /proc/sys/kernel/overflowuid. They would be one
 *   tenant, with rings that all of them can write.
 *
 * WHO CALLS IT, ON WHICH THREAD
 *   The manager, when it starts.
 */
#include "daemon/userns.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/cleanup.h"

#define USERNS_OVERFLOW 65534u /* where the system does not say */

bool userns_is_whole(const char *map)
{
	uint64_t sum = 0, n;
	int size;

	/* Lines of "inside outside count", none over another. -1 is nobody's. */
	for (; sscanf(map, "%*u %*u %" SCNu64 "%n", &n, &size) == 1; map += size)
		sum += n;
	return sum == UINT32_MAX;
}

uint32_t userns_stranger(void)
{
	_cleanup_fclose_ FILE *map = fopen("/proc/self/uid_map", "re");
	_cleanup_fclose_ FILE *overflow = fopen("/proc/sys/kernel/overflowuid", "re");
	_cleanup_free_ char *text = NULL;
	uint32_t uid = USERNS_OVERFLOW;
	size_t size = 0;

	/* Not there: the kernel has no such namespaces. */
	if (!map)
		return USERNS_NO_STRANGERS;
	if (getdelim(&text, &size, '\0', map) > 0 && userns_is_whole(text))
		return USERNS_NO_STRANGERS;
	if (overflow && fscanf(overflow, "%" SCNu32, &uid) != 1)
		uid = USERNS_OVERFLOW;
	return uid;
}
