/* SPDX-License-Identifier: MIT */
/* client_segments.h - clients' segments: made, counted, taken back */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/list.h"
#include "daemon/manager/page_populate.h"
#include "shm/job.h"

struct arena;
struct loop;
struct options;

struct segments {
	/* the caller sets these; the rest starts as zero */
	struct loop *loop;
	const struct options *options;
	struct arena *arena;
	uint64_t epoch;

	uint64_t memory;	/* bytes whose pages are not gone */
	struct list_link queue; /* that are being made or taken back, or wait for that */
};

struct segments_owner {
	uint32_t slot;
	uint32_t generation;
	uint32_t tenant;
};

/* One client's; it must stay where it is from segments_make() on. */
struct segments_client {
	int fd; /* -1: there is none */
	uint32_t n_jobs;
	uint64_t size;
	struct client_segment *base; /* NULL: it is not mapped */

	/* being made or taken back */
	void (*call)(struct segments_client *client, int result);
	struct segments *all;
	struct list_link link; /* in the queue, if it is one of these */
	struct pages pages;
	uint32_t uid;
	bool begun;  /* it is its turn */
	bool taking; /* back */
};

#define SEGMENTS_NONE ((struct segments_client){ .fd = -1 })

/* Bytes of a segment with n_jobs records. */
static inline uint64_t segments_size(uint32_t n_jobs, uint64_t heap_size)
{
	return client_segment_heap_offset(n_jobs) + heap_size;
}

/*
 * Begins to make a segment, which counts from now on. heap_size: whole pages. uid: of whom one
 * segment is worked on at a time.
 * Returns 0: call(client, result) follows, from the loop; result: 0, it has all its pages, or a
 * negative errno, and it is to be taken back. Or returns a negative errno: there is none.
 */
int segments_make(struct segments *all, struct segments_client *client, uint32_t uid,
		  uint32_t n_jobs, uint64_t heap_size,
		  void (*call)(struct segments_client *client, int result));

/* Maps one that was made, and makes it and the slot's rows in the ledger ready for its owner. No
 * pool knows the slot. Returns 0 or a negative errno. */
int segments_open(struct segments *all, struct segments_client *client,
		  const struct segments_owner *owner);

/* The descriptor is of no segment of that size. */
#define SEGMENTS_FOREIGN 1

/* Maps what a former manager has left. Returns 0, SEGMENTS_FOREIGN, or a negative errno. */
int segments_map(int fd, uint64_t size, void **ret_base);

/* Takes over one that a former manager has made, of this size: its owner has it mapped. Returns as
 * segments_map(); unless that is 0, fd is the caller's still. */
int segments_takeover(struct segments *all, struct segments_client *client, uint32_t uid, int fd,
		      uint32_t n_jobs, uint64_t size);

/* Its job records: n_jobs. NULL if it is not open. */
struct job *segments_jobs(const struct segments_client *client);

/*
 * Begins to take it back with all of its pages, even if a process has it mapped or open; no pool
 * has. It may still be being made: that ends without a call.
 * Returns 0: call(client, result) follows, from the loop; result: 0, or a negative errno: its pages
 * may be there, and stay counted. Or returns that errno itself. There is none then.
 */
int segments_take_back(struct segments_client *client,
		       void (*call)(struct segments_client *client, int result));

/* At the end of forkd, or if there is none: closes it, whatever is done with it, with no call. A
 * client that has it mapped keeps what is in it. */
void segments_close(struct segments *all, struct segments_client *client);
