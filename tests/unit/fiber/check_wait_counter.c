/* SPDX-License-Identifier: MIT */
/* fiber_counter: counting, waiting and freeing step by step, errors, and with threads that act as
 * fibers. tests/model/fiber.c has the interleavings. */
#include "daemon/fiber/wait_counter.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <string.h>

#include "tests/support/check_unit.h"

/* ------------------------------------------------------------------------ step by step */

#define WAITERS 8u

static struct fiber_counter counter;
static struct fiber_park parks[WAITERS];
static struct fiber_counter_node nodes[WAITERS];

/* A counter, and fibers that are not parked. */
static struct fiber_counter_ref make(uint32_t value)
{
	memset(nodes, 0, sizeof(nodes));
	for (uint32_t i = 0; i < WAITERS; i++)
		fiber_park_init(&parks[i]);
	return fiber_counter_init(&counter, value);
}

/* Fiber i parks until the counter has reached this value. */
static void waits(struct fiber_counter_ref ref, uint32_t i, uint32_t value)
{
	uint64_t generation = fiber_park_begin(&parks[i], false);

	ck_assert_int_eq(fiber_counter_hook(ref, value, &nodes[i], &parks[i], generation),
			 FIBER_COUNTER_OK);
	ck_assert(!fiber_park_left(&parks[i]));
}

/* Returns the fibers that are runnable now, one bit each. Sets *ret_first to the first. */
static uint32_t runnable(struct fiber_counter_node *woken, uint32_t *ret_first)
{
	uint32_t bits = 0;

	for (struct fiber_park *park; (park = fiber_counter_next(&woken));) {
		uint32_t i = (uint32_t)(park - parks);

		if (!bits && ret_first)
			*ret_first = i;
		ck_assert(fiber_park_is_out(park));
		ck_assert_int_eq(fiber_park_reason(park), FIBER_COUNTER);
		ck_assert(!(bits >> i & 1));
		bits |= 1u << i;
	}
	return bits;
}

/* Counts down by n. Returns the fibers made runnable by it. */
static uint32_t down(struct fiber_counter_ref ref, uint32_t n)
{
	struct fiber_counter_node *woken;

	ck_assert_int_eq(fiber_counter_down(ref, n, &woken), FIBER_COUNTER_OK);
	return runnable(woken, NULL);
}

START_TEST(wait_for_a_value_already_reached_returns_at_once)
{
	struct fiber_counter_ref ref = make(2);
	uint64_t generation = fiber_park_begin(&parks[0], false);

	ck_assert_int_eq(fiber_counter_look(ref, 1), FIBER_COUNTER_OK);
	ck_assert_int_eq(fiber_counter_look(ref, 2), FIBER_COUNTER_REACHED);
	ck_assert_uint_eq(down(ref, 1), 0);
	ck_assert_int_eq(fiber_counter_hook(ref, 1, &nodes[0], &parks[0], generation),
			 FIBER_COUNTER_REACHED);
	ck_assert(fiber_park_stay(&parks[0]));
	ck_assert_uint_eq(down(ref, 1), 0);
	ck_assert_int_eq(fiber_counter_look(ref, 0), FIBER_COUNTER_REACHED);
	ck_assert_int_eq(fiber_counter_look(ref, UINT32_MAX), FIBER_COUNTER_REACHED);
}
END_TEST

START_TEST(each_fiber_is_woken_by_the_step_that_reaches_its_value)
{
	static const uint32_t values[WAITERS] = { 3, 0, 5, 3, 1, 0, 5, 2 };
	struct fiber_counter_ref ref = make(7);

	for (uint32_t i = 0; i < WAITERS; i++)
		waits(ref, i, values[i]);
	ck_assert_uint_eq(down(ref, 1), 0);
	ck_assert_uint_eq(down(ref, 1), 1u << 2 | 1u << 6);
	ck_assert_uint_eq(down(ref, 3), 1u << 0 | 1u << 3 | 1u << 7);
	ck_assert_uint_eq(down(ref, 1), 1u << 4);
	ck_assert_uint_eq(down(ref, 1), 1u << 1 | 1u << 5);
	for (uint32_t i = 0; i < WAITERS; i++)
		ck_assert_int_eq(nodes[i].outcome, FIBER_COUNTER_REACHED);
}
END_TEST

START_TEST(fibers_waiting_for_one_value_are_woken_in_order)
{
	struct fiber_counter_ref ref = make(1);
	struct fiber_counter_node *woken;
	uint32_t first = WAITERS;

	for (uint32_t i = 0; i < WAITERS; i++)
		waits(ref, (i + 3) % WAITERS, 0);
	ck_assert_int_eq(fiber_counter_down(ref, 1, &woken), FIBER_COUNTER_OK);
	ck_assert_uint_eq(runnable(woken, &first), (1u << WAITERS) - 1);
	ck_assert_uint_eq(first, 3);
}
END_TEST

START_TEST(fiber_about_to_leave_is_left_to_its_loop)
{
	struct fiber_counter_ref ref = make(1);
	uint64_t generation = fiber_park_begin(&parks[0], false);

	ck_assert_int_eq(fiber_counter_hook(ref, 0, &nodes[0], &parks[0], generation),
			 FIBER_COUNTER_OK);
	ck_assert_uint_eq(down(ref, 1), 0);
	ck_assert(fiber_park_left(&parks[0]));
	ck_assert_int_eq(fiber_park_reason(&parks[0]), FIBER_COUNTER);
}
END_TEST

START_TEST(no_fiber_is_runnable_before_the_counter_is_delivered)
{
	struct fiber_counter_ref ref = make(1);
	struct fiber_counter_node *woken;

	waits(ref, 0, 0);
	waits(ref, 1, 0);
	ck_assert_int_eq(fiber_counter_down(ref, 1, &woken), FIBER_COUNTER_OK);
	ck_assert(!fiber_park_is_out(&parks[0]) && !fiber_park_is_out(&parks[1]));
	/* The counter is not accessed any more. */
	memset(&counter, 0xff, sizeof(counter));
	ck_assert_uint_eq(runnable(woken, NULL), 3);
}
END_TEST

START_TEST(fiber_woken_otherwise_removes_its_node)
{
	static const uint32_t orders[3][3] = { { 0, 1, 2 }, { 1, 2, 0 }, { 2, 0, 1 } };

	for (uint32_t o = 0; o < 3; o++) {
		struct fiber_counter_ref ref = make(2);
		const uint32_t *leaves = orders[o];

		for (uint32_t i = 0; i < 3; i++)
			waits(ref, i, i == 1);
		for (uint32_t i = 0; i < 2; i++) {
			ck_assert_int_eq(fiber_park_cancel(&parks[leaves[i]]), FIBER_RUN);
			fiber_counter_unhook(&nodes[leaves[i]]);
			/* The node is gone. */
			memset(&nodes[leaves[i]], 0xff, sizeof(nodes[0]));
		}
		ck_assert_uint_eq(down(ref, 2), 1u << leaves[2]);
		ck_assert_ptr_null(counter.first);
	}
}
END_TEST

START_TEST(leaving_fiber_does_not_touch_fibers_woken_before)
{
	struct fiber_counter_ref ref = make(2);

	waits(ref, 0, 1);
	waits(ref, 1, 0);
	ck_assert_uint_eq(down(ref, 1), 1);
	memset(&nodes[0], 0xff, sizeof(nodes[0]));
	ck_assert_int_eq(fiber_park_cancel(&parks[1]), FIBER_RUN);
	fiber_counter_unhook(&nodes[1]);
	ck_assert_ptr_null(counter.first);
	ck_assert_uint_eq(down(ref, 1), 0);
}
END_TEST

START_TEST(node_of_a_lost_waiter_is_unhooked_as_well)
{
	struct fiber_counter_ref ref = make(1);

	waits(ref, 0, 0);
	waits(ref, 1, 0);
	ck_assert_int_eq(fiber_park_cancel(&parks[0]), FIBER_RUN);
	ck_assert_uint_eq(down(ref, 1), 2);
	/* The node does not access the counter any more. */
	memset(&counter, 0xff, sizeof(counter));
	fiber_counter_unhook(&nodes[0]);
	ck_assert_uint_eq(atomic_load(&nodes[0].hooked), 0);
	ck_assert_int_eq(fiber_park_reason(&parks[0]), FIBER_CANCEL);
}
END_TEST

START_TEST(second_wait_after_the_value_was_reached_returns_at_once)
{
	struct fiber_counter_ref ref = make(1);
	uint64_t generation;

	waits(ref, 0, 0);
	ck_assert_uint_eq(down(ref, 1), 1);
	generation = fiber_park_begin(&parks[0], false);
	ck_assert_int_eq(fiber_counter_hook(ref, 0, &nodes[0], &parks[0], generation),
			 FIBER_COUNTER_REACHED);
}
END_TEST

START_TEST(hooked_node_cannot_wait_for_another_counter)
{
	struct fiber_counter other;
	struct fiber_counter_ref ref = make(1), second = fiber_counter_init(&other, 1);

	waits(ref, 0, 0);
	ck_assert_int_eq(fiber_counter_hook(ref, 0, &nodes[0], &parks[0], 1), FIBER_COUNTER_TWICE);
	ck_assert_int_eq(fiber_counter_hook(second, 0, &nodes[0], &parks[0], 1),
			 FIBER_COUNTER_TWICE);
	ck_assert_ptr_null(other.first);
	ck_assert_uint_eq(down(ref, 1), 1);
}
END_TEST

START_TEST(use_of_a_freed_counter_is_an_error)
{
	struct fiber_counter_ref ref = make(3), next, zero = { &counter, 1 };
	struct fiber_counter_node *woken, *const none = &nodes[7];
	uint64_t generation = fiber_park_begin(&parks[0], false);

	ck_assert_int_eq(fiber_counter_fini(ref, &woken), FIBER_COUNTER_OK);
	ck_assert_ptr_null(woken);
	next = ref;
	for (uint32_t lives = 0; lives < 3; lives++) {
		woken = none;
		ck_assert_int_eq(fiber_counter_fini(ref, &woken), FIBER_COUNTER_STALE);
		ck_assert_int_eq(fiber_counter_down(ref, 1, &woken), FIBER_COUNTER_STALE);
		ck_assert_int_eq(fiber_counter_up(ref, 1), FIBER_COUNTER_STALE);
		ck_assert_int_eq(fiber_counter_look(ref, 0), FIBER_COUNTER_STALE);
		ck_assert_int_eq(fiber_counter_hook(ref, 0, &nodes[0], &parks[0], generation),
				 FIBER_COUNTER_STALE);
		ck_assert_ptr_eq(woken, none);
		/* The reference is valid for this life of the counter, not for the next. */
		next = fiber_counter_renew(&counter, 1);
		ck_assert_uint_ne(next.generation, ref.generation);
		ck_assert_int_eq(fiber_counter_look(ref, 9), FIBER_COUNTER_STALE);
		ck_assert_uint_eq(down(next, 1), 0);
		ck_assert_int_eq(fiber_counter_fini(next, &woken), FIBER_COUNTER_OK);
	}
	memset(&counter, 0, sizeof(counter));
	ck_assert_int_eq(fiber_counter_look(zero, 0), FIBER_COUNTER_STALE);
}
END_TEST

START_TEST(generations_wrap_and_skip_zero)
{
	struct fiber_counter_ref ref = make(0);
	struct fiber_counter_node *woken;

	for (uint32_t i = 0; i < 5000; i++) {
		ck_assert_uint_eq(ref.generation % 2, 1);
		ck_assert_uint_lt(ref.generation, 1u << 13);
		ck_assert_int_eq(fiber_counter_fini(ref, &woken), FIBER_COUNTER_OK);
		ref = fiber_counter_renew(&counter, 7);
		ck_assert_int_eq(fiber_counter_look(ref, 6), FIBER_COUNTER_OK);
		ck_assert_int_eq(fiber_counter_look(ref, 7), FIBER_COUNTER_REACHED);
	}
}
END_TEST

START_TEST(waiters_of_a_freed_counter_are_woken_with_an_error)
{
	struct fiber_counter_ref ref = make(3);
	struct fiber_counter_node *woken;

	waits(ref, 0, 2);
	waits(ref, 1, 0);
	waits(ref, 2, 0);
	ck_assert_int_eq(fiber_park_cancel(&parks[2]), FIBER_RUN);
	ck_assert_uint_eq(down(ref, 1), 1);
	ck_assert_int_eq(fiber_counter_fini(ref, &woken), FIBER_COUNTER_OK);
	ck_assert_uint_eq(runnable(woken, NULL), 2);
	ck_assert_int_eq(nodes[0].outcome, FIBER_COUNTER_REACHED);
	ck_assert_int_eq(nodes[1].outcome, FIBER_COUNTER_STALE);
	fiber_counter_unhook(&nodes[2]);
	ck_assert_uint_eq(atomic_load(&nodes[2].hooked), 0);
}
END_TEST

START_TEST(count_out_of_range_is_refused_and_changes_nothing)
{
	struct fiber_counter_ref ref = make(1);
	struct fiber_counter_node *woken = &nodes[7];

	ck_assert_int_eq(fiber_counter_down(ref, 2, &woken), FIBER_COUNTER_RANGE);
	ck_assert_ptr_eq(woken, &nodes[7]);
	ck_assert_int_eq(fiber_counter_up(ref, FIBER_COUNTER_MAX), FIBER_COUNTER_RANGE);
	ck_assert_int_eq(fiber_counter_up(ref, UINT32_MAX), FIBER_COUNTER_RANGE);
	ck_assert_int_eq(fiber_counter_down(ref, UINT32_MAX, &woken), FIBER_COUNTER_RANGE);
	ck_assert_int_eq(fiber_counter_up(ref, FIBER_COUNTER_MAX - 1), FIBER_COUNTER_OK);
	ck_assert_int_eq(fiber_counter_up(ref, 1), FIBER_COUNTER_RANGE);
	/* The highest value of a counter, and the highest to wait for. */
	waits(ref, 0, FIBER_COUNTER_MAX - 1);
	waits(ref, 1, 0);
	ck_assert_uint_eq(down(ref, 1), 1);
	ck_assert_uint_eq(down(ref, FIBER_COUNTER_MAX - 1), 2);
	ck_assert_int_eq(fiber_counter_down(ref, 1, &woken), FIBER_COUNTER_RANGE);
}
END_TEST

/* ------------------------------------------------------------------------ threads */

#define FIBERS	3u
#define WORKERS 2u
#define ROUNDS	1000u
#define MOST	4u /* children of a round */

/* A thread is a fiber: its loop waits for the semaphore, which represents the queue. */
struct fiber {
	struct fiber_park park; /* first: make_runnable() */
	_Atomic uint64_t armed; /* the generation for the timer, also if it is outdated */
	sem_t runnable;
};

/* The work of a child, on a worker. */
struct child {
	struct fiber_counter_ref ref;
	uint64_t *result;
};

static struct fiber fibers[FIBERS];
static _Atomic uint32_t running;

static pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t queue_filled = PTHREAD_COND_INITIALIZER;
static struct child queue[FIBERS * MOST];
static uint32_t queued;
static bool closed;

static void make_runnable(struct fiber_park *park)
{
	ck_assert(fiber_park_is_out(park));
	ck_assert_int_eq(sem_post(&((struct fiber *)park)->runnable), 0);
}

static void count_down(struct fiber_counter_ref ref)
{
	struct fiber_counter_node *woken;

	ck_assert_int_eq(fiber_counter_down(ref, 1, &woken), FIBER_COUNTER_OK);
	for (struct fiber_park *park; (park = fiber_counter_next(&woken));)
		make_runnable(park);
}

static void *worker_main(void *arg)
{
	(void)arg;
	for (;;) {
		struct child child;

		pthread_mutex_lock(&queue_lock);
		while (!queued && !closed)
			pthread_cond_wait(&queue_filled, &queue_lock);
		if (!queued) {
			pthread_mutex_unlock(&queue_lock);
			return NULL;
		}
		child = queue[--queued];
		pthread_mutex_unlock(&queue_lock);
		*child.result = 1;
		count_down(child.ref);
	}
}

/* Its deadlines expire at once, including those that are no longer wanted. */
static void *timer_main(void *arg)
{
	(void)arg;
	while (atomic_load_explicit(&running, memory_order_relaxed)) {
		sched_yield();
		for (uint32_t i = 0; i < FIBERS; i++) {
			uint64_t generation =
				atomic_load_explicit(&fibers[i].armed, memory_order_acquire);

			if (fiber_park_wake(&fibers[i].park, generation, FIBER_DEADLINE) ==
			    FIBER_RUN)
				make_runnable(&fibers[i].park);
		}
	}
	return NULL;
}

/* Its node is on this stack. Returns true if the counter has reached 0. */
static bool wait_for(struct fiber *fiber, struct fiber_counter_ref ref, bool deadline)
{
	struct fiber_counter_node node = { 0 };
	uint64_t generation = fiber_park_begin(&fiber->park, !deadline);
	enum fiber_counter_result result;

	if (deadline)
		atomic_store_explicit(&fiber->armed, generation, memory_order_release);
	result = fiber_counter_hook(ref, 0, &node, &fiber->park, generation);
	if (result == FIBER_COUNTER_OK || !fiber_park_stay(&fiber->park)) {
		if (fiber_park_left(&fiber->park))
			make_runnable(&fiber->park);
		while (sem_wait(&fiber->runnable) && errno == EINTR)
			;
	}
	ck_assert(fiber_park_is_out(&fiber->park));
	switch (fiber_park_reason(&fiber->park)) {
	case FIBER_COUNTER:
		ck_assert_int_eq(result, FIBER_COUNTER_OK);
		ck_assert_int_eq(node.outcome, FIBER_COUNTER_REACHED);
		return true;
	case FIBER_DEADLINE:
		ck_assert(deadline);
		if (result == FIBER_COUNTER_OK)
			fiber_counter_unhook(&node);
		return false;
	default:
		ck_assert_int_eq(result, FIBER_COUNTER_REACHED);
		return true;
	}
}

static void no_deadline(struct fiber *fiber)
{
	atomic_store_explicit(&fiber->armed, 0, memory_order_relaxed);
}

/* The counter and the results are on this stack and end with it. */
static void join_children(struct fiber *fiber, uint32_t round)
{
	uint64_t results[MOST] = { 0 };
	struct fiber_counter children;
	struct fiber_counter_ref ref = fiber_counter_init(&children, 0);
	uint32_t n = 1 + round % MOST;

	for (uint32_t i = 0; i < n; i++) {
		ck_assert_int_eq(fiber_counter_up(ref, 1), FIBER_COUNTER_OK);
		pthread_mutex_lock(&queue_lock);
		queue[queued++] = (struct child){ ref, &results[i] };
		pthread_cond_signal(&queue_filled);
		pthread_mutex_unlock(&queue_lock);
	}
	if (!wait_for(fiber, ref, round % 3 == 0)) {
		no_deadline(fiber);
		ck_assert(wait_for(fiber, ref, false));
	}
	for (uint32_t i = 0; i < n; i++)
		ck_assert_uint_eq(results[i], 1);
	memset(&children, 0xff, sizeof(children));
}

static void *joins(void *arg)
{
	for (uint32_t round = 0; round < ROUNDS; round++)
		join_children(arg, round);
	atomic_fetch_sub_explicit(&running, 1, memory_order_relaxed);
	return NULL;
}

/* Runs all fibers, with a timer and n workers. */
static void run(void *(*fiber_main)(void *), uint32_t n)
{
	pthread_t threads[FIBERS], workers[WORKERS], timer;

	atomic_store_explicit(&running, FIBERS, memory_order_relaxed);
	for (uint32_t i = 0; i < FIBERS; i++) {
		fiber_park_init(&fibers[i].park);
		ck_assert_int_eq(sem_init(&fibers[i].runnable, 0, 0), 0);
	}
	for (uint32_t i = 0; i < n; i++)
		ck_assert_int_eq(pthread_create(&workers[i], NULL, worker_main, NULL), 0);
	for (uint32_t i = 0; i < FIBERS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, fiber_main, &fibers[i]), 0);
	ck_assert_int_eq(pthread_create(&timer, NULL, timer_main, NULL), 0);
	for (uint32_t i = 0; i < FIBERS; i++)
		ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
	ck_assert_int_eq(pthread_join(timer, NULL), 0);
	pthread_mutex_lock(&queue_lock);
	closed = true;
	pthread_cond_broadcast(&queue_filled);
	pthread_mutex_unlock(&queue_lock);
	for (uint32_t i = 0; i < n; i++)
		ck_assert_int_eq(pthread_join(workers[i], NULL), 0);
	for (uint32_t i = 0; i < FIBERS; i++) {
		int value;

		ck_assert_int_eq(sem_getvalue(&fibers[i].runnable, &value), 0);
		ck_assert_int_eq(value, 0);
		sem_destroy(&fibers[i].runnable);
	}
}

START_TEST(fiber_joins_its_children_and_its_stack_is_released)
{
	run(joins, WORKERS);
	ck_assert_uint_eq(queued, 0);
}
END_TEST

static void *counts_down(void *arg)
{
	count_down(*(struct fiber_counter_ref *)arg);
	return NULL;
}

START_TEST(nothing_is_counted_while_the_lock_is_held)
{
	for (uint32_t i = 0; i < 20; i++) {
		struct fiber_counter_ref ref = make(2);
		uint64_t word = fiber_counter_settled(&counter, ref.generation);
		pthread_t thread;

		while (!fiber_counter_try(&counter, word))
			;
		ck_assert_int_eq(pthread_create(&thread, NULL, counts_down, &ref), 0);
		for (uint32_t yields = 0; yields < 100; yields++)
			sched_yield();
		word = atomic_load_explicit(&counter.word, memory_order_relaxed);
		ck_assert_uint_eq(fiber_counter_value(word), 2);
		fiber_counter_unlock(&counter, ref.generation, 2);
		ck_assert_int_eq(pthread_join(thread, NULL), 0);
		ck_assert_int_eq(fiber_counter_look(ref, 1), FIBER_COUNTER_REACHED);
		ck_assert_int_eq(fiber_counter_look(ref, 0), FIBER_COUNTER_OK);
	}
}
END_TEST

/* Each round has its own counter, in memory that stays valid: fibers leave by deadlines. */
static struct fiber_counter gates[ROUNDS];
static struct fiber_counter_ref gate_refs[ROUNDS];
static uint64_t passed[FIBERS][ROUNDS]; /* not atomic: the counter orders them */

static void *meets(void *arg)
{
	struct fiber *fiber = arg;
	uint32_t self = (uint32_t)(fiber - fibers);

	for (uint32_t round = 0; round < ROUNDS; round++) {
		passed[self][round] = round + 1;
		count_down(gate_refs[round]);
		if (!wait_for(fiber, gate_refs[round], (round + self) % 2)) {
			no_deadline(fiber);
			ck_assert(wait_for(fiber, gate_refs[round], false));
		}
		for (uint32_t i = 0; i < FIBERS; i++)
			ck_assert_uint_eq(passed[i][round], round + 1);
	}
	atomic_fetch_sub_explicit(&running, 1, memory_order_relaxed);
	return NULL;
}

START_TEST(fibers_meet_at_a_counter_and_all_pass)
{
	for (uint32_t i = 0; i < ROUNDS; i++)
		gate_refs[i] = fiber_counter_init(&gates[i], FIBERS);
	run(meets, 0);
	for (uint32_t i = 0; i < ROUNDS; i++) {
		ck_assert_ptr_null(gates[i].first);
		ck_assert_int_eq(fiber_counter_look(gate_refs[i], 0), FIBER_COUNTER_REACHED);
	}
}
END_TEST

CHECK_MAIN("fiber_counter")
