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
	free(inbox->items);
	pthread_mutex_destroy(&inbox->lock);
}

static int inbox_grow(struct inbox *inbox)
{
	uint32_t n = atomic_load_explicit(&inbox->n, memory_order_relaxed);
	uint32_t more = inbox->max ? 2 * inbox->max : 16;
	struct inbox_item *items = calloc(more, sizeof(*items));

	if (!items)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++)
		items[i] = inbox->items[(inbox->first + i) % inbox->max];
	free(inbox->items);
	inbox->items = items;
	inbox->first = 0;
	inbox->max = more;
	return 0;
}

int inbox_push(struct inbox *inbox, struct inbox_item item)
{
	uint32_t n;
	int r = 0;

	pthread_mutex_lock(&inbox->lock);
	n = atomic_load_explicit(&inbox->n, memory_order_relaxed);
	if (n == inbox->max)
		r = inbox_grow(inbox);
	if (r == 0) {
		inbox->items[(inbox->first + n) % inbox->max] = item;
		atomic_store_explicit(&inbox->n, n + 1, memory_order_relaxed);
	}
	pthread_mutex_unlock(&inbox->lock);
	return r;
}

bool inbox_pop(struct inbox *inbox, struct inbox_item *ret_item)
{
	uint32_t n;

	if (!inbox_any(inbox))
		return false;
	pthread_mutex_lock(&inbox->lock);
	n = atomic_load_explicit(&inbox->n, memory_order_relaxed);
	if (n) {
		*ret_item = inbox->items[inbox->first];
		inbox->first = (inbox->first + 1) % inbox->max;
		atomic_store_explicit(&inbox->n, n - 1, memory_order_relaxed);
	}
	pthread_mutex_unlock(&inbox->lock);
	return n > 0;
}
