/* SPDX-License-Identifier: MIT */
/*
 * io_poller.h - waits for the input and output of all fibers of a pool
 *
 * One io_uring, and one thread that waits for it. The caller describes an operation in a poller_op
 * and hands it over; done() gets it back. One system call submits all that the thread has.
 *
 * Threads: poller_start(), poller_stop(): the pool's main thread, before there are workers and
 * after. poller_begin(), poller_end(): any thread. done(): the poller's.
 */
#pragma once

#include <liburing.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* What can be done. */
enum poller_what {
	POLLER_READ,   /* at the file's position, as read(2) */
	POLLER_WRITE,  /* the same */
	POLLER_ACCEPT, /* the result is a descriptor, close-on-exec */
	POLLER_POLL,   /* size: the events of poll(2); the result is those that are there */
};

/* Its memory, and what data points to, stay where they are until done(). */
struct poller_op {
	enum poller_what what;
	int fd;
	void *data;
	uint32_t size;
	int32_t result;		/* when it is done: 0 or more, or a negative errno */
	_Atomic uint32_t state; /* see io_poller.c */
	uintptr_t next[2];	/* of its notes, in the list of notes; [0]: that are done */
};

struct poller_way {
	void (*done)(void *arg, struct poller_op *first); /* linked by next[0] */
	void *arg;
	_Atomic uint64_t *turns; /* counts how often the thread came back from the kernel */
	uint32_t sandbox;	 /* OPTIONS_SANDBOX_*, of its thread */
};

struct poller {
	_Alignas(64) _Atomic uintptr_t notes; /* the newest: io_poller.c, I1 */
	_Atomic uint32_t word;		      /* shm/wake.h: whether the thread sleeps */
	_Alignas(64) struct io_uring ring;
	uint32_t head;	 /* of the completions: how many were taken */
	uint64_t news;	 /* what was read from the eventfd */
	bool armed;	 /* the ring reads it */
	bool timed;	 /* there is no futex_waitv(2) */
	uintptr_t later; /* notes that there was no room for, the oldest first */
	struct poller_way way;
	pthread_t thread;
	bool started;
	_Atomic bool stop;
	_Atomic uint32_t begun; /* 1: the thread is there; or why it is not, a negative errno */
};

/* Makes the ring and its thread. Returns 0, or a negative errno: there is no io_uring here, or no
 * memory for it. */
int poller_start(struct poller *poller, const struct poller_way *way);

/* Nothing is under way. Also of one that was not started, and is all zero. */
void poller_stop(struct poller *poller);

/* The operation is to be done. */
void poller_begin(struct poller *poller, struct poller_op *op);

/* Ends the operation early: if it is not done, the result is this error, a negative errno. Nothing
 * happens if it has ended, or was ended before. The caller keeps its memory there meanwhile. */
void poller_end(struct poller *poller, struct poller_op *op, int error);
