/* SPDX-License-Identifier: MIT */
/* loop.h - the manager's event loop: one io_uring */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <liburing.h>

#include "common/list.h"

struct loop_op;

struct loop {
	struct io_uring ring;
	struct list_link ops;	 /* all operations */
	struct loop_op *put_off; /* operations that the kernel does not know yet (I8) */
	bool is_short;		 /* memory was short in the last iteration */
	bool stopped;
};

/* An event that is waited for; part of its owner. Zeroed, with call set, it waits for nothing. The
 * function that armed it defines result. With repeats set a poll begins again before each call,
 * which needs no memory. */
struct loop_source {
	void (*call)(struct loop_source *source, int result);
	struct loop_op *op;
	bool repeats;
};

/* Returns 0 or a negative errno: EPERM or ENOSYS if io_uring is disabled. */
int loop_init(struct loop *loop);
/* Pending sources are forgotten. */
void loop_fini(struct loop *loop);

/*
 * Each waits once, except a poll of a source that repeats; source must not be waiting. To wait
 * again, call again from source->call(). Return 0, -ENOMEM or -EBUSY.
 *
 * loop_poll: until fd has one of events (POLLIN, ...). result: the events, or a negative errno
 * other than for a shortage.
 * loop_poll_later: the same, for a caller that lacked memory: soon, after the other sources.
 * loop_timer: for ns nanoseconds. result: 0.
 * loop_fallocate: until fallocate(2) with these arguments has ended. result: 0, or its negative
 * errno; after -EINTR call it again. fd must stay open until then. If forgotten, the operation may
 * or may not continue for a while.
 * loop_discard: until the next message of a socket is received and discarded, with its descriptors
 * (I7). result: 0 or more, or a negative errno.
 */
int loop_poll(struct loop *loop, struct loop_source *source, int fd, uint32_t events);
int loop_poll_later(struct loop *loop, struct loop_source *source, int fd, uint32_t events);
int loop_timer(struct loop *loop, struct loop_source *source, uint64_t ns);
int loop_fallocate(struct loop *loop, struct loop_source *source, int fd, int mode, uint64_t offset,
		   uint64_t size);
int loop_discard(struct loop *loop, struct loop_source *source, int fd);

/* Closes fd soon, without blocking the loop (I5): a segment of any size. It occupies a worker that
 * makes pages for all clients until it has ended. So it must not be used for a socket that others
 * may have filled, except at the end of the loop, when nothing follows (socket_close.h). No source
 * may wait for fd any more. Returns -1, to be assigned; below 0 it does nothing. */
int loop_close(struct loop *loop, int fd);

/* Stops waiting; the source may be freed, its descriptor closed. Does nothing if it did not
 * wait. */
void loop_forget(struct loop *loop, struct loop_source *source);

/* Calls sources until loop_stop(). Returns 0 or a negative errno. */
int loop_run(struct loop *loop);
void loop_stop(struct loop *loop);
