/* SPDX-License-Identifier: MIT */
/* client_segments.h - creation, accounting and removal of clients' segments */
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

	uint64_t memory;	/* bytes of segments that still have pages */
	struct list_link queue; /* segments that are being made or removed, or wait for it */
};

struct segments_owner {
	uint32_t slot;
	uint32_t generation;
	uint32_t tenant;
};

/* A client's segment; its address must not change after segments_make(). */
struct segments_client {
	int fd; /* -1: none */
	uint32_t n_jobs;
	uint64_t size;		     /* bytes of the file */
	uint64_t memory;	     /* bytes that are counted */
	uint64_t made;		     /* bytes that have pages; 0: the segment is being made */
	struct client_segment *base; /* NULL: not mapped */

	/* while it is made, extended or removed */
	int failed; /* why it could not be extended, while the new pages are given back; else 0 */
	void (*call)(struct segments_client *client, int result);
	struct segments *all;
	struct list_link link; /* in the queue, or unlinked */
	struct pages pages;
	uint32_t uid;
	bool begun;  /* its operation has started */
	bool taking; /* being removed */
};

#define SEGMENTS_NONE ((struct segments_client){ .fd = -1 })

/* Bytes of a segment with n_jobs records. */
static inline uint64_t segments_size(uint32_t n_jobs, uint64_t heap_size)
{
	return client_segment_heap_offset(n_jobs) + heap_size;
}

/* Bytes of its heap that have pages. */
static inline uint64_t segments_heap(const struct segments_client *client)
{
	return client->made - client_segment_heap_offset(client->n_jobs);
}

/* True if it has an end of segments_make(), segments_grow() or segments_take_back() to wait for. */
static inline bool segments_is_busy(const struct segments_client *client)
{
	return client->link.next != NULL;
}

/*
 * Starts to make a segment, which is counted from now on. heap_size, heap_max: whole pages; the
 * heap's size at first, and the size that it can grow to. uid: one segment of each uid is processed
 * at a time.
 * Returns 0: call(client, result) follows, from the loop. result: 0, it has all its pages; or a
 * negative errno, and the caller must remove it. Or returns a negative errno: there is no segment.
 */
int segments_make(struct segments *all, struct segments_client *client, uint32_t uid,
		  uint32_t n_jobs, uint64_t heap_size, uint64_t heap_max,
		  void (*call)(struct segments_client *client, int result));

/*
 * Starts to extend the heap of an open segment that is not busy. heap_size: whole pages, more than
 * it has and at most heap_max; they are counted from now on.
 * Returns 0: call(client, result) follows, from the loop; or a negative errno: there is no call.
 * After an error the heap has its old size.
 */
int segments_grow(struct segments_client *client, uint64_t heap_size,
		  void (*call)(struct segments_client *client, int result));

/* Sends the client of an open segment the heap's size, as the answer to its request of this number.
 * error: a negative errno, or 0. */
void segments_answer(struct segments_client *client, uint32_t number, int error);

/* Maps a segment that was made, and prepares it and the slot's rows in the ledger for its owner. No
 * pool may know the slot. Returns 0 or a negative errno. */
int segments_open(struct segments *all, struct segments_client *client,
		  const struct segments_owner *owner);

/* The descriptor is not a segment of that size. */
#define SEGMENTS_FOREIGN 1

/* Maps a segment of an earlier manager. Returns 0, SEGMENTS_FOREIGN, or a negative errno. */
int segments_map(int fd, uint64_t size, void **ret_base);

/* Takes over a segment that an earlier manager has made, of this size and with this memory counted:
 * its owner has it mapped. Returns as segments_map(); unless 0, the caller keeps fd. */
int segments_takeover(struct segments *all, struct segments_client *client, uint32_t uid, int fd,
		      uint32_t n_jobs, uint64_t size, uint64_t memory);

/* Returns its n_jobs job records; NULL if it is not open. */
struct job *segments_jobs(const struct segments_client *client);

/*
 * Starts to remove a segment with all of its pages, even if a process has it mapped or open; no
 * pool may have it. If it is still being made, that ends without a call.
 * Returns 0: call(client, result) follows, from the loop. result: 0, or a negative errno: its pages
 * may remain, and stay counted. Or returns that errno itself. Then there is no segment.
 */
int segments_take_back(struct segments_client *client,
		       void (*call)(struct segments_client *client, int result));

/* Closes a segment in any state, without a call; at forkd's end, or if there is none. A client that
 * has it mapped keeps its contents. */
void segments_close(struct segments *all, struct segments_client *client);
