/* SPDX-License-Identifier: MIT */
/*
 * mailbox.h - what was sent to one worker in particular
 *
 * A queue of frames that asked to continue on this worker (FK_GO_TO_WORKER), and a chain of fibers
 * that go on here (fiber.h), which takes no memory. Only the owner takes out what is in the queue;
 * a fiber that is the first of the chain, and may go on anywhere, is stolen from an owner that has
 * been busy with one thing for long (work_search.c).
 *
 * Threads: inbox_push(), inbox_steal(): any worker. inbox_put(), inbox_any(): any thread.
 * inbox_pop(): the owner.
 *
 * INVARIANTS
 *   I1. n is changed under the lock, and read without it as a hint.
 *   I2. Nothing is forgotten: a thread that pushes makes a full fence and wakes the owner if it
 *       sleeps; the owner looks once more after it has announced its sleep (shm/wake.h, the same
 *       argument). And it is asked for attention, whether it is busy or not: one that looks, or was
 *       woken, may turn busy with something else, and does not look here once more then.
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
	struct fk_frame *chain; /* the first of those that were put, linked by parent */
	struct fk_frame **chain_end;
	bool chain_next;    /* of one in both, whose turn it is */
	_Atomic uint32_t n; /* of both */
};

void inbox_init(struct inbox *inbox);
void inbox_fini(struct inbox *inbox);

/* Returns 0 or -ENOMEM. */
int inbox_push(struct inbox *inbox, struct fk_frame *frame);

/* The same of a frame that has no parent, which is NULL again once it is popped. */
void inbox_put(struct inbox *inbox, struct fk_frame *frame);

/* The oldest of a kind, of both in turn; NULL if there is none. */
struct fk_frame *inbox_pop(struct inbox *inbox);

/* The oldest of the chain, if it may; NULL if not, or if another one is at it just now. */
struct fk_frame *inbox_steal(struct inbox *inbox, bool (*may)(const struct fk_frame *frame));

static inline bool inbox_any(struct inbox *inbox)
{
	return load_relaxed(&inbox->n) > 0;
}
