/* SPDX-License-Identifier: MIT */
/* quota.h - what each uid may hold of the shared resources */
#pragma once

#include <stdint.h>

#include "common/clock.h"
#include "shm/limits.h"

struct options;
struct options_peer;

#define QUOTA_GREETINGS 256u /* connections without a HELLO, of all uids */
#define QUOTA_WAITING	256u /* connections that came too fast and wait, of all uids */
#define QUOTA_WAITING_1 64u  /* the same, of one uid */

/* Charges, in ns of a uid's time. */
#define QUOTA_CONNECT_NS (2 * NSEC_PER_MSEC)
#define QUOTA_REQUEST_NS (100 * NSEC_PER_USEC)
#define QUOTA_BURST_NS	 (768 * QUOTA_CONNECT_NS) /* a uid may be this far ahead of the clock */
/* The same for requests. The rest is for one request of each waiting connection, and for another
 * connection (quota.c, I3). */
#define QUOTA_REQUEST_BURST_NS                                                                     \
	(QUOTA_BURST_NS - LIMIT_CLIENTS * QUOTA_REQUEST_NS - 2 * QUOTA_CONNECT_NS)
#define QUOTA_OPERATOR 16u /* root and forkd's own uid pay this fraction */
#define QUOTA_PACED    256u

/* Used amounts, or limits. */
struct quota_sums {
	uint32_t clients; /* slots, until the pool has released them */
	uint64_t jobs;	  /* records */
	uint64_t bytes;	  /* of clients' segments */
};

/* What the uid of a peer may hold if the peer requests more. Connections without a HELLO have no
 * limit of their own: quota_hog(). */
struct quota_sums quota_for(const struct options *options, const struct options_peer *peer);

/* Returns the uid that occurs most often among n of them; of several, the one whose last entry is
 * last. n: at least 1, and at most QUOTA_GREETINGS + 1, because each is compared with each. */
uint32_t quota_hog(const uint32_t *uids, uint32_t n);

/* Time up to which each uid has used its share, CLOCK_MONOTONIC, ns. All zero at first. */
struct quota_pace {
	struct quota_paced {
		uint32_t uid;
		uint64_t until_ns;
	} users[QUOTA_PACED];
};

/* Charges a uid for a connection. Returns 0; or, without a charge, how many ns it must wait
 * first. */
uint64_t quota_charge(struct quota_pace *pace, uint32_t uid, uint64_t ns, uint64_t now);

/* Charges a uid for a request. Returns how many ns later it may be served. Until then the same
 * connection must not make another one. */
uint64_t quota_reserve(struct quota_pace *pace, uint32_t uid, uint64_t ns, uint64_t now);
