/* SPDX-License-Identifier: MIT */
/*
 * forkd/fiber.h - ordinary C functions as tasks: fibers
 *
 * Runs C functions as fibers: many small stacks on the few workers that run frames (forkd/task.h).
 * A fiber may call any function, and can wait in the middle of it. While it waits, its worker runs
 * other work. A fiber costs about a hundred times as much as a fork, so use fibers for code that
 * cannot be written as frames.
 *
 * 	static void part(void *arg)
 * 	{
 * 		struct part *p = arg;
 *
 * 		p->sum = sum_of_file(p->name);
 * 	}
 *
 * 	FK_FIBER_TASK(int64_t, total, (struct fk_buf, names))
 * 	{
 * 		struct fk_counter running = FK_COUNTER;
 * 		struct part parts[PARTS];
 *
 * 		... fk_fiber_spawn(part, &parts[i], &running); ...
 * 		if (fk_counter_wait(&running, 0) < 0)
 * 			return 0;
 * 		... adds them up ...
 * 	}
 * 	FK_EXPORT_RESULTS(total, (int64_t, sum), 0, "Sums files up")
 *
 * An FK_FIBER_TASK is exported, forked and called as any task, with arguments and a result. Its
 * body is a C function that runs as a fiber. The task ends when the function has returned and all
 * fibers that it has spawned, directly or indirectly, have ended.
 *
 * Threads: the functions below are for fibers, and return -EPERM elsewhere. Any code of a task may
 * call fk_counter_add().
 *
 * RULES FOR FIBERS
 *   - Each function or macro of this file can resume the fiber on another worker, that is, on
 *     another thread. Do not use thread-local variables, such as errno, across a call, and do not
 *     hold a lock across one.
 *   - The stack is small (FK_FIBER_STACK) unless another size is given. An overflow ends the job as
 *     CRASHED.
 *   - When the job has failed, was cancelled or has expired, waits return -ECANCELED at once. No
 *     fiber is ended from outside: it must return, and can free its resources before. Fibers that
 *     have not begun by then do not begin.
 *   - FK_FORK, FK_JOIN and similar macros are for bodies of frames. FK_FIBER_CALL runs a task of
 *     frames from a fiber.
 */
#ifndef FORKD_FIBER_H
#define FORKD_FIBER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <forkd/task.h>

#ifdef FK_RACES
#error "forkctl check --tsan takes modules without fibers: see contrib/guide/debug.md"
#endif

/* Constants of fibers. */
#define FK_FIBER_STACK 65536u	  /* default size of a stack, bytes */
#define FK_NEVER       UINT64_MAX /* a deadline in ns that never passes */

/*
 * Kinds of stacks, for fk_fiber_spawn_on().
 *	FK_STACK_GUARDED  with a guard page: an overflow ends the job at once
 *	FK_STACK_SLAB     without guard pages, for very many fibers with shallow stacks; each takes
 *	                  a page at least. An overflow writes to the next stack. It ends the pool
 *	                  at the next wait, unless it has skipped the bytes that are checked there.
 *	FK_STACK_SHARED   fibers run on a guarded stack of their worker, of 256 KiB, whatever size
 *	                  is given. While a fiber waits, its part of the stack is in a copy of that
 *	                  size. For very many fibers that are shallow when they wait. A fiber that
 *	                  has begun stays on its worker. Data that others use while the fiber waits
 *	                  must not be on its stack: fk_fiber_spawn() and fk_counter_wait() return
 *	                  -EINVAL for such an argument or counter if they can detect it. Waits,
 *	                  sleeps, yields and calls can return -ENOMEM: there is no memory for the
 *	                  copy, or stack-max is reached.
 */
#define FK_STACK_GUARDED 0u
#define FK_STACK_SLAB	 1u
#define FK_STACK_SHARED	 2u

/*
 * A number that fibers can wait for by fk_counter_wait(). These are its initial values:
 *	FK_COUNTER        the number of fibers that were spawned with it and have not ended; starts
 *	                  with 0
 *	FK_COUNTER_OF(n)  a number that fk_counter_add() changes; starts with n, at most
 *	                  FK_COUNTER_MAX
 * Do not move or free it while it is in use. It may be on the stack of the fiber that waits for it.
 */
struct fk_counter {
	_Atomic uint64_t fk_word;
	void *fk_waiters;
	uint64_t fk_kind;
};

#define FK_COUNTER	    ((struct fk_counter){ FK_COUNTER_WORD_(0), NULL, 0 })
#define FK_COUNTER_OF(n)    ((struct fk_counter){ FK_COUNTER_WORD_(n), NULL, 1 })
#define FK_COUNTER_MAX	    ((1u << 25) - 1)
#define FK_COUNTER_WORD_(n) (UINT64_C(1) << 51 | (uint64_t)(n) << 1)

/* Operations of fk_rt_fiber_io(). */
enum fk_io {
	FK_IO_READ,
	FK_IO_WRITE,
	FK_IO_ACCEPT,
	FK_IO_POLL,
};

/* The runtime, in the pool (daemon/fiber/fiber.h). Not for authors. */
FK_COLD int fk_rt_fiber_spawn(void (*fn)(void *arg), void *arg, struct fk_counter *counter,
			      uint32_t kind, size_t stack, const char *name);
FK_COLD int fk_rt_fiber_yield(void);
FK_COLD bool fk_rt_fiber_is_over(void);
FK_COLD int fk_rt_fiber_fail(int code);
FK_COLD int fk_rt_fiber_block_begin(void);
FK_COLD int fk_rt_fiber_block_end(void);
FK_COLD int fk_rt_fiber_sleep(uint64_t ns, bool from_now);
FK_COLD int fk_rt_counter_wait(struct fk_counter *counter, uint32_t value, uint64_t deadline_ns);
FK_COLD int fk_rt_counter_add(struct fk_counter *counter, int32_t n);
FK_COLD int64_t fk_rt_fiber_io(enum fk_io what, int fd, void *data, size_t size,
			       uint64_t deadline_ns);
FK_COLD void **fk_rt_fiber_local(_Atomic uint32_t *key, void (*end)(void *value));
FK_COLD int
fk_rt_fiber_call(void (*enter)(struct fk_worker *w, char *sp, void *result, const void *args),
		 const struct fk_task *task, void *result, size_t size, const void *args);
/* For the body of a frame: runs fn(frame) as a fiber, and resumes the frame at this site when the
 * fiber and all that it has spawned have ended. Returns the frame to run next; NULL: the job has
 * failed, continue. */
FK_COLD struct fk_frame *fk_rt_fiber_run(struct fk_worker *w, struct fk_frame *frame, uint32_t site,
					 void (*fn)(void *frame), size_t stack, const char *name);

/*
 * Starts a fiber that runs fn(arg), in parallel with the caller. fk_fiber_spawn_sized() gives it a
 * stack of another size, and fk_fiber_spawn_on() a stack of another kind.
 * fn: void (*)(void *). arg: void *. counter: struct fk_counter *: NULL, or incremented now, and
 * decremented when the fiber has ended. stack: bytes, at most 1 MiB; otherwise FK_FIBER_STACK.
 * kind: FK_STACK_GUARDED, FK_STACK_SLAB or FK_STACK_SHARED.
 * The fiber starts on this worker when the caller next waits, or earlier on an idle worker. Do not
 * rely on either.
 * Returns 0, or an error without any effect:
 *	-ENOMEM     no memory for its stack, or stack-max of the job is reached
 *	-EMFILE     no more guard pages (vm.max_map_count, and a kernel before 6.13)
 *	-ECANCELED  the job was cancelled, has expired or has failed
 *	-EINVAL     the counter is no FK_COUNTER, the kind is unknown, or the stack is too large
 *	-ERANGE     the counter would exceed FK_COUNTER_MAX
 *	-EPERM      the caller is no fiber
 */
#define fk_fiber_spawn(fn, arg, counter) fk_fiber_spawn_sized(fn, arg, counter, FK_FIBER_STACK)
#define fk_fiber_spawn_sized(fn, arg, counter, stack)                                              \
	fk_fiber_spawn_on(fn, arg, counter, FK_STACK_GUARDED, stack)
#define fk_fiber_spawn_on(fn, arg, counter, kind, stack)                                           \
	fk_rt_fiber_spawn(fn, arg, counter, kind, stack, #fn)

/*
 * Waits until the counter is at most value. The worker runs other work in the meantime.
 * Returns 0, or
 *	-ECANCELED  the job was cancelled, has expired or has failed
 *	-EINVAL     not a counter
 *	-ENOMEM     see FK_STACK_SHARED
 *	-EPERM      the caller is no fiber
 * An FK_COUNTER is at most value after -ECANCELED, too, unless the caller is one of the fibers that
 * it counts. So with value 0, the counter and the arguments of these fibers may be on the caller's
 * stack. If the job must end and all of its fibers wait for each other, some of these waits end at
 * once: forkd-fibers(7) lists them.
 */
static inline int fk_counter_wait(struct fk_counter *counter, uint32_t value)
{
	return fk_rt_counter_wait(counter, value, FK_NEVER);
}

/*
 * As fk_counter_wait(), with a deadline: CLOCK_MONOTONIC, ns; FK_NEVER for none.
 * Returns what fk_counter_wait() does, or
 *	-ETIMEDOUT  the deadline has passed, and the counter is above the value
 *	-ENOMEM     no memory to wait
 * After these two errors fibers that were spawned with the counter may still run. Wait for the
 * counter once more before the caller returns.
 */
static inline int fk_counter_wait_until(struct fk_counter *counter, uint32_t value,
					uint64_t deadline_ns)
{
	return fk_rt_counter_wait(counter, value, deadline_ns);
}

/*
 * Adds n, which may be negative, to an FK_COUNTER_OF, and wakes the fibers that wait for the new
 * value. Any code of a task of the same job may call it.
 * Returns 0, -ERANGE (the result would be below 0 or above FK_COUNTER_MAX; nothing has changed), or
 * -EINVAL (no FK_COUNTER_OF).
 */
static inline int fk_counter_add(struct fk_counter *counter, int32_t n)
{
	return fk_rt_counter_add(counter, n);
}

/* Lets other work of this worker run first. Returns 0; -ECANCELED: the job was cancelled, has
 * expired or has failed; -ENOMEM: see FK_STACK_SHARED; -EPERM: the caller is no fiber. */
static inline int fk_fiber_yield(void)
{
	return fk_rt_fiber_yield();
}

/*
 * Sleeps for at least ns. The worker runs other work in the meantime. 0 is fk_fiber_yield().
 * Returns 0; -ECANCELED: the job was cancelled, has expired or has failed; -ENOMEM: no memory to
 * wait; -EPERM: the caller is no fiber.
 */
static inline int fk_fiber_sleep(uint64_t ns)
{
	return fk_rt_fiber_sleep(ns, true);
}

/* As fk_fiber_sleep(), until a time: CLOCK_MONOTONIC, ns. A time in the past is
 * fk_fiber_yield(). */
static inline int fk_fiber_sleep_until(uint64_t deadline_ns)
{
	return fk_rt_fiber_sleep(deadline_ns, false);
}

/*
 * Input and output. If an operation has to wait, the fiber waits, and its worker does not, with and
 * without O_NONBLOCK. An operation is normally tried immediately. After several operations of this
 * fiber that had to wait, the next ones go directly to the poller thread.
 *	fk_fiber_read()    as read(2): at most size bytes, at the position of the file
 *	fk_fiber_write()   as write(2); it may write fewer bytes
 *	fk_fiber_accept()  as accept(2); the new descriptor is close-on-exec
 *	fk_fiber_poll()    as poll(2) for one descriptor; returns the events
 * deadline_ns: CLOCK_MONOTONIC; FK_NEVER for none.
 * A wait continues if another thread closes the descriptor.
 * Returns 0 or more, or an error after which no byte was read or written and no connection
 * accepted: the error of the system call, or
 *	-ETIMEDOUT  the deadline has passed
 *	-ECANCELED  the job was cancelled, has expired or has failed
 *	-EPERM      the caller is no fiber
 *	-ENOSYS     the operation has to wait, and the kernel has no io_uring for forkd
 *	-ENOMEM     no memory to wait
 *	-EINVAL     data is on a shared stack
 */
static inline int64_t fk_fiber_read(int fd, void *data, size_t size, uint64_t deadline_ns)
{
	return fk_rt_fiber_io(FK_IO_READ, fd, data, size, deadline_ns);
}

static inline int64_t fk_fiber_write(int fd, const void *data, size_t size, uint64_t deadline_ns)
{
	return fk_rt_fiber_io(FK_IO_WRITE, fd, (void *)(uintptr_t)data, size, deadline_ns);
}

static inline int fk_fiber_accept(int fd, uint64_t deadline_ns)
{
	return (int)fk_rt_fiber_io(FK_IO_ACCEPT, fd, NULL, 0, deadline_ns);
}

static inline int fk_fiber_poll(int fd, uint32_t events, uint64_t deadline_ns)
{
	return (int)fk_rt_fiber_io(FK_IO_POLL, fd, NULL, events, deadline_ns);
}

/*
 * A blocking section, from begin to end, may block its thread: by read(2), a lock, or a library
 * that waits. The fiber runs on a separate thread in it, and the worker continues with other work.
 * At most blocking-max sections run at the same time (forkd.conf); further ones wait in begin.
 * In a section the functions and macros of this file return what they return outside of fibers:
 * -EPERM in most cases. So does a second begin. fk_fiber_is_over() and fk_counter_add() work. No
 * system call is interrupted when the job must end. A section costs some tens of microseconds.
 * Compute outside of it.
 *
 * begin returns 0, or an error, and no section has begun:
 *	-ECANCELED  the job was cancelled, has expired or has failed
 *	-EAGAIN     no thread could be created
 *	-ENOTSUP    the fiber has a shared stack
 *	-EPERM      the caller is no fiber, or is in a section
 * The same fiber ends the section. A section also ends when the fiber's function returns.
 * end returns 0; -ECANCELED: the job was cancelled, has expired or has failed, and the section has
 * ended; -EPERM: the caller is in no section. Read errno before end.
 */
static inline int fk_fiber_block_begin(void)
{
	return fk_rt_fiber_block_begin();
}

static inline int fk_fiber_block_end(void)
{
	return fk_rt_fiber_block_end();
}

/* Returns true if the job of the fiber was cancelled, has expired or has failed. For long loops
 * without waits. */
static inline bool fk_fiber_is_over(void)
{
	return fk_rt_fiber_is_over();
}

/* Makes the job fail with this code: a negative errno, or a number of the task, not 0. The first
 * code of a job counts. Returns 0; -EPERM: the caller is no fiber. */
static inline int fk_fiber_fail(int code)
{
	return fk_rt_fiber_fail(code);
}

/*
 * Fiber-local data. A static variable with the initializer FK_LOCAL(end) is a key, with which
 * fk_fiber_local() finds the value of a fiber.
 * end: NULL, or called for each value that is not NULL when a fiber ends, in that fiber. The value
 * is NULL then. If end() stores new values, this is repeated, FK_LOCAL_PASSES times at most; values
 * left after that are leaked. (Compare pthread_key_create(3).)
 */
struct fk_local {
	_Atomic uint32_t fk_index; /* + 1, once it is used */
	void (*fk_end)(void *value);
};

#define FK_LOCALS	16u /* keys in a pool, of all modules together */
#define FK_LOCAL_PASSES 4u  /* calls of end() for one key and fiber, at most */
#define FK_LOCAL(end)                                                                              \
	{                                                                                          \
		.fk_end = (end)                                                                    \
	}

/* Returns the place of the calling fiber's value of this key, NULL at first. Returns NULL if the
 * caller is no fiber, there are more than FK_LOCALS keys, or there is no memory. */
static inline void **fk_fiber_local(struct fk_local *key)
{
	return fk_rt_fiber_local(&key->fk_index, key->fk_end);
}

/*
 * Runs a task of frames with these arguments, and waits for its end. It begins at once on the
 * fiber's worker.
 * result: gets the result of the task.
 * Returns 0; -ECANCELED: the job was cancelled, has expired or has failed, and *result is
 * undefined; -ENOMEM: see FK_STACK_SHARED; -EPERM: the caller is no fiber.
 */
#define FK_FIBER_CALL(result, task, ...)                                                           \
	__extension__({                                                                            \
		FK_CHECK_ARGS(task, __VA_ARGS__);                                                  \
		_Static_assert(                                                                    \
			__builtin_types_compatible_p(__typeof__(&(result)[0]), task##__ret *),     \
			"FK_FIBER_CALL: " #result " must point to the result type of " #task);     \
		struct task##__args fk_child_args = { __VA_ARGS__ };                               \
		task##__ret *fk_child_result = (result);                                           \
		fk_rt_fiber_call(task##__enter, &task##__task, fk_child_result,                    \
				 sizeof(*fk_child_result), &fk_child_args);                        \
	})

/*
 * Defines a task that runs as a fiber. The block that follows is the body of a C function.
 * FK_FIBER_TASK_SIZED() gives it a stack of another size.
 * ret, NAME, params: as in FK_DECLARE(). stack: bytes, at least; otherwise FK_FIBER_STACK.
 */
#define FK_FIBER_TASK(ret, NAME, params) FK_FIBER_TASK_SIZED(ret, NAME, params, FK_FIBER_STACK)
#define FK_FIBER_TASK_SIZED(ret, NAME, params, stack)                                              \
	FK_DECLARE(ret, NAME, params, ret fk_value;)                                               \
	FK_FIBER_DEFINE_SIZED(ret, NAME, params, stack)
/* Declares a task that runs as a fiber and is defined further down, so that others can fork or call
 * it. FK_FIBER_DEFINE() defines it, as FK_FIBER_TASK() does, and FK_FIBER_DEFINE_SIZED() with a
 * stack of another size. ret, NAME, params: as in FK_DECLARE(). stack: bytes, at least. */
#define FK_FIBER_DECLARE(ret, NAME, params) FK_DECLARE(ret, NAME, params, ret fk_value;)
#define FK_FIBER_DEFINE(ret, NAME, params)  FK_FIBER_DEFINE_SIZED(ret, NAME, params, FK_FIBER_STACK)
#define FK_FIBER_DEFINE_SIZED(ret, NAME, params, stack)                                            \
	static ret NAME##__fiber(void *fk_none FK_PASS(FK_PARAM, params));                         \
	static void NAME##__run(void *frame)                                                       \
	{                                                                                          \
		struct NAME##__frame *self = frame;                                                \
		self->fk_value = NAME##__fiber(NULL FK_PASS(FK_OF_SELF_, params));                 \
	}                                                                                          \
	FK_DEFINE(ret, NAME, params)                                                               \
	FK_NO_LEAF(NAME)                                                                           \
	{                                                                                          \
		FK_FIBER_RUN_(__COUNTER__ + 1, NAME##__run, stack, #NAME);                         \
		FK_RETURN_VALUE(self->fk_value);                                                   \
	}                                                                                          \
	FK_END(NAME)                                                                               \
	static ret NAME##__fiber(void *fk_none __attribute__((unused)) FK_PASS(FK_MAYBE, params))

#define FK_OF_SELF_(type, name) , self->name
#define FK_FIBER_RUN_(n, fn_, stack_, name_)                                                       \
	do {                                                                                       \
		FK_NOT_DESCRIBED();                                                                \
		if (FK_IS_FRESH)                                                                   \
			fk_rt_unnest(fk_w, &self->fk, (char *)self, 2 * (n));                      \
		FK_RESUMES_AT(2 * (n));                                                            \
		FK_NOT_DESCRIBED();                                                                \
		if (fk_mode == FK_RESUMED) {                                                       \
			*fk_next =                                                                 \
				fk_rt_fiber_run(fk_w, &self->fk, 2 * (n) + 1, fn_, stack_, name_); \
			if (*fk_next)                                                              \
				return (fk_ended){};                                               \
		}                                                                                  \
		FK_RESUMES_AT(2 * (n) + 1);                                                        \
		FK_NOT_DESCRIBED();                                                                \
	} while (0)

#endif
