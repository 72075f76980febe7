/* SPDX-License-Identifier: MIT */
/* job_recovery.h - what becomes of the jobs of a pool that has died */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shm/backtrace.h"

struct arena;
struct group;
struct job;
struct ledger_row;

/* The manager's own numbers; nothing in the arena is asked for a bound. */
struct recovery_limits {
	uint32_t n_workers;
	uint32_t clients_max;
	uint32_t jobs_max;
	uint32_t n_tenants; /* slots that were ever used */
	bool killed;	    /* the pool was, with its manager: no job is suspected of it */
	bool abandoned;	    /* the pool was killed and has not ended: no job runs again */
	/* True if the client of a slot has died, as far as is known; NULL: none has. */
	bool (*is_gone)(void *context, uint32_t client);
	/* Called for each job that gets its outcome here, with its row as it was; or NULL. */
	void (*ended)(void *context, uint32_t client, uint32_t at, const struct ledger_row *row);
};

/* The job records of a client slot, or NULL if it is free. *ret_n: how many there are. */
typedef struct job *recovery_records(void *context, uint32_t client, uint32_t *ret_n);

struct recovery_report {
	/* records that got their outcome here, by what it is */
	uint32_t crashed;
	uint32_t lost;
	uint32_t cancelled; /* their client is gone */
	uint32_t finished;  /* whose outcome was decided already */
	/* and rows, whatever is in the record */
	uint32_t requeued; /* will run again */
	uint32_t queued;   /* had not started */
	uint32_t begun;	   /* had: the pool got that far */
	bool blamed;	   /* client and job say which row */
	uint32_t client;   /* slot */
	uint32_t job;	   /* index in the client's table */
	uint32_t task;	   /* on the board; UINT32_MAX if not known */
	uint32_t worker;   /* that faulted, or hangs; UINT32_MAX if none did */
	uint32_t signo;
	uint64_t address;
	bool overflowed;	/* a C stack, that of the worker's thread or of the fiber */
	uint64_t stack_size;	/* of that one, bytes */
	char fiber[64];		/* the name of the fiber that the worker ran, empty: it ran none */
	char inner[64];		/* of the newest task that it ran, empty: not known */
	struct backtrace trace; /* n is 0: not known */
	bool hung;		/* the worker did not fault: its job hangs ... */
	uint64_t held_ns;	/* ... for this long */
};

/*
 * Gives every job that the dead pool left RUNNING or FINISHING its outcome, or back to the queue,
 * and makes the arena's front ready for the next pool. No pool may be alive, except for abandoned
 * ones, which have another arena mapped.
 * signo: the signal that ended the process, 0 if it exited.
 */
void recovery_run(struct arena *arena, const struct recovery_limits *limits, uint32_t signo,
		  recovery_records *records, void *context, struct recovery_report *ret_report);

/*
 * Ends what a client that is gone has left in queues and rings: a pool that is told of the client
 * after it finds nothing to run. The pool, if there is one, must not know the client yet. Returns
 * how many jobs.
 */
uint32_t recovery_cancel(struct arena *arena, const struct recovery_limits *limits, uint32_t client,
			 recovery_records *records, void *context);

/*
 * Puts an outcome into a record that is still pending, and wakes its waiter; then counts its group
 * down, and wakes its waiters. groups: the client's, client_segment_groups().
 * generation: UINT32_MAX for whichever is pending. code, signo: see struct job.
 * Returns true if it was pending.
 */
bool recovery_finish(struct job *job, struct group *groups, uint32_t generation, uint32_t outcome,
		     int32_t code, uint32_t signo);
