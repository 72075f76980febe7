/* SPDX-License-Identifier: MIT */
/* scenario: forkctl trace while forkd works: the file agrees with the counters, and is a valid
 * trace whatever ends it; no event is written for a subscriber that has left */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "shm/wake.h"
#define CHECK_TIMEOUT 120
#include "tests/support/check_unit.h"
#include "tests/support/jobs.h"

static struct daemon d;

static const char *path_of(const char *name)
{
	static char path[2][128];
	static uint32_t turn;
	char *to = path[turn++ % 2];

	(void)snprintf(to, sizeof(path[0]), "%s/%s", d.directory, name);
	return to;
}

/* Returns true if a line of this file in the daemon's directory has the text. */
static bool says(const char *name, const char *text)
{
	_cleanup_fclose_ FILE *file = fopen(path_of(name), "re");
	char line[512];

	while (file && fgets(line, sizeof(line), file))
		if (strstr(line, text))
			return true;
	return false;
}

/* Starts forkctl trace -o NAME, and waits until it has begun; its output is in NAME.out. */
static pid_t begin(const char *name)
{
	char output[64], path[128];
	const char *argv[] = { "forkctl", "trace", "-o", path, NULL };
	pid_t pid;

	(void)snprintf(output, sizeof(output), "%s.out", name);
	(void)snprintf(path, sizeof(path), "%s", path_of(name));
	pid = daemon_spawn(&d, output, argv);
	DAEMON_AWAIT(says(output, "tracing"));
	return pid;
}

static void finish(pid_t pid)
{
	ck_assert_int_eq(kill(pid, SIGINT), 0);
	ck_assert_int_eq(daemon_reap(pid), 0);
}

/* Runs trace.py, which checks that the file is a trace; text: its output. from, to: 0 for all. */
static void validate(const char *name, uint64_t from, uint64_t to, char *text, size_t size)
{
	char script[4096], times[2][24];
	const char *argv[] = { "/usr/bin/env",	     "python3", script, path_of(name),
			       to ? times[0] : NULL, times[1],	NULL };
	int status;

	(void)snprintf(script, sizeof(script), "%s/tests/support/trace.py", getenv("top_srcdir"));
	(void)snprintf(times[0], sizeof(times[0]), "%" PRIu64, from);
	(void)snprintf(times[1], sizeof(times[1]), "%" PRIu64, to);
	status = daemon_run(&d, text, size, argv);
	ck_assert_msg(status == 0, "%s is no trace: %s", name, text);
}

/* Returns the number after a name in the output of trace.py. */
static uint64_t number(const char *text, const char *name)
{
	char line[64];
	const char *at;

	(void)snprintf(line, sizeof(line), "\n%s ", name);
	at = strstr(text, line);
	return at ? strtoull(at + strlen(line), NULL, 10) : 0;
}

static bool all_sleep(void)
{
	for (uint32_t i = 0; i < d.board->manager.n_workers; i++)
		if (wake_state(wake_load(&d.board->workers[i].wake)) != WAKE_SLEEPING)
			return false;
	/* And are not on their way to sleep, after which they still write an event. */
	return daemon_is_all(daemon_pool(&d), 'S');
}

/* Counters that are also events, by the names of both. */
static const struct {
	const char *event;
	const char *counter;
} pairs[] = {
	{ "strands", "strands" },
	{ "jobs", "jobs_started" },
	{ "DONE", "jobs_done" },
	{ "FAILED", "jobs_failed" },
	{ "steal", "steals" },
	{ "sleep", "sleeps" },
	{ "timed sleep", "timed_sleeps" },
	{ "wake", "wakes" },
	{ "offline", "offline_sleeps" },
};

static void look(uint64_t *ret_counters)
{
	for (uint32_t i = 0; i < ARRAY_SIZE(pairs); i++)
		ret_counters[i] = daemon_counter(&d, pairs[i].counter);
}

/* Reads the counters at a time when nothing happens. Returns that time; the dispatcher sometimes
 * lets a worker clean up. */
static uint64_t stand_still(uint64_t *ret_counters)
{
	uint64_t again[ARRAY_SIZE(pairs)], now;

	do {
		DAEMON_AWAIT(all_sleep());
		look(ret_counters);
		now = clock_ns();
		look(again);
	} while (memcmp(again, ret_counters, sizeof(again)) != 0 || !all_sleep());
	return now;
}

START_TEST(numbers_of_events_equal_the_counters)
{
	uint64_t before[ARRAY_SIZE(pairs)], after[ARRAY_SIZE(pairs)], from, to;
	char text[4096] = "\n";
	fk_client *c;
	pid_t pid;

	c = JOBS_BEGIN(&d, "--workers=2", NULL);
	jobs_see(c, jobs_submit(c, "fib:fib", 0, 20, 0), 6765);
	pid = begin("t.json");
	from = stand_still(before);
	jobs_see_end(c, jobs_submit(c, "nqueens:nqueens", 0, -5, 0), "FAILED");
	for (uint32_t i = 0; i < 5; i++)
		jobs_see(c, jobs_submit(c, "fib:fib", 0, 25, 0), 75025);
	/* On a busy machine the other worker may be late. */
	while (daemon_counter(&d, "steals") < before[4] + 3)
		jobs_see(c, jobs_submit(c, "fib:fib", 0, 25, 0), 75025);
	to = stand_still(after);
	finish(pid);
	validate("t.json", from, to, text + 1, sizeof(text) - 1);
	ck_assert_uint_eq(number(text, "lost"), 0);
	for (uint32_t i = 0; i < ARRAY_SIZE(pairs); i++)
		ck_assert_msg(number(text, pairs[i].event) == after[i] - before[i],
			      "%s: %" PRIu64 " counted, and %s", pairs[i].counter,
			      after[i] - before[i], text);
	ck_assert_uint_gt(number(text, "s"), 0);
	ck_assert_uint_eq(number(text, "s"), number(text, "f"));
	ck_assert_ptr_nonnull(strstr(text, "ended: interrupted"));
	jobs_end(&d, c);
}
END_TEST

START_TEST(events_faster_than_the_reader_are_lost_and_counted)
{
	char text[4096] = "\n";
	uint64_t strands;
	fk_client *c;
	pid_t pid;

	c = JOBS_BEGIN(&d, "--workers=1", "--fork-mode=stolen", NULL);
	strands = daemon_counter(&d, "strands");
	pid = begin("t.json");
	daemon_suspend(pid);
	/* More strands than a ring has events. */
	while (daemon_counter(&d, "strands") < strands + 40000)
		jobs_see(c, jobs_submit(c, "fib:fib", 0, 18, 0), 2584);
	ck_assert_int_eq(kill(pid, SIGCONT), 0);
	finish(pid);
	validate("t.json", 0, 0, text + 1, sizeof(text) - 1);
	ck_assert_uint_gt(number(text, "lost"), 40000);
	ck_assert_uint_eq(number(text, "events lost"), 1);
	ck_assert(says("t.json.out", "events lost"));
	jobs_end(&d, c);
}
END_TEST

START_TEST(death_of_the_pool_ends_the_trace_and_the_next_can_be_traced)
{
	char text[4096] = "\n";
	fk_client *c;
	pid_t pid, pool;

	c = JOBS_BEGIN(&d, "--workers=2", NULL);
	pid = begin("t.json");
	pool = daemon_pool(&d);
	jobs_see(c, jobs_submit(c, "fib:fib", 0, 20, 0), 6765);
	jobs_see_end(c, jobs_submit(c, "crash:segv", 0, 0, 0), "CRASHED");
	/* Without a signal. */
	ck_assert_int_eq(daemon_reap(pid), 1);
	ck_assert(says("t.json.out", "the trace ended early: the pool has crashed"));
	validate("t.json", 0, 0, text + 1, sizeof(text) - 1);
	ck_assert_uint_eq(number(text, "jobs"), 2);
	ck_assert_uint_eq(number(text, "DONE"), 1);
	(void)jobs_pool_after(&d, pool);
	pid = begin("again.json");
	jobs_see(c, jobs_submit(c, "fib:fib", 0, 20, 0), 6765);
	finish(pid);
	validate("again.json", 0, 0, text + 1, sizeof(text) - 1);
	ck_assert_uint_eq(number(text, "DONE"), 1);
	jobs_end(&d, c);
}
END_TEST

/* Returns the resident kB of the pool's rings. */
static int64_t rings_kb(void)
{
	char path[64], line[512];
	_cleanup_fclose_ FILE *file = NULL;
	bool here = false;
	long long kb = 0;

	(void)snprintf(path, sizeof(path), "/proc/%d/smaps", (int)daemon_pool(&d));
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file)) {
		if (strchr(line, '-') && strchr(line, '-') < strchr(line, ' '))
			here = strstr(line, "forkd-trace") != NULL;
		else if (here && sscanf(line, "Rss: %lld", &kb) == 1)
			return kb;
	}
	return kb;
}

/* Some hundred events each, because every fork is a strand. */
static void run_jobs(fk_client *c)
{
	for (uint32_t i = 0; i < 10; i++)
		jobs_see(c, jobs_submit(c, "fib:fib", 0, 12, 0), 144);
}

START_TEST(killed_subscriber_traces_no_more_and_the_other_continues)
{
	/* A worker that writes late makes two pages again: of its head, and of an event. */
	const int64_t late = 2 * 8;
	char text[4096] = "\n";
	fk_client *c;
	pid_t one, other;

	c = JOBS_BEGIN(&d, "--workers=2", "--fork-mode=stolen", NULL);
	one = begin("one.json");
	other = begin("other.json");
	ck_assert_int_gt(rings_kb(), 4 * late);
	daemon_kill_client(one);
	run_jobs(c);
	finish(other);
	validate("other.json", 0, 0, text + 1, sizeof(text) - 1);
	ck_assert_uint_eq(number(text, "lost"), 0);
	ck_assert_uint_eq(number(text, "DONE"), 10);
	/* No subscriber is left: the memory is released, and no worker writes any more. */
	other = begin("killed.json");
	daemon_kill_client(other);
	DAEMON_AWAIT(rings_kb() <= late);
	run_jobs(c);
	ck_assert_int_le(rings_kb(), late);
	jobs_end(&d, c);
}
END_TEST

START_TEST(command_is_traced_until_it_ends_and_its_status_is_returned)
{
	char text[4096] = "\n", file[128], nothing[120];

	daemon_start(&d, "--workers=2", NULL);
	(void)snprintf(file, sizeof(file), "%s", path_of("t.json"));
	(void)snprintf(nothing, sizeof(nothing), "%s", path_of("nothing"));
	ck_assert_int_eq(daemon_ctl(&d, text, sizeof(text), "trace", "-o", file, "--", "sh", "-c",
				    "exit 7", NULL),
			 7);
	ck_assert_int_eq(daemon_ctl(&d, text, sizeof(text), "trace", "-o", file, "--", "sh", "-c",
				    "kill -9 $$", NULL),
			 128 + SIGKILL);
	validate("t.json", 0, 0, text, sizeof(text));
	ck_assert_ptr_nonnull(strstr(text, "ended: the command has ended"));
	ck_assert_int_eq(daemon_ctl(&d, text, sizeof(text), "trace", "-o", file, nothing, NULL),
			 127);
	ck_assert_int_eq(daemon_ctl(&d, text, sizeof(text), "trace", "-o", file, "--duration",
				    "1ms", NULL),
			 0);
	validate("t.json", 0, 0, text, sizeof(text));
	ck_assert_ptr_nonnull(strstr(text, "ended: its duration has passed"));
	(void)snprintf(file, sizeof(file), "%s/t", nothing);
	ck_assert_int_eq(daemon_ctl(&d, text, sizeof(text), "trace", "-o", file, NULL), 1);
	ck_assert_ptr_nonnull(strstr(text, "/nothing/t: No such file"));
	daemon_see_ctl(&d, 1, "cannot write /dev/full: No space left", "trace", "-o", "/dev/full",
		       "--duration", "1ms", NULL);
	ck_assert_int_eq(daemon_stop(&d), 0);
}
END_TEST

START_TEST(end_of_forkd_ends_the_trace)
{
	char text[4096] = "\n";
	pid_t pid;

	daemon_start(&d, "--workers=1", NULL);
	pid = begin("t.json");
	ck_assert_int_eq(kill(d.manager, SIGTERM), 0);
	ck_assert_int_eq(daemon_reap(pid), 1);
	ck_assert(says("t.json.out", "the trace ended early: forkd is stopping"));
	validate("t.json", 0, 0, text + 1, sizeof(text) - 1);
	ck_assert_int_eq(daemon_wait(&d), 0);
}
END_TEST

int main(void)
{
	if (system("python3 -c 'import json' 2>/dev/null") != 0) {
		printf("not installed: python3\n");
		return 77;
	}
	return check_unit_main("tracing");
}
