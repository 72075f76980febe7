/* SPDX-License-Identifier: MIT */
#include "daemon/core/mailbox.h"

#include <errno.h>
#include <stdlib.h>

#include <forkd/frame.h>

#include "common/relaxed.h"
#include "common/util.h"

/* Cache lines to prefetch before and after the start of a fiber's record. */
#define INBOX_BELOW 8
#define INBOX_ABOVE 5

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
	uint32_t n = load_relaxed(&inbox->n);

	store_relaxed(&inbox->n, n + (uint32_t)more);
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

/* Locked: takes the first out of the chain. */
static void inbox_unchain(struct inbox *inbox)
{
	struct fk_frame *frame = inbox->chain;

	inbox->chain = frame->parent;
	if (!inbox->chain)
		inbox->chain_end = &inbox->chain;
	frame->parent = NULL;
	inbox_count(inbox, -1);
}

/* The next one is usually not in the cache: prefetch the record, and the stack that ends below
 * it. */
static void inbox_fetch(const struct fk_frame *frame)
{
	const char *at = (const char *)frame;

	for (int line = -INBOX_BELOW; frame && line < INBOX_ABOVE; line++)
		__builtin_prefetch(at + line * CACHE_LINE, 1);
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
		inbox_count(inbox, -1);
	} else if (frame) {
		inbox->chain_next = false;
		inbox_unchain(inbox);
		inbox_fetch(inbox->chain);
	}
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

struct fk_frame *inbox_steal(struct inbox *inbox, bool (*may)(const struct fk_frame *frame))
{
	struct fk_frame *frame;

	if (!inbox_any(inbox) || pthread_mutex_trylock(&inbox->lock) != 0)
		return NULL;
	frame = inbox->chain;
	if (frame && may(frame))
		inbox_unchain(inbox);
	else
		frame = NULL;
	pthread_mutex_unlock(&inbox->lock);
	return frame;
}
