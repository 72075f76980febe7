/* SPDX-License-Identifier: MIT */
/*
 * shm/trace.h - recent events of workers, for clients that trace
 *
 * THREADS
 *   The manager creates a separate segment when the first subscriber begins to trace
 *   (daemon/manager/trace_subscribers.c). Each worker has a ring there, which only that worker
 *   writes, while it is traced (daemon/core/trace.h). Any number of tracers map it read-only, as
 *   root or as forkd's own user. The writer never waits.
 *
 * THE RING
 *   head counts the events so far. Event k is in slot k % TRACE_EVENTS until event
 *   k + TRACE_EVENTS is written there.
 *
 * 	writer	fence; the slot's words; head = k + 1
 * 	reader	head; words of some slots; fence; head once more
 *
 * INVARIANTS
 *   I1. A reader of head > k sees the words of event k, or those of a later one in its slot: head
 *       is stored with release, and read with acquire, [T1].
 *   I2. A reader of a word of event k + TRACE_EVENTS in the slot of k sees, after its fence,
 *       head >= k + TRACE_EVENTS: the writer's fence is between the store of that head and the
 *       words, [T2]. So the words read of k are valid if head is less then; otherwise the event is
 *       lost, and the reader knows how many are lost.
 *   I3. No value is trusted: a task's stray write may be anywhere. A reader keeps its own
 *       positions, uses head modulo TRACE_EVENTS, and checks each event's fields before it uses
 *       them. The manager reads nothing.
 *
 * If a peer dies: the pool, in the middle of an event: head has not counted it. Counted events stay
 * readable. A reader: the manager sees the end of its connection.
 *
 * Compiles with C11 alone: tests/model/trace.c runs this file.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "common/relaxed.h"
#include "shm/fence.h"
#include "shm/segment.h"

#ifndef TRACE_EVENTS
#define TRACE_EVENTS 16384u /* that a ring has; a power of 2 */
#endif

/* Kinds of events, and which fields they have. Those of a job: row, generation, task. */
#define TRACE_ROOT	 1u /* took a job up: of a job; value: when it was taken off its ring, ns */
#define TRACE_TASK	 2u /* its task is known, and runs: of a job */
#define TRACE_JOB_END	 3u /* has ended: of a job; value: trace_outcome() */
#define TRACE_STRAND	 4u /* resumes a frame: of a job */
#define TRACE_STRAND_END 5u /* what TRACE_ROOT or TRACE_STRAND began */
#define TRACE_STEAL	 6u /* took a continuation: of a job; peer: the victim */
#define TRACE_REST	 7u /* value: TRACE_SLEEP, TRACE_NAP or TRACE_PARK */
#define TRACE_AWAKE	 8u /* value: after which of them */
#define TRACE_WAKE	 9u /* woke a worker that slept or napped: peer */

#define TRACE_SLEEP 0u
#define TRACE_NAP   1u
#define TRACE_PARK  2u

struct trace_event {
	uint64_t time_ns;    /* CLOCK_MONOTONIC */
	uint32_t row;	     /* of a job: client * manager.jobs_max + record; UINT32_MAX: none */
	uint32_t generation; /* of that record */
	uint32_t task;	     /* on the board, UINT32_MAX: not known */
	uint16_t kind;	     /* TRACE_* */
	uint16_t peer;	     /* a worker */
	uint64_t value;
};

#define TRACE_WORDS (sizeof(struct trace_event) / sizeof(uint64_t))

_Static_assert(sizeof(struct trace_event) == 32, "two events a line");

struct trace_ring {
	/* the worker writes */
	_Alignas(4096) _Atomic uint64_t head;
	_Alignas(64) _Atomic uint64_t slots[TRACE_EVENTS][TRACE_WORDS];
};

struct trace {
	/* the manager writes once */
	struct segment head;
	/* one for each worker */
	struct trace_ring rings[];
};

/* Returns the size of the segment, in bytes. */
static inline uint64_t trace_size(uint32_t n_workers)
{
	return sizeof(struct trace) + n_workers * sizeof(struct trace_ring);
}

/* An outcome, JOB_*, and the code that goes with it. */
static inline uint64_t trace_outcome(uint32_t outcome, int32_t code)
{
	return outcome | (uint64_t)(uint32_t)code << 32;
}

/* Writes an event. The ring's worker. */
static inline void trace_put(struct trace_ring *ring, const struct trace_event *event)
{
	/* Relaxed: its own. */
	uint64_t k = load_relaxed(&ring->head);
	_Atomic uint64_t *slot = ring->slots[k % TRACE_EVENTS];
	uint64_t words[TRACE_WORDS];

	memcpy(words, event, sizeof(words));
	/* ORDER trace/overrun [T2]: release, head is k before the slot changes (I2). Pairs with
	 * trace_take(). */
	fence_release();
	for (uint32_t i = 0; i < TRACE_WORDS; i++)
		store_relaxed(&slot[i], words[i]);
	/* ORDER trace/event [T1]: release, the slot before the head (I1). Pairs with trace_take().
	 */
	atomic_store_explicit(&ring->head, k + 1, memory_order_release);
}

/* Returns the position for a new reader: it sees the events written from now on. */
static inline uint64_t trace_head(const struct trace_ring *ring)
{
	return load_relaxed(&ring->head);
}

/* Reads at most `most` events from *at on, which is no more than TRACE_EVENTS, and advances *at.
 * Adds the number of overwritten events before them to *ret_lost. Any thread that can read the
 * ring. Returns the number of events. */
static inline uint32_t trace_take(const struct trace_ring *ring, uint64_t *at,
				  struct trace_event *ret_events, uint32_t most, uint64_t *ret_lost)
{
	/* ORDER trace/event [T1]: acquire, the slots below head. Pairs with trace_put(). */
	uint64_t head = atomic_load_explicit(&ring->head, memory_order_acquire);
	uint64_t first = *at, n, gone;

	/* Not written by a worker (I3). */
	if (head - first > UINT64_MAX / 2)
		first = *at = head;
	if (head - first > TRACE_EVENTS)
		first = head - TRACE_EVENTS;
	n = head - first < most ? head - first : most;
	for (uint64_t k = 0; k < n; k++) {
		const _Atomic uint64_t *slot = ring->slots[(first + k) % TRACE_EVENTS];
		uint64_t words[TRACE_WORDS];

		for (uint32_t i = 0; i < TRACE_WORDS; i++)
			words[i] = load_relaxed(&slot[i]);
		memcpy(&ret_events[k], words, sizeof(words));
	}
	/* ORDER trace/overrun [T2]: acquire, the slots before head. Pairs with trace_put(). */
	fence_acquire();
	head = load_relaxed(&ring->head);
	/* Event head may be half written, in the slot of head - TRACE_EVENTS. */
	gone = head - first >= TRACE_EVENTS ? head - first - TRACE_EVENTS + 1 : 0;
	if (gone > n)
		gone = n;
	memmove(ret_events, ret_events + gone, (n - gone) * sizeof(*ret_events));
	*ret_lost += first + gone - *at;
	*at = first + n;
	return (uint32_t)(n - gone);
}
