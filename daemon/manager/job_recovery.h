/* SPDX-License-Identifier: MIT */
/* job_recovery.h - decides the outcome of the jobs of a pool that has died */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shm/backtrace.h"

struct arena;
struct group;
struct job;
struct ledger_row;

/* The manager's own numbers; no bound is taken from the arena. */
struct recovery_limits {
	uint32_t n_workers;
	uint32_t clients_max;
	uint32_t jobs_max;
	uint32_t n_tenants; /* slots ever used */
	bool killed;	    /* the pool was killed with its manager: no job is suspected */
	bool abandoned;	    /* the pool was killed and has not ended: no job runs again */
	/* True if the client of a slot has died, as far as known; NULL: none has. */
	bool (*is_gone)(void *context, uint32_t client);
	/* Called for each job that gets its outcome here, with its previous row; or NULL. */
	void (*ended)(void *context, uint32_t client, uint32_t at, const struct ledger_row *row);
};

/* Returns the job records of a client slot, or NULL if it is free. *ret_n: their number. */
typedef struct job *recovery_records(void *context, uint32_t client, uint32_t *ret_n);

struct recovery_report {
	/* records that got their outcome here, by outcome */
	uint32_t crashed;
	uint32_t lost;
	uint32_t cancelled; /* their client has gone */
	uint32_t finished;  /* with an outcome decided before */
	/* rows, whatever their records contain */
	uint32_t requeued; /* will run again */
	uint32_t queued;   /* had not started */
	uint32_t begun;	   /* had started */
	bool blamed;	   /* client and job are valid */
	uint32_t client;   /* slot */
	uint64_t job;	   /* job_handle() */
	uint32_t task;	   /* on the board; UINT32_MAX: unknown */
	uint32_t worker;   /* that faulted, or hangs; UINT32_MAX: none */
	uint32_t signo;
	uint64_t address;
	bool overflowed;	/* a C stack overflowed: the worker thread's or the fiber's */
	uint64_t stack_size;	/* of that stack, bytes */
	char fiber[64];		/* name of the worker's fiber, empty: none */
	char inner[64];		/* newest task that it ran, empty: unknown */
	struct backtrace trace; /* n is 0: unknown */
	bool hung;		/* no fault: the worker's job hangs */
	uint64_t held_ns;	/* for this long */
};

/* Handles every job that the dead pool left RUNNING or FINISHING: gives it an outcome or puts it
 * back into the queue. Prepares the manager's part of the arena for the next pool. No pool may be
 * alive, except abandoned ones, which have another arena mapped. signo: the signal that ended the
 * process, 0 if it exited. */
void recovery_run(struct arena *arena, const struct recovery_limits *limits, uint32_t signo,
		  recovery_records *records, void *context, struct recovery_report *ret_report);

/* Ends jobs that a client that has gone left in queues and rings: a pool that is told of the client
 * afterwards finds none. The pool, if there is one, must not know the client yet. Returns the
 * number of jobs. */
uint32_t recovery_cancel(struct arena *arena, const struct recovery_limits *limits, uint32_t client,
			 recovery_records *records, void *context);

/* Sets the outcome of a record that is still pending, and wakes its waiter; then counts its group
 * down, and wakes its waiters. groups: the client's, client_segment_groups(). generation:
 * UINT32_MAX: any. code, signo: see struct job. Returns true if it was pending. */
bool recovery_finish(struct job *job, struct group *groups, uint32_t generation, uint32_t outcome,
		     int32_t code, uint32_t signo);
