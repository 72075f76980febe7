/* SPDX-License-Identifier: MIT */
/*
 * Built and run by make, never installed: prints the items of forkd-counters(7) from the table, or
 * with an argument those of its times.
 */
#include <stdint.h>
#include <stdio.h>

#include "shm/board.h"

int main(int argc, char *argv[])
{
	(void)argv;
	for (uint32_t i = 0; argc > 1 && i < N_TIMES; i++)
		printf(".It Li %s\n%s.\n", board_time_rows[i].name, board_time_rows[i].help);
	for (uint32_t i = 0; argc == 1 && i < board_n_counters; i++) {
		const struct counter_row *row = &board_counter_rows[i];

		printf(".It Cm %s Ta %s Ta\n%s\n", row->name, row->unit, row->help);
	}
	return ferror(stdout) || fflush(stdout) != 0;
}
