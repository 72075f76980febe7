/* SPDX-License-Identifier: MIT */
#include "tests/support/fake.h"

#include <check.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <forkd/fiber.h>

#include "client/lib/wake_worker.h"
#include "common/clock.h"
#include "common/util.h"
#include "daemon/core/pool_state.h"
#include "daemon/core/worker.h"
#include "daemon/local/local_pool.h"
#include "shm/futex.h"
#include "shm/layout.h"
#include "shm/ledger.h"
#include "shm/proto.h"
#include "shm/wake.h"
#include "tests/support/fake_cluster.h"
#include "tests/support/local.h"

#define EPOCH 77u

/* In the order of their names, as a pool sorts them. */
enum { ADD, CRASH, DROP, FAIL, HOLD, INC, LEN, ODD };
static const struct stub_task tasks[] = {
	[ADD] = { "test:add", "a:i64, b:i64 -> i64" },
	[CRASH] = { "test:crash", "->" },
	[DROP] = { "test:drop", "->" },
	[FAIL] = { "test:fail", "code:i64 -> i64" },
	[HOLD] = { "test:hold", "->" },
	[INC] = { "test:inc", "d:iobuf ->" },
	[LEN] = { "test:len", "t:str -> length:i64, half:f64" },
	[ODD] = { "test:odd", "n:i65 ->" },
};

struct fake fake;
fk_client *client;
static fk_client *local_watcher; /* keeps a local pool until fake_stop() */

/* The job of each row of a local pool, which waits in its task until the test runs it. */
static struct turn {
	struct fk_counter waits;  /* 1, or 0: the task continues, */
	_Atomic int code;	  /* and fails with this code, unless it is 0 */
	_Atomic uint32_t arrived; /* generation of the job that waits, or has waited */
	_Atomic uint32_t taken;	  /* of the job that fake_take() has returned */
} turns[FAKE_CLIENTS * LOCAL_JOBS_MAX];
static struct pool *_Atomic local_pool; /* known when a task has begun */

static void *must_map(int fd, uint32_t kind)
{
	void *base;

	ck_assert_int_eq(segment_map(fd, kind, 1, EPOCH, &base, NULL), 0);
	return base;
}

static void welcome(int fd, uint32_t id)
{
	struct proto_welcome message = {
		.head = { PROTO_MAGIC, PROTO_WELCOME },
		.epoch = EPOCH,
	};
	uint64_t heap_offset = client_segment_heap_offset(fake.n_jobs);
	int client_fd =
		segment_create("check-client", SEGMENT_CLIENT, heap_offset + 65536, EPOCH, 1, 0600);
	int read_only = segment_reopen_readonly(fake.fds[0]);
	int fds[3] = { read_only, fake.fds[1], client_fd };
	struct client_segment *segment = must_map(client_fd, SEGMENT_CLIENT);

	segment->client = id;
	segment->n_jobs = fake.n_jobs;
	segment->jobs_offset = sizeof(*segment);
	segment->heap_offset = heap_offset;
	segment->heap_size = segment->heap_max = 65536;
	atomic_store(&fake.clients[id], segment);
	ck_assert_int_eq(proto_send(fd, &message, sizeof(message), fds, 3), 0);
	close(client_fd);
	close(read_only);
}

static void *accept_clients(void *unused)
{
	(void)unused;
	for (;;) {
		int fd = accept4(fake.listen_fd, NULL, NULL, SOCK_CLOEXEC);
		uint32_t id = atomic_load(&fake.n_connections);
		union proto_message message;
		int fds[PROTO_MAX_FDS];
		uint32_t n_fds;

		if (fd < 0)
			return NULL;
		if (proto_recv(fd, &message, fds, &n_fds, 0) != sizeof(message.hello) ||
		    id == FAKE_CLIENTS) {
			close(fd);
			continue;
		}
		ck_assert_uint_eq(message.hello.version, PROTO_VERSION);
		ck_assert_uint_eq(message.hello.layout_hash, LAYOUT_HASH);
		if (fake.refuse) {
			struct proto_error error = {
				.head = { PROTO_MAGIC, PROTO_ERROR },
				.code = -EUSERS,
			};

			(void)strcpy(error.text, fake.refuse);
			(void)proto_send(fd, &error, sizeof(error), NULL, 0);
			close(fd);
			continue;
		}
		fake.connections[id] = fd;
		/* Before the client can continue. */
		atomic_store(&fake.n_connections, id + 1);
		welcome(fd, id);
	}
}

/* ------------------------------------------------------------------------ a local pool's jobs */

/* In the fiber of a task. Returns 0 or a code to fail with. */
static int await_turn(int drops)
{
	struct pool *pool = worker_self()->pool;
	uint32_t row = worker_self()->job.row;
	struct turn *turn = &turns[row];

	atomic_store(&local_pool, pool);
	if (fake.n_running && !drops)
		return 0;
	atomic_store(&turn->arrived, ledger_row(pool->arena, row).generation);
	if (fk_counter_wait(&turn->waits, 0) < 0)
		return 0;
	ck_assert_int_eq(fk_counter_add(&turn->waits, 1), 0);
	return atomic_load(&turn->code);
}

/* True if a job has its outcome, and all that wait for it were woken. */
static bool has_ended(struct job *job, uint32_t at, uint32_t generation)
{
	struct pool *pool = atomic_load(&local_pool);
	struct ledger_row row;

	if (job_outcome(job) == JOB_PENDING && atomic_load(&job->generation) == generation)
		return false;
	/* Without a pool no task has begun: the job was refused. */
	if (!pool)
		return true;
	row = ledger_row(pool->arena, at);
	return row.generation != generation || row.state == LEDGER_FREE;
}

static struct turn *turn_of(uint32_t index)
{
	return &turns[client->id * LOCAL_JOBS_MAX + index];
}

static void end_local(uint32_t index, uint32_t outcome)
{
	uint32_t at = client->id * LOCAL_JOBS_MAX + index;
	struct job *job = &client->jobs[index];
	uint32_t generation = atomic_load(&job->generation);
	struct turn *turn = turn_of(index);

	while (!has_ended(job, at, generation) && atomic_load(&turn->arrived) != generation)
		sched_yield();
	atomic_store(&turn->code, outcome == JOB_FAILED ? -EINVAL : 0);
	if (has_ended(job, at, generation))
		return;
	if (outcome == JOB_CANCELLED)
		local_pool_cancel(client->id, index, generation);
	else if (outcome == JOB_DONE || outcome == JOB_FAILED)
		ck_assert_int_eq(fk_counter_add(&turn->waits, -1), 0);
	else
		LOCAL_REFUSE("a task that ends the process");
	while (!has_ended(job, at, generation))
		sched_yield();
}

/* Returns the index of the first job that was submitted, has not ended and was not taken; or -1. */
static int next_local(void)
{
	uint64_t first = UINT64_MAX;
	int found = -1;

	for (uint32_t i = 0; i < client->n_jobs; i++) {
		struct job *job = &client->jobs[i];
		uint64_t submitted = atomic_load(&client->slots[i].submitted_ns);

		if (job_outcome(job) == JOB_PENDING && submitted < first &&
		    atomic_load(&turn_of(i)->taken) != atomic_load(&job->generation)) {
			first = submitted;
			found = (int)i;
		}
	}
	return found;
}

static int take_local(uint32_t *ret_payload)
{
	int index = next_local();

	if (index < 0 || !ret_payload)
		return min(index, 0);
	atomic_store(&turn_of((uint32_t)index)->taken,
		     atomic_load(&client->jobs[index].generation));
	*ret_payload = ring_payload(client->id, 0, (uint32_t)index);
	return 0;
}

/* ------------------------------------------------------------------------ the fake pool's jobs */

/* Stores the outcome of a job, and wakes the threads that wait for it. */
static void give_outcome(struct job *job, struct group *groups, uint32_t outcome)
{
	struct watch *watch = watch_of(groups);
	struct group *group;
	uint32_t told;

	/* Job begun: later than at the same instant. */
	atomic_store_explicit(&job->ended_ns, clock_ns() + 1, memory_order_relaxed);
	/* Before the outcome: afterwards the record may belong to another job. */
	group = group_of(groups, atomic_load(&job->group));
	told = job_finish(job, job->generation, outcome);
	if (told & JOB_WAITER)
		(void)futex_wake(&job->state, INT32_MAX);
	if (told & JOB_WATCHED && watch_end(watch))
		(void)futex_wake(&watch->ended, INT32_MAX);
	if (group && group_done(group, 1))
		(void)futex_wake(&group->word, INT32_MAX);
}

void fake_end(fk_job job, uint32_t outcome)
{
	if (local_is_cluster())
		cluster_end((uint32_t)(job & 0xffff), outcome);
	else if (local_is_on())
		end_local((uint32_t)(job & 0xffff), outcome);
	else
		give_outcome(client_job(client, job), client->groups, outcome);
}

void fake_run(uint32_t payload)
{
	struct client_segment *segment;
	struct job *job;
	char *heap;
	uint32_t outcome = JOB_DONE;
	struct job_ref ref;
	int64_t numbers[2];
	double half;

	if (local_is_on()) {
		job = &client->jobs[ring_payload_job(payload)];
		if (!strcmp(fake.board->tasks[atomic_load(&job->task)].name, tasks[DROP].name))
			return;
		if (local_is_cluster())
			cluster_end(ring_payload_job(payload), JOB_DONE);
		else
			end_local(ring_payload_job(payload), JOB_DONE);
		return;
	}
	segment = atomic_load(&fake.clients[ring_payload_client(payload)]);
	job = (struct job *)(segment + 1) + ring_payload_job(payload);
	heap = (char *)segment + segment->heap_offset;
	atomic_store_explicit(&job->started_ns, clock_ns(), memory_order_relaxed);
	memcpy(numbers, job->args, sizeof(numbers));
	memcpy(&ref, job->args, sizeof(ref));
	ck_assert(job->task_hash == fake.board->tasks[job->task].hash);
	switch (atomic_load(&job->task)) {
	case ADD:
		numbers[0] += numbers[1];
		memcpy(job->result, numbers, 8);
		break;
	case LEN:
		numbers[0] = (int64_t)strlen(heap + ref.offset);
		ck_assert_int_eq(numbers[0], (int64_t)ref.size);
		half = (double)numbers[0] / 2;
		memcpy(job->result, numbers, 8);
		memcpy(job->result + 8, &half, 8);
		break;
	case INC:
		for (uint64_t i = 0; i < ref.size; i++)
			heap[ref.offset + i]++;
		break;
	case FAIL:
		outcome = JOB_FAILED;
		atomic_store(&job->code, (int32_t)numbers[0]);
		break;
	case CRASH:
		outcome = JOB_CRASHED;
		atomic_store(&job->signo, SIGSEGV);
		break;
	case HOLD:
		atomic_fetch_add(&fake.held, 1);
		(void)futex_wake(&fake.held, 1);
		while (atomic_load(&fake.hold))
			(void)futex_wait(&fake.hold, 1, 0);
		break;
	default:
		return;
	}
	give_outcome(job, client_segment_groups((struct job *)(segment + 1), fake.n_jobs), outcome);
}

/* Lists the words of a chain's jobs, given the payload of the first job. Under the lock. */
static void unchain(uint32_t payload)
{
	struct client_segment *segment = atomic_load(&fake.clients[ring_payload_client(payload)]);
	struct job *jobs = (struct job *)(segment + 1);
	uint32_t index = ring_payload_job(payload);

	for (;;) {
		uint32_t next = atomic_load(&jobs[index].next);

		ck_assert_uint_lt(fake.n_pending, FAKE_PENDING);
		fake.pending[fake.n_pending++] = (payload & ~0xffffu) | index;
		if (!next)
			return;
		index = next - 1;
		ck_assert_uint_lt(index, fake.n_jobs);
	}
}

int fake_take(uint32_t *ret_payload)
{
	int found = -1;

	if (local_is_on())
		return take_local(ret_payload);
	pthread_mutex_lock(&fake.lock);
	for (uint32_t i = 0; i < fake.n_workers && !fake.n_pending && found < 0; i++) {
		struct ring *ring = &fake.tenant->rings[i];
		uint32_t payload;

		if (ring_peek(ring, fake.heads[i], &payload) != RING_OK)
			continue;
		found = (int)i;
		if (ret_payload) {
			unchain(payload);
			ring_consume(ring, fake.heads[i]++);
		}
	}
	if (fake.n_pending) {
		found = max(found, 0);
		if (ret_payload)
			*ret_payload = fake.pending[--fake.n_pending];
	}
	pthread_mutex_unlock(&fake.lock);
	return found;
}

static void *work(void *number)
{
	_Atomic uint32_t *word = &fake.board->workers[(uintptr_t)number].wake;

	while (!atomic_load(&fake.stop)) {
		uint32_t payload;
		uint32_t value;
		int ring;

		wake_store(word, WAKE_LOOKING);
		if (fake_take(&payload) >= 0) {
			wake_busy(word);
			ring = fake_take(NULL);
			if (ring >= 0)
				(void)waker_wake(fake.board, fake.n_workers, (uint32_t)ring, NULL);
			fake_run(payload);
			continue;
		}
		value = wake_prepare(word);
		if (fake_take(NULL) < 0 && !atomic_load(&fake.stop))
			(void)futex_wait(word, value, 0);
	}
	return NULL;
}

static void *dispatch(void *unused)
{
	_Atomic uint32_t *word = &fake.board->dispatcher;

	(void)unused;
	while (!atomic_load(&fake.stop)) {
		uint32_t value = wake_prepare(word);

		/* A worker looks for work itself when its strand ends; nothing to do here. */
		if (!atomic_load(&fake.stop) && futex_wait(word, value, 0) == 0)
			atomic_fetch_add(&fake.dispatched, 1);
		wake_store(word, WAKE_LOOKING);
	}
	return NULL;
}

void fake_await_begun(fk_job job)
{
	const struct job *record = client_job(client, job);

	if (local_is_cluster()) {
		cluster_await((uint32_t)(job & 0xffff));
		return;
	}
	while (local_is_on() ? atomic_load(&turn_of((uint32_t)(job & 0xffff))->arrived) !=
				       atomic_load(&record->generation)
			     : !atomic_load(&record->started_ns))
		sched_yield();
}

struct board_task *fake_task(const char *name)
{
	struct board_task *task = fake.board->tasks;

	while (strcmp(task->name, name) != 0)
		task++;
	return task;
}

int fake_outside(void)
{
	return local_is_on() ? -FK_E_BUFFER_ALIGN : -FK_E_BUFFER_OUTSIDE;
}

uint32_t fake_finish(fk_job job, uint32_t outcome)
{
	LOCAL_REFUSE("a pool that dies");
	return job_finish(client_job(client, job), client_generation(job), outcome);
}

static void show_task(struct board_task *task, const char *name, const char *signature)
{
	(void)strcpy(task->name, name);
	(void)strcpy(task->signature, signature);
	task->hash = signature_hash(name, signature);
}

void fake_segments(uint32_t n_workers)
{
	fake.n_workers = n_workers;
	fake.fds[0] =
		segment_create("check-board", SEGMENT_BOARD, sizeof(struct board), EPOCH, 0, 0600);
	fake.fds[1] = segment_create("check-tenant", SEGMENT_TENANT, tenant_segment_size(n_workers),
				     EPOCH, 1, 0600);
	fake.board = must_map(fake.fds[0], SEGMENT_BOARD);
	fake.tenant = must_map(fake.fds[1], SEGMENT_TENANT);
	fake.board->manager.n_workers = n_workers;
	fake.tenant->n_rings = n_workers;
	for (size_t i = 0; i < ARRAY_SIZE(tasks); i++)
		show_task(&fake.board->tasks[i], tasks[i].name, tasks[i].signature);
	atomic_store(&fake.board->n_tasks, ARRAY_SIZE(tasks));
}

void fake_listen(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	(void)strcpy(fake.directory, "/tmp/check-client-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(fake.directory));
	(void)snprintf(fake.path, sizeof(fake.path), "%s/sock", fake.directory);
	(void)strcpy(address.sun_path, fake.path);
	fake.listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(bind(fake.listen_fd, (struct sockaddr *)&address, sizeof(address)), 0);
	ck_assert_int_eq(listen(fake.listen_fd, 8), 0);
}

/* The pool has the workers and the tasks when a test opens its clients. */
static void start_local(uint32_t n_workers)
{
	const char *directory = getenv("top_builddir");
	struct board_task *odd;
	char text[4096];

	for (size_t i = 0; i < ARRAY_SIZE(turns); i++)
		turns[i].waits = FK_COUNTER_OF(1);
	(void)snprintf(text, sizeof(text), "%p %p %p", (void *)&fake.hold, (void *)&fake.held,
		       (void *)(uintptr_t)await_turn);
	ck_assert_int_eq(setenv("FORKD_TEST_HOLD", text, 1), 0);
	(void)strcpy(fake.path, "local");
	fake.n_workers = n_workers;
	local_watcher = local_open(n_workers, 1, 0);
	(void)snprintf(text, sizeof(text), "%s/tests/support/modules/later/.libs/test.so",
		       directory ? directory : ".");
	local_load(local_watcher, text);
	fake.board = (struct board *)(uintptr_t)local_watcher->board;
	fake.tenant = local_watcher->tenant;
	/* FK_EXPORT() makes no such signature. */
	odd = &fake.board->tasks[fake.board->n_tasks];
	show_task(odd, tasks[ODD].name, tasks[ODD].signature);
	atomic_fetch_add(&fake.board->n_tasks, 1);
}

void fake_start(uint32_t n_workers, uint32_t n_running)
{
	fake.n_jobs = 64;
	fake.n_running = n_running;
	if (local_is_cluster()) {
		/* FK_EXPORT() makes no such signature as that of the last task. */
		cluster_start(tasks, ARRAY_SIZE(tasks) - 1);
		return;
	}
	if (local_is_on()) {
		start_local(n_workers);
		return;
	}
	pthread_mutex_init(&fake.lock, NULL);
	fake_segments(n_workers);
	fake_listen();
	pthread_create(&fake.acceptor, NULL, accept_clients, NULL);
	for (uintptr_t i = 0; i < n_running; i++)
		pthread_create(&fake.workers[i], NULL, work, (void *)i);
	if (n_running)
		pthread_create(&fake.dispatcher, NULL, dispatch, NULL);
}

int fake_recv(uint32_t client, union proto_message *ret_message, int flags)
{
	int fds[PROTO_MAX_FDS], r;
	uint32_t n_fds;

	LOCAL_REFUSE("the messages of a socket");
	do
		r = proto_recv(fake.connections[client], ret_message, fds, &n_fds, flags);
	while (r > 0 && ret_message->head.type == PROTO_RING);
	return r;
}

void fake_hang_up(void)
{
	LOCAL_REFUSE("a connection that ends");
	for (uint32_t i = 0; i < atomic_load(&fake.n_connections); i++) {
		close(fake.connections[i]);
		fake.connections[i] = -1;
	}
}

void fake_see_close(uint32_t client)
{
	union proto_message message;

	if (local_is_cluster())
		return; /* The board is the client's. */
	if (local_is_on())
		ck_assert_uint_ne(fake.board->clients[client].left_ns, 0);
	else
		ck_assert_int_eq(fake_recv(client, &message, 0), 0);
}

static void wake_until_joined(pthread_t thread, _Atomic uint32_t *word)
{
	struct timespec soon;

	do {
		(void)futex_wake(word, 1);
		clock_gettime(CLOCK_REALTIME, &soon);
		soon.tv_nsec = min(soon.tv_nsec + 1000000, 999999999L);
	} while (pthread_timedjoin_np(thread, NULL, &soon) != 0);
}

void fake_stop(void)
{
	if (local_is_cluster()) {
		cluster_stop();
		return;
	}
	if (local_is_on()) {
		ck_assert_int_eq(fk_close(local_watcher), 0);
		return;
	}
	atomic_store(&fake.stop, 1);
	(void)shutdown(fake.listen_fd, SHUT_RDWR);
	pthread_join(fake.acceptor, NULL);
	for (uint32_t i = 0; i < fake.n_running; i++)
		wake_until_joined(fake.workers[i], &fake.board->workers[i].wake);
	if (fake.n_running)
		wake_until_joined(fake.dispatcher, &fake.board->dispatcher);
	unlink(fake.path);
	rmdir(fake.directory);
}

void fake_let_go(void)
{
	atomic_store(&fake.hold, 0);
	(void)futex_wake(&fake.hold, INT32_MAX);
}

void fake_await_held(uint32_t n)
{
	uint32_t held;

	while ((held = atomic_load(&fake.held)) < n)
		(void)futex_wait(&fake.held, held, 0);
}

/* Returns true if the thread sleeps in the kernel. */
static bool sleeps(uint32_t tid)
{
	char path[64], state = 0;
	FILE *file;

	(void)snprintf(path, sizeof(path), "/proc/self/task/%u/stat", tid);
	file = fopen(path, "re");
	if (!file)
		return false;
	ck_assert_int_eq(fscanf(file, "%*d (%*[^)]) %c", &state), 1);
	(void)fclose(file);
	return state == 'S';
}

void fake_await_sleep(const _Atomic uint32_t *tid)
{
	while (!atomic_load(tid) || !sleeps(atomic_load(tid)))
		sched_yield();
}

fk_client *must_open(void)
{
	fk_client *client = NULL;

	if (local_is_cluster())
		return cluster_open();
	if (local_is_on())
		return local_open(0, fake.n_jobs, 65536);
	ck_assert_msg(fk_open(fake.path, NULL, &client) == 0, "%s", fk_error_text());
	/* Both ends use one mapping, or ThreadSanitizer takes them for different memory. The
	 * client's own mappings stay; with a size of 0 fk_close() unmaps nothing. */
	client->tenant = fake.tenant;
	client->tenant_size = 0;
	client->segment = atomic_load(&fake.clients[client->id]);
	client->segment_size = 0;
	client->jobs = (struct job *)(client->segment + 1);
	client->groups = client_segment_groups(client->jobs, client->n_jobs);
	client->heap.base = (char *)client->segment + client->segment->heap_offset;
	return client;
}

const fk_task *must_find(fk_client *client, const char *name)
{
	const fk_task *task = NULL;

	ck_assert_int_eq(fk_task_find(client, name, &task), 0);
	return task;
}

void fake_open(uint32_t n_workers, uint32_t n_running)
{
	fake_start(n_workers, n_running);
	client = must_open();
}

void fake_close(void)
{
	ck_assert_int_eq(fk_close(client), 0);
	fake_stop();
}

fk_job must_drop(void)
{
	fk_job job;

	fake_open(1, 1);
	/* NULL is allowed if there are no arguments. */
	ck_assert_int_eq(fk_submit_packed(client, must_find(client, "test:drop"), NULL, 0, 0, &job),
			 0);
	return job;
}
