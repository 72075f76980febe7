/* SPDX-License-Identifier: MIT */
#include "daemon/inbox.h"

#include <errno.h>
#include <stdlib.h>

void inbox_init(struct inbox *inbox)
{
	*inbox = (struct inbox){ .max = 0 };
	pthread_mutex_init(&inbox->lock, NULL);
}

void inbox_fini(struct inbox *inbox)
{
	free(inbox->frames);
	pthread_mutex_destroy(&inbox->lock);
}

static int inbox_grow(struct inbox *inbox)
{
	uint32_t n = atomic_load_explicit(&inbox->n, memory_order_relaxed);
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

int inbox_push(struct inbox *inbox, struct fk_frame *frame)
{
	uint32_t n;
	int r = 0;

	pthread_mutex_lock(&inbox->lock);
	n = atomic_load_explicit(&inbox->n, memory_order_relaxed);
	if (n == inbox->max)
		r = inbox_grow(inbox);
	if (r == 0) {
		inbox->frames[(inbox->first + n) % inbox->max] = frame;
		atomic_store_explicit(&inbox->n, n + 1, memory_order_relaxed);
	}
	pthread_mutex_unlock(&inbox->lock);
	return r;
}

struct fk_frame *inbox_pop(struct inbox *inbox)
{
	struct fk_frame *frame = NULL;
	uint32_t n;

	if (!inbox_any(inbox))
		return NULL;
	pthread_mutex_lock(&inbox->lock);
	n = atomic_load_explicit(&inbox->n, memory_order_relaxed);
	if (n) {
		frame = inbox->frames[inbox->first];
		inbox->first = (inbox->first + 1) % inbox->max;
		atomic_store_explicit(&inbox->n, n - 1, memory_order_relaxed);
	}
	pthread_mutex_unlock(&inbox->lock);
	return frame;
}
