/* SPDX-License-Identifier: MIT */
/* pool_death.h - what the manager makes of a pool that has died */
#ifndef DAEMON_MANAGER_POOL_DEATH_H
#define DAEMON_MANAGER_POOL_DEATH_H

#include <stdbool.h>
#include <stdint.h>

struct pool_segments;
struct pool_process_end;
struct quarantine;
struct conn_table;

#define POOL_DEATH_MOST 5u /* so many at their start, and forkd gives up */

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
 * Gives each job of the dead pool what it deserves (job_recovery.h), shows the crash on the board,
 * logs one line about it, and counts it against whoever is blamed. The pool's fronts are in order
 * again. Returns what to do next, unless forkd is stopping.
 */
enum pool_death_next pool_death_run(struct pool_death *pool_death,
				    const struct pool_process_end *end);

/* The same for the pool of a manager that has ended, whose clients this one goes on with. Nobody
 * has asked how that pool ended: of those whose end its own handler has not explained none is
 * blamed or suspected. abandoned: that pool has not ended. */
void pool_death_inherit(struct pool_death *pool_death, uint32_t n_clients, bool abandoned);

/* The same for a pool that was to end so that there is another one, by itself or when its time was
 * over: nobody is blamed or suspected, and it is no crash. */
void pool_death_renewed(struct pool_death *pool_death, const struct pool_process_end *end);

/* Ends the jobs of clients that have gone since then; the next pool, which has just become ready,
 * is told of them after it. */
void pool_death_cancel_gone(struct pool_death *pool_death);

#endif
