/* SPDX-License-Identifier: MIT */
/*
 * hang: when a worker has held out for how long, by tables of what looks have found.
 * tests/check_hanging.c does it with a real forkd.
 */
#include "daemon/hang.h"

#include <string.h>

#include "common/clock.h"
#include "common/util.h"
#define CHECK_SETUP    setup
#define CHECK_TEARDOWN NULL
#include "tests/check_unit.h"

#define MS	 NSEC_PER_MSEC
#define INTERVAL (10 * MS)

static struct hang_watch watch;
static struct hang_look look;

/* A worker that runs job 7, which is to end. */
static void setup(void)
{
	memset(&watch, 0, sizeof(watch));
	look = (struct hang_look){ .now = 1000 * MS, .doomed = 7, .beat = 5, .cpu = 300 * MS };
	ck_assert_uint_eq(hang_judge(&watch, &look, INTERVAL), 0);
}

/* The next look, so much later, in which the thread had so much of the CPU. */
static uint64_t later(uint64_t ms, uint64_t cpu_ms)
{
	look.now += ms * MS;
	look.cpu += cpu_ms * MS;
	return hang_judge(&watch, &look, INTERVAL);
}

/* It was asked at the last look, and has answered after so much, having slept so often since. */
static void answers(uint64_t ms, uint64_t sleeps)
{
	look.asked = look.now;
	look.answered = look.now + ms * MS;
	look.slept += sleeps;
}

START_TEST(what_a_thread_has_of_a_CPU_counts)
{
	ck_assert_uint_eq(later(10, 10), 10 * MS);
	ck_assert_uint_eq(later(10, 9), 19 * MS);
	/* However late the look comes. */
	ck_assert_uint_eq(later(5000, 5), 24 * MS);
}
END_TEST

START_TEST(without_a_CPU_nothing_counts)
{
	for (int i = 0; i < 1000; i++)
		ck_assert_uint_eq(later(10, 0), 0);
	ck_assert_uint_eq(later(3600 * 1000, 0), 0);
}
END_TEST

START_TEST(sleep_counts_once_it_has_said_so_twice)
{
	answers(0, 1);
	ck_assert_uint_eq(later(10, 0), 0);
	answers(1, 1);
	ck_assert_uint_eq(later(10, 0), 10 * MS);
	answers(5, 3);
	ck_assert_uint_eq(later(10, 2), 20 * MS);
	/* It has answered, but has not slept since: it waits for a CPU. */
	answers(0, 0);
	ck_assert_uint_eq(later(10, 0), 20 * MS);
}
END_TEST

START_TEST(who_answers_late_or_never_was_waiting_for_a_CPU)
{
	answers(0, 1);
	(void)later(10, 0);
	answers(6, 1);
	ck_assert_uint_eq(later(10, 1), 1 * MS);
	look.asked = look.now; /* and no answer: that of before is older */
	look.slept++;
	ck_assert_uint_eq(later(10, 0), 1 * MS);
	/* Nor does the next answer say anything: nobody knows what it is to be compared with. */
	answers(0, 1);
	ck_assert_uint_eq(later(10, 0), 1 * MS);
	answers(0, 1);
	ck_assert_uint_eq(later(10, 0), 11 * MS);
}
END_TEST

START_TEST(a_look_that_comes_late_counts_no_more_sleep_than_one_in_time)
{
	answers(0, 1);
	(void)later(10, 0);
	answers(0, 1);
	ck_assert_uint_eq(later(5000, 0), 10 * MS);
	answers(0, 1);
	ck_assert_uint_eq(later(4, 0), 14 * MS);
}
END_TEST

START_TEST(a_process_that_was_stopped_did_not_sleep)
{
	answers(0, 1);
	(void)later(10, 0);
	/* Each stop looks like a sleep to the kernel. */
	for (int i = 0; i < 100; i++) {
		look.stops++;
		answers(0, 1);
		ck_assert_uint_eq(later(10, 0), 0);
	}
	/* The stop may have come between the answer and the look before this one. */
	answers(0, 1);
	ck_assert_uint_eq(later(10, 0), 0);
	answers(0, 1);
	ck_assert_uint_eq(later(10, 0), 10 * MS);
}
END_TEST

START_TEST(whoever_gets_on_starts_anew)
{
	ck_assert_uint_eq(later(10, 10), 10 * MS);
	look.beat++;
	ck_assert_uint_eq(later(10, 10), 0);
	ck_assert_uint_eq(later(10, 10), 10 * MS);
}
END_TEST

START_TEST(another_job_starts_anew)
{
	ck_assert_uint_eq(later(10, 10), 10 * MS);
	look.doomed = 8;
	ck_assert_uint_eq(later(10, 10), 0);
	ck_assert_uint_eq(later(10, 10), 10 * MS);
	look.doomed = 0;
	ck_assert_uint_eq(later(10, 10), 0);
	ck_assert_uint_eq(later(10, 10), 0);
	look.doomed = 8;
	ck_assert_uint_eq(later(10, 10), 0);
	ck_assert_uint_eq(later(10, 10), 10 * MS);
}
END_TEST

CHECK_MAIN("hang", what_a_thread_has_of_a_CPU_counts, without_a_CPU_nothing_counts,
	   sleep_counts_once_it_has_said_so_twice, who_answers_late_or_never_was_waiting_for_a_CPU,
	   a_look_that_comes_late_counts_no_more_sleep_than_one_in_time,
	   a_process_that_was_stopped_did_not_sleep, whoever_gets_on_starts_anew,
	   another_job_starts_anew)
