/* SPDX-License-Identifier: MIT */
/*
 * Built and run by make, never installed: prints the items of forkd-counters(7) from the table.
 */
#include <stdint.h>
#include <stdio.h>

#include "shm/board.h"

int main(void)
{
	for (uint32_t i = 0; i < board_n_counters; i++) {
		const struct counter_row *row = &board_counter_rows[i];

		printf(".It Cm %s Pq %s\n%s.\n", row->name, row->unit, row->help);
	}
	return ferror(stdout) || fflush(stdout) != 0;
}
