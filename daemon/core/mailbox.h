/* SPDX-License-Identifier: MIT */
/*
 * mailbox.h - frames and fibers that were sent to one worker
 *
 * A queue of frames that asked to continue on this worker (FK_GO_TO_WORKER), and a chain of fibers
 * to resume here (fiber.h), which takes no memory. Only the owner takes from the queue. The first
 * fiber of the chain, if it may run anywhere, can be stolen from an owner that has run one strand
 * for long (work_search.c).
 *
 * Threads: inbox_push(), inbox_steal(): any worker. inbox_put(), inbox_any(): any thread.
 * inbox_pop(): the owner.
 *
 * INVARIANTS
 *   I1. n is changed under the lock, and read without it as a hint.
 *   I2. No frame is forgotten: a thread that pushes makes a full fence and wakes the owner if it
 *       sleeps. The owner checks again after it has announced its sleep (shm/wake.h, same
 *       argument). The owner also gets a request in any state: while it searches or wakes up it may
 *       find other work first, and then does not check the inbox again.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/relaxed.h"

struct fk_frame;

struct inbox {
	pthread_mutex_t lock;
	struct fk_frame **frames; /* a ring */
	uint32_t first;
	uint32_t max;
	uint32_t n_frames;	/* in the ring */
	struct fk_frame *chain; /* the first of the fibers, linked by parent */
	struct fk_frame **chain_end;
	bool chain_next;    /* if both have frames: the chain is next */
	_Atomic uint32_t n; /* of both */
};

void inbox_init(struct inbox *inbox);
void inbox_fini(struct inbox *inbox);

/* Returns 0 or -ENOMEM. */
int inbox_push(struct inbox *inbox, struct fk_frame *frame);

/* The same for a frame without parent; the parent field links the chain, and is NULL after the
 * pop. */
void inbox_put(struct inbox *inbox, struct fk_frame *frame);

/* Takes the oldest frame of queue or chain, alternately; NULL if there is none. */
struct fk_frame *inbox_pop(struct inbox *inbox);

/* Takes the oldest of the chain if may() allows it; NULL if not, or if the lock is held. */
struct fk_frame *inbox_steal(struct inbox *inbox, bool (*may)(const struct fk_frame *frame));

static inline bool inbox_any(struct inbox *inbox)
{
	return load_relaxed(&inbox->n) > 0;
}
