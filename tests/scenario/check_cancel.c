/* SPDX-License-Identifier: MIT */
/*
 * cancel: jobs of a real forkd that end on request of their client, and excessive requests; also
 * batches, groups and places
 *
 * The gate: a job that keeps its worker until the test opens it. A job that is to be cancelled
 * while it runs takes a day.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>

#include "client/lib/client.h"
#include "common/util.h"
#include "shm/proto.h"
#define CHECK_TIMEOUT 300
#include "tests/support/check_unit.h"
#include "tests/support/jobs.h"

#define N	16u
#define FOREVER INT64_C(86400000) /* ms */

static struct daemon d;
static volatile uint8_t *gate_open;

/* Returns true if a worker has taken this job, and runs nothing else before it. */
static bool is_taken(fk_client *c, fk_job job)
{
	return atomic_load(&client_job(c, job)->drained_ns) >= client_slot(c, job)->submitted_ns;
}

static fk_job close_gate(fk_client *c)
{
	fk_job gate = jobs_hold(c, 0, &gate_open);

	DAEMON_AWAIT(is_taken(c, gate));
	return gate;
}

/* Waits until the pool has handled all earlier messages: this request takes the same way. */
static void settle(fk_client *c)
{
	fk_job job = jobs_submit(c, "fib:fib", 0, 10, 0);
	int err;

	while ((err = fk_cancel(c, job)) == -FK_E_REQUESTS_FULL)
		(void)poll(NULL, 0, 1);
	ck_assert_int_eq(err, 0);
	jobs_drop(c, job, "CANCELLED");
}

START_TEST(cancel_before_start_prevents_the_start)
{
	fk_client *c;
	fk_group group;
	fk_job gate, jobs[N];

	c = JOBS_BEGIN(&d, "--workers=1", NULL);
	ck_assert_int_eq(fk_group_new(c, &group), 0);
	gate = close_gate(c);
	for (uint32_t i = 0; i < N; i++)
		jobs[i] = jobs_submit_in(c, "fib:fib", 0, 10, group);
	/* Every other job, and some of these twice. */
	for (uint32_t i = 0; i < N; i++)
		if (i % 2)
			ck_assert_int_eq(fk_cancel(c, jobs[i - i % 4 / 2 * 2]), 0);
	for (uint32_t i = 0; i < N; i++)
		if (i % 2)
			ck_assert_int_eq(fk_cancel(c, jobs[i]), 0);
	settle(c);
	*gate_open = 1;
	ck_assert_int_eq(jobs_outcome(c, gate, NULL), FK_DONE);
	ck_assert_int_eq(fk_group_wait(c, group, FK_FOREVER), 0);
	for (uint32_t i = 0; i < N; i++) {
		int64_t n = 7;

		ck_assert_int_eq(fk_outcome(c, jobs[i], NULL, NULL),
				 i % 2 ? FK_CANCELLED : FK_DONE);
		ck_assert_int_eq(fk_result(c, jobs[i], &n, sizeof(n)), i % 2 ? -ECANCELED : 0);
		ck_assert_int_eq(n, i % 2 ? 7 : 55);
		/* The job is known, but it is too late. */
		ck_assert_int_eq(fk_cancel(c, jobs[i]), 0);
	}
	ck_assert_int_eq(fk_release_batch(c, jobs, N), 0);
	/* The same records again: earlier cancels have no effect. */
	for (uint32_t i = 0; i < N; i++)
		jobs[i] = jobs_submit_in(c, "fib:fib", 0, 10, group);
	ck_assert_int_eq(fk_group_wait(c, group, FK_FOREVER), 0);
	for (uint32_t i = 0; i < N; i++)
		ck_assert_int_eq(fk_outcome(c, jobs[i], NULL, NULL), FK_DONE);
	jobs_end(&d, c);
}
END_TEST

START_TEST(cancel_of_a_running_job_ends_as_cancelled)
{
	fk_client *c;
	fk_job job;
	int64_t n = 7;

	c = JOBS_BEGIN(&d, "--workers=1", NULL);
	job = jobs_submit(c, "crash:spin", 0, FOREVER, 0);
	DAEMON_AWAIT(is_taken(c, job));
	jobs_cancel(c, job);
	ck_assert_int_eq(fk_result(c, job, &n, sizeof(n)), -ECANCELED);
	ck_assert_int_eq(n, 7);
	jobs_end(&d, c);
}
END_TEST

START_TEST(cancel_of_the_job_of_another_client_is_refused)
{
	fk_client *a, *b;
	fk_job gate, mine, theirs;

	a = JOBS_BEGIN(&d, "--workers=1", NULL);
	b = daemon_open(&d);
	gate = close_gate(a);
	mine = jobs_submit(a, "fib:fib", 0, 10, 0);
	theirs = jobs_submit(b, "fib:fib", 0, 10, 0);
	/* The other client has a job with the same index and generation, and more. */
	ck_assert_int_eq(fk_cancel(b, theirs), 0);
	for (uint32_t i = 0; i < b->n_jobs; i++) {
		struct proto_cancel cancel = {
			.head = { PROTO_MAGIC, PROTO_CANCEL },
			.job = i,
			.generation = 1 + i % 3,
		};

		while (proto_send(b->fd, &cancel, sizeof(cancel), NULL, 0) == -EAGAIN)
			(void)poll(NULL, 0, 1);
	}
	ck_assert_int_eq(jobs_outcome(b, theirs, NULL), FK_CANCELLED);
	settle(b);
	*gate_open = 1;
	ck_assert_int_eq(jobs_outcome(a, gate, NULL), FK_DONE);
	ck_assert_int_eq(jobs_outcome(a, mine, NULL), FK_DONE);
	/* The next clients in the slot of a client that had cancelled jobs it never submitted. */
	fk_close(b);
	DAEMON_AWAIT(atomic_load(&d.board->manager.clients) == 2);
	for (int round = 0; round < 3; round++) {
		fk_client *next[4];
		fk_job jobs[8];

		for (int i = 0; i < 4; i++)
			next[i] = daemon_open(&d);
		for (int i = 0; i < 4; i++) {
			for (int k = 0; k < 8; k++)
				jobs[k] = jobs_submit(next[i], "fib:fib", 0, 5, 0);
			for (int k = 0; k < 8; k++)
				jobs_see(next[i], jobs[k], 5);
		}
		for (int i = 0; i < 4; i++)
			fk_close(next[i]);
	}
	jobs_end(&d, a);
}
END_TEST

START_TEST(malformed_cancel_ends_the_connection)
{
	static const struct proto_cancel bad[] = {
		{ { PROTO_MAGIC, PROTO_CANCEL }, UINT32_MAX, 1 },
		{ { PROTO_MAGIC, PROTO_CANCEL }, 256, 1 }, /* of 256 */
		{ { PROTO_MAGIC, PROTO_CANCEL }, 0, 0 },
		{ { PROTO_MAGIC, PROTO_CANCEL }, 0, JOB_GEN_MASK + 1 },
		{ { PROTO_MAGIC, PROTO_POOL_CANCEL }, 0, 1 },
		{ { PROTO_MAGIC, PROTO_HELLO }, 0, 1 },
		{ { 0, PROTO_CANCEL }, 0, 1 },
	};
	int64_t n;
	fk_client *c;

	daemon_start(&d, "--workers=1", NULL);
	for (size_t i = 0; i < 2 * ARRAY_SIZE(bad); i++) {
		char byte;

		c = daemon_open(&d);
		ck_assert_int_eq(fk_call(c, "fib:fib", &n, (int64_t)10), 0);
		/* Truncated, too. */
		ck_assert_int_eq(proto_send(c->fd, &bad[i / 2],
					    (uint32_t)sizeof(bad[0]) - (i % 2 ? 4 : 0), NULL, 0),
				 0);
		ck_assert_int_eq(recv(c->fd, &byte, 1, 0), 0);
		ck_assert(client_gone(c));
		fk_close(c);
	}
	c = daemon_open(&d);
	ck_assert_int_eq(fk_call(c, "fib:fib", &n, (int64_t)10), 0);
	jobs_end(&d, c);
}
END_TEST

START_TEST(flood_of_cancels_delays_no_other_client)
{
	fk_client *flood, *c;
	uint64_t sent = 0;
	fk_job gate;
	int64_t n;

	/* Without a hang timeout: the gate never forks. */
	flood = JOBS_BEGIN(&d, "--workers=2", "--hang-timeout=0", NULL);
	gate = close_gate(flood);
	for (int round = 0; round < 50; round++) {
		for (int i = 0; i < 400; i++) {
			int err = fk_cancel(flood, gate);

			ck_assert(err == 0 || err == -FK_E_REQUESTS_FULL);
			sent += !err;
		}
		c = daemon_open(&d);
		ck_assert_int_eq(fk_call(c, "fib:fib", &n, (int64_t)10), 0);
		ck_assert_int_eq(n, 55);
		fk_close(c);
	}
	ck_assert_uint_gt(sent, 0);
	*gate_open = 1;
	ck_assert_int_eq(jobs_outcome(flood, gate, NULL), FK_CANCELLED);
	jobs_end(&d, flood);
}
END_TEST

/* Each job of a batch has its outcome, and the group its end, if the pool dies. */
START_TEST(group_ends_if_the_pool_dies)
{
	struct fk_request requests[N] = { 0 };
	int64_t ms = 20, arguments[N];
	fk_group group;
	fk_job jobs[N];
	fk_client *c;

	c = JOBS_BEGIN(&d, "--workers=2", NULL);
	ck_assert_int_eq(fk_group_new(c, &group), 0);
	for (uint32_t i = 0; i < N; i++) {
		arguments[i] = i % 4 ? 10 : ms;
		requests[i] = (struct fk_request){
			.task = jobs_task(c, i % 4 ? "fib:fib" : "crash:hang"),
			.args = &arguments[i],
			.size = sizeof(arguments[i]),
			.options.group = group,
		};
	}
	requests[N / 2] = (struct fk_request){
		.task = jobs_task(c, "crash:segv"),
		.options.group = group,
	};
	for (int round = 0; round < 5; round++) {
		uint32_t crashed = 0;

		ck_assert_int_eq(fk_submit_batch(c, requests, N, 0, jobs), 0);
		ck_assert_int_eq(fk_group_wait(c, group, FK_FOREVER), 0);
		for (uint32_t i = 0; i < N; i++) {
			int is = fk_outcome(c, jobs[i], NULL, NULL);

			ck_assert(is == FK_DONE || is == FK_CRASHED || is == FK_LOST);
			crashed += is == FK_CRASHED;
			ck_assert_int_eq(is == FK_CRASHED, i == N / 2);
		}
		ck_assert_uint_eq(crashed, 1);
		ck_assert_int_eq(fk_release_batch(c, jobs, N), 0);
	}
	fk_close(c);
	(void)daemon_stop(&d);
}
END_TEST

/* A chain is taken off its ring in parts. The records of a part that was taken are released, and
 * hold other jobs when the pool dies. The rest is found all the same. */
START_TEST(no_part_of_a_chain_is_lost_if_the_pool_dies)
{
	enum { LONG = 4000 };
	struct fk_open_options options = { .n_jobs = LONG };
	static struct fk_request requests[LONG];
	static fk_job jobs[LONG];
	int64_t argument = 20;
	fk_client *c;

	daemon_start(&d, "--workers=1", "--jobs-max=4096", NULL);
	ck_assert_int_eq(fk_open(d.socket, &options, &c), 0);
	for (uint32_t i = 0; i < LONG; i++)
		requests[i] = (struct fk_request){
			.task = jobs_task(c, "fib:fib"),
			.args = &argument,
			.size = sizeof(argument),
		};
	for (int round = 0; round < 5; round++) {
		ck_assert_int_eq(fk_submit_batch(c, requests, LONG, 0, jobs), 0);
		/* The record that the ring's word names. */
		ck_assert_int_eq(fk_wait(c, jobs[0], FK_FOREVER), 0);
		ck_assert_int_eq(fk_release(c, jobs[0]), 0);
		jobs[0] = jobs_submit(c, "fib:fib", 0, 10, 0);
		ck_assert_int_eq(kill(daemon_pool(&d), SIGKILL), 0);
		for (uint32_t i = 0; i < LONG; i++) {
			int is;

			/* No job is lost. */
			DAEMON_AWAIT_AMID(fk_poll(c, jobs[i]), daemon_counter(&d, "jobs_done"));
			is = fk_outcome(c, jobs[i], NULL, NULL);
			ck_assert(is == FK_DONE || is == FK_LOST);
		}
		ck_assert_int_eq(fk_release_batch(c, jobs, LONG), 0);
	}
	fk_close(c);
	(void)daemon_stop(&d);
}
END_TEST

/* The pool would wait an hour for it. */
START_TEST(draining_pool_still_handles_cancels)
{
	fk_client *c;
	fk_job job;

	c = JOBS_BEGIN(&d, "--workers=1", "--stop-timeout=3600s", NULL);
	job = jobs_submit(c, "spin:tree", 0, 1000000000, 20);
	DAEMON_AWAIT(is_taken(c, job));
	ck_assert_int_eq(kill(d.manager, SIGTERM), 0);
	DAEMON_AWAIT(atomic_load(&d.board->manager.state) == BOARD_STOPPING);
	jobs_cancel(c, job);
	ck_assert_int_eq(fk_close(c), 0);
	ck_assert_int_eq(daemon_wait(&d), 0);
}
END_TEST

START_TEST(forkctl_cancels_at_its_time_limit)
{
	char text[1024];

	daemon_start(&d, "--workers=1", NULL);
	ck_assert_int_eq(daemon_ctl(&d, text, sizeof(text), "call", "--timeout=10ms", "crash:spin",
				    "86400000", NULL),
			 1);
	ck_assert_msg(strstr(text, "CANCELLED") && strstr(text, "10ms"), "%s", text);
	ck_assert_int_eq(daemon_ctl(&d, text, sizeof(text), "call", "--timeout", "60s",
				    "--worker=0", "--deadline=60min", "fib:fib", "20", NULL),
			 0);
	ck_assert_str_eq(text, "6765\n");
	ck_assert_int_eq(
		daemon_ctl(&d, text, sizeof(text), "call", "--worker=7", "fib:fib", "20", NULL), 2);
	ck_assert_msg(strstr(text, "--worker") && strstr(text, "7"), "%s", text);
	ck_assert_int_eq(
		daemon_ctl(&d, text, sizeof(text), "call", "--node=99", "fib:fib", "20", NULL), 2);
	ck_assert_int_eq(daemon_ctl(&d, text, sizeof(text), "call", "--timeout=soon", "fib:fib",
				    "20", NULL),
			 2);
	ck_assert_msg(strstr(text, "soon"), "%s", text);
	ck_assert_int_eq(daemon_stop(&d), 0);
}
END_TEST

START_TEST(forkctl_cancels_when_it_is_interrupted)
{
	static const char *const argv[] = { "forkctl", "call", "crash:spin", "86400000", NULL };
	pid_t pid;

	daemon_start(&d, "--workers=1", NULL);
	pid = daemon_spawn(&d, "interrupted", argv);
	DAEMON_AWAIT(daemon_counter(&d, "drained") == 1);
	ck_assert_int_eq(kill(pid, SIGINT), 0);
	ck_assert_int_eq(daemon_reap(pid), 1);
	ck_assert_int_eq(daemon_stop(&d), 0);
}
END_TEST

CHECK_MAIN("cancel")
