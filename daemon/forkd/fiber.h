/* SPDX-License-Identifier: MIT */
/*
 * forkd/fiber.h - ordinary C functions as tasks: fibers
 *
 * What a module's author needs to run C functions on small stacks of their own, many to few, on the
 * workers that run frames (forkd/task.h). A fiber may call any function, and wait in the middle
 * of it; while it waits, its worker runs something else. A fiber costs some hundred times what a
 * fork does, so it is for code that cannot be written as frames.
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
 * An FK_FIBER_TASK is a task as any other: it is exported, forked and called like one, has the
 * arguments and the result of one, and is a C function that runs as a fiber. It has ended when the
 * function has returned, and so has every fiber that it has spawned, and what those have.
 *
 * Threads: fibers: the functions below return -EPERM elsewhere. fk_counter_add(): any code of a
 * task.
 *
 * WHAT A FIBER MUST KNOW
 *   - It may go on on another worker, hence another thread, after each call of a function or macro
 *     of this file. Thread-local variables, errno among them, are not to be used across one; nor is
 *     a lock to be held across one.
 *   - Its stack is small (FK_FIBER_STACK) unless it asks for another size. What overflows ends the
 *     job as CRASHED.
 *   - When its job has failed, was cancelled or is late, waits return -ECANCELED, at once. No fiber
 *     is ended from outside: it is to return, and may give back what it holds before. Fibers that
 *     have not begun by then do not begin.
 *   - FK_FORK, FK_JOIN and their like are for bodies of frames. A fiber runs a task of frames by
 *     FK_FIBER_CALL.
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

#define FK_FIBER_STACK 65536u	  /* bytes, unless another size is asked for */
#define FK_NEVER       UINT64_MAX /* a time that does not come */

/*
 * Kinds of stacks:
 *   FK_STACK_GUARDED	a page below it cannot be touched: what overflows ends at once
 *   FK_STACK_SLAB	stacks stand side by side, for very many fibers that are shallow: each has
 *			a page at least. What overflows writes to another one, and ends the pool at
 *			the next wait, unless it has jumped over what is looked at there.
 *   FK_STACK_SHARED	fibers run on a stack of their worker's, guarded and of 256 KiB, whatever
 *			is asked for; while one waits, what it has there is in a copy of that size.
 *			For very many fibers that are shallow when they wait. Once they have begun
 *			they stay with their worker. What others read or write while they wait must
 *			not stand on their stack: fk_fiber_spawn() and fk_counter_wait() return
 *			-EINVAL for an argument or a counter that does, where they can tell. Who
 *			waits, sleeps, yields or calls may be told -ENOMEM: no memory for the copy,
 *			or stack-max does not allow it.
 */
#define FK_STACK_GUARDED 0u
#define FK_STACK_SLAB	 1u
#define FK_STACK_SHARED	 2u

/*
 * A number that fibers wait for, of one of two kinds:
 *   FK_COUNTER		counts fibers that were spawned with it and have not ended; begins with none
 *   FK_COUNTER_OF(n)	counts whatever its users say, by fk_counter_add(); begins with n
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

/* What fk_rt_fiber_io() does. */
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
/* A frame's body: runs this as a fiber, which gets the frame, and goes on at this site when it and
 * all that it has spawned have ended. Returns what to run next; NULL: the job has failed, go on. */
FK_COLD struct fk_frame *fk_rt_fiber_run(struct fk_worker *w, struct fk_frame *frame, uint32_t site,
					 void (*fn)(void *frame), size_t stack, const char *name);

/*
 * Starts a fiber that runs fn(arg), beside the caller. counter, if not NULL: counted up by one now,
 * and down when the fiber has ended. Do not rely on where the fiber begins: on this worker as soon
 * as the caller waits, or on another that has nothing to do.
 * Returns 0; -ENOMEM: no memory for its stack, or the job may have no more (stack-max); -EMFILE: no
 * page can be guarded any more (vm.max_map_count, and a kernel before 6.13); -ECANCELED: the job is
 * over; -EINVAL: the counter is no FK_COUNTER; -ERANGE: it counts too many; -EPERM: the caller is
 * no fiber. Nothing has happened then.
 */
#define fk_fiber_spawn(fn, arg, counter) fk_fiber_spawn_sized(fn, arg, counter, FK_FIBER_STACK)
/* The same with a stack of this many bytes, up to 1 MiB. -EINVAL: there are none so large. */
#define fk_fiber_spawn_sized(fn, arg, counter, stack)                                              \
	fk_fiber_spawn_on(fn, arg, counter, FK_STACK_GUARDED, stack)
/* The same on a stack of this kind, FK_STACK_..., and of this many bytes. -EINVAL: there is no such
 * kind, too. */
#define fk_fiber_spawn_on(fn, arg, counter, kind, stack)                                           \
	fk_rt_fiber_spawn(fn, arg, counter, kind, stack, #fn)

/*
 * Waits until the counter is at this value, or below; the worker runs something else meanwhile.
 * Returns 0; -ECANCELED: the job is over; -EINVAL: it is no counter; -ENOMEM: see FK_STACK_SHARED;
 * -EPERM: the caller is no fiber. With -ECANCELED too, an FK_COUNTER is at this value, or below,
 * unless the caller is one of those that it counts: so if the value is 0 the counter, and what they
 * have got as arguments, may be on the caller's stack. Where the job is over and all of its fibers
 * wait for each other's end, some of these waits end at once: forkd-fibers(7) says which.
 */
static inline int fk_counter_wait(struct fk_counter *counter, uint32_t value)
{
	return fk_rt_counter_wait(counter, value, FK_NEVER);
}

/*
 * The same until a time at most: CLOCK_MONOTONIC, ns. FK_NEVER: without one.
 * Returns 0 or an error as fk_counter_wait() does; -ETIMEDOUT: the time has come, or had come
 * before, and the counter is above the value; -ENOMEM: no memory to wait with. With these two,
 * fibers that were spawned with the counter may run still: it is to be waited for once more before
 * the caller returns.
 */
static inline int fk_counter_wait_until(struct fk_counter *counter, uint32_t value,
					uint64_t deadline_ns)
{
	return fk_rt_counter_wait(counter, value, deadline_ns);
}

/*
 * Adds n, which may be negative, to an FK_COUNTER_OF, and wakes the fibers that waited for the new
 * value. Any code of a task may call it, but none of another job's.
 * Returns 0; -ERANGE: it would be below 0 or above FK_COUNTER_MAX, and is what it was; -EINVAL: it
 * is no FK_COUNTER_OF.
 */
static inline int fk_counter_add(struct fk_counter *counter, int32_t n)
{
	return fk_rt_counter_add(counter, n);
}

/* Lets what else this worker has to run go first. Returns 0; -ECANCELED: the job is over; -ENOMEM:
 * see FK_STACK_SHARED; -EPERM: the caller is no fiber. */
static inline int fk_fiber_yield(void)
{
	return fk_rt_fiber_yield();
}

/*
 * Goes on after so many ns, and not before; the worker runs something else meanwhile. After 0 ns it
 * is fk_fiber_yield().
 * Returns 0; -ECANCELED: the job is over; -ENOMEM: no memory to wait with; -EPERM: the caller is no
 * fiber.
 */
static inline int fk_fiber_sleep(uint64_t ns)
{
	return fk_rt_fiber_sleep(ns, true);
}

/* The same, until this time: CLOCK_MONOTONIC, ns. If it has passed it is fk_fiber_yield(). */
static inline int fk_fiber_sleep_until(uint64_t deadline_ns)
{
	return fk_rt_fiber_sleep(deadline_ns, false);
}

/*
 * Input and output, for which the fiber waits and its worker does not, whether the descriptor is
 * O_NONBLOCK or not. What can be done at once is done at once, for the most part: what comes after
 * some that had to wait is left to the thread that waits.
 *   fk_fiber_read()	what read(2) does: up to so many bytes, at the file's position
 *   fk_fiber_write()	what write(2) does; it may write less than there is
 *   fk_fiber_accept()	what accept(2) does; the descriptor that it returns is close-on-exec
 *   fk_fiber_poll()	what poll(2) does, of one descriptor; returns which events there are
 * deadline_ns: until when it waits at most, CLOCK_MONOTONIC; FK_NEVER: for ever.
 * They return 0 or more; the error of the call that they are named for; -ETIMEDOUT: the time has
 * come; -ECANCELED: the job is over; -EPERM: the caller is no fiber; -ENOSYS: it would have to
 * wait, and the kernel has no io_uring for forkd; -ENOMEM: no memory to wait with; -EINVAL: data is
 * on a stack that the fiber shares. With all of these nothing was read, written or accepted. A
 * descriptor that is closed meanwhile is waited for all the same.
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
 * What the fiber does from begin to end may block its thread, as read(2), a lock, or a library that
 * waits: the worker goes on with other work meanwhile, and the fiber runs on a thread of its own.
 * There are blocking-max of these (forkd.conf); with more in such sections, a fiber waits in begin.
 * In a section there is no fiber to the functions and macros of this file: they return what they do
 * outside of fibers, -EPERM for the most part; so does a second begin. fk_fiber_is_over() and
 * fk_counter_add() work. A call is not interrupted when the job is over. What a section is for
 * costs some tens of microseconds and may take long; what computes belongs outside.
 *
 * begin returns 0: the section has begun, and is to be ended in this fiber, which happens by itself
 * if the fiber's function returns; or an error, and there is no section: -ECANCELED: the job is
 * over; -EAGAIN: no thread could be made, and there is none; -ENOTSUP: the fiber shares its stack;
 * -EPERM: the caller is no fiber, or in a section.
 * end returns 0; -ECANCELED: the job is over; -EPERM: the caller is in no section. The section has
 * ended with the first two. errno is to be looked at before.
 */
static inline int fk_fiber_block_begin(void)
{
	return fk_rt_fiber_block_begin();
}

static inline int fk_fiber_block_end(void)
{
	return fk_rt_fiber_block_end();
}

/* True if the job of the fiber is over: it was cancelled, is late, or has failed. For long loops
 * that wait for nothing. */
static inline bool fk_fiber_is_over(void)
{
	return fk_rt_fiber_is_over();
}

/* The job fails with this code: a negative errno or a number of the task's own, not 0. The first
 * code of a job wins. Returns 0; -EPERM: the caller is no fiber. */
static inline int fk_fiber_fail(int code)
{
	return fk_rt_fiber_fail(code);
}

/*
 * Data of a fiber's own: a static variable is the key, FK_LOCAL(end) its value. end, if not NULL,
 * is called with what is not NULL at the end of each fiber, in that fiber, where it is NULL again.
 * What it sets anew, or sets of others, is ended as well; what is there after FK_LOCAL_PASSES
 * passes over all of them is left.
 */
struct fk_local {
	_Atomic uint32_t fk_index; /* + 1, once it is used */
	void (*fk_end)(void *value);
};

#define FK_LOCALS	16u /* keys in a pool, of all modules together */
#define FK_LOCAL_PASSES 4u
#define FK_LOCAL(end_)                                                                             \
	{                                                                                          \
		.fk_end = (end_)                                                                   \
	}

/* What the fiber that runs has of this key: a place for a pointer, NULL at first. Returns NULL if
 * the caller is no fiber, there are more than FK_LOCALS keys, or no memory for them. */
static inline void **fk_fiber_local(struct fk_local *key)
{
	return fk_rt_fiber_local(&key->fk_index, key->fk_end);
}

/*
 * Runs a task of frames with these arguments, and waits for it; the worker that the fiber is on
 * begins it at once. *result gets what it returns.
 * Returns 0; -ECANCELED: the job is over, and *result is not to be looked at; -ENOMEM: see
 * FK_STACK_SHARED; -EPERM: the caller is no fiber.
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
 * Defines a task that is a C function, which the block that follows is the body of, and that runs
 * as a fiber. ret, params: as in FK_TASK.
 */
#define FK_FIBER_TASK(ret, NAME, params) FK_FIBER_TASK_SIZED(ret, NAME, params, FK_FIBER_STACK)
/* The same with a stack of this many bytes at least. */
#define FK_FIBER_TASK_SIZED(ret, NAME, params, stack)                                              \
	FK_DECLARE(ret, NAME, params, ret fk_value;)                                               \
	FK_FIBER_DEFINE_SIZED(ret, NAME, params, stack)
/* Declares one that is defined further down, so that others can fork or call it; and defines it. */
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
		__attribute__((fallthrough));                                                      \
	case FK_LABEL(2 * (n)):;                                                                   \
		FK_NOT_DESCRIBED();                                                                \
		if (fk_mode == FK_RESUMED) {                                                       \
			*fk_next =                                                                 \
				fk_rt_fiber_run(fk_w, &self->fk, 2 * (n) + 1, fn_, stack_, name_); \
			if (*fk_next)                                                              \
				return (fk_ended){};                                               \
		}                                                                                  \
		__attribute__((fallthrough));                                                      \
	case FK_LABEL(2 * (n) + 1):;                                                               \
		FK_NOT_DESCRIBED();                                                                \
	} while (0)

#endif
