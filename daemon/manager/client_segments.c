/* SPDX-License-Identifier: MIT */
/*
 * client_segments.c - creation, accounting and removal of clients' segments
 *
 * INVARIANTS
 *   I1. Numbers about a client's segment are kept here; they are never read from the segment.
 *   I2. A segment's bytes are counted until its pages are gone. A process that keeps a mapping or a
 *       descriptor would keep them, so they are punched out once no pool has the segment. Pages
 *       that a client touches later are charged to the client by the kernel.
 *   I3. Clients choose the size of a segment, and how many they make. So the manager only starts to
 *       make, extend or remove one (page_populate.c). It processes one segment of a uid at a time,
 *       and the others of that uid are queued. So a segment waits for at most as many others as
 *       there are uids.
 *   I4. The file has the size of the largest heap that the client may have (shm/segment.h, I1). Its
 *       first `memory` bytes are counted, and the first `made` bytes have pages: made <= memory <=
 *       size. The pool takes references to made bytes only (arena->heap_sizes). So no task touches
 *       a byte that is not counted, even after the client has punched holes. made < memory while
 *       the heap grows, and while the new pages are given back because it could not grow.
 *       The saved state has the new memory before a page is made (connection.c). A next manager
 *       counts it and takes it as made. If the heap had not grown when this manager died, a task
 *       may be the first to touch a page, but that page is counted.
 *   I5. A slot's rows in the ledger are FREE when its next client attaches, and that client's
 *       generations continue from the last client's: the ledger never sees one twice.
 */
#include "daemon/manager/client_segments.h"

#include <errno.h>

#include "common/list.h"
#include "common/options.h"
#include "common/relaxed.h"
#include "common/util.h"
#include "daemon/manager/loop.h"
#include "shm/futex.h"
#include "shm/ledger.h"
#include "shm/segment.h"

struct job *segments_jobs(const struct segments_client *client)
{
	if (!client->base)
		return NULL;
	return (struct job *)(void *)((char *)client->base + sizeof(struct client_segment));
}

/* ------------------------------------------------------------------------ one at a time (I3) */

static void segments_unlink(struct segments_client *client)
{
	if (client->link.next)
		list_remove(&client->link);
}

static struct segments_client *segments_next(const struct segments *all, uint32_t uid)
{
	struct segments_client *client;

	list_for_each (client, &all->queue, link)
		if (client->uid == uid)
			break;
	return client;
}

static int segments_begin(struct segments_client *client)
{
	client->begun = true;
	return client->taking
		     ? pages_drop(&client->pages, client->fd, 0, client->size)
		     : pages_make(&client->pages, client->fd, client->made, client->memory);
}

/* memory: bytes that are counted from now on. */
static void segments_count(struct segments_client *client, uint64_t memory)
{
	client->all->memory += memory - client->memory;
	client->memory = memory;
}

static void segments_taken(struct segments_client *client, int r)
{
	if (r < 0)
		client->all->memory += client->memory; /* subtracted again by segments_close() */
	segments_close(client->all, client);
}

/* I4. r: result of making the pages, or of giving them back after that has failed. */
static int segments_made(struct segments_client *client, int r)
{
	int failed = client->failed;

	client->failed = 0;
	if (r == 0 && !failed)
		client->made = client->memory;
	/* If pages may be left they stay counted. */
	else if (client->made && (r == 0 || !failed))
		segments_count(client, client->made);
	return failed ? failed : r;
}

/* The operation has ended: the segment belongs to its owner again. */
static void segments_end(struct segments_client *client, int r)
{
	segments_unlink(client);
	if (client->taking)
		segments_taken(client, r);
	else
		r = segments_made(client, r);
	client->call(client, r);
}

/* A segment of this uid has left the queue: starts the next one; if that fails, it ends too. */
static void segments_turn(struct segments *all, uint32_t uid)
{
	struct segments_client *client;
	int r;

	while ((client = segments_next(all, uid)) && !client->begun) {
		r = segments_begin(client);
		if (r < 0)
			segments_end(client, r);
	}
}

static void segments_on_pages(struct pages *pages, int result)
{
	struct segments_client *client = container_of(pages, struct segments_client, pages);
	struct segments *all = client->all;
	uint32_t uid = client->uid;

	/* Some pages of a growth may have been made. */
	if (result < 0 && client->made && !client->taking && !client->failed) {
		client->failed = result;
		result = pages_drop(pages, client->fd, client->made, client->memory);
		if (result == 0)
			return;
	}
	segments_end(client, result);
	segments_turn(all, uid);
}

/* Starts the operation, or queues it after others of its uid. */
static int segments_enter(struct segments_client *client)
{
	struct segments *all = client->all;
	int r = 0;

	client->begun = false;
	list_add(&all->queue, &client->link);
	if (segments_next(all, client->uid) == client)
		r = segments_begin(client);
	if (r < 0)
		segments_unlink(client);
	return r;
}

/* ------------------------------------------------------------------------ one */

/* I5. Relaxed: the pool has released the slot, and its client does not have the segment yet. */
static void segments_reset_rows(const struct segments *all, uint32_t slot,
				const struct segments_client *client)
{
	uint32_t jobs_max = all->options->jobs_max;
	_Atomic uint64_t *rows = arena_rows(all->arena) + (size_t)slot * jobs_max;
	struct job *jobs = segments_jobs(client);

	/* Rows left by a failed attach are void. */
	for (uint32_t i = 0; i < jobs_max; i++) {
		struct ledger_row row = ledger_unpack(load_relaxed(&rows[i]));

		if (row.state != LEDGER_FREE)
			store_relaxed(&rows[i], ledger_pack((struct ledger_row){
							.generation = row.generation }));
		if (i >= client->n_jobs || !row.generation)
			continue;
		store_relaxed(&jobs[i].generation, row.generation);
		store_relaxed(&jobs[i].state, job_state(row.generation, JOB_IDLE));
	}
}

static void segments_own(struct segments *all, struct segments_client *client, uint32_t uid, int fd,
			 uint32_t n_jobs, uint64_t size, uint64_t memory)
{
	*client = (struct segments_client){
		.fd = fd,
		.n_jobs = n_jobs,
		.size = size,
		.memory = memory,
		.all = all,
		.pages = { .loop = all->loop, .call = segments_on_pages },
		.uid = uid,
	};
	all->memory += memory;
}

int segments_make(struct segments *all, struct segments_client *client, uint32_t uid,
		  uint32_t n_jobs, uint64_t heap_size, uint64_t heap_max,
		  void (*call)(struct segments_client *client, int result))
{
	uint64_t size = segments_size(n_jobs, heap_max);
	int fd = segment_create("forkd-client", SEGMENT_CLIENT, size, all->epoch, 0, 0600);
	int r;

	if (fd < 0)
		return fd;
	segments_own(all, client, uid, fd, n_jobs, size, segments_size(n_jobs, heap_size));
	client->call = call;
	r = segments_enter(client);
	if (r < 0)
		segments_close(all, client);
	return r;
}

int segments_open(struct segments *all, struct segments_client *client,
		  const struct segments_owner *owner)
{
	void *base;
	int r;

	r = segment_map(client->fd, SEGMENT_CLIENT, 1, all->epoch, &base, NULL);
	if (r < 0)
		return r;
	client->base = base;
	client->base->client = owner->slot;
	client->base->generation = owner->generation;
	client->base->tenant = owner->tenant;
	client->base->n_jobs = client->n_jobs;
	client->base->jobs_offset = sizeof(struct client_segment);
	client->base->heap_offset = client_segment_heap_offset(client->n_jobs);
	client->base->heap_max = client->size - client->base->heap_offset;
	store_relaxed(&client->base->heap_size, segments_heap(client));
	segments_reset_rows(all, owner->slot, client);
	return 0;
}

int segments_grow(struct segments_client *client, uint64_t heap_size,
		  void (*call)(struct segments_client *client, int result))
{
	int r;

	segments_count(client, segments_size(client->n_jobs, heap_size));
	client->call = call;
	r = segments_enter(client);
	if (r < 0)
		segments_count(client, client->made);
	return r;
}

void segments_answer(struct segments_client *client, uint32_t number, int error)
{
	struct client_segment *base = client->base;

	/* Relaxed: with the answer. */
	store_relaxed(&base->heap_size, segments_heap(client));
	store_relaxed(&base->grow_error, error);
	/* ORDER heap/grown [H1]: release, pairs with the acquire in client/lib/heap_api.c, and with
	 * input_resolve() behind that. */
	atomic_store_explicit(&base->grow_answer, number, memory_order_release);
	(void)futex_wake(&base->grow_answer, INT32_MAX);
}

int segments_map(int fd, uint64_t size, void **ret_base)
{
	int r = segment_map_sized(fd, size, ret_base);

	/* Errors of mmap(2) by a shortage. */
	return r == 0 || r == -EAGAIN || r == -ENFILE || r == -ENOMEM ? r : SEGMENTS_FOREIGN;
}

int segments_takeover(struct segments *all, struct segments_client *client, uint32_t uid, int fd,
		      uint32_t n_jobs, uint64_t size, uint64_t memory)
{
	void *base;
	int r;

	if (memory < client_segment_heap_offset(n_jobs) || size < memory)
		return SEGMENTS_FOREIGN;
	r = segments_map(fd, size, &base);
	if (r != 0)
		return r;
	segments_own(all, client, uid, fd, n_jobs, size, memory);
	client->made = memory;
	client->base = base;
	store_relaxed(&client->base->heap_size, segments_heap(client));
	return 0;
}

int segments_take_back(struct segments_client *client,
		       void (*call)(struct segments_client *client, int result))
{
	int r = 0;

	segment_unmap(client->base, client->size);
	client->base = NULL;
	client->call = call;
	client->taking = true;
	if (!client->link.next)
		r = segments_enter(client);
	else if (client->begun)
		r = pages_drop(&client->pages, client->fd, 0, client->size);
	if (r < 0)
		segments_taken(client, r);
	return r;
}

void segments_close(struct segments *all, struct segments_client *client)
{
	if (client->fd < 0)
		return;
	segments_unlink(client);
	pages_stop(&client->pages);
	segment_unmap(client->base, client->size);
	all->memory -= client->memory;
	client->fd = loop_close(all->loop, client->fd);
	client->base = NULL;
}
