/* SPDX-License-Identifier: MIT */
/* pool_death.h - a pool has died: its jobs, the report, and whether there is another pool */
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

	uint64_t deaths[POOL_DEATH_MOST]; /* when: the last ones that died at their start */
	uint32_t n_deaths;		  /* one after the other */
};

enum pool_death_next {
	POOL_DEATH_RESTART,
	POOL_DEATH_LATER,   /* it died at its start, as n_deaths have */
	POOL_DEATH_GIVE_UP, /* too many have; that has been logged */
};

/*
 * Decides each job of the dead pool (job_recovery.h), shows the crash on the board, logs one line
 * about it, and counts it against the user that is blamed. The fronts of board and arena were
 * written again. Returns what to do next, unless forkd is stopping.
 */
enum pool_death_next pool_death_run(struct pool_death *pool_death,
				    const struct pool_process_end *end);

/* The same for the pool of a manager that has ended, whose clients this one continues. Its exit
 * status is not known: unless its own handler has left a job, none is blamed or suspected.
 * abandoned: that pool has not ended. */
void pool_death_inherit(struct pool_death *pool_death, uint32_t n_clients, bool abandoned);

/* The same for a pool that was to end for the next one, by itself or when its time was over: no job
 * is blamed or suspected, and it is no crash. */
void pool_death_renewed(struct pool_death *pool_death, const struct pool_process_end *end);

/* Ends the jobs of clients that have gone since then; the next pool, which has just become ready,
 * is told of them after it. */
void pool_death_cancel_gone(struct pool_death *pool_death);
