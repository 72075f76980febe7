/* SPDX-License-Identifier: MIT */
/* pool_death.h - handles a pool's death: its jobs, the report, and whether another pool starts */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct pool_segments;
struct pool_process_end;
struct quarantine;
struct conn_table;

#define POOL_DEATH_MOST 5u /* deaths at the start after which forkd gives up */

struct pool_death {
	/* the caller sets these; the rest starts as zero */
	struct pool_segments *pool_segments;
	struct conn_table *conns;
	struct quarantine *quarantine;

	uint64_t deaths[POOL_DEATH_MOST]; /* times of the last deaths at the start */
	uint32_t n_deaths;		  /* in succession */
};

enum pool_death_next {
	POOL_DEATH_RESTART,
	POOL_DEATH_LATER,   /* it died at its start, as n_deaths pools have */
	POOL_DEATH_GIVE_UP, /* too many have died at their start; that has been logged */
};

/* Decides the outcome of each job of the dead pool (job_recovery.h), and shows the crash on the
 * board. Logs one line, and counts the crash against the user of the blamed job. The fronts of
 * board and arena have been written again. Returns what to do next, unless forkd is stopping. */
enum pool_death_next pool_death_run(struct pool_death *pool_death,
				    const struct pool_process_end *end);

/* The same for the pool of an earlier manager, whose clients this manager takes over. That pool's
 * exit status is not known: unless its own handler has recorded a job, none is blamed or suspected.
 * abandoned: that pool has not ended. */
void pool_death_inherit(struct pool_death *pool_death, uint32_t n_clients, bool abandoned);

/* The same for a pool that a reload has ended or killed: no job is blamed or suspected, and it
 * counts as no crash. */
void pool_death_renewed(struct pool_death *pool_death, const struct pool_process_end *end);

/* Ends the jobs of clients that have closed since the pool died. The next pool, which has just
 * become ready, is told of these clients afterwards. */
void pool_death_cancel_gone(struct pool_death *pool_death);
