/* SPDX-License-Identifier: MIT */
/*
 * journal.h - the jobs that have been started and must not run twice
 *
 * A job has one file in a directory, which several machines may share. The file is created, and is
 * durable, before the task starts. It is named by the function and the unique id of the job, and
 * has one line: the machine and the time. A job whose file exists may have run.
 *
 * INVARIANTS
 *   I1. Of all gateways that share the directory, one creates the file of a job (O_EXCL).
 *   I2. A file is removed when it is older than the time for which entries are kept; or by the
 *       gateway that has created it, if the task was not started.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define JOURNAL_UNIQUE 64u /* bytes of a unique id at most, as in gearmand */

struct journal;

/* Opens the journal in a directory, which must exist and be writable. keep_ns: age at which an
 * entry is removed. Returns 0 or a negative errno. */
int journal_open(const char *directory, uint64_t keep_ns, struct journal **ret_journal);
void journal_close(struct journal *journal);

/* The job may have run. */
#define JOURNAL_STARTED 1

/*
 * Enters a job. Any thread.
 * ret_fd: the entry, for journal_commit(); the job must not start before.
 * ret_by: size bytes, set to "MACHINE at TIME" for JOURNAL_STARTED.
 * Returns 0; JOURNAL_STARTED; -EINVAL (the job has no unique id, or a longer one than
 * JOURNAL_UNIQUE), or an error of the file system: the job must not start.
 */
int journal_enter(struct journal *journal, const char *function, const char *unique, int *ret_fd,
		  char *ret_by, size_t size);

/* Makes n entries durable, and closes fds. Any thread. Returns 0: their jobs may start; or an error
 * of the file system: none of them must start. */
int journal_commit(struct journal *journal, const int *fds, size_t n);

/* Removes the entry of a job that was entered, and not started. Any thread. */
void journal_leave(struct journal *journal, const char *function, const char *unique);

/* Removes old entries, of at most n files that it reads. One thread. Returns true if all files were
 * read, and the next call begins again. */
int journal_expire(struct journal *journal, uint32_t n);
