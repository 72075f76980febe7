/* SPDX-License-Identifier: MIT */
/*
 * io.c - fibers read, write, accept and poll without blocking a worker
 *
 * A fiber first tries an operation by a call that does not wait. If it would have to wait, the
 * poller (io_poller.h) gets the operation, and the fiber parks until it is done. If the kernel does
 * not wait because the descriptor is O_NONBLOCK, the descriptor is polled, and the call is tried
 * again. The ring also tries first, and a system call is expensive here. So a fiber skips more of
 * its tries of one kind, at most 7 of 8, the more of them have failed in a row.
 *
 * Threads: fibers: fk_rt_fiber_io(). fiber_io_end(): a thread that ends a job, and the dispatcher
 * for a deadline. fiber_io_done(): the poller's thread.
 *
 * 	fiber	begin park (held); op --> poller; into the list of its shard; timer; leave
 * 	poller	op has completed, and so has its cancel, if there is one: wake
 * 	cancel, deadline	--> fiber_io_end(): the poller cancels op
 *
 * INVARIANTS
 *   I1. While an operation is under way the kernel has the fiber's buffer, so only its completion
 *       wakes the fiber: the park is held, and a thread that ends it early has the poller cancel
 *       it.
 *   I2. The operation and the timer are in struct fiber, not on the fiber's stack, because other
 *       threads write there while the fiber waits.
 *   I3. A thread that ends an operation early finds the fiber in the list of its shard, or by its
 *       timer in a heap. The fiber removes itself under the same lock before it continues. It was
 *       added after the poller got the operation (io_poller.c, I1).
 *   I4. No end is missed: a fiber is in the list before it checks its job's verdict (cancel.c, I2),
 *       and ends its own operation if there is one.
 *   I5. The worker never blocks here: no call waits, whatever the descriptor is. The only exception
 *       is the first operation of a pool that has not made its poller yet: it waits for that.
 *   I6. A fiber passes an operation to the poller only after its own call of fiber_io_start() has
 *       returned 0: it skips a try only if an earlier one has failed.
 */
#include "daemon/fiber/io.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <sys/uio.h>

#include "common/clock.h"
#include "common/options.h"
#include "daemon/core/pool_state.h"
#include "daemon/core/worker.h"
#include "daemon/fiber/fiber_types.h"
#include "daemon/fiber/parked.h"
#include "daemon/fiber/io_poller.h"
#include "daemon/fiber/ready.h"
#include "daemon/fiber/self.h"
#include "daemon/fiber/timer_heap.h"
#include "shm/board.h"

#define FIBER_IO_MAX  ((size_t)INT32_MAX & ~(size_t)4095) /* bytes, as the kernel has it */
#define FIBER_IO_SKIP 7u				  /* maximum of successive skipped tries */

/* ------------------------------------------------------------------------ without waiting */

static int64_t fiber_io_poll(int fd, uint32_t events)
{
	struct pollfd pollfd = { .fd = fd, .events = (short)events };

	if (fd < 0)
		return -EBADF;
	switch (poll(&pollfd, 1, 0)) {
	case -1:
		return errno == EINTR ? -EAGAIN : -errno;
	case 0:
		return -EAGAIN;
	default:
		return pollfd.revents & POLLNVAL ? -EBADF : pollfd.revents;
	}
}

/* Without waiting: -EAGAIN or -EOPNOTSUPP if that is impossible. Not inlined: fiber.c, I3. */
static int64_t __attribute__((noinline))
fiber_io_try(enum fk_io what, int fd, void *data, size_t size)
{
	struct iovec iov = { .iov_base = data, .iov_len = size };
	ssize_t n = -1;

	switch (what) {
	case FK_IO_READ:
		n = preadv2(fd, &iov, 1, -1, RWF_NOWAIT);
		break;
	case FK_IO_WRITE:
		n = pwritev2(fd, &iov, 1, -1, RWF_NOWAIT);
		break;
	case FK_IO_ACCEPT:
		/* accept(2) may wait if another thread was first. */
		return -EOPNOTSUPP;
	case FK_IO_POLL:
		return fiber_io_poll(fd, (uint32_t)size);
	default:
		return -EINVAL;
	}
	return n < 0 ? -errno : n;
}

static bool fiber_io_is_late(uint64_t until_ns)
{
	return until_ns != FK_NEVER && until_ns <= clock_ns();
}

/* Records a failed try. */
static void fiber_io_learn(struct fiber_tries *tries)
{
	tries->failed = min(2u * tries->failed + 1, FIBER_IO_SKIP);
	tries->skip = tries->failed;
}

static bool fiber_io_skips(struct fiber_tries *tries, uint64_t until_ns)
{
	if (!tries->skip || fiber_io_is_late(until_ns))
		return false;
	tries->skip--;
	return true;
}

/* ------------------------------------------------------------------------ by the poller */

/* On the poller's thread. */
static void fiber_io_done(void *arg, struct poller_op *first)
{
	struct fiber_batch batch = { 0 };
	struct poller_op *next;

	for (struct poller_op *op = first; op; op = next) {
		struct fiber *f = container_of(op, struct fiber, waits.io.op);

		next = (struct poller_op *)op->next[0];
		if (fiber_park_wake(&f->park, f->waits.io.generation, FIBER_IO) == FIBER_RUN)
			fiber_ready_one(&batch, f);
	}
	fiber_ready_all(arg, &batch);
}

void fiber_io_end(struct pool *pool, struct fiber *f, int error)
{
	poller_end(&pool->fibers->poller, &f->waits.io.op, error);
}

/* Passes an operation to the poller, and parks. Returns the result. */
static int64_t fiber_io_wait(struct fiber *f, enum poller_what what, int fd, void *data,
			     uint32_t size, uint64_t until_ns)
{
	struct pool *pool = f->head.worker->pool;
	struct poller *poller = &pool->fibers->poller;
	struct fiber_io *io = &f->waits.io;
	bool timed = until_ns != FK_NEVER;
	bool left;

	/* A fiber on a shared stack gets its copy's room now: the fiber_leave() below, at the same
	 * depth, must not fail. */
	if (f->shared && !fiber_leave(f, FIBER_AGAIN))
		return -ENOMEM;
	io->op.what = what;
	io->op.fd = fd;
	io->op.data = data;
	io->op.size = size;
	COUNT(f->head.worker, fiber_io_waits);
	COUNT(f->head.worker, fiber_io_waiting);
	io->generation = fiber_park_begin(&f->park, true);
	poller_begin(poller, &io->op);
	f->does_io = true;
	fiber_wait_begin(f);
	if (fiber_is_over(f))
		fiber_io_end(pool, f, -ECANCELED);
	if (timed && fiber_timer_set(f, io->generation, until_ns) < 0) {
		fiber_io_end(pool, f, -ENOMEM);
		timed = false;
	}
	left = fiber_leave(f, FIBER_PARKS);
	assert(left);
	if (timed) {
		COUNT(f->head.worker, fiber_timers);
		fiber_timer_clear(f);
	}
	fiber_wait_end(f);
	f->does_io = false;
	COUNT_ADD(f->head.worker, fiber_io_waiting, -UINT64_C(1));
	return io->op.result;
}

static const struct {
	enum poller_what what;
	uint32_t events; /* to wait for before the next try */
} fiber_io_ways[] = {
	[FK_IO_READ] = { POLLER_READ, POLLIN },
	[FK_IO_WRITE] = { POLLER_WRITE, POLLOUT },
	[FK_IO_ACCEPT] = { POLLER_ACCEPT, POLLIN },
	[FK_IO_POLL] = { POLLER_POLL, 0 },
};

_Static_assert(sizeof(((struct fiber *)0)->tries) == ARRAY_SIZE(fiber_io_ways), "one for each");

static int64_t fiber_io(struct fiber *f, enum fk_io what, int fd, void *data, size_t size,
			uint64_t until_ns)
{
	struct fiber_tries *tries = &f->tries[what];

	for (bool skip = fiber_io_skips(tries, until_ns);; skip = false) {
		int64_t r;

		if (fiber_is_over(f))
			return -ECANCELED;
		if (!skip) {
			r = fiber_io_try(what, fd, data, size);
			if (r != -EAGAIN && r != -EOPNOTSUPP) {
				*tries = (struct fiber_tries){ 0 };
				return r;
			}
			if (r == -EAGAIN && fiber_io_is_late(until_ns))
				return -ETIMEDOUT;
			/* I6. */
			if (fiber_io_start(f->head.worker->pool) < 0)
				return -ENOSYS;
			if (r == -EAGAIN)
				fiber_io_learn(tries);
		}
		r = fiber_io_wait(f, fiber_io_ways[what].what, fd, data, (uint32_t)size, until_ns);
		/* Trying needs no memory. */
		if (r == -ENOMEM && skip)
			continue;
		if (r == -EAGAIN)
			r = fiber_io_wait(f, POLLER_POLL, fd, NULL, fiber_io_ways[what].events,
					  until_ns);
		else if (r != -EINTR)
			return r;
		if (r < 0 && r != -EINTR)
			return r;
	}
}

int64_t fk_rt_fiber_io(enum fk_io what, int fd, void *data, size_t size, uint64_t until_ns)
{
	struct fiber *f = fiber_self();
	int64_t r;

	if (!f)
		return -EPERM;
	COUNT(f->head.worker, fiber_io_calls);
	if (what >= ARRAY_SIZE(fiber_io_ways))
		return -EINVAL;
	if ((what == FK_IO_READ || what == FK_IO_WRITE) && fiber_on_shared_stack(f, data, size))
		return -EINVAL;
	r = fiber_io(f, what, fd, data, min(size, FIBER_IO_MAX), until_ns);
	return r == -ETIMEDOUT && fiber_is_over(f) ? -ECANCELED : r;
}

/* ------------------------------------------------------------------------ init, fini */

int fiber_io_start(struct pool *pool)
{
	const struct poller_way way = {
		.done = fiber_io_done,
		.arg = pool,
		.turns = &pool->board->counters[BOARD_POOL].poller_passes,
		.sandbox = pool->options->sandbox,
		/* Not the one CPU of a worker. */
		.topology = worker_self() ? pool->topology : NULL,
	};

	return poller_start(&pool->fibers->poller, &way);
}

void fiber_io_fini(struct pool *pool)
{
	poller_stop(&pool->fibers->poller);
}
