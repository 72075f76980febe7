/* SPDX-License-Identifier: MIT */
/* hang: the time that a worker has ignored the end of its job, by tables of observations.
 * tests/scenario/check_hanging.c does it with a real forkd. */
#include "daemon/jobs/hang_detector.h"

#include <inttypes.h>
#include <string.h>

#include "common/clock.h"
#include "common/util.h"
#define CHECK_SETUP    setup
#define CHECK_TEARDOWN NULL
#include "tests/support/check_unit.h"

#define MS	 NSEC_PER_MSEC
#define INTERVAL (10 * MS)

static struct hang_watch watch;
static struct hang_look look;

/* A worker that runs job 7, which has been cancelled. */
static void setup(void)
{
	memset(&watch, 0, sizeof(watch));
	look = (struct hang_look){ .now = 1000 * MS, .doomed = 7, .beat = 5, .cpu = 300 * MS };
	ck_assert_uint_eq(hang_judge(&watch, &look, INTERVAL), 0);
}

/* The next observation, after ms, of which the thread had a CPU for cpu_ms. */
static uint64_t later(uint64_t ms, uint64_t cpu_ms)
{
	look.now += ms * MS;
	look.cpu += cpu_ms * MS;
	return hang_judge(&watch, &look, INTERVAL);
}

#define NEVER UINT64_MAX

/* A request was sent at the last observation. */
struct step {
	uint64_t answered; /* ms later, or NEVER */
	uint64_t slept;	   /* number of sleeps since */
	uint64_t stops;	   /* of the process since */
	uint64_t ms, cpu;  /* arguments of later() for the next observation */
	uint64_t held;	   /* ms counted by then */
};

static void take(const struct step *steps, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct step *s = &steps[i];

		look.asked = look.now;
		if (s->answered != NEVER)
			look.answered = look.now + s->answered * MS;
		look.slept += s->slept;
		look.stops += s->stops;
		ck_assert_msg(later(s->ms, s->cpu) == s->held * MS, "step %zu: %" PRIu64 " ms", i,
			      watch.held / MS);
	}
}
START_TEST(cpu_time_of_a_thread_counts)
{
	ck_assert_uint_eq(later(10, 10), 10 * MS);
	ck_assert_uint_eq(later(10, 9), 19 * MS);
	/* However late the observation is. */
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

START_TEST(sleep_counts_after_two_answers)
{
	static const struct step steps[] = {
		{ .answered = 0, .slept = 1, .ms = 10, .held = 0 },
		{ .answered = 1, .slept = 1, .ms = 10, .held = 10 },
		{ .answered = 5, .slept = 3, .ms = 10, .cpu = 2, .held = 20 },
		/* The thread has answered but not slept since: it waits for a CPU. */
		{ .answered = 0, .slept = 0, .ms = 10, .held = 20 },
	};

	take(steps, ARRAY_SIZE(steps));
}
END_TEST

START_TEST(late_or_missing_answer_counts_as_waiting_for_a_CPU)
{
	static const struct step steps[] = {
		{ .answered = 0, .slept = 1, .ms = 10, .held = 0 },
		{ .answered = 6, .slept = 1, .ms = 10, .cpu = 1, .held = 1 },
		/* The last answer is older. */
		{ .answered = NEVER, .slept = 1, .ms = 10, .held = 1 },
		/* The next answer proves nothing either: there is none to compare it with. */
		{ .answered = 0, .slept = 1, .ms = 10, .held = 1 },
		{ .answered = 0, .slept = 1, .ms = 10, .held = 11 },
	};

	take(steps, ARRAY_SIZE(steps));
}
END_TEST

START_TEST(late_observation_counts_no_more_sleep_than_one_in_time)
{
	static const struct step steps[] = {
		{ .answered = 0, .slept = 1, .ms = 10, .held = 0 },
		{ .answered = 0, .slept = 1, .ms = 5000, .held = 10 },
		{ .answered = 0, .slept = 1, .ms = 4, .held = 14 },
	};

	take(steps, ARRAY_SIZE(steps));
}
END_TEST

START_TEST(stopped_process_did_not_sleep)
{
	const struct step slept = { .answered = 0, .slept = 1, .ms = 10, .held = 0 };
	/* Each stop counts as a sleep for the kernel. */
	const struct step stopped = { .answered = 0, .slept = 1, .stops = 1, .ms = 10, .held = 0 };
	const struct step counts = { .answered = 0, .slept = 1, .ms = 10, .held = 10 };

	take(&slept, 1);
	for (int i = 0; i < 100; i++)
		take(&stopped, 1);
	/* The stop may have happened between the answer and the previous observation. */
	take(&slept, 1);
	take(&counts, 1);
}
END_TEST

START_TEST(progress_restarts_the_hang_limit)
{
	ck_assert_uint_eq(later(10, 10), 10 * MS);
	look.beat++;
	ck_assert_uint_eq(later(10, 10), 0);
	ck_assert_uint_eq(later(10, 10), 10 * MS);
}
END_TEST

START_TEST(another_job_restarts_the_hang_limit)
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

CHECK_MAIN("hang")
