/* SPDX-License-Identifier: MIT */
/*
 * daemon/quota.c - what each uid holds of what all share, and what it may hold
 *
 * WHO CALLS IT, ON WHICH THREAD
 *   session.c, on the manager's only thread.
 *
 * WHAT IT IS
 *   forkd has places for so many connections, so many bytes, and so many that have not said HELLO.
 *   Who fills them shuts all others out: so what each uid has of them is counted, and is limited to
 *   less than there is; where forkd.conf does not say to what, an eighth is left to the others, and
 *   who is alone hardly feels it. Counted is what is not there for others: a client that is gone
 *   until the pool has released it, and one that forkd has ended until it lets go.
 *   Those that have not said HELLO are there for a moment, and many may come at once, when forkd
 *   was restarted. So a uid may have all the places, and makes room when others come: where none is
 *   left the uid that has most of them loses its newest. So everybody has as many as anybody else,
 *   or as it wants.
 *
 * INVARIANTS
 *   I1. The sums of a uid are the sums over its sessions, and those of all the sums over all uids:
 *       each session adds once what it takes, and gives back the same. session.c compares them.
 *   I2. Who holds nothing is not here.
 *
 * WHAT HAPPENS IF A PEER DIES HERE
 *   A client: its session gives back what it had. Others live in the manager's memory alone.
 */
#include "daemon/quota.h"

#include <assert.h>
#include <stdbool.h>

/* All but an eighth, as long as that is one. */
static uint64_t quota_most(uint64_t all)
{
	return all - all / 8;
}

struct quota_sums quota_for(const struct options *options, uint32_t uid)
{
	const struct options *o = options;

	(void)uid; /* the same for everybody */
	return (struct quota_sums){
		.clients =
			o->limit_clients ? o->limit_clients : (uint32_t)quota_most(o->max_clients),
		.greetings = QUOTA_GREETINGS,
		.jobs = o->limit_jobs ? o->limit_jobs : UINT64_MAX,
		.bytes = o->limit_bytes ? o->limit_bytes : quota_most(o->memory_max),
	};
}

/* Its place among the users; quota->n if it holds nothing. */
static uint32_t quota_find(const struct quota *quota, uint32_t uid)
{
	uint32_t i = 0;

	while (i < quota->n && quota->users[i].uid != uid)
		i++;
	return i;
}

struct quota_sums quota_held(const struct quota *quota, uint32_t uid)
{
	uint32_t i = quota_find(quota, uid);

	return i < quota->n ? quota->users[i].held : (struct quota_sums){ .clients = 0 };
}

void quota_add(struct quota_sums *sum, const struct quota_sums *more)
{
	sum->clients += more->clients;
	sum->greetings += more->greetings;
	sum->jobs += more->jobs;
	sum->bytes += more->bytes;
}

static void quota_subtract(struct quota_sums *sums, const struct quota_sums *less)
{
	assert(sums->clients >= less->clients && sums->greetings >= less->greetings);
	assert(sums->jobs >= less->jobs && sums->bytes >= less->bytes);
	sums->clients -= less->clients;
	sums->greetings -= less->greetings;
	sums->jobs -= less->jobs;
	sums->bytes -= less->bytes;
}

static bool quota_is_nothing(const struct quota_sums *sums)
{
	return !sums->clients && !sums->greetings && !sums->jobs && !sums->bytes;
}

void quota_take(struct quota *quota, uint32_t uid, const struct quota_sums *more)
{
	uint32_t i = quota_find(quota, uid);

	if (quota_is_nothing(more))
		return;
	if (i == quota->n) {
		assert(i < QUOTA_USERS);
		quota->users[quota->n++] = (struct quota_user){ .uid = uid };
	}
	quota_add(&quota->users[i].held, more);
	quota_add(&quota->all, more);
}

void quota_give(struct quota *quota, uint32_t uid, const struct quota_sums *less)
{
	uint32_t i = quota_find(quota, uid);

	if (quota_is_nothing(less))
		return;
	assert(i < quota->n);
	quota_subtract(&quota->users[i].held, less);
	quota_subtract(&quota->all, less);
	if (quota_is_nothing(&quota->users[i].held))
		quota->users[i] = quota->users[--quota->n];
}

void quota_check(const struct quota *quota, uint32_t uid, const struct quota_sums *sum)
{
	const struct quota_sums held = quota_held(quota, uid);

	assert(held.clients == sum->clients && held.greetings == sum->greetings);
	assert(held.jobs == sum->jobs && held.bytes == sum->bytes);
}

uint32_t quota_hog(const struct quota *quota)
{
	const struct quota_user *hog = &quota->users[0];

	assert(quota->n);
	for (uint32_t i = 1; i < quota->n; i++)
		if (quota->users[i].held.greetings > hog->held.greetings)
			hog = &quota->users[i];
	return hog->uid;
}
