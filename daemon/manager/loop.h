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
	struct list_link ops;	 /* all there are */
	struct loop_op *put_off; /* of these: the kernel does not know them yet (I8) */
	bool is_short;		 /* of memory, a moment ago */
	bool stopped;
};

/*
 * One thing that is waited for; lives inside its owner. Zeroed, with call set, it waits for
 * nothing. What result means stands at the function that armed it. With repeats set a poll begins
 * again before each call, for which no memory is needed.
 */
struct loop_source {
	void (*call)(struct loop_source *source, int result);
	struct loop_op *op;
	bool repeats;
};

/* Returns 0 or a negative errno: EPERM or ENOSYS where io_uring is switched off. */
int loop_init(struct loop *loop);
/* Sources that still wait are forgotten. */
void loop_fini(struct loop *loop);

/*
 * Each waits once, except a poll of a source that repeats; source must not be waiting. To wait
 * again, call again from source->call().
 * -ENOMEM, -EBUSY.
 *
 * loop_poll: until fd has one of events (POLLIN, ...). result: the events, or a negative errno,
 * which no shortage is.
 * loop_poll_later: the same, for a caller that had no memory: soon, when others have had their
 * turn.
 * loop_timer: for ns nanoseconds. result: 0.
 * loop_fallocate: until fallocate(2) with these arguments is through. result: 0, or its negative
 * errno; -EINTR says nothing but that it is to be called again. fd stays open until then.
 * Forgotten, it goes on for a while, or not.
 * loop_discard: until the next message of a socket is received and thrown away, with all that came
 * with it (I7). result: 0 or more, or a negative errno.
 */
int loop_poll(struct loop *loop, struct loop_source *source, int fd, uint32_t events);
int loop_poll_later(struct loop *loop, struct loop_source *source, int fd, uint32_t events);
int loop_timer(struct loop *loop, struct loop_source *source, uint64_t ns);
int loop_fallocate(struct loop *loop, struct loop_source *source, int fd, int mode, uint64_t offset,
		   uint64_t size);
int loop_discard(struct loop *loop, struct loop_source *source, int fd);

/*
 * Closes fd, soon, where the loop does not wait for it (I5): a segment, however large a client
 * wanted it. It holds up one of the workers that make everybody's pages until it is through: no
 * socket that others may have filled, or only at the end of the loop, when nothing follows
 * (socket_close.h). Nothing may wait for it any more. Returns -1, to be assigned; below 0 it does
 * nothing.
 */
int loop_close(struct loop *loop, int fd);

/* Waits for it no more; the source may be freed, its descriptor closed. Fine if it did not wait. */
void loop_forget(struct loop *loop, struct loop_source *source);

/* Calls sources until loop_stop(). Returns 0 or a negative errno. */
int loop_run(struct loop *loop);
void loop_stop(struct loop *loop);
