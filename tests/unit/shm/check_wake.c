/* SPDX-License-Identifier: MIT */
/* wake: the word's steps, and sleeping and waking on a board that the waker cannot write, with the
 * kernel's futex. tests/model/wake.c has the interleavings. */
#include "shm/wake.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "shm/futex.h"
#include "tests/support/check_unit.h"

/* One page, writable for the owner and read-only for all others. */
static _Atomic uint32_t *owners;
static const _Atomic uint32_t *clients;

static void map_board(void)
{
	int fd = memfd_create("check_wake", MFD_CLOEXEC);
	void *p;

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, 4096), 0);
	p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ck_assert_ptr_ne(p, MAP_FAILED);
	owners = p;
	p = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
	ck_assert_ptr_ne(p, MAP_FAILED);
	clients = p;
	close(fd);
}

START_TEST(new_word_is_busy)
{
	_Atomic uint32_t word = 0;

	ck_assert_uint_eq(wake_state(wake_load(&word)), WAKE_BUSY);
}
END_TEST

START_TEST(every_sleep_has_another_value)
{
	_Atomic uint32_t word = 0;
	uint32_t last = 0;

	for (uint32_t i = 1; i < 1000; i++) {
		uint32_t value = wake_prepare(&word);

		ck_assert_uint_eq(wake_load(&word), value);
		ck_assert_uint_eq(wake_state(value), WAKE_SLEEPING);
		ck_assert_uint_eq(value / WAKE_SEQ, i);
		ck_assert_uint_ne(value, last);
		last = value;
		wake_store(&word, WAKE_LOOKING);
		ck_assert_uint_eq(wake_load(&word), i * WAKE_SEQ + WAKE_LOOKING);
		wake_busy(&word);
		ck_assert_uint_eq(wake_load(&word), i * WAKE_SEQ + WAKE_BUSY);
	}
}
END_TEST

START_TEST(offline_and_sleeping_workers_rest_and_others_do_not)
{
	_Atomic uint32_t word = WAKE_LOOKING;
	uint32_t value = wake_parked(&word);

	ck_assert_uint_eq(wake_load(&word), WAKE_SEQ + WAKE_PARKED);
	ck_assert_uint_eq(value, WAKE_SEQ + WAKE_PARKED);
	ck_assert(wake_rests(value));
	ck_assert(wake_rests(wake_prepare(&word)));
	wake_store(&word, WAKE_LOOKING);
	ck_assert(!wake_rests(wake_load(&word)));
	wake_busy(&word);
	ck_assert(!wake_rests(wake_load(&word)));
}
END_TEST

START_TEST(sequence_wraps_without_changing_the_state)
{
	_Atomic uint32_t word = UINT32_MAX & ~WAKE_STATE;

	ck_assert_uint_eq(wake_prepare(&word), WAKE_SLEEPING);
	ck_assert_uint_eq(wake_prepare(&word), WAKE_SEQ + WAKE_SLEEPING);
}
END_TEST

START_TEST(wait_on_another_value_returns_at_once)
{
	_Atomic uint32_t word = 0;
	uint32_t value = wake_prepare(&word);

	wake_store(&word, WAKE_LOOKING);
	ck_assert_int_eq(futex_wait(&word, value, 0), -EAGAIN);
	ck_assert_int_eq(futex_wake(&word, 1), 0);
}
END_TEST

START_TEST(wait_ends_at_its_deadline)
{
	_Atomic uint32_t word = 0;
	uint32_t value = wake_prepare(&word);
	uint64_t deadline = clock_ns() + 20000000;

	ck_assert_int_eq(futex_wait(&word, value, 1), -ETIMEDOUT);
	ck_assert_int_eq(futex_wait(&word, value, deadline), -ETIMEDOUT);
	ck_assert_uint_ge(clock_ns(), deadline);
}
END_TEST

/* Wakes as a publisher does: until a thread was woken, or the value has changed. */
static void wake_sleeper(const _Atomic uint32_t *word, uint32_t value)
{
	while (wake_load(word) == value) {
		int woken = futex_wake(word, 1);

		ck_assert_int_ge(woken, 0);
		if (woken)
			return;
		sched_yield();
	}
}

static void *sleep_once(void *arg)
{
	uint32_t value = wake_prepare(owners);
	int r;

	(void)arg;
	do
		r = futex_wait(owners, value, 0);
	while (r == -EINTR);
	wake_store(owners, WAKE_LOOKING);
	return (void *)(intptr_t)r;
}

START_TEST(sleeper_is_woken_through_a_read_only_mapping)
{
	pthread_t thread;
	void *result;
	uint32_t value;

	map_board();
	ck_assert_int_eq(pthread_create(&thread, NULL, sleep_once, NULL), 0);
	while (wake_state(value = wake_load(clients)) != WAKE_SLEEPING)
		sched_yield();
	wake_sleeper(clients, value);
	ck_assert_int_eq(pthread_join(thread, &result), 0);
	ck_assert_ptr_null(result);
	ck_assert_uint_eq(wake_state(wake_load(clients)), WAKE_LOOKING);
}
END_TEST

#define JOBS 5000u

static _Atomic uint32_t published; /* jobs so far */
static _Atomic uint32_t taken;

/* The owner: searches, announces its sleep, searches again, sleeps. */
static void *work(void *arg)
{
	uint32_t done = 0;

	(void)arg;
	wake_store(owners, WAKE_LOOKING);
	while (done < JOBS) {
		uint32_t value;

		if (atomic_load_explicit(&published, memory_order_relaxed) == done) {
			value = wake_prepare(owners);
			if (atomic_load_explicit(&published, memory_order_relaxed) == done)
				futex_wait(owners, value, 0);
			wake_store(owners, WAKE_LOOKING);
			continue;
		}
		done++;
		atomic_store_explicit(&taken, done, memory_order_relaxed);
	}
	return NULL;
}

/* Each job is published only after the last one was taken: a lost wake-up hangs the test. */
START_TEST(worker_that_goes_to_sleep_misses_no_job)
{
	pthread_t thread;

	map_board();
	ck_assert_int_eq(pthread_create(&thread, NULL, work, NULL), 0);
	for (uint32_t i = 1; i <= JOBS; i++) {
		uint32_t value;

		atomic_store_explicit(&published, i, memory_order_relaxed);
		wake_published();
		value = wake_load(clients);
		if (wake_state(value) == WAKE_SLEEPING)
			wake_sleeper(clients, value);
		for (uint32_t spins = 0; atomic_load_explicit(&taken, memory_order_relaxed) != i;
		     spins++)
			if (spins > i % 64)
				sched_yield();
	}
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
}
END_TEST

/* The waker was killed between two wakes; those of the next waker work all the same. */
START_TEST(killed_waker_leaves_the_word_unchanged)
{
	pthread_t thread;
	void *result;
	uint32_t value;
	pid_t child;

	map_board();
	value = wake_prepare(owners);
	child = fork();
	ck_assert_int_ge(child, 0);
	if (child == 0)
		for (;;)
			futex_wake(clients, 1);
	ck_assert_int_eq(kill(child, SIGKILL), 0);
	ck_assert_int_eq(waitpid(child, NULL, 0), child);
	ck_assert_uint_eq(wake_load(clients), value);
	ck_assert_int_eq(pthread_create(&thread, NULL, sleep_once, NULL), 0);
	while (wake_load(clients) == value)
		sched_yield();
	wake_sleeper(clients, value + WAKE_SEQ);
	ck_assert_int_eq(pthread_join(thread, &result), 0);
}
END_TEST

CHECK_MAIN("wake")
