/* SPDX-License-Identifier: MIT */
/*
 * What the programs of tests/model share: threads that run one instance after another.
 *
 * WHAT IT IS
 *   Each program is a closed piece of a protocol, around the production header itself: a state,
 *what each of two or three threads does to it once, and what must be true when they have ended. It
 *   includes this file, defines
 *	MODEL_THREADS, struct model, model_init(m, i), model_thread(m, thread), model_check(m)
 *   and includes tests/model/run.h, which has the main().
 *   Nothing in model_thread() may wait for another thread without end: a thread that would sleep
 *   says so to a struct model_futex and is done.
 *
 * HOW IT IS RUN (tests/model/run)
 *   As an ordinary program: PROGRAM [INSTANCES [SECONDS]]. The threads run through batches of
 *   instances side by side, at paces that drift, so that they meet at every pair of steps; the
 *   same under ThreadSanitizer. With -DMODEL_ONCE: one instance, for a model checker.
 *
 * MUTANTS
 *   -DMUTANT_... makes the program wrong in one place; then a run must fail. What the production
 *   header contains is made wrong from outside, by redefining an order or an operation that it
 *uses.
 */
#pragma once

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef MODEL_ONCE
#include <assert.h>
#define model_assert(condition, text) assert((condition) && (text))
#else
#define model_assert(condition, text)                                                              \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			printf("model: violated: %s\n", text);                                     \
			fflush(stdout);                                                            \
			_Exit(1);                                                                  \
		}                                                                                  \
	} while (0)
#endif

/* Between two steps of a mutant: now and then the others run first, on a single CPU as well. */
static inline void model_stumble(void)
{
#ifndef MODEL_ONCE
	static _Thread_local uint32_t calls;

	if (++calls % 16 == 0)
		sched_yield();
#endif
}

/* A futex: who sleeps and who was woken, one bit a thread. */
struct model_futex {
	pthread_mutex_t lock; /* the kernel's, of the hash bucket */
	uint32_t sleeping;
	uint32_t woken;
};

static inline void model_futex_init(struct model_futex *futex)
{
	pthread_mutex_init(&futex->lock, NULL);
	futex->sleeping = 0;
	futex->woken = 0;
}

/* FUTEX_WAIT. True: this thread sleeps, and is to end here. False: the value was another. */
static inline int model_wait(struct model_futex *futex, _Atomic uint32_t *word, uint32_t value,
			     uint32_t thread)
{
	int sleeps;

	pthread_mutex_lock(&futex->lock);
	sleeps = atomic_load_explicit(word, memory_order_relaxed) == value;
	if (sleeps)
		futex->sleeping |= 1u << thread;
	pthread_mutex_unlock(&futex->lock);
	return sleeps;
}

/*
 * FUTEX_WAKE of all. True if there was somebody, or had been: a thread that was woken has ended
 * here, where a real one would go on and change the word.
 */
static inline int model_wake(struct model_futex *futex)
{
	int any;

	pthread_mutex_lock(&futex->lock);
	futex->woken |= futex->sleeping;
	futex->sleeping = 0;
	any = futex->woken != 0;
	pthread_mutex_unlock(&futex->lock);
	return any;
}
