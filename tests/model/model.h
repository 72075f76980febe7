/* SPDX-License-Identifier: MIT */
/*
 * The common part of the models: threads that run one instance after another.
 *
 * Each program is a closed part of a protocol, around the production header. It has a state, the
 * steps of two or three threads, and a check of the result. A program includes this file, defines
 * 	MODEL_THREADS, struct model, model_init(m, i), model_thread(m, thread), model_check(m)
 *   and includes tests/model/run.h, which has the main().
 *   Nothing in model_thread() may wait for another thread without end: a thread that would sleep
 *   records that in a struct model_futex and ends.
 *
 * HOW IT IS RUN (tests/model/run)
 *   As an ordinary program: PROGRAM [INSTANCES [SECONDS]]. The threads run through batches of
 *   instances side by side. Their paces drift, so that they meet at every pair of steps. The same
 *   under ThreadSanitizer. With -DMODEL_ONCE: one instance, for a model checker.
 *
 * MUTANTS
 *   -DMUTANT_... puts one error into the program, and a run must fail. Errors in the production
 *   header are made from outside, by redefining an order or an operation that it uses.
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
#elif defined(MODEL_EXPLORE)
#include "tests/model/explore.h"
#define model_assert(condition, text)                                                              \
	do {                                                                                       \
		if (!(condition))                                                                  \
			explore_violated(text);                                                    \
	} while (0)
#define sched_yield() explore_yield()
#define thrd_yield()  explore_yield()
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

/* Zeroes it. The one instance of MODEL_ONCE is a zeroed variable: GenMC has no memset(). */
#ifdef MODEL_ONCE
#define model_zero(object) ((void)(object))
#else
#define model_zero(object) ((void)memset(object, 0, sizeof(*(object))))
#endif

/* A word of an array of bytes: GenMC has no memcpy(). */
typedef uint64_t __attribute__((may_alias)) model_word_t;

/* Returns any number below n. For GenMC it reads a variable that another thread, model_oracle(),
 * writes in a race: 0 after MODEL_CHOICES writes. Only one thread of a model may call it. */
#ifdef MODEL_ONCE
#ifdef MODEL_CHOICES
static _Atomic uint32_t model_choices[MODEL_CHOICES];

static inline uint32_t model_choose(uint32_t n)
{
	static uint32_t chosen;

	for (uint32_t i = n; i-- > 1 && chosen < MODEL_CHOICES;)
		if (atomic_load_explicit(&model_choices[chosen++], memory_order_relaxed))
			return i;
	return 0;
}

static inline void *model_oracle(void *unused)
{
	for (uint32_t i = 0; i < MODEL_CHOICES; i++)
		atomic_store_explicit(&model_choices[i], 1, memory_order_relaxed);
	return unused;
}
#endif
#elif defined(MODEL_EXPLORE)
#define model_choose(n) explore_choose(n)
#else
static inline uint32_t model_choose(uint32_t n)
{
	static _Thread_local uint32_t random = 17;

	random = random * 1664525u + 1013904223u;
	return (random >> 16) % n;
}
#endif

/* Between two steps of a mutant: sometimes the others run first, on a single CPU as well. */
static inline void model_stumble(void)
{
#if defined(MODEL_EXPLORE)
	explore_yield();
#elif !defined(MODEL_ONCE)
	static _Thread_local uint32_t calls;

	if (++calls % 16 == 0)
		sched_yield();
#endif
}

#ifdef MODEL_EXPLORE
typedef _Atomic uint32_t model_lock_t;

static inline void model_lock(model_lock_t *lock)
{
	while (atomic_exchange_explicit(lock, 1, memory_order_acquire))
		explore_yield();
}

static inline void model_unlock(model_lock_t *lock)
{
	atomic_store_explicit(lock, 0, memory_order_release);
}
#else
typedef pthread_mutex_t model_lock_t;
#define model_lock(lock)   pthread_mutex_lock(lock)
#define model_unlock(lock) pthread_mutex_unlock(lock)
#endif

static inline void model_lock_init(model_lock_t *lock)
{
#ifdef MODEL_EXPLORE
	atomic_store_explicit(lock, 0, memory_order_relaxed);
#else
	pthread_mutex_init(lock, NULL);
#endif
}

/* A futex: a bit for each thread that sleeps, and for each that was woken. */
struct model_futex {
	model_lock_t lock; /* the kernel's, of the hash bucket */
	uint32_t sleeping;
	uint32_t woken;
};

static inline void model_futex_init(struct model_futex *futex)
{
	model_lock_init(&futex->lock);
	futex->sleeping = 0;
	futex->woken = 0;
}

/* FUTEX_WAIT. Returns true if this thread sleeps and must end; false for another value. */
static inline int model_wait(struct model_futex *futex, _Atomic uint32_t *word, uint32_t value,
			     uint32_t thread)
{
	int sleeps;

	model_lock(&futex->lock);
	sleeps = atomic_load_explicit(word, memory_order_relaxed) == value;
	if (sleeps)
		futex->sleeping |= 1u << thread;
	model_unlock(&futex->lock);
	return sleeps;
}

/* FUTEX_WAKE of all. Returns true if there is or was a sleeper: a woken thread ends here; a real
 * one would continue and change the word. */
static inline int model_wake(struct model_futex *futex)
{
	int any;

	model_lock(&futex->lock);
	futex->woken |= futex->sleeping;
	futex->sleeping = 0;
	any = futex->woken != 0;
	model_unlock(&futex->lock);
	return any;
}
