/* SPDX-License-Identifier: MIT */
/* scenario: several processes use one forkd at the same time, and each gets its own results */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/daemon.h"
#define CHECK_TIMEOUT 120
#include "tests/support/check_unit.h"

static fk_client *open_in_client(const struct daemon *d, uint32_t n_jobs, uint64_t heap)
{
	struct fk_open_options options = { .n_jobs = n_jobs, .heap_size = heap };
	fk_client *client = NULL;

	DAEMON_MUST(fk_open(d->socket, &options, &client) == 0);
	return client;
}

static uint32_t next_random(uint32_t *state)
{
	*state = *state * 1664525u + 1013904223u;
	return *state >> 8;
}

/* ------------------------------------------------------------------------ kinds of clients */

/* Makes the same call repeatedly. */
static void client_number(const struct daemon *d, const char *task, int64_t arg, int64_t wanted)
{
	fk_client *c = open_in_client(d, 0, 0);
	int64_t n = 0;

	for (int i = 0; i < 5; i++) {
		DAEMON_MUST(fk_call(c, task, &n, arg) == 0);
		DAEMON_MUST(n == wanted);
	}
	DAEMON_MUST(fk_close(c) == 0);
}

static void client_sort(const struct daemon *d)
{
	enum { N = 100000 };
	fk_client *c = open_in_client(d, 0, 4 << 20);
	uint32_t random = 7;
	int64_t sum = 0;
	void *data;

	for (int k = 0; k < 3; k++) {
		int64_t *numbers, left;

		DAEMON_MUST(fk_alloc(c, N * sizeof(int64_t), &data) == 0);
		numbers = data;
		sum = 0;
		for (int i = 0; i < N; i++) {
			numbers[i] = (int64_t)next_random(&random) - (1 << 23);
			sum += numbers[i];
		}
		DAEMON_MUST(fk_call(c, "sort:i64", NULL, FK_BUFFER(data, N * sizeof(int64_t))) ==
			    0);
		left = sum - numbers[0];
		for (int i = 1; i < N; i++) {
			DAEMON_MUST(numbers[i - 1] <= numbers[i]);
			left -= numbers[i];
		}
		DAEMON_MUST(left == 0);
		DAEMON_MUST(fk_free(c, data) == 0);
	}
	DAEMON_MUST(fk_close(c) == 0);
}

/* A buffer that is copied in, changed and copied out, and a string. */
static void client_bytes(const struct daemon *d)
{
	enum { N = 50001 };
	fk_client *c = open_in_client(d, 0, 1 << 20);
	unsigned char *bytes;
	int64_t n = 0, sum = 0;
	void *data;

	DAEMON_MUST(fk_alloc(c, N, &data) == 0);
	bytes = data;
	for (int i = 0; i < N; i++) {
		bytes[i] = (unsigned char)(i * 7);
		sum += bytes[i];
	}
	DAEMON_MUST(fk_call(c, "bytes:sum", &n, FK_BUFFER(data, N)) == 0);
	DAEMON_MUST(n == sum);
	DAEMON_MUST(fk_call(c, "bytes:invert", &n, FK_BUFFER(data, N)) == 0);
	DAEMON_MUST(n == sum);
	for (int i = 0; i < N; i++)
		DAEMON_MUST(bytes[i] == (unsigned char)~(i * 7));
	/* The change that a failed task made to its copy is not visible. */
	DAEMON_MUST(fk_call(c, "bytes:spoil", &n, FK_BUFFER(data, N)) == -EREMOTEIO);
	DAEMON_MUST(!strncmp(fk_error_text(), "bytes:spoil: FAILED with code 77 of its own (", 45));
	for (int i = 0; i < N; i++)
		DAEMON_MUST(bytes[i] == (unsigned char)~(i * 7));
	DAEMON_MUST(fk_call(c, "bytes:sum", &n, FK_BUFFER(data, 0)) == 0);
	DAEMON_MUST(n == 0);
	DAEMON_MUST(fk_call(c, "bytes:text", &n, "abc", INT64_C(10)) == 0);
	DAEMON_MUST(n == 10 * ('a' + 'b' + 'c'));
	DAEMON_MUST(fk_call(c, "bytes:text", &n, "", INT64_C(10)) == 0);
	DAEMON_MUST(n == 0);
	DAEMON_MUST(fk_close(c) == 0);
}

/* Thousands of small jobs, many of them pending; the sums differ from those of other clients. */
static void client_many(const struct daemon *d, int64_t mark, int64_t total)
{
	enum { WINDOW = 128 };
	fk_client *c = open_in_client(d, WINDOW, 0);
	const fk_task *task;
	fk_job jobs[WINDOW];
	int64_t sums[WINDOW];

	DAEMON_MUST(fk_task_find(c, "null:add", &task) == 0);
	for (int64_t i = 0; i < total + WINDOW; i++) {
		int64_t k = i % WINDOW, n = 0;

		if (i >= WINDOW) {
			DAEMON_MUST(fk_wait(c, jobs[k], FK_FOREVER) == 0);
			DAEMON_MUST(fk_outcome(c, jobs[k], NULL, NULL) == FK_DONE);
			DAEMON_MUST(fk_result(c, jobs[k], &n, sizeof(n)) == 0);
			DAEMON_MUST(n == sums[k]);
			DAEMON_MUST(fk_release(c, jobs[k]) == 0);
			DAEMON_MUST(fk_release(c, jobs[k]) == -ESTALE);
		}
		if (i < total) {
			int64_t args[2] = { mark, i };

			sums[k] = mark + i;
			DAEMON_MUST(fk_submit_packed(c, task, args, sizeof(args), FK_WAIT_ROOM,
						     &jobs[k]) == 0);
		}
	}
	DAEMON_MUST(fk_close(c) == 0);
}

enum kind { FIB, QUEENS, SORT, BYTES, MANY };

static pid_t start_client(const struct daemon *d, enum kind kind, int64_t mark, int64_t total)
{
	pid_t pid = daemon_fork(DAEMON_UID);

	if (pid)
		return pid;
	switch (kind) {
	case FIB:
		client_number(d, "fib:fib", 25, 75025);
		break;
	case QUEENS:
		client_number(d, "nqueens:nqueens", 9, 352);
		break;
	case SORT:
		client_sort(d);
		break;
	case BYTES:
		client_bytes(d);
		break;
	case MANY:
		client_many(d, mark, total);
		break;
	}
	_exit(0);
}

static void see_output(struct daemon *d, pid_t pid, const char *file, const char *wanted)
{
	char path[256], text[256] = "";
	FILE *f;

	ck_assert_int_eq(daemon_reap(pid), 0);
	(void)snprintf(path, sizeof(path), "%s/%s", d->directory, file);
	f = fopen(path, "re");
	ck_assert_ptr_nonnull(f);
	text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
	(void)fclose(f);
	ck_assert_str_eq(text, wanted);
}

/* Eight clients at once: five of this program, three of forkctl. */
static void all_clients(const char *workers)
{
	static const char *const fib[] = { "forkctl", "call", "fib:fib", "30", NULL };
	static const char *const uts[] = { "forkctl", "call", "uts:uts", "T1", NULL };
	static const char *const queens[] = { "forkctl", "call", "nqueens:nqueens", "10", NULL };
	struct daemon d = { 0 };
	pid_t pids[5], ctl[3];
	uint64_t jobs;

	daemon_start(&d, workers, NULL);
	ctl[0] = daemon_spawn(&d, "fib", fib);
	ctl[1] = daemon_spawn(&d, "uts", uts);
	ctl[2] = daemon_spawn(&d, "queens", queens);
	for (int i = 0; i < 5; i++)
		pids[i] = start_client(&d, (enum kind)i, 1000000, 2000);
	for (int i = 0; i < 5; i++)
		ck_assert_int_eq(daemon_reap(pids[i]), 0);
	see_output(&d, ctl[0], "fib", "832040\n");
	see_output(&d, ctl[1], "uts", "nodes=4130071\ndepth=10\nleaves=3305118\n");
	see_output(&d, ctl[2], "queens", "724\n");

	/* Each job was counted once. bytes:spoil is the one that fails. */
	jobs = 5 + 5 + 3 + 5 + 2000 + 3;
	DAEMON_AWAIT(daemon_counter(&d, "jobs_done") + daemon_counter(&d, "jobs_failed") > jobs);
	ck_assert_uint_eq(daemon_counter(&d, "jobs_done"), jobs);
	ck_assert_uint_eq(daemon_counter(&d, "jobs_failed"), 1);
	ck_assert_uint_eq(daemon_counter(&d, "jobs_started"), jobs + 1);
	ck_assert_uint_eq(daemon_counter(&d, "drained"), jobs + 1);
	ck_assert_uint_eq(daemon_counter(&d, "malformed_slots"), 0);
	ck_assert_uint_eq(daemon_counter(&d, "jobs_refused"), 0);
	ck_assert_int_eq(daemon_stop(&d), 0);
}

START_TEST(clients_of_different_programs_get_the_right_results_from_one_worker)
{
	all_clients("--workers=1");
}
END_TEST

START_TEST(clients_of_different_programs_get_the_right_results_from_two_workers)
{
	all_clients("--workers=2");
}
END_TEST

START_TEST(clients_of_different_programs_get_the_right_results_from_eight_workers)
{
	all_clients("--workers=8");
}
END_TEST

START_TEST(clients_of_different_programs_get_the_right_results_from_busy_workers)
{
	struct daemon d = { 0 };
	pid_t pids[5];

	daemon_start(&d, "--workers=2", "--scheduler=busy", NULL);
	for (int i = 0; i < 5; i++)
		pids[i] = start_client(&d, (enum kind)i, 1000000, 500);
	for (int i = 0; i < 5; i++)
		ck_assert_int_eq(daemon_reap(pids[i]), 0);
	ck_assert_int_eq(daemon_stop(&d), 0);
}
END_TEST

static void two_with_many(const char *workers, int64_t total)
{
	struct daemon d = { 0 };
	pid_t a, b;

	daemon_start(&d, workers, NULL);
	a = start_client(&d, MANY, 1, total);
	b = start_client(&d, MANY, INT64_C(1) << 40, total);
	ck_assert_int_eq(daemon_reap(a), 0);
	ck_assert_int_eq(daemon_reap(b), 0);
	DAEMON_AWAIT(daemon_counter(&d, "jobs_done") == 2 * (uint64_t)total);
	ck_assert_uint_eq(daemon_counter(&d, "drained"), 2 * (uint64_t)total);
	ck_assert_uint_eq(daemon_counter(&d, "jobs_failed"), 0);
	ck_assert_int_eq(daemon_stop(&d), 0);
}

START_TEST(two_clients_with_thousands_of_small_jobs_each_share_one_worker)
{
	two_with_many("--workers=1", 20000);
}
END_TEST

START_TEST(two_clients_with_thousands_of_small_jobs_each_share_two_workers)
{
	two_with_many("--workers=2", 20000);
}
END_TEST

START_TEST(two_clients_with_thousands_of_small_jobs_each_share_eight_workers)
{
	two_with_many("--workers=8", 20000);
}
END_TEST

START_TEST(slot_serves_one_client_after_another)
{
	struct daemon d = { 0 };
	int64_t n = 0;

	/* The watcher has one of the two slots. */
	daemon_start(&d, "--workers=2", "--clients-max=2", NULL);
	for (int i = 0; i < 100; i++) {
		fk_client *c = NULL;

		/* The slot is free once the pool has released it. */
		DAEMON_AWAIT(fk_open(d.socket, NULL, &c) == 0);
		ck_assert_int_eq(fk_call(c, "null:add", &n, (int64_t)i, INT64_C(1)), 0);
		ck_assert_int_eq(n, i + 1);
		ck_assert_int_eq(fk_close(c), 0);
	}
	ck_assert_int_eq(daemon_stop(&d), 0);
}
END_TEST

START_TEST(child_may_not_use_its_parents_client_and_the_parent_continues)
{
	struct daemon d = { 0 };
	fk_client *c;
	fk_job job;
	const fk_task *task;
	int64_t n = 0, args[2] = { 3, 4 };
	pid_t pid;

	daemon_start(&d, "--workers=2", NULL);
	c = daemon_open(&d);
	ck_assert_int_eq(fk_task_find(c, "null:add", &task), 0);
	ck_assert_int_eq(fk_submit_packed(c, task, args, sizeof(args), 0, &job), 0);
	pid = daemon_fork(DAEMON_UID);
	if (pid == 0) {
		fk_client *own;

		DAEMON_MUST(fk_wait(c, job, FK_FOREVER) == -EPERM);
		DAEMON_MUST(fk_call(c, "null:add", &n, INT64_C(1), INT64_C(1)) == -EPERM);
		DAEMON_MUST(fk_close(c) == -EPERM);
		own = open_in_client(&d, 0, 0);
		DAEMON_MUST(fk_call(own, "null:add", &n, INT64_C(1), INT64_C(1)) == 0);
		DAEMON_MUST(n == 2);
		DAEMON_MUST(fk_close(own) == 0);
		_exit(0);
	}
	ck_assert_int_eq(daemon_reap(pid), 0);
	ck_assert_int_eq(fk_wait(c, job, FK_FOREVER), 0);
	ck_assert_int_eq(fk_result(c, job, &n, sizeof(n)), 0);
	ck_assert_int_eq(n, 7);
	ck_assert_int_eq(fk_call(c, "null:add", &n, INT64_C(5), INT64_C(6)), 0);
	ck_assert_int_eq(n, 11);
	daemon_stop_close(&d, c);
}
END_TEST

CHECK_MAIN("scenario")
