/* SPDX-License-Identifier: MIT */
/* soak_jobs.h - one job after another, of all shipped modules, each with a result to check */
#pragma once

#include <forkd/client.h>
#include <stdbool.h>
#include <stdint.h>

#include "shm/board.h"

/* The memory that a client shares with the test: the client writes, the test reads. */
struct soak_slot {
	_Atomic uint64_t done;	      /* jobs with a right result */
	_Atomic uint32_t outstanding; /* jobs that have not ended */
	_Atomic uint32_t job;	      /* row of what it does: soak_jobs_name() */
	char wrong[256];	      /* what was wrong, before it ends with status 1 */
};

/* Checks that every task has a row, except the tasks in this list: names of modules and of tasks,
 * with NULL at the end. Returns false and sets ret_task if one has none. */
bool soak_jobs_cover(const struct board *board, const char *const *foreign, const char **ret_task);

const char *soak_jobs_name(uint32_t row);

/* Calls tasks at random until *stop is not 0; returns an exit status. */
int soak_jobs_run(const char *socket, struct soak_slot *slot, uint64_t seed,
		  const _Atomic uint32_t *stop);
