/* SPDX-License-Identifier: MIT */
/*
 * gearman:// of fk_open(), with a real gearmand, real gateways and a real forkd.
 *
 * tests/unit/gearman/check_client has what depends on one answer of a server.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK_TIMEOUT  550
#define CHECK_SETUP    setup
#define CHECK_TEARDOWN teardown

#include "common/cleanup.h"
#include "common/util.h"
#include "tests/gearman/protocol.h"
#include "tests/support/check_unit.h"
#include "tests/support/daemon.h"
#include "tests/support/oracle.h"

#define GATEWAYS 3
#define CLIENTS	 2

static struct daemon d;
static pid_t server, gateways[GATEWAYS];
static uint16_t port;
static char name[64];
static fk_client *client;

/* Starts a gateway, and waits until its tasks can be found. */
static void start_gateway(uint32_t i)
{
	char option[64], log[32];

	(void)snprintf(option, sizeof(option), "--server=127.0.0.1:%u", port);
	(void)snprintf(log, sizeof(log), "gateway%u.log", i);
	gateways[i] = daemon_spawn(&d, log, (const char *const[]){ "forkd-gearman", option, NULL });
}

static void setup(void)
{
	char path[4096];

	(void)snprintf(path, sizeof(path), "%s/.libs", getenv("top_builddir"));
	ck_assert_int_eq(setenv("FORKD_PLUGIN_DIR", path, 1), 0);
	daemon_start(&d, "--workers=2", "--quarantine-task-crashes=100", NULL);
	server = protocol_server(&port);
	ck_assert_msg(server > 0, "gearmand does not start: %s", strerror(-server));
	(void)snprintf(name, sizeof(name), "gearman://127.0.0.1:%u", port);
}

static void teardown(void)
{
	if (client)
		ck_assert_int_eq(fk_close(client), 0);
	for (uint32_t i = 0; i < GATEWAYS; i++)
		if (gateways[i]) {
			(void)kill(gateways[i], SIGTERM);
			ck_assert_int_eq(daemon_reap(gateways[i]), 0);
		}
	protocol_kill(server);
	ck_assert_int_eq(daemon_stop(&d), 0);
}

static void open_cluster(uint32_t n_jobs)
{
	const struct fk_open_options options = { .n_jobs = n_jobs };
	const fk_task *task;

	ck_assert_msg(fk_open(name, &options, &client) == 0, "%s", fk_error_text());
	DAEMON_AWAIT(!fk_task_find(client, "fib:fib", &task));
}

static void assert_text(const char *part)
{
	ck_assert_msg(strstr(fk_error_text(), part) != NULL, "no \"%s\" in \"%s\"", part,
		      fk_error_text());
}

START_TEST(ten_thousand_jobs_through_three_gateways_are_right)
{
	static const int64_t fib[] = { 0, 1, 1, 2, 3, 5, 8, 13, 21, 34 };
	static int64_t numbers[10000], results[10000];
	struct fk_pool_info info;

	for (uint32_t i = 0; i < GATEWAYS; i++)
		start_gateway(i);
	open_cluster(4096);
	DAEMON_AWAIT(!fk_pool_info(client, &info) && info.workers == GATEWAYS * 4);
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		numbers[i] = (int64_t)(i % ARRAY_SIZE(fib));
	ck_assert_int_eq(fk_call_each(client, "fib:fib", ARRAY_SIZE(numbers), results, numbers), 0);
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		ck_assert_int_eq(results[i], fib[numbers[i]]);
}
END_TEST

START_TEST(large_buffers_travel_both_ways)
{
	const size_t n = 2u << 20; /* 16 MiB */
	int64_t *data = malloc(n * sizeof(*data));

	ck_assert_ptr_nonnull(data);
	start_gateway(0);
	open_cluster(0);
	for (size_t i = 0; i < n; i++)
		data[i] = (int64_t)(n - i);
	ck_assert_msg(fk_call(client, "sort:i64", NULL, FK_BUFFER(data, n * sizeof(*data))) == 0,
		      "%s", fk_error_text());
	for (size_t i = 0; i < n; i++)
		ck_assert_int_eq(data[i], (int64_t)i + 1);
	free(data);
}
END_TEST

START_TEST(failures_have_the_text_of_the_machine)
{
	uint8_t data[8] = "1234567";
	int64_t result;

	start_gateway(0);
	open_cluster(0);
	ck_assert_int_eq(fk_call(client, "bytes:spoil", NULL, FK_BUFFER(data, sizeof(data))),
			 -EREMOTEIO);
	assert_text("bytes:spoil: FAILED");
	assert_text("77");
	ck_assert_str_eq((char *)data, "1234567");
	ck_assert_int_eq(fk_call(client, "crash:abort", NULL), -ENOTRECOVERABLE);
	assert_text("crash:abort: CRASHED by signal 6 (ABRT)");
	ck_assert_int_eq(fk_call(client, "fib:none", &result, 1), -FK_E_NO_TASK);
	assert_text("have the module fib, but not this task");
	ck_assert_int_eq(fk_call(client, "none:fib", &result, 1), -FK_E_NO_TASK);
	assert_text("has the module none");
}
END_TEST

START_TEST(deadline_and_cancel_end_a_task_that_runs)
{
	const struct fk_job_options options = { .timeout_ns = 100 * NSEC_PER_MSEC };
	const fk_task *task;
	fk_job job;

	start_gateway(0);
	open_cluster(0);
	ck_assert_int_eq(fk_task_find(client, "spin:tree", &task), 0);
	ck_assert_int_eq(fk_submit_opts(client, task, &options, &job, 1000000000, 10), 0);
	ck_assert_int_eq(fk_wait(client, job, FK_FOREVER), 0);
	ck_assert_int_eq(fk_outcome(client, job, NULL, NULL), FK_EXPIRED);
	ck_assert_int_eq(fk_submit_opts(client, task, &options, &job, 1000000000, 10), 0);
	ck_assert_int_eq(fk_cancel(client, job), 0);
	ck_assert_int_eq(fk_wait(client, job, FK_FOREVER), 0);
	ck_assert_int_eq(fk_outcome(client, job, NULL, NULL), FK_CANCELLED);
}
END_TEST

START_TEST(forkctl_calls_and_lists)
{
	char text[8192];

	start_gateway(0);
	open_cluster(0);
	ck_assert_int_eq(setenv("FORKD_SOCKET", name, 1), 0);
	ck_assert_int_eq(daemon_run(&d, text, sizeof(text),
				    (const char *const[]){ "forkctl", "--socket", name, "call",
							   "fib:fib", "20", NULL }),
			 0);
	ck_assert_str_eq(text, "6765\n");
	ck_assert_int_eq(daemon_run(&d, text, sizeof(text),
				    (const char *const[]){ "forkctl", "--socket", name, "tasks",
							   "fib", NULL }),
			 0);
	ck_assert_ptr_nonnull(strstr(text, "fib:fib  n:i64 -> i64"));
	ck_assert_int_eq(
		daemon_run(&d, text, sizeof(text),
			   (const char *const[]){ "forkctl", "--socket", name, "status", NULL }),
		2);
	ck_assert_ptr_nonnull(strstr(text, "is a cluster: this command is for one machine's "
					   "forkd"));
}
END_TEST

/* Clients submit jobs while parts of the cluster are killed. */
START_TEST(killed_gateways_and_servers_lose_no_idempotent_job)
{
	_Atomic uint64_t *ended = daemon_share(CLIENTS * sizeof(*ended));
	struct oracle_verdict v;
	pid_t pids[CLIENTS];
	struct oracle o;

	for (uint32_t i = 0; i < GATEWAYS; i++)
		start_gateway(i);
	open_cluster(0);
	oracle_init(&o, d.directory);
	for (uint32_t i = 0; i < CLIENTS; i++) {
		pids[i] = daemon_fork(DAEMON_UID);
		if (pids[i] == 0)
			_exit(oracle_serve(&o, name, &ended[i]));
	}
	for (uint32_t i = 0; i < 4; i++) {
		oracle_await_each(ended, CLIENTS);
		if (i % 2) {
			protocol_kill(server);
			server = protocol_server_at(port);
			ck_assert_int_gt(server, 0);
		} else {
			protocol_kill(gateways[i / 2]);
			start_gateway(i / 2);
		}
	}
	oracle_await_each(ended, CLIENTS);
	atomic_store(&o.shared->stop, 1);
	for (uint32_t i = 0; i < CLIENTS; i++)
		ck_assert_int_eq(daemon_reap(pids[i]), 0);
	ck_assert_msg(oracle_judge(&o, &v), "%s", v.wrong);
	ck_assert_uint_eq(v.lost_idempotent, 0);
	ck_assert_uint_eq(v.outcomes[FK_DONE] + v.outcomes[FK_LOST], v.submitted);
	ck_assert_uint_gt(v.outcomes[FK_DONE], 0);
	oracle_fini(&o);
}
END_TEST

CHECK_MAIN("cluster")
