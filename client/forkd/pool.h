/* SPDX-License-Identifier: MIT */
/*
 * forkd/pool.h - a pool of workers in this program
 *
 * fk_open_local() starts workers in the calling process, with the engine of forkd. The program's
 * own functions run on them, with its own memory. All calls of forkd/client.h work on the client.
 * Link with -lforkpool (pkg-config forkd-pool), which includes libforkclient.
 *
 *	static void square(int64_t begin, int64_t end, void *context)
 *	{
 *		double *x = context;
 *
 *		for (int64_t i = begin; i < end; i++)
 *			x[i] *= x[i];
 *	}
 *
 *	fk_client *pool;
 *	int err = fk_open_local(NULL, &pool);
 *
 *	if (!err)
 *		err = fk_for(pool, 0, n, square, x);
 *	fk_close(pool);
 *
 * Tasks of forkd/task.h are called by FK_RUN() and FK_SUBMIT().
 *
 * ERRORS
 *   Functions return 0 or a negative errno or enum fk_error, as those of forkd/client.h do.
 *   fk_error_text() says what failed, why, and what to do.
 *
 * THREADS
 *   Any thread may call these functions, also a worker, within a task or a function that a task
 *   has called. Such a nested call runs in the same job. Its worker does not wait idly. A function
 *   that a worker calls has nearly 8 MiB of stack, also in a nested call.
 *
 * THE HOST PROGRAM
 *   The pool takes one real-time signal whose action is the default, or none (FK_NO_SIGNAL). It
 *   sets no other signal handler, no limits and no atexit() function, starts no process and prints
 *   nothing. Only its own threads are pinned. A fault in a task is a fault of the program. A task
 *   must not call pthread_exit(): that ends the program by SIGABRT.
 *   In a child of fork() all calls return -EPERM, and fk_open_local() starts a new pool. The child
 *   of a task has the signal mask and the CPUs of the thread that started the pool. But a process
 *   that a task starts by posix_spawn() or popen() has the signal mask and the CPU of the worker.
 */
#ifndef FORKD_POOL_H
#define FORKD_POOL_H

#include <stddef.h>
#include <stdint.h>

#include <forkd/client.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

/* A flag of struct fk_local_options: the pool uses no signal. If a task runs for a long time
 * without a fork, the work that it forked before stays on its worker until the next fork. */
#define FK_NO_SIGNAL 1u

/* Options of fk_open_local(). A field of 0 has its default. Reserved fields must be 0: use
 * designated initializers. Only the first client of the process chooses workers, flags and socket:
 * later ones share its pool. */
struct fk_local_options {
	uint32_t workers;   /* number; 0: one on each core that the process may use */
	uint32_t flags;	    /* FK_NO_SIGNAL; 0: none */
	uint32_t n_jobs;    /* jobs of this client at a time, at most 4096; 0: 256 */
	uint32_t reserved0; /* 0 */
	uint64_t heap_size; /* bytes that fk_alloc() can give in total; 0: 64 MiB */
	/* path of a socket for forkctl status, top, counters, jobs and trace (--socket PATH), by
	 * root and the program's user; NULL: none */
	const char *socket;
	uint64_t reserved[4]; /* 0 */
};

/*
 * Opens a client of this process's pool, and starts the pool for the first one.
 * options: NULL for the defaults. *ret_client: end it with fk_close(), which cancels
 * the jobs of the client and waits until they have ended. The last one ends the threads. Within a
 * task, fk_close() returns -EDEADLK.
 * Returns 0, or
 *	-FK_E_RESERVED  a reserved field or an unknown flag is not 0
 *	-EINVAL         workers is more than 256, n_jobs more than 4096, or heap_size more than
 *	                1 TiB
 *	-EMFILE         no descriptors for the socket
 *	-EAGAIN         no thread can be started
 *	-EADDRINUSE     another process listens on the socket; or another error of bind(2)
 *	-EBUSY          64 clients are open
 *	-ENOMEM         no memory
 */
int fk_open_local(const struct fk_local_options *options, fk_client **ret_client);

/*
 * Loads a module, FILE.so, into the pool of a client of fk_open_local(). Its tasks are then found
 * by their names, MODULE:TASK. It stays loaded until the pool ends. Its constructors may call all
 * functions of this file, but no task that loads a module.
 * Returns 0, or
 *	-FK_E_NOT_LOCAL  the client is of the machine's forkd
 *	-ENOEXEC         the file is no module
 *	-EINVAL          it is a module of another version, or has tasks that cannot be loaded
 *	-EEXIST          a task of this name is loaded already
 * or another error of opening the file.
 */
int fk_load(fk_client *client, const char *path);

/*
 * Calls body for parts of the range from begin to end. The parts cover the range once. The calls
 * run in parallel on the workers, and have ended when the function returns. They must not write to
 * the same memory.
 * client: of fk_open_local(). Within a task it is not used, and may be NULL.
 * begin, end: if begin is not below end, nothing is called, and the result is 0.
 * body: gets a part, first <= i < last, at most grain numbers long.
 * grain: 0 or less: the library chooses, a 16th of a worker's share, at most 2048. A single worker
 * gets up to 4 numbers at a time, at most a quarter of the range. fk_for() passes 0.
 * context: passed to each call.
 * Returns 0, or
 *	-FK_E_NOT_LOCAL  the client is of the machine's forkd, which cannot call functions of this
 *	                 program
 *	-ECANCELED       within a task: its job was cancelled, has expired or has failed; some
 *	                 functions may not have been called
 *	-EINVAL          the caller is a fiber on a shared stack
 *	-FK_E_NULL       client is NULL, and the caller is no task
 *	-ENOMEM          no memory for frames or stacks, or 64 nested calls wait on this worker
 *	-EPERM           in a child of fork()
 */
int fk_for_grain(fk_client *client, int64_t begin, int64_t end, int64_t grain,
		 void (*body)(int64_t first, int64_t last, void *context), void *context);

static inline int fk_for(fk_client *client, int64_t begin, int64_t end,
			 void (*body)(int64_t first, int64_t last, void *context), void *context)
{
	return fk_for_grain(client, begin, end, 0, body, context);
}

/* Calls body for each of n elements of size bytes at array, in parallel. Client, context and errors
 * are as in fk_for(). */
int fk_for_each(fk_client *client, void *array, size_t n, size_t size,
		void (*body)(void *element, void *context), void *context);

/* A reduction, for fk_reduce(). */
struct fk_reduction {
	size_t size;	      /* bytes of a result; results are aligned to 16 bytes */
	const void *identity; /* result of an empty range */
	/* adds a part of the range, first <= i < last, to *result */
	void (*body)(int64_t first, int64_t last, void *result, void *context);
	/* adds *right to *left; associative. *left is of numbers before those of *right. */
	void (*combine)(void *left, const void *right, void *context);
	int64_t grain; /* as in fk_for_grain() */
};

/*
 * Reduces the range from begin to end, in parallel: reduction->body adds parts of it to results,
 * and reduction->combine adds these up in order. The result is the same in each run if both are
 * exact. Client, context and errors are as in fk_for().
 * ret_result: reduction->size bytes, undefined after an error.
 */
int fk_reduce(fk_client *client, int64_t begin, int64_t end, const struct fk_reduction *reduction,
	      void *ret_result, void *context);

/*
 * Sorts n elements of size bytes at array, in parallel. Equal elements keep their order. The
 * function needs additional memory: n * size bytes, and 16 bytes for each element that has not 4 or
 * 8 bytes. Without it the result is -ENOMEM, and the array is unchanged. After -ECANCELED some
 * elements may be lost, and others there twice. Client, context and errors are as in fk_for().
 * compare: as for qsort_r(3).
 */
int fk_sort(fk_client *client, void *array, size_t n, size_t size,
	    int (*compare)(const void *a, const void *b, void *context), void *context);

/* A call of fk_invoke(): function(context). */
struct fk_function {
	void (*function)(void *context); /* the function */
	void *context;			 /* its argument */
};

/* Calls n functions in parallel. They have ended when fk_invoke() returns. The first one runs
 * first, on this thread if that is a worker. Client and errors are as in fk_for(). */
int fk_invoke(fk_client *client, const struct fk_function *functions, size_t n);

#ifndef __cplusplus /* there "struct fk_task" would be the fk_task of forkd/client.h */
struct fk_worker;
struct fk_task;

/* A task of this program with its arguments, and the functions that call it. FK_RUN() and
 * FK_SUBMIT() make and use them; programs do not. */
struct fk_program_task {
	/* begins the task */
	void (*enter)(struct fk_worker *w, char *sp, void *result, const void *args);
	const struct fk_task *task; /* the task */
	size_t result_size;	    /* bytes of its result */
	size_t args_size;	    /* bytes of its arguments */
};

int fk_run_task(fk_client *client, const struct fk_program_task *task, void *result,
		const void *args);
int fk_submit_task(fk_client *client, const struct fk_program_task *task, void *result,
		   const void *args, fk_job *ret_job);

/*
 * Calls a task of this program and waits for it. A macro of C.
 * client: fk_client *, as in fk_for().
 * result: pointer to the type of the task's result; NULL for fk_void.
 * task_: name of FK_TASK() or similar, declared above in the same file.
 * The arguments of the task follow, which may be of any type, such as pointers.
 * Returns 0, the code of FK_FAIL() as fk_call() does, or the errors of fk_for(). Within a task
 * FK_FAIL() makes the caller's job fail, and the result is -ECANCELED. -EINVAL: the caller is a
 * fiber on a shared stack, and an argument is an address on it.
 */
#define FK_RUN(client, result, task_, ...)                                                         \
	__extension__({                                                                            \
		FK_PROGRAM_CHECK_(FK_RUN, result, task_, __VA_ARGS__);                             \
		fk_run_task(client, FK_PROGRAM_TASK_(task_), result,                               \
			    &(const struct task_##__args){ __VA_ARGS__ });                         \
	})

/*
 * Starts a task of this program as a job. A macro of C.
 * client: of fk_open_local(), also within a task, which the job does not become a part of.
 * task_: as in FK_RUN(). The arguments of the task follow, at most 64 bytes.
 * ret_job: fk_job *, for fk_wait() and all other calls of forkd/client.h, until fk_release().
 * result: as in FK_RUN(). The task writes it before the job ends, so it must live as long.
 * Returns 0 or the errors of fk_submit().
 */
#define FK_SUBMIT(client, ret_job, result, task_, ...)                                             \
	__extension__({                                                                            \
		FK_PROGRAM_CHECK_(FK_SUBMIT, result, task_, __VA_ARGS__);                          \
		_Static_assert(sizeof(struct task_##__args) <= 64,                                 \
			       "FK_SUBMIT: " #task_ " has more than 64 bytes of arguments: "       \
			       "pass a pointer");                                                  \
		fk_submit_task(client, FK_PROGRAM_TASK_(task_), result,                            \
			       &(const struct task_##__args){ __VA_ARGS__ }, ret_job);             \
	})

/* Too few arguments, or a result of another type, are errors here; nothing is evaluated. */
#define FK_PROGRAM_CHECK_(macro, result, task_, ...)                                               \
	FK_CHECK_ARGS(task_, __VA_ARGS__);                                                         \
	_Static_assert(__builtin_types_compatible_p(__typeof__(result), task_##__ret *) ||         \
			       (__builtin_types_compatible_p(task_##__ret, fk_void) &&             \
				__builtin_types_compatible_p(__typeof__(result), void *)),         \
		       #macro ": result must point to the type of the result of " #task_           \
			      ", or be NULL if that is fk_void")
#define FK_PROGRAM_TASK_(task_)                                                                    \
	(&(const struct fk_program_task){ task_##__enter, &task_##__task, sizeof(task_##__ret),    \
					  sizeof(struct task_##__args) })
#endif

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
