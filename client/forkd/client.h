/* SPDX-License-Identifier: MIT */
/*
 * forkd/client.h - libforkclient: fork-join jobs for the machine's one pool of workers
 *
 *	fk_client *client;
 *	int64_t result;
 *	int err = fk_open(NULL, NULL, &client);
 *
 *	if (!err)
 *		err = fk_call(client, "fib:fib", &result, (int64_t)30);
 *
 * ERRORS
 *   Every function that can fail returns 0 or a negative errno, fk_strerror() has a text for it.
 *   What is called ret_x or result is left alone on failure.
 *
 * THREADS
 *   Every function but fk_open() and fk_close() may be called by any number of threads on one
 *   client at the same time. Two threads may wait for the same job; it is released once, after the
 *   last of them is back. fk_close() comes after every other call has returned.
 *
 * FORK
 *   A client belongs to the process that opened it. In a child made by fork() every call with the
 *   parent's client returns -EPERM; the child opens its own. A call may also return
 *	-EPERM       this is a child of the process that opened the client
 *	-ECONNRESET  the daemon is gone; the client can only be closed
 *   where its comment does not repeat it.
 *
 * UNITS
 *   Times are nanoseconds, sizes are bytes.
 */
#ifndef FORKD_CLIENT_H
#define FORKD_CLIENT_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

/* A connection to forkd with its job table and its shared heap. */
typedef struct fk_client fk_client;

/* A task of a module, found by its name; lives as long as its client. */
typedef struct fk_client_task fk_task;

/* A submitted job, until it is released. Never 0. */
typedef uint64_t fk_job;

struct fk_open_options {
	uint32_t n_jobs;      /* jobs at the same time, 0 for the default (256) */
	uint32_t reserved0;   /* 0 */
	uint64_t heap_size;   /* bytes of shared heap, 0 for the default (1 MiB) */
	uint64_t reserved[6]; /* 0 */
};

/* Memory in the client's shared heap, from fk_alloc(). */
struct fk_buffer {
	void *data;
	size_t size; /* bytes */
};

/* The same as it stands among packed arguments: an offset from the start of the heap. */
struct fk_ref {
	uint64_t offset; /* bytes */
	uint64_t size;	 /* bytes */
};

/* One argument; which member counts is said by the task's signature. */
union fk_value {
	int64_t i64;
	double f64;
	const char *str;      /* NUL-terminated; copied */
	struct fk_buffer buf; /* buf and iobuf; not copied */
};

/* Flags of a submission. */
#define FK_IDEMPOTENT 1u /* may be run a second time if the pool dies under it */
#define FK_WAIT_ROOM  2u /* with the job table or all rings full: wait instead of -EAGAIN */

/* How a job has ended. Each job gets exactly one outcome. */
enum fk_outcome {
	FK_PENDING = 1,	  /* none yet */
	FK_DONE = 2,	  /* there is a result */
	FK_FAILED = 3,	  /* the code says why: a negative errno, or the task's own number */
	FK_CANCELLED = 4, /* forkd was stopped, or the job was cancelled */
	FK_EXPIRED = 5,	  /* its deadline passed */
	FK_CRASHED = 6,	  /* the task got a fatal signal */
	FK_LOST = 7,	  /* another task crashed the pool while this one was running */
};

struct fk_timings {
	uint64_t wait_ns; /* from submission to start */
	uint64_t run_ns;  /* from start to end */
};

/* Timeouts of fk_wait(). */
#define FK_FOREVER UINT64_MAX

/*
 * Connects to forkd.
 * socket: path of its socket; NULL for $FORKD_SOCKET, or else the one it was installed with.
 * options: NULL for the defaults.
 * Returns 0, or
 *	-ENOENT, -ECONNREFUSED  no forkd listens there
 *	-EACCES                 not allowed to connect, or refused by forkd
 *	-ENAMETOOLONG           the path does not fit into a socket's address
 *	-EPROTO, -EBADMSG       not a forkd, or one of another version
 *	-ETIMEDOUT              it did not answer within 10 s
 *	-ENOMEM, -EMFILE, ...   no memory, no descriptor
 * or the error that forkd refused the connection with (-EUSERS, -ENOSPC, -EINVAL, ...).
 * fk_open_error() has the whole story.
 */
int fk_open(const char *socket, const struct fk_open_options *options, fk_client **ret_client);

/*
 * The calling thread's last failure of fk_open(), as one line that says what to do. Never NULL;
 * valid until the thread's next fk_open().
 */
const char *fk_open_error(void);

/*
 * Closes the connection and frees everything that belongs to it. Jobs that have not ended are
 * cancelled. NULL is fine. Returns 0, or -EPERM in a child (where nothing is freed).
 */
int fk_close(fk_client *client);

/*
 * Finds a task by its name, "MODULE:TASK". No round trip: the tasks stand in shared memory.
 * Returns 0, -ENOENT (no module has it), -EPROTO (a signature that this library cannot read),
 * -ENOMEM.
 */
int fk_task_find(fk_client *client, const char *name, const fk_task **ret_task);

/* What a task is called, and its signature: "n:i64 -> i64". Valid as long as the client. */
const char *fk_task_name(const fk_task *task);
const char *fk_task_signature(const fk_task *task);

/* Bytes of its packed arguments and of its packed result. */
size_t fk_task_args_size(const fk_task *task);
size_t fk_task_result_size(const fk_task *task);

/*
 * Submits a job. No system call where a worker is awake.
 * args, size: the arguments, packed in the order of the signature: 8 bytes an i64 or f64, a struct
 * fk_ref for str, buf and iobuf. flags: FK_IDEMPOTENT, FK_WAIT_ROOM.
 * Buffers stay untouched by the caller until the job has ended, if the task is to see them whole.
 * Returns 0, or
 *	-EAGAIN  every record of the job table is in use (release some), or every ring is full
 *	-EINVAL  size does not fit the signature, or unknown flags
 *	-ENOENT  the task's module is gone
 * With FK_WAIT_ROOM a full table waits for another thread's fk_release().
 */
int fk_submit(fk_client *client, const fk_task *task, const void *args, size_t size,
	      unsigned int flags, fk_job *ret_job);

/*
 * The same with one value per argument, packed by the library; strings are copied to the heap and
 * freed with the job.
 * Returns also -EINVAL (n is not the signature's, or a string is NULL), -EFAULT (a buffer outside
 * the heap), -ENOMEM (the heap has no room for the strings).
 */
int fk_submit_values(fk_client *client, const fk_task *task, const union fk_value *values, size_t n,
		     unsigned int flags, fk_job *ret_job);

/*
 * The same with variable arguments, which must have the types of the signature: i64 int64_t (an int
 * needs a cast), f64 double, str const char *, buf and iobuf struct fk_buffer.
 */
int fk_submitv(fk_client *client, const fk_task *task, unsigned int flags, fk_job *ret_job, ...);
int fk_vsubmit(fk_client *client, const fk_task *task, unsigned int flags, fk_job *ret_job,
	       va_list args);

/*
 * Waits until a job has ended: spins for a short time, then sleeps.
 * timeout_ns: how long at most; FK_FOREVER, or 0 to only look.
 * Returns 0 (it has an outcome), -ETIMEDOUT, -ESTALE (no such job), -ECONNRESET (the daemon is gone
 * and the job has no outcome; found out within a quarter of a second).
 */
int fk_wait(fk_client *client, fk_job job, uint64_t timeout_ns);

/* Returns 1 if the job has ended, 0 if not, -ESTALE, -ECONNRESET. Never sleeps. */
int fk_poll(fk_client *client, fk_job job);

/*
 * How a job has ended.
 * ret_code, ret_signo: NULL, or set to the code of FK_FAILED and the signal of FK_CRASHED (else 0).
 * Returns an enum fk_outcome (FK_PENDING while it has not ended), or -ESTALE.
 */
int fk_outcome(fk_client *client, fk_job job, int *ret_code, int *ret_signo);

/*
 * Copies the result of a job: packed in the order of the signature, 8 bytes an i64 or f64.
 * result, size: at least fk_task_result_size() bytes.
 * Returns 0, -EINPROGRESS (not ended), -EINVAL (size is too small), -ESTALE, or what became of it:
 *	FK_FAILED     its code if that is a negative errno, else -EREMOTEIO
 *	FK_CANCELLED  -ECANCELED
 *	FK_EXPIRED    -ETIME
 *	FK_CRASHED    -ENOTRECOVERABLE
 *	FK_LOST       -EOWNERDEAD
 */
int fk_result(fk_client *client, fk_job job, void *result, size_t size);

/* How long a job waited and ran. Returns 0, -EINPROGRESS, -ESTALE. */
int fk_timings(fk_client *client, fk_job job, struct fk_timings *ret_timings);

/*
 * Gives a job's record and its strings back. Returns 0, -EBUSY (not ended), -ESTALE (released
 * already).
 */
int fk_release(fk_client *client, fk_job job);

/*
 * Finds a task, submits a job, waits for its end, copies its result and releases it.
 * name: MODULE:TASK. result: as in fk_result(); NULL if the task has none, or it does not matter.
 * The arguments follow as in fk_submitv(). Waits for room.
 * Returns 0, or the errors of fk_task_find(), fk_submitv(), fk_wait() and fk_result().
 */
int fk_call(fk_client *client, const char *name, void *result, ...);

/*
 * Takes memory from the shared heap, aligned to a cache line, contents not defined. Tasks can write
 * to what is handed to them and to nothing else.
 * Returns 0 or -ENOMEM.
 */
int fk_alloc(fk_client *client, size_t size, void **ret_data);

/* Gives it back. NULL is fine. Returns 0, or -EINVAL (not from fk_alloc(), or free already). */
int fk_free(fk_client *client, void *data);

/* A buffer as fk_submit() wants it. Returns 0 or -EFAULT (not within the heap). */
int fk_buffer_ref(fk_client *client, struct fk_buffer buffer, struct fk_ref *ret_ref);

/* A text for any error of this library. err: an errno, negative or positive. Never NULL. */
const char *fk_strerror(int err);

/* "DONE", "FAILED", ... "?" for what is none. Never NULL. */
const char *fk_outcome_name(int outcome);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
