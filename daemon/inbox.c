/* SPDX-License-Identifier: MIT */
#include "daemon/inbox.h"

#include <errno.h>
#include <stdlib.h>

#include <forkd/frame.h>

void inbox_init(struct inbox *inbox)
{
	*inbox = (struct inbox){ .max = 0 };
	inbox->chain_end = &inbox->chain;
	pthread_mutex_init(&inbox->lock, NULL);
}

void inbox_fini(struct inbox *inbox)
{
	free(inbox->frames);
	pthread_mutex_destroy(&inbox->lock);
}

static int inbox_grow(struct inbox *inbox)
{
	uint32_t n = inbox->n_frames;
	uint32_t more = inbox->max ? 2 * inbox->max : 16;
	struct fk_frame **frames = calloc(more, sizeof(struct fk_frame *));

	if (!frames)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++)
		frames[i] = inbox->frames[(inbox->first + i) % inbox->max];
	free(inbox->frames);
	inbox->frames = frames;
	inbox->first = 0;
	inbox->max = more;
	return 0;
}

/* Locked. */
static void inbox_count(struct inbox *inbox, int32_t more)
{
	uint32_t n = atomic_load_explicit(&inbox->n, memory_order_relaxed);

	atomic_store_explicit(&inbox->n, n + (uint32_t)more, memory_order_relaxed);
}

int inbox_push(struct inbox *inbox, struct fk_frame *frame)
{
	int r = 0;

	pthread_mutex_lock(&inbox->lock);
	if (inbox->n_frames == inbox->max)
		r = inbox_grow(inbox);
	if (r == 0) {
		inbox->frames[(inbox->first + inbox->n_frames++) % inbox->max] = frame;
		inbox_count(inbox, 1);
	}
	pthread_mutex_unlock(&inbox->lock);
	return r;
}

void inbox_put(struct inbox *inbox, struct fk_frame *frame)
{
	pthread_mutex_lock(&inbox->lock);
	*inbox->chain_end = frame;
	inbox->chain_end = &frame->parent;
	inbox_count(inbox, 1);
	pthread_mutex_unlock(&inbox->lock);
}

/* Locked. */
static struct fk_frame *inbox_take(struct inbox *inbox)
{
	struct fk_frame *frame = inbox->chain;

	if (inbox->n_frames && !(frame && inbox->chain_next)) {
		frame = inbox->frames[inbox->first];
		inbox->first = (inbox->first + 1) % inbox->max;
		inbox->n_frames--;
		inbox->chain_next = true;
	} else if (frame) {
		inbox->chain_next = false;
		inbox->chain = frame->parent;
		if (!inbox->chain)
			inbox->chain_end = &inbox->chain;
		frame->parent = NULL;
	}
	if (frame)
		inbox_count(inbox, -1);
	return frame;
}

struct fk_frame *inbox_pop(struct inbox *inbox)
{
	struct fk_frame *frame;

	if (!inbox_any(inbox))
		return NULL;
	pthread_mutex_lock(&inbox->lock);
	frame = inbox_take(inbox);
	pthread_mutex_unlock(&inbox->lock);
	return frame;
}
