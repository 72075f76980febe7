/* SPDX-License-Identifier: MIT */
/*
 * fuzz_ring.c - bytes as actions of honest and hostile producers, and of the consumer, on a ring
 *
 * shm/ring.h on a ring of eight slots in a separate block. Each byte is a step. Between any two
 * atomic operations of a step the bytes may request others: words, tails and flags of hostile
 * processes, whole steps of honest producers, and of the consumer within those of a producer. So
 * every interleaving of a few threads has an input.
 *
 * WHAT MUST BE TRUE
 *   If all are honest: each pushed word is taken out once, those of one producer in order. No slot
 *   is malformed, and the ring is full only with RING_SLOTS words in it.
 *   For any contents: a step ends, and the head grows by one at a time. A word that was not
 *   overwritten is taken out once, at the latest by a drain after the manager has set RING_ASTRAY.
 *   It is taken out twice only if the consumer died between head and slot. Afterwards the ring
 *   works as a new one.
 */
#undef RING_SLOTS
#define RING_SLOTS 8u

#include <stdatomic.h>
#include <stdbool.h>

#include "tests/fuzz/fuzz.h"

/* Actions between two operations: take_turns(). */
static void take_turns(void);

/* The consumer writes into a slot. */
static void overwrite(uint64_t word);

#define OPERATIONS(type)                                                                           \
	static inline type load_##type(_Atomic type *word)                                         \
	{                                                                                          \
		take_turns();                                                                      \
		return *word;                                                                      \
	}                                                                                          \
	static inline type exchange_##type(_Atomic type *word, type value)                         \
	{                                                                                          \
		type old;                                                                          \
                                                                                                   \
		take_turns();                                                                      \
		old = *word;                                                                       \
		*word = value;                                                                     \
		return old;                                                                        \
	}
OPERATIONS(uint32_t)
OPERATIONS(uint64_t)

static inline void store_uint32_t(_Atomic uint32_t *word, uint32_t value)
{
	(void)exchange_uint32_t(word, value);
}

static inline void store_uint64_t(_Atomic uint64_t *word, uint64_t value)
{
	overwrite(exchange_uint64_t(word, value));
}

static bool compare_exchange(_Atomic uint64_t *word, uint64_t *expected, uint64_t value)
{
	uint64_t old;

	take_turns();
	old = *word;
	if (old != *expected) {
		*expected = old;
		return false;
	}
	*word = value;
	return true;
}

#undef atomic_load_explicit
#undef atomic_store_explicit
#undef atomic_exchange_explicit
#undef atomic_compare_exchange_strong_explicit
#define BY_TYPE(p, name)                                                                           \
	_Generic((p), _Atomic uint32_t * : name##_uint32_t, _Atomic uint64_t * : name##_uint64_t)
#define atomic_load_explicit(p, order)	      BY_TYPE(p, load)(p)
#define atomic_store_explicit(p, v, order)    BY_TYPE(p, store)(p, v)
#define atomic_exchange_explicit(p, v, order) BY_TYPE(p, exchange)(p, v)
#define atomic_compare_exchange_strong_explicit(p, expected, v, success, failure)                  \
	compare_exchange(p, expected, v)
#undef FK_CRASH_SITES
#include "shm/ring.h"

#define WORDS	 256u	     /* honest ones in an input */
#define HOSTILE	 0x20000000u /* a payload that no honest producer has */
#define NOTHING	 UINT32_MAX
#define REST	 0x10000000u	  /* the consumer changes it to this: the rest of a chain */
#define DEPTH	 3		  /* steps within steps */
#define DRAINING (4 * RING_SLOTS) /* checks of a ring that no producer changes, until it is empty */

struct word {
	uint32_t producer;
	uint32_t order; /* among those of its producer */
	uint32_t found;
	bool pushed;
	bool spoiled;  /* its slot was overwritten */
	bool repeated; /* the consumer died on it */
};

static struct fuzz_input input;
static struct ring *ring;
static uint64_t head;
static struct word words[WORDS];
static uint32_t n_words, n_pushed, n_found;
static uint32_t last[DEPTH + 1]; /* order of the last consumed word, of each producer */
static uint32_t current;	 /* payload that the consumer has taken, NOTHING for none */
static uint32_t depth, n_steps;
static bool consuming, hostile, quiet;

/* ------------------------------------------------------------------------ hostile producers */

/* A slot near the head, where it matters. */
static _Atomic uint64_t *near_slot(void)
{
	return &ring->slots[(head + fuzz_u8(&input)) % RING_SLOTS];
}

static uint64_t near_position(void)
{
	uint8_t how = fuzz_u8(&input);

	switch (how >> 6) {
	case 0:
		return head + (how & 63);
	case 1:
		return head - (how & 63);
	case 2:
		return head + ((uint64_t)RING_SLOTS << 32) - 32 + (how & 63);
	default:
		return fuzz_u64(&input);
	}
}

static void spoil(uint64_t word)
{
	uint32_t payload = (uint32_t)(word & RING_PAYLOAD) & ~REST;

	if (word & RING_FULL_BIT && !(payload & HOSTILE))
		words[payload].spoiled = true;
}

/* Over the word that it has taken, or one that was put there since. */
static void overwrite(uint64_t word)
{
	if ((word & RING_PAYLOAD & ~(uint64_t)REST) != (current & ~REST))
		spoil(word);
}

static void write_slot(void)
{
	_Atomic uint64_t *slot = near_slot();
	uint64_t word = (near_position() / RING_SLOTS) << 32;

	if (fuzz_u8(&input) & 1)
		word |= RING_FULL_BIT | HOSTILE;
	spoil(*slot);
	*slot = word;
	hostile = true;
}

static void write_tail(void)
{
	ring->tail = near_position();
	hostile = true;
}

static void write_flag(void)
{
	ring->tail = (ring->tail & ~RING_ASTRAY) | (fuzz_u8(&input) & 1 ? RING_ASTRAY : 0);
	hostile = true;
}

/* ------------------------------------------------------------------------ honest ones */

static void push(void)
{
	static uint32_t orders[DEPTH + 1];
	uint32_t index = n_words, in = n_pushed - n_found;
	uint64_t position;

	if (n_words == WORDS)
		return;
	if (!index)
		memset(orders, 0, sizeof(orders));
	words[n_words++] = (struct word){ .producer = depth, .order = ++orders[depth] };
	/* Before push() returns, it may already be consumed. */
	words[index].pushed = true;
	n_pushed++;
	if (ring_push(ring, index, &position) == RING_OK)
		return;
	words[index].pushed = false;
	n_pushed--;
	FUZZ_ASSERT(!words[index].found);
	/* Others may have filled it in between. */
	FUZZ_ASSERT(hostile || depth > 1 || n_words > index + 1 || in >= RING_SLOTS);
}

/* ------------------------------------------------------------------------ the consumer */

static void found(uint32_t payload)
{
	uint32_t index = payload & ~REST;
	struct word *word = &words[index % WORDS];

	if (payload & HOSTILE)
		return;
	FUZZ_ASSERT(index < n_words && word->pushed);
	FUZZ_ASSERT(!word->found || (hostile && (word->repeated || word->spoiled)));
	n_found += !word->found;
	word->found++;
	if (hostile)
		return;
	FUZZ_ASSERT(word->order > last[word->producer]);
	last[word->producer] = word->order;
}

/* One step of drain_ring() (daemon/jobs/ring_drain.c). Returns false if it leaves the ring. */
static bool consume(uint8_t how)
{
	uint32_t payload = 0;
	enum ring_status status;
	uint32_t before = n_steps;

	current = NOTHING;
	switch (status = ring_peek(ring, head, &payload)) {
	case RING_EMPTY:
		status = ring_skip(ring, head);
		if (status == RING_EMPTY)
			return false;
		/* An honest producer, in the meantime. */
		FUZZ_ASSERT(hostile || (status == RING_OK && n_steps != before));
		if (status == RING_OK)
			return true;
		break;
	case RING_GARBAGE:
		FUZZ_ASSERT(hostile);
		return true;
	case RING_OK:
		current = payload;
		/* A chain of which a part was taken. */
		if (how & 1 && !(payload & REST)) {
			ring_repoint(ring, head, payload | REST);
			return false;
		}
		found(payload);
		break;
	default:
		FUZZ_ASSERT(0);
	}
	head++;
	if (status != RING_OK)
		return true;
	/* Or the pool dies, and the next one starts. */
	if (how & 2 && !(payload & HOSTILE))
		words[payload & ~REST].repeated = true;
	if (how & 2)
		ring_take_over(ring, head);
	else
		ring_consume(ring, head - 1);
	return true;
}

/* ------------------------------------------------------------------------ steps */

static void step(void)
{
	uint8_t what = fuzz_u8(&input);
	bool producing = depth > 0;

	depth++;
	n_steps++;
	switch (what & 7) {
	case 0:
	case 1:
	case 2:
		push();
		break;
	case 3:
	case 4:
		/* One at a time, and not within its own step. */
		if (!consuming) {
			consuming = true;
			consume(producing ? what >> 3 & 1 : what >> 3);
			consuming = false;
		}
		break;
	case 5:
		write_slot();
		break;
	case 6:
		write_tail();
		break;
	case 7:
		write_flag();
		break;
	}
	depth--;
}

static void take_turns(void)
{
	if (quiet || depth >= DEPTH || !fuzz_more(&input))
		return;
	/* One byte for each operation: 0 for no step. */
	for (uint8_t n = fuzz_u8(&input) & 3; n && fuzz_more(&input); n--)
		step();
}

/* There is no producer. */
static void drain(void)
{
	uint32_t looks = 0;

	while (consume(0))
		FUZZ_ASSERT(++looks < DRAINING);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint64_t position;

	input = (struct fuzz_input){ data, data + size };
	ring = aligned_alloc(64, sizeof(*ring));
	FUZZ_ASSERT(ring);
	memset(ring, 0, sizeof(*ring));
	n_words = n_pushed = n_found = 0;
	memset(last, 0, sizeof(last));
	hostile = quiet = false;
	/* Any position, including laps that are about to end. */
	head = (uint64_t)fuzz_u8(&input) << 29 | fuzz_u8(&input);
	if (head & 1 && head > 2 * RING_SLOTS)
		head -= 2 * RING_SLOTS;
	ring->tail = head;
	for (uint32_t i = 0; i < RING_SLOTS; i++)
		ring->slots[(head + i) % RING_SLOTS] = ((head + i) / RING_SLOTS & UINT32_MAX) << 32;
	while (fuzz_more(&input))
		step();

	quiet = true;
	drain();
	if (!hostile)
		FUZZ_ASSERT(n_found == n_pushed);
	ring_set_astray(ring);
	drain();
	for (uint32_t i = 0; i < n_words; i++)
		FUZZ_ASSERT(!words[i].pushed || words[i].spoiled || words[i].found);
	/* A new ring. */
	n_words = n_pushed = n_found = 0;
	memset(last, 0, sizeof(last));
	hostile = false;
	depth = 1;
	for (uint32_t i = 0; i < RING_SLOTS; i++)
		push();
	FUZZ_ASSERT(n_pushed == RING_SLOTS);
	FUZZ_ASSERT(ring_push(ring, 0, &position) == RING_FULL);
	drain();
	FUZZ_ASSERT(n_found == RING_SLOTS);
	depth = 0;
	free(ring);
	return 0;
}
