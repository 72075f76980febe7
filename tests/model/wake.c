/* SPDX-License-Identifier: MIT */
/*
 * wake.c - every published job is found (shm/wake.h, W1 to W3, W8 to W11)
 *
 * THE PROGRAM
 *   One client publishes one job and acts as a publisher. Worker A searches and goes to sleep;
 *   worker B finds another job and becomes busy; the dispatcher checks at a tick and goes to sleep.
 *   There are six instances in turn:
 *       - A, with B busy all the time; B, with A busy all the time; both.
 *       - A and B are busy all the time. An alarm lets the dispatcher doze and expires for the last
 *         time, while the client leaves its job to it.
 *       - Another client, the thief, moves the sleepers of the board's words away and waits there
 *         itself: A, with B busy all the time; both.
 *   A sleeps on two words, as the dispatcher does: its word on the board and its bell.
 *
 * WHAT MUST BE TRUE
 *   In the end one of these is true. The job was taken; a sleeper that will check again was woken,
 *   which may be the dispatcher; or the dispatcher has seen the job, or no alarm, and will check
 *   again.
 *
 * MUTANTS
 *   MUTANT_DROP=FUNCTION  that function of wake.h loses its fence
 * 	MUTANT_LOOK           A sleeps without checking again
 * 	MUTANT_DUTY           B does not check the ring after it has become busy
 * 	MUTANT_TICK           the dispatcher ends its ticks and is still LOOKING
 * 	MUTANT_DOZE           the dispatcher dozes without checking again for an alarm
 * 	MUTANT_OVER           the end of the alarm does not check if the dispatcher dozes
 * 	MUTANT_WAKE           the publisher tries to wake once, whether or not the sleeper is there,
 * 	                      and does not ring
 * 	MUTANT_RING           the publisher does not ring if it found no sleeper
 * 	MUTANT_DOUBT          the publisher does not ring if a thread that it woke stays asleep
 * 	MUTANT_BELL           B wakes A by the word on the board
 * 	MUTANT_SILENT         the manager wakes the dispatcher and does not change the bell
 * 	MUTANT_HEARD          the dispatcher reads its bell after its last check
 */
#include <stdatomic.h>

#include "tests/model/model.h"

#include "tests/model/drop.h"

#include "shm/wake.h"

#undef fence_full

#define MODEL_THREADS 5

#define CLIENT	   0u
#define A	   1u
#define B	   2u
#define DISPATCHER 3u
#define THIEF	   4u

#define NOTHING	  0u
#define PUBLISHED 1u
#define TAKEN	  2u

struct model {
	_Alignas(64) _Atomic uint32_t a;
	_Alignas(64) _Atomic uint32_t b;
	_Alignas(64) _Atomic uint32_t job;
	_Alignas(64) _Atomic uint32_t dispatcher;
	_Alignas(64) _Atomic uint32_t slice_timer; /* of A: it is set */
	_Alignas(64) _Atomic uint32_t bell;	   /* of A */
	_Alignas(64) _Atomic uint32_t dispatcher_bell;
	struct model_futex futex; /* of A: its word on the board, and its bell */
	struct model_futex bell_futex;
	struct model_futex dispatcher_futex;
	struct model_futex dispatcher_bell_futex;
	int a_comes;	      /* by itself: it did not fall asleep */
	int dispatcher_comes; /* the same, or it has seen the job */
	int a_runs;
	int b_runs;
	int a_rings;
	int thief_runs;
};

static void model_init(struct model *m, uint32_t instance)
{
	uint32_t kind = instance % 6;

	m->a_rings = kind == 3;
	m->thief_runs = kind > 3;
	m->a_runs = kind != 1 && kind != 3;
	m->b_runs = kind == 1 || kind == 2 || kind == 5;
	atomic_store_explicit(&m->slice_timer, (uint32_t)m->a_rings, memory_order_relaxed);
	atomic_store_explicit(&m->a, m->a_runs ? WAKE_LOOKING : WAKE_BUSY, memory_order_relaxed);
	atomic_store_explicit(&m->b, m->b_runs ? WAKE_LOOKING : WAKE_BUSY, memory_order_relaxed);
	atomic_store_explicit(&m->job, NOTHING, memory_order_relaxed);
	/* In its tick. */
	atomic_store_explicit(&m->dispatcher, WAKE_LOOKING, memory_order_relaxed);
	atomic_store_explicit(&m->bell, 0, memory_order_relaxed);
	atomic_store_explicit(&m->dispatcher_bell, 0, memory_order_relaxed);
	m->a_comes = m->dispatcher_comes = 0;
	model_futex_init(&m->futex);
	model_futex_init(&m->bell_futex);
	model_futex_init(&m->dispatcher_futex);
	model_futex_init(&m->dispatcher_bell_futex);
}

/* One that sleeps leaves without a wake. */
static void leave(struct model_futex *futex, uint32_t thread)
{
	model_lock(&futex->lock);
	futex->sleeping &= ~(1u << thread);
	model_unlock(&futex->lock);
}

/* The threads that were woken. */
static uint32_t woken(struct model_futex *futex)
{
	uint32_t threads;

	model_lock(&futex->lock);
	threads = futex->woken;
	model_unlock(&futex->lock);
	return threads;
}

/* FUTEX_REQUEUE of all to a word of the thief, which then waits here itself. */
static void steal(struct model_futex *futex)
{
	model_lock(&futex->lock);
	futex->sleeping = 1u << THIEF;
	model_unlock(&futex->lock);
}

/* futex_waitv(2): one word after the other, as the kernel does. Returns false if one had changed:
 * the thread checks again. */
static int wait_two(struct model_futex *bell_futex, _Atomic uint32_t *bell, uint32_t heard,
		    struct model_futex *futex, _Atomic uint32_t *word, uint32_t value,
		    uint32_t thread)
{
	if (!model_wait(bell_futex, bell, heard, thread))
		return 0;
	if (model_wait(futex, word, value, thread))
		return 1;
	leave(bell_futex, thread);
	return 0;
}

/* The thread was woken: it has changed its word. */
static int is_woken(struct model_futex *futex, struct model_futex *bell_futex, uint32_t thread)
{
	return (woken(futex) | woken(bell_futex)) >> thread & 1;
}

/* The manager, when it reads the client's message. */
static void ring(struct model *m)
{
	wake_published();
#ifndef MUTANT_SILENT
	(void)atomic_fetch_add_explicit(&m->dispatcher_bell, 1, memory_order_relaxed);
#endif
	(void)model_wake(&m->dispatcher_bell_futex);
}

/* A client wakes the thread that sleeps on a word of the board with this value. */
static void wake(struct model *m, _Atomic uint32_t *word, uint32_t value, struct model_futex *futex,
		 struct model_futex *bell_futex, uint32_t thread)
{
	int woke = 0;

	for (uint32_t tries = 0; tries < 2 && !woke; tries++) {
		if (wake_load(word) != value)
			return;
		woke = model_wake(futex);
#ifdef MUTANT_WAKE
		return;
#endif
	}
#ifndef MUTANT_RING
	if (!woke)
		ring(m);
#endif
#ifndef MUTANT_DOUBT
	/* Some time later. */
	if (woke && wake_load(word) == value && !is_woken(futex, bell_futex, thread))
		ring(m);
#endif
	(void)m;
	(void)bell_futex;
	(void)thread;
}

/* What a publisher does after its fence. */
static void tell(struct model *m)
{
	uint32_t a = wake_load(&m->a);
	uint32_t b = wake_load(&m->b);
	uint32_t dispatcher;

	if (wake_state(a) == WAKE_SLEEPING) {
		wake(m, &m->a, a, &m->futex, &m->bell_futex, A);
		return;
	}
	if (wake_state(a) == WAKE_LOOKING || wake_state(b) == WAKE_LOOKING)
		return;
	dispatcher = wake_load(&m->dispatcher);
	if (wake_state(dispatcher) == WAKE_SLEEPING)
		wake(m, &m->dispatcher, dispatcher, &m->dispatcher_futex, &m->dispatcher_bell_futex,
		     DISPATCHER);
}

/* pool_wake_word(). */
static void rouse(struct model_futex *futex, _Atomic uint32_t *word, uint32_t value,
		  struct model_futex *bell_futex, _Atomic uint32_t *bell)
{
	uint32_t looking = (value & ~WAKE_STATE) | WAKE_LOOKING;

	if (!atomic_compare_exchange_strong_explicit(word, &value, looking, memory_order_relaxed,
						     memory_order_relaxed))
		return;
#ifdef MUTANT_BELL
	(void)model_wake(futex);
#else
	(void)futex;
	(void)atomic_fetch_add_explicit(bell, 1, memory_order_relaxed);
	(void)model_wake(bell_futex);
#endif
	(void)bell;
	(void)bell_futex;
}

/* The same in the pool: the duty is passed on. */
static inline void pass(struct model *m)
{
	uint32_t a = wake_load(&m->a);
	uint32_t dispatcher = wake_load(&m->dispatcher);

	if (wake_state(a) == WAKE_SLEEPING)
		rouse(&m->futex, &m->a, a, &m->bell_futex, &m->bell);
	else if (wake_state(a) != WAKE_LOOKING && wake_rests(dispatcher))
		rouse(&m->dispatcher_futex, &m->dispatcher, dispatcher, &m->dispatcher_bell_futex,
		      &m->dispatcher_bell);
}

/* Another client, which does not follow the protocol. */
static void thief(struct model *m)
{
	steal(&m->futex);
	steal(&m->dispatcher_futex);
}

static int waits(struct model *m)
{
	return atomic_load_explicit(&m->job, memory_order_relaxed) == PUBLISHED;
}

static int take(struct model *m)
{
	uint32_t job = atomic_load_explicit(&m->job, memory_order_relaxed);

	if (job != PUBLISHED)
		return 0;
	return atomic_compare_exchange_strong_explicit(&m->job, &job, TAKEN, memory_order_relaxed,
						       memory_order_relaxed);
}

static void client(struct model *m)
{
	atomic_store_explicit(&m->job, PUBLISHED, memory_order_relaxed);
	wake_published();
	tell(m);
}

static void worker_a(struct model *m)
{
	uint32_t heard, sleeping;

	if (take(m)) {
		wake_busy(&m->a);
		return;
	}
#ifdef MUTANT_LOOK
	model_stumble();
#endif
	/* Relaxed: bell_heard(). */
	heard = atomic_load_explicit(&m->bell, memory_order_relaxed);
	sleeping = wake_prepare(&m->a);
#ifndef MUTANT_LOOK
	if (take(m)) {
		wake_busy(&m->a);
		return;
	}
#endif
#ifdef MUTANT_WAKE
	model_stumble();
#endif
	m->a_comes = !wait_two(&m->bell_futex, &m->bell, heard, &m->futex, &m->a, sleeping, A);
}

static void worker_b(struct model *m)
{
	wake_busy(&m->b);
#ifndef MUTANT_DUTY
	if (waits(m))
		pass(m);
#endif
}

/* The check after an alarm, which sets no further alarm. */
static void alarm_rings(struct model *m)
{
	uint32_t dispatcher;

	(void)take(m);
	atomic_store_explicit(&m->slice_timer, 0, memory_order_relaxed);
	wake_alarm_over();
	dispatcher = wake_load(&m->dispatcher);
#ifdef MUTANT_OVER
	return;
#endif
	if (wake_state(dispatcher) == WAKE_DOZING)
		rouse(&m->dispatcher_futex, &m->dispatcher, dispatcher, &m->dispatcher_bell_futex,
		      &m->dispatcher_bell);
}

static inline int alarm_is_set(struct model *m)
{
	return atomic_load_explicit(&m->slice_timer, memory_order_relaxed) != 0;
}

/* It takes no job: if it sees one, it handles that, and checks again without a wake. */
static void dispatcher(struct model *m)
{
	/* Relaxed: bell_heard(). */
	uint32_t heard = atomic_load_explicit(&m->dispatcher_bell, memory_order_relaxed);
	uint32_t value = wake_load(&m->dispatcher);

	m->dispatcher_comes = waits(m);
#ifndef MUTANT_TICK
	if (!m->dispatcher_comes) {
		int dozes = alarm_is_set(m);

#ifdef MUTANT_DOZE
		model_stumble();
#endif
		value = dozes ? wake_dozing(&m->dispatcher) : wake_prepare(&m->dispatcher);
		m->dispatcher_comes = waits(m);
#ifndef MUTANT_DOZE
		m->dispatcher_comes |= dozes && !alarm_is_set(m);
#endif
	}
#endif
	if (m->dispatcher_comes) {
		wake_store(&m->dispatcher, WAKE_LOOKING);
		return;
	}
#ifdef MUTANT_HEARD
	model_stumble();
	heard = atomic_load_explicit(&m->dispatcher_bell, memory_order_relaxed);
#endif
	m->dispatcher_comes = !wait_two(&m->dispatcher_bell_futex, &m->dispatcher_bell, heard,
					&m->dispatcher_futex, &m->dispatcher, value, DISPATCHER);
}

static void model_thread(struct model *m, uint32_t thread)
{
	if (thread == CLIENT)
		client(m);
	if (thread == A && m->a_runs)
		worker_a(m);
	if (thread == A && m->a_rings)
		alarm_rings(m);
	if (thread == B && m->b_runs)
		worker_b(m);
	if (thread == DISPATCHER)
		dispatcher(m);
	if (thread == THIEF && m->thief_runs)
		thief(m);
}

static void model_check(struct model *m)
{
	model_assert(atomic_load_explicit(&m->job, memory_order_relaxed) == TAKEN ||
			     is_woken(&m->futex, &m->bell_futex, A) ||
			     is_woken(&m->dispatcher_futex, &m->dispatcher_bell_futex,
				      DISPATCHER) ||
			     m->a_comes || m->dispatcher_comes,
		     "a published job is taken, or a thread was told");
}

#include "tests/model/run.h"
