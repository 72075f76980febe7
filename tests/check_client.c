/* SPDX-License-Identifier: MIT */
/*
 * tests/check_client.c - libforkclient: jobs one by one, ends, opening; against tests/fake.h
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/client.h"
#include "common/clock.h"
#include "common/util.h"
#include "shm/futex.h"
#include "shm/proto.h"
#include "shm/wake.h"
#include "tests/check_unit.h"
#include "tests/fake.h"

/* ------------------------------------------------------------------ jobs */

START_TEST(a_call_gives_the_result)
{
	struct {
		int64_t length;
		double half;
	} two;
	fk_client *client;
	int64_t sum = 0;
	char *data;
	void *memory;

	fake_start(2, 2);
	client = must_open();
	ck_assert_int_eq(fk_call(client, "test:add", &sum, (int64_t)40, (int64_t)-2), 0);
	ck_assert_int_eq(sum, 38);
	ck_assert_int_eq(fk_call(client, "test:len", &two, "seven_7"), 0);
	ck_assert_int_eq(two.length, 7);
	ck_assert_double_eq(two.half, 3.5);
	ck_assert_int_eq(fk_alloc(client, 3, &memory), 0);
	data = memory;
	memcpy(data, "abc", 3);
	ck_assert_int_eq(fk_call(client, "test:inc", NULL, (struct fk_buffer){ data, 3 }), 0);
	ck_assert_int_eq(memcmp(data, "bcd", 3), 0);
	ck_assert_int_eq(fk_free(client, data), 0);
	ck_assert_int_eq(fk_free(client, data), -EINVAL);
	ck_assert_uint_eq(heap_used(&client->heap), 0);
	ck_assert_int_eq(fk_close(client), 0);
	fake_stop();
}
END_TEST

START_TEST(every_outcome_has_its_error)
{
	const fk_task *task;
	fk_client *client;
	int64_t result = 5;
	int code = 1;
	int signo = 1;
	fk_job job;

	fake_start(2, 2);
	client = must_open();
	ck_assert_int_eq(fk_call(client, "test:fail", &result, (int64_t)-ERANGE), -ERANGE);
	ck_assert_int_eq(fk_call(client, "test:fail", &result, (int64_t)42), -EREMOTEIO);
	ck_assert_int_eq(result, 5);
	ck_assert_int_eq(fk_call(client, "test:crash", NULL), -ENOTRECOVERABLE);
	task = must_find(client, "test:crash");
	ck_assert_int_eq(fk_submitv(client, task, 0, &job), 0);
	ck_assert_int_eq(fk_wait(client, job, FK_FOREVER), 0);
	ck_assert_int_eq(fk_outcome(client, job, &code, &signo), FK_CRASHED);
	ck_assert_int_eq(code, 0);
	ck_assert_int_eq(signo, SIGSEGV);
	ck_assert_int_eq(error_of_outcome(JOB_LOST, 0), -EOWNERDEAD);
	ck_assert_int_eq(error_of_outcome(JOB_CANCELLED, 0), -ECANCELED);
	ck_assert_int_eq(error_of_outcome(JOB_EXPIRED, 0), -ETIME);
	for (int outcome = FK_PENDING; outcome <= FK_LOST; outcome++)
		ck_assert_str_ne(fk_outcome_name(outcome), "?");
	ck_assert_str_eq(fk_outcome_name(FK_LOST + 1), "?");
	ck_assert_str_eq(fk_outcome_name(-1), "?");
	ck_assert_str_eq(fk_strerror(-ESTALE), fk_strerror(ESTALE));
	ck_assert_ptr_nonnull(fk_strerror(INT32_MIN));
	fk_close(client);
	fake_stop();
}
END_TEST

START_TEST(what_does_not_fit_the_signature_is_refused)
{
	union fk_value values[3] = { { .i64 = 1 }, { .i64 = 2 } };
	int64_t packed[3] = { 1, 2, 3 };
	const fk_task *task;
	fk_client *client;
	char local[4];
	int64_t sum;
	fk_job job = 7;

	fake_start(1, 1);
	client = must_open();
	ck_assert_int_eq(fk_task_find(client, "test:none", &task), -ENOENT);
	ck_assert_int_eq(fk_task_find(client, "test:odd", &task), -EPROTO);
	task = must_find(client, "test:add");
	ck_assert_str_eq(fk_task_name(task), "test:add");
	ck_assert_str_eq(fk_task_signature(task), "a:i64, b:i64 -> i64");
	ck_assert_ptr_eq(task, must_find(client, "test:add"));
	ck_assert_int_eq(fk_submit(client, task, packed, 24, 0, &job), -EINVAL);
	ck_assert_int_eq(fk_submit(client, task, packed, 8, 0, &job), -EINVAL);
	ck_assert_int_eq(fk_submit(client, task, packed, 16, 4, &job), -EINVAL);
	ck_assert_int_eq(fk_submit_values(client, task, values, 3, 0, &job), -EINVAL);
	ck_assert_int_eq(fk_call(client, "test:inc", NULL, (struct fk_buffer){ local, 4 }),
			 -EFAULT);
	ck_assert_uint_eq(job, 7);
	ck_assert_int_eq(fk_submit(client, task, packed, 16, FK_IDEMPOTENT, &job), 0);
	ck_assert_int_eq(fk_wait(client, job, FK_FOREVER), 0);
	ck_assert_uint_eq(client_job(client, job)->flags, JOB_IDEMPOTENT);
	ck_assert_int_eq(fk_result(client, job, &sum, 4), -EINVAL);
	ck_assert_int_eq(fk_result(client, job, &sum, 8), 0);
	ck_assert_int_eq(sum, 3);
	atomic_store(&fake.board->tasks[0].flags, TASK_GONE);
	ck_assert_int_eq(fk_submit(client, task, packed, 16, 0, &job), -ENOENT);
	ck_assert_int_eq(fk_call(client, "test:add", &sum, (int64_t)1, (int64_t)2), -ENOENT);
	fk_close(client);
	fake_stop();
}
END_TEST

/* A new pool has other modules: the same index is another task, or an older one of the name. */
START_TEST(an_index_that_has_become_another_task_calls_nothing)
{
	struct board_task *board;
	struct board_task add;
	const fk_task *task, *moved, *newer;
	int64_t packed[2] = { 1, 2 }, sum;
	struct fk_request request;
	fk_client *client;
	fk_job job;

	/* Nobody runs what the words say: the hashes are all that is to be seen here. */
	fake_start(1, 0);
	client = must_open();
	board = fake.board->tasks;
	task = must_find(client, "test:add");
	request = (struct fk_request){ .task = task, .args = packed, .size = 16 };
	add = board[0];
	board[0] = board[2];
	ck_assert_int_eq(fk_submit(client, task, packed, 16, 0, &job), -ENOENT);
	ck_assert_int_eq(fk_submit_batch(client, &request, 1, 0, &job), -ENOENT);
	ck_assert_int_eq(fk_call(client, "test:add", &sum, (int64_t)1, (int64_t)2), -ENOENT);
	/* Found again where it is now. */
	board[3] = add;
	moved = must_find(client, "test:add");
	ck_assert_ptr_ne(moved, task);
	ck_assert_int_eq(fk_submit(client, moved, packed, 16, 0, &job), 0);
	ck_assert_uint_eq(client_job(client, job)->task, 3);
	ck_assert_int_eq(fk_submit(client, task, packed, 16, 0, &job), -ENOENT);
	/* The same name with another signature is another task. */
	(void)strcpy(board[3].signature, "a:f64, b:i64 -> i64");
	atomic_store(&board[3].hash, signature_hash(board[3].name, board[3].signature));
	ck_assert_int_eq(fk_submit(client, moved, packed, 16, 0, &job), -ENOENT);
	newer = must_find(client, "test:add");
	ck_assert_ptr_ne(newer, moved);
	ck_assert_str_eq(fk_task_signature(newer), "a:f64, b:i64 -> i64");
	/* One that is being written is none. */
	board[3].signature[0] = 'x';
	atomic_store(&board[3].hash, 1);
	ck_assert_int_eq(fk_task_find(client, "test:add", &task), -ENOENT);
	fk_close(client);
	fake_stop();
}
END_TEST

START_TEST(a_handle_ends_with_its_release)
{
	struct fk_timings timings;
	const fk_task *task;
	fk_client *client;
	fk_job job;
	fk_job next;

	fake_start(1, 1);
	client = must_open();
	atomic_store(&fake.hold, 1);
	task = must_find(client, "test:hold");
	ck_assert_int_eq(fk_submitv(client, task, 0, &job), 0);
	fake_await_held(1);
	ck_assert_int_eq(fk_release(client, job), -EBUSY);
	ck_assert_int_eq(fk_poll(client, job), 0);
	ck_assert_int_eq(fk_outcome(client, job, NULL, NULL), FK_PENDING);
	ck_assert_int_eq(fk_result(client, job, NULL, 0), -EINPROGRESS);
	ck_assert_int_eq(fk_timings(client, job, &timings), -EINPROGRESS);
	ck_assert_int_eq(fk_wait(client, job, 0), -ETIMEDOUT);
	ck_assert_int_eq(fk_wait(client, job, 2 * NSEC_PER_MSEC), -ETIMEDOUT);
	fake_let_go();
	ck_assert_int_eq(fk_wait(client, job, FK_FOREVER), 0);
	ck_assert_int_eq(fk_poll(client, job), 1);
	ck_assert_int_eq(fk_timings(client, job, &timings), 0);
	ck_assert_uint_ge(timings.run_ns, NSEC_PER_MSEC);
	ck_assert_int_eq(fk_release(client, job), 0);
	ck_assert_int_eq(fk_release(client, job), -ESTALE);
	ck_assert_int_eq(fk_wait(client, job, 0), -ESTALE);
	ck_assert_int_eq(fk_outcome(client, job, NULL, NULL), -ESTALE);
	ck_assert_int_eq(fk_submitv(client, must_find(client, "test:crash"), 0, &next), 0);
	ck_assert_uint_eq(next & 0xffff, job & 0xffff);
	ck_assert_uint_ne(next, job);
	ck_assert_int_eq(fk_poll(client, job), -ESTALE);
	ck_assert_int_eq(fk_poll(client, 0), -ESTALE);
	ck_assert_int_eq(fk_poll(client, UINT64_MAX), -ESTALE);
	fk_close(client);
	fake_stop();
}
END_TEST

START_TEST(generations_go_round_without_zero)
{
	const fk_task *task;
	fk_client *client;
	fk_job job;

	fake_start(1, 1);
	fake.n_jobs = 1;
	client = must_open();
	task = must_find(client, "test:crash");
	atomic_store(&client->slots[0].generation, JOB_GEN_MASK);
	ck_assert_int_eq(fk_submitv(client, task, 0, &job), 0);
	ck_assert_int_eq(fk_wait(client, job, FK_FOREVER), 0);
	ck_assert_int_eq(fk_release(client, job), 0);
	ck_assert_int_eq(fk_submitv(client, task, 0, &job), 0);
	ck_assert_uint_eq(job, 1 << 16);
	ck_assert_int_eq(fk_wait(client, job, FK_FOREVER), 0);
	fk_close(client);
	fake_stop();
}
END_TEST

struct room {
	fk_client *client;
	fk_job job;
	int err;
};

static void *submit_with_room(void *argument)
{
	struct room *room = argument;

	room->err = fk_submitv(room->client, must_find(room->client, "test:add"), FK_WAIT_ROOM,
			       &room->job, (int64_t)1, (int64_t)2);
	return NULL;
}

START_TEST(a_full_table_is_an_error_or_waited_for)
{
	const fk_task *task;
	struct room room;
	pthread_t thread;
	fk_job jobs[64];
	fk_job job;

	fake_start(1, 1);
	room.client = must_open();
	task = must_find(room.client, "test:len");
	for (size_t i = 0; i < ARRAY_SIZE(jobs); i++)
		ck_assert_int_eq(fk_submitv(room.client, task, 0, &jobs[i], "abc"), 0);
	ck_assert_int_eq(fk_submitv(room.client, task, 0, &job, "abc"), -EAGAIN);
	/* The string of the one that failed is back. */
	ck_assert_uint_eq(heap_used(&room.client->heap), 64 * 64);
	pthread_create(&thread, NULL, submit_with_room, &room);
	while (!atomic_load(&room.client->room_waiters))
		sched_yield();
	ck_assert_int_eq(fk_wait(room.client, jobs[5], FK_FOREVER), 0);
	ck_assert_int_eq(fk_release(room.client, jobs[5]), 0);
	pthread_join(thread, NULL);
	ck_assert_int_eq(room.err, 0);
	ck_assert_uint_eq(room.job & 0xffff, jobs[5] & 0xffff);
	ck_assert_int_eq(fk_wait(room.client, room.job, FK_FOREVER), 0);
	fk_close(room.client);
	fake_stop();
}
END_TEST

#define THREADS 4
#define CALLS	2000

static void *call_often(void *argument)
{
	fk_client *client = argument;

	for (int64_t i = 0; i < CALLS; i++) {
		int64_t sum;

		if (fk_call(client, "test:add", &sum, i, i) || sum != 2 * i)
			return argument;
	}
	return NULL;
}

START_TEST(threads_may_share_a_client)
{
	pthread_t threads[THREADS];
	fk_client *client;

	fake_start(3, 3);
	client = must_open();
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, call_often, client);
	for (int i = 0; i < THREADS; i++) {
		void *failed;

		pthread_join(threads[i], &failed);
		ck_assert_ptr_null(failed);
	}
	/* Every slot is back, each once. */
	for (uint32_t i = 0; i < client->n_jobs; i++)
		ck_assert_int_ge(slots_take(client), 0);
	ck_assert_int_eq(slots_take(client), -EAGAIN);
	fk_close(client);
	fake_stop();
}
END_TEST

START_TEST(a_job_behind_a_busy_worker_is_run_by_another)
{
	const fk_task *task;
	fk_client *client;
	int64_t sum;
	fk_job job;

	fake_start(2, 2);
	client = must_open();
	atomic_store(&fake.hold, 1);
	task = must_find(client, "test:hold");
	ck_assert_int_eq(fk_submitv(client, task, 0, &job), 0);
	fake_await_held(1);
	for (int64_t i = 0; i < 100; i++)
		ck_assert_int_eq(fk_call(client, "test:add", &sum, i, i), 0);
	fake_let_go();
	ck_assert_int_eq(fk_wait(client, job, FK_FOREVER), 0);
	fk_close(client);
	fake_stop();
}
END_TEST

/* A daemon with one worker, and a client with a job that never ends. */
static fk_job drop_one(fk_client **ret_client)
{
	fk_job job;

	fake_start(1, 1);
	*ret_client = must_open();
	/* Nothing may stand nowhere. */
	ck_assert_int_eq(
		fk_submit(*ret_client, must_find(*ret_client, "test:drop"), NULL, 0, 0, &job), 0);
	return job;
}

/* ------------------------------------------------------------------ cancelling */

/* The next message of a client. */
static int next_message(uint32_t client, union proto_message *ret_message, int flags)
{
	int fds[PROTO_MAX_FDS];
	uint32_t n_fds;

	return proto_recv(fake.connections[client], ret_message, fds, &n_fds, flags);
}

START_TEST(a_cancel_names_the_job_and_its_generation)
{
	union proto_message message;
	fk_client *client;
	fk_job jobs[2] = { drop_one(&client) };

	ck_assert_int_eq(fk_submitv(client, must_find(client, "test:drop"), 0, &jobs[1]), 0);
	ck_assert_int_eq(fk_cancel(client, jobs[1]), 0);
	ck_assert_int_eq(next_message(0, &message, 0), sizeof(message.cancel));
	ck_assert_uint_eq(message.head.type, PROTO_CANCEL);
	ck_assert_uint_eq(message.cancel.job, jobs[1] & 0xffff);
	ck_assert_uint_eq(message.cancel.generation, jobs[1] >> 16);
	/* Not what has ended, nor what is nobody's any more. */
	(void)job_finish(client_job(client, jobs[1]), (uint32_t)(jobs[1] >> 16), JOB_CANCELLED);
	ck_assert_int_eq(fk_cancel(client, jobs[1]), 0);
	ck_assert_int_eq(next_message(0, &message, MSG_DONTWAIT), -EAGAIN);
	ck_assert_int_eq(fk_result(client, jobs[1], NULL, 0), -ECANCELED);
	ck_assert_int_eq(fk_release(client, jobs[1]), 0);
	ck_assert_int_eq(fk_cancel(client, jobs[1]), -ESTALE);
	ck_assert_int_eq(fk_cancel(client, 0), -ESTALE);
	fake_hang_up();
	ck_assert_int_eq(fk_cancel(client, jobs[0]), -ECONNRESET);
	fk_close(client);
	fake_stop();
}
END_TEST

START_TEST(a_cancel_never_blocks)
{
	union proto_message message;
	fk_client *client;
	fk_job job = drop_one(&client);
	uint64_t sent = 0;
	int err;

	/* Nobody reads them. */
	while (!(err = fk_cancel(client, job)))
		sent++;
	ck_assert_int_eq(err, -EAGAIN);
	ck_assert_uint_gt(sent, 0);
	for (uint64_t i = 0; i < sent; i++)
		ck_assert_int_eq(next_message(0, &message, MSG_DONTWAIT), sizeof(message.cancel));
	ck_assert_int_eq(fk_cancel(client, job), 0);
	fk_close(client);
	fake_stop();
}
END_TEST

/* ------------------------------------------------------------------ ends */

static void await_waiter(struct job *job)
{
	while (!(atomic_load(&job->state) & JOB_WAITER))
		sched_yield();
}

static void *hang_up_when_waited_for(void *job)
{
	await_waiter(job);
	fake_hang_up();
	return NULL;
}

START_TEST(a_waiter_finds_out_that_the_daemon_is_gone)
{
	fk_client *client;
	fk_job job = drop_one(&client);
	pthread_t thread;

	pthread_create(&thread, NULL, hang_up_when_waited_for, client_job(client, job));
	ck_assert_int_eq(fk_wait(client, job, FK_FOREVER), -ECONNRESET);
	pthread_join(thread, NULL);
	ck_assert_int_eq(fk_poll(client, job), -ECONNRESET);
	ck_assert_int_eq(fk_wait(client, job, 0), -ECONNRESET);
	ck_assert_int_eq(fk_release(client, job), 0);
	ck_assert_int_eq(fk_submitv(client, must_find(client, "test:drop"), FK_WAIT_ROOM, &job),
			 -ECONNRESET);
	ck_assert_int_eq(fk_close(client), 0);
	fake_stop();
}
END_TEST

static void *dismiss_when_waited_for(void *job)
{
	struct proto_error error = { .head = { PROTO_MAGIC, PROTO_ERROR }, .code = -EIO };

	await_waiter(job);
	/* And then the end, behind it. */
	ck_assert_int_eq(proto_send(fake.connections[0], &error, sizeof(error), NULL, 0), 0);
	return NULL;
}

START_TEST(a_waiter_finds_out_that_the_daemon_has_dismissed_it)
{
	fk_client *client;
	fk_job job = drop_one(&client);
	pthread_t thread;

	pthread_create(&thread, NULL, dismiss_when_waited_for, client_job(client, job));
	ck_assert_int_eq(fk_wait(client, job, FK_FOREVER), -ECONNRESET);
	pthread_join(thread, NULL);
	ck_assert_int_eq(fk_submitv(client, must_find(client, "test:drop"), 0, &job), -ECONNRESET);
	fk_close(client);
	fake_stop();
}
END_TEST

/* Any look at the socket would find this out at once: it is nobody's. */
static int lose_socket(fk_client *client)
{
	int fd = client->fd;

	client->fd = -1;
	return fd;
}

START_TEST(polls_and_short_waits_look_at_the_socket_by_time)
{
	const fk_task *task;
	fk_client *client;
	fk_group group;
	struct fk_request request;
	_Atomic uint64_t *looked_at_group;
	uint64_t later;
	fk_job job;
	int fd;

	fake_start(1, 1);
	client = must_open();
	task = must_find(client, "test:drop");
	ck_assert_int_eq(fk_group_new(client, &group), 0);
	request = (struct fk_request){ .task = task, .group = group };
	ck_assert_int_eq(fk_submit_batch(client, &request, 1, 0, &job), 0);
	looked_at_group = &client->group[group & 0xffff].looked_ns;
	fd = lose_socket(client);
	/* Somebody has looked in an hour: no time has passed since. */
	later = clock_ns() + 3600 * NSEC_PER_SEC;
	atomic_store(&client->looked_ns, later);
	atomic_store(looked_at_group, later);
	for (int i = 0; i < 5000; i++) {
		ck_assert_int_eq(fk_poll(client, job), 0);
		ck_assert_int_eq(fk_wait(client, job, 0), -ETIMEDOUT);
		ck_assert_int_eq(fk_group_wait(client, group, 0), -ETIMEDOUT);
	}
	for (int i = 0; i < 20; i++) {
		ck_assert_int_eq(fk_wait(client, job, 100 * NSEC_PER_USEC), -ETIMEDOUT);
		ck_assert_int_eq(fk_group_wait(client, group, 100 * NSEC_PER_USEC), -ETIMEDOUT);
	}
	ck_assert_uint_eq(atomic_load(&client->looked_ns), later);
	ck_assert_uint_eq(atomic_load(&client->gone), 0);
	/* A long time has. */
	atomic_store(&client->looked_ns, 0);
	ck_assert_int_eq(fk_wait(client, job, 100 * NSEC_PER_USEC), -ECONNRESET);
	ck_assert_uint_gt(atomic_load(&client->looked_ns), 0);
	/* The last two are over before they would sleep. */
	for (int i = 0; i < 5; i++) {
		atomic_store(&client->gone, 0);
		atomic_store(&client->looked_ns, 0);
		ck_assert_int_eq(i == 0	  ? fk_poll(client, job)
				 : i == 1 ? fk_wait(client, job, 0)
				 : i == 2 ? fk_group_wait(client, group, 0)
				 : i == 3 ? fk_wait(client, job, 1)
					  : fk_group_wait(client, group, 1),
				 -ECONNRESET);
	}
	client->fd = fd;
	fk_close(client);
	fake_stop();
}
END_TEST

START_TEST(who_polls_or_waits_for_room_finds_it_out_too)
{
	const fk_task *task;
	fk_client *client;
	fk_job job;
	int r = 0;

	fake_start(1, 1);
	fake.n_jobs = 1;
	client = must_open();
	task = must_find(client, "test:drop");
	ck_assert_int_eq(fk_submitv(client, task, 0, &job), 0);
	fake_hang_up();
	ck_assert_int_eq(fk_submitv(client, task, FK_WAIT_ROOM, &job), -ECONNRESET);
	atomic_store(&client->gone, 0);
	while (!r)
		r = fk_poll(client, job);
	ck_assert_int_eq(r, -ECONNRESET);
	fk_close(client);
	fake_stop();
}
END_TEST

static _Atomic uint32_t interruptions;

static void interrupt(int signo)
{
	(void)signo;
	atomic_fetch_add(&interruptions, 1);
}

/* A signal comes ten times as often as the client looks at its socket. */
START_TEST(a_sleep_that_signals_interrupt_finds_it_out_too)
{
	struct itimerval often = { { .tv_usec = 20000 }, { .tv_usec = 20000 } };
	struct sigaction action = { .sa_handler = interrupt, .sa_flags = SA_RESTART };
	struct fk_request request;
	fk_client *client;
	fk_group group;
	sigset_t set;
	fk_job jobs[2];

	/* The threads of the fake daemon leave them to this one. */
	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	fake_start(1, 1);
	fake.n_jobs = 1;
	client = must_open();
	ck_assert_int_eq(fk_group_new(client, &group), 0);
	request = (struct fk_request){ .task = must_find(client, "test:drop"), .group = group };
	ck_assert_int_eq(fk_submit_batch(client, &request, 1, 0, jobs), 0);
	fake_hang_up();
	sigaction(SIGALRM, &action, NULL);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	ck_assert_int_eq(setitimer(ITIMER_REAL, &often, NULL), 0);
	for (int i = 0; i < 3; i++) {
		uint32_t before = atomic_load(&interruptions);

		/* Somebody has looked, just before that. */
		atomic_store(&client->gone, 0);
		atomic_store(&client->looked_ns, clock_ns());
		ck_assert_int_eq(i == 0	  ? fk_wait(client, jobs[0], FK_FOREVER)
				 : i == 1 ? fk_group_wait(client, group, FK_FOREVER)
					  : fk_submit_batch(client, &request, 1, FK_WAIT_ROOM,
							    &jobs[1]),
				 -ECONNRESET);
		ck_assert_uint_gt(atomic_load(&interruptions), before);
	}
	fk_close(client);
	fake_stop();
}
END_TEST

struct late_worker {
	uint32_t value;
	_Atomic uint32_t woken;
};

static void *sleep_late(void *argument)
{
	struct late_worker *worker = argument;

	while (futex_wait(&fake.board->workers[0].wake, worker->value, 0))
		continue;
	atomic_store(&worker->woken, 1);
	return NULL;
}

/* A stranger on the worker's word took the wake, and the client knows this sleep for woken. */
START_TEST(who_polls_wakes_again_whom_a_stranger_kept_from_being_woken)
{
	_Atomic uint32_t *word;
	struct fk_request request;
	fk_client *client;
	fk_group group;
	fk_job job;

	fake_start(1, 0);
	word = &fake.board->workers[0].wake;
	client = must_open();
	ck_assert_int_eq(fk_group_new(client, &group), 0);
	request = (struct fk_request){ .task = must_find(client, "test:drop"), .group = group };
	for (int i = 0; i < 3; i++) {
		struct late_worker worker = { .value = wake_prepare(word) };
		pthread_t thread;

		atomic_store(&client->woken[0], worker.value);
		pthread_create(&thread, NULL, sleep_late, &worker);
		ck_assert_int_eq(fk_submit_batch(client, &request, 1, 0, &job), 0);
		while (!atomic_load(&worker.woken))
			ck_assert_int_eq(i == 0	  ? fk_poll(client, job)
					 : i == 1 ? fk_wait(client, job, 0)
						  : fk_group_wait(client, group, 0),
					 i == 0 ? 0 : -ETIMEDOUT);
		pthread_join(thread, NULL);
	}
	fk_close(client);
	fake_stop();
}
END_TEST

START_TEST(an_outcome_that_was_the_daemons_last_act_counts)
{
	fk_client *client;
	fk_job job = drop_one(&client);

	(void)job_finish(client_job(client, job), (uint32_t)(job >> 16), JOB_CANCELLED);
	fake_hang_up();
	ck_assert_int_eq(fk_wait(client, job, FK_FOREVER), 0);
	ck_assert_int_eq(fk_outcome(client, job, NULL, NULL), FK_CANCELLED);
	fk_close(client);
	fake_stop();
}
END_TEST

START_TEST(a_child_of_fork_may_not_use_the_parents_client)
{
	const fk_task *task;
	fk_client *client;
	int64_t sum;
	int block[2];
	fk_job job;
	int status;
	pid_t pid;
	char byte;

	fake_start(1, 1);
	client = must_open();
	ck_assert_int_eq(fk_call(client, "test:add", &sum, (int64_t)1, (int64_t)2), 0);
	task = must_find(client, "test:crash");
	ck_assert_int_eq(fk_submitv(client, task, 0, &job), 0);
	ck_assert_int_eq(pipe(block), 0);
	pid = fork();
	if (!pid) {
		struct fk_ref ref;
		fk_group group;
		void *data;
		int bad = 0;

		bad |= fk_submitv(client, task, 0, &job) != -EPERM;
		bad |= fk_call(client, "test:add", &sum, (int64_t)1, (int64_t)2) != -EPERM;
		bad |= fk_wait(client, job, FK_FOREVER) != -EPERM;
		bad |= fk_poll(client, job) != -EPERM;
		bad |= fk_release(client, job) != -EPERM;
		bad |= fk_alloc(client, 1, &data) != -EPERM;
		bad |= fk_buffer_ref(client, (struct fk_buffer){ NULL, 0 }, &ref) != -EPERM;
		bad |= fk_submit_batch(client, NULL, 0, 0, NULL) != -EPERM;
		bad |= fk_release_batch(client, NULL, 0) != -EPERM;
		bad |= fk_cancel(client, job) != -EPERM;
		bad |= fk_group_new(client, &group) != -EPERM;
		bad |= fk_group_wait(client, 1, 0) != -EPERM;
		bad |= fk_group_free(client, 1) != -EPERM;
		bad |= fk_close(client) != -EPERM;
		bad |= client->fd != -1;
		close(block[1]);
		/* Lives until the parent is done: the daemon must see the end all the same. */
		(void)!read(block[0], &byte, 1);
		_exit(bad);
	}
	ck_assert_int_eq(fk_wait(client, job, FK_FOREVER), 0);
	ck_assert_int_eq(fk_close(client), 0);
	ck_assert_int_eq(recv(fake.connections[0], &byte, 1, 0), 0);
	close(block[1]);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	fake_stop();
}
END_TEST

/* One that was made by vfork() or clone(), or while fk_open() was at work in another thread. */
START_TEST(a_closed_client_is_gone_whoever_has_a_copy_of_its_socket)
{
	fk_client *client;
	char byte;
	int copy;

	fake_start(1, 1);
	client = must_open();
	copy = dup(client->fd);
	ck_assert_int_eq(fk_close(client), 0);
	ck_assert_int_eq(recv(fake.connections[0], &byte, 1, MSG_DONTWAIT), 0);
	close(copy);
	fake_stop();
}
END_TEST

START_TEST(two_clients_of_a_process_do_not_disturb_each_other)
{
	fk_client *a;
	fk_client *b;
	int64_t sum;

	fake_start(2, 2);
	a = must_open();
	b = must_open();
	ck_assert_int_eq(fk_call(a, "test:add", &sum, (int64_t)1, (int64_t)1), 0);
	ck_assert_int_eq(fk_call(b, "test:add", &sum, (int64_t)2, (int64_t)2), 0);
	ck_assert_int_eq(fk_close(a), 0);
	ck_assert_int_eq(fk_call(b, "test:add", &sum, (int64_t)3, (int64_t)3), 0);
	ck_assert_int_eq(sum, 6);
	ck_assert_int_eq(fk_close(b), 0);
	ck_assert_int_eq(fk_close(NULL), 0);
	fake_stop();
}
END_TEST

/* ------------------------------------------------------------------ opening */

static void must_fail(const char *path, int err, const char *text)
{
	fk_client *client = NULL;
	int r = fk_open(path, NULL, &client);

	ck_assert_msg(r == err, "%s: %d, not %d: %s", path, r, err, fk_open_error());
	ck_assert_msg(strstr(fk_open_error(), text) != NULL, "%s", fk_open_error());
	ck_assert_ptr_null(client);
}

START_TEST(who_cannot_connect_is_told_what_to_do)
{
	char path[200];

	fake_start(1, 1);
	(void)snprintf(path, sizeof(path), "%s/none", fake.folder);
	must_fail(path, -ENOENT, "forkctl session -- COMMAND");
	must_fail(path, -ENOENT, path);
	must_fail("", -EINVAL, "empty");
	memset(path, 'x', sizeof(path) - 1);
	path[sizeof(path) - 1] = '\0';
	must_fail(path, -ENAMETOOLONG, "199 bytes");
	fake.refuse = "forkd has 256 clients and takes no more (max-clients in forkd.conf)";
	must_fail(fake.path, -EUSERS, "max-clients in forkd.conf");
	fake.refuse = NULL;
	ck_assert_int_eq(setenv("FORKD_SOCKET", fake.path, 1), 0);
	fake.fds[0] = fake.fds[1];
	must_fail(NULL, -EPROTO, "different versions");
	fake_stop();
	/* The socket's file without anybody behind it. */
	fake_listen();
	close(fake.listen_fd);
	must_fail(fake.path, -ECONNREFUSED, "systemctl start forkd");
	unlink(fake.path);
	rmdir(fake.folder);
}
END_TEST

START_TEST(what_is_reserved_has_to_be_0)
{
	fk_client *client = NULL;

	fake_start(1, 1);
	for (size_t i = 0; i < 7; i++) {
		struct fk_open_options options = { .n_jobs = 64 };

		if (i == 6)
			options.reserved0 = 1;
		else
			options.reserved[i] = UINT64_C(1) << 40;
		ck_assert_int_eq(fk_open(fake.path, &options, &client), -EINVAL);
		ck_assert_msg(strstr(fk_open_error(), "reserved") != NULL, "%s", fk_open_error());
		ck_assert_ptr_null(client);
	}
	ck_assert_uint_eq(atomic_load(&fake.n_connections), 0);
	fake_stop();
}
END_TEST

/* Of all those that stand in client.h. */
START_TEST(every_error_has_a_text_that_says_what_it_means_here)
{
	static const int errors[] = {
		EPERM,	    ENOENT,	     EIO,	   E2BIG,  EAGAIN,     ENOMEM,
		EACCES,	    EFAULT,	     EBUSY,	   EINVAL, ENFILE,     EMFILE,
		ETIME,	    EPROTO,	     EBADMSG,	   EUSERS, ECONNRESET, ESHUTDOWN,
		ETIMEDOUT,  ECONNREFUSED,    EINPROGRESS,  ESTALE, EREMOTEIO,  ECANCELED,
		EOWNERDEAD, ENOTRECOVERABLE, ENAMETOOLONG,
	};

	for (size_t i = 0; i < ARRAY_SIZE(errors); i++) {
		ck_assert_str_ne(fk_strerror(errors[i]), strerrordesc_np(errors[i]));
		ck_assert_str_eq(fk_strerror(errors[i]), fk_strerror(-errors[i]));
	}
}
END_TEST

START_TEST(permissions_are_named_when_they_are_what_is_wrong)
{
	fake_listen();
	ck_assert_int_eq(chmod(fake.path, 0), 0);
	if (geteuid() == 0) {
		ck_assert_int_eq(chmod(fake.folder, 0755), 0);
		ck_assert_int_eq(seteuid(65534), 0);
	}
	must_fail(fake.path, -EACCES, "socket-mode");
	if (getuid() == 0)
		ck_assert_int_eq(seteuid(0), 0);
	unlink(fake.path);
	rmdir(fake.folder);
}
END_TEST

CHECK_MAIN("client", a_call_gives_the_result, every_outcome_has_its_error,
	   what_does_not_fit_the_signature_is_refused,
	   an_index_that_has_become_another_task_calls_nothing, a_handle_ends_with_its_release,
	   generations_go_round_without_zero, a_full_table_is_an_error_or_waited_for,
	   threads_may_share_a_client, a_job_behind_a_busy_worker_is_run_by_another,
	   a_cancel_names_the_job_and_its_generation, a_cancel_never_blocks,
	   a_waiter_finds_out_that_the_daemon_is_gone,
	   a_waiter_finds_out_that_the_daemon_has_dismissed_it,
	   polls_and_short_waits_look_at_the_socket_by_time,
	   who_polls_or_waits_for_room_finds_it_out_too,
	   a_sleep_that_signals_interrupt_finds_it_out_too,
	   who_polls_wakes_again_whom_a_stranger_kept_from_being_woken,
	   an_outcome_that_was_the_daemons_last_act_counts,
	   a_child_of_fork_may_not_use_the_parents_client,
	   a_closed_client_is_gone_whoever_has_a_copy_of_its_socket,
	   two_clients_of_a_process_do_not_disturb_each_other, what_is_reserved_has_to_be_0,
	   every_error_has_a_text_that_says_what_it_means_here,
	   who_cannot_connect_is_told_what_to_do, permissions_are_named_when_they_are_what_is_wrong)
