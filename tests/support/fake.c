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

#include "client/lib/wake_worker.h"
#include "common/clock.h"
#include "common/util.h"
#include "shm/futex.h"
#include "shm/layout.h"
#include "shm/proto.h"
#include "shm/wake.h"
#include "tests/support/local.h"

#define EPOCH 77u

static const struct {
	const char *name;
	const char *signature;
} tasks[] = {
	{ "test:add", "a:i64, b:i64 -> i64" },
	{ "test:len", "t:str -> length:i64, half:f64" },
	{ "test:inc", "d:iobuf ->" },
	{ "test:fail", "code:i64 -> i64" },
	{ "test:crash", "->" },
	{ "test:hold", "->" },
	{ "test:drop", "->" },
	{ "test:odd", "n:i65 ->" },
};

struct fake fake;
fk_client *client;
static fk_client *local_watcher; /* keeps a local pool until fake_stop() */

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

void fake_run(uint32_t payload)
{
	struct client_segment *segment = atomic_load(&fake.clients[ring_payload_client(payload)]);
	struct job *job = (struct job *)(segment + 1) + ring_payload_job(payload);
	char *heap = (char *)segment + segment->heap_offset;
	struct group *groups = client_segment_groups((struct job *)(segment + 1), fake.n_jobs);
	struct watch *watch = watch_of(groups);
	uint32_t outcome = JOB_DONE;
	struct group *group;
	uint32_t told;
	struct job_ref ref;
	int64_t numbers[2];
	double half;

	atomic_store_explicit(&job->started_ns, clock_ns(), memory_order_relaxed);
	memcpy(numbers, job->args, sizeof(numbers));
	memcpy(&ref, job->args, sizeof(ref));
	ck_assert(job->task_hash == fake.board->tasks[job->task].hash);
	switch (atomic_load(&job->task)) {
	case 0:
		numbers[0] += numbers[1];
		memcpy(job->result, numbers, 8);
		break;
	case 1:
		numbers[0] = (int64_t)strlen(heap + ref.offset);
		ck_assert_int_eq(numbers[0], (int64_t)ref.size);
		half = (double)numbers[0] / 2;
		memcpy(job->result, numbers, 8);
		memcpy(job->result + 8, &half, 8);
		break;
	case 2:
		for (uint64_t i = 0; i < ref.size; i++)
			heap[ref.offset + i]++;
		break;
	case 3:
		outcome = JOB_FAILED;
		atomic_store(&job->code, (int32_t)numbers[0]);
		break;
	case 4:
		outcome = JOB_CRASHED;
		atomic_store(&job->signo, SIGSEGV);
		break;
	case 5:
		atomic_fetch_add(&fake.held, 1);
		(void)futex_wake(&fake.held, 1);
		while (atomic_load(&fake.hold))
			(void)futex_wait(&fake.hold, 1, 0);
		break;
	default:
		return;
	}
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

	LOCAL_REFUSE("the test is the pool");
	pthread_mutex_lock(&fake.lock);
	for (uint32_t i = 0; i < fake.n_workers && !fake.n_pending && found < 0; i++) {
		struct ring *ring = &fake.tenant->rings[i];
		uint32_t payload;

		if (ring_peek(ring, fake.heads[i], &payload) != RING_OK)
			continue;
		found = (int)i;
		if (ret_payload) {
			unchain(payload);
			fake.n_words++;
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

uint32_t fake_finish(fk_job job, uint32_t outcome)
{
	LOCAL_REFUSE("the test is the pool");
	return job_finish(client_job(client, job), client_generation(job), outcome);
}

void fake_segments(uint32_t n_workers)
{
	LOCAL_REFUSE("the test is the pool");
	fake.n_workers = n_workers;
	fake.fds[0] =
		segment_create("check-board", SEGMENT_BOARD, sizeof(struct board), EPOCH, 0, 0600);
	fake.fds[1] = segment_create("check-tenant", SEGMENT_TENANT, tenant_segment_size(n_workers),
				     EPOCH, 1, 0600);
	fake.board = must_map(fake.fds[0], SEGMENT_BOARD);
	fake.tenant = must_map(fake.fds[1], SEGMENT_TENANT);
	fake.board->manager.n_workers = n_workers;
	fake.tenant->n_rings = n_workers;
	for (size_t i = 0; i < ARRAY_SIZE(tasks); i++) {
		struct board_task *task = &fake.board->tasks[i];

		(void)strcpy(task->name, tasks[i].name);
		(void)strcpy(task->signature, tasks[i].signature);
		task->hash = signature_hash(task->name, task->signature);
	}
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
	char text[4096];

	if (!fake.n_running)
		LOCAL_REFUSE("the test is the pool");
	(void)snprintf(text, sizeof(text), "%p %p", (void *)&fake.hold, (void *)&fake.held);
	ck_assert_int_eq(setenv("FORKD_TEST_HOLD", text, 1), 0);
	(void)strcpy(fake.path, "local");
	fake.n_workers = n_workers;
	local_watcher = local_open(n_workers, 1, 0);
	(void)snprintf(text, sizeof(text), "%s/tests/support/modules/later/.libs/test.so",
		       directory ? directory : ".");
	local_load(local_watcher, text);
	fake.board = (struct board *)(uintptr_t)local_watcher->board;
	fake.tenant = local_watcher->tenant;
}

void fake_start(uint32_t n_workers, uint32_t n_running)
{
	fake.n_jobs = 64;
	fake.n_running = n_running;
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
