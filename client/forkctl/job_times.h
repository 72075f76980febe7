/* SPDX-License-Identifier: MIT */
/* job_times.h - wait times and run times of each user's jobs: shm/times.def */
#pragma once

#include <stdbool.h>

#include "client/forkctl/output.h"
#include "shm/board.h"

/* The times of one user. */
struct times_user {
	uint64_t since_ns; /* 0: no user */
	uint32_t uid;
	uint64_t dropped;
	uint64_t ended;
	struct histogram_sum times[N_TIMES];
};

/* The times of all users, indexed as on the board. */
struct times {
	struct times_user users[LIMIT_TENANTS];
};

/* Allocates zeros, which the caller frees. Ends forkctl if there is no memory. */
struct times *times_new(void);
void times_read(struct times *times, const struct board *board);

/* Subtracts `before`, which leaves the jobs that have ended since it was read. */
void times_subtract(struct times *times, const struct times *before);

/* A row for each user. forkd-json(5) lists the members. */
json_t *times_users(const struct times *times);

/* A row for each histogram of each user. seconds: the divisor of the member per_second; 0: no such
 * member. busy: omit histograms without a job. */
json_t *times_rows(const struct times *times, double seconds, bool busy);
