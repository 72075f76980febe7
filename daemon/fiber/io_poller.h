/* SPDX-License-Identifier: MIT */
/*
 * io_poller.h - waits for the input and output of all fibers of a pool
 *
 * One io_uring, and one thread that waits for it. The caller describes an operation in a poller_op
 * and passes it; done() returns it. One system call submits all pending operations.
 *
 * Threads: poller_start(), poller_begin(), poller_end(): any thread. poller_stop(): one thread,
 * after all others. done(): the poller's.
 */
#pragma once

#include <liburing.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum poller_what {
	POLLER_READ,   /* at the file's position, as read(2) */
	POLLER_WRITE,  /* the same */
	POLLER_ACCEPT, /* the result is a descriptor, close-on-exec */
	POLLER_POLL,   /* size: events of poll(2); result: those that occurred */
};

/* Must stay in place until done(), like the memory that data points to. */
struct poller_op {
	enum poller_what what;
	int fd;
	void *data;
	uint32_t size;
	int32_t result;		/* when done: 0 or more, or a negative errno */
	_Atomic uint32_t state; /* see io_poller.c */
	uintptr_t next[2];	/* links of its two notes in the list; [0]: of done ones */
};

struct topology;

struct poller_way {
	void (*done)(void *arg, struct poller_op *first); /* linked by next[0] */
	void *arg;
	_Atomic uint64_t *turns;	 /* number of returns from the kernel */
	uint32_t sandbox;		 /* OPTIONS_SANDBOX_*, of its thread */
	const struct topology *topology; /* whose CPUs its thread uses; NULL: the caller's */
};

struct poller {
	_Alignas(64) _Atomic uintptr_t notes; /* the newest: io_poller.c, I1 */
	_Atomic uint32_t word;		      /* shm/wake.h: whether the thread sleeps */
	_Alignas(64) struct io_uring ring;
	uint32_t head;	 /* number of completions taken */
	uint64_t news;	 /* value read from the eventfd */
	bool armed;	 /* the ring reads it */
	bool timed;	 /* futex_waitv(2) is not available */
	uintptr_t later; /* notes without room, oldest first */
	struct poller_way way;
	pthread_t thread;
	bool started;
	_Atomic bool stop;
	_Atomic uint32_t begun; /* POLLER_*: io_poller.c, I8; or a negative errno */
};

/* Makes the ring and its thread at the first call; other calls wait for that. Returns 0, or the
 * negative errno of the first call: no io_uring, or no memory. */
int poller_start(struct poller *poller, const struct poller_way *way);

/* Stops the poller when no operation is under way. Does nothing if it is all zero. */
void poller_stop(struct poller *poller);

/* Starts an operation. */
void poller_begin(struct poller *poller, struct poller_op *op);

/* Ends an operation early: unless it has completed, its result is this negative errno. Does nothing
 * if it has ended, or was ended before. The caller keeps the memory valid during the call. */
void poller_end(struct poller *poller, struct poller_op *op, int error);
