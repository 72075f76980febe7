/* SPDX-License-Identifier: MIT */
/* daemon/quota.h - what each uid may hold of what all share */
#ifndef DAEMON_QUOTA_H
#define DAEMON_QUOTA_H

#include <stdint.h>

#include "common/options.h"

#define QUOTA_GREETINGS 256u /* connections without a HELLO, of all together */

/* What is held, or may be. */
struct quota_sums {
	uint32_t clients; /* slots, until the pool has released who is gone */
	uint64_t jobs;	  /* records */
	uint64_t bytes;	  /* of clients' segments */
};

/* What the uid of a peer may hold if the peer wants more. Connections without a HELLO have no limit
 * of their own: quota_hog(). */
struct quota_sums quota_for(const struct options *options, const struct options_peer *peer);

/* The uid that stands most often among n of them, of several the one that stands furthest back.
 * n: at least 1, and no more than QUOTA_GREETINGS + 1, for each is compared with each. */
uint32_t quota_hog(const uint32_t *uids, uint32_t n);

#endif
