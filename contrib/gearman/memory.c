/* SPDX-License-Identifier: MIT */
/* memory.c - memory for the payload of a job: memory.h */
#include "contrib/gearman/memory.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/client_state.h"
#include "common/clock.h"
#include "common/relaxed.h"
#include "common/text.h"
#include "common/util.h"
#include "contrib/gearman/gateway.h"
#include "shm/fence.h"

#define MEMORY_WAIT (10 * NSEC_PER_MSEC) /* between two attempts while the heap is full */

static fk_client *client_of(const struct memory *memory, const struct link *link)
{
	return link->clients[memory->server];
}

void memory_free(struct memory *memory)
{
	if (memory->link)
		(void)fk_free(client_of(memory, memory->link), memory->block);
	else
		free(memory->block);
	gateway_put_link(memory->gateway, memory->link);
	memory->block = NULL;
	memory->link = NULL;
}

/* Allocates a block in the heap of a link, or privately if link is NULL. */
static int allocate(struct memory *memory, struct link *link, size_t size)
{
	void *block;
	int err = 0;

	if (link)
		err = fk_alloc(client_of(memory, link), size, &block);
	else if (!(block = malloc(size)))
		err = -ENOMEM;
	if (err)
		return err;
	memory->block = block;
	memory->link = gateway_use_link(memory->gateway, link);
	return 0;
}

/* False if forkd may have freed pages of the block before it was read. pages_drop() frees those of
 * a segment in ascending order, so the head is gone first. */
static bool block_is_intact(const struct memory *memory)
{
	const struct client_segment *segment =
		memory->link ? client_of(memory, memory->link)->segment : NULL;

	/* ORDER block/head [G1]: acquire, the block is read before the head. Pairs with the kernel,
	 * which unmaps the head before the block. */
	fence_acquire();
	return !segment || *(const volatile uint64_t *)&segment->head.magic == SEGMENT_MAGIC;
}

int memory_reserve(struct memory *memory, size_t size, char *text, size_t text_size)
{
	uint64_t most = memory->gateway->options->max_size;
	int err;

	if (size > most)
		return text_refuse(text, text_size, -EFBIG,
				   "the payload has %zu bytes, but the largest is %" PRIu64
				   ": see --max-size of forkd-gearman(8)",
				   size, most);
	for (;;) {
		struct link *link = gateway_link(memory->gateway);
		/* ORDER heap/flight [G2]: acquire, before the attempt: a job that is not counted
		 * has freed its memory. Pairs with gateway_job_end(). */
		bool waits = atomic_load_explicit(memory->in_flight, memory_order_acquire);

		err = allocate(memory, link, size);
		/* Forkd has gone: memory_move() moves it to the next one. */
		if (err == -ECONNRESET)
			err = allocate(memory, NULL, size);
		if (err)
			(void)snprintf(text, text_size, "no memory for a payload of %zu bytes: %s",
				       size, link ? fk_error_text() : fk_strerror(err));
		waits &=
			link && err == -FK_E_HEAP_FULL && size <= client_of(memory, link)->heap.max;
		gateway_put_link(memory->gateway, link);
		if (!waits || gateway_sleep(memory->gateway, MEMORY_WAIT))
			return err;
	}
}

int memory_move(struct memory *memory, struct link *link, size_t size)
{
	struct memory old = *memory;
	int err;

	if (memory->link == link || !memory->block)
		return 0;
	err = allocate(memory, link, size);
	if (err)
		return err;
	memcpy(memory->block, old.block, size);
	if (!block_is_intact(&old))
		err = -EOWNERDEAD;
	memory_free(&old);
	return err;
}
