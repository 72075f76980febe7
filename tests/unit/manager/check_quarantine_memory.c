/* SPDX-License-Identifier: MIT */
/* quarantine_memory - the crash counts that the next manager reads, wherever the last one was
 * killed */
#include "daemon/manager/quarantine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/crash_site.h"
#include "common/log.h"
#include "common/options.h"
#include "common/util.h"
#include "daemon/manager/saved_state.h"
#include "daemon/manager/tenants.h"
#include "shm/board.h"
#include "shm/limits.h"
#include "tests/support/check_unit.h"

#ifdef FK_CRASH_SITES

#define STEPS 5u
#define AT    7u /* slot of the next crash, in which an old one is stored */

/* Counted crashes, and refusals, after a step. */
struct seen {
	char text[256];
};

static const struct options options = {
	.quarantine_task_crashes = 2,
	.quarantine_window = 3600 * NSEC_PER_SEC,
	.quarantine_time = 3600 * NSEC_PER_SEC,
};

static struct tenants tenants;
static struct board board;
static struct saved_quarantine *memory;

static void begin(void)
{
	memory = mmap(NULL, sizeof(*memory), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	ck_assert_ptr_ne(memory, MAP_FAILED);
	memory->n_crashes = SAVED_CRASHES + AT;
	memory->crashes[AT] = (struct saved_crash){ clock_ns(), 77, 7 };
}

static void step(struct quarantine *q, uint32_t i)
{
	char n[16], error[128];

	switch (i) {
	case 0:
		quarantine_crashed(q, 1000, 11, "t:a");
		break;
	case 1:
		quarantine_crashed(q, 1000, 11, "t:a");
		break;
	case 2:
		quarantine_crashed(q, 1000, 12, "t:b");
		break;
	case 3:
		(void)quarantine_lift(q, "1000", "", n, sizeof(n), error, sizeof(error));
		break;
	default:
		quarantine_crashed(q, 1001, 13, "t:c");
		quarantine_crashed(q, 1001, 13, "t:c");
	}
}

/* The manager's steps, all of them or until it is killed. */
static void go(struct seen *ret_seen, void (*look)(struct seen *ret))
{
	static struct loop loop;
	struct quarantine q;

	ck_assert_int_eq(loop_init(&loop), 0);
	quarantine_init(&q, &options, &loop, NULL, &tenants, &board, memory);
	for (uint32_t i = 0; i < STEPS; i++) {
		step(&q, i);
		if (look)
			look(&ret_seen[i + 1]);
	}
	loop_fini(&loop);
}

/* In order of slots; a crash is "uid/task", a refusal "uid:name/crashes". */
static void look(struct seen *ret)
{
	size_t at = 0;

	ret->text[0] = '\0';
	for (uint32_t i = 0; i < SAVED_CRASHES; i++) {
		const struct saved_crash *c = &memory->crashes[i];

		if (saved_load(&c->time_ns))
			at += (size_t)snprintf(ret->text + at, sizeof(ret->text) - at, "%u/%u ",
					       (uint32_t)saved_load(&c->uid),
					       (uint32_t)saved_load(&c->task));
	}
	for (uint32_t i = 0; i < LIMIT_QUARANTINE; i++) {
		const struct saved_refusal *e = &memory->refusals[i];

		if (saved_load(&e->until_ns))
			at += (size_t)snprintf(ret->text + at, sizeof(ret->text) - at, "%u:%s/%u ",
					       e->uid, e->name, e->crashes);
	}
}

/* Checks that each entry is complete: only these may be seen in between. */
static void assert_whole(const struct seen *now)
{
	static const char *const whole[] = {
		/* the previous entry is removed; crashes that count for the task; for no task */
		"7/77",	   "1000/11", "1000/0",	    "1000/12",
		"1001/13", "1001/0",  "1000:t:a/2", "1001:t:c/2",
	};
	char text[sizeof(now->text)], *rest = text;

	memcpy(text, now->text, sizeof(text));
	for (char *one = strtok_r(text, " ", &rest); one; one = strtok_r(NULL, " ", &rest)) {
		bool known = false;

		for (uint32_t i = 0; i < ARRAY_SIZE(whole); i++)
			known |= streq(one, whole[i]);
		ck_assert_msg(known, "\"%s\" is half of one and half of another, in: %s", one,
			      now->text);
	}
}

START_TEST(counts_are_consistent_wherever_the_manager_is_killed)
{
	struct seen steps[STEPS + 1], now;
	uint32_t n_killed = 0;

	log_set_level(LOG_LEVEL_ERROR);
	begin();
	go(steps, look);
	ck_assert_str_eq(steps[1].text, "1000/11 ");
	ck_assert_str_eq(steps[2].text, "1000/0 1000/0 1000:t:a/2 ");
	ck_assert_str_eq(steps[3].text, "1000/0 1000/0 1000/12 1000:t:a/2 ");
	ck_assert_str_eq(steps[4].text, "");
	ck_assert_str_eq(steps[5].text, "1001/0 1001/0 1001:t:c/2 ");
	for (;; n_killed++) {
		int status;
		pid_t pid;

		(void)munmap(memory, sizeof(*memory));
		begin();
		pid = fork();
		ck_assert_int_ge(pid, 0);
		if (pid == 0) {
			crash_arm(CRASH_AT_saved_store, n_killed);
			go(NULL, NULL);
			_exit(0);
		}
		ck_assert_int_eq(waitpid(pid, &status, 0), pid);
		look(&now);
		assert_whole(&now);
		if (WIFEXITED(status))
			break;
		ck_assert_int_eq(WTERMSIG(status), SIGKILL);
	}
	ck_assert_str_eq(now.text, steps[STEPS].text);
	/* Five for a crash, two plus its crashes for a refusal, one for its end and each crash. */
	ck_assert_uint_eq(n_killed, 5 * 5 + 2 * (2 + 2) + 1 + 3);
	(void)munmap(memory, sizeof(*memory));
}
END_TEST

#else

START_TEST(counts_are_consistent_wherever_the_manager_is_killed)
{
	check_unit_not_run(counts_are_consistent_wherever_the_manager_is_killed,
			   "built without crash sites");
}
END_TEST

#endif

CHECK_MAIN("quarantine_memory")
