/* SPDX-License-Identifier: MIT */
/* job_times.h - how long each user's jobs have waited and run: shm/times.def */
#pragma once

#include <stdbool.h>

#include "client/forkctl/output.h"
#include "shm/board.h"

/* Of one user. */
struct times_user {
	uint64_t since_ns; /* 0: no user */
	uint32_t uid;
	uint64_t dropped;
	uint64_t ended;
	struct histogram_sum times[N_TIMES];
};

/* Of all that are there; by the slots of the board. */
struct times {
	struct times_user users[LIMIT_TENANTS];
};

/* To be freed; without memory forkctl ends. */
struct times *times_new(void);
void times_read(struct times *times, const struct board *board);

/* What has been counted since `before` was read. */
void times_subtract(struct times *times, const struct times *before);

/* A row for each user. forkd-json(5) lists the members. */
json_t *times_users(const struct times *times);

/* A row for each histogram of each user. seconds: what per_second divides by; 0: there is no such
 * member. busy: no rows of histograms without a job. */
json_t *times_rows(const struct times *times, double seconds, bool busy);
