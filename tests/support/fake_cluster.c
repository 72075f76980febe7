/* SPDX-License-Identifier: MIT */
#include "tests/support/fake_cluster.h"

#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "contrib/gearman/client_cluster.h"
#include "contrib/gearman/payload.h"
#include "shm/futex.h"
#include "shm/wake.h"
#include "tests/support/fake.h"

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct stub_server *server;
	const struct stub_task *tasks;
	uint32_t n_tasks;
	struct stub_call *first; /* calls that have not ended, in their order */
	bool stop;
	pthread_t workers[FAKE_WORKERS];
} cluster = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

/* On a thread of the server. */
static void cluster_take(struct stub_call *call)
{
	struct stub_call **at = &cluster.first;

	pthread_mutex_lock(&cluster.lock);
	while (*at)
		at = &(*at)->next;
	*at = call;
	pthread_cond_broadcast(&cluster.changed);
	pthread_mutex_unlock(&cluster.lock);
}

/* Takes the first call, which may be of any task but drop, or that of a unique id. With the lock
 * held. NULL: there is none. */
static struct stub_call *cluster_pick(const char *unique)
{
	struct stub_call **at = &cluster.first;
	struct stub_call *call;

	while (*at && (unique ? !streq((*at)->unique, unique) : streq((*at)->task, "test:drop")))
		at = &(*at)->next;
	call = *at;
	if (call)
		*at = call->next;
	return call;
}

static void cluster_run(struct stub_call *call)
{
	const struct stub_task *task = cluster.tasks;
	char error[PAYLOAD_ERROR], line[PAYLOAD_EXCEPTION], text[256];
	struct signature signature;
	struct payload payload;
	union {
		int64_t i64;
		double f64;
	} results[2] = { { 0 } };
	int err;

	while (!streq(task->name, call->task))
		task++;
	ck_assert_int_eq(signature_parse(task->signature, &signature, NULL), 0);
	err = payload_parse_call(call->data, call->size, &signature,
				 signature_hash(task->name, task->signature), &payload, error);
	ck_assert_msg(err == 0, "%s", error);
	if (streq(task->name, "test:fail")) {
		(void)snprintf(line, sizeof(line), "FAILED %d: %s (%s)", (int)payload.values[0].i64,
			       error_outcome(text, sizeof(text), FK_FAILED,
					     (int)payload.values[0].i64, 0, 1, 0),
			       task->signature);
		stub_call_raise(call, line);
		return;
	}
	if (streq(task->name, "test:crash")) {
		stub_call_raise(call, "CRASHED 11: CRASHED by signal 11 (SEGV)");
		return;
	}
	if (streq(task->name, "test:hold")) {
		atomic_fetch_add(&fake.held, 1);
		(void)futex_wake(&fake.held, 1);
		while (atomic_load(&fake.hold))
			(void)futex_wait(&fake.hold, 1, 0);
	} else if (streq(task->name, "test:add")) {
		results[0].i64 = (int64_t)((uint64_t)payload.values[0].i64 +
					   (uint64_t)payload.values[1].i64);
	} else if (streq(task->name, "test:len")) {
		results[0].i64 = (int64_t)strlen(payload.values[0].str);
		results[1].f64 = (double)results[0].i64 / 2;
	} else if (streq(task->name, "test:inc")) {
		unsigned char *bytes = payload.values[0].buf.data;

		for (size_t i = 0; i < payload.values[0].buf.size; i++)
			bytes[i]++;
	}
	stub_call_answer(call, &payload, &signature, results);
}

static void *cluster_work(void *unused)
{
	pthread_mutex_lock(&cluster.lock);
	while (!cluster.stop) {
		struct stub_call *call = cluster_pick(NULL);

		if (!call) {
			pthread_cond_wait(&cluster.changed, &cluster.lock);
			continue;
		}
		pthread_mutex_unlock(&cluster.lock);
		cluster_run(call);
		pthread_mutex_lock(&cluster.lock);
	}
	pthread_mutex_unlock(&cluster.lock);
	return unused;
}

void cluster_start(const struct stub_task *tasks, uint32_t n)
{
	cluster.tasks = tasks;
	cluster.n_tasks = n;
	cluster.server = stub_server_start(0);
	stub_server_calls(cluster.server, tasks, n, cluster_take);
	(void)snprintf(fake.path, sizeof(fake.path), "gearman://127.0.0.1:%u",
		       stub_server_port(cluster.server));
	cluster.stop = false;
	for (uint32_t i = 0; i < fake.n_running; i++)
		ck_assert_int_eq(pthread_create(&cluster.workers[i], NULL, cluster_work, NULL), 0);
}

void cluster_stop(void)
{
	struct stub_call *call;

	pthread_mutex_lock(&cluster.lock);
	cluster.stop = true;
	pthread_cond_broadcast(&cluster.changed);
	pthread_mutex_unlock(&cluster.lock);
	for (uint32_t i = 0; i < fake.n_running; i++)
		ck_assert_int_eq(pthread_join(cluster.workers[i], NULL), 0);
	while ((call = cluster.first)) {
		cluster.first = call->next;
		free(call->data);
		free(call);
	}
	stub_server_stop(cluster.server);
}

fk_client *cluster_open(void)
{
	const struct fk_open_options options = { .n_jobs = fake.n_jobs, .heap_size = 65536 };
	fk_client *opened = NULL;
	const fk_task *task = NULL;

	ck_assert_msg(fk_open(fake.path, &options, &opened) == 0, "%s", fk_error_text());
	while (!fk_task_next(opened, &task))
		;
	fake.board = (struct board *)(uintptr_t)opened->board;
	fake.tenant = opened->tenant;
	return opened;
}

/* The unique id of the call of a job, which stays until the test ends it; "" if it was not sent. */
static const char *cluster_unique(uint32_t index)
{
	const struct cluster *of = container_of(client->waker.local, const struct cluster, local);
	/* A struct call begins with it (client_jobs.c). */
	const struct server_call *sent = (const struct server_call *)of->calls[index];

	const char *packet = sent ? sent->packet : NULL;

	return packet ? packet + PACKET_HEAD + strlen(packet + PACKET_HEAD) + 1 : "";
}

static bool cluster_has_ended(const struct job *job, uint32_t generation)
{
	return (atomic_load(&job->state) & JOB_OUTCOME_MASK) != JOB_PENDING ||
	       atomic_load(&job->generation) != generation;
}

/* Takes the call of a job when it is there; NULL: the job has ended. */
static struct stub_call *cluster_wait(uint32_t index, bool take)
{
	const struct job *job = &client->jobs[index];
	uint32_t generation = atomic_load(&job->generation);
	struct stub_call *call = NULL;

	while (!call && !cluster_has_ended(job, generation)) {
		const char *unique = cluster_unique(index);

		pthread_mutex_lock(&cluster.lock);
		call = *unique ? cluster_pick(unique) : NULL;
		if (call && !take) {
			call->next = cluster.first;
			cluster.first = call;
		}
		pthread_mutex_unlock(&cluster.lock);
		sched_yield();
	}
	return call;
}

void cluster_await(uint32_t index)
{
	(void)cluster_wait(index, false);
}

void cluster_end(uint32_t index, uint32_t outcome)
{
	static const char *const lines[] = {
		[JOB_FAILED] = "FAILED -22: Invalid argument",
		[JOB_CANCELLED] = "CANCELLED 0: CANCELLED",
		[JOB_EXPIRED] = "EXPIRED 0: EXPIRED",
		[JOB_CRASHED] = "CRASHED 11: CRASHED by signal 11 (SEGV)",
		[JOB_LOST] = "UNKNOWN 0: the pool has ended",
	};
	const struct job *job = &client->jobs[index];
	uint32_t generation = atomic_load(&job->generation);
	struct stub_call *call = cluster_wait(index, true);

	if (call && outcome == JOB_DONE)
		cluster_run(call);
	else if (call)
		stub_call_raise(call, lines[outcome]);
	while (!cluster_has_ended(job, generation))
		sched_yield();
	/* Its thread sleeps when it has woken all that wait for the job. */
	while (wake_state(wake_load(&client->board->workers[0].wake)) != WAKE_SLEEPING)
		sched_yield();
}
