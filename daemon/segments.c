/* SPDX-License-Identifier: MIT */
/*
 * daemon/segments.c - clients' segments: made, counted, taken back
 *
 * WHO CALLS IT, ON WHICH THREAD
 *   session.c, on the manager's only thread.
 *
 * INVARIANTS
 *   I1. Numbers about a client's segment are kept here; the segment is never asked.
 *   I2. A segment's bytes are counted until its pages are gone. Whoever keeps a mapping or a
 *       descriptor would keep them, so they are punched out of it once no pool has it. What a
 *       client touches later is its own expense.
 *   I3. A slot's rows in the ledger are FREE when its next client attaches, and that one's
 *       generations go on where the last one's ended: the ledger takes none twice.
 *
 * WHAT HAPPENS IF A PEER DIES HERE
 *   A client, or a child of it that has the mapping or the descriptor: I2.
 */
#include "daemon/segments.h"

#include "common/cleanup.h"

uint64_t segments_size(uint32_t n_jobs, uint64_t heap_size)
{
	return client_segment_heap_offset(n_jobs) + heap_size;
}

struct job *segments_jobs(const struct segments_client *client)
{
	return (struct job *)(void *)((char *)client->base + sizeof(struct client_segment));
}

/* I3. Relaxed: the pool has released the slot, and its client does not have the segment yet. */
static void segments_reset_rows(const struct segments *all, uint32_t slot,
				const struct segments_client *client)
{
	uint32_t max_jobs = all->options->max_jobs;
	_Atomic uint64_t *rows = arena_rows(all->arena) + (size_t)slot * max_jobs;
	struct job *jobs = segments_jobs(client);

	/* Whatever an attach that failed has left there is void. */
	for (uint32_t i = 0; i < max_jobs; i++) {
		struct ledger_row row =
			ledger_unpack(atomic_load_explicit(&rows[i], memory_order_relaxed));

		if (row.state != LEDGER_FREE)
			atomic_store_explicit(
				&rows[i],
				ledger_pack((struct ledger_row){ .generation = row.generation }),
				memory_order_relaxed);
		if (i >= client->n_jobs || !row.generation)
			continue;
		atomic_store_explicit(&jobs[i].generation, row.generation, memory_order_relaxed);
		atomic_store_explicit(&jobs[i].state, job_state(row.generation, JOB_IDLE),
				      memory_order_relaxed);
	}
}

int segments_make(struct segments *all, const struct segments_owner *owner, uint32_t n_jobs,
		  uint64_t heap_size, struct segments_client *ret)
{
	struct segments_client client = { .n_jobs = n_jobs,
					  .size = segments_size(n_jobs, heap_size) };
	_cleanup_close_ int fd =
		segment_create("forkd-client", SEGMENT_CLIENT, client.size, all->epoch, 1, 0600);
	void *base;
	int r;

	if (fd < 0)
		return fd;
	r = segment_map(fd, SEGMENT_CLIENT, 1, all->epoch, &base, NULL);
	if (r < 0)
		return r;
	client.fd = steal_fd(&fd);
	client.base = base;
	client.base->client = owner->slot;
	client.base->generation = owner->generation;
	client.base->tenant = owner->tenant;
	client.base->n_jobs = n_jobs;
	client.base->jobs_offset = sizeof(struct client_segment);
	client.base->heap_offset = client_segment_heap_offset(n_jobs);
	client.base->heap_size = heap_size;
	segments_reset_rows(all, owner->slot, &client);
	all->memory += client.size;
	*ret = client;
	return 0;
}

int segments_take_back(struct segments *all, struct segments_client *client)
{
	int r;

	segment_unmap(client->base, client->size);
	client->base = NULL;
	r = segment_empty(client->fd, client->size);
	if (r < 0)
		all->memory += client->size; /* which segments_close() takes off */
	segments_close(all, client);
	return r;
}

void segments_close(struct segments *all, struct segments_client *client)
{
	segment_unmap(client->base, client->size);
	all->memory -= client->size;
	(void)safe_close(client->fd);
	*client = SEGMENTS_NONE;
}
