/* SPDX-License-Identifier: MIT */
/*
 * steal_policy.h - the scheduler's small decisions: how much to make public, how often to ask
 *
 * Pure functions, so that the pool and the scale model (tests/sim) decide alike. Which workers look
 * and are woken is lazy_policy.h, how long a thief spins spin_policy.h, whom it steals from
 * victims.h.
 *
 * Threads: safepoint.c and work_search.c, on the worker that decides; tests/sim.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define POLICY_PUBLIC	   8u	  /* D: entries that a request makes public */
#define POLICY_TRIES	   16u	  /* victims in one look, at most */
#define POLICY_ASK_MAX	   20000u /* ns between two requests of a thief, at most */
#define POLICY_ASK_STEP	   500u	  /* ns: the least that a thief waits once it waits at all */
#define POLICY_ASK_SHORT   2000u  /* ns: a stolen strand below this was not worth its request */
#define POLICY_SIGNAL_MIN  20000u /* ns: a victim that has not answered gets a signal after this */
#define POLICY_SIGNAL_MAX  2000000u /* ns between two signals to a victim, at most */
#define POLICY_TIMED_SLEEP 100000u  /* ns: a thief that must not sleep looks again after it */
#define POLICY_MAIL                                                                                \
	50000u /* ns that a worker may run one thing and keep fibers that were sent to it */
#define POLICY_SPREAD 2u /* sleepers that a thief wakes which slept, at most */
/* ns: the turn of a job that has begun, at least */
#define POLICY_TURN UINT64_C(2000000)

/*
 * How many of the private entries an owner makes public when it was asked. The newest stays private
 * where there are others: its owner comes back to it first, and would take all back with it before
 * a thief has looked.
 */
static inline uint64_t policy_publish(uint64_t public, uint64_t private, uint64_t most)
{
	uint64_t room = public < most ? most - public : 0;
	uint64_t n = private < room ? private : room;

	return n && n == private && public + n > 1 ? n - 1 : n;
}

/* Is so little left public, after a steal, that the thief asks for more on behalf of the next? */
static inline bool policy_ask_more(uint64_t public, uint64_t most)
{
	return public < most / 2;
}

/*
 * Returns how many sleepers of its group a thief wakes that slept and has just stolen. left:
 * entries that it left public: one sleeper for each, but not for all, since each of them does the
 * same. So a group is awake after a logarithmic number of wakes, one behind the other.
 */
static inline uint32_t policy_spread(uint64_t left, uint32_t most)
{
	return left < most ? (uint32_t)left : most;
}

/*
 * How long a thief waits between two requests, from how long it waited and how long the strand was
 * that it got. Being asked costs a victim its C stack, so a thief of short strands waits longer;
 * one of long ones soon waits no more. All in ns.
 */
static inline uint64_t policy_ask_wait(uint64_t wait, uint64_t strand)
{
	if (strand >= POLICY_ASK_SHORT)
		return wait / 2;
	wait = 2 * wait + POLICY_ASK_STEP;
	return wait < POLICY_ASK_MAX ? wait : POLICY_ASK_MAX;
}
