/* SPDX-License-Identifier: MIT */
/*
 * quota.c - what each uid may hold of the shared resources
 *
 * Connections, bytes and connections without a HELLO are limited for all uids together. So that one
 * uid cannot take all of them, each uid's part is counted and limited: by forkd.conf, else to seven
 * eighths. A client counts until the pool has released it, or until it closes a connection that
 * forkd has ended. The limit of a group (user-clients-max and similar options) holds for each uid
 * that connects with it: all connections of a uid are counted together, and a new one is compared
 * with its own limit. So a uid never has more than the best of its connections may have; a
 * connection with a lower limit is refused what others of its uid have taken. Connections without a
 * HELLO soon send it, and many may come at once after a restart of forkd. So a uid may have all of
 * these places; if none is left, the uid that has most of them loses its newest.
 *
 * The manager's CPU time is limited as well, because the manager runs at a high priority: each
 * connection and each request is charged to its uid, which may be QUOTA_BURST_NS ahead of the clock
 * (the generic cell rate algorithm, ITU-T I.371). So a uid has 500 connections a second, or 10,000
 * requests, and 768 connections at once; root and forkd's own uid have 16 times as many. Further
 * connections wait (connection_line.c), and further requests stay in their sockets.
 *
 * INVARIANTS
 *   I1. What a uid holds is counted from its connections (connections.c) whenever it is needed:
 *       there is no second account that could differ. It is counted once for a HELLO, and there are
 *       no more connections than slots.
 *   I2. A uid that is not in the table has charged nothing. The table drops the uid that is ahead
 *       the least. While at most QUOTA_PACED uids are ahead of the clock, that uid is not ahead.
 *   I3. A request is charged when it is read, and waits until its time (quota_reserve()), with one
 *       timer. Until then the connection makes no other request (connection_internal.h, I6). So the
 *       requests of all connections bring a uid at most LIMIT_CLIENTS * QUOTA_REQUEST_NS beyond
 *       QUOTA_REQUEST_BURST_NS. That leaves time for another connection, even if each connection
 *       makes requests in a loop. Connections delay a request by 110 ms at most.
 */
#include "daemon/manager/quota.h"

#include "common/option_list.h"
#include "common/util.h"

/* All but an eighth; the eighth is rounded down to whole units. */
static uint64_t quota_most(uint64_t all)
{
	return all - all / 8;
}

struct quota_sums quota_for(const struct options *options, const struct options_peer *peer)
{
	const struct options *o = options;

	return (struct quota_sums){
		.clients = (uint32_t)option_list_number(o->user_clients_max, peer,
							quota_most(o->clients_max)),
		.jobs = option_list_number(o->user_jobs_max, peer, UINT64_MAX),
		.bytes = option_list_number(o->user_shared_memory_max, peer,
					    quota_most(o->shared_memory_max)),
	};
}

uint32_t quota_hog(const uint32_t *uids, uint32_t n)
{
	uint32_t hog = uids[0], most = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t times = 0;

		for (uint32_t j = 0; j < n; j++)
			times += uids[j] == uids[i];
		if (times >= most) {
			hog = uids[i];
			most = times;
		}
	}
	return hog;
}

/* Returns the uid's entry in the table, with a time that has not passed. */
static struct quota_paced *quota_user(struct quota_pace *pace, uint32_t uid, uint64_t now)
{
	struct quota_paced *user = &pace->users[0];

	for (uint32_t i = 0; i < QUOTA_PACED && user->uid != uid; i++)
		if (pace->users[i].uid == uid || pace->users[i].until_ns < user->until_ns)
			user = &pace->users[i];
	if (user->uid != uid)
		*user = (struct quota_paced){ .uid = uid };
	user->until_ns = max(user->until_ns, now);
	return user;
}

uint64_t quota_charge(struct quota_pace *pace, uint32_t uid, uint64_t ns, uint64_t now)
{
	struct quota_paced *user = quota_user(pace, uid, now);

	if (user->until_ns - now + ns > QUOTA_BURST_NS)
		return user->until_ns - now + ns - QUOTA_BURST_NS;
	user->until_ns += ns;
	return 0;
}

uint64_t quota_reserve(struct quota_pace *pace, uint32_t uid, uint64_t ns, uint64_t now)
{
	struct quota_paced *user = quota_user(pace, uid, now);

	user->until_ns += ns;
	if (user->until_ns - now <= QUOTA_REQUEST_BURST_NS)
		return 0;
	return user->until_ns - now - QUOTA_REQUEST_BURST_NS;
}
