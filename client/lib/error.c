/* SPDX-License-Identifier: MIT */
/* error.c - texts of errors and outcomes, and the text of a thread's last error */
#include "client/lib/client.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/util.h"

#define ERROR_NAME 96 /* bytes of a name: a task's, and the number of its request */

static _Thread_local struct {
	int err;
	int detailed; /* the error that detail describes, until error_of_task(); or 0 */
	int local;    /* the pool is in this process: error_text() */
	char name[ERROR_NAME + 1];
	char detail[400]; /* empty: error_text() */
	char text[512];	  /* empty: fk_error_text() makes it from name and detail */
} last = { .text = "no error" };

static __attribute__((format(printf, 2, 0))) int error_take(int err, const char *format,
							    va_list args)
{
	(void)vsnprintf(last.detail, sizeof(last.detail), format, args);
	last.detailed = err;
	return err;
}

int error_detail(int err, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	(void)error_take(err, format, args);
	va_end(args);
	return err;
}

int error_say(int err, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	(void)error_take(err, format, args);
	va_end(args);
	return error_of_task(NULL, err, "");
}

int error_of_task(const struct fk_client *client, int err, const char *name)
{
	if (last.detailed != err)
		last.detail[0] = '\0';
	last.detailed = 0;
	last.err = err;
	last.local = client && client->waker.local;
	return error_name(err, name);
}

int error_name(int err, const char *name)
{
	last.text[0] = '\0';
	last.name[0] = '\0';
	(void)strncat(last.name, name, ERROR_NAME);
	return err;
}

const char *fk_error_text(void)
{
	if (!last.text[0])
		(void)snprintf(last.text, sizeof(last.text), "%s%s%s", last.name,
			       last.name[0] ? ": " : "",
			       last.detail[0] ? last.detail : error_text(last.err, last.local));
	return last.text;
}

/* Errors for which the text of the C library is not specific enough. */
static const struct error_row {
	int err;
	const char *text;
	int nearest;	   /* errno of an enum fk_error */
	const char *local; /* of a pool in this process; NULL: text */
} error_texts[] = {
	{ 0, "success" },
	{ EPERM, "this client belongs to the parent process: open another after fork()" },
	{ EAGAIN, "this user connects too often: use one client for several jobs, or try again" },
	{ E2BIG, "the client requests more jobs than jobs-max of forkd.conf permits" },
	{ EBUSY, "the job, or one of them, has not ended yet" },
	{ EINPROGRESS, "the job has not ended yet" },
	{ EDEADLK, "a worker cannot wait for a job or close a client: do so outside of tasks" },
	{ EALREADY, "the job is watched already, and was not fetched or called back yet" },
	{ ENOMEM, "this process is out of memory, or the job has reached its stack limit" },
	{ ESTALE, "there is no such job: it was released already" },
	{ ETIMEDOUT, "the time limit has passed and the job has not ended" },
	{ ECONNRESET, "the connection to forkd is lost: open a new one" },
	{ EACCES, "this user may not use this forkd (options allow and deny of forkd.conf)" },
	{ ENAMETOOLONG, "the path of forkd's socket is too long" },
	{ EPROTO, "forkd is of another version than this library: use the libforkclient that came "
		  "with it" },
	{ EBADMSG, "forkd does not understand a message: use the libforkclient that came with it" },
	{ ESHUTDOWN, "forkd is stopping: try again when it runs" },
	{ EIO, "forkd's pool cannot serve this connection: connect again" },
	{ EMFILE, "this process has as many descriptors as it may have" },
	{ ENFILE, "the system has as many open files as it can have" },
	{ ECANCELED, "the job was cancelled" },
	{ ETIME, "the job was not done at its deadline" },
	{ ENOTRECOVERABLE, "the task crashed" },
	{ EROFS,
	  "the task writes to this buffer, and it is in an import, which tasks can only read" },
	{ ENOTSUP, "the file to import is not a memfd of ordinary pages" },
	{ ETXTBSY, "the memfd to import can still change: a seal is missing" },
	{ EFBIG, "the memfd to import is larger than 1 GiB" },
	{ ENODATA, "the memfd to import has pages that were never written" },
	{ EKEYREVOKED,
	  "the task is in quarantine for this user: `forkctl quarantine` says how long" },
	{ EOWNERDEAD,
	  "the pool ended while the job was running; its task is not known to be the cause" },
	{ EREMOTEIO, "the task failed with a code of its own" },
	{ EUSERS, "forkd has as many clients as it may have (clients-max of forkd.conf)" },
	{ EDQUOT, "the job used more CPU time than job-cpu-max of forkd.conf" },
	{ FK_E_HEAP_FULL,
	  "the shared heap is full: free buffers, release jobs, or raise heap-max in forkd.conf",
	  ENOMEM,
	  "the client's heap is full: free buffers, release jobs, or open the client with a larger "
	  "heap_size" },
	{ FK_E_SHARED_MEMORY,
	  "the connections together have reached shared-memory-max: close some, or raise it in "
	  "forkd.conf",
	  ENOMEM },
	{ FK_E_USER_MEMORY,
	  "the connections of this user have reached user-shared-memory-max: close some, or raise "
	  "it in forkd.conf",
	  EDQUOT },
	{ FK_E_FORKD_MEMORY, "forkd has no memory or descriptors for this: try again later",
	  ENOMEM },
	{ FK_E_NOT_LISTENING, "no forkd listens there: start it with `systemctl start forkd`",
	  ECONNREFUSED },
	{ FK_E_NO_TASK, "no module has this task: `forkctl tasks` lists all", ENOENT,
	  "no loaded module has this task: load its module with fk_load()" },
	{ FK_E_NO_MORE_TASKS, "there is no further task", ENOENT },
	{ FK_E_TASK_GONE,
	  "the module of this task was removed or replaced: call fk_task_find() again", ENOENT },
	{ FK_E_NOT_WATCHED, "the job is not watched, or its end was reported already", ENOENT },
	{ FK_E_NO_RECORD,
	  "too few records are free: wait for a job of this client, use FK_WAIT_ROOM, or open the "
	  "client with a larger n_jobs",
	  EAGAIN },
	{ FK_E_RINGS_FULL, "the rings to the workers are full: try again, or use FK_WAIT_ROOM",
	  EAGAIN },
	{ FK_E_BATCH_SIZE,
	  "the batch has more jobs than the client has records: submit fewer at once, or open the "
	  "client with a larger n_jobs",
	  E2BIG },
	{ FK_E_GROUPS_FULL, "64 groups are in use: free some with fk_group_free()", EAGAIN },
	{ FK_E_REQUESTS_FULL, "forkd has not read earlier requests of this client: try again",
	  EAGAIN },
	{ FK_E_NO_THREAD,
	  "the thread of fk_event_fd() cannot be started: raise the limit on threads", EAGAIN },
	{ FK_E_SIGNATURE, "the arguments or the result do not fit the signature of the task",
	  EINVAL },
	{ FK_E_RESULT_SIZE,
	  "there is too little room for the result: fk_task_result_size() bytes are needed",
	  EINVAL },
	{ FK_E_NULL, "a pointer is NULL: pass an address", EINVAL },
	{ FK_E_FLAGS, "a flag is unknown, or this function does not take it", EINVAL },
	{ FK_E_OPTIONS, "options exclude each other, or need another one", EINVAL },
	{ FK_E_RESERVED, "a reserved field is not 0: use a designated initializer", EINVAL },
	{ FK_E_WEIGHT, "the weight is not between 0 and 10000", EINVAL },
	{ FK_E_PLACE, "there is no such worker or NUMA node: `forkctl status` lists the workers",
	  EINVAL, "there is no such worker or NUMA node: see fk_pool_info()" },
	{ FK_E_SOCKET_PATH, "the path of forkd's socket is empty: pass NULL for the default",
	  EINVAL },
	{ FK_E_NO_JOBS, "there is no job to wait for", EINVAL },
	{ FK_E_NOT_ALLOCATED, "this memory is not from fk_alloc(), or is free already", EINVAL },
	{ FK_E_BUFFER_OUTSIDE,
	  "the buffer is outside the shared heap: take it from fk_alloc(), or use FK_COPY_BUFFERS",
	  EFAULT },
	{ FK_E_BUFFER_ALIGN,
	  "the buffer does not start at a multiple of 8 bytes of the heap: align it, or use "
	  "FK_COPY_BUFFERS",
	  EFAULT,
	  "the buffer does not start at a multiple of 8 bytes: align it, or use FK_COPY_BUFFERS" },
	{ FK_E_BUFFER_PARTLY, "only a part of the buffer is in the shared heap: check its size",
	  EFAULT },
	{ FK_E_BUFFER_NULL, "the buffer is NULL and has a size: pass an address, or the size 0",
	  EFAULT },
	{ FK_E_NOT_FORKD, "the program that listens there is not forkd: correct the path", EPROTO },
	{ FK_E_NO_ANSWER, "forkd has not answered within 10 s: try again later", ETIMEDOUT },
	{ FK_E_TASK_UNREADABLE,
	  "this library cannot read the signature of the task: use the libforkclient that came "
	  "with "
	  "forkd",
	  EPROTO },
	{ FK_E_NO_GROUP, "there is no such group: it was freed already", ESTALE },
	{ FK_E_DENIED,
	  "the option allow-tasks of forkd.conf denies the task to this user: see `forkctl tasks`",
	  EACCES },
	{ FK_E_REFERENCE, "a reference among the arguments is not within the client's heap",
	  EFAULT },
	{ FK_E_COPIES,
	  "no memory for copies of the arguments: see stack-max and arena-max of forkd.conf",
	  ENOMEM, "no memory for copies of the arguments" },
	{ FK_E_USERS, "forkd serves as many users as it can: try again later", EUSERS },
	{ FK_E_CROWDED, "too many connections have not sent their first message: try again",
	  EAGAIN },
	{ FK_E_USER_CLIENTS,
	  "this user has user-clients-max connections: close some, or raise it in forkd.conf",
	  EDQUOT },
	{ FK_E_USER_JOBS,
	  "the connections of this user have user-jobs-max jobs: close some, or raise it in "
	  "forkd.conf",
	  EDQUOT },
	{ FK_E_HEAP_SIZE,
	  "the requested heap is larger than heap-max: request less, or raise it in forkd.conf",
	  E2BIG },
	{ FK_E_LATE, "the first message of the connection was late: connect again", ETIMEDOUT },
	{ FK_E_IMPORTS, "forkd cannot keep more imports: try again later", EUSERS },
	{ FK_E_USER_IMPORTS, "this user has 64 imports: free some", EDQUOT },
	{ FK_E_IMPORT_LATE, "the import was not complete in time: try again", ETIMEDOUT },
	{ FK_E_NOT_KEPT,
	  "the service manager cannot store the connection: raise FileDescriptorStoreMax= and "
	  "FDSTORE= of forkd.service",
	  ENFILE },
	{ FK_E_NOT_LOCAL,
	  "the machine's forkd cannot call functions of this program: use fk_open_local()",
	  EOPNOTSUPP },
};

/* Returns the row of an error, negative or positive; or NULL. */
static const struct error_row *error_find(int err)
{
	for (size_t i = 0; i < ARRAY_SIZE(error_texts); i++)
		if (error_texts[i].err == err || -error_texts[i].err == err)
			return &error_texts[i];
	return NULL;
}

int error_is_own(int err)
{
	const struct error_row *row = error_find(err);

	return row && row->nearest && err < 0;
}

const char *error_text(int err, int local)
{
	const struct error_row *row = error_find(err);
	const char *text;

	if (row)
		return local && row->local ? row->local : row->text;
	/* INT_MIN has no positive counterpart. */
	text = strerrordesc_np(err < 0 && err >= -4095 ? -err : err);
	return text ? text : "unknown error";
}

const char *fk_strerror(int err)
{
	return error_text(err, 0);
}

int fk_errno(int err)
{
	const struct error_row *row = error_find(err);

	if (row && row->nearest)
		return row->nearest;
	return err < 0 && err >= -4095 ? -err : err;
}

const char *fk_outcome_name(int outcome)
{
	static const char *const names[] = {
		[JOB_IDLE] = "?",	   [JOB_PENDING] = "PENDING",	  [JOB_DONE] = "DONE",
		[JOB_FAILED] = "FAILED",   [JOB_CANCELLED] = "CANCELLED", [JOB_EXPIRED] = "EXPIRED",
		[JOB_CRASHED] = "CRASHED", [JOB_LOST] = "LOST",
	};

	return outcome >= 0 && (size_t)outcome < ARRAY_SIZE(names) ? names[outcome] : "?";
}

/* The meaning of a code in a task that has begun; or "". */
static const char *error_meaning(int code, int local)
{
	switch (code) {
	case -ENOMEM:
		return local ? ""
			     : ": jobs have stack-max and arena-max of forkd.conf, what tasks "
			       "allocate module-memory-max";
	case -EPROTO:
		return local ? ": the task may break a rule of forkd-modules(7)"
			     : ": the task may break a rule of forkd-modules(7): see the log of "
			       "forkd";
	case -EBADMSG:
		return ": the data is damaged, or has another format";
	case -ENOBUFS:
		return ": the output is larger than its buffer";
	case -ENODATA:
		return ": the input is empty";
	case -ERANGE:
		return ": an argument is outside the range of the task";
	default:
		return "";
	}
}

const char *error_outcome(char *text, size_t size, int outcome, int code, int signo, int begun,
			  int local)
{
	const char *name = fk_outcome_name(outcome), *signal = sigabbrev_np(signo);
	const char *error = code < 0 && code >= -4095 ? strerrordesc_np(-code) : NULL;

	if (outcome == FK_FAILED && !begun)
		(void)snprintf(text, size, "%s: not begun: %s", name, error_text(code, local));
	else if (outcome == FK_FAILED && error)
		(void)snprintf(text, size, "%s: %s%s", name, error, error_meaning(code, local));
	else if (outcome == FK_FAILED)
		(void)snprintf(text, size, "%s with code %d of its own", name, code);
	else if (outcome == FK_EXPIRED && code == JOB_CPU_EXCEEDED)
		(void)snprintf(text, size, "%s: more CPU time than job-cpu-max of forkd.conf",
			       name);
	else if (outcome == FK_CRASHED && signo)
		(void)snprintf(text, size, "%s by signal %d (%s)", name, signo,
			       signal ? signal : "?");
	else if (outcome == FK_CRASHED)
		(void)snprintf(text, size, "%s: it ended the process", name);
	else
		(void)snprintf(text, size, "%s", name);
	return text;
}

int error_of_outcome(uint32_t outcome, int32_t code, int begun)
{
	switch (outcome) {
	case JOB_DONE:
		return 0;
	case JOB_FAILED:
		return (code < 0 && code >= -4095) || (!begun && error_is_own(code)) ? code
										     : -EREMOTEIO;
	case JOB_CANCELLED:
		return -ECANCELED;
	case JOB_EXPIRED:
		return -ETIME;
	case JOB_CRASHED:
		return -ENOTRECOVERABLE;
	case JOB_LOST:
		return -EOWNERDEAD;
	case JOB_IDLE:
		return -ECONNRESET; /* wait.c: forkd has taken the segment back */
	default:
		return -EINPROGRESS;
	}
}
