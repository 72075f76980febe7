/* SPDX-License-Identifier: MIT */
#include "shm/backtrace.h"

#include <inttypes.h>
#include <stdio.h>

void backtrace_print(const struct backtrace_place *place, char *ret_text, uint64_t size)
{
	if (!place->object[0])
		(void)snprintf(ret_text, size, "0x%" PRIx64 " (no code)", place->offset);
	else if (place->function[0])
		(void)snprintf(ret_text, size, "%.39s+0x%" PRIx64 " (%.79s)", place->object,
			       place->offset, place->function);
	else
		(void)snprintf(ret_text, size, "%.39s+0x%" PRIx64, place->object, place->offset);
}

const struct backtrace_place *backtrace_best(const struct backtrace *trace)
{
	const struct backtrace_place *best = NULL;
	uint32_t most = 0;

	for (uint32_t i = 0; i < backtrace_count(trace); i++) {
		const struct backtrace_place *place = &trace->places[i];
		uint32_t known = 1 + (place->object[0] != '\0') + (place->function[0] != '\0');

		if (known > most) {
			most = known;
			best = place;
		}
	}
	return best;
}
