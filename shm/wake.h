/* SPDX-License-Identifier: MIT */
/*
 * shm/wake.h - sleep and wake between clients and workers, over the read-only board
 *
 * WRITERS AND READERS
 *   Each worker writes its own wake word on the board; the dispatcher writes its own. Clients read
 *   the words and wake their sleepers by FUTEX_WAKE, which works on a read-only mapping. So no
 *   client can damage a word. FUTEX_REQUEUE works on a read-only mapping as well: W10, W11.
 *
 * ALL FUTEX WORDS THAT TWO PROCESSES MAP
 *   A process that maps a word can wake its sleepers, or move them to another word for good. It can
 *   also sleep on the word itself, and may then receive the wakes of others.
 * 	word				sleepers		mapped by
 * 	workers[i].wake, dispatcher	the pool's threads	every client, manager, pool
 * 	(board)
 * 	bell (arena), bell (bell.h)	the pool's threads	manager, pool
 * 	job.state, group.word,		threads of the client	the client, manager, pool
 * 	watch.ended (client segment)
 *   Processes of two users map only the words on the board, and the sleepers of these are threads
 *   of the pool. A client sleeps only on words of its own segment, which no other client maps.
 *   Rings and summaries (tenant segment, one user) have no sleepers. All other futex words
 *   (fk_client.room, those of the poller and of fibers) are in private memory.
 *
 * THE WORD
 *   { sequence:30, state:2 }. Each sleep has a new sequence, so a wake for an earlier sleep has no
 *   effect on a later one.
 * 	BUSY      runs a strand; checks the rings at a fork, if a request is pending
 * 	LOOKING   a thief: will check every ring before it sleeps
 * 	SLEEPING  waits on the word; a client that wakes it does not change the word
 * 	PARKED    an offline worker (daemon/sched/cpu_parking.h): it waits on the word as well,
 * 		  and publishers do not wake it
 * 	DOZING    the dispatcher sleeps while a busy worker's alarm is set, after which that
 * 		  worker checks the rings: publishers wake it only for a job that cannot wait
 *
 * THE PROTOCOL, AND WHY EVERY JOB IS FOUND
 *   Publisher (client):  publish P;  full fence;  read the words:
 * 	a SLEEPING one: FUTEX_WAKE on that value until one was woken or the value changed;
 * 	after some tries, a ring (W11);
 * 	else a LOOKING one: nothing;
 * 	else (all BUSY): raise and wake the dispatcher, unless that is DOZING and the job can wait.
 *   Worker that will sleep:  read the bell;  store SLEEPING;  full fence;  check all rings;
 * 	futex_waitv(2) on the word and the bell (W10).
 *   Worker that found work:  store BUSY;  full fence;  check all rings; if one is not empty, do
 * 	what its publisher would do (wake a sleeper, else the dispatcher).
 *   Worker that goes offline:  the same, with PARKED.
 *
 *   W1. The publisher reads SLEEPING from worker i. If i still sleeps on that value, it is woken.
 *       Otherwise the value has changed, so i is awake after the fence of the publisher: W2 or W3.
 *       If another process has interfered: W11.
 *   W2. It reads LOOKING. The worker's next store to its word (SLEEPING or BUSY) is not visible to
 *       that read. So the publisher's full fence precedes the worker's, and the check of the rings
 *       after the latter sees P. The worker takes P, or turns BUSY with another job and passes the
 *       duty on. A worker that leaves while others of its group search leaves this check to them:
 *       the last one to leave checks for all (daemon/core/lazy_policy.h, L6).
 *   W3. It reads BUSY from all. The dispatcher is woken and sends requests until the rings are
 *       empty. A worker serves a request at its next fork, or ends its strand and becomes LOOKING.
 *   W4. Passing on ends: each worker that passes the duty on has turned BUSY, and there are
 *       finitely many. The last one finds all BUSY and wakes the dispatcher.
 *   W5. A waker inside the pool can write the word: it changes SLEEPING to LOOKING by a CAS and
 *       then rings the bell (W10). Until the worker runs, its word says LOOKING. W2 holds, because
 *       the worker's next store to the word precedes its next check.
 *   W6. A client that woke a worker and sees the same word again may take it for LOOKING: the
 *       worker has left the futex and has not changed its word yet.
 *   W7. Any process that maps the board can wait on its words. A FUTEX_WAKE that reports one woken
 *       may have woken such a process, while the worker was about to enter the futex. So a client
 *       wakes all sleepers of the word at once. A client that waits, polls or finds no room repeats
 *       the publisher's part once per tick (liveness.c, I1), or sooner: W11.
 *   W8. The dispatcher sleeps in the same way, on its own word. While jobs wait it checks the rings
 *       at each of its ticks, and its word says LOOKING even in the futex. So clients do not wake
 *       it, and a flood of jobs does not cost a wake for each. W2 holds: the check needs no wake.
 *       The ticks end only after a check that found nothing and followed the steps of a worker that
 *       will sleep: store SLEEPING; full fence; check all rings. It also sleeps with jobs queued,
 *       if workers will take them without it (daemon/jobs/time_slice.c).
 *   W9. A publisher reads DOZING from it and leaves P to the alarms. The steps before that:
 * 	dispatcher:                  store DOZING;  full fence;  check all rings;  check the
 * 	                             alarms, and do not doze if none is set
 * 	worker whose alarm has ended:  store that;  full fence;  wake the dispatcher if no alarm
 * 	                             is set and it dozes
 *       If the publisher's fence precedes the dispatcher's, the dispatcher sees P. Otherwise an
 *       alarm was set after the dispatcher's fence. While an alarm is set, it expires within
 *       FAIR_TURN_LONG (20 ms). Its worker takes P off the ring at its next fork, or at the one
 *       after it has emptied its inbox. If that worker reaches no fork for 2 ms, the dispatcher is
 *       woken (daemon/sched/slice_timer.c).
 *       Of the workers whose alarms end, the one with the last fence finds no alarm set. If its
 *       fence follows the dispatcher's, it also finds DOZING and wakes the dispatcher; otherwise
 *       the dispatcher finds no alarm. So the dispatcher is awake after the publisher's read, and
 *       checks all rings before it sleeps (W8). Any other thread that stops being BUSY checks the
 *       rings itself, and so does each worker at the end of a strand.
 *   W10. A client can move each sleeper of the board's words to another word, where it stays after
 *        that client has ended. So the pool's threads sleep on two words: the board's and a bell,
 *        which no client maps (daemon/core/bell.h). The pool and the manager wake by the bell
 *        alone: full fence; change the bell; FUTEX_WAKE. This also wakes a thread that was moved. A
 *        sleeper that has read the new bell checks the rings after that, and sees P by the two
 *        fences. A sleeper that has read the old bell finds it changed when it enters the kernel,
 *        or is already asleep and is woken.
 *   W11. A client can wake by the board's word alone, and other processes can intercept that wake.
 *        The client rings, which sends PROTO_RING to the manager; the manager rings the
 *        dispatcher's bell (W10). The dispatcher checks all rings, and wakes workers by their
 *        bells. The client rings if
 *       - FUTEX_WAKE finds no sleeper for some tries;
 *       - FUTEX_WAKE fails: a client that waits on a word with FUTEX_WAIT_REQUEUE_PI makes
 *         FUTEX_WAKE and FUTEX_REQUEUE on it fail with EINVAL, and so keeps the others asleep;
 *       - the word of a woken sleeper has not changed after WAKER_DOUBT. A thread that sleeps
 *         checks that first after WAKER_NAP (client/lib/wake_worker.h).
 *       A ring that is unread in the socket serves each job that was published before it is read.
 *       The client: full fence; check for an unread ring. The manager: read the ring; full fence;
 *       the bell.
 *       A client that waits, polls, finds no room or submits again detects the third case. So do
 *       sleepers that report watched jobs (client/lib/events.c, I6). A thread that already waited
 *       for another job when this one was submitted detects it at its next check, at most
 *       CLIENT_TICK_NS (500 ms) later. If a client does none of these, another client intercepts
 *       its wakes, and the whole pool sleeps, then its job waits.
 *   W12. A stray write of a task can leave any value in the words on the board while all threads
 *        sleep. Then no client sends a wake. After a tick, a client whose job is still in a ring
 *        rings, whatever the words say. If no job starts, the dispatcher wakes each worker without
 *        a job by its bell. Each thread that wakes up writes its own word again.
 *
 * If a peer dies: a client between publish and wake: the manager sets all summary bits of its
 * tenant and rings the dispatcher's bell. The pool, with its alarms: the manager ends the running
 * jobs and wakes all words, and the next pool checks all rings when it starts.
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

/* Owner: announces that it will sleep. After it, check everything once more, then FUTEX_WAIT on the
 * returned value, or wake_store() another state. */
static inline uint32_t wake_prepare(_Atomic uint32_t *word)
{
	uint32_t sleeping = wake_next(word, WAKE_SLEEPING);

	/* ORDER wake/sleep [W]: full, between the store of SLEEPING and the check of the rings.
	 * Pairs with wake_published(). */
	fence_full();
	return sleeping;
}

/* The dispatcher: announces that it dozes. After it, check everything once more, and that an alarm
 * is set; then FUTEX_WAIT on the returned value, or wake_store() another state. */
static inline uint32_t wake_dozing(_Atomic uint32_t *word)
{
	uint32_t dozing = wake_next(word, WAKE_DOZING);

	/* ORDER wake/sleep [W]: full, between the store of DOZING and the check of the rings. Pairs
	 * with wake_published().
	 * ORDER wake/doze [W]: the same fence, before the check of the alarms. Pairs with
	 * wake_alarm_over(); W9. */
	fence_full();
	return dozing;
}

/* A worker whose alarm has ended. After it, check whether another alarm is set, and if not, whether
 * the dispatcher dozes. */
static inline void wake_alarm_over(void)
{
	/* ORDER wake/doze [W]: full, between the store and the check. Pairs with wake_dozing() and
	 * with itself, where two end at once; W9. */
	fence_full();
}

/* Owner: announces that it is offline. After it, check whether a ring has work left, and pass that
 * on; then FUTEX_WAIT on the returned value, or wake_store() another state. */
static inline uint32_t wake_parked(_Atomic uint32_t *word)
{
	uint32_t parked = wake_next(word, WAKE_PARKED);

	/* ORDER wake/busy [W]: full, between the store of PARKED and the check of the rings. Pairs
	 * with wake_published(). */
	fence_full();
	return parked;
}

/* Owner: announces that it runs a job. After it, check whether a ring has work left. */
static inline void wake_busy(_Atomic uint32_t *word)
{
	wake_store(word, WAKE_BUSY);
	/* ORDER wake/busy [W]: full, between the store of BUSY and the check of the rings. Pairs
	 * with wake_published(). */
	fence_full();
}

/* Publisher: called between the publication and the first read of a word. */
static inline void wake_published(void)
{
	/* ORDER wake/sleep [W]: full, between the publication and the check of the words; W1, W2.
	 * ORDER wake/busy [W]: the same fence; W2, W3.
	 * ORDER wake/ring [A1]: the same fence, before the check of a worker's alarm
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
