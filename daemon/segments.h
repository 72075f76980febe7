/* SPDX-License-Identifier: MIT */
/* daemon/segments.h - clients' segments: made, counted, taken back */
#ifndef DAEMON_SEGMENTS_H
#define DAEMON_SEGMENTS_H

#include <stdint.h>

#include "common/options.h"
#include "shm/job.h"
#include "shm/ledger.h"

/* All of them. */
struct segments {
	/* the caller sets these; the rest starts as zero */
	const struct options *options;
	struct arena *arena;
	uint64_t epoch;

	uint64_t memory; /* bytes whose pages are not gone */
};

/* Whose it is. */
struct segments_owner {
	uint32_t slot;
	uint32_t generation;
	uint32_t tenant;
};

/* One client's. */
struct segments_client {
	int fd; /* -1: there is none */
	uint32_t n_jobs;
	uint64_t size;
	struct client_segment *base; /* NULL: it is not mapped */
};

#define SEGMENTS_NONE                                                                              \
	(struct segments_client)                                                                   \
	{                                                                                          \
		.fd = -1                                                                           \
	}

/* Bytes of one with so many records and bytes of heap. */
uint64_t segments_size(uint32_t n_jobs, uint64_t heap_size);

/* Makes a segment, and the slot's rows in the ledger ready for it. heap_size: whole pages. No pool
 * knows the slot. Returns 0 or a negative errno. */
int segments_make(struct segments *all, const struct segments_owner *owner, uint32_t n_jobs,
		  uint64_t heap_size, struct segments_client *ret);

/* Its job records: n_jobs. */
struct job *segments_jobs(const struct segments_client *client);

/* Takes it back with all of its pages, whoever else has it mapped or open; no pool has. Returns 0
 * or a negative errno: then its pages may be there, and stay counted. */
int segments_take_back(struct segments *all, struct segments_client *client);

/* Closes it: who has it mapped keeps what is in it. */
void segments_close(struct segments *all, struct segments_client *client);

#endif
