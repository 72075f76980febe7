/* SPDX-License-Identifier: MIT */
/* channel: a manager that does not read blocks no thread, and gets all messages when it reads
 * again. The test is the manager, at the other end of the socket of a whole pool. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CHECK_TIMEOUT 60
#include "daemon/core/stop.h"
#include "daemon/jobs/attach.h"
#include "daemon/pool/manager_requests.h"
#include "tests/support/check_unit.h"
#include "tests/support/rig.h"
#include "tests/support/tasks.h"

#define MANY 1000u /* more than the socket holds */

/* Replaces proto_send(): the kernel has no memory for this many messages of the pool. */
static _Atomic uint32_t short_of;
static _Atomic uint32_t n_short;
static int why;
static int pool_end;

int __real_proto_send(int fd, const void *message, uint32_t size, const int *fds, uint32_t n_fds);
int __wrap_proto_send(int fd, const void *message, uint32_t size, const int *fds, uint32_t n_fds);

int __wrap_proto_send(int fd, const void *message, uint32_t size, const int *fds, uint32_t n_fds)
{
	if (fd != pool_end || !atomic_load(&short_of))
		return __real_proto_send(fd, message, size, fds, n_fds);
	atomic_fetch_sub(&short_of, 1);
	atomic_fetch_add(&n_short, 1);
	return why;
}

/* Replaces proto_recv_short(): the kernel has no memory for the manager's messages. */
static _Atomic uint32_t deaf;
static _Atomic uint32_t n_naps;

int __real_proto_recv_short(int fd, union proto_message *ret_message, int *ret_fds,
			    uint32_t *ret_n_fds, int flags);
int __wrap_proto_recv_short(int fd, union proto_message *ret_message, int *ret_fds,
			    uint32_t *ret_n_fds, int flags);

int __wrap_proto_recv_short(int fd, union proto_message *ret_message, int *ret_fds,
			    uint32_t *ret_n_fds, int flags)
{
	if (!atomic_load(&deaf))
		return __real_proto_recv_short(fd, ret_message, ret_fds, ret_n_fds, flags);
	atomic_fetch_sub(&deaf, 1);
	return why;
}

int __real_nanosleep(const struct timespec *request, struct timespec *remaining);
int __wrap_nanosleep(const struct timespec *request, struct timespec *remaining);

static struct rig rig;
static int manager;
static pthread_t server;

int __wrap_nanosleep(const struct timespec *request, struct timespec *remaining)
{
	if (pthread_equal(pthread_self(), server))
		atomic_fetch_add(&n_naps, 1);
	return __real_nanosleep(request, remaining);
}

FK_MODULE(t, "test tasks")

extern const struct fk_module fk_module;

static void *serve(void *arg)
{
	(void)arg;
	return (void *)(uintptr_t)channel_serve(rig.pool);
}

/* State of the channel, read under its lock. */
struct state {
	bool served;
	uint32_t queued;
};

static struct state look(void)
{
	struct channel *channel = &rig.pool->channel;
	struct state state;

	pthread_mutex_lock(&channel->lock);
	state = (struct state){ channel->served, channel->n };
	pthread_mutex_unlock(&channel->lock);
	return state;
}

static void *flush(void *arg)
{
	channel_flush(rig.pool);
	return arg;
}

static void begin(void)
{
	int pair[2], bytes = 1;

	rig_start(&rig, 1, &fk_module, false);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
	ck_assert_int_eq(setsockopt(pair[1], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes)), 0);
	manager = pair[0];
	pool_end = pair[1];
	rig.pool->channel.fd = pool_end;
	ck_assert_int_eq(pthread_create(&server, NULL, serve, NULL), 0);
	while (!look().served)
		sched_yield();
}

static void end(void)
{
	channel_shut(rig.pool);
	ck_assert_int_eq(pthread_join(server, NULL), 0);
	channel_flush(rig.pool);
	rig_stop(&rig);
	close(manager);
	close(pool_end);
}

static void hear(uint32_t type, uint32_t client, uint32_t generation)
{
	rig_hear(manager, type, client, generation, NULL);
}

static void say(uint32_t type, uint32_t client, uint32_t generation)
{
	const struct proto_pool m = {
		.head = { PROTO_MAGIC, type },
		.client = client,
		.client_generation = generation,
	};

	/* A reader that has stopped resumes. */
	while (proto_send(manager, &m, sizeof(m), NULL, 0) == -EAGAIN)
		sched_yield();
}

START_TEST(messages_to_a_manager_that_does_not_read_arrive_later_in_order)
{
	begin();
	for (uint32_t i = 0; i < MANY; i++)
		channel_send(rig.pool, PROTO_POOL_RELEASED, i, 2 * i, "");
	ck_assert_int_eq(rig_call(&rig, "t:fib", 15), 610);
	for (uint32_t i = 0; i < MANY; i++)
		hear(PROTO_POOL_RELEASED, i, 2 * i);
	/* And again, now that the queue has been empty. */
	channel_send(rig.pool, PROTO_POOL_ATTACHED, 7, 8, "no");
	hear(PROTO_POOL_ATTACHED, 7, 8);
	end();
}
END_TEST

/* The dispatcher reports that a client was released, and continues with its other work. */
START_TEST(dispatcher_serves_jobs_while_the_manager_does_not_read)
{
	begin();
	for (uint32_t i = 0; i < MANY; i++)
		channel_send(rig.pool, PROTO_POOL_RELEASED, i, 0, "");
	/* The only worker is busy with forks: only a request of the dispatcher interrupts it. */
	rig_submit(&rig, 1, "t:until", &(int64_t){ 5 }, sizeof(int64_t));
	while (!atomic_load(&tasks_reached))
		sched_yield();
	ck_assert_int_eq(rig_call(&rig, "t:leaf", 3), 3);
	atomic_store(&tasks_opened, 1);
	ck_assert_uint_eq(rig_wait(&rig, 1), JOB_DONE);
	clients_gone(rig.pool, 0, 1);
	while (atomic_load(&rig.pool->clients.entries[0].state) != CLIENT_NONE)
		sched_yield();
	for (uint32_t i = 0; i < MANY; i++)
		hear(PROTO_POOL_RELEASED, i, 0);
	hear(PROTO_POOL_RELEASED, 0, 1);
	end();
}
END_TEST

START_TEST(message_without_kernel_memory_is_sent_later)
{
	static const int reasons[] = { -ENOBUFS, -ENOMEM };
	pthread_t last;

	begin();
	for (uint32_t i = 0; i < ARRAY_SIZE(reasons); i++) {
		why = reasons[i];
		/* At least one try of the channel's own thread fails, too. */
		atomic_store(&n_short, 0);
		atomic_store(&short_of, 5);
		channel_send(rig.pool, PROTO_POOL_RELEASED, 1, i, "");
		channel_send(rig.pool, PROTO_POOL_RELEASED, 2, i, "");
		hear(PROTO_POOL_RELEASED, 1, i);
		hear(PROTO_POOL_RELEASED, 2, i);
		ck_assert_uint_eq(atomic_load(&n_short), 5);
	}
	channel_shut(rig.pool);
	ck_assert_int_eq(pthread_join(server, NULL), 0);
	atomic_store(&short_of, 5);
	channel_send(rig.pool, PROTO_POOL_STOPPED, 3, 0, "");
	ck_assert_int_eq(pthread_create(&last, NULL, flush, NULL), 0);
	hear(PROTO_POOL_STOPPED, 3, 0);
	ck_assert_int_eq(pthread_join(last, NULL), 0);
	rig_stop(&rig);
	close(manager);
	close(pool_end);
}
END_TEST

START_TEST(second_stop_does_not_revoke_the_first)
{
	begin();
	pool_stop_workers(rig.pool);
	say(PROTO_POOL_STOP, 0, 0);
	/* The message after it is answered. */
	say(PROTO_POOL_CLIENT, 1, 9);
	hear(PROTO_POOL_ATTACHED, 1, 9);
	ck_assert(pool_ends(rig.pool));
	end();
}
END_TEST

START_TEST(pool_without_memory_to_receive_sleeps_and_receives_later)
{
	static const int reasons[] = { -ENOBUFS, -ENOMEM };

	begin();
	for (uint32_t i = 0; i < ARRAY_SIZE(reasons); i++) {
		why = reasons[i];
		atomic_store(&n_naps, 0);
		atomic_store(&deaf, 5);
		say(PROTO_POOL_GONE, 1, i);
		hear(PROTO_POOL_RELEASED, 1, i);
		ck_assert_uint_eq(atomic_load(&deaf), 0);
		ck_assert_uint_eq(atomic_load(&n_naps), 5);
	}
	end();
}
END_TEST

/* The tenant's descriptor found no room in this process; the client's did. */
START_TEST(client_without_a_reader_for_its_rings_is_refused)
{
	const uint64_t size = client_segment_heap_offset(RIG_JOBS) + 4096;
	const struct proto_pool m = {
		.head = { PROTO_MAGIC, PROTO_POOL_CLIENT },
		.tenant = 1,
		.client = 1,
		.client_generation = 9,
		.n_jobs = RIG_JOBS,
	};
	const struct proto_pool tenant = { .head = { PROTO_MAGIC, PROTO_POOL_TENANT },
					   .tenant = 1 };
	int file = segment_create("client", SEGMENT_CLIENT, size, 1, 0, 0600), fds[PROTO_MAX_FDS];
	union proto_message answer;
	uint32_t n;

	begin();
	ck_assert_int_ge(file, 0);
	ck_assert_int_eq(proto_send(manager, &tenant, sizeof(tenant), NULL, 0), 0);
	ck_assert_int_eq(proto_send(manager, &m, sizeof(m), &file, 1), 0);
	ck_assert_int_eq(proto_recv(manager, &answer, fds, &n, 0), sizeof(m));
	ck_assert_uint_eq(answer.head.type, PROTO_POOL_ATTACHED);
	ck_assert_uint_eq(answer.pool.client_generation, 9);
	ck_assert_str_eq(answer.pool.text, strerror(EMFILE));
	ck_assert_uint_eq(atomic_load(&rig.pool->clients.entries[1].state), CLIENT_NONE);
	close(file);
	end();
}
END_TEST

static void *say_many(void *arg)
{
	(void)arg;
	/* The pool does not know these clients, so it reports them as released. */
	for (uint32_t i = 0; i < 3 * CHANNEL_QUEUE; i++)
		say(PROTO_POOL_GONE, 1, i);
	return NULL;
}

START_TEST(manager_that_sends_and_does_not_read_is_no_longer_read)
{
	const uint32_t full = CHANNEL_QUEUE - CHANNEL_ROOM + 1;
	pthread_t talker;

	begin();
	ck_assert_int_eq(pthread_create(&talker, NULL, say_many, NULL), 0);
	while (look().queued < full)
		sched_yield();
	/* There is room for messages of other threads. */
	for (uint32_t i = 0; i < CHANNEL_ROOM - 1; i++)
		channel_send(rig.pool, PROTO_POOL_ATTACHED, i, 0, "");
	ck_assert_uint_eq(look().queued, CHANNEL_QUEUE);
	for (uint32_t i = 0, others = 0; i < 3 * CHANNEL_QUEUE + CHANNEL_ROOM - 1; i++) {
		union proto_message m;
		int fds[PROTO_MAX_FDS];
		uint32_t n_fds;

		ck_assert_int_eq(proto_recv(manager, &m, fds, &n_fds, 0), sizeof(m.pool));
		if (m.head.type == PROTO_POOL_ATTACHED)
			ck_assert_uint_eq(m.pool.client, others++);
		else
			ck_assert_uint_eq(m.pool.client_generation, i - others);
	}
	ck_assert_int_eq(pthread_join(talker, NULL), 0);
	ck_assert_uint_eq(look().queued, 0);
	end();
}
END_TEST

START_TEST(last_message_arrives_before_the_process_ends)
{
	begin();
	channel_shut(rig.pool);
	ck_assert_int_eq(pthread_join(server, NULL), 0);
	for (uint32_t i = 0; i < MANY; i++)
		channel_send(rig.pool, PROTO_POOL_RELEASED, i, 0, "");
	ck_assert_int_eq(pthread_create(&server, NULL, flush, NULL), 0);
	for (uint32_t i = 0; i < MANY; i++)
		hear(PROTO_POOL_RELEASED, i, 0);
	end();
}
END_TEST

/* Waiting messages are discarded. */
START_TEST(death_of_the_manager_ends_all_waits)
{
	void *drained;

	begin();
	for (uint32_t i = 0; i < MANY; i++)
		channel_send(rig.pool, PROTO_POOL_RELEASED, i, 0, "");
	close(manager);
	ck_assert_int_eq(pthread_join(server, &drained), 0);
	ck_assert_ptr_null(drained);
	channel_flush(rig.pool);
	ck_assert_uint_eq(look().queued, 0);
	rig_stop(&rig);
	close(pool_end);
}
END_TEST

CHECK_MAIN("channel")
