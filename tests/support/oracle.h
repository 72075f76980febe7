/* SPDX-License-Identifier: MIT */
/*
 * oracle.h - checks that each job has ended exactly once, and in the right way
 *
 * Two files decide. Each client writes a job to the journal before it submits it, and each outcome
 * when it has seen it. The jobs, all of count:once, write each of their runs to the other file.
 * Both files survive each client. Each entry is one write at the end of the file, within one page.
 * So a client that is killed has written an entry completely or not at all.
 *
 * Threads: scenarios, with a forkd that has tests/support/modules/count.c: the test's process,
 * which judges, and the client processes that it forks, each with one thread.
 *
 * If a peer dies: a client: the test calls oracle_note_killed(), and the client's jobs then need no
 * outcome, but none of them may run twice. A pool: jobs may be LOST, and idempotent jobs run again.
 */
#pragma once

#include <forkd/client.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Memory that all processes of a test share. */
struct oracle_shared {
	_Atomic uint64_t ids;  /* number of ids given out */
	_Atomic uint32_t stop; /* for oracle_serve() */
};

struct oracle {
	struct oracle_shared *shared;
	int journal;
	char runs[128]; /* path of the file of runs */
};

/* One job, in the process that submitted it. */
struct oracle_job {
	fk_job job;
	uint64_t id;
};

/* Creates both files, which any uid may append to, in a directory. Fails the test on error. */
void oracle_init(struct oracle *o, const char *directory);
void oracle_fini(struct oracle *o);

/* Writes n jobs to the journal and submits them: a single job by fk_submit_values(), several jobs
 * or a job in a group as a chain. groups: of the first half and of the second, or NULL. flags:
 * FK_IDEMPOTENT, FK_WAIT_ROOM. Sets *ret_jobs, n of them. Returns 0, or the error of the
 * submission, which the journal has too. */
int oracle_submit(struct oracle *o, fk_client *c, uint32_t n, const fk_group groups[2],
		  unsigned int flags, struct oracle_job *ret_jobs);

/* Waits until a job has ended, writes its outcome down and releases it. Returns its outcome, or an
 * error. */
int oracle_end(struct oracle *o, fk_client *c, const struct oracle_job *job);

/* A client that submits jobs of all kinds and waits for them until shared->stop. Idempotent jobs
 * alternate with others. Counts ended jobs in *ended. Returns an exit status. */
int oracle_serve(struct oracle *o, const char *socket, _Atomic uint64_t *ended);

/* Waits until each of n clients has begun and ended a job from now on. */
void oracle_await_each(const _Atomic uint64_t *ended, uint32_t n);

/* Declares that this client was killed: its jobs without a recorded outcome need none. */
void oracle_note_killed(struct oracle *o, pid_t pid);

/* Result of the check of both files. */
struct oracle_verdict {
	uint64_t submitted;
	uint64_t refused;	  /* included in submitted: the submission returned an error */
	uint64_t outcomes[8];	  /* by enum fk_outcome */
	uint64_t lost_idempotent; /* of the LOST jobs */
	uint64_t orphans;	  /* without an outcome, of a client that was killed */
	uint64_t runs;		  /* of all jobs */
	uint64_t again;		  /* included in runs: repeated runs of idempotent jobs */
	char wrong[160];	  /* "" if each job ended once, and in the right way */
};

/* Call it when all clients have ended. Returns true if there is no error. */
bool oracle_judge(struct oracle *o, struct oracle_verdict *ret_verdict);

/* Entries of the journal; for tests of the oracle. */
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

/* A job's amount of work, and its result. */
int64_t oracle_work(uint64_t id);
int64_t oracle_result(uint64_t id);
