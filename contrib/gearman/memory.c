/* SPDX-License-Identifier: MIT */
/* memory.c - the memory of one slot for the payload of its job: memory.h */
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
#include "contrib/gearman/gateway_metrics.h"
#include "shm/fence.h"

#define MEMORY_LEAST 4096u		  /* bytes of a block */
#define MEMORY_KEEP  ((size_t)64u << 10)  /* larger blocks are freed after their job */
#define MEMORY_WAIT  (10 * NSEC_PER_MSEC) /* between two attempts while the heap is full */

static void block_free(struct memory *memory)
{
	if (memory->link)
		(void)fk_free(memory->link->client, memory->block);
	else
		free(memory->block);
	gateway_put_link(memory->gateway, memory->link);
	memory->block = NULL;
	memory->link = NULL;
	memory->room = 0;
}

/* Replaces the block by one in the heap of a link, or by a private one if link is NULL. */
static int block_new(struct memory *memory, struct link *link, size_t size)
{
	void *block;
	int err = 0;

	size = max(size, (size_t)MEMORY_LEAST);
	if (link)
		err = fk_alloc(link->client, size, &block);
	else if (!(block = malloc(size)))
		err = -ENOMEM;
	if (err)
		return err;
	block_free(memory);
	memory->block = block;
	memory->link = gateway_use_link(memory->gateway, link);
	memory->room = size;
	return 0;
}

/* False if forkd may have freed pages of the block before it was read. pages_drop() frees those of
 * a segment in ascending order, so the head is gone first. */
static bool block_is_intact(const struct memory *memory)
{
	const struct client_segment *segment = memory->link ? memory->link->client->segment : NULL;

	/* ORDER block/head [G1]: acquire, the block is read before the head. Pairs with the kernel,
	 * which unmaps the head before the block. */
	fence_acquire();
	return !segment || *(const volatile uint64_t *)&segment->head.magic == SEGMENT_MAGIC;
}

/* Makes room for a payload in the heap of a link, or privately. */
static int block_reserve(struct memory *memory, struct link *link, size_t payload)
{
	int err;

	if (memory->block && memory->room >= payload && memory->link == link)
		return 0;
	block_free(memory);
	err = block_new(memory, link, payload);
	/* Forkd has gone: memory_move() moves it to the next one. */
	return err == -ECONNRESET ? block_new(memory, NULL, payload) : err;
}

/* True if the heap has room for a payload when others free theirs. */
static bool may_get_room(const struct gateway *gateway, const struct link *link, size_t payload)
{
	return payload <= link->client->heap.max && load_relaxed(&gateway->metrics->in_flight);
}

int memory_reserve(struct memory *memory, size_t payload, char *text, size_t size)
{
	uint64_t most = memory->gateway->options->max_size;
	int err;

	if (payload > most)
		return text_refuse(text, size, -EFBIG,
				   "the payload has %zu bytes, but the largest is %" PRIu64
				   ": see --max-size of forkd-gearman(8)",
				   payload, most);
	for (;;) {
		struct link *link = gateway_link(memory->gateway);
		bool waits = false;

		err = block_reserve(memory, link, payload);
		if (err) {
			(void)snprintf(text, size, "no memory for a payload of %zu bytes: %s",
				       payload, link ? fk_error_text() : fk_strerror(err));
			waits = link && err == -FK_E_HEAP_FULL &&
				may_get_room(memory->gateway, link, payload);
		}
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
	memory->block = NULL;
	memory->link = NULL;
	err = block_new(memory, link, size);
	if (err) {
		*memory = old;
		return err;
	}
	memcpy(memory->block, old.block, size);
	if (!block_is_intact(&old))
		err = -EOWNERDEAD;
	block_free(&old);
	return err;
}

void memory_trim(struct memory *memory)
{
	if (memory->room > MEMORY_KEEP)
		block_free(memory);
}

void memory_fini(struct memory *memory)
{
	block_free(memory);
}
