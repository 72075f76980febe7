/* SPDX-License-Identifier: MIT */
/* wake_worker.h - a client wakes a worker, or the dispatcher */
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "common/clock.h"
#include "shm/board.h"
#include "shm/limits.h"

/* Time after which a client rings if a thread that it woke has not changed its word (wake.h, W11).
 */
#define WAKER_DOUBT (2 * NSEC_PER_MSEC)
#define WAKER_SURE  UINT64_MAX

/* Length of a sleep while such a wake is in doubt and the client has not rung for a second. A timer
 * after the next kernel tick costs nothing. In a virtual machine an earlier one costs 4 us before
 * and after the sleep. */
#define WAKER_NAP (8 * NSEC_PER_MSEC)

struct waker;

/* A pool in this process, or of a plugin. */
struct waker_local {
	/* Takes a message in place of the socket. Returns as proto_send() does. */
	int (*send)(struct waker *waker, const void *message);
	/* Ends the client at the pool, which unmaps its segments and imports. */
	void (*close)(struct waker *waker);
	/* Sets the address space of the client's imports. */
	void (*import)(struct waker *waker, char *base);
	/* Wakes a worker that has no thread yet. */
	void (*wake)(struct waker *waker, uint32_t worker);
	/* True if the calling thread is a worker of the pool, which must not sleep. */
	int (*is_worker)(void);
	uint32_t n_tasks;		     /* of the pool itself, at the beginning of the board */
	const struct waker_cluster *cluster; /* NULL: the pool is in this process */
};

/* The pool of a plugin, which passes jobs on to several machines: plugin.h. */
struct waker_cluster {
	/* Enters tasks into the board. name: a task that is not there; NULL: all. error: size
	 * bytes, set on failure. Returns 0, -FK_E_NO_TASK, or an error of fk_open(). */
	int (*find)(struct waker *waker, const char *name, char *error, size_t size);
	/* Copies the text of a job's outcome. False if it has none. */
	int (*explain)(struct waker *waker, uint32_t job, uint32_t generation, char *text,
		       size_t size);
	/* Returns the number of jobs that the machines run at a time, as far as known. */
	uint32_t (*workers)(struct waker *waker);
};

/* How a client reaches the pool, and the threads that it has woken. The latter are hints, and 0 at
 * first. */
struct waker {
	int fd;				 /* its socket, -1: none; constant */
	const struct waker_local *local; /* constant; NULL: the pool is reached by the socket */
	_Atomic uint32_t last;		 /* index in woken[] that was set or matched last */
	_Atomic uint64_t since_ns;	 /* when a thread was woken last, CLOCK_MONOTONIC */
	_Atomic uint32_t cancels;	 /* a message in the socket may be a cancel */
	_Atomic uint64_t rung_ns;	 /* when the client rang last because of a doubt */
	/* for each worker, and for the dispatcher at LIMIT_WORKERS: { pool's generation:32, its
	 * word when it was woken:32 } */
	_Atomic uint64_t woken[LIMIT_WORKERS + 1];
};

/*
 * Wakes a thread for a job in this ring (shm/wake.h), after wake_published(). waker: may be NULL.
 * Returns the worker that was awake or was woken, or n_workers if the dispatcher was woken instead.
 */
uint32_t waker_wake(const struct board *board, uint32_t n_workers, uint32_t ring,
		    struct waker *waker);

/* Its two parts: wakes a worker, or returns n_workers if none can be; wakes the dispatcher. */
uint32_t waker_wake_worker(const struct board *board, uint32_t n_workers, uint32_t ring,
			   struct waker *waker);
void waker_wake_dispatcher(const struct board *board, struct waker *waker);

/*
 * Returns for how long, at now_ns, the thread that the client woke last has not changed its word;
 * WAKER_SURE: it has changed its word, or none was woken.
 */
uint64_t waker_unsure(const struct board *board, const struct waker *waker, uint64_t now_ns);

/* Sends a message to the manager, or to the pool of this process. Returns as proto_send() does. */
int waker_send(struct waker *waker, const void *message, size_t size);

/* Asks the manager for a check of all rings by the dispatcher. True if it was sent or is unread. */
int waker_ring(struct waker *waker);
