/* SPDX-License-Identifier: MIT */
/* wake_worker.h - a client wakes a worker, or the dispatcher */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "common/clock.h"
#include "shm/board.h"
#include "shm/limits.h"

/* How long a thread that was woken may leave its word as it is until the client rings: wake.h, W11.
 */
#define WAKER_DOUBT (2 * NSEC_PER_MSEC)
#define WAKER_SURE  UINT64_MAX

/* How long a sleep lasts meanwhile if the client has not rung for a second. A timer that is later
 * than the next tick of the kernel costs nothing; an earlier one costs 4 us on each side of the
 * sleep in a virtual machine. */
#define WAKER_NAP (8 * NSEC_PER_MSEC)

/* What a client knows of the threads that it has woken. Hints; all except fd are 0 at first. */
struct waker {
	int fd;			   /* its socket, -1: none; constant */
	_Atomic uint32_t last;	   /* index in woken[] of the last one, or of one found there */
	_Atomic uint64_t since_ns; /* when a thread was woken last, CLOCK_MONOTONIC */
	_Atomic uint32_t cancels;  /* a message in the socket may be a cancel */
	_Atomic uint64_t rung_ns;  /* when the client rang last because of a doubt */
	/* for each worker, and for the dispatcher at LIMIT_WORKERS: { pool's generation:32, its
	 * word when it was woken:32 } */
	_Atomic uint64_t woken[LIMIT_WORKERS + 1];
};

/*
 * The publisher's part of shm/wake.h, after wake_published(), for a job in this ring.
 * waker: the client's; or NULL.
 * Returns the worker that was found awake or was woken, or n_workers if the dispatcher has it now.
 */
uint32_t waker_wake(const struct board *board, uint32_t n_workers, uint32_t ring,
		    struct waker *waker);

/* The two parts of it: the worker, or n_workers if all are BUSY or PARKED; and the dispatcher. */
uint32_t waker_wake_worker(const struct board *board, uint32_t n_workers, uint32_t ring,
			   struct waker *waker);
void waker_wake_dispatcher(const struct board *board, struct waker *waker);

/*
 * For how long, at now_ns, the thread that the client woke last has left its word as it was;
 * WAKER_SURE: it has changed its word, or none was woken.
 */
uint64_t waker_unsure(const struct board *board, const struct waker *waker, uint64_t now_ns);

/* Has the dispatcher look at all rings, by the manager. True if it will. */
int waker_ring(const struct waker *waker);
