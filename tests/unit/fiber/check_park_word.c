/* SPDX-License-Identifier: MIT */
/* fiber_park: the word step by step, and with threads that act as fibers. tests/model/fiber.c has
 * the interleavings. */
#include "daemon/fiber/park_word.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>

#include "tests/support/check_unit.h"

static struct fiber_park park;

static void make(void)
{
	fiber_park_init(&park);
}

START_TEST(new_fiber_is_runnable_and_cannot_be_woken)
{
	make();
	ck_assert(fiber_park_is_out(&park));
	ck_assert(!fiber_park_cancelled(&park));
	ck_assert_int_eq(fiber_park_wake(&park, 0, FIBER_COUNTER), FIBER_LOST);
	ck_assert(!fiber_park_claim(&park, 0, FIBER_IO));
	ck_assert(fiber_park_is_out(&park));
}
END_TEST

START_TEST(fiber_woken_before_it_left_is_made_runnable_by_the_loop)
{
	uint64_t generation;

	make();
	generation = fiber_park_begin(&park, false);
	ck_assert(!fiber_park_is_out(&park));
	ck_assert_int_eq(fiber_park_wake(&park, generation, FIBER_DEADLINE), FIBER_WON);
	ck_assert(!fiber_park_is_out(&park));
	ck_assert(fiber_park_left(&park));
	ck_assert(fiber_park_is_out(&park));
	ck_assert_int_eq(fiber_park_reason(&park), FIBER_DEADLINE);
}
END_TEST

START_TEST(parked_fiber_is_made_runnable_by_its_waker)
{
	uint64_t generation;

	make();
	generation = fiber_park_begin(&park, false);
	ck_assert(!fiber_park_left(&park));
	ck_assert_int_eq(fiber_park_wake(&park, generation, FIBER_COUNTER), FIBER_RUN);
	ck_assert(fiber_park_is_out(&park));
	ck_assert_int_eq(fiber_park_reason(&park), FIBER_COUNTER);
}
END_TEST

START_TEST(claimed_fiber_is_not_runnable_before_delivery)
{
	uint64_t generation;

	make();
	for (uint32_t leaves_between = 0; leaves_between < 2; leaves_between++) {
		generation = fiber_park_begin(&park, false);
		if (!leaves_between)
			ck_assert(!fiber_park_left(&park));
		ck_assert(fiber_park_claim(&park, generation, FIBER_IO));
		if (leaves_between)
			ck_assert(!fiber_park_left(&park));
		ck_assert(!fiber_park_is_out(&park));
		ck_assert(fiber_park_deliver(&park));
		ck_assert(fiber_park_is_out(&park));
		ck_assert_int_eq(fiber_park_reason(&park), FIBER_IO);
	}
	/* If the claim is delivered first, the loop makes the fiber runnable. */
	generation = fiber_park_begin(&park, false);
	ck_assert(fiber_park_claim(&park, generation, FIBER_IO));
	ck_assert(!fiber_park_deliver(&park));
	ck_assert(fiber_park_left(&park));
}
END_TEST

START_TEST(first_of_many_wakers_wins_and_the_others_lose)
{
	for (int first = FIBER_COUNTER; first <= FIBER_CANCEL; first++) {
		uint64_t generation;

		make();
		generation = fiber_park_begin(&park, false);
		ck_assert(!fiber_park_left(&park));
		if (first == FIBER_CANCEL)
			ck_assert_int_eq(fiber_park_cancel(&park), FIBER_RUN);
		else
			ck_assert_int_eq(fiber_park_wake(&park, generation,
							 (enum fiber_reason)first),
					 FIBER_RUN);
		for (int i = FIBER_COUNTER; i <= FIBER_IO; i++)
			ck_assert_int_eq(fiber_park_wake(&park, generation, (enum fiber_reason)i),
					 FIBER_LOST);
		ck_assert(!fiber_park_claim(&park, generation, FIBER_IO));
		ck_assert_int_eq(fiber_park_cancel(&park), FIBER_LOST);
		ck_assert_int_eq(fiber_park_reason(&park), first);
	}
}
END_TEST

START_TEST(late_waker_of_an_earlier_park_loses)
{
	uint64_t last = 0;

	make();
	for (uint32_t i = 0; i < 1000; i++) {
		uint64_t generation = fiber_park_begin(&park, i % 2);

		ck_assert_uint_gt(generation, last);
		ck_assert_int_eq(fiber_park_wake(&park, last, FIBER_DEADLINE), FIBER_LOST);
		ck_assert(!fiber_park_left(&park));
		ck_assert(!fiber_park_claim(&park, last, FIBER_IO));
		ck_assert_int_eq(fiber_park_wake(&park, generation, FIBER_COUNTER), FIBER_RUN);
		last = generation;
	}
}
END_TEST

START_TEST(fiber_that_stays_is_not_woken)
{
	uint64_t generation;

	make();
	generation = fiber_park_begin(&park, false);
	ck_assert(fiber_park_stay(&park));
	ck_assert(fiber_park_is_out(&park));
	ck_assert_int_eq(fiber_park_reason(&park), FIBER_STAYED);
	ck_assert_int_eq(fiber_park_wake(&park, generation, FIBER_DEADLINE), FIBER_LOST);
	/* The fiber was woken: it is out all the same, and knows the reason. */
	generation = fiber_park_begin(&park, false);
	ck_assert_int_eq(fiber_park_wake(&park, generation, FIBER_DEADLINE), FIBER_WON);
	ck_assert(fiber_park_stay(&park));
	ck_assert(fiber_park_is_out(&park));
	ck_assert_int_eq(fiber_park_reason(&park), FIBER_DEADLINE);
	/* A waker has claimed the fiber and still writes its result. */
	generation = fiber_park_begin(&park, false);
	ck_assert(fiber_park_claim(&park, generation, FIBER_IO));
	ck_assert(!fiber_park_stay(&park));
	ck_assert(!fiber_park_deliver(&park));
	ck_assert(fiber_park_left(&park));
}
END_TEST

START_TEST(cancelled_fiber_parks_only_if_held)
{
	uint64_t generation;

	make();
	ck_assert_int_eq(fiber_park_cancel(&park), FIBER_LOST);
	ck_assert(fiber_park_is_out(&park));
	ck_assert(fiber_park_cancelled(&park));
	ck_assert_uint_eq(fiber_park_begin(&park, false), 0);
	ck_assert(fiber_park_is_out(&park));
	generation = fiber_park_begin(&park, true);
	ck_assert_uint_ne(generation, 0);
	ck_assert(fiber_park_cancelled(&park));
	ck_assert(!fiber_park_left(&park));
	ck_assert_int_eq(fiber_park_cancel(&park), FIBER_LOST);
	ck_assert(!fiber_park_is_out(&park));
	ck_assert_int_eq(fiber_park_wake(&park, generation, FIBER_COUNTER), FIBER_RUN);
	ck_assert_int_eq(fiber_park_reason(&park), FIBER_COUNTER);
	ck_assert(fiber_park_cancelled(&park));
}
END_TEST

START_TEST(held_fiber_sees_a_cancel_at_its_next_park)
{
	uint64_t generation;

	make();
	generation = fiber_park_begin(&park, true);
	ck_assert_int_eq(fiber_park_cancel(&park), FIBER_LOST);
	ck_assert(!fiber_park_left(&park));
	ck_assert_int_eq(fiber_park_wake(&park, generation, FIBER_COUNTER), FIBER_RUN);
	ck_assert_uint_eq(fiber_park_begin(&park, false), 0);
}
END_TEST

/* ------------------------------------------------------------------------ threads */

#define FIBERS 3u
#define PARKS  3000u
#define CANCEL 2900u /* from here on they are cancelled, and wait held */

/* A thread is a fiber: its loop waits for the semaphore, which represents the queue. */
struct fiber {
	struct fiber_park park;
	_Atomic uint64_t armed; /* the generation for the wakers, also if it is outdated */
	sem_t runnable;
	uint64_t io; /* not atomic: the claiming waker writes it, the fiber reads it */
	uint64_t ended[FIBER_CANCEL + 1];
};

static struct fiber fibers[FIBERS];
static _Atomic uint32_t running;
static uint64_t won[FIBER_CANCEL + 1]; /* each entry by its own thread */

static void make_runnable(struct fiber *fiber)
{
	ck_assert(fiber_park_is_out(&fiber->park));
	ck_assert_int_eq(sem_post(&fiber->runnable), 0);
}

static void *fiber_main(void *arg)
{
	struct fiber *fiber = arg;
	bool held = false;

	for (uint32_t i = 0; i < PARKS; i++) {
		uint64_t generation = fiber_park_begin(&fiber->park, held);
		enum fiber_reason reason;

		if (!generation) {
			held = true;
			generation = fiber_park_begin(&fiber->park, held);
		}
		fiber->io = 0;
		/* Relaxed would suffice for the word; release publishes the data above. */
		atomic_store_explicit(&fiber->armed, generation, memory_order_release);
		if (fiber_park_left(&fiber->park))
			make_runnable(fiber);
		while (sem_wait(&fiber->runnable) && errno == EINTR)
			;
		ck_assert(fiber_park_is_out(&fiber->park));
		reason = fiber_park_reason(&fiber->park);
		ck_assert_uint_eq(fiber->io, reason == FIBER_IO ? generation : 0);
		ck_assert(reason != FIBER_CANCEL || !held);
		fiber->ended[reason]++;
	}
	atomic_fetch_sub_explicit(&running, 1, memory_order_relaxed);
	return NULL;
}

static bool some_run(void)
{
	sched_yield();
	return atomic_load_explicit(&running, memory_order_relaxed) != 0;
}

static void *timer_main(void *arg)
{
	(void)arg;
	while (some_run())
		for (uint32_t i = 0; i < FIBERS; i++) {
			uint64_t generation =
				atomic_load_explicit(&fibers[i].armed, memory_order_acquire);
			enum fiber_wake wake =
				fiber_park_wake(&fibers[i].park, generation, FIBER_DEADLINE);

			won[FIBER_DEADLINE] += wake != FIBER_LOST;
			if (wake == FIBER_RUN)
				make_runnable(&fibers[i]);
		}
	return NULL;
}

static void *poller_main(void *arg)
{
	(void)arg;
	while (some_run())
		for (uint32_t i = 0; i < FIBERS; i++) {
			uint64_t generation =
				atomic_load_explicit(&fibers[i].armed, memory_order_acquire);

			if (!fiber_park_claim(&fibers[i].park, generation, FIBER_IO))
				continue;
			won[FIBER_IO]++;
			fibers[i].io = generation;
			if (fiber_park_deliver(&fibers[i].park))
				make_runnable(&fibers[i]);
		}
	return NULL;
}

/* Cancels each fiber once, after it has parked this often. */
static void *canceller_main(void *arg)
{
	bool done[FIBERS] = { false };

	(void)arg;
	while (some_run())
		for (uint32_t i = 0; i < FIBERS; i++) {
			enum fiber_wake wake;

			if (done[i] ||
			    atomic_load_explicit(&fibers[i].armed, memory_order_acquire) < CANCEL)
				continue;
			done[i] = true;
			wake = fiber_park_cancel(&fibers[i].park);
			won[FIBER_CANCEL] += wake != FIBER_LOST;
			if (wake == FIBER_RUN)
				make_runnable(&fibers[i]);
		}
	return NULL;
}

START_TEST(each_park_ends_once_whichever_waker_is_first)
{
	void *(*const mains[])(void *) = { timer_main, poller_main, canceller_main };
	pthread_t threads[FIBERS], wakers[3];

	atomic_store_explicit(&running, FIBERS, memory_order_relaxed);
	for (uint32_t i = 0; i < FIBERS; i++) {
		fiber_park_init(&fibers[i].park);
		ck_assert_int_eq(sem_init(&fibers[i].runnable, 0, 0), 0);
	}
	for (uint32_t i = 0; i < FIBERS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, fiber_main, &fibers[i]), 0);
	for (uint32_t i = 0; i < 3; i++)
		ck_assert_int_eq(pthread_create(&wakers[i], NULL, mains[i], NULL), 0);
	for (uint32_t i = 0; i < FIBERS; i++)
		ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
	for (uint32_t i = 0; i < 3; i++)
		ck_assert_int_eq(pthread_join(wakers[i], NULL), 0);
	for (int reason = FIBER_STAYED; reason <= FIBER_CANCEL; reason++) {
		uint64_t ended = 0;

		for (uint32_t i = 0; i < FIBERS; i++)
			ended += fibers[i].ended[reason];
		ck_assert_uint_eq(ended, won[reason]);
	}
	ck_assert_uint_eq(won[FIBER_DEADLINE] + won[FIBER_IO] + won[FIBER_CANCEL],
			  (uint64_t)FIBERS * PARKS);
	for (uint32_t i = 0; i < FIBERS; i++) {
		int value;

		ck_assert_int_eq(sem_getvalue(&fibers[i].runnable, &value), 0);
		ck_assert_int_eq(value, 0);
		sem_destroy(&fibers[i].runnable);
	}
}
END_TEST

CHECK_MAIN("fiber_park")
