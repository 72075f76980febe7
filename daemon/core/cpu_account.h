/* SPDX-License-Identifier: MIT */
/*
 * cpu_account.h - whose time a worker is using, in one word
 *
 * Each worker has an account: the job that it runs, and since when that was not charged to the job
 * yet. The worker closes it when it goes on to another job; a thread that reads what jobs have used
 * settles it in between.
 *
 * THE CLOCK
 *   Jobs are charged by the CPU clock of the worker's thread: a worker that other programs keep off
 *   its CPU is not charged for that. Reading this clock is a system call. So it is read again after
 *   ACCOUNT_STALE at the earliest; until then it goes like CLOCK_MONOTONIC, as if the thread had
 *   its CPU. If the thread had none, the next reading puts the clock back. A clock is kept as its
 *   distance from CLOCK_MONOTONIC: the time in which the thread had no CPU. The owner has one,
 *   which it reads itself; the threads that settle have others (fair_queue.c).
 *
 * Threads: account_open(), account_close(), account_is_stale(), account_set_cpu(): the worker whose
 * account it is. account_settle(), account_row(), account_cpu(): any thread of the pool.
 *
 * THE WORD
 *   { row + 1:25, time:39 }, the CPU time of the worker's thread in units of 32 ns: it wraps after
 *   4.8 hours. The dispatcher settles all accounts every ACCOUNT_SETTLE_MAX at least. 0: the worker
 *   runs no job.
 *
 * INVARIANTS
 *   I1. Each moment between open and close is charged once. The word is replaced by a
 *       read-modify-write, and the thread that replaced it charges from the time that it said to
 *       the time that it says now; where a settler loses against another, it charges nothing.
 *   I2. Only the owner changes the row. A settler's CAS can succeed only while the row, and the
 *       time that it charges from, are still those it read.
 *   I3. Clocks of two threads are read before the word is changed, and a clock may have been put
 *       back: a time may be behind what stands there. Then nothing is charged, and a settler leaves
 *       the word alone. An owner that closes keeps the difference (ahead), and opens the account
 *       for its next job that much later: what all jobs are charged is what the thread has used,
 *       and at most the time from one reading to the next more.
 *
 * Compiles with C11 alone: tests/model/cpu_account.c runs this file.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/relaxed.h"

#define ACCOUNT_TIME_BITS  39
#define ACCOUNT_TIME_MASK  ((UINT64_C(1) << ACCOUNT_TIME_BITS) - 1)
#define ACCOUNT_UNIT	   5 /* log2 of ns */
#define ACCOUNT_NOBODY	   UINT32_MAX
#define ACCOUNT_SKEW	   (UINT64_C(1) << 36) /* units, 36 min: no clock is read so early (I3) */
#define ACCOUNT_SETTLE_MAX UINT64_C(3600000000000) /* ns, an hour: between settlements */
#define ACCOUNT_STALE	   UINT64_C(1000000) /* ns from one reading of a CPU clock to the next */

struct account {
	_Atomic uint64_t word; /* its worker and settlers write */
	_Atomic uint64_t off;  /* ns that the thread had no CPU, up to read_at; its worker writes */
	/* its worker's */
	uint64_t read_at;   /* CLOCK_MONOTONIC, ns */
	uint64_t ahead;	    /* ns that its last job was charged too much (I3) */
	uint64_t closed_at; /* CLOCK_MONOTONIC, ns */
};

static inline uint64_t account_pack(uint32_t row, uint64_t now)
{
	return ((uint64_t)row + 1) << ACCOUNT_TIME_BITS | (now >> ACCOUNT_UNIT & ACCOUNT_TIME_MASK);
}

static inline uint32_t account_unpack_row(uint64_t word)
{
	return word ? (uint32_t)((word >> ACCOUNT_TIME_BITS) - 1) : ACCOUNT_NOBODY;
}

/* Units from what the word says to a CPU time; below 0 if the word is ahead (I3). */
static inline int64_t account_units(uint64_t word, uint64_t cpu)
{
	uint64_t units = ((cpu >> ACCOUNT_UNIT) - word) & ACCOUNT_TIME_MASK;

	return units > ACCOUNT_TIME_MASK - ACCOUNT_SKEW
		     ? (int64_t)units - (int64_t)ACCOUNT_TIME_MASK - 1
		     : (int64_t)units;
}

/* The same in ns; 0 if the word is ahead. */
static inline uint64_t account_elapsed(uint64_t word, uint64_t cpu)
{
	int64_t units = account_units(word, cpu);

	return units > 0 ? (uint64_t)units << ACCOUNT_UNIT : 0;
}

/* The owner's CPU clock at a time of CLOCK_MONOTONIC. Relaxed: a time, and nothing behind it. */
static inline uint64_t account_cpu(const struct account *account, uint64_t now)
{
	return now - load_relaxed(&account->off);
}

/* Owner: true if its CPU clock is to be read. A time from before the last reading is not late. */
static inline bool account_is_stale(const struct account *account, uint64_t now)
{
	return (int64_t)(now - account->read_at) >= (int64_t)ACCOUNT_STALE;
}

/* Owner: its CPU clock was read at this time of CLOCK_MONOTONIC. Returns how long the thread had no
 * CPU since the last reading, ns. */
static inline uint64_t account_set_cpu(struct account *account, uint64_t cpu, uint64_t now)
{
	uint64_t off = load_relaxed(&account->off);

	/* Relaxed, as above. */
	store_relaxed(&account->off, now - cpu);
	account->read_at = now;
	return (int64_t)(now - cpu - off) > 0 ? now - cpu - off : 0;
}

/* The job that the worker runs, or ACCOUNT_NOBODY. */
static inline uint32_t account_row(struct account *account)
{
	return account_unpack_row(load_relaxed(&account->word));
}

/* Owner, with a closed account. A plain store: only the owner changes a closed one. */
static inline void account_open(struct account *account, uint32_t row, uint64_t cpu)
{
	store_relaxed(&account->word, account_pack(row, cpu + account->ahead));
}

/*
 * Owner: runs nothing from now on. Returns the ns to charge to *ret_row, which is ACCOUNT_NOBODY if
 * the account was closed. Relaxed: the word is all there is to it, and its changes are in one
 * order.
 */
static inline uint64_t account_close(struct account *account, uint64_t cpu, uint32_t *ret_row)
{
	uint64_t word = load_relaxed(&account->word);
	int64_t units;

	/* Only the owner changes a closed one. */
	if (word)
		word = atomic_exchange_explicit(&account->word, 0, memory_order_relaxed);
	*ret_row = account_unpack_row(word);
	if (!word)
		return 0;
	units = account_units(word, cpu);
	account->ahead = units < 0 ? (uint64_t)-units << ACCOUNT_UNIT : 0;
	return units < 0 ? 0 : (uint64_t)units << ACCOUNT_UNIT;
}

/* Any thread: the same, with the account left open from now on. */
static inline uint64_t account_settle(struct account *account, uint64_t cpu, uint32_t *ret_row)
{
	uint64_t word = load_relaxed(&account->word);
	uint64_t ns = word ? account_elapsed(word, cpu) : 0;
	uint64_t next = account_pack(account_unpack_row(word), cpu);

	*ret_row = ACCOUNT_NOBODY;
	/* Relaxed, as above; the CAS is what makes it charged once. */
	if (!ns || !atomic_compare_exchange_strong_explicit(
			   &account->word, &word, next, memory_order_relaxed, memory_order_relaxed))
		return 0;
	*ret_row = account_unpack_row(word);
	return ns;
}
