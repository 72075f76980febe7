/* SPDX-License-Identifier: MIT */
/* publish.h - chooses a ring, publishes into it, wakes a worker */
#pragma once

#include <stdint.h>

#include "shm/board.h"
#include "shm/tenant.h"

struct fk_client;
struct waker;

/* Whose ring a job should go to. last: a worker; random: any number. */
uint32_t publish_pick(const struct board *board, struct tenant_segment *tenant, uint32_t n_workers,
		      uint32_t last, uint32_t random);

/* The same among the workers of a NUMA node (os index), or n_workers if it has none. */
uint32_t publish_pick_node(const struct board *board, struct tenant_segment *tenant,
			   uint32_t n_workers, uint32_t node, uint32_t random);

/* How many words a ring holds, never too high, and more than half of the truth. */
uint64_t publish_length(struct ring *ring);

/*
 * Publishes a payload in the ring that suits best, or in the next that has room, and wakes.
 * Returns the ring, or -EAGAIN if all are full.
 */
int publish(const struct board *board, struct tenant_segment *tenant, uint32_t n_workers,
	    uint32_t last, uint32_t random, uint32_t payload, struct waker *waker);

/*
 * The same in a ring of this place (shm/job.h), which exists; or in any, if these are full and the
 * place is not strict.
 */
int publish_placed(const struct board *board, struct tenant_segment *tenant, uint32_t n_workers,
		   uint32_t place, uint32_t random, uint32_t payload, struct waker *waker);

/*
 * Before the record is filled: has this CPU fetch the lines that publish_record() will probably
 * change, each of which another CPU has changed last. Each of its steps would wait for one of them.
 */
void publish_prepare(struct fk_client *client);

/*
 * A client's job, or chain of jobs: publishes the record with this index. place: JOB_PLACE_*.
 * wait: with all rings full, until one has room.
 * Returns 0, -EAGAIN (all are full), -ECONNRESET.
 */
int publish_record(struct fk_client *client, uint32_t index, uint32_t place, int wait);
