/* SPDX-License-Identifier: MIT */
/*
 * heap_api.c - public functions of the shared heap, and its growth
 *
 * The segment has address space for the largest heap that forkd grants, and pages for the heap as
 * it is now. A thread that finds no room sends a request to the manager (PROTO_GROW). Then it
 * sleeps on a word of the segment until the manager has answered.
 *
 * INVARIANTS
 *   I1. One thread of a client sends requests at a time (grow_lock). Its request has the next
 *       number, so the answer to an earlier request is not taken for the answer to this one.
 *   I2. Tasks can write to the answer. So the client bounds it by its mapping: a task that changes
 *       it breaks the heap of its own client only.
 *   I3. A request is lost if the manager dies after it has received it. So the thread sends it
 *       again after each CLIENT_TICK_NS. A second request for a granted size changes nothing.
 */
#include "client/lib/client.h"

#include <errno.h>

#include "common/relaxed.h"
#include "common/util.h"
#include "shm/proto.h"

#define HEAP_PAGE 4096u

/* Returns the number of the next request, never 0. */
static uint32_t next_number(struct fk_client *client)
{
	client->grows = client->grows + 1 ? client->grows + 1 : 1;
	return client->grows;
}

/* Requests a heap of size bytes. With grow_lock held. Returns 0, the manager's error, or
 * -ECONNRESET. */
static int request(struct fk_client *client, uint64_t size)
{
	struct client_segment *segment = client->segment;
	const struct proto_grow grow = {
		.head = { PROTO_MAGIC, PROTO_GROW },
		.number = next_number(client),
		.heap_size = size,
	};
	uint64_t sent_ns = 0;
	uint32_t answered;
	int err;

	for (;;) {
		uint64_t now = clock_ns();

		/* ORDER heap/grown [H1]: acquire, the size is that of this answer, and the pool's
		 * bound was raised before. Pairs with segments_answer(). */
		answered = atomic_load_explicit(&segment->grow_answer, memory_order_acquire);
		if (answered == grow.number)
			break;
		/* If the socket is full: I3. */
		if (now - sent_ns >= CLIENT_TICK_NS) {
			(void)waker_send(&client->waker, &grow, sizeof(grow));
			sent_ns = now;
		}
		err = client_sleep(client, &segment->grow_answer, answered, UINT64_MAX);
		if (err)
			return err;
	}
	err = load_relaxed(&segment->grow_error);
	if (err)
		return error_is_own(err) ? err : -FK_E_FORKD_MEMORY;
	heap_extend(&client->heap, load_relaxed(&segment->heap_size));
	return load_relaxed(&client->heap.size) < size ? -FK_E_FORKD_MEMORY : 0;
}

/* Requests a heap in which a block of size bytes fits. With grow_lock held. */
static int grow(struct fk_client *client, size_t size)
{
	struct heap *heap = &client->heap;
	uint64_t least = heap_needs(heap, size);
	uint64_t most;
	int err;

	if (least > heap->max)
		return -FK_E_HEAP_FULL;
	/* Another thread has extended the heap or freed a block. */
	if (least <= load_relaxed(&heap->size))
		return 0;
	/* First try to double the size. */
	most = min(max(align_up(least, HEAP_PAGE), 2 * load_relaxed(&heap->size)), heap->max);
	least = min(align_up(least, HEAP_PAGE), heap->max);
	err = request(client, most);
	if (err && err != -ECONNRESET && least < most)
		err = request(client, least);
	return err;
}

int client_grow_heap(struct heap *heap, size_t size)
{
	struct fk_client *client = container_of(heap, struct fk_client, heap);
	int err;

	if (client_is_gone(client))
		return -ECONNRESET;
	pthread_mutex_lock(&client->grow_lock);
	err = grow(client, size);
	pthread_mutex_unlock(&client->grow_lock);
	return err;
}

int fk_alloc(fk_client *client, size_t size, void **ret_data)
{
	int err = client_check(client);

	if (!err)
		err = heap_alloc(&client->heap, size, ret_data);
	return err ? error_of_task(client, err, "") : 0;
}

int fk_free(fk_client *client, void *data)
{
	int err = client_check(client);

	if (err || !data)
		return err;
	return heap_contains(&client->heap, data, 1) ? heap_free(&client->heap, data)
						     : import_free(client, data);
}

int fk_buffer_ref(fk_client *client, struct fk_buffer buffer, struct fk_ref *ret_ref)
{
	int err = client_check(client);

	if (err)
		return err;
	return args_buffer(&client->heap, buffer, ret_ref);
}
