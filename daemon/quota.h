/* SPDX-License-Identifier: MIT */
/* daemon/quota.h - what each uid holds of what all share, and what it may hold */
#ifndef DAEMON_QUOTA_H
#define DAEMON_QUOTA_H

#include <stdint.h>

#include "common/options.h"
#include "shm/limits.h"

#define QUOTA_GREETINGS 256u /* connections without a HELLO, of all together */

/* What is held, or may be. */
struct quota_sums {
	uint32_t clients;   /* slots, until the pool has released who is gone */
	uint32_t greetings; /* connections without a HELLO */
	uint64_t jobs;	    /* records */
	uint64_t bytes;	    /* of clients' segments */
};

/* Each of those who hold something has a connection: there are no more of them. One is over until
 * quota_hog() has said which. */
#define QUOTA_USERS (LIMIT_CLIENTS + QUOTA_GREETINGS + 1)

struct quota {
	struct quota_sums all;
	uint32_t n;
	struct quota_user {
		uint32_t uid;
		struct quota_sums held;
	} users[QUOTA_USERS];
};

/* What a uid may hold. Greetings have no limit of their own: quota_hog(). */
struct quota_sums quota_for(const struct options *options, uint32_t uid);

/* What it holds. */
struct quota_sums quota_held(const struct quota *quota, uint32_t uid);

/* It has this more, or less. */
void quota_take(struct quota *quota, uint32_t uid, const struct quota_sums *more);
void quota_give(struct quota *quota, uint32_t uid, const struct quota_sums *less);

/* The sum over a uid's sessions is what stands here (I1), or this process ends. */
void quota_check(const struct quota *quota, uint32_t uid, const struct quota_sums *sum);
void quota_add(struct quota_sums *sum, const struct quota_sums *more);

/* The uid that holds most greetings, of several the one that came first; there is one. */
uint32_t quota_hog(const struct quota *quota);

#endif
