/* SPDX-License-Identifier: MIT */
/*
 * shm/wake.h - sleep and wake between clients and workers, over the read-only board
 *
 * WRITERS AND READERS
 *   Each worker writes its own wake word on the board, and the dispatcher its own; clients read
 *   them and can futex-wake on them, which works on a read-only mapping. So there is no doorbell
 *   that a client could break. FUTEX_REQUEUE works on a read-only mapping as well: W10, W11.
 *
 * ALL FUTEX WORDS THAT TWO PROCESSES MAP
 *   A process that maps a word can wake its sleepers, move them to a word of its own for good, and
 *   wait there in their place.
 * 	word				sleepers		mapped by
 * 	workers[i].wake, dispatcher	the pool's threads	every client, manager, pool
 * 	(board)
 * 	bell (arena), bell (bell.h)	the pool's threads	manager, pool
 * 	job.state, group.word,		threads of the client	the client, manager, pool
 * 	watch.ended (client segment)
 *   So only the words on the board are mapped by processes of two users, and their sleepers are
 *   threads of the pool. No thread of a client sleeps on a word that another user maps: its segment
 *   goes to it alone. Rings and summaries (tenant segment, one user) have no sleepers. All other
 *   futex words (fk_client.room, those of the poller and of fibers) are in private memory.
 *
 * THE WORD
 *   { sequence:30, state:2 }. The sequence goes up each time the state changes to SLEEPING, so that
 *   a wake meant for an earlier sleep is told from one for this.
 * 	BUSY      runs a strand; looks at no ring until it reaches a fork with a pending request
 * 	LOOKING   a thief: will look at every ring before it sleeps
 * 	SLEEPING  waits on the word; its waker changes nothing, the worker does
 * 	PARKED    an offline worker (daemon/sched/cpu_parking.h): it waits on the word, too, and a
 * 		  publisher does not wake it, as if it were BUSY forever
 * 	DOZING    the dispatcher sleeps, and a busy worker's alarm is set, at which that looks at
 * 		  the rings: a publisher whose job can wait so long leaves it alone; others wake it
 *
 * THE PROTOCOL, AND WHY NO JOB IS FORGOTTEN
 *   Publisher (client):  publish P;  full fence;  read the words:
 * 	a SLEEPING one: FUTEX_WAKE on that value until one was woken or the value changed, or,
 * 	after some tries, a ring (W11);
 * 	else a LOOKING one: nothing;  else (all BUSY): raise and wake the dispatcher, unless that is
 * 	DOZING and the job can wait.
 *   Worker going to sleep:  read the bell;  store SLEEPING;  full fence;  look at all rings;
 * 	futex_waitv(2) on the word and the bell (W10).
 *   Worker that found work: store BUSY;  full fence;  check all rings; if one is not empty, do what
 * 	its publisher would do (wake a sleeper, else the dispatcher).
 *   Worker that parks:  the same, with PARKED.
 *
 *   W1. The publisher reads SLEEPING from worker i. Either i still sleeps on that value and is
 * 	woken, or the value has changed, so i is awake after the publication's fence: W2 or W3. If
 * 	another process has interfered: W11.
 *   W2. It reads LOOKING. The worker's next store to its word (SLEEPING or BUSY) is not visible
 * 	to that read, so of the two full fences the publisher's comes first, and the look at the
 * 	rings that follows the worker's fence sees P. It takes P, or, having become BUSY with
 * 	something else, passes the duty on.
 * 	A worker that leaves while others of its group look for work leaves that look to them: the
 * 	last one that leaves looks for all (daemon/core/lazy_policy.h, L6).
 *   W3. It reads BUSY from all. The dispatcher is woken and raises attention until the rings are
 * 	empty; a worker serves it at its next fork, or on ending its strand becomes LOOKING.
 *   W4. Passing on ends: each pass is made by a worker that turned BUSY, and there are finitely
 * 	many; the last one finds all BUSY and goes to the dispatcher.
 *   W5. A waker inside the pool, which can write the word, changes SLEEPING to LOOKING by a CAS and
 * 	then rings the bell (W10). Until the worker runs, its word says LOOKING, and that is true
 * 	for W2: its next store to the word comes before its next look.
 *   W6. A client that woke a worker from a sleep may take that same word, seen again, for LOOKING:
 * 	the worker has left the futex and not changed its word yet.
 *   W7. What W1 leaves open: all that map the board can wait on its words, and a client's
 * 	FUTEX_WAKE that reports one woken may have woken such a one while the worker was still on
 * 	its way into the futex. So all are woken at once, and a client that waits, polls or finds no
 * 	room does the publisher's part again, once in a tick (liveness.c, I1), and sooner: W11.
 *   W8. The dispatcher sleeps in the same way, on its own word. While jobs wait it comes by itself,
 * 	at each of its ticks, and the word says LOOKING, in the futex too; a reader leaves it
 * 	alone, so that a flood of jobs makes no wake for each. It sleeps with jobs queued if workers
 * 	come for these by themselves (daemon/jobs/time_slice.c). That is true for W2: the look
 * 	comes without being asked for, and a look that finds nothing ends the ticks only after the
 * 	steps of a worker that goes to sleep: store SLEEPING; full fence; look at all rings.
 *   W9. A publisher reads DOZING from it and leaves P to the alarms. The dispatcher has done:
 * 		store DOZING;  full fence;  look at all rings;  look at the alarms: one is set,
 * 	or it looks again at once. A worker whose alarm has ended:
 * 		store so;  full fence;  if no alarm is set, and the dispatcher dozes: wake it.
 * 	If of the fences of the publisher and the dispatcher the publisher's comes first, the
 * 	dispatcher sees P. Else an alarm was set after the dispatcher's fence. As long as there is
 * 	one, it rings within FAIR_TURN_LONG (20 ms), and its worker takes P off the ring at its next
 * 	fork, or the next after its mail; if it does not fork for 2 ms the dispatcher is woken
 * 	(daemon/sched/slice_timer.c). And the one whose fence is the last of those that end finds
 * 	none set, and the word DOZING, if its fence comes after the dispatcher's; if it comes
 * 	before, the dispatcher finds none. So the dispatcher is awake after the publisher's read,
 * 	and looks at all rings before it rests (W8). Any other thread that turns from BUSY looks by
 * 	itself, and so does each worker at each end.
 *   W10. A client can move each sleeper of the board's words to a word of its own, where it stays
 * 	after the client's end. So the pool's threads sleep on two words: the board's and a bell,
 * 	which no client maps (daemon/core/bell.h). The pool and the manager wake by the bell alone:
 * 	full fence; change the bell; FUTEX_WAKE. A thread that was moved is woken by that. A sleeper
 * 	that has read the new bell looks at the rings after that, and sees P by the two fences. One
 * 	that has read the old bell finds it changed when it enters the kernel, or is there.
 *   W11. A client can wake by the board's word alone, and others can take that wake. It finds out
 * 	if FUTEX_WAKE finds no sleeper for some tries, or if the word of a sleeper that it woke is
 * 	still the same at a look WAKER_DOUBT later, or more: a thread that sleeps looks first
 * 	after WAKER_NAP (client/lib/wake_worker.h). Then it rings: PROTO_RING to the manager,
 * 	which rings the dispatcher's bell (W10). The dispatcher looks at all rings, and
 * 	wakes workers by their bells. A client that waits on a word with FUTEX_WAIT_REQUEUE_PI makes
 * 	FUTEX_WAKE and FUTEX_REQUEUE on that word fail with EINVAL while it waits, and the threads
 * 	behind it in the kernel's queue sleep on: a publisher rings at once if FUTEX_WAKE fails.
 * 	Bells are not reached by that. A ring that is unread in the socket serves each job that was
 * 	published before it is read: full fence; the check for an unread one; and in the manager
 * 	the read; full fence; the bell. The second case is found out by a client that waits, polls,
 * 	finds no room or submits again, and by sleepers that report watched jobs
 * 	(client/lib/events.c, I6). A thread that waited for another job of the client already when
 * 	this one was submitted finds it out at its next look, after CLIENT_TICK_NS (500 ms) at most.
 * 	The job of a client that does none of these waits until it does, if another client takes its
 * 	wakes and all of the pool sleeps.
 *   W12. A task that writes where it must not can leave any value in the words on the board, while
 * 	all threads sleep. Then no wake is sent, so after a tick a client whose job is still in a
 * 	ring rings, whatever the words say, and the dispatcher wakes each worker that runs no job by
 * 	its bell if no job starts. Each thread that wakes up writes its own word again.
 *
 * If a peer dies: a client between publish and wake: the manager, on its death, has all summaries
 * set and rings the dispatcher's bell. The pool, with its alarms: the manager wakes every word
 * after it has failed what ran, and the next pool looks at all rings when it starts.
 *
 * Compiles with C11 alone: tests/model/wake.c runs this file.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "common/relaxed.h"
#include "shm/fence.h"

#define WAKE_BUSY     0u
#define WAKE_LOOKING  1u
#define WAKE_SLEEPING 2u
#define WAKE_PARKED   3u /* of a worker */
#define WAKE_DOZING   3u /* of the dispatcher */
#define WAKE_STATE    3u
#define WAKE_SEQ      4u /* one step of the sequence */

/* The owner's own state changes. Owner only; relaxed, the fences below order them. */
static inline void wake_store(_Atomic uint32_t *word, uint32_t state)
{
	uint32_t old = load_relaxed(word);

	store_relaxed(word, (old & ~WAKE_STATE) | state);
}

/* Owner: the word of the next rest, SLEEPING, PARKED or DOZING. Relaxed, the callers have the
 * fences. */
static inline uint32_t wake_next(_Atomic uint32_t *word, uint32_t state)
{
	uint32_t old = load_relaxed(word);
	uint32_t value = ((old & ~WAKE_STATE) + WAKE_SEQ) | state;

	store_relaxed(word, value);
	return value;
}

/*
 * Owner: announces that it will sleep. After it, check everything once more, then FUTEX_WAIT on the
 * returned value, or wake_store() another state.
 */
static inline uint32_t wake_prepare(_Atomic uint32_t *word)
{
	uint32_t sleeping = wake_next(word, WAKE_SLEEPING);

	/* ORDER wake/sleep [W]: full, between the store of SLEEPING and the look at the rings.
	 * Pairs with wake_published(). */
	fence_full();
	return sleeping;
}

/* The dispatcher: announces that it dozes. After it, check everything once more, and that an alarm
 * is set; then FUTEX_WAIT on the returned value, or wake_store() another state. */
static inline uint32_t wake_dozing(_Atomic uint32_t *word)
{
	uint32_t dozing = wake_next(word, WAKE_DOZING);

	/* ORDER wake/sleep [W]: full, between the store of DOZING and the look at the rings. Pairs
	 * with wake_published().
	 * ORDER wake/doze [W]: the same fence, before the look at the alarms. Pairs with
	 * wake_alarm_over(); W9. */
	fence_full();
	return dozing;
}

/* A worker whose alarm has ended. After it, check whether another alarm is set, and if not, whether
 * the dispatcher dozes. */
static inline void wake_alarm_over(void)
{
	/* ORDER wake/doze [W]: full, between the store and the look. Pairs with wake_dozing() and
	 * with itself, where two end at once; W9. */
	fence_full();
}

/* Owner: announces that it is offline. After it, check whether a ring has work left, and pass that
 * on; then FUTEX_WAIT on the returned value, or wake_store() another state. */
static inline uint32_t wake_parked(_Atomic uint32_t *word)
{
	uint32_t parked = wake_next(word, WAKE_PARKED);

	/* ORDER wake/busy [W]: full, between the store of PARKED and the look at the rings. Pairs
	 * with wake_published(). */
	fence_full();
	return parked;
}

/* Owner: announces that it runs a job. After it, check whether a ring has work left. */
static inline void wake_busy(_Atomic uint32_t *word)
{
	wake_store(word, WAKE_BUSY);
	/* ORDER wake/busy [W]: full, between the store of BUSY and the look at the rings. Pairs
	 * with wake_published(). */
	fence_full();
}

/* Publisher: called between the publication and the first read of a word. */
static inline void wake_published(void)
{
	/* ORDER wake/sleep [W]: full, between the publication and the look at the words; W1, W2.
	 * ORDER wake/busy [W]: the same fence; W2, W3.
	 * ORDER wake/ring [A1]: the same fence, before the look at a worker's alarm
	 * (slice_timer.c). */
	fence_full();
}

static inline uint32_t wake_load(const _Atomic uint32_t *word)
{
	return load_relaxed(word);
}

static inline uint32_t wake_state(uint32_t value)
{
	return value & WAKE_STATE;
}

/* Returns true if the owner waits on the word, or is about to: SLEEPING, PARKED or DOZING. */
static inline int wake_rests(uint32_t value)
{
	return wake_state(value) >= WAKE_SLEEPING;
}
