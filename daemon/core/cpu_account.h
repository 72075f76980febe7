/* SPDX-License-Identifier: MIT */
/*
 * cpu_account.h - the job that a worker's CPU time is charged to, in one word
 *
 * Each worker has an account: the job that it runs, and the time up to which that job has been
 * charged. The worker closes the account when it changes to another job. A thread that reads the
 * CPU time of jobs settles it in between.
 *
 * THE CLOCK
 *   Jobs are charged by the CPU clock of the worker's thread, so a job is not charged for the time
 *   of other programs. Reading this clock is a system call, so it is read again only after
 *   ACCOUNT_STALE. Until then it advances like CLOCK_MONOTONIC, as if the thread had its CPU; if it
 *   did not, the next reading puts the clock back. A clock is stored as its distance from
 *   CLOCK_MONOTONIC: the time in which the thread had no CPU. The owner has one clock, which it
 *   reads itself; threads that settle have their own (fair_queue.c).
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
 *       read-modify-write. The thread that replaces it charges the time between the old and the new
 *       value. A settler whose CAS fails charges nothing.
 *   I2. Only the owner changes the row. A settler's CAS succeeds only if the row and the start time
 *       are still those that it read.
 *   I3. Two threads read their clocks before they change the word, and a clock may have been put
 *       back. So a time may be earlier than the one in the word. Then nothing is charged, and a
 *       settler does not change the word. An owner that closes keeps the difference (ahead) and
 *       opens the account for its next job that much later. So the sum of all charges exceeds the
 *       thread's CPU time by at most the time between two readings.
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
#define ACCOUNT_SKEW	   (UINT64_C(1) << 36)	   /* units, 36 min: no reading is older (I3) */
#define ACCOUNT_SETTLE_MAX UINT64_C(3600000000000) /* ns, an hour: between settlements */
#define ACCOUNT_STALE	   UINT64_C(1000000) /* ns from one reading of a CPU clock to the next */

struct account {
	_Atomic uint64_t word; /* its worker and settlers write */
	_Atomic uint64_t off;  /* ns without CPU up to read_at; its worker writes */
	/* its worker's */
	uint64_t read_at;   /* CLOCK_MONOTONIC, ns */
	uint64_t ahead;	    /* ns that its last job was overcharged (I3) */
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

/* Units from the word's time to a CPU time; negative if the word is ahead (I3). */
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

/* The owner's CPU clock at a time of CLOCK_MONOTONIC. Relaxed: publishes no other data. */
static inline uint64_t account_cpu(const struct account *account, uint64_t now)
{
	return now - load_relaxed(&account->off);
}

/* Owner: true if its CPU clock must be read again. A time before the last reading is not stale. */
static inline bool account_is_stale(const struct account *account, uint64_t now)
{
	return (int64_t)(now - account->read_at) >= (int64_t)ACCOUNT_STALE;
}

/* Owner: stores that its CPU clock was cpu at the CLOCK_MONOTONIC time now. Returns how long the
 * thread had no CPU since the last reading, ns. */
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

/* Owner: closes the account. Returns the ns to charge to *ret_row, which is ACCOUNT_NOBODY if the
 * account was closed. Relaxed: the word publishes no other data, and its changes have one order. */
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

/* Any thread: the same, but the account stays open. */
static inline uint64_t account_settle(struct account *account, uint64_t cpu, uint32_t *ret_row)
{
	uint64_t word = load_relaxed(&account->word);
	uint64_t ns = word ? account_elapsed(word, cpu) : 0;
	uint64_t next = account_pack(account_unpack_row(word), cpu);

	*ret_row = ACCOUNT_NOBODY;
	/* Relaxed, as above; the CAS ensures that the time is charged once. */
	if (!ns || !atomic_compare_exchange_strong_explicit(
			   &account->word, &word, next, memory_order_relaxed, memory_order_relaxed))
		return 0;
	*ret_row = account_unpack_row(word);
	return ns;
}
