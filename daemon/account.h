/* SPDX-License-Identifier: MIT */
/*
 * daemon/account.h - whose time a worker is using, in one word
 *
 * WHAT IT IS
 *   Each worker has an account: the job that it runs, and since when that was not charged to the
 *   job yet. The worker closes it when it goes on to another job; anybody who wants to know what
 *   jobs have used by now settles it in between.
 *
 * WHO CALLS IT, ON WHICH THREAD
 *   account_open(), account_close(): the worker whose account it is. account_settle(),
 *   account_row(): any thread of the pool.
 *
 * THE WORD
 *   { row + 1:25, time:39 }, the time in units of 32 ns: it wraps after 4.8 hours. The dispatcher
 *   settles all accounts every ACCOUNT_TIDE at least. 0: the worker runs no job.
 *
 * INVARIANTS
 *   I1. Each moment between open and close is charged once. The word is replaced by a
 *       read-modify-write, and who replaced it charges from the time that it said to the time that
 *       it says now; where a settler loses against another, it charges nothing.
 *   I2. Only the owner changes the row. A settler's CAS can succeed only while the row, and the
 *       time that it charges from, are still those it read.
 *   I3. Clocks of two threads are read before the word is changed, so one may be behind what stands
 *       there. Then nothing is charged, and an owner who closes has lost less than the two reads
 *       are apart; a settler leaves the word alone.
 *
 * WHAT HAPPENS IF A PEER DIES HERE
 *   A worker dies with the whole pool.
 *
 * Compiles with C11 alone: tests/model/account.c runs this file.
 */
#ifndef DAEMON_ACCOUNT_H
#define DAEMON_ACCOUNT_H

#include <stdatomic.h>
#include <stdint.h>

#define ACCOUNT_TIME_BITS 39
#define ACCOUNT_TIME_MASK ((UINT64_C(1) << ACCOUNT_TIME_BITS) - 1)
#define ACCOUNT_UNIT	  5 /* log2 of ns */
#define ACCOUNT_NOBODY	  UINT32_MAX
#define ACCOUNT_SKEW	  (UINT64_C(1) << 36) /* units, 36 min: no clock is read so early (I3) */
#define ACCOUNT_TIDE	  UINT64_C(3600000000000) /* ns, an hour: nobody is settled less often */

/* Its worker and settlers write. */
struct account {
	_Atomic uint64_t word;
};

static inline uint64_t account_pack(uint32_t row, uint64_t now)
{
	return ((uint64_t)row + 1) << ACCOUNT_TIME_BITS | (now >> ACCOUNT_UNIT & ACCOUNT_TIME_MASK);
}

static inline uint32_t account_unpack_row(uint64_t word)
{
	return word ? (uint32_t)((word >> ACCOUNT_TIME_BITS) - 1) : ACCOUNT_NOBODY;
}

/* ns from what the word says to now; 0 if now is the earlier one (I3). */
static inline uint64_t account_elapsed(uint64_t word, uint64_t now)
{
	uint64_t units = ((now >> ACCOUNT_UNIT) - word) & ACCOUNT_TIME_MASK;

	return units > ACCOUNT_TIME_MASK - ACCOUNT_SKEW ? 0 : units << ACCOUNT_UNIT;
}

/* The job that the worker runs, or ACCOUNT_NOBODY. */
static inline uint32_t account_row(struct account *account)
{
	return account_unpack_row(atomic_load_explicit(&account->word, memory_order_relaxed));
}

/* Owner, with a closed account. A plain store: nobody else changes a closed one. */
static inline void account_open(struct account *account, uint32_t row, uint64_t now)
{
	atomic_store_explicit(&account->word, account_pack(row, now), memory_order_relaxed);
}

/*
 * Owner: runs nothing from now on. Returns the ns to charge to *ret_row, which is ACCOUNT_NOBODY if
 * the account was closed. Relaxed: the word is all there is to it, and its changes are in one
 * order.
 */
static inline uint64_t account_close(struct account *account, uint64_t now, uint32_t *ret_row)
{
	uint64_t word = atomic_load_explicit(&account->word, memory_order_relaxed);

	/* A closed one is nobody else's to change. */
	if (word)
		word = atomic_exchange_explicit(&account->word, 0, memory_order_relaxed);
	*ret_row = account_unpack_row(word);
	return word ? account_elapsed(word, now) : 0;
}

/* Anybody: the same, with the account left open from now on. */
static inline uint64_t account_settle(struct account *account, uint64_t now, uint32_t *ret_row)
{
	uint64_t word = atomic_load_explicit(&account->word, memory_order_relaxed);
	uint64_t ns = word ? account_elapsed(word, now) : 0;
	uint64_t next = account_pack(account_unpack_row(word), now);

	*ret_row = ACCOUNT_NOBODY;
	/* Relaxed, as above; the CAS is what makes it charged once. */
	if (!ns || !atomic_compare_exchange_strong_explicit(
			   &account->word, &word, next, memory_order_relaxed, memory_order_relaxed))
		return 0;
	*ret_row = account_unpack_row(word);
	return ns;
}

#endif
