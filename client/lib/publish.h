/* SPDX-License-Identifier: MIT */
/* publish.h - which ring, into it, and who is woken */
#ifndef CLIENT_LIB_PUBLISH_H
#define CLIENT_LIB_PUBLISH_H

#include <stdint.h>

#include "common/clock.h"
#include "shm/board.h"
#include "shm/limits.h"
#include "shm/tenant.h"

struct fk_client;

/* How long a thread that was woken may leave its word as it is until the client rings: wake.h, W11.
 */
#define PUBLISH_DOUBT (2 * NSEC_PER_MSEC)
#define PUBLISH_SURE  UINT64_MAX

/* How long a sleep lasts meanwhile if the client has not rung for a second. A timer that is later
 * than the next tick of the kernel costs nothing; an earlier one costs 4 us on each side of the
 * sleep in a virtual machine. */
#define PUBLISH_NAP (8 * NSEC_PER_MSEC)

/* What a client knows of the threads that it has woken. Hints; all except fd are 0 at first. */
struct publish_waker {
	int fd;			   /* its socket, -1: none; constant */
	_Atomic uint32_t last;	   /* index in woken[] of the last one, or of one found there */
	_Atomic uint64_t since_ns; /* when a thread was woken last, CLOCK_MONOTONIC */
	_Atomic uint32_t cancels;  /* a message in the socket may be a cancel */
	_Atomic uint64_t rung_ns;  /* when the client rang last because of a doubt */
	/* for each worker, and for the dispatcher at LIMIT_WORKERS: { pool's generation:32, its
	 * word when it was woken:32 } */
	_Atomic uint64_t woken[LIMIT_WORKERS + 1];
};

/* Whose ring a job should go to. last: a worker; random: any number. */
uint32_t publish_pick(const struct board *board, struct tenant_segment *tenant, uint32_t n_workers,
		      uint32_t last, uint32_t random);

/* The same among the workers of a NUMA node (os index), or n_workers if it has none. */
uint32_t publish_pick_node(const struct board *board, struct tenant_segment *tenant,
			   uint32_t n_workers, uint32_t node, uint32_t random);

/* How many words a ring holds, never too high, and more than half of the truth. */
uint64_t publish_length(struct ring *ring);

/*
 * The publisher's part of shm/wake.h, after wake_published(), for a job in this ring.
 * waker: the client's; or NULL.
 * Returns the worker that was found awake or was woken, or n_workers if the dispatcher has it now.
 */
uint32_t publish_wake(const struct board *board, uint32_t n_workers, uint32_t ring,
		      struct publish_waker *waker);

/*
 * For how long, at now_ns, the thread that the client woke last has left its word as it was;
 * PUBLISH_SURE: it has changed its word, or none was woken.
 */
uint64_t publish_unsure(const struct board *board, const struct publish_waker *waker,
			uint64_t now_ns);

/* Has the dispatcher look at all rings, by the manager. True if it will. */
int publish_ring(const struct publish_waker *waker);

/*
 * Publishes a payload in the ring that suits best, or in the next that has room, and wakes.
 * Returns the ring, or -EAGAIN if all are full.
 */
int publish(const struct board *board, struct tenant_segment *tenant, uint32_t n_workers,
	    uint32_t last, uint32_t random, uint32_t payload, struct publish_waker *waker);

/*
 * The same in a ring of this place (shm/job.h), which exists; or in any, if these are full and the
 * place is not strict.
 */
int publish_placed(const struct board *board, struct tenant_segment *tenant, uint32_t n_workers,
		   uint32_t place, uint32_t random, uint32_t payload, struct publish_waker *waker);

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

#endif
