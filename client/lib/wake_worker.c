/* SPDX-License-Identifier: MIT */
/*
 * INVARIANTS
 *   I1. waker_wake() returns only after it saw a word that is LOOKING, woke a sleeper, saw the
 *       word of a sleeper change, knew this sleep to be woken already or rang for it, or has done
 *       the same with the dispatcher: W1 to W3 and W11 of wake.h. publish_record() leaves a
 *       dispatcher that dozes alone if the job can wait for an alarm: W9.
 *   I2. A client has one ring in its socket, and as many more as threads sent one at the same
 *       time: waker_ring() sends none while one is unread there. A client that has cancelled a
 *       job cannot tell what is unread, and sends each ring. It never blocks.
 *
 * A WAKE THAT FINDS NO SLEEPER
 *   FUTEX_WAKE finds no sleeper if the worker has stored SLEEPING and does not sleep yet, if it has
 *   died with its pool or was stopped, or if another client has requeued it (wake.h, W10). It is
 *   tried again for some microseconds, then the client rings: the dispatcher looks at all rings.
 *   If FUTEX_WAKE fails, which another client can bring about, it rings at once (W11).
 *   If it cannot send the ring it tries on. After thousands of tries the word is treated as BUSY:
 *   the next worker or the dispatcher gets the duty, and after the pool's death the next pool looks
 *   at all rings when it starts.
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
#define WAKER_BUSY_TRIES 64u   /* of these without giving up the CPU, before it rings */

int waker_ring(const struct waker *waker)
{
	struct proto_head ring = { PROTO_MAGIC, PROTO_RING };
	int unread = 0;

	if (waker->fd < 0)
		return 0;
	/* The manager has not read the last ring: it will look after that (I2). Relaxed: a cancel
	 * of another thread that is in the socket alone costs this job a tick at most. */
	if (!load_relaxed(&waker->cancels) && ioctl(waker->fd, SIOCOUTQ, &unread) == 0 && unread)
		return 1;
	return proto_send(waker->fd, &ring, sizeof(ring), NULL, 0) == 0;
}

/* The word at this place of woken[]. */
static const _Atomic uint32_t *waker_word(const struct board *board, uint32_t at)
{
	return at < LIMIT_WORKERS ? &board->workers[at].wake : &board->dispatcher;
}

uint64_t waker_unsure(const struct board *board, const struct waker *waker, uint64_t now_ns)
{
	/* Relaxed throughout: hints of when to look again. */
	uint32_t at = load_relaxed(&waker->last);
	uint32_t value = wake_load(waker_word(board, at));
	uint64_t since;

	if (!wake_rests(value) || (uint32_t)load_relaxed(&waker->woken[at]) != value)
		return WAKER_SURE;
	since = load_relaxed(&waker->since_ns);
	return now_ns > since ? now_ns - since : 0;
}

/* Remembers that this sleep was woken, or rung for. */
static void waker_note(struct waker *waker, uint32_t at, uint64_t sleep)
{
	if (!waker)
		return;
	/* Relaxed: as above. */
	store_relaxed(&waker->woken[at], sleep);
	store_relaxed(&waker->last, at);
	store_relaxed(&waker->since_ns, clock_ns());
}

/*
 * Wakes the thread that sleeps with this value of the word at this place. A worker that was woken
 * from this very sleep and has not come to change its word yet is as good as one that looks: the
 * change comes after the read of the word, and a look at all rings after the change (W2). So a
 * burst of jobs makes one system call, not one each until the worker runs. If the word does not
 * change for WAKER_DOUBT the wake may have gone elsewhere (W7): it is made again, and the client
 * rings. True if a sleeper was woken, was rung for, or its word is not the value any more.
 */
static int waker_wake_word(const struct board *board, uint32_t at, uint32_t value,
			   struct waker *waker)
{
	const _Atomic uint32_t *word = waker_word(board, at);
	/* Relaxed: a sleep is known by its number, and a new pool may count from the start. */
	uint64_t sleep = (uint64_t)load_relaxed(&board->manager.pool_generation) << 32 | value;

	if (waker && load_relaxed(&waker->woken[at]) == sleep) {
		uint64_t now = clock_ns();
		uint64_t unsure;

		/* It was woken before the last one was: since_ns is late enough for it. */
		store_relaxed(&waker->last, at);
		unsure = waker_unsure(board, waker, now);
		/* Once in WAKER_DOUBT: a thread that gets no CPU time cannot change its word. */
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
		/* An error: another client keeps the kernel from waking anything here (W11). */
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

/* A worker that was found awake or was woken; n_workers: all are BUSY or PARKED. */
uint32_t waker_wake_worker(const struct board *board, uint32_t n_workers, uint32_t ring,
			   struct waker *waker)
{
	uint32_t sleeper = n_workers;
	uint32_t value = 0;
	uint32_t w = ring;

	/* The ring's own worker: LOOKING or SLEEPING ends it here. */
	value = wake_load(&board->workers[w].wake);
	if (wake_state(value) == WAKE_LOOKING)
		return w;
	if (wake_state(value) == WAKE_SLEEPING && waker_wake_word(board, w, value, waker))
		return w;

	/* It is BUSY, or PARKED: another one that will look, or can be woken. */
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

/* A dispatcher that is awake looks once more before it rests. */
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
