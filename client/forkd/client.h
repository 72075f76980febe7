/* SPDX-License-Identifier: MIT */
/*
 * forkd/client.h - libforkclient: fork-join jobs for the machine's one pool of workers
 *
 *	fk_client *client;
 *	int64_t result;
 *	int err = fk_open(NULL, NULL, &client);
 *
 *	if (!err)
 *		err = fk_call(client, "fib:fib", &result, 30);
 *	if (err)
 *		puts(fk_error_text());
 *
 * ERRORS
 *   Every function that can fail returns 0, or a negative errno or enum fk_error: each has one
 *   cause. fk_strerror() returns its text, and fk_errno() the nearest errno.
 *   fk_error_text() has the details of failures of fk_open(), fk_event_fd(), fk_task_find(),
 *   fk_alloc(), fk_import(), fk_result(), fk_call(), fk_submit() and the other calls and
 *   submissions.
 *   Outputs (ret_x, result) do not change on failure, except those of fk_submit_batch() and
 *   fk_call_each().
 *
 * THREADS
 *   Any number of threads may use one client at the same time, except for fk_open() and fk_close().
 *   Several threads may wait for the same job. Release it exactly once, after all of these waits
 *   have returned. Call fk_close() after every other call has returned.
 *   Callbacks run only on the thread that calls fk_dispatch(). The first fk_event_fd() starts a
 *   thread of the library. It runs no code of the program, and no signal handler.
 *
 * FORK
 *   A client belongs to the process that opened it. In a child made by fork() every call with the
 *   parent's client returns -EPERM; the child opens its own. A call may also return
 *	-EPERM       this is a child of the process that opened the client
 *	-ECONNRESET  the daemon is gone; the client can only be closed
 *   where its comment does not repeat it.
 *
 * MACROS
 *   fk_call() and fk_submit() are macros of C. Their prototypes are within FKC_DOCUMENTATION, which
 *   is never defined: the library has no functions of these names.
 *
 * UNITS
 *   Times are nanoseconds, sizes are bytes.
 */
#ifndef FORKD_CLIENT_H
#define FORKD_CLIENT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)
#ifdef __cplusplus
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow" /* struct fk_timings and fk_timings() */
#endif

/* A connection to forkd with its job table and its shared heap. */
typedef struct fk_client fk_client;

/* A task of a module, found by its name; lives as long as its client. */
typedef struct fk_client_task fk_task;

/* A submitted job, until it is released. Never 0. */
typedef uint64_t fk_job;

/* A group of jobs that are waited for together, from fk_group_new(). Never 0. */
typedef uint64_t fk_group;

/* Errors of this library that have no errno of one cause. Functions return them negative, as
 * -FK_E_HEAP_FULL. */
enum fk_error {
	FK_E_HEAP_FULL = 4096,	     /* no room in the shared heap, and heap-max is reached */
	FK_E_SHARED_MEMORY = 4097,   /* all connections together reach shared-memory-max */
	FK_E_USER_MEMORY = 4098,     /* those of this user reach user-shared-memory-max */
	FK_E_FORKD_MEMORY = 4099,    /* forkd itself has no memory or descriptors */
	FK_E_NOT_LISTENING = 4100,   /* no forkd listens on the socket */
	FK_E_NO_TASK = 4101,	     /* no module has a task of this name */
	FK_E_NO_MORE_TASKS = 4102,   /* fk_task_next() has returned all tasks */
	FK_E_TASK_GONE = 4103,	     /* the module of the task was removed or replaced */
	FK_E_NOT_WATCHED = 4104,     /* the job is not watched, or was reported */
	FK_E_NO_RECORD = 4105,	     /* too few records of the job table are free */
	FK_E_RINGS_FULL = 4106,	     /* the rings have no room for the job */
	FK_E_BATCH_SIZE = 4107,	     /* a batch with more jobs than the job table has records */
	FK_E_GROUPS_FULL = 4108,     /* all groups of the client are in use */
	FK_E_REQUESTS_FULL = 4109,   /* forkd has not read earlier requests of this client */
	FK_E_NO_THREAD = 4110,	     /* the library cannot start its thread */
	FK_E_SIGNATURE = 4111,	     /* arguments or the result do not fit the signature */
	FK_E_RESULT_SIZE = 4112,     /* too little room for the result */
	FK_E_NULL = 4113,	     /* a pointer is NULL that must not be */
	FK_E_FLAGS = 4114,	     /* flags that this function does not take */
	FK_E_OPTIONS = 4115,	     /* options that exclude or need each other */
	FK_E_RESERVED = 4116,	     /* a reserved field is not 0 */
	FK_E_WEIGHT = 4117,	     /* a weight above FK_WEIGHT_MAX */
	FK_E_PLACE = 4118,	     /* the pool has no such worker or NUMA node */
	FK_E_SOCKET_PATH = 4119,     /* the path of the socket is empty */
	FK_E_NO_JOBS = 4120,	     /* fk_wait_any() without a job */
	FK_E_NOT_ALLOCATED = 4121,   /* memory that fk_alloc() has not returned, or that is free */
	FK_E_BUFFER_OUTSIDE = 4122,  /* a buffer outside the shared heap */
	FK_E_BUFFER_ALIGN = 4123,    /* a buffer in the heap, not at a multiple of 8 bytes */
	FK_E_BUFFER_PARTLY = 4124,   /* a buffer of which a part is in the heap */
	FK_E_BUFFER_NULL = 4125,     /* a NULL buffer with a size */
	FK_E_NOT_FORKD = 4126,	     /* the program that listens on the socket is not forkd */
	FK_E_NO_ANSWER = 4127,	     /* forkd did not answer fk_open() within 10 s */
	FK_E_TASK_UNREADABLE = 4128, /* this library cannot read the signature of the task */
	FK_E_NO_GROUP = 4129,	     /* there is no such group */
	FK_E_DENIED = 4130,	     /* this user may not call the task */
	FK_E_REFERENCE = 4131,	     /* a reference among the arguments is invalid */
	FK_E_COPIES = 4132,	     /* the pool has no memory for copies of the arguments */
	FK_E_USERS = 4133,	     /* forkd serves as many users as it can */
	FK_E_CROWDED = 4134,	     /* too many connections have not sent their first message */
	FK_E_USER_CLIENTS = 4135,    /* the connections of this user reach user-clients-max */
	FK_E_USER_JOBS = 4136,	     /* those of this user reach user-jobs-max */
	FK_E_HEAP_SIZE = 4137,	     /* the requested heap is larger than heap-max */
	FK_E_LATE = 4138,	     /* the first message of a connection was late */
	FK_E_IMPORTS = 4139,	     /* forkd cannot keep more imports */
	FK_E_USER_IMPORTS = 4140,    /* this user has as many imports as it may have */
	FK_E_IMPORT_LATE = 4141,     /* the import was not complete in time */
	FK_E_NOT_KEPT = 4142,	     /* the service manager cannot store the connection */
	FK_E_NOT_LOCAL = 4143,	     /* forkd/pool.h: the pool is not in this process */
};

/*
 * Options of a connection, for fk_open(). A field of 0 has its default. Reserved fields must be 0:
 * use designated initializers. forkd.conf(5) limits both by jobs-max and heap-max.
 */
struct fk_open_options {
	uint32_t n_jobs;      /* jobs in flight at the same time; 0: 256 */
	uint32_t reserved0;   /* 0 */
	uint64_t heap_size;   /* bytes of shared heap at first; it grows when full; 0: 1 MiB */
	uint64_t reserved[6]; /* 0 */
};

/*
 * Memory for a buf or an iobuf. Memory from fk_alloc() is used without a copy, and so is an import
 * of fk_import(). A buffer may be a part of either, at a multiple of 8 bytes. All other memory has
 * to be copied (FK_COPY_BUFFERS); fk_call() does so. { NULL, 0 } is an empty buffer.
 * FK_BUFFER() makes one as an argument of fk_call() or fk_submit(). They are macros: the comma of
 * (struct fk_buffer){ data, size } would separate two arguments of theirs.
 */
struct fk_buffer {
	void *data;  /* the memory, or NULL for an empty buffer */
	size_t size; /* bytes */
};

#ifndef __cplusplus
#define FK_BUFFER(data, size) ((struct fk_buffer){ (data), (size) })
#endif

/* A buffer among packed arguments, for fk_submit_packed(). fk_buffer_ref() makes it. */
struct fk_ref {
	uint64_t offset; /* bytes from the start of the heap */
	uint64_t size;	 /* bytes */
};

/* One argument of a task, for fk_submit_values(). The signature of the task selects the member. */
union fk_value {
	int64_t i64;	      /* an i64 */
	double f64;	      /* an f64 */
	const char *str;      /* a str, NUL-terminated; copied */
	struct fk_buffer buf; /* buf and iobuf; copied with FK_COPY_BUFFERS only */
	const void *array;    /* of fk_call_each_typed(): of int64_t, double, char * or buffers */
};

/* Types of arguments and results in fk_call_typed() and fk_submit_typed(). */
#define FK_TYPE_I64    1u /* int64_t */
#define FK_TYPE_F64    2u /* double */
#define FK_TYPE_STR    3u /* char * */
#define FK_TYPE_BUFFER 4u /* buf and iobuf */
#define FK_TYPE_ARRAY  8u /* added to one of these in fk_call_each_typed(): an array of them */

/* Flags of a submission, in an argument or in struct fk_job_options. */
#define FK_IDEMPOTENT	1u  /* may run a second time if the pool dies under it: libforkclient(3) */
#define FK_WAIT_ROOM	2u  /* with all records in flight or all rings full: wait for room */
#define FK_STRICT	4u  /* of options with a place: nowhere else, however long it waits */
#define FK_COPY_BUFFERS 8u  /* copies buffers to the heap that cannot be used without a copy */
#define FK_WATCH	16u /* of options: the end is reported, as after fk_watch() */
#define FK_RELEASE	32u /* of options: fk_dispatch() releases the job after on_completion() */

/* Where a job starts: place in struct fk_job_options. Mandatory with FK_STRICT; otherwise a hint,
 * and in a batch only the hint of the first request is used. Tasks that the job forks may run on
 * any worker. */
#define FK_PLACE_ANY	0u /* any worker */
#define FK_PLACE_WORKER 1u /* place_index: a worker of the pool, counted from 0 */
#define FK_PLACE_NODE	2u /* place_index: a NUMA node, by the system's own number */

/*
 * Options of one job, for fk_call_opts(), fk_submit_opts() and fk_submit_batch(). A field of 0 has
 * its default. Reserved fields must be 0.
 * FK_OPTIONS() makes them as an argument of a call or a submission. An example is
 * FK_OPTIONS(.timeout_ns = 20000000, .weight = 10). The value is a const struct fk_job_options *,
 * which is valid in the block that it is written in.
 */
#define FK_WEIGHT_MAX 10000u /* largest weight */

struct fk_job_options {
	uint64_t timeout_ns;  /* then the job ends as FK_EXPIRED; 0: default-deadline */
	fk_group group;	      /* group from fk_group_new(); 0: none */
	uint32_t flags;	      /* FK_IDEMPOTENT and others; 0: none */
	uint32_t weight;      /* share of CPU time among jobs of this connection; 0: 100 */
	uint32_t place;	      /* FK_PLACE_WORKER or FK_PLACE_NODE; 0: FK_PLACE_ANY */
	uint32_t place_index; /* number of the worker or node; 0 with FK_PLACE_ANY */
	/* called by fk_dispatch() when the job has ended, as after fk_watch(). NULL: none */
	void (*on_completion)(fk_client *client, fk_job job, void *data);
	void *data;	      /* for on_completion(), or with FK_WATCH for fk_next_completion() */
	uint64_t reserved[4]; /* 0 */
};

#ifndef __cplusplus
#define FK_OPTIONS(...) (&(const struct fk_job_options){ __VA_ARGS__ })
#endif

/* One job of fk_submit_batch(). */
struct fk_request {
	const fk_task *task;	       /* from fk_task_find() */
	const union fk_value *values;  /* one per argument, as in fk_submit_values(); or NULL: */
	const void *args;	       /* packed arguments, as in fk_submit_packed() */
	size_t size;		       /* bytes at args, or number of values */
	struct fk_job_options options; /* of this job */
};

/* A timeout without an end. */
#define FK_FOREVER UINT64_MAX

/*
 * Connects to forkd.
 * socket: path of its socket; NULL for $FORKD_SOCKET, or else the one it was installed with,
 *   or if that does not exist the user's private one, $XDG_RUNTIME_DIR/forkd/forkd.sock. Three
 *   names are no paths, and need libforkpool (forkd/pool.h): "local" is the pool of this process;
 *   "auto" is forkd as for NULL, or the pool of this process if forkd cannot be reached;
 *   "auto:MODULE:TASK" is the same, and takes forkd only if it has this task.
 *   "gearman://HOST[:PORT][,HOST[:PORT]...]" is a cluster, and needs the package forkd-gearman.
 * options: NULL for the defaults.
 * Returns 0, or
 *	-FK_E_NOT_LISTENING     no forkd listens there
 *	-EACCES                 not allowed to connect, or forkd cannot tell whose process it is
 *	-ENAMETOOLONG           the path does not fit into a socket's address
 *	-FK_E_SOCKET_PATH       the path is empty
 *	-FK_E_RESERVED          a reserved field of the options is not 0
 *	-FK_E_NOT_FORKD         another program listens there
 *	-EPROTO                 a forkd of another version
 *	-EBADMSG                it does not understand a message of this library
 *	-ECONNRESET             it closed the connection without an answer
 *	-FK_E_NO_ANSWER         it did not answer within 10 s
 *	-EUSERS                 the limit on connections (clients-max) is reached
 *	-FK_E_USERS             forkd serves as many users as it can
 *	-FK_E_CROWDED           too many connections have not sent their first message
 *	-FK_E_LATE              this process has sent its first message too late
 *	-FK_E_USER_CLIENTS      the limit on connections of this user is reached
 *	-FK_E_USER_JOBS         the limit on jobs of this user is reached
 *	-FK_E_USER_MEMORY       the limit on shared memory of this user is reached
 *	-FK_E_SHARED_MEMORY     the limit on shared memory of all users is reached
 *	-E2BIG                  more jobs than one client may have (jobs-max)
 *	-FK_E_HEAP_SIZE         a larger heap than one client may have (heap-max)
 *	-FK_E_FORKD_MEMORY      forkd has no memory or descriptors
 *	-FK_E_NOT_KEPT          the service manager cannot store the connection
 *	-FK_E_NOT_LOCAL         the pool of this process is needed, and this is libforkclient
 *	-ENOENT                 the package forkd-gearman is not installed
 *	-EAGAIN                 this user connects too often
 *	-ENOMEM                 no memory in this process
 *	-ESHUTDOWN              it is stopping
 *	-EIO                    its pool cannot serve this connection
 *	-EMFILE, -ENFILE        no descriptor
 * or another error of socket(), connect() or mmap(). fk_error_text() has the details.
 */
int fk_open(const char *socket, const struct fk_open_options *options, fk_client **ret_client);

/*
 * The calling thread's last failure of fk_open(), fk_event_fd(), fk_task_find(), fk_result(),
 * fk_alloc(), fk_import(), or of a call or a submission, as one line: what failed, why, and what to
 * do. Other functions, such as fk_wait() and fk_cancel(), do not change it: fk_strerror() has the
 * text of their result. Never NULL; valid until the thread's next call of one of these.
 */
const char *fk_error_text(void);

/*
 * Closes the connection and frees everything that belongs to it. Jobs that have not ended are
 * cancelled. NULL is fine. Returns 0, or -EPERM in a child (where nothing is freed).
 */
int fk_close(fk_client *client);

/* Values of scheduler in struct fk_pool_info. */
#define FK_SCHEDULER_LAZY 0u /* idle workers sleep */
#define FK_SCHEDULER_BUSY 1u /* idle workers search all the time */

/*
 * Reads facts about the pool: its number of workers (compare std::thread::hardware_concurrency()),
 * nodes, scheduler and version. No round trip, except with a cluster. Each number can change at any
 * time. Returns 0, or -ECONNRESET if the daemon is known to be gone.
 */
struct fk_pool_info {
	uint32_t workers;     /* threads that run tasks: the parallelism of one job at most */
	uint32_t nodes;	      /* NUMA nodes that have a worker */
	uint32_t scheduler;   /* FK_SCHEDULER_LAZY or FK_SCHEDULER_BUSY */
	uint32_t modules;     /* loaded modules */
	uint32_t tasks;	      /* tasks of these modules */
	uint32_t connections; /* connections of all processes */
	uint32_t users;	      /* users that have a connection */
	uint32_t pools;	      /* pools started so far: above 1 after a crash or a reload */
	uint32_t n_jobs;      /* jobs of this client that can be in flight at the same time */
	uint32_t reserved0;
	uint64_t heap_size;  /* bytes of this client's shared heap now */
	uint64_t started_ns; /* when forkd was started, CLOCK_MONOTONIC */
	char version[32];    /* version of forkd */
	uint64_t reserved[8];
};

int fk_pool_info(fk_client *client, struct fk_pool_info *ret_info);

/*
 * Finds a task by its name, "MODULE:TASK". No round trip: the tasks are in shared memory.
 * Returns 0, -FK_E_NO_TASK (no module has it), -FK_E_TASK_UNREADABLE (its signature),
 * -ENOMEM.
 */
int fk_task_find(fk_client *client, const char *name, const fk_task **ret_task);

/*
 * Iterates over the tasks of all modules. No round trip.
 * task: the address of NULL for the first task, then of the task that the last call has set, as in
 * while (!fk_task_next(client, &task)). A task that the option allow-tasks denies to this user is
 * included. Tasks that are loaded or removed during the iteration may be left out.
 * Returns 0, -FK_E_NO_MORE_TASKS, -ENOMEM.
 */
int fk_task_next(fk_client *client, const fk_task **task);

/* Returns the name of a task; its signature, such as "n:i64 -> i64"; its help, one line that may be
 * empty and is the one of the first lookup. Valid as long as the client. */
const char *fk_task_name(const fk_task *task);
const char *fk_task_signature(const fk_task *task);
const char *fk_task_help(const fk_task *task);

/* How large the packed arguments and the packed result of a task are, in bytes. */
size_t fk_task_args_size(const fk_task *task);
size_t fk_task_result_size(const fk_task *task);

/*
 * Submits a job. Makes no system call if a worker is awake.
 * args, size: the arguments, packed in the order of the signature: 8 bytes an i64 or f64, a struct
 * fk_ref for str, buf and iobuf. flags: FK_IDEMPOTENT, FK_WAIT_ROOM.
 * Do not change buffers until the job has ended: the task would read undefined contents.
 * Returns 0, or
 *	-FK_E_NO_RECORD  every record of the job table has a job in flight
 *	-FK_E_RINGS_FULL  every ring is full
 *	-ENOMEM  no memory for the result of a job that has ended and is not released
 *	-FK_E_SIGNATURE  size does not fit the signature
 *	-FK_E_FLAGS  unknown flags
 *	-FK_E_NULL  args is NULL, and size is not 0
 *	-FK_E_TASK_GONE  the module of the task, or this version of it, is no longer loaded: call
 *	         fk_task_find() again
 * After -FK_E_NO_RECORD wait for a job of this client and try again, or use FK_WAIT_ROOM. Rings
 * become free automatically. fk_errno() of both is EAGAIN.
 * The job table limits the jobs in flight. If it is full, the library moves jobs that have ended
 * into private memory (about 200 bytes each, until fk_release()). Their handles stay valid in every
 * function. So no call waits for a job that its own caller would have to release.
 * For a deadline, a weight, a place or a group see fk_submit_opts().
 */
int fk_submit_packed(fk_client *client, const fk_task *task, const void *args, size_t size,
		     unsigned int flags, fk_job *ret_job);

/*
 * Submits a job with one value per argument, packed by the library. Strings are copied to the heap
 * and freed with the job. The rest is as in fk_submit_packed().
 * flags: as in fk_submit_packed(), and FK_COPY_BUFFERS: the library copies each buffer that is
 * outside the heap, or does not start at a multiple of 8 bytes, to the heap. The copies and the
 * strings of a job need one block of the heap, in which each copy starts at a multiple of 64 bytes.
 * The caller may change or free a buf that was copied when this function has returned. The contents
 * of an iobuf are copied back by fk_result() if the job is FK_DONE; otherwise the caller's buffer
 * does not change. It must stay valid until the job is released.
 * Returns what fk_submit_packed() does, or what fk_alloc() does if the heap has no room for the
 * strings and copies, or
 *	-FK_E_SIGNATURE  n is not the signature's
 *	-FK_E_NULL  a string is NULL
 *	-FK_E_BUFFER_OUTSIDE, -FK_E_BUFFER_ALIGN  a buffer is outside the heap, or not at a
 *	         multiple of 8 bytes, without FK_COPY_BUFFERS
 *	-FK_E_BUFFER_PARTLY, -FK_E_BUFFER_NULL  a buffer is partly in the heap, or NULL with a size
 */
int fk_submit_values(fk_client *client, const fk_task *task, const union fk_value *values, size_t n,
		     unsigned int flags, fk_job *ret_job);

/*
 * Submits a job with variable arguments. It is a macro of C, which derives the type of an
 * argument from its C type:
 *	i64         any integer; an uint64_t beyond INT64_MAX becomes negative, as C converts it
 *	f64         float and double
 *	str         char * and const char *
 *	buf, iobuf  struct fk_buffer, as from FK_BUFFER(data, size)
 * An argument of another type, or a thirteenth one, is an error of the compiler. To gcc a bit-field
 * has a type of its own: write +s.field, or a cast such as (int64_t)s.field, which a field wider
 * than an int needs. The types are compared with the signature that the task has now.
 * C++ has forkd/client.hpp. Other languages have fk_submit_typed(), of which types has 4 bits for
 * each argument, those of the first one lowest: FK_TYPE_I64, FK_TYPE_F64, FK_TYPE_STR or
 * FK_TYPE_BUFFER. Its flags are added to those of the options, which may be NULL.
 * Returns what fk_submit_values() does, and -FK_E_SIGNATURE if the types are not those of
 * the signature: fk_error_text() shows both.
 */
#ifdef FKC_DOCUMENTATION
int fk_submit(fk_client *client, const fk_task *task, unsigned int flags, fk_job *ret_job, ...);
#endif
int fk_submit_typed(fk_client *client, const fk_task *task, const struct fk_job_options *options,
		    unsigned int flags, fk_job *ret_job, uint64_t types,
		    const union fk_value *values);

/*
 * Submits a job with options, such as FK_OPTIONS(.timeout_ns = 20000000) for a deadline of 20 ms.
 * It is a macro of C, as fk_submit() is, with the same arguments.
 * A job with on_completion() or FK_WATCH is watched from the start, without fk_watch(). If the
 * daemon goes away during the submission, such a job may count as submitted: then it is reported.
 * options: NULL for the defaults. ret_job: NULL is fine for a job that is watched.
 * Returns what fk_submit() does, and what fk_submit_batch() returns for the options.
 */
#ifdef FKC_DOCUMENTATION
int fk_submit_opts(fk_client *client, const fk_task *task, const struct fk_job_options *options,
		   fk_job *ret_job, ...);
#endif

/*
 * Submits n jobs at once, each with its own options: all of them or, on failure, none. They become
 * visible to the pool together, by one atomic step, and one worker at most is woken for them.
 * They go to the queue of one worker, at the place of the first request. From there a job with
 * FK_STRICT goes to its own place, and any other job to a free worker.
 * flags: 0 or FK_WAIT_ROOM. ret_jobs: room for n handles; undefined on failure.
 * n: 0 is fine. FK_WAIT_ROOM in the options of a request is -FK_E_FLAGS: give it in flags.
 * Returns 0, or
 *	-FK_E_BATCH_SIZE  n is more than the job table has records (struct fk_open_options)
 *	-FK_E_NO_RECORD  fewer than n records have no job in flight
 *	-FK_E_RINGS_FULL  every ring is full, or with FK_STRICT those of the first request's place
 *	-FK_E_SIGNATURE  a request's size or number of values does not fit the signature
 *	-FK_E_NULL  a task or a string is NULL, or values and args are
 *	-FK_E_PLACE  there is no such worker or node
 *	-FK_E_OPTIONS  FK_STRICT or place_index without a place, FK_COPY_BUFFERS without values, or
 *	         FK_RELEASE without on_completion()
 *	-FK_E_WEIGHT  a weight is above FK_WEIGHT_MAX
 *	-FK_E_FLAGS, -FK_E_RESERVED  unknown flags; a reserved field is not 0
 *	-FK_E_TASK_GONE  the module of a task is no longer loaded (fk_submit_packed())
 *	-FK_E_NO_GROUP  there is no such group
 *	-FK_E_BUFFER_OUTSIDE, -FK_E_HEAP_FULL  and others of fk_submit_values()
 * Without room do as with fk_submit_packed(). If FK_STRICT is the reason, a release does not help:
 * the workers of that place must take jobs from their rings. Try again when one of these jobs has
 * ended, or without FK_STRICT, or use FK_WAIT_ROOM. With FK_WAIT_ROOM the call waits until n
 * records are free at the same time, and holds none until then. Smaller submissions may overtake
 * it.
 */
int fk_submit_batch(fk_client *client, const struct fk_request *requests, size_t n,
		    unsigned int flags, fk_job *ret_jobs);

/*
 * Waits until a job has ended: spins for a short time, then sleeps.
 * timeout_ns: time limit; FK_FOREVER for none, 0 to only check.
 * Returns 0 (it has an outcome), -ETIMEDOUT, -ESTALE (no such job), -ECONNRESET (the daemon is gone
 * and the job has no outcome; detected within about half a second, or, with shorter timeouts, by a
 * later call).
 */
int fk_wait(fk_client *client, fk_job job, uint64_t timeout_ns);

/*
 * Checks whether a job has ended. Never sleeps. Makes a system call only a few times per second: to
 * check the connection, or to wake a worker that should have picked the job up. The same is true
 * for waits with a timeout of 0.
 * Returns 1 if the job has ended, 0 if not, -ESTALE, -ECONNRESET.
 */
int fk_poll(fk_client *client, fk_job job);

/*
 * Waits until one of n jobs has ended.
 * jobs: any number, with or without duplicates. timeout_ns: as in fk_wait().
 * ret_index: index of the first job that has ended. Remove it to wait for the others.
 * Returns 0, -ETIMEDOUT, -FK_E_NO_JOBS (n is 0), -ESTALE (one of the jobs is not there), or
 * -ECONNRESET (as in fk_wait()).
 */
int fk_wait_any(fk_client *client, const fk_job *jobs, size_t n, uint64_t timeout_ns,
		size_t *ret_index);

/*
 * Waits until all of n jobs have ended, with any outcome.
 * jobs, timeout_ns: as in fk_wait_any(). n: 0 is fine. A group costs less for jobs that are
 * submitted together: fk_group_wait().
 * Returns 0, -ETIMEDOUT, -ESTALE (one of the jobs is not there), -ECONNRESET (as in fk_wait()).
 */
int fk_wait_all(fk_client *client, const fk_job *jobs, size_t n, uint64_t timeout_ns);

/*
 * Requests one report of the end of a job: by a call of ended() from fk_dispatch(), or with ended
 * NULL by fk_next_completion(). Options of a submission do that from the start: fk_submit_opts().
 * A job that has already ended is reported as well. If the daemon is gone, every watched job is
 * reported; fk_outcome() of those without an outcome is -ECONNRESET then. A job that is released
 * before it has been reported is not reported.
 * ended: NULL, or called with this data. It may call all functions of the library except
 * fk_close(). data: passed to ended().
 * Returns 0, -ESTALE (no such job), -EALREADY (it is watched, and was not reported yet), -ENOMEM.
 */
int fk_watch(fk_client *client, fk_job job,
	     void (*ended)(fk_client *client, fk_job job, void *data), void *data);

/*
 * Cancels the watch of a job: its end is not reported.
 * Returns 0, -ESTALE (no such job), -FK_E_NOT_WATCHED (or it has been reported: another
 * thread may be in its callback).
 */
int fk_unwatch(fk_client *client, fk_job job);

/*
 * Returns the next job that has ended of those that are watched without a callback, in the order in
 * which the library found their ends. The caller still has to release it.
 * timeout_ns: time limit; FK_FOREVER for none, 0 to only check.
 * ret_data: NULL, or set to the data of fk_watch().
 * Returns 0, -ETIMEDOUT (there is none), -ECONNRESET (the daemon is gone, and every watched job was
 * reported).
 */
int fk_next_completion(fk_client *client, uint64_t timeout_ns, fk_job *ret_job, void **ret_data);

/*
 * Calls the callbacks of watched jobs that have ended, on this thread. Jobs that callbacks watch
 * are reported by the next call.
 * timeout_ns: time limit for the first; FK_FOREVER for none, 0 to only check.
 * Returns the number of calls, 0 after the time limit, or -ECONNRESET (the daemon is gone, and
 * every watched job was reported).
 */
int fk_dispatch(fk_client *client, uint64_t timeout_ns);

/*
 * Returns a descriptor for poll() and similar functions. It is readable while fk_next_completion()
 * or fk_dispatch() has a job, or the end of the daemon, to report. It belongs to the client, and is
 * closed with it. Do not read, write or close it. The first call starts a thread. It sleeps, and
 * checks the connection from time to time while jobs are watched.
 * Returns 0 (the same descriptor each time), -EMFILE, -ENFILE (no descriptor), -FK_E_NO_THREAD,
 * -ENOMEM.
 */
int fk_event_fd(fk_client *client, int *ret_fd);

/*
 * Returns the outcome of a job: how it has ended. Each job gets exactly one outcome.
 * ret_code, ret_signo: NULL, or set to the code of FK_FAILED and the signal of FK_CRASHED (0 if the
 * task ended its process without a signal). The code of FK_EXPIRED is 0 for a deadline, and
 * -EDQUOT if the job used more CPU time than job-cpu-max of forkd.conf.
 * Returns an enum fk_outcome (FK_PENDING while it has not ended), or -ESTALE, -ECONNRESET.
 */
enum fk_outcome {
	FK_PENDING = 1,	  /* none yet */
	FK_DONE = 2,	  /* there is a result */
	FK_FAILED = 3,	  /* the code says why: a negative error, or the task's own number */
	FK_CANCELLED = 4, /* by fk_cancel(), by an operator, or forkd was stopped */
	FK_EXPIRED = 5,	  /* it was not done at its deadline, or exceeded job-cpu-max */
	FK_CRASHED = 6,	  /* the task got a fatal signal, ended its process, or hung */
	FK_LOST = 7,	  /* the pool ended while it ran, and the job is not blamed */
};

int fk_outcome(fk_client *client, fk_job job, int *ret_code, int *ret_signo);

/*
 * Copies the result of a job: packed in the order of the signature, 8 bytes an i64 or f64. Then
 * copies the iobufs that FK_COPY_BUFFERS has copied back to the caller's buffers, in the order of
 * the arguments. Each call that returns 0 does both.
 * result, size: at least fk_task_result_size() bytes.
 * Returns 0, -EINPROGRESS (not ended), -FK_E_RESULT_SIZE (size is too small), -ESTALE,
 * -ECONNRESET, or the error of its outcome:
 *	FK_FAILED     of a task that has begun: its code if that is a negative errno, else
 *	              -EREMOTEIO. The pool sets -ENOMEM (no memory, or past the stack limit) and
 *	              -EPROTO (the task breaks the rules of its API).
 *	              Of a task that the pool has not begun: -FK_E_TASK_GONE, -FK_E_DENIED,
 *	              -FK_E_SIGNATURE, -FK_E_REFERENCE, -FK_E_COPIES, -FK_E_PLACE (no longer
 *	              there), -EROFS (a task may not write to an import), -EKEYREVOKED (the task
 *	              is in quarantine for this user: forkctl quarantine)
 *	FK_CANCELLED  -ECANCELED
 *	FK_EXPIRED    -ETIME
 *	FK_CRASHED    -ENOTRECOVERABLE
 *	FK_LOST       -EOWNERDEAD
 */
int fk_result(fk_client *client, fk_job job, void *result, size_t size);

/* Gets the wait time and run time of a job. Returns 0, -EINPROGRESS (it has not ended), -ESTALE,
 * -ECONNRESET. */
struct fk_timings {
	uint64_t wait_ns; /* from submission to start */
	uint64_t run_ns;  /* from start to end; 0 if its task was not begun */
};

int fk_timings(fk_client *client, fk_job job, struct fk_timings *ret_timings);

/*
 * Frees a job's record, strings and copies. Returns 0, -EBUSY (not ended), -ESTALE (released
 * already).
 */
int fk_release(fk_client *client, fk_job job);

/*
 * Frees the records of n jobs, their strings and copies.
 * Returns 0, or -EBUSY (one has not ended: none was released), -ESTALE (one had been released; the
 * others are released now).
 */
int fk_release_batch(fk_client *client, const fk_job *jobs, size_t n);

/*
 * Requests the end of a job. It ends as FK_CANCELLED: at once if it has not started, otherwise when
 * its tasks reach their next fork or join. The function does not wait for that; fk_wait() does. A
 * job that has ended keeps its outcome, and a job that ends at the same time may be FK_DONE. A
 * second request has no effect. The request survives a crash of the pool: a job that would run
 * again ends as FK_CANCELLED. The request may have an effect after -FK_E_REQUESTS_FULL, too.
 * Returns 0, or -FK_E_REQUESTS_FULL (forkd has many requests of this client to read, or there is no
 * memory to send with: try again), -ESTALE.
 */
int fk_cancel(fk_client *client, fk_job job);

/*
 * Creates a group of jobs to wait for together (struct fk_job_options). Jobs can be added at any
 * time, also while other jobs of the group run.
 * Returns 0 or -FK_E_GROUPS_FULL (64 groups are in use: free some).
 */
int fk_group_new(fk_client *client, fk_group *ret_group);

/*
 * Waits until every job that was submitted with this group has ended, by one sleep for all of them.
 * timeout_ns: as in fk_wait(). fk_outcome() returns the outcome of each.
 * Returns 0, -ETIMEDOUT, -FK_E_NO_GROUP, -ECONNRESET (as in fk_wait()).
 */
int fk_group_wait(fk_client *client, fk_group group, uint64_t timeout_ns);

/*
 * Frees a group. Its jobs stay; release them one by one or as a batch. No other thread may submit
 * with the group at the same time. Returns 0, -EBUSY (a job of it has not ended), -FK_E_NO_GROUP.
 */
int fk_group_free(fk_client *client, fk_group group);

/*
 * Finds a task, submits a job, waits for its end, copies its result and releases it.
 * name: MODULE:TASK. result: the address of an int64_t or a double, or of a structure or an array
 * with one 8-byte number for each result of the task; NULL if the task has no result, or to ignore
 * it. Only the size of a structure or an array is compared.
 * The arguments follow as in fk_submit(): it is a macro of C, too. Waits for room, as FK_WAIT_ROOM
 * does, and copies buffers, as FK_COPY_BUFFERS does: with FK_BUFFER(array, sizeof(array)) a buffer
 * may be any memory. An iobuf has its new contents when the call returns 0.
 * C++ has forkd/client.hpp. Other languages have fk_call_typed(), with options or NULL. types: as
 * in fk_submit_typed(). Bits 48 to 51 have FK_TYPE_I64 or FK_TYPE_F64 for one result of this type,
 * or 0 for results of any type. size: bytes of the result.
 * Returns 0, or the errors of fk_task_find(), fk_submit(), fk_wait() and fk_result(). It returns
 * -FK_E_SIGNATURE if the types, or the size of the result, are not those of the signature.
 * fk_error_text() begins with the name of the task.
 */
#ifdef FKC_DOCUMENTATION
int fk_call(fk_client *client, const char *name, void *result, ...);
#endif
int fk_call_typed(fk_client *client, const char *name, const struct fk_job_options *options,
		  uint64_t types, const union fk_value *values, void *result, size_t size);

/*
 * Calls a task with options: a deadline of 20 ms is FK_OPTIONS(.timeout_ns = 20000000). It is a
 * macro of C, as fk_call() is, with the same result and arguments.
 * options: NULL for the defaults. on_completion(), FK_WATCH and FK_RELEASE are -FK_E_OPTIONS: the
 * call itself waits for the job, and releases it.
 * Returns what fk_call() does, and what fk_submit_batch() returns for the options. A job that was
 * not done at its deadline is -ETIME.
 */
#ifdef FKC_DOCUMENTATION
int fk_call_opts(fk_client *client, const char *name, const struct fk_job_options *options,
		 void *result, ...);
#endif

/*
 * Submits a job that is reported to a callback, and released after it: fk_call() for event loops.
 * It is a macro of C, as fk_call() is, with the same arguments after data.
 * on_completion: called by fk_dispatch() with data when the job has ended, as after fk_watch(). It
 * reads the result by fk_result(). The contents of an iobuf that was copied are copied back then.
 * Waits for records and rings, as FK_WAIT_ROOM does, but not for the heap: it returns
 * -FK_E_HEAP_FULL if the heap has no room for the copies.
 * Other languages have fk_call_async_typed(), with types as in fk_submit_typed().
 * Returns 0, or the errors of fk_task_find() and fk_submit_opts().
 */
#ifdef FKC_DOCUMENTATION
int fk_call_async(fk_client *client, const char *name,
		  void (*on_completion)(fk_client *client, fk_job job, void *data), void *data,
		  ...);
#endif
int fk_call_async_typed(fk_client *client, const char *name,
			void (*on_completion)(fk_client *client, fk_job job, void *data),
			void *data, uint64_t types, const union fk_value *values);

/*
 * Calls a task n times, as n jobs at the same time, and waits for all of them. It is a macro of C,
 * as fk_call() is.
 * name: MODULE:TASK. n: number of jobs; it may be more than the client has records. results: an
 * array for the n results, in the order of the arguments; or NULL.
 * Each argument is an array of n elements, one for each job, or one value for all of them. The
 * elements are 8-byte integers, double, char * or struct fk_buffer. Buffers are copied, as in
 * fk_call(). Jobs are submitted in batches, when there is room. If the heap has no room for copies,
 * the call waits for its own jobs, which free theirs.
 * Other languages have fk_call_each_typed(), with types and size as in fk_call_typed(), size of one
 * result. FK_TYPE_ARRAY in the type of an argument says that its value is an array.
 * Returns 0, or what fk_call() does for the first job that was not done: fk_error_text() has its
 * index. All other jobs have ended as well. The results of jobs that are done are copied, and the
 * other elements of results do not change. Jobs that were submitted before a submission failed are
 * cancelled.
 */
#ifdef FKC_DOCUMENTATION
int fk_call_each(fk_client *client, const char *name, size_t n, void *results, ...);
#endif
int fk_call_each_typed(fk_client *client, const char *name, size_t n, uint64_t types,
		       const union fk_value *values, void *results, size_t size);

/*
 * Takes memory from the shared heap, aligned to a cache line, contents not defined. Tasks can write
 * to what is handed to them and to nothing else. If the heap has no room it grows, to twice its
 * size if that is permitted: the call waits for the manager. It never shrinks; fk_close() gives its
 * memory back.
 * Returns 0, or
 *	-FK_E_HEAP_FULL      the heap would exceed heap-max of forkd.conf
 *	-FK_E_SHARED_MEMORY  all connections together would exceed shared-memory-max
 *	-FK_E_USER_MEMORY    this user would exceed user-shared-memory-max
 *	-FK_E_FORKD_MEMORY   forkd has no memory for it
 *	-ECONNRESET          the daemon is gone
 * fk_error_text() has the sizes.
 */
int fk_alloc(fk_client *client, size_t size, void **ret_data);

/*
 * Gives memory of fk_alloc(), or an import of fk_import(), back. NULL is fine. No job that has not
 * ended may use it: a task finds other data there.
 * Returns 0, or -FK_E_NOT_ALLOCATED (not from fk_alloc() or fk_import(), or free already). For an
 * import also an error of fk_import(): the import stays.
 */
int fk_free(fk_client *client, void *data);

/*
 * Makes size bytes of a memfd, from byte offset on, available to tasks without a copy: as a buf, by
 * the address in *ret_data, where the caller can read them as well. Parts of it that start at a
 * multiple of 8 bytes can be used like those of fk_alloc(). Tasks can only read: a job that gets it
 * as an iobuf fails with -EROFS. fk_free() ends it, fk_close() all of them. The caller can close fd
 * at once.
 * fd: a memfd of ordinary pages, of which each was written. It is sealed (fcntl(2)) with
 * F_SEAL_SHRINK and F_SEAL_GROW, and with F_SEAL_WRITE or F_SEAL_FUTURE_WRITE: with the latter,
 * mappings that exist already can still write, and running tasks may see that.
 * offset: a multiple of 4096. A connection can have 8 imports, and 1 GiB together.
 * Returns 0, or an error with details in fk_error_text():
 *	-EINVAL      the range: size is 0 or too large, or offset is no multiple of 4096, or both
 *	             are beyond the end of the memfd
 *	-EBADF       fd is not open
 *	-ENOTSUP     fd is not a memfd of ordinary pages
 *	-ETXTBSY     a seal is missing
 *	-ENODATA     a page of the range was never written
 *	-EFBIG       the memfd is larger than 1 GiB
 *	-ENOSPC      the connection has no room for it
 *	-FK_E_USER_IMPORTS  the user has 64 imports already
 *	-FK_E_IMPORTS       forkd cannot keep more imports
 *	-FK_E_IMPORT_LATE   another import of the user, or the pool, takes too long
 *	-FK_E_FORKD_MEMORY  forkd cannot check or map it
 * or an error of fk_open().
 */
int fk_import(fk_client *client, int fd, size_t offset, size_t size, void **ret_data);

/*
 * Makes the reference to a buffer that packed arguments have.
 * Returns 0, -FK_E_BUFFER_OUTSIDE, -FK_E_BUFFER_PARTLY, -FK_E_BUFFER_ALIGN or -FK_E_BUFFER_NULL.
 */
int fk_buffer_ref(fk_client *client, struct fk_buffer buffer, struct fk_ref *ret_ref);

/*
 * Returns the errno that is nearest to an error of this library, such as ENOMEM for
 * -FK_E_HEAP_FULL. err: an errno or an enum fk_error, negative or positive; 0 for 0.
 */
int fk_errno(int err);

/*
 * A text for any error of this library. err: an errno or an enum fk_error, negative or positive.
 * Never NULL.
 * An errno that fk_call() or fk_result() return may be a task's own: fk_error_text() tells.
 */
const char *fk_strerror(int err);

/* The name of an outcome: "DONE", "FAILED", and "?" for what is none. Never NULL. */
const char *fk_outcome_name(int outcome);

#ifdef __cplusplus
#define fk_submit(...)	    fk_submit_is_for_C_and_forkd_client_hpp_for_CPP
#define fk_submit_opts(...) fk_submit_opts_is_for_C_and_forkd_client_hpp_for_CPP
#define fk_call(...)	    fk_call_is_for_C_and_forkd_client_hpp_for_CPP
#define fk_call_opts(...)   fk_call_opts_is_for_C_and_forkd_client_hpp_for_CPP
#define fk_call_each(...)   fk_call_each_is_for_C_and_forkd_client_hpp_for_CPP
#define fk_call_async(...)  fk_call_async_is_for_C_and_forkd_client_hpp_for_CPP
#else

/* ------------------------------------------------------------ fk_call() and fk_submit(), in C */

static inline union fk_value fkc_signed(int64_t n)
{
	return (union fk_value){ .i64 = n };
}

static inline union fk_value fkc_unsigned(uint64_t n)
{
	return (union fk_value){ .i64 = (int64_t)n };
}

static inline union fk_value fkc_f32(float x)
{
	return (union fk_value){ .f64 = (double)x };
}

static inline union fk_value fkc_f64(double x)
{
	return (union fk_value){ .f64 = x };
}

static inline union fk_value fkc_str(const char *text)
{
	return (union fk_value){ .str = text };
}

static inline union fk_value fkc_buf(struct fk_buffer buffer)
{
	return (union fk_value){ .buf = buffer };
}

static inline union fk_value fkc_array(const void *array)
{
	return (union fk_value){ .array = array };
}

/* This object does not exist. The compiler shows its name for an argument of another type. */
extern const struct fk_call_takes_integers_double_char_pointers_and_struct_fk_buffer
	fk_call_takes_integers_double_char_pointers_and_struct_fk_buffer;

/* One of these, by the type of x. */
#define FKC_BY_TYPE(x, i64, u64, f32, f64, str, buf, other)                                        \
	_Generic((x), char: i64, signed char: i64, short: i64, int: i64, long: i64,                \
		 long long: i64, _Bool: u64, unsigned char: u64, unsigned short: u64,              \
		 unsigned int: u64, unsigned long: u64, unsigned long long: u64, float: f32,       \
		 double: f64, char *: str, const char *: str, struct fk_buffer: buf,               \
		 default: other)

/* The list of values, from its end to its beginning; the same for the word of their types. */
#define FKC_VALUE(x, rest)                                                                         \
	FKC_BY_TYPE(x, fkc_signed, fkc_unsigned, fkc_f32, fkc_f64, fkc_str, fkc_buf,               \
		    fk_call_takes_integers_double_char_pointers_and_struct_fk_buffer)              \
	(x), rest
#define FKC_VALUE_MORE 0
#define FKC_TYPE(x, rest)                                                                          \
	((uint64_t)FKC_BY_TYPE(x, FK_TYPE_I64, FK_TYPE_I64, FK_TYPE_F64, FK_TYPE_F64, FK_TYPE_STR, \
			       FK_TYPE_BUFFER, 0u) |                                               \
	 (rest) << 4)
#define FKC_TYPE_MORE                                                                              \
	sizeof(struct {                                                                            \
		_Static_assert(0, "fk_call(), fk_submit(): a task has at most 12 arguments");      \
		char none;                                                                         \
	})

/* The same for fk_call_each(): arrays as well. */
#define FKC_BY_ARRAY(x, i64, f64, str, buf, other)                                                 \
	_Generic((x), long *: i64, const long *: i64, unsigned long *: i64,                        \
		 const unsigned long *: i64, long long *: i64, const long long *: i64,             \
		 unsigned long long *: i64, const unsigned long long *: i64, double *: f64,        \
		 const double *: f64, char **: str, const char **: str, char *const *: str,        \
		 const char *const *: str, struct fk_buffer *: buf, const struct fk_buffer *: buf, \
		 default: other)
#define FKC_EACH_VALUE(x, rest)                                                                    \
	FKC_BY_ARRAY(                                                                              \
		x, fkc_array, fkc_array, fkc_array, fkc_array,                                     \
		FKC_BY_TYPE(x, fkc_signed, fkc_unsigned, fkc_f32, fkc_f64, fkc_str, fkc_buf,       \
			    fk_call_takes_integers_double_char_pointers_and_struct_fk_buffer))     \
	(x), rest
#define FKC_EACH_VALUE_MORE FKC_VALUE_MORE
#define FKC_EACH_TYPE(x, rest)                                                                     \
	((uint64_t)FKC_BY_ARRAY(x, FK_TYPE_ARRAY | FK_TYPE_I64, FK_TYPE_ARRAY | FK_TYPE_F64,       \
				FK_TYPE_ARRAY | FK_TYPE_STR, FK_TYPE_ARRAY | FK_TYPE_BUFFER,       \
				FKC_BY_TYPE(x, FK_TYPE_I64, FK_TYPE_I64, FK_TYPE_F64, FK_TYPE_F64, \
					    FK_TYPE_STR, FK_TYPE_BUFFER, 0u)) |                    \
	 (rest) << 4)
#define FKC_EACH_TYPE_MORE		   FKC_TYPE_MORE

/* f(x1, f(x2, ... f(xn, end))) for the x that follow the first one. */
#define FKC_FOLD_MORE(f, end, ...)	   f##_MORE
#define FKC_FOLD_0(f, end, first)	   end
#define FKC_FOLD_1(f, end, first, x)	   f(x, end)
#define FKC_FOLD_2(f, end, first, x, ...)  f(x, FKC_FOLD_1(f, end, first, __VA_ARGS__))
#define FKC_FOLD_3(f, end, first, x, ...)  f(x, FKC_FOLD_2(f, end, first, __VA_ARGS__))
#define FKC_FOLD_4(f, end, first, x, ...)  f(x, FKC_FOLD_3(f, end, first, __VA_ARGS__))
#define FKC_FOLD_5(f, end, first, x, ...)  f(x, FKC_FOLD_4(f, end, first, __VA_ARGS__))
#define FKC_FOLD_6(f, end, first, x, ...)  f(x, FKC_FOLD_5(f, end, first, __VA_ARGS__))
#define FKC_FOLD_7(f, end, first, x, ...)  f(x, FKC_FOLD_6(f, end, first, __VA_ARGS__))
#define FKC_FOLD_8(f, end, first, x, ...)  f(x, FKC_FOLD_7(f, end, first, __VA_ARGS__))
#define FKC_FOLD_9(f, end, first, x, ...)  f(x, FKC_FOLD_8(f, end, first, __VA_ARGS__))
#define FKC_FOLD_10(f, end, first, x, ...) f(x, FKC_FOLD_9(f, end, first, __VA_ARGS__))
#define FKC_FOLD_11(f, end, first, x, ...) f(x, FKC_FOLD_10(f, end, first, __VA_ARGS__))
#define FKC_FOLD_12(f, end, first, x, ...) f(x, FKC_FOLD_11(f, end, first, __VA_ARGS__))
#define FKC_PICK(first, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, pick, ...)        \
	FKC_FOLD_##pick
#define FKC_FOLD(f, end, ...)                                                                      \
	FKC_PICK(__VA_ARGS__, MORE, MORE, MORE, MORE, MORE, MORE, MORE, 12, 11, 10, 9, 8, 7, 6, 5, \
		 4, 3, 2, 1, 0, )                                                                  \
	(f, end, __VA_ARGS__)

#define FKC_FIRST(...)	       FKC_FIRST_(__VA_ARGS__, )
#define FKC_FIRST_(first, ...) first
#define FKC_TYPES(...)	       FKC_FOLD(FKC_TYPE, UINT64_C(0), __VA_ARGS__)
#define FKC_VALUES(...)	       ((const union fk_value[]){ FKC_FOLD(FKC_VALUE, { 0 }, __VA_ARGS__) })

/* No task has a result of type 14 or 15. The address of a pointer is 14, such as that of one & too
 * many. A void * is 15, because its size is not known; the library takes it if it is NULL. */
#define FKC_RESULT_TYPE(result)                                                                    \
	((uint64_t)_Generic((result), long *: FK_TYPE_I64, unsigned long *: FK_TYPE_I64,                     \
			    long long *: FK_TYPE_I64, unsigned long long *: FK_TYPE_I64, double *: FK_TYPE_F64,   \
			    void *: 15u, void **: 14u, const void **: 14u, char **: 14u,           \
			    const char **: 14u, long **: 14u, unsigned long **: 14u,               \
			    long long **: 14u, unsigned long long **: 14u, double **: 14u,         \
			    default: 0u)                                                           \
	 << 48)
#define FKC_RESULT_SIZE(result) sizeof(*_Generic((result), void * : (char *)0, default : (result)))

#define fk_submit(client, task, flags, ...)                                                        \
	fk_submit_typed(client, task, NULL, flags, FKC_FIRST(__VA_ARGS__), FKC_TYPES(__VA_ARGS__), \
			FKC_VALUES(__VA_ARGS__))
#define fk_submit_opts(client, task, options, ...)                                                 \
	fk_submit_typed(client, task, options, 0, FKC_FIRST(__VA_ARGS__), FKC_TYPES(__VA_ARGS__),  \
			FKC_VALUES(__VA_ARGS__))
#define fk_call(client, name, ...) fk_call_opts(client, name, NULL, __VA_ARGS__)
#define fk_call_opts(client, name, options, ...)                                                   \
	fk_call_typed(client, name, options,                                                       \
		      FKC_RESULT_TYPE(FKC_FIRST(__VA_ARGS__)) | FKC_TYPES(__VA_ARGS__),            \
		      FKC_VALUES(__VA_ARGS__), FKC_FIRST(__VA_ARGS__),                             \
		      FKC_RESULT_SIZE(FKC_FIRST(__VA_ARGS__)))
#define fk_call_async(client, name, on_completion, ...)                                            \
	fk_call_async_typed(client, name, on_completion, FKC_FIRST(__VA_ARGS__),                   \
			    FKC_TYPES(__VA_ARGS__), FKC_VALUES(__VA_ARGS__))
#define fk_call_each(client, name, n, ...)                                                         \
	fk_call_each_typed(                                                                        \
		client, name, n,                                                                   \
		FKC_RESULT_TYPE(FKC_FIRST(__VA_ARGS__)) |                                          \
			FKC_FOLD(FKC_EACH_TYPE, UINT64_C(0), __VA_ARGS__),                         \
		((const union fk_value[]){ FKC_FOLD(FKC_EACH_VALUE, { 0 }, __VA_ARGS__) }),        \
		FKC_FIRST(__VA_ARGS__), FKC_RESULT_SIZE(FKC_FIRST(__VA_ARGS__)))
#endif

#ifdef __cplusplus
#pragma GCC diagnostic pop
#endif
#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
