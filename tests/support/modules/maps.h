/* SPDX-License-Identifier: MIT */
/* maps.h - mappings of the pool's process, by a part of their name */
#pragma once

#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct maps_range {
	uintptr_t from, to;
};

/* Sets ranges to the first mappings whose line in /proc/self/maps has this text, at most `most`.
 * Returns their number. */
static inline size_t maps_find(const char *text, struct maps_range *ranges, size_t most)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512];
	size_t n = 0;

	while (maps && n < most && fgets(line, sizeof(line), maps))
		if (strstr(line, text) &&
		    sscanf(line, "%" SCNxPTR "-%" SCNxPTR, &ranges[n].from, &ranges[n].to) == 2)
			n++;
	if (maps)
		(void)fclose(maps);
	return n;
}
