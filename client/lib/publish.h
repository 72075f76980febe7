/* SPDX-License-Identifier: MIT */
/* publish.h - chooses a ring, publishes into it, wakes a worker */
#pragma once

#include <stdint.h>

#include "shm/board.h"
#include "shm/tenant.h"

struct fk_client;
struct waker;

/* Chooses a ring for a job. last: worker of the last submission; random: any number. */
uint32_t publish_pick(const struct board *board, struct tenant_segment *tenant, uint32_t n_workers,
		      uint32_t last, uint32_t random);

/* The same among the workers of a NUMA node (os index). Returns n_workers if it has no worker. */
uint32_t publish_pick_node(const struct board *board, struct tenant_segment *tenant,
			   uint32_t n_workers, uint32_t node, uint32_t random);

/* Estimates the number of words in a ring: never too high, and more than half of it. */
uint64_t publish_length(struct ring *ring);

/*
 * Publishes a payload in the best ring, or in the next that has room, and wakes a worker.
 * Returns the ring, or -FK_E_RINGS_FULL if all are full.
 */
int publish(const struct board *board, struct tenant_segment *tenant, uint32_t n_workers,
	    uint32_t last, uint32_t random, uint32_t payload, struct waker *waker);

/*
 * The same in a ring of a place (shm/job.h) that exists. If these rings are full and the place is
 * not strict, in any ring.
 */
int publish_placed(const struct board *board, struct tenant_segment *tenant, uint32_t n_workers,
		   uint32_t place, uint32_t random, uint32_t payload, struct waker *waker);

/*
 * Prefetches the cache lines that publish_record() will probably change. Other CPUs changed them
 * last, so each of its steps would wait for one line. Call it before the record is filled.
 */
void publish_prepare(struct fk_client *client);

/*
 * Publishes the record with this index: a job, or the first of a chain. place: JOB_PLACE_*.
 * wait: if all rings are full, waits until one has room.
 * Returns 0, -FK_E_RINGS_FULL (all are full), -ECONNRESET.
 */
int publish_record(struct fk_client *client, uint32_t index, uint32_t place, int wait);
