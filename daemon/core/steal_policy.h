/* SPDX-License-Identifier: MIT */
/*
 * steal_policy.h - small scheduling decisions: how many entries to publish, how often to request
 *
 * Pure functions, so that the pool and the simulation (tests/sim) decide alike. lazy_policy.h
 * decides which workers search and are woken, spin_policy.h how long a thief spins, victims.h which
 * victims it tries.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define POLICY_PUBLIC	   8u	    /* D: entries that a request publishes */
#define POLICY_TRIES	   16u	    /* maximum number of victims in one search */
#define POLICY_ASK_MAX	   20000u   /* ns: longest time between two requests of a thief */
#define POLICY_ASK_STEP	   500u	    /* ns: shortest wait of a thief that waits at all */
#define POLICY_ASK_SHORT   2000u    /* ns: a shorter stolen strand did not pay for its request */
#define POLICY_SIGNAL_MIN  20000u   /* ns: then a victim that has not answered gets a signal */
#define POLICY_SIGNAL_MAX  2000000u /* ns: longest time between two signals to a victim */
#define POLICY_TIMED_SLEEP 100000u  /* ns: a thief that must not sleep searches again then */
#define POLICY_MAIL                                                                                \
	50000u /* ns that a worker may run one strand and keep fibers that were sent to it */
#define POLICY_SPREAD 2u /* sleepers that a thief which slept wakes, at most */
/* ns that a thief spins for the answer to a request, also to the signal that follows it */
#define POLICY_ANSWER (2 * POLICY_SIGNAL_MIN)
/* ns: shortest time slice of a job that has begun */
#define POLICY_TURN UINT64_C(2000000)

/* Returns how many private entries an owner publishes at a request. The newest one stays private if
 * there are others: its owner resumes it first, and would take back all entries with it before a
 * thief has searched. */
static inline uint64_t policy_publish(uint64_t public, uint64_t private, uint64_t most)
{
	uint64_t room = public < most ? most - public : 0;
	uint64_t n = private < room ? private : room;

	return n && n == private && public + n > 1 ? n - 1 : n;
}

/* True if a steal leaves so few public entries that the thief requests more for the next thief. */
static inline bool policy_ask_more(uint64_t public, uint64_t most)
{
	return public < most / 2;
}

/* Returns how many sleepers of its group a thief wakes that slept and has just stolen. left:
 * entries that it left public. One sleeper for each, up to most, since each of them does the same.
 * So a group is awake after a logarithmic number of successive wakes. */
static inline uint32_t policy_spread(uint64_t left, uint32_t most)
{
	return left < most ? (uint32_t)left : most;
}

/* Returns how long a thief waits between two requests, from its last wait and the length of the
 * strand that it stole. A request costs a victim its C stack, so thieves of short strands wait
 * longer, and thieves of long strands soon do not wait. All in ns. */
static inline uint64_t policy_ask_wait(uint64_t wait, uint64_t strand)
{
	if (strand >= POLICY_ASK_SHORT)
		return wait / 2;
	wait = 2 * wait + POLICY_ASK_STEP;
	return wait < POLICY_ASK_MAX ? wait : POLICY_ASK_MAX;
}
