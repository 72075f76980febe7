/* SPDX-License-Identifier: MIT */
/*
 * shm/group.h - a counter that a batch of jobs counts down: one futex for all of them
 *
 * WRITERS AND READERS
 *   A table of LIMIT_GROUPS groups in each client segment, between jobs and heap. The client counts
 *   up before it publishes jobs, and waits for zero. The thread that gives a job its outcome counts
 *   its group down once, after the outcome: a worker, or the manager after the pool's death. The
 *   client can write anything at any time. For any contents the pool makes one fetch-and-subtract
 *   with a checked index, and at most one futex wake.
 *
 * THE WORD
 *   { generation:16, waiter:1, count:15 }, a futex word.
 * 	count      jobs that were added and not counted down; the table has LIMIT_JOBS records,
 * 		   and each worker can lag behind by one job, so 15 bits are enough
 * 	waiter     a thread sleeps, or will, until the count is 0
 * 	generation grows when a count of 0 grows, so a late waiter sees that its own has ended
 *
 * 	client   0 --group_add(n)--> n ... --group_add(m)--> n + m            one CAS each
 * 	pool     stores a job's outcome, then group_done(): count - 1         one fetch-sub
 * 		 the one that makes it 0 and finds the waiter bit wakes all
 * 	waiter   group_announce(): sets the bit by a CAS while the count is not 0; sleeps on that
 * 		 value; checks again
 *
 * INVARIANTS (of an honest client; a hostile one only breaks its own waits)
 *   I1. The count is at least the number of published jobs without an outcome: group_add() precedes
 *       the publication, group_done() follows the outcome. So at a count of 0 all of them have one.
 *       The thread that reads the 0 also sees their results. All changes of the word are
 *       read-modify-writes, so its acquire pairs with the release of every earlier group_done(),
 *       not only the last.
 *   I2. No thread sleeps through a zero. The waiter bit is set by a CAS on a word whose count is
 *       not 0. So the step that makes the count 0 comes later, and finds the bit: only group_add()
 *       clears it, and only on a count of 0. Between the CAS and the sleep any change of the word
 *       makes FUTEX_WAIT return.
 *       makes FUTEX_WAIT return.
 *   I3. One group_done() for each job added, except for I4: a job has one outcome (job.h, I1), and
 *       the thread that gives it counts once. So the count never goes below 0.
 *   I4. A pool that dies between an outcome and its group_done() leaves the count too high by one.
 *       The manager cannot detect that, and counts down only for outcomes that it gives itself. So
 *       a waiter checks the jobs themselves at intervals. If none of them is pending, the group has
 *       ended, and its record is reused only when its count is 0.
 *
 * If a peer dies: client, after group_add() and before the publication: its segment goes with it.
 * Pool: I4. Daemon: a waiter finds the socket closed.
 *
 * Compiles with C11 alone: tests/model/group.c runs this file.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "common/relaxed.h"
#include "shm/limits.h"

#define GROUP_COUNT	0x7fffu
#define GROUP_WAITER	0x8000u
#define GROUP_GEN_SHIFT 16

struct group {
	/* client and pool write, both read */
	_Alignas(64) _Atomic uint32_t word;
	uint8_t reserved[60];
};

_Static_assert(sizeof(struct group) == 64, "a group is a cache line");
_Static_assert(LIMIT_JOBS + LIMIT_WORKERS <= GROUP_COUNT, "every job can be in one group");

static inline uint32_t group_count(uint32_t word)
{
	return word & GROUP_COUNT;
}

static inline uint32_t group_generation(uint32_t word)
{
	return word >> GROUP_GEN_SHIFT;
}

/* Client: returns the group's word. */
static inline uint32_t group_load(struct group *group)
{
	/* ORDER group/done [G1]: acquire, so that a reader of a count of 0 sees the outcomes. Pairs
	 * with group_done(). */
	return atomic_load_explicit(&group->word, memory_order_acquire);
}

/* Client, before n jobs of the group are published. n: not 0; the count stays below 2^15. */
static inline void group_add(struct group *group, uint32_t n)
{
	uint32_t word = load_relaxed(&group->word);
	uint32_t next;

	do {
		next = word + n;
		if (!group_count(word))
			next = (group_generation(word) + 1) << GROUP_GEN_SHIFT | n;
		/* ORDER group/done [G1]: relaxed, and in the chain of read-modify-writes that
		 * group_load() meets: it passes on what group_done() released (I1). The
		 * publication of the jobs releases this step as well. */
	} while (!atomic_compare_exchange_weak_explicit(
		&group->word, &word, next, memory_order_relaxed, memory_order_relaxed));
}

/* Counts a group down by n jobs that have ended. n: 1, or the jobs that a client could not publish.
 * Any process. Never loops. Returns true if the caller must wake all sleepers on the word. */
static inline int group_done(struct group *group, uint32_t n)
{
	/* ORDER group/done [G1]: release, the outcome and the result come before. Pairs with the
	 * acquire in group_load(). */
	uint32_t old = atomic_fetch_sub_explicit(&group->word, n, memory_order_release);

	return group_count(old) == n && old & GROUP_WAITER;
}

/* Client: announces that it waits for the end of this generation. Returns the value to sleep on, or
 * 0 if the generation has ended. */
static inline uint32_t group_announce(struct group *group, uint32_t generation)
{
	uint32_t word = group_load(group);

	while (group_count(word) && group_generation(word) == generation) {
		if (word & GROUP_WAITER)
			return word;
		/* ORDER group/done [G1]: acquire, also if it fails, as in group_load(). */
		if (atomic_compare_exchange_weak_explicit(&group->word, &word, word | GROUP_WAITER,
							  memory_order_acquire,
							  memory_order_acquire))
			return word | GROUP_WAITER;
	}
	return 0;
}

/*
 * Returns the group of a job, NULL for none or a number out of range. groups: the client's table.
 * number: the job's group, loaded once.
 */
static inline struct group *group_of(struct group *groups, uint32_t number)
{
	return number - 1 < LIMIT_GROUPS ? &groups[number - 1] : (struct group *)0;
}
