/* SPDX-License-Identifier: MIT */
/*
 * INVARIANTS
 *   I1. waker_wake() returns only after it found an awake thread, or woke one, or rang (wake.h, W1
 *       to W3, W11). A thread counts as awake if its word is LOOKING, has changed, or belongs to a
 *       sleep that was woken before. publish_record() does not wake a dozing dispatcher for a job
 *       that can wait for an alarm: W9.
 *   I2. waker_ring() sends no ring (PROTO_RING) while the socket has an unread one. Only threads
 *       that send at the same time add more. After a cancel the unread message may be the cancel,
 *       so each ring is sent. waker_ring() never blocks.
 *
 * A WAKE THAT FINDS NO SLEEPER
 *   FUTEX_WAKE finds no sleeper if the worker has stored SLEEPING but does not sleep yet. The same
 *   happens if it was stopped, died, or was requeued by another client (wake.h, W10). The client
 *   tries again for some microseconds and then rings: the dispatcher checks all rings. If
 *   FUTEX_WAKE fails, which another client can cause, it rings at once (W11). If the ring cannot be
 *   sent, it tries FUTEX_WAKE again. After WAKER_TRIES tries the word is treated as BUSY, and the
 *   next worker or the dispatcher is woken. A new pool checks all rings when it starts.
 */
#include "client/lib/wake_worker.h"

#include <linux/sockios.h>
#include <sched.h>
#include <sys/ioctl.h>

#include "client/lib/client_state.h"
#include "common/crash_site.h"
#include "common/relaxed.h"
#include "shm/futex.h"
#include "shm/proto.h"
#include "shm/wake.h"

#define WAKER_TRIES	 4096u /* tries to wake a worker that is about to sleep */
#define WAKER_BUSY_TRIES 64u   /* tries before the client rings and then yields the CPU */

int waker_send(struct waker *waker, const void *message, size_t size)
{
	return waker->local ? waker->local->send(waker, message)
			    : proto_send(waker->fd, message, size, NULL, 0);
}

int waker_ring(struct waker *waker)
{
	struct proto_head ring = { PROTO_MAGIC, PROTO_RING };
	int unread = 0;

	if (waker->fd < 0 && !waker->local)
		return 0;
	/* If a ring is unread, the manager will read it and check all rings (I2). Relaxed: if the
	 * unread message is another thread's cancel, this job waits at most one tick. */
	if (!waker->local && !load_relaxed(&waker->cancels) &&
	    ioctl(waker->fd, SIOCOUTQ, &unread) == 0 && unread)
		return 1;
	return waker_send(waker, &ring, sizeof(ring)) == 0;
}

/* Returns the word that belongs to this index of woken[]. */
static const _Atomic uint32_t *waker_word(const struct board *board, uint32_t at)
{
	return at < LIMIT_WORKERS ? &board->workers[at].wake : &board->dispatcher;
}

uint64_t waker_unsure(const struct board *board, const struct waker *waker, uint64_t now_ns)
{
	/* Relaxed throughout: hints for the time of the next check. */
	uint32_t at = load_relaxed(&waker->last);
	uint32_t value = wake_load(waker_word(board, at));
	uint64_t since;

	if (!wake_rests(value) || (uint32_t)load_relaxed(&waker->woken[at]) != value)
		return WAKER_SURE;
	since = load_relaxed(&waker->since_ns);
	return now_ns > since ? now_ns - since : 0;
}

/* Records that this sleep was woken, or that a ring was sent for it. waker: may be NULL. */
static void waker_note(struct waker *waker, uint32_t at, uint64_t sleep)
{
	if (!waker)
		return;
	/* Relaxed: hints, as above. */
	store_relaxed(&waker->woken[at], sleep);
	store_relaxed(&waker->last, at);
	store_relaxed(&waker->since_ns, clock_ns());
}

/*
 * Wakes the thread that sleeps while word `at` has this value. No wake is needed if it was woken
 * from this sleep before and has not changed its word yet. It will change the word and then check
 * all rings (W2). So a burst of jobs makes one system call. If the word does not change for
 * WAKER_DOUBT, the wake may have reached another thread (W7). Then it is repeated and a ring is
 * sent. True if a sleeper was woken, a ring was sent for it, or the word has another value now.
 */
static int waker_wake_word(const struct board *board, uint32_t at, uint32_t value,
			   struct waker *waker)
{
	const _Atomic uint32_t *word = waker_word(board, at);
	/* Relaxed: identifies a sleep. A new pool counts its sleeps from 0 again. */
	uint64_t sleep = (uint64_t)load_relaxed(&board->manager.pool_generation) << 32 | value;

	/* A worker of a pool in this process may have no thread yet. */
	if (waker && waker->local && at < LIMIT_WORKERS && !load_relaxed(&board->workers[at].tid)) {
		waker->local->wake(waker, at);
		return 1;
	}
	if (waker && load_relaxed(&waker->woken[at]) == sleep) {
		uint64_t now = clock_ns();
		uint64_t unsure;

		/* since_ns is the time of the last wake, which is not before the wake of this. */
		store_relaxed(&waker->last, at);
		unsure = waker_unsure(board, waker, now);
		/* At most once in WAKER_DOUBT: the thread may just have got no CPU time. */
		if (unsure >= WAKER_DOUBT && unsure != WAKER_SURE &&
		    client_due(&waker->rung_ns, now, WAKER_DOUBT)) {
			(void)futex_wake(word, INT32_MAX);
			(void)waker_ring(waker);
		}
		return 1;
	}
	FK_CRASH(publish_waking);
	for (uint32_t i = 0; i < WAKER_TRIES; i++) {
		int n = futex_wake(word, INT32_MAX);

		if (n > 0) {
			FK_CRASH(publish_woken);
			waker_note(waker, at, sleep);
			return 1;
		}
		if (wake_load(word) != value)
			return 1;
		/* n < 0: another client prevents the kernel from waking this word (W11). */
		if ((i == WAKER_BUSY_TRIES || (n < 0 && i < WAKER_BUSY_TRIES)) && waker &&
		    waker_ring(waker)) {
			waker_note(waker, at, sleep);
			return 1;
		}
		if (i < WAKER_BUSY_TRIES)
			fence_pause();
		else
			sched_yield();
	}
	return 0;
}

uint32_t waker_wake_worker(const struct board *board, uint32_t n_workers, uint32_t ring,
			   struct waker *waker)
{
	uint32_t sleeper = n_workers;
	uint32_t value = 0;
	uint32_t w = ring;

	/* First try the worker of this ring. */
	value = wake_load(&board->workers[w].wake);
	if (wake_state(value) == WAKE_LOOKING)
		return w;
	if (wake_state(value) == WAKE_SLEEPING && waker_wake_word(board, w, value, waker))
		return w;

	/* It is BUSY or PARKED: find another worker that is LOOKING or SLEEPING. */
	for (uint32_t i = 1; i < n_workers; i++) {
		uint32_t other;

		if (++w == n_workers)
			w = 0;
		other = wake_load(&board->workers[w].wake);
		if (wake_state(other) == WAKE_LOOKING)
			return w;
		if (wake_state(other) == WAKE_SLEEPING && sleeper == n_workers) {
			sleeper = w;
			value = other;
		}
	}
	if (sleeper < n_workers && waker_wake_word(board, sleeper, value, waker))
		return sleeper;
	return n_workers;
}

/* No wake is needed if the dispatcher is awake: it checks the rings once more before it rests. */
void waker_wake_dispatcher(const struct board *board, struct waker *waker)
{
	uint32_t value = wake_load(&board->dispatcher);

	FK_CRASH(publish_dispatcher);
	if (wake_rests(value))
		(void)waker_wake_word(board, LIMIT_WORKERS, value, waker);
}

uint32_t waker_wake(const struct board *board, uint32_t n_workers, uint32_t ring,
		    struct waker *waker)
{
	uint32_t w = waker_wake_worker(board, n_workers, ring, waker);

	if (w == n_workers)
		waker_wake_dispatcher(board, waker);
	return w;
}
