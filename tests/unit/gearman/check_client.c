/* SPDX-License-Identifier: MIT */
/* gearman:// of fk_open(), with a stub of the job server and its gateways. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/lib/client.h"
#include "common/cleanup.h"
#include "tests/support/check_unit.h"
#include "tests/support/stub_server.h"

#define JOBS 300

/* Part of the stack of each thread, as in a program with large thread-local variables. */
static _Thread_local volatile char large[1 << 20];

static struct stub_server *server;
static fk_client *client;

static void plugin_of_the_build(void)
{
	char path[4096];

	(void)snprintf(path, sizeof(path), "%s/.libs", getenv("top_builddir"));
	ck_assert_int_eq(setenv("FORKD_PLUGIN_DIR", path, 1), 0);
}

static fk_client *open_ports(uint32_t n_jobs, uint16_t a, uint16_t b)
{
	const struct fk_open_options options = { .n_jobs = n_jobs };
	fk_client *opened = NULL;
	char name[128];
	int err;

	(void)snprintf(name, sizeof(name), "gearman://127.0.0.1:%u", a);
	if (b)
		(void)snprintf(name + strlen(name), sizeof(name) - strlen(name), ",127.0.0.1:%u",
			       b);
	err = fk_open(name, &options, &opened);
	ck_assert_msg(err == 0, "%s", fk_error_text());
	return opened;
}

static void start(void)
{
	plugin_of_the_build();
	large[0] = 1;
	server = stub_server_start(0);
	client = open_ports(JOBS, stub_server_port(server), 0);
}

static void end(void)
{
	ck_assert_int_eq(fk_close(client), 0);
	stub_server_stop(server);
}

static const fk_task *find(const char *name)
{
	const fk_task *task = NULL;

	ck_assert_msg(fk_task_find(client, name, &task) == 0, "%s", fk_error_text());
	return task;
}

static fk_job submit(const char *name, int64_t n, unsigned int flags)
{
	fk_job job;

	ck_assert_int_eq(fk_submit(client, find(name), flags, &job, n), 0);
	return job;
}

/* Waits for a job, and releases it. Returns its outcome. */
static int outcome(fk_job job, int *ret_code)
{
	int result;

	ck_assert_int_eq(fk_wait(client, job, FK_FOREVER), 0);
	result = fk_outcome(client, job, ret_code, NULL);
	ck_assert_int_eq(fk_release(client, job), 0);
	return result;
}

static void assert_text(const char *part)
{
	ck_assert_msg(strstr(fk_error_text(), part) != NULL, "no \"%s\" in \"%s\"", part,
		      fk_error_text());
}

static int open_fails(const char *name)
{
	fk_client *opened;
	int err;

	plugin_of_the_build();
	err = fk_open(name, NULL, &opened);
	ck_assert_int_lt(err, 0);
	return err;
}

static int open_port_fails(uint16_t port)
{
	char name[64];

	(void)snprintf(name, sizeof(name), "gearman://127.0.0.1:%u", port);
	return open_fails(name);
}

/* ------------------------------------------------------------------------ calls */

START_TEST(call_returns_its_result)
{
	int64_t sum;

	start();
	ck_assert_int_eq(fk_call(client, "stub:add", &sum, 3, 4), 0);
	ck_assert_int_eq(sum, 7);
	ck_assert_uint_eq(stub_server_counts(server).options, 1);
	end();
}
END_TEST

START_TEST(arguments_of_all_types_travel)
{
	struct {
		int64_t length;
		double x;
	} results;
	char digits[] = "123";
	fk_job job;

	start();
	ck_assert_int_eq(fk_submit(client, find("stub:args"), FK_COPY_BUFFERS, &job, "four",
				   FK_BUFFER(digits, 3), 2.5),
			 0);
	ck_assert_int_eq(fk_wait(client, job, FK_FOREVER), 0);
	ck_assert_int_eq(fk_result(client, job, &results, sizeof(results)), 0);
	ck_assert_int_eq(results.length, 7);
	ck_assert_double_eq(results.x, 2.5);
	ck_assert_int_eq(fk_release(client, job), 0);
	end();
}
END_TEST

START_TEST(iobuf_of_any_memory_is_copied_back)
{
	static const size_t sizes[] = { 0, 1, 63, 4096, 5u << 20 };

	start();
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		_cleanup_free_ uint8_t *data = malloc(sizes[i] + 1);
		int64_t size;

		memset(data, 0x0f, sizes[i] + 1);
		ck_assert_int_eq(fk_call(client, "stub:turn", &size, FK_BUFFER(data, sizes[i])), 0);
		ck_assert_int_eq(size, (int64_t)sizes[i]);
		for (size_t j = 0; j < sizes[i]; j++)
			ck_assert_uint_eq(data[j], 0xf0);
		ck_assert_uint_eq(data[sizes[i]], 0x0f);
	}
	end();
}
END_TEST

START_TEST(each_job_of_many_has_its_result)
{
	int64_t numbers[5000], sums[5000];

	start();
	for (int64_t i = 0; i < 5000; i++)
		numbers[i] = i;
	ck_assert_int_eq(fk_call_each(client, "stub:add", ARRAY_SIZE(sums), sums, numbers, 10), 0);
	for (int64_t i = 0; i < 5000; i++)
		ck_assert_int_eq(sums[i], i + 10);
	ck_assert_uint_eq(stub_server_counts(server).calls, 5000);
	end();
}
END_TEST

START_TEST(long_jobs_do_not_delay_others)
{
	fk_job held[JOBS - 1];
	int64_t sum;

	start();
	for (size_t i = 0; i < ARRAY_SIZE(held); i++)
		held[i] = submit("stub:hold", (int64_t)i, 0);
	stub_server_wait_held(server, ARRAY_SIZE(held));
	ck_assert_int_eq(fk_call(client, "stub:add", &sum, 1, 1), 0);
	stub_server_release(server);
	for (size_t i = 0; i < ARRAY_SIZE(held); i++) {
		ck_assert_int_eq(fk_wait(client, held[i], FK_FOREVER), 0);
		ck_assert_int_eq(fk_result(client, held[i], &sum, sizeof(sum)), 0);
		ck_assert_int_eq(sum, (int64_t)i);
	}
	end();
}
END_TEST

START_TEST(group_and_watch_report_ends)
{
	const struct fk_job_options options = { .flags = FK_WATCH };
	fk_group group;
	fk_job jobs[10], job;
	size_t index;
	void *data;

	start();
	ck_assert_int_eq(fk_group_new(client, &group), 0);
	for (uint32_t i = 0; i < 10; i++) {
		struct fk_job_options grouped = options;

		grouped.group = group;
		ck_assert_int_eq(fk_submit_opts(client, find("stub:hold"), &grouped, &jobs[i], i),
				 0);
	}
	stub_server_wait_held(server, 10);
	ck_assert_int_eq(fk_group_wait(client, group, 0), -ETIMEDOUT);
	stub_server_release(server);
	ck_assert_int_eq(fk_group_wait(client, group, FK_FOREVER), 0);
	for (uint32_t i = 0; i < 10; i++)
		ck_assert_int_eq(fk_next_completion(client, FK_FOREVER, &job, &data), 0);
	ck_assert_int_eq(fk_wait_any(client, jobs, 10, FK_FOREVER, &index), 0);
	ck_assert_int_eq(fk_wait_all(client, jobs, 10, FK_FOREVER), 0);
	end();
}
END_TEST

START_TEST(event_fd_becomes_readable)
{
	struct pollfd poll_fd = { .events = POLLIN };
	fk_job job, ended;
	void *data;

	start();
	job = submit("stub:hold", 1, 0);
	ck_assert_int_eq(fk_watch(client, job, NULL, NULL), 0);
	ck_assert_int_eq(fk_event_fd(client, &poll_fd.fd), 0);
	ck_assert_int_eq(poll(&poll_fd, 1, 0), 0);
	stub_server_wait_held(server, 1);
	stub_server_release(server);
	ck_assert_int_eq(poll(&poll_fd, 1, -1), 1);
	ck_assert_int_eq(fk_next_completion(client, 0, &ended, &data), 0);
	ck_assert(ended == job);
	end();
}
END_TEST

START_TEST(timings_are_those_of_the_machine)
{
	struct fk_timings timings;
	fk_job job;

	start();
	ck_assert_int_eq(fk_submit(client, find("stub:add"), 0, &job, 1, 2), 0);
	ck_assert_int_eq(fk_wait(client, job, FK_FOREVER), 0);
	ck_assert_int_eq(fk_timings(client, job, &timings), 0);
	ck_assert_uint_eq(timings.run_ns, 1000);
	end();
}
END_TEST

/* ------------------------------------------------------------------------ options of a job */

START_TEST(weight_sets_the_priority_and_travels)
{
	static const uint32_t weights[] = { 500, 20, 100, 0 };
	struct stub_server_counts counts;
	int64_t sum;

	start();
	for (size_t i = 0; i < ARRAY_SIZE(weights); i++) {
		const struct fk_job_options options = { .weight = weights[i] };

		ck_assert_int_eq(fk_call_opts(client, "stub:add", &options, &sum, 1, 1), 0);
		ck_assert_uint_eq(stub_server_counts(server).weight, weights[i]);
	}
	counts = stub_server_counts(server);
	ck_assert_uint_eq(counts.high, 1);
	ck_assert_uint_eq(counts.low, 1);
	end();
}
END_TEST

START_TEST(deadline_ends_the_job_and_travels)
{
	const struct fk_job_options options = { .timeout_ns = 20 * NSEC_PER_MSEC };
	fk_job job;

	start();
	ck_assert_int_eq(fk_submit_opts(client, find("stub:hold"), &options, &job, 1), 0);
	ck_assert_int_eq(outcome(job, NULL), FK_EXPIRED);
	ck_assert_uint_eq(stub_server_counts(server).timeouts, 1);
	/* The answer that comes later belongs to no job. */
	stub_server_release(server);
	job = submit("stub:hold", 5, 0);
	stub_server_wait_held(server, 1);
	stub_server_release(server);
	ck_assert_int_eq(outcome(job, NULL), FK_DONE);
	end();
}
END_TEST

START_TEST(cancel_ends_the_job_at_once)
{
	fk_job jobs[50];

	start();
	for (uint32_t i = 0; i < 50; i++)
		jobs[i] = submit("stub:hold", i, 0);
	stub_server_wait_held(server, 50);
	for (uint32_t i = 0; i < 50; i += 2)
		ck_assert_int_eq(fk_cancel(client, jobs[i]), 0);
	for (uint32_t i = 0; i < 50; i += 2)
		ck_assert_int_eq(outcome(jobs[i], NULL), FK_CANCELLED);
	ck_assert_uint_eq(stub_server_counts(server).held, 50);
	stub_server_release(server);
	for (uint32_t i = 1; i < 50; i += 2)
		ck_assert_int_eq(outcome(jobs[i], NULL), FK_DONE);
	end();
}
END_TEST

START_TEST(place_is_refused)
{
	const struct fk_job_options worker = { .place = FK_PLACE_WORKER };
	const struct fk_job_options node = { .place = FK_PLACE_NODE };
	fk_job job;

	start();
	ck_assert_int_eq(fk_submit_opts(client, find("stub:add"), &worker, &job, 1, 1),
			 -FK_E_PLACE);
	assert_text("stub:add: the cluster chooses the machine: submit the job without a place");
	ck_assert_int_eq(fk_submit_opts(client, find("stub:add"), &node, &job, 1, 1), -FK_E_PLACE);
	end();
}
END_TEST

/* ------------------------------------------------------------------------ failures of jobs */

START_TEST(exceptions_become_outcomes_with_their_texts)
{
	static const struct {
		const char *line;
		int err;
		const char *text;
	} rows[] = {
		{ "FAILED -74: Bad message: the data is damaged", -EBADMSG,
		  "stub:say: FAILED: Bad message: the data is damaged" },
		{ "FAILED 12: with code 12 of its own", -EREMOTEIO,
		  "stub:say: FAILED: with code 12 of its own" },
		{ "CRASHED 11: by signal 11 (SEGV)", -ENOTRECOVERABLE,
		  "stub:say: CRASHED: by signal 11 (SEGV)" },
		{ "EXPIRED 0: EXPIRED", -ETIME, "stub:say: EXPIRED" },
		{ "CANCELLED 0: CANCELLED", -ECANCELED, "stub:say: CANCELLED" },
		{ "REFUSED -13: the rules deny this task", -EACCES,
		  "stub:say: REFUSED: the rules deny this task" },
		{ "REFUSED -4111: not enough arguments", -FK_E_SIGNATURE,
		  "stub:say: REFUSED: not enough arguments" },
		{ "UNKNOWN 0: the task may have run: started by m1", -EOWNERDEAD,
		  "stub:say: LOST: unknown, may have run: started by m1" },
		{ "LOST 0: the pool ended", -EOWNERDEAD,
		  "stub:say: LOST: unknown, may have run: the pool ended" },
		{ "REFUSED 99: odd", -EINVAL, "stub:say: REFUSED: odd" },
		{ "FAILED -74: a \033 b", -EBADMSG, "stub:say: FAILED: a ? b" },
		{ "WHAT 0: else", -EPROTO,
		  "stub:say: FAILED: the worker is no gateway of forkd: WHAT 0: else" },
		{ "Traceback", -EPROTO,
		  "stub:say: FAILED: the worker is no gateway of forkd: Traceback" },
	};
	const struct fk_job_options idempotent = { .flags = FK_IDEMPOTENT };
	int64_t result;

	start();
	ck_assert_int_eq(FK_E_SIGNATURE, 4111);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		ck_assert_int_eq(fk_call(client, "stub:say", &result, rows[i].line), rows[i].err);
		ck_assert_str_eq(fk_error_text(), rows[i].text);
	}
	ck_assert_int_eq(fk_call_opts(client, "stub:say", &idempotent, &result, "WHAT 0: else"),
			 -EPROTO);
	ck_assert_int_eq(fk_call(client, "stub:junk", &result, 1), -EBADMSG);
	assert_text("the answer is malformed");
	end();
}
END_TEST

START_TEST(failure_without_text_is_lost_unless_idempotent)
{
	const struct fk_job_options idempotent = { .flags = FK_IDEMPOTENT };
	int64_t result;

	start();
	ck_assert_int_eq(fk_call(client, "stub:fail", &result, 1), -EOWNERDEAD);
	assert_text("LOST: unknown, may have run: its gateway has left 127.0.0.1:");
	ck_assert_int_eq(fk_call_opts(client, "stub:fail", &idempotent, &result, 4), 0);
	ck_assert_int_eq(result, 7);
	ck_assert_uint_eq(stub_server_counts(server).calls, 5);
	ck_assert_uint_eq(stub_server_counts(server).idempotent, 4);
	end();
}
END_TEST

START_TEST(full_server_gets_the_job_again)
{
	int64_t result;

	start();
	ck_assert_int_eq(fk_call(client, "stub:full", &result, 1), 0);
	ck_assert_uint_eq(stub_server_counts(server).calls, 3);
	end();
}
END_TEST

START_TEST(signature_of_another_version_is_refused)
{
	int64_t sum;

	start();
	ck_assert_int_eq(fk_call(client, "stub:add", &sum, 1, 1), 0);
	stub_server_change(server);
	ck_assert_int_eq(fk_call(client, "stub:add", &sum, 1, 1), -FK_E_TASK_GONE);
	assert_text("stub:add: REFUSED: ");
	/* The next call finds the new one. */
	ck_assert_int_eq(fk_call(client, "stub:add", &sum, 1, 1), -FK_E_SIGNATURE);
	assert_text("n:i64, m:i64, o:i64");
	end();
}
END_TEST

START_TEST(lost_connection_reruns_idempotent_jobs_only)
{
	fk_job again, once, unsent;
	int64_t result;

	start();
	again = submit("stub:hold", 1, FK_IDEMPOTENT);
	once = submit("stub:hold", 2, 0);
	stub_server_wait_held(server, 2);
	stub_server_cut(server);
	ck_assert_int_eq(fk_wait(client, once, FK_FOREVER), 0);
	ck_assert_int_eq(fk_result(client, once, &result, sizeof(result)), -EOWNERDEAD);
	assert_text("LOST: unknown, may have run: the connection to 127.0.0.1:");
	stub_server_wait_held(server, 1);
	unsent = submit("stub:hold", 3, 0);
	stub_server_wait_held(server, 2);
	stub_server_release(server);
	ck_assert_int_eq(fk_wait(client, again, FK_FOREVER), 0);
	ck_assert_int_eq(fk_result(client, again, &result, sizeof(result)), 0);
	ck_assert_int_eq(result, 1);
	ck_assert_int_eq(outcome(unsent, NULL), FK_DONE);
	end();
}
END_TEST

START_TEST(jobs_wait_for_a_server_that_restarts)
{
	uint16_t port;
	fk_job again, later;

	start();
	port = stub_server_port(server);
	again = submit("stub:hold", 1, FK_IDEMPOTENT);
	stub_server_wait_held(server, 1);
	stub_server_stop(server);
	later = submit("stub:hold", 2, FK_IDEMPOTENT);
	ck_assert_int_eq(fk_wait(client, later, 300 * NSEC_PER_MSEC), -ETIMEDOUT);
	server = stub_server_start(port);
	stub_server_wait_held(server, 2);
	stub_server_release(server);
	ck_assert_int_eq(outcome(again, NULL), FK_DONE);
	ck_assert_int_eq(outcome(later, NULL), FK_DONE);
	end();
}
END_TEST

/* Waits until the client knows that both servers have answered: it reads their first answers at the
 * latest with that of a call. */
static void wait_for_both(struct stub_server *other)
{
	int64_t sum;

	while (!stub_server_counts(server).options || !stub_server_counts(other).options)
		usleep(1000);
	ck_assert_int_eq(fk_call(client, "stub:add", &sum, 1, 1), 0);
}

START_TEST(other_servers_take_over)
{
	struct stub_server *other;
	fk_job jobs[20];

	plugin_of_the_build();
	server = stub_server_start(0);
	other = stub_server_start(0);
	client = open_ports(JOBS, stub_server_port(server), stub_server_port(other));
	wait_for_both(other);
	for (uint32_t i = 0; i < 20; i++)
		jobs[i] = submit("stub:hold", i, FK_IDEMPOTENT);
	stub_server_wait_held(server, 1);
	stub_server_wait_held(other, 1);
	ck_assert_uint_gt(stub_server_counts(other).held, 0);
	stub_server_stop(other);
	stub_server_wait_held(server, 20);
	stub_server_release(server);
	for (uint32_t i = 0; i < 20; i++)
		ck_assert_int_eq(outcome(jobs[i], NULL), FK_DONE);
	end();
}
END_TEST

START_TEST(texts_of_jobs_outlive_their_records)
{
	char lines[100][64];
	fk_job jobs[100];
	int64_t sum;

	plugin_of_the_build();
	server = stub_server_start(0);
	client = open_ports(50, stub_server_port(server), 0);
	for (uint32_t i = 0; i < 100; i++) {
		(void)snprintf(lines[i], sizeof(lines[i]), "FAILED -5: job %u", i);
		ck_assert_int_eq(fk_submit(client, find("stub:say"), FK_WAIT_ROOM, &jobs[i],
					   (const char *)lines[i]),
				 0);
	}
	for (uint32_t i = 0; i < 100; i++) {
		char text[64];

		ck_assert_int_eq(fk_wait(client, jobs[i], FK_FOREVER), 0);
		ck_assert_int_eq(fk_result(client, jobs[i], &sum, sizeof(sum)), -EIO);
		(void)snprintf(text, sizeof(text), "FAILED: job %u", i);
		ck_assert_str_eq(fk_error_text(), text);
	}
	end();
}
END_TEST

/* ------------------------------------------------------------------------ tasks and the pool */

START_TEST(task_that_comes_later_is_found)
{
	const fk_task *task = NULL;
	uint32_t n = 0;

	start();
	ck_assert_int_eq(fk_task_find(client, "stub:later", &task), -FK_E_NO_TASK);
	assert_text("have the module stub, but not this task");
	stub_server_add_task(server);
	ck_assert_int_eq(fk_task_find(client, "stub:later", &task), 0);
	ck_assert_str_eq(fk_task_signature(task), "n:i64 -> i64");
	ck_assert_str_eq(fk_task_help(task), "a stub");
	for (task = NULL; !fk_task_next(client, &task);)
		n++;
	ck_assert_uint_eq(n, 9);
	end();
}
END_TEST

START_TEST(module_that_no_gateway_has_is_named)
{
	const fk_task *task;

	start();
	ck_assert_int_eq(fk_task_find(client, "other:task", &task), -FK_E_NO_TASK);
	assert_text("other:task: no gateway of gearman://127.0.0.1:");
	assert_text("has the module other: start forkd-gearman");
	/* That of fk_open(), and three for the module. */
	ck_assert_uint_eq(stub_server_counts(server).searches, 1 + 3);
	ck_assert_int_eq(fk_task_find(client, "reverse", &task), -FK_E_NO_TASK);
	assert_text("reverse: the name of a task is MODULE:TASK");
	ck_assert_uint_eq(stub_server_counts(server).searches, 1 + 3);
	end();
}
END_TEST

START_TEST(module_that_returns_soon_is_found)
{
	start();
	stub_server_leave(server, 2);
	(void)find("stub:add");
	ck_assert_uint_eq(stub_server_counts(server).searches, 1 + 3);
	end();
}
END_TEST

START_TEST(gateway_that_does_not_answer_is_named)
{
	const fk_task *task;

	start();
	stub_server_drip(server);
	ck_assert_int_eq(fk_task_find(client, "stub:add", &task), -FK_E_NO_ANSWER);
	assert_text("that have the module stub do not answer: see the logs of forkd-gearman");
	end();
}
END_TEST

START_TEST(pool_info_counts_jobs_and_tasks)
{
	struct fk_pool_info info;

	start();
	ck_assert_int_eq(fk_pool_info(client, &info), 0);
	ck_assert_uint_eq(info.workers, STUB_SERVER_GATEWAYS * STUB_SERVER_JOBS);
	ck_assert_uint_eq(info.tasks, 8);
	ck_assert_uint_eq(info.modules, 1);
	ck_assert_uint_eq(info.n_jobs, JOBS);
	end();
}
END_TEST

/* ------------------------------------------------------------------------ open and close */

START_TEST(close_ends_with_jobs_in_flight)
{
	start();
	for (uint32_t i = 0; i < 100; i++)
		(void)submit("stub:hold", i, FK_IDEMPOTENT);
	stub_server_wait_held(server, 1);
	end();
}
END_TEST

START_TEST(child_of_fork_leaves_the_connection_to_the_parent)
{
	int status, ready[2];
	char byte;
	pid_t pid;
	fk_job job;

	start();
	job = submit("stub:hold", 1, 0);
	stub_server_wait_held(server, 1);
	ck_assert_int_eq(pipe(ready), 0);
	pid = fork();
	if (!pid) {
		int err = fk_close(client);

		(void)!write(ready[1], "x", 1);
		pause();
		_exit(err != -EPERM);
	}
	ck_assert_int_eq(read(ready[0], &byte, 1), 1);
	ck_assert_int_eq(fk_cancel(client, job), 0);
	ck_assert_int_eq(outcome(job, NULL), FK_CANCELLED);
	/* The server sees the end of the connection although the child lives. */
	ck_assert_int_eq(fk_close(client), 0);
	stub_server_stop(server);
	ck_assert_int_eq(kill(pid, SIGKILL), 0);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
}
END_TEST

START_TEST(wrong_names_are_refused)
{
	static const char *const ports[] = { "gearman://a:", "gearman://a:0", "gearman://a:65536",
					     "gearman://a:http", "gearman://[::1]4730" };

	ck_assert_int_eq(open_fails("gearman://"), -EINVAL);
	assert_text("the name is gearman://HOST[:PORT][,HOST[:PORT]...]");
	ck_assert_int_eq(open_fails("gearman://localhost,"), -EINVAL);
	for (size_t i = 0; i < ARRAY_SIZE(ports); i++) {
		ck_assert_int_eq(open_fails(ports[i]), -EINVAL);
		assert_text("with ports from 1 to 65535");
	}
	ck_assert_int_eq(open_fails("gearman://no-such-host.invalid"), -FK_E_NOT_LISTENING);
	assert_text("the host no-such-host.invalid is not found");
}
END_TEST

/* A port that no program listens on: one that was free a moment ago. */
static uint16_t free_port(void)
{
	struct stub_server *other = stub_server_start(0);
	uint16_t port = stub_server_port(other);

	stub_server_stop(other);
	return port;
}

/* Listens at an address of this machine, and returns it. The kernel accepts some connections more
 * than the backlog. The socket does not block. */
static int listen_silently(int backlog, struct sockaddr_in *ret_address)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	socklen_t size = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, size), 0);
	ck_assert_int_eq(listen(fd, backlog), 0);
	ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&address, &size), 0);
	*ret_address = address;
	return fd;
}

static void tick(int signal)
{
	(void)signal;
}

START_TEST(signals_do_not_end_a_search)
{
	const struct itimerval every = { { .tv_usec = 10000 }, { .tv_usec = 10000 } };
	const struct sigaction action = { .sa_handler = tick, .sa_flags = SA_RESTART };
	struct sockaddr_in address;
	int fd = listen_silently(0, &address), fds[4];

	/* The backlog is full: the next connection waits. */
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
		(void)connect(fds[i], (struct sockaddr *)&address, sizeof(address));
	}
	ck_assert_int_eq(sigaction(SIGALRM, &action, NULL), 0);
	ck_assert_int_eq(setitimer(ITIMER_REAL, &every, NULL), 0);
	ck_assert_int_eq(open_port_fails(ntohs(address.sin_port)), -FK_E_NO_ANSWER);
	assert_text("does not answer");
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		ck_assert_int_eq(close(fds[i]), 0);
	ck_assert_int_eq(close(fd), 0);
}
END_TEST

START_TEST(what_is_no_job_server_is_named)
{
	struct sockaddr_in address;
	int fd, peer;
	pid_t pid;

	ck_assert_int_eq(open_port_fails(free_port()), -FK_E_NOT_LISTENING);
	assert_text("no job server at 127.0.0.1:");
	fd = listen_silently(1, &address);
	ck_assert_int_eq(fcntl(fd, F_SETFL, 0), 0);
	pid = fork();
	if (!pid) {
		peer = accept(fd, NULL, NULL);
		(void)!write(peer, "SSH-2.0-OpenSSH_9.2p1\r\n", 23);
		pause();
	}
	ck_assert_int_eq(open_port_fails(ntohs(address.sin_port)), -FK_E_NOT_FORKD);
	assert_text("is not gearmand");
	ck_assert_int_eq(kill(pid, SIGKILL), 0);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}
END_TEST

START_TEST(one_server_of_several_is_enough)
{
	int64_t sum;

	plugin_of_the_build();
	server = stub_server_start(0);
	client = open_ports(0, free_port(), stub_server_port(server));
	ck_assert_int_eq(fk_call(client, "stub:add", &sum, 20, 1), 0);
	ck_assert_int_eq(sum, 21);
	end();
}
END_TEST

/* Accepts the connections of a listener that does not answer. Returns how many of them ask for its
 * functions. */
static uint32_t count_searches(int fd)
{
	uint32_t n = 0;
	int peer;

	while ((peer = accept(fd, NULL, NULL)) >= 0) {
		char first = '\0';

		ck_assert_int_eq(recv(peer, &first, 1, 0), 1);
		n += first == 's'; /* status */
		ck_assert_int_eq(close(peer), 0);
	}
	return n;
}

/* It accepts connections, and never answers. */
START_TEST(silent_server_gets_no_jobs)
{
	struct sockaddr_in address;
	int fd = listen_silently(20, &address);
	fk_job jobs[20];

	plugin_of_the_build();
	server = stub_server_start(0);
	client = open_ports(JOBS, ntohs(address.sin_port), stub_server_port(server));
	for (uint32_t i = 0; i < ARRAY_SIZE(jobs); i++)
		jobs[i] = submit("stub:full", 0, 0);
	for (uint32_t i = 0; i < ARRAY_SIZE(jobs); i++)
		ck_assert_int_eq(outcome(jobs[i], NULL), FK_DONE);
	/* Only fk_open() has waited for it. */
	ck_assert_uint_eq(count_searches(fd), 1);
	ck_assert_int_eq(close(fd), 0);
	end();
}
END_TEST

static void *count_searches_until_shutdown(void *fd)
{
	return (void *)(uintptr_t)count_searches(*(int *)fd);
}

/* It accepts connections, and ends them. */
START_TEST(failed_server_is_asked_once_for_a_module)
{
	struct sockaddr_in address;
	int fd = listen_silently(20, &address);
	const fk_task *task;
	pthread_t thread;
	void *searches;

	ck_assert_int_eq(fcntl(fd, F_SETFL, 0), 0);
	ck_assert_int_eq(pthread_create(&thread, NULL, count_searches_until_shutdown, &fd), 0);
	plugin_of_the_build();
	server = stub_server_start(0);
	client = open_ports(0, ntohs(address.sin_port), stub_server_port(server));
	ck_assert_int_eq(fk_task_find(client, "other:task", &task), -FK_E_NO_TASK);
	assert_text("has the module other");
	ck_assert_int_eq(shutdown(fd, SHUT_RDWR), 0);
	ck_assert_int_eq(pthread_join(thread, &searches), 0);
	/* One is that of fk_open(). */
	ck_assert_uint_eq((uintptr_t)searches, 2);
	ck_assert_uint_eq(stub_server_counts(server).searches, 1 + 3);
	ck_assert_int_eq(close(fd), 0);
	end();
}
END_TEST

START_TEST(missing_plugin_names_its_package)
{
	fk_client *opened;

	ck_assert_int_eq(setenv("FORKD_PLUGIN_DIR", "/nonexistent", 1), 0);
	ck_assert_int_eq(fk_open("gearman://localhost", NULL, &opened), -ENOENT);
	assert_text("install the package forkd-gearman");
}
END_TEST

CHECK_MAIN("gearman client")
