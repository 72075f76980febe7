/* SPDX-License-Identifier: MIT */
/*
 * oracle.h - has each job ended exactly once, and in the right way?
 *
 * Two files decide. In the journal each client writes what it is about to submit before it does,
 * and every outcome when it has seen it; in the other one the jobs themselves, which are all of
 * count:once, note each of their runs. Both outlive each client. Each entry is one write at the
 * file's end, and lies in one page: a client that is killed may have written some pages, and no
 * part of one. So it is there or not.
 *
 * Threads: scenarios, with a forkd that has tests/support/modules/count.c: the test's process,
 * which judges, and the client processes that it forks, each on one thread.
 *
 * If a peer dies: a client: the test says so (oracle_note_killed()), and the client's jobs need no
 * outcome any more; that none of them runs twice is asked all the same. A pool: jobs may be LOST,
 * and those that are idempotent run again.
 */
#pragma once

#include <forkd/client.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* What all processes of a test share. */
struct oracle_shared {
	_Atomic uint64_t ids;  /* given out so far */
	_Atomic uint32_t stop; /* for oracle_serve() */
};

struct oracle {
	struct oracle_shared *shared;
	int journal;
	char runs[128]; /* path of the file of runs */
};

/* One job, of the process that submitted it. */
struct oracle_job {
	fk_job job;
	uint64_t id;
};

/* Makes both files, which any uid may append to, in a folder. Fails the test if it cannot. */
void oracle_init(struct oracle *o, const char *folder);
void oracle_fini(struct oracle *o);

/*
 * Submits n jobs and has them in the journal before: one alone by fk_submit_values(), several, or
 * one in a group, as a chain. groups: of the first half and of the other, or NULL. flags:
 * FK_IDEMPOTENT, FK_WAIT_ROOM. Sets *ret_jobs, n of them. Returns 0, or the error of the
 * submission, which the journal has too.
 */
int oracle_submit(struct oracle *o, fk_client *c, uint32_t n, const fk_group groups[2],
		  unsigned int flags, struct oracle_job *ret_jobs);

/* Waits for a job's end, writes it down and releases it. Returns its outcome, or an error. */
int oracle_end(struct oracle *o, fk_client *c, const struct oracle_job *job);

/*
 * A client that submits and ends jobs of all kinds, until shared->stop; those that are idempotent
 * and those that are not take turns. Counts in *ended those that have ended. Returns an exit
 * status.
 */
int oracle_serve(struct oracle *o, const char *socket, _Atomic uint64_t *ended);

/* Waits until each of so many clients has begun and ended a job from now on. */
void oracle_await_each(const _Atomic uint64_t *ended, uint32_t n);

/* This client was killed: its jobs whose end it has not seen need no outcome. */
void oracle_note_killed(struct oracle *o, pid_t pid);

/* What the files say. */
struct oracle_verdict {
	uint64_t submitted;
	uint64_t refused;	  /* of these: the submission returned an error */
	uint64_t outcomes[8];	  /* by enum fk_outcome */
	uint64_t lost_idempotent; /* of those that are LOST */
	uint64_t orphans;	  /* without one, of a client that was killed */
	uint64_t runs;		  /* of all jobs */
	uint64_t again;		  /* of these, the second and later ones of idempotent jobs */
	char wrong[160];	  /* "" if each job ended once, and in the right way */
};

/* When all clients have ended. True if nothing is wrong. */
bool oracle_judge(struct oracle *o, struct oracle_verdict *ret_verdict);

/* What the journal is made of; for tests of the oracle. */
enum oracle_event {
	ORACLE_SUBMIT,	/* value: 1 if it is idempotent */
	ORACLE_REFUSED, /* value: the error */
	ORACLE_OUTCOME, /* value: the result, of FK_DONE */
	ORACLE_KILLED,
};

struct oracle_entry {
	uint64_t id;
	int64_t value;
	int32_t pid;
	uint16_t event;	  /* ORACLE_* */
	uint16_t outcome; /* of ORACLE_OUTCOME: enum fk_outcome */
	uint64_t unused;
};

_Static_assert(4096 % sizeof(struct oracle_entry) == 0, "no page ends within an entry");

/* The result of a job, and how much it has to do. */
int64_t oracle_work(uint64_t id);
int64_t oracle_result(uint64_t id);
