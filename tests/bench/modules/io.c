/* SPDX-License-Identifier: MIT */
/* io.c - a fiber for each of many pipes */
#include <forkd/fiber.h>

#include "tests/bench/io_work.h"

#define IO_STACK 16384u

struct io_shared {
	struct io_work work;
	_Atomic uint64_t there;
};

struct io_reader {
	struct io_shared *shared;
	struct io_pipe *pipe;
};

static void io_reads(void *arg)
{
	struct io_reader *self = arg;
	struct io_pipe *pipe = self->pipe;
	uint64_t message[IO_MESSAGE / 8];

	/* Relaxed: a number. */
	atomic_fetch_add_explicit(&self->shared->there, 1, memory_order_relaxed);
	while (fk_fiber_read(pipe->ends[0], message, sizeof(message), FK_NEVER) ==
	       sizeof(message)) {
		pipe->messages++;
		pipe->sum += message[0];
	}
}

FK_FIBER_TASK(int64_t, fibers, (int64_t, n, int64_t, messages, int64_t, random))
{
	struct io_shared shared = { .there = 0 };
	struct fk_counter all = FK_COUNTER;
	struct io_reader *readers;
	int r;

	if (n < 1 || messages < 0)
		return fk_fiber_fail(-EINVAL);
	readers = calloc((size_t)n, sizeof(*readers));
	r = readers ? io_begin(&shared.work, (uint64_t)n, (uint64_t)messages, random) : -ENOMEM;
	for (int64_t i = 0; i < n && r == 0; i++) {
		readers[i] = (struct io_reader){ &shared, &shared.work.pipes[i] };
		r = fk_fiber_spawn_sized(io_reads, &readers[i], &all, IO_STACK);
	}
	while (r == 0 && atomic_load_explicit(&shared.there, memory_order_relaxed) < (uint64_t)n)
		r = fk_fiber_yield();
	if (r == 0)
		r = fk_fiber_sleep(10000000); /* the last of them have parked */
	if (r == 0)
		r = io_write(&shared.work);
	if (r < 0)
		(void)fk_fiber_fail(r);
	if (fk_counter_wait(&all, 0) < 0 || r < 0)
		return 0;
	free(readers);
	return (int64_t)io_end(&shared.work);
}
FK_EXPORT_RESULTS(fibers, (int64_t, ns), 0,
		  "Messages through n pipes, each read by a fiber: how long that takes")

FK_MODULE(io, "Many readers")
