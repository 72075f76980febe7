/* SPDX-License-Identifier: MIT */
/* bell: a thread sleeps on two words, and wakes up by either. tests/model/wake.c covers the
 * interleavings, tests/scenario/check_freeze.c the pool. */
#include "daemon/core/bell.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/util.h"
#include "shm/futex.h"
#include "shm/wake.h"
#include "tests/support/check_unit.h"

static _Atomic uint32_t word, bell, other;

struct sleeper {
	pthread_t thread;
	uint32_t value;
	uint32_t heard;
};

static void *sleep_on_both(void *arg)
{
	struct sleeper *s = arg;

	bell_wait(&word, s->value, &bell, s->heard, 0);
	return NULL;
}

static void fall_asleep(struct sleeper *s)
{
	bell_begin();
	*s = (struct sleeper){ .heard = bell_heard(&bell), .value = wake_prepare(&word) };
	ck_assert_int_eq(pthread_create(&s->thread, NULL, sleep_on_both, s), 0);
}

/* Moves the sleeper to another futex word, as any process that maps the word can. */
static void move(const _Atomic uint32_t *from)
{
	while (syscall(SYS_futex, from, FUTEX_REQUEUE, 0, (void *)1, &other, 0) != 1)
		sched_yield();
}

START_TEST(sleeper_is_woken_by_the_word)
{
	struct sleeper s;

	fall_asleep(&s);
	while (futex_wake(&word, 1) != 1)
		sched_yield();
	pthread_join(s.thread, NULL);
}
END_TEST

START_TEST(moved_sleeper_is_woken_by_its_bell)
{
	struct sleeper s;

	fall_asleep(&s);
	move(&word);
	ck_assert_int_eq(futex_wake(&word, 1), 0);
	bell_ring(&word, &bell);
	pthread_join(s.thread, NULL);
}
END_TEST

START_TEST(bell_rung_before_the_sleep_ends_it_at_once)
{
	uint32_t heard = bell_heard(&bell), value = wake_prepare(&word);

	bell_begin();
	bell_ring(&word, &bell);
	bell_wait(&word, value, &bell, heard, 0);
	/* A thread that finds the word changed does not sleep. */
	bell_wait(&word, value + WAKE_SEQ, &bell, bell_heard(&bell), 0);
	/* A thread whose deadline has passed does not sleep either. */
	bell_wait(&word, value, &bell, bell_heard(&bell), 1);
}
END_TEST

int main(void)
{
	if (futex_can_wait_two() < 0) {
		(void)printf("no futex_waitv(2) here\n");
		return 77;
	}
	return check_unit_main("bell");
}
