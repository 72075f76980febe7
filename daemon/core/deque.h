/* SPDX-License-Identifier: MIT */
/*
 * deque.h - split work-stealing deque: continuations of a worker, and its queued root jobs
 *
 * Chase-Lev's deque (SPAA 2005) with a split and with bulk operations. The split is as in Acar,
 * Charguéraud and Rainey's private deques (PPoPP 2013) and van Dijk and van de Pol's Lace (2014).
 * One publication pushes a batch, and one CAS steals any share of the public entries. Any number of
 * thieves may steal (Kataru, Davarnia and Jannesari: one at a time). Entries [0, floor) of the
 * array that are not stolen are public. Entries [floor, bottom) belong to the owner alone, which
 * pushes and pops there with plain stores. The owner keeps floor and bottom; this file holds the
 * public part. The array is an address range that gets memory on first use, so it grows without a
 * copy.
 *
 * Threads: deque_publish(), deque_push_all(), deque_reclaim(), deque_reset(): the owner.
 * deque_steal(), deque_steal_share(), deque_size(): any thread of the pool.
 *
 * THE WORD
 *   One 64-bit word { top:40, n:24 }: the index of the oldest public entry, and the number of
 *   public entries. Thieves take k by a CAS to { top + k, n - k }. The owner publishes k by adding
 *   k, and takes back all that are left by exchanging { top + n, 0 } in. (A separate top, as in
 *   Chase-Lev, would let a CAS from t to t + k take an entry that the owner has popped.) Array
 *   position of index i: i - shift. shift changes only while n is 0.
 *
 * 	array    0        stolen        |   public   |    private    |
 * 	         ^ deque_reset()        top-shift    floor           bottom
 * 	                                             = top+n-shift
 *
 * INVARIANTS
 *   I1. split = top + n is changed by the owner alone, which keeps a copy; floor = split - shift.
 *   I2. Neither top nor split ever goes down, and while top stays, n only grows. So the word never
 *       has the same value twice (before 2^40 entries were published): a CAS that succeeds proves
 *       that nothing was stolen or taken back since the word was read.
 *   I3. A position below floor is not written. With I2: the entries that a thief read between its
 *       load of the word and its successful CAS are the ones that were published.
 *   I4. shift is stored while n is 0, before the publication that makes n positive. So a thread
 *       that reads n > 0 (acquire) reads the matching shift or a later one. With a later one its
 *       CAS fails: a later shift is stored only after the owner has seen n at 0, or made it 0 by an
 *       exchange. Either way the word has changed since it had that n.
 *
 * Compiles with C11 alone: tests/model/deque.c runs this file.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include <forkd/task.h>

#include "common/relaxed.h"

#define DEQUE_N_BITS 24
#define DEQUE_N_MASK ((UINT64_C(1) << DEQUE_N_BITS) - 1)

struct deque {
	/* owner and thieves write */
	_Alignas(64) _Atomic uint64_t word;
	/* the owner writes, thieves read */
	_Alignas(64) _Atomic uint64_t shift;
	struct fk_entry *entries;
	uint64_t capacity; /* entries; constant */
	/* the owner's copy of top + n */
	uint64_t split;
};

/* Owner, before any thief knows of it. entries: room for capacity entries, below 2^24. */
static inline void deque_init(struct deque *deque, struct fk_entry *entries, uint64_t capacity)
{
	store_relaxed(&deque->word, 0);
	store_relaxed(&deque->shift, 0);
	deque->entries = entries;
	deque->capacity = capacity;
	deque->split = 0;
}

/* Number of public entries; only a hint, except for the owner. */
static inline uint64_t deque_size(struct deque *deque)
{
	return load_relaxed(&deque->word) & DEQUE_N_MASK;
}

/* Owner: makes the k oldest private entries public; the caller's floor goes up by k. */
static inline void deque_publish(struct deque *deque, uint64_t k)
{
	deque->split += k;
	/* ORDER publish/steal [D1]: release, so that a thief that sees n sees the entries, their
	 * frames, and shift. Pairs with the load in deque_steal_share(). Proof: I3, I4. */
	atomic_fetch_add_explicit(&deque->word, k, memory_order_release);
}

/* Owner: takes back all public entries that were not stolen. Returns their number; the caller's
 * floor decreases by it. */
static inline uint64_t deque_reclaim(struct deque *deque)
{
	/* ORDER steal/reclaim [D2]: acquire, so that thieves have read the entries they took before
	 * the owner overwrites them: all changes of the word since the last exchange are
	 * read-modify-writes, and those of the thieves release. Pairs with the CAS in
	 * deque_steal_share(). */
	uint64_t old = atomic_load_explicit(&deque->word, memory_order_acquire);
	uint64_t n = old & DEQUE_N_MASK;

	/* Only the owner increases n. */
	if (!n)
		return 0;
	/* ORDER steal/reclaim [D2]: acquire, as above, for entries stolen since then. Not release:
	 * a thief acquires only from a word with n above 0, which is a publication, or a thief's
	 * CAS that continues its release sequence. The publication itself releases shift. */
	old = atomic_exchange_explicit(&deque->word, deque->split << DEQUE_N_BITS,
				       memory_order_acquire);
	n = old & DEQUE_N_MASK;
	if (n) {
		uint64_t shift = load_relaxed(&deque->shift);

		store_relaxed(&deque->shift, shift + n);
	}
	return n;
}

/* Owner: starts again at position 0. The public part must be empty, as after deque_reclaim(). */
static inline void deque_reset(struct deque *deque)
{
	store_relaxed(&deque->shift, deque->split);
}

enum deque_status {
	DEQUE_STOLEN,
	DEQUE_EMPTY,
	DEQUE_RACE, /* another thread was faster */
};

/*
 * Copies n words into entries that no thief can take, or out of entries that a thief may take. If
 * the thief's word is old, the owner may be overwriting the entries that the thief reads here. Then
 * its CAS fails, and the copies are discarded (I3). So the order and size of the accesses do not
 * matter, and memcpy(), which is several times faster, may copy. C calls that a data race, so race
 * detectors and models get atomic accesses.
 */
#if defined(__SANITIZE_THREAD__) || defined(DEQUE_WORD_BY_WORD)
#define DEQUE_MEMCPY 0
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define DEQUE_MEMCPY 0
#else
#define DEQUE_MEMCPY 1
#endif
#else
#define DEQUE_MEMCPY 1
#endif
#define DEQUE_FEW 8 /* words that are copied one by one */

static inline void deque_copy_in(struct fk_entry *entries, const uint64_t *words, uint64_t n)
{
	if (DEQUE_MEMCPY && n > DEQUE_FEW) {
		__builtin_memcpy((void *)entries, words, n * sizeof(*words));
		return;
	}
	for (uint64_t i = 0; i < n; i++)
		store_relaxed(&entries[i].word, words[i]);
}

static inline void deque_copy_out(uint64_t *words, struct fk_entry *entries, uint64_t n)
{
	if (DEQUE_MEMCPY && n > DEQUE_FEW) {
		__builtin_memcpy(words, (const void *)entries, n * sizeof(*words));
		/* ORDER steal/reclaim [D2]: for the compiler alone, because the copy is not atomic:
		 * it must stay before the CAS that follows. */
		atomic_signal_fence(memory_order_seq_cst);
		return;
	}
	for (uint64_t i = 0; i < n; i++)
		words[i] = load_relaxed(&entries[i].word);
}

/* Owner: puts n words after floor, which must equal bottom, and publishes them. The caller's floor
 * and bottom increase by n. The caller ensures that there is room. */
static inline void deque_push_all(struct deque *deque, struct fk_entry *floor,
				  const uint64_t *words, uint64_t n)
{
	deque_copy_in(floor, words, n);
	deque_publish(deque, n);
}

/* Shares of the public entries, in 256ths, for deque_steal_share(). */
#define DEQUE_ONE  0u
#define DEQUE_HALF 128u
#define DEQUE_ALL  256u

/* Any thread: takes the oldest entries with one CAS: this share of the public ones, rounded up, at
 * least one and at most max. Sets ret_words[0 .. *ret_n) in the order in which they were pushed. */
static inline enum deque_status deque_steal_share(struct deque *deque, uint32_t share,
						  uint64_t *ret_words, uint64_t max,
						  uint64_t *ret_n)
{
	/* ORDER publish/steal [D1]: acquire, pairs with deque_publish(). */
	uint64_t word = atomic_load_explicit(&deque->word, memory_order_acquire);
	uint64_t n = word & DEQUE_N_MASK;
	uint64_t top = word >> DEQUE_N_BITS;
	uint64_t k = (n * share + 255) / 256;

	if (!n)
		return DEQUE_EMPTY;
	k = k ? k : 1;
	k = k < max ? k : max;
	/* top has only 40 bits; shift has 64. */
	uint64_t position = (top - load_relaxed(&deque->shift)) & (UINT64_MAX >> DEQUE_N_BITS);

	/* The shift is not the matching one (I4): the CAS would fail. */
	if (position >= deque->capacity || k > deque->capacity - position)
		return DEQUE_RACE;
	deque_copy_out(ret_words, &deque->entries[position], k);
	uint64_t left = ((top + k) << DEQUE_N_BITS) | (n - k);

	/* ORDER steal/reclaim [D2]: release, the reads above come before; pairs with
	 * deque_reclaim(). The load above acquires already. */
	if (!atomic_compare_exchange_strong_explicit(&deque->word, &word, left,
						     memory_order_release, memory_order_relaxed))
		return DEQUE_RACE;
	*ret_n = k;
	return DEQUE_STOLEN;
}

/* The same for half of the public entries. */
static inline enum deque_status deque_steal(struct deque *deque, uint64_t *ret_words, uint64_t max,
					    uint64_t *ret_n)
{
	return deque_steal_share(deque, DEQUE_HALF, ret_words, max, ret_n);
}
