/* SPDX-License-Identifier: MIT */
/*
 * trace.c - a reader gets whole events, and counts the lost ones (shm/trace.h, I1 and I2)
 *
 * THE PROGRAM
 *   A worker writes PUTS events to a ring of TRACE_EVENTS. Two readers read the available events,
 *   twice each, one of them in small pieces.
 *
 * WHAT MUST BE TRUE
 *   Each event that a reader gets has all words of one put. The events are in order, and the number
 *   missing between two of them is the number that is reported as lost.
 *
 * MUTANTS
 *   MUTANT_HEAD     the head is stored before the words
 * 	MUTANT_LOOK     the reader does not read the head once more
 * 	MUTANT_HALF     it accepts the event that may be half written
 *   MUTANT_RELEASE  the head is stored relaxed
 *   MUTANT_FENCE    the writer has no fence
 */
#include <stdatomic.h>
#include <stdint.h>

#include "tests/model/model.h"

#define TRACE_EVENTS 2u

#ifdef MODEL_ONCE
/* memcpy() of events, which are words here: GenMC has none. */
static inline void model_copy(void *to, const void *from, size_t size)
{
	for (size_t i = 0; i < size / sizeof(model_word_t); i++)
		((model_word_t *)to)[i] = ((const model_word_t *)from)[i];
}
#define memcpy(to, from, size)	model_copy(to, from, size)
#define memmove(to, from, size) model_copy(to, from, size)
#endif

#ifdef MUTANT_RELEASE
#define memory_order_release memory_order_relaxed
#endif
#ifdef MUTANT_FENCE
#define fence_release fence_of_the_header
#endif
#include "shm/fence.h"
#ifdef MUTANT_FENCE
#undef fence_release
#define fence_release() ((void)0)
#endif
#if defined(MUTANT_HEAD) || defined(MUTANT_LOOK) || defined(MUTANT_HALF)
#define trace_put trace_put_of_the_header
#endif
#if defined(MUTANT_LOOK) || defined(MUTANT_HALF)
#define trace_take trace_take_of_the_header
#endif

#include "shm/trace.h"

#undef memory_order_release

#if defined(MUTANT_HEAD) || defined(MUTANT_LOOK) || defined(MUTANT_HALF)
#undef trace_put
/* The correct function, except for MUTANT_HEAD, with random yields. */
static inline void trace_put(struct trace_ring *ring, const struct trace_event *event)
{
	uint64_t k = atomic_load_explicit(&ring->head, memory_order_relaxed);
	uint64_t words[TRACE_WORDS];

	memcpy(words, event, sizeof(words));
#ifdef MUTANT_HEAD
	atomic_store_explicit(&ring->head, k + 1, memory_order_release);
	model_stumble();
#endif
	fence_release();
	for (uint32_t i = 0; i < TRACE_WORDS; i++) {
		atomic_store_explicit(&ring->slots[k % TRACE_EVENTS][i], words[i],
				      memory_order_relaxed);
		model_stumble();
	}
	atomic_store_explicit(&ring->head, k + 1, memory_order_release);
}
#endif

#if defined(MUTANT_LOOK) || defined(MUTANT_HALF)
#undef trace_take
static inline uint32_t trace_take(const struct trace_ring *ring, uint64_t *at,
				  struct trace_event *ret_events, uint32_t most, uint64_t *ret_lost)
{
	uint64_t head = atomic_load_explicit(&ring->head, memory_order_acquire);
	uint64_t first = *at, n, gone = 0;

	if (head - first > TRACE_EVENTS)
		first = head - TRACE_EVENTS;
	n = head - first < most ? head - first : most;
	for (uint64_t k = 0; k < n; k++) {
		uint64_t words[TRACE_WORDS];

		for (uint32_t i = 0; i < TRACE_WORDS; i++)
			words[i] = atomic_load_explicit(&ring->slots[(first + k) % TRACE_EVENTS][i],
							memory_order_relaxed);
		memcpy(&ret_events[k], words, sizeof(words));
	}
#ifdef MUTANT_HALF
	fence_acquire();
	head = atomic_load_explicit(&ring->head, memory_order_relaxed);
	gone = head - first > TRACE_EVENTS ? head - first - TRACE_EVENTS : 0;
	if (gone > n)
		gone = n;
	memmove(ret_events, ret_events + gone, (n - gone) * sizeof(*ret_events));
#endif
	*ret_lost += first + gone - *at;
	*at = first + n;
	return (uint32_t)(n - gone);
}
#endif

#define MODEL_THREADS 3

#define WRITER 0u
#define PUTS   5u

struct model {
	struct trace_ring ring;
};

static void model_init(struct model *m, uint32_t instance)
{
	(void)instance;
	model_zero(&m->ring);
}

static void write_events(struct model *m)
{
	for (uint32_t k = 0; k < PUTS; k++) {
		struct trace_event event;

		for (uint32_t i = 0; i < TRACE_WORDS; i++)
			((model_word_t *)&event)[i] = k + 1;
		trace_put(&m->ring, &event);
	}
}

static void read_events(struct model *m, uint32_t most)
{
	struct trace_event events[TRACE_EVENTS];
	uint64_t at = 0, next = 1, lost = 0;

	for (uint32_t look = 0; look < 2; look++) {
		uint64_t before = lost;
		uint32_t n = trace_take(&m->ring, &at, events, most, &lost);

		next += lost - before;
		for (uint32_t k = 0; k < n; k++, next++)
			for (uint32_t i = 0; i < TRACE_WORDS; i++)
				model_assert(((model_word_t *)&events[k])[i] == next,
					     "an event is whole, and the one that it is to be");
	}
	model_assert(at <= PUTS && next == at + 1, "what is missing is counted");
}

static void model_thread(struct model *m, uint32_t thread)
{
	if (thread == WRITER)
		write_events(m);
	else
		read_events(m, thread == 1 ? 1 : TRACE_EVENTS);
}

static void model_check(struct model *m)
{
	struct trace_event events[TRACE_EVENTS];
	uint64_t at = 0, lost = 0;
	uint32_t n = trace_take(&m->ring, &at, events, TRACE_EVENTS, &lost);

	model_assert(n + lost == PUTS && at == PUTS, "all are there or lost");
	model_assert(n && events[n - 1].value == PUTS, "the newest one is there");
}

#include "tests/model/run.h"
