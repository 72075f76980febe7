/* SPDX-License-Identifier: MIT */
/*
 * explore.c - runs a model under a weak memory model, at random and reproducibly
 *
 * A model (tests/model/model.h) is compiled with -fsanitize=thread and linked with this file
 * instead of the compiler's runtime. The compiler then calls the functions __tsan_*() below for
 * each access to memory. The threads of the model are coroutines on one thread of the system. A
 * random generator, seeded with the number of the instance, decides after each access which
 * coroutine runs next. It also decides which value each atomic load returns. So a run does not
 * depend on the machine.
 *
 * THE MEMORY
 *   Each atomic location has a history of its writes, in modification order. A view is a position
 *   in each history and a clock for each thread. A thread has three views: what it has seen, what
 *   an acquire fence would add, and what a release fence has released. A write carries the view
 *   that it releases.
 *   A load may return any write that is not before the thread's view. A store goes after all writes
 *   that the thread has seen, not always to the end. A read-modify-write directly follows the write
 *   that it reads. All sequentially consistent fences join one shared view; sequentially consistent
 *   accesses do so for their own location.
 *   This is RC11 as an abstract machine, with the release sequences of C20. The machine executes a
 *   thread's accesses in program order: a load never sees a write that depends on it. IMM and some
 *   CPUs allow such loads (load buffering), which this program cannot find.
 *   Plain accesses read and write the memory itself. Two conflicting ones that no clock orders are
 *   a data race, which is reported as a violation.
 *   Only accesses to the model's own object count. The stacks are private.
 *
 * HOW IT IS CALLED
 *   PROGRAM [INSTANCES [FIRST]] runs instances from number FIRST on. It stops at the first that
 *   fails, with a line that names it. PROGRAM 1 NUMBER print runs that one and prints each step.
 */
#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include "common/util.h"
#include "tests/model/explore.h"

#define THREADS	  8u
#define LOCATIONS 64u
#define WRITES	  4096u
#define OBJECT	  (64u << 10)
#define STACK	  (64u << 10)
#define STEPS	  100000u /* of one instance; a thread with more steps waits endlessly */
#define TIRED	  2000u	  /* after TIRED steps loads return the newest value, so that waits end */
#define GAP	  (UINT32_C(1) << 19)

/* clocks of threads, then positions in histories */
struct view {
	uint32_t at[THREADS + LOCATIONS];
};

struct write {
	struct write *prev, *next; /* in modification order */
	uint32_t at;
	bool glued; /* a read-modify-write: no write may be inserted before it */
	uint64_t value;
	struct view view;
};

struct location {
	struct write *last;
	size_t offset;
	uint32_t size;
	bool plain; /* the last write was plain: its value is in the memory */
};

struct thread {
	struct view seen, acquired, released;
	jmp_buf context;
	bool ended;
};

/* For a byte: the clocks of the last accesses of each thread. */
struct shadow {
	uint64_t instance; /* 1 + the instance of the clocks */
	uint32_t plain_write[THREADS], plain_read[THREADS], write[THREADS], read[THREADS];
};

static struct location locations[LOCATIONS];
static uint32_t n_locations;
static uint8_t location_of[OBJECT]; /* 1 + its number */
static struct shadow shadows[OBJECT];
static struct write writes[WRITES];
static uint32_t n_writes;
static struct view consistent; /* view shared by sequentially consistent fences */
static struct thread threads[THREADS];
static _Alignas(64) char stacks[THREADS][STACK];
static uint32_t current; /* the running thread; explore_threads: init and check */
static jmp_buf ended;
static uint64_t instance;
static uint64_t state; /* of the generator */
static uint32_t steps;
static uint32_t pace, staleness; /* of 256 */
static bool explores;
static bool prints; /* each step */

static void violated(const char *text)
{
	printf("model: violated: %s (instance %llu)\n", text, (unsigned long long)instance);
	fflush(stdout);
	_Exit(1);
}

void explore_violated(const char *text)
{
	violated(text);
}

uint32_t explore_choose(uint32_t n)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (uint32_t)((state * UINT64_C(0x2545f4914f6cdd1d)) >> 33) % n;
}

uint32_t explore_current(void)
{
	return current;
}

/* ------------------------------------------------------------------------------- coroutines */

static void switch_to(uint32_t thread)
{
	if (_setjmp(threads[current].context))
		return;
	current = thread;
	_longjmp(threads[thread].context, 1);
}

/* Returns another thread that has not ended, or this one. */
static uint32_t another(void)
{
	uint32_t n = 0, picked = current;

	for (uint32_t i = 0; i < explore_threads; i++)
		if (!threads[i].ended && explore_choose(++n) == 0)
			picked = i;
	return picked;
}

void explore_yield(void)
{
	uint32_t next;

	if (current == explore_threads)
		return;
	next = another();
	if (next != current)
		switch_to(next);
}

static void step(void)
{
	if (++steps > STEPS)
		violated("a thread waits without end");
	if (explore_choose(256) < pace || steps > TIRED)
		explore_yield();
}

/* The running thread has ended, or not begun: switches to another one, or back to
 * run_instance(). */
static _Noreturn void leave(void)
{
	uint32_t next = another();

	if (threads[next].ended)
		_longjmp(ended, 1);
	current = next;
	_longjmp(threads[next].context, 1);
}

/* A coroutine: each turn of its loop is one instance. */
static void run_thread(void)
{
	for (;;) {
		if (!_setjmp(threads[current].context))
			leave();
		explore_thread(current);
		threads[current].ended = true;
	}
}

/* --------------------------------------------------------------------------------- the memory */

static void join(struct view *view, const struct view *other)
{
	for (uint32_t i = 0; i < THREADS + n_locations; i++)
		if (view->at[i] < other->at[i])
			view->at[i] = other->at[i];
}

/* Joins only positions: a sequentially consistent fence orders no plain accesses. */
static void join_positions(struct view *view, const struct view *other)
{
	for (uint32_t i = THREADS; i < THREADS + n_locations; i++)
		if (view->at[i] < other->at[i])
			view->at[i] = other->at[i];
}

static bool acquires(int order)
{
	return order != __ATOMIC_RELAXED && order != __ATOMIC_RELEASE;
}

static bool releases(int order)
{
	return order >= __ATOMIC_RELEASE;
}

static uint64_t memory_load(const volatile void *at, uint32_t size)
{
	switch (size) {
	case 1:
		return *(const volatile uint8_t *)at;
	case 2:
		return *(const volatile uint16_t *)at;
	case 4:
		return *(const volatile uint32_t *)at;
	default:
		return *(const volatile uint64_t *)at;
	}
}

static void memory_store(volatile void *at, uint32_t size, uint64_t value)
{
	switch (size) {
	case 1:
		*(volatile uint8_t *)at = (uint8_t)value;
		break;
	case 2:
		*(volatile uint16_t *)at = (uint16_t)value;
		break;
	case 4:
		*(volatile uint32_t *)at = (uint32_t)value;
		break;
	default:
		*(volatile uint64_t *)at = value;
	}
}

/* Returns the offset in the object; at least its size for other memory. */
static size_t offset_of(const volatile void *at)
{
	return (size_t)((uintptr_t)at - (uintptr_t)explore_object);
}

static bool counts(const volatile void *at)
{
	return explores && offset_of(at) < explore_size;
}

static struct write *insert(struct location *location, struct write *after, uint64_t value)
{
	struct write *write = &writes[n_writes++];

	if (n_writes == WRITES)
		violated("too many writes for one instance");
	memset(&write->view, 0, sizeof(write->view));
	write->value = value;
	write->glued = false;
	write->prev = after;
	write->next = after ? after->next : NULL;
	if (write->next) {
		write->at = after->at + (write->next->at - after->at) / 2;
		write->next->prev = write;
	} else {
		write->at = after ? after->at + GAP : 0;
		location->last = write;
	}
	if (after)
		after->next = write;
	return write;
}

static void print(const char *what, const volatile void *at, uint64_t value, int order)
{
	if (prints)
		printf("thread %u: %s of %zu: %#llx, order %d\n", current, what, offset_of(at),
		       (unsigned long long)value, order);
}

static uint32_t place_of(const struct location *location)
{
	return THREADS + (uint32_t)(location - locations);
}

static struct location *locate(const volatile void *at, uint32_t size)
{
	size_t offset = offset_of(at);
	struct location *location;

	if (location_of[offset]) {
		location = &locations[location_of[offset] - 1];
		if (location->offset != offset || location->size != size)
			violated("an atomic is accessed with two sizes");
		if (location->plain) {
			location->last->value = memory_load(at, size);
			location->plain = false;
		}
		return location;
	}
	if (n_locations == LOCATIONS)
		violated("too many locations");
	location = &locations[n_locations++];
	*location = (struct location){ .offset = offset, .size = size };
	for (uint32_t i = 0; i < size; i++) {
		/* A plain access to a part of it would be lost: touch() checks the first byte. */
		if (location_of[offset + i] ||
		    (shadows[offset + i].instance == instance + 1 &&
		     memcmp(&shadows[offset + i], &shadows[offset], sizeof(shadows[0]))))
			violated("an atomic is accessed with two sizes");
		location_of[offset + i] = (uint8_t)n_locations;
	}
	(void)insert(location, NULL, memory_load(at, size));
	return location;
}

/* Returns true if one of these accesses does not happen before this thread's next one. Its own
 * accesses do; missing threads have none. */
static bool races(const uint32_t *clocks)
{
	const uint32_t *seen = threads[current].seen.at;
	uint32_t n = 0;

	for (uint32_t i = 0; i < THREADS; i++)
		n |= clocks[i] > seen[i];
	return n;
}

/* The bytes of an atomic are accessed together: the first one has the clocks of all. */
static void touch(const volatile void *at, uint32_t size, bool atomic, bool writing)
{
	size_t offset = offset_of(at), end = min(offset + size, explore_size);

	for (size_t i = offset, next; i < end; i = next) {
		const struct location *location =
			location_of[i] ? &locations[location_of[i] - 1] : NULL;
		struct shadow *shadow = &shadows[location ? location->offset : i];
		uint32_t now = threads[current].seen.at[current];

		next = location ? location->offset + location->size : i + 1;
		if (shadow->instance != instance + 1) {
			memset(shadow, 0, sizeof(*shadow));
			shadow->instance = instance + 1;
		}
		if (races(shadow->plain_write) || (writing && races(shadow->plain_read)) ||
		    (!atomic && (races(shadow->write) || (writing && races(shadow->read)))))
			violated("a data race");
		if (atomic)
			(writing ? shadow->write : shadow->read)[current] = now;
		else
			(writing ? shadow->plain_write : shadow->plain_read)[current] = now;
	}
}

static void plain(const volatile void *at, size_t size, bool writing)
{
	struct location *location;

	if (!counts(at))
		return;
	touch(at, (uint32_t)size, false, writing);
	for (size_t i = 0; writing && i < size && i + offset_of(at) < explore_size; i++) {
		if (!location_of[offset_of(at) + i])
			continue;
		location = &locations[location_of[offset_of(at) + i] - 1];
		if (!location->plain)
			(void)insert(location, location->last, 0);
		location->plain = true;
		threads[current].seen.at[place_of(location)] = location->last->at;
	}
}

static struct write *pick(struct location *location, int order)
{
	uint32_t place = place_of(location);
	uint32_t from = threads[current].seen.at[place];
	struct write *write = location->last;

	if (order == __ATOMIC_SEQ_CST && from < consistent.at[place])
		from = consistent.at[place];
	while (write->prev && write->prev->at >= from && steps < TIRED &&
	       explore_choose(256) < staleness)
		write = write->prev;
	return write;
}

static uint64_t observe(struct location *location, struct write *write, int order)
{
	struct thread *thread = &threads[current];
	uint32_t place = place_of(location);

	if (thread->seen.at[place] < write->at)
		thread->seen.at[place] = write->at;
	join(&thread->acquired, &write->view);
	if (acquires(order))
		join(&thread->seen, &write->view);
	return write->value;
}

/* Sets the view that a write, which this thread has just inserted, carries. */
static void publish(struct location *location, struct write *write, int order)
{
	struct thread *thread = &threads[current];
	uint32_t place = place_of(location);

	thread->seen.at[place] = write->at;
	join(&write->view, releases(order) ? &thread->seen : &thread->released);
	write->view.at[place] = write->at;
	if (releases(order))
		thread->seen.at[current]++;
	if (order == __ATOMIC_SEQ_CST && consistent.at[place] < write->at)
		consistent.at[place] = write->at;
}

static uint64_t atomic_read(const volatile void *at, uint32_t size, int order)
{
	struct location *location;
	uint64_t value;

	if (!counts(at))
		return memory_load(at, size);
	step();
	touch(at, size, true, false);
	location = locate(at, size);
	value = observe(location, pick(location, order), order);
	print("load", at, value, order);
	return value;
}

static void atomic_write(volatile void *at, uint32_t size, uint64_t value, int order)
{
	struct location *location;
	struct write *after;
	uint32_t from;

	if (!counts(at)) {
		memory_store(at, size, value);
		return;
	}
	step();
	touch(at, size, true, true);
	location = locate(at, size);
	from = threads[current].seen.at[place_of(location)];
	if (order == __ATOMIC_SEQ_CST && from < consistent.at[place_of(location)])
		from = consistent.at[place_of(location)];
	after = location->last;
	while (after->prev && after->prev->at >= from && !after->glued &&
	       after->at - after->prev->at > 1 && explore_choose(1024) < staleness)
		after = after->prev;
	if (after == location->last)
		memory_store(at, size, value);
	publish(location, insert(location, after, value), order);
	print(after->next == location->last ? "store" : "earlier store", at, value, order);
}

static bool may_follow(const struct write *write)
{
	return !write->next || (!write->next->glued && write->next->at - write->at > 1);
}

static void follow(volatile void *at, struct location *location, struct write *write,
		   uint64_t value, int order)
{
	struct write *new = insert(location, write, value);

	new->glued = true;
	join(&new->view, &write->view);
	if (new == location->last)
		memory_store(at, location->size, value);
	publish(location, new, order);
	print("update", at, value, order);
}

enum operation { EXCHANGE, ADD, SUB, AND, OR, XOR };

static uint64_t apply(enum operation operation, uint64_t old, uint64_t operand)
{
	switch (operation) {
	case ADD:
		return old + operand;
	case SUB:
		return old - operand;
	case AND:
		return old & operand;
	case OR:
		return old | operand;
	case XOR:
		return old ^ operand;
	default:
		return operand;
	}
}

static uint64_t truncate_to(uint64_t value, uint32_t size)
{
	return size < 8 ? value & ((UINT64_C(1) << 8 * size) - 1) : value;
}

static uint64_t atomic_update(volatile void *at, uint32_t size, enum operation operation,
			      uint64_t operand, int order)
{
	struct location *location;
	struct write *write;
	uint64_t old;

	if (!counts(at)) {
		old = memory_load(at, size);
		memory_store(at, size, apply(operation, old, operand));
		return old;
	}
	step();
	touch(at, size, true, true);
	location = locate(at, size);
	write = pick(location, order);
	if (!may_follow(write))
		write = location->last;
	old = observe(location, write, order);
	follow(at, location, write, truncate_to(apply(operation, old, operand), size), order);
	return old;
}

static bool atomic_compare(volatile void *at, uint32_t size, uint64_t *expected, uint64_t value,
			   int order, int failed, bool weak)
{
	uint64_t wanted = *expected;
	struct location *location;
	struct write *write;

	if (!counts(at)) {
		*expected = memory_load(at, size);
		if (*expected == wanted)
			memory_store(at, size, value);
		return *expected == wanted;
	}
	step();
	location = locate(at, size);
	write = pick(location, order);
	if (write->value == wanted && !may_follow(write))
		write = location->last;
	if (write->value != wanted || (weak && explore_choose(16) == 0)) {
		touch(at, size, true, false);
		*expected = observe(location, write, failed);
		print("failed update", at, *expected, failed);
		return false;
	}
	touch(at, size, true, true);
	(void)observe(location, write, order);
	follow(at, location, write, value, order);
	return true;
}

static void fence(int order)
{
	struct thread *thread = &threads[current];

	step();
	if (acquires(order))
		join(&thread->seen, &thread->acquired);
	if (order == __ATOMIC_SEQ_CST) {
		join_positions(&thread->seen, &consistent);
		join_positions(&consistent, &thread->seen);
	}
	if (releases(order)) {
		thread->released = thread->seen;
		thread->seen.at[current]++;
	}
}

/* --------------------------------------------------------------------- what the compiler calls */

void __tsan_init(void);
void __tsan_func_entry(void *);
void __tsan_func_exit(void);
void __tsan_read_range(void *, size_t);
void __tsan_write_range(void *, size_t);
void __tsan_atomic_thread_fence(int);
void __tsan_atomic_signal_fence(int);
void *__tsan_memcpy(void *, const void *, size_t);
void *__tsan_memmove(void *, const void *, size_t);
void *__tsan_memset(void *, int, size_t);

void __tsan_init(void)
{
}

void __tsan_func_entry(void *caller)
{
	(void)caller;
}

void __tsan_func_exit(void)
{
}

void __tsan_read_range(void *at, size_t size)
{
	plain(at, size, false);
}

void __tsan_write_range(void *at, size_t size)
{
	plain(at, size, true);
}

void *__tsan_memcpy(void *to, const void *from, size_t size)
{
	plain(from, size, false);
	plain(to, size, true);
	return memcpy(to, from, size);
}

void *__tsan_memmove(void *to, const void *from, size_t size)
{
	plain(from, size, false);
	plain(to, size, true);
	return memmove(to, from, size);
}

void *__tsan_memset(void *to, int byte, size_t size)
{
	plain(to, size, true);
	return memset(to, byte, size);
}

void __tsan_atomic_thread_fence(int order)
{
	fence(order);
}

void __tsan_atomic_signal_fence(int order)
{
	(void)order;
}

#define PLAIN(name, size, writing)                                                                 \
	void name(void *);                                                                         \
	void name(void *at)                                                                        \
	{                                                                                          \
		plain(at, size, writing);                                                          \
	}
#define UPDATE(bits, type, name, operation)                                                        \
	type __tsan_atomic##bits##_##name(volatile type *, type, int);                             \
	type __tsan_atomic##bits##_##name(volatile type *at, type value, int order)                \
	{                                                                                          \
		return (type)atomic_update(at, bits / 8, operation, value, order);                 \
	}
#define COMPARE(bits, type, name, weak)                                                            \
	int __tsan_atomic##bits##_##name(volatile type *, type *, type, int, int);                 \
	int __tsan_atomic##bits##_##name(volatile type *at, type *expected, type value, int order, \
					 int failed)                                               \
	{                                                                                          \
		uint64_t old = *expected;                                                          \
		bool done = atomic_compare(at, bits / 8, &old, value, order, failed, weak);        \
                                                                                                   \
		*expected = (type)old;                                                             \
		return done;                                                                       \
	}
#define SIZE(bytes, bits, type)                                                                    \
	PLAIN(__tsan_read##bytes, bytes, false)                                                    \
	PLAIN(__tsan_write##bytes, bytes, true)                                                    \
	PLAIN(__tsan_unaligned_read##bytes, bytes, false)                                          \
	PLAIN(__tsan_unaligned_write##bytes, bytes, true)                                          \
	PLAIN(__tsan_volatile_read##bytes, bytes, false)                                           \
	PLAIN(__tsan_volatile_write##bytes, bytes, true)                                           \
	type __tsan_atomic##bits##_load(const volatile type *, int);                               \
	type __tsan_atomic##bits##_load(const volatile type *at, int order)                        \
	{                                                                                          \
		return (type)atomic_read(at, bytes, order);                                        \
	}                                                                                          \
	void __tsan_atomic##bits##_store(volatile type *, type, int);                              \
	void __tsan_atomic##bits##_store(volatile type *at, type value, int order)                 \
	{                                                                                          \
		atomic_write(at, bytes, value, order);                                             \
	}                                                                                          \
	UPDATE(bits, type, exchange, EXCHANGE)                                                     \
	UPDATE(bits, type, fetch_add, ADD)                                                         \
	UPDATE(bits, type, fetch_sub, SUB)                                                         \
	UPDATE(bits, type, fetch_and, AND)                                                         \
	UPDATE(bits, type, fetch_or, OR)                                                           \
	UPDATE(bits, type, fetch_xor, XOR)                                                         \
	COMPARE(bits, type, compare_exchange_strong, false)                                        \
	COMPARE(bits, type, compare_exchange_weak, true)                                           \
	type __tsan_atomic##bits##_compare_exchange_val(volatile type *, type, type, int, int);    \
	type __tsan_atomic##bits##_compare_exchange_val(volatile type *at, type expected,          \
							type value, int order, int failed)         \
	{                                                                                          \
		uint64_t old = expected;                                                           \
                                                                                                   \
		atomic_compare(at, bytes, &old, value, order, failed, false);                      \
		return (type)old;                                                                  \
	}

SIZE(1, 8, uint8_t)
SIZE(2, 16, uint16_t)
SIZE(4, 32, uint32_t)
SIZE(8, 64, uint64_t)
PLAIN(__tsan_read16, 16, false)
PLAIN(__tsan_write16, 16, true)
PLAIN(__tsan_unaligned_read16, 16, false)
PLAIN(__tsan_unaligned_write16, 16, true)

/* -------------------------------------------------------------------------------- the instances */

static void start_threads(void)
{
	for (uint32_t i = 0; i < explore_threads; i++)
		threads[i].ended = true;
	for (current = 0; current < explore_threads; current++) {
		ucontext_t context;

		if (getcontext(&context))
			exit(2);
		context.uc_stack.ss_sp = stacks[current];
		context.uc_stack.ss_size = STACK;
		context.uc_link = NULL;
		makecontext(&context, run_thread, 0);
		if (!_setjmp(ended))
			setcontext(&context);
	}
}

static void run_instance(void)
{
	static const uint32_t paces[] = { 128, 48, 16, 4 };
	static const uint32_t rates[] = { 0, 64, 128, 208 };
	struct thread *outside = &threads[explore_threads];

	/* Scrambled, so that neighbouring instances differ, and never 0. */
	state = (instance + 1) * UINT64_C(0x9e3779b97f4a7c15);
	state ^= state >> 29;
	state |= 1;
	(void)explore_choose(1);
	pace = paces[explore_choose(4)];
	staleness = rates[explore_choose(4)];
	steps = n_locations = n_writes = 0;
	memset(location_of, 0, explore_size);
	memset(&consistent, 0, sizeof(consistent));
	memset(outside, 0, sizeof(*outside));
	outside->seen.at[explore_threads] = 1;

	current = explore_threads;
	explore_init((uint32_t)instance);
	for (uint32_t i = 0; i < explore_threads; i++) {
		threads[i].seen = threads[i].acquired = threads[i].released = outside->seen;
		threads[i].seen.at[i] = 1;
		threads[i].ended = false;
	}
	outside->seen.at[explore_threads]++;
	current = explore_choose(explore_threads);
	if (!_setjmp(ended))
		_longjmp(threads[current].context, 1);
	current = explore_threads;
	for (uint32_t i = 0; i < explore_threads; i++)
		join(&outside->seen, &threads[i].seen);
	explore_check();
}

int main(int argc, char **argv)
{
	uint64_t instances = argc > 1 ? strtoull(argv[1], NULL, 10) : 100000;
	uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;

	if (explore_threads >= THREADS || explore_size > OBJECT) {
		fputs("model: too large\n", stderr);
		return 2;
	}
	prints = argc > 3;
	start_threads();
	explores = true;
	for (instance = first; instance < first + instances; instance++)
		run_instance();
	printf("model: %llu instances\n", (unsigned long long)instances);
	return 0;
}
