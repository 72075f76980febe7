/* SPDX-License-Identifier: MIT */
/* memory.c - the memory of one slot for the payload of its job: memory.h */
#include "contrib/gearman/memory.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/client_state.h"
#include "common/text.h"
#include "common/util.h"
#include "contrib/gearman/gateway.h"
#include "shm/fence.h"

#define MEMORY_LEAST 4096u		/* bytes of a block */
#define MEMORY_KEEP  ((size_t)1u << 20) /* larger blocks are freed after their job */

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

int memory_reserve(struct memory *memory, size_t payload, char *text, size_t size)
{
	uint64_t most = memory->gateway->options->max_size;
	struct link *link;
	int err = 0;

	if (payload > most)
		return text_refuse(text, size, -EFBIG,
				   "the payload has %zu bytes, but the largest is %" PRIu64
				   ": see --max-size of forkd-gearman(8)",
				   payload, most);
	link = gateway_link(memory->gateway);
	if (!memory->block || memory->room < payload || memory->link != link) {
		err = block_new(memory, link, payload);
		if (err)
			(void)snprintf(text, size, "no memory for a payload of %zu bytes: %s",
				       payload, link ? fk_error_text() : fk_strerror(err));
	}
	gateway_put_link(memory->gateway, link);
	return err;
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
