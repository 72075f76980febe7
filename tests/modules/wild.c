/* SPDX-License-Identifier: MIT */
/* tests/modules/wild.c - a task that writes over what the pool shares with others, and crashes */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <forkd/task.h>

/* Not 0xff: as an offset that leads back by one. */
#define GARBAGE 0x5a

/* Bytes of this segment, wherever it is mapped. */
static void fill(const char *name, int64_t from, int64_t bytes)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512];
	uintptr_t at;

	while (maps && fgets(line, sizeof(line), maps))
		if (strstr(line, name) && sscanf(line, "%" SCNxPTR, &at) == 1) {
			memset((char *)at + from, GARBAGE, (size_t)bytes);
			fclose(maps);
			return;
		}
	exit(4);
}

FK_TASK(fk_void, fronts, (int64_t, arena, int64_t, board), )
{
	fill("forkd-arena", 0, arena);
	fill("forkd-board", 0, board);
	abort();
}
FK_BODY(fronts)
{
	FK_RETURN();
}
FK_END(fronts)

FK_TASK(fk_void, board, (int64_t, from, int64_t, bytes), )
{
	fill("forkd-board", from, bytes);
	FK_LEAF();
}
FK_BODY(board)
{
	FK_RETURN();
}
FK_END(board)

FK_EXPORT(board, "from:i64, bytes:i64 -> ", 0, "Fills so many bytes of the board with garbage")
FK_EXPORT(fronts, "arena:i64, board:i64 -> ", 0,
	  "Fills so many bytes of arena and board with garbage, and calls abort()")
FK_MODULE(wild, "A task that writes where it must not")
