/* SPDX-License-Identifier: MIT */
#include "tests/support/stub_server.h"

#include <check.h>
#include <endian.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/util.h"
#include "contrib/gearman/packet.h"
#include "contrib/gearman/payload.h"
#include "shm/signature.h"

#define STUB_SERVER_TASKS  16u
#define STUB_SERVER_FDS	   64u
#define STUB_SERVER_HELD   20000u
#define STUB_SERVER_STATUS 12u /* WORK_STATUS of the protocol: handle, numerator, denominator */

struct stub_server_held {
	int fd;
	char handle[PACKET_HANDLE];
	int64_t n;
};

struct stub_server {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	pthread_t accepter;
	int fd;
	uint16_t port;
	bool drips;
	uint32_t left; /* searches that do not see the module */
	uint32_t n_tasks, threads, n_held, handles;
	struct stub_task tasks[STUB_SERVER_TASKS];
	char module[64]; /* with its colon */
	void (*take)(struct stub_call *call);
	int fds[STUB_SERVER_FDS]; /* -1: free */
	int64_t failed, full;	  /* calls so far */
	struct stub_server_counts counts;
	struct stub_server_held held[STUB_SERVER_HELD];
};

struct stub_server_connection {
	struct stub_server *server;
	uint32_t at;
	int fd;
};

static void answer(int fd, uint32_t type, const char *handle, const void *data, size_t size)
{
	size_t length = handle ? strlen(handle) + (data != NULL) : 0;
	_cleanup_free_ char *packet = malloc(PACKET_HEAD + length + size);
	uint32_t words[2] = { htobe32(type), htobe32((uint32_t)(length + size)) };
	size_t sent = 0, total = PACKET_HEAD + length + size;

	ck_assert_ptr_nonnull(packet);
	memcpy(packet, PACKET_ANSWER, 4);
	memcpy(packet + 4, words, sizeof(words));
	if (handle)
		memcpy(packet + PACKET_HEAD, handle, length);
	if (size)
		memcpy(packet + PACKET_HEAD + length, data, size);
	while (sent < total) {
		ssize_t n = send(fd, packet + sent, total - sent, MSG_NOSIGNAL);

		if (n <= 0)
			return; /* The client is gone. */
		sent += (size_t)n;
	}
}

static bool receive(int fd, void *to, size_t size)
{
	while (size) {
		ssize_t n = recv(fd, to, size, 0);

		if (n <= 0)
			return false;
		to = (char *)to + n;
		size -= (size_t)n;
	}
	return true;
}

static void answer_frame(int fd, const char *handle, struct payload *payload,
			 const struct signature *signature, const void *results, uint64_t run_ns)
{
	const struct fk_timings timings = { .wait_ns = 5, .run_ns = run_ns };
	char error[PAYLOAD_ERROR];
	const void *data;
	size_t size;

	ck_assert_int_eq(payload_write_answer(payload, signature, results, &timings, &data, &size,
					      error),
			 0);
	answer(fd, PACKET_COMPLETE, handle, data, size);
}

/* The answer to `status`. */
static void answer_status(struct stub_server *server, int fd)
{
	char text[1024];
	uint32_t gateways = server->left ? 0 : STUB_SERVER_GATEWAYS;
	int n = snprintf(text, sizeof(text), "reverse\t0\t0\t1\n%s\t0\t0\t%u\n%sadd\t0\t0\t%u\n.\n",
			 server->module, gateways, server->module, gateways);

	server->left -= server->left > 0;
	server->counts.searches++;
	(void)!send(fd, text, (size_t)n, MSG_NOSIGNAL);
}

static void answer_list(struct stub_server *server, int fd, const char *handle)
{
	char text[4096] = "[";
	size_t n = 1;

	for (uint32_t i = 0; i < server->n_tasks; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n,
				      "%s{\"name\":\"%s\",\"signature\":\"%s\",\"help\":\"a stub\","
				      "\"jobs\":%u}",
				      i ? "," : "", server->tasks[i].name,
				      server->tasks[i].signature, STUB_SERVER_JOBS);
	n += (size_t)snprintf(text + n, sizeof(text) - n, "]");
	answer(fd, PACKET_COMPLETE, handle, text, n);
}

/* Sends the progress of a job until the client ends the connection. */
static void drip(int fd, const char *handle)
{
	char byte;

	while (recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN) {
		answer(fd, STUB_SERVER_STATUS, handle, "1\0002", 3);
		(void)poll(NULL, 0, 100);
	}
}

/* Runs a call of a task, with the lock held. */
static void run(struct stub_server *server, int fd, const struct stub_task *task,
		const char *handle, char *data, size_t size)
{
	uint64_t hash = signature_hash(task->name, task->signature);
	struct signature signature;
	struct payload payload;
	char error[PAYLOAD_ERROR], line[PAYLOAD_EXCEPTION];
	union {
		int64_t i64;
		double f64;
	} results[2] = { { 0 } };
	const union fk_value *values = payload.values;
	int err;

	ck_assert_int_eq(signature_parse(task->signature, &signature, NULL), 0);
	err = payload_parse_call(data, size, &signature, hash, &payload, error);
	if (err) {
		size = payload_format_exception(line, PAYLOAD_REFUSED, err, error);
		answer(fd, PACKET_EXCEPTION, handle, line, size);
		answer(fd, PACKET_FAIL, handle, NULL, 0);
		return;
	}
	server->counts.idempotent += payload.flags & PAYLOAD_IDEMPOTENT;
	server->counts.timeouts += payload.timeout_ns != 0;
	server->counts.weight = payload.weight;
	if (streq(task->name, "stub:hold")) {
		ck_assert_uint_lt(server->n_held, STUB_SERVER_HELD);
		server->held[server->n_held] =
			(struct stub_server_held){ .fd = fd, .n = values[0].i64 };
		strcpy(server->held[server->n_held++].handle, handle);
		pthread_cond_broadcast(&server->changed);
		return;
	}
	if (streq(task->name, "stub:say")) {
		answer(fd, PACKET_EXCEPTION, handle, values[0].str, strlen(values[0].str));
		answer(fd, PACKET_FAIL, handle, NULL, 0);
		return;
	}
	if (streq(task->name, "stub:junk")) {
		answer(fd, PACKET_COMPLETE, handle, "junk", 4);
		return;
	}
	if (streq(task->name, "stub:fail") && server->failed++ < values[0].i64) {
		answer(fd, PACKET_FAIL, handle, NULL, 0);
		return;
	}
	if (streq(task->name, "stub:add"))
		results[0].i64 = values[0].i64 + values[1].i64;
	else if (streq(task->name, "stub:later"))
		results[0].i64 = values[0].i64;
	else if (streq(task->name, "stub:args")) {
		results[0].i64 = (int64_t)(strlen(values[0].str) + values[1].buf.size);
		results[1].f64 = values[2].f64;
	} else if (streq(task->name, "stub:turn")) {
		uint8_t *bytes = values[0].buf.data;

		results[0].i64 = (int64_t)values[0].buf.size;
		for (size_t i = 0; i < values[0].buf.size; i++)
			bytes[i] = (uint8_t)~bytes[i];
	} else {
		results[0].i64 = 7;
	}
	answer_frame(fd, handle, &payload, &signature, results, 1000);
	payload_fini(&payload);
}

/* Handles a submission: function, unique id, payload. */
static void submit(struct stub_server *server, int fd, uint32_t type, char *data, size_t size)
{
	const char *function = data, *unique = data + strlen(data) + 1;
	char *payload = data + strlen(function) + strlen(unique) + 2, handle[PACKET_HANDLE];
	_cleanup_free_ void *aligned = NULL;

	size -= (size_t)(payload - data);
	server->counts.calls += !streq(function, server->module);
	server->counts.high += type == PACKET_SUBMIT_HIGH;
	server->counts.low += type == PACKET_SUBMIT_LOW;
	if (streq(function, "stub:full") && server->full++ < 2) {
		answer(fd, PACKET_ERROR, "QUEUE_FULL", "Job queue full", 14);
		return;
	}
	(void)snprintf(handle, sizeof(handle), "H:stub:%u", ++server->handles);
	answer(fd, PACKET_CREATED, handle, NULL, 0);
	if (streq(function, server->module) && server->drips) {
		pthread_mutex_unlock(&server->lock);
		drip(fd, handle);
		pthread_mutex_lock(&server->lock);
		return;
	}
	if (streq(function, server->module)) {
		answer_list(server, fd, handle);
		return;
	}
	ck_assert_int_eq(posix_memalign(&aligned, PAYLOAD_ALIGN, size + 1), 0);
	memcpy(aligned, payload, size);
	if (server->take) {
		struct stub_call *call = malloc(sizeof(*call));

		ck_assert_ptr_nonnull(call);
		*call = (struct stub_call){ .received_ns = clock_ns(),
					    .server = server,
					    .fd = fd,
					    .data = steal_ptr(aligned),
					    .size = size };
		(void)snprintf(call->handle, sizeof(call->handle), "%s", handle);
		(void)snprintf(call->unique, sizeof(call->unique), "%s", unique);
		(void)snprintf(call->task, sizeof(call->task), "%s", function);
		server->take(call);
		return;
	}
	for (uint32_t i = 0; i < server->n_tasks; i++)
		if (streq(server->tasks[i].name, function)) {
			run(server, fd, &server->tasks[i], handle, aligned, size);
			return;
		}
	ck_abort_msg("no task %s", function);
}

static void *serve(void *arg)
{
	struct stub_server_connection *connection = arg;
	struct stub_server *server = connection->server;
	char head[PACKET_HEAD];

	while (receive(connection->fd, head, 7)) {
		_cleanup_free_ char *data = NULL;
		uint32_t words[2];

		if (!memcmp(head, "status\n", 7)) {
			pthread_mutex_lock(&server->lock);
			answer_status(server, connection->fd);
			pthread_mutex_unlock(&server->lock);
			continue;
		}
		if (!receive(connection->fd, head + 7, sizeof(head) - 7))
			break;
		ck_assert_int_eq(memcmp(head, PACKET_REQUEST, 4), 0);
		memcpy(words, head + 4, sizeof(words));
		/* Not calloc(): tests of the client make it fail. */
		data = malloc(be32toh(words[1]) + 1);
		ck_assert_ptr_nonnull(data);
		if (!receive(connection->fd, data, be32toh(words[1])))
			break;
		data[be32toh(words[1])] = '\0';
		pthread_mutex_lock(&server->lock);
		if (be32toh(words[0]) == PACKET_OPTION) {
			server->counts.options++;
			answer(connection->fd, PACKET_OPTION_SET, data, NULL, 0);
		} else {
			submit(server, connection->fd, be32toh(words[0]), data, be32toh(words[1]));
		}
		pthread_mutex_unlock(&server->lock);
	}
	pthread_mutex_lock(&server->lock);
	for (uint32_t i = 0; i < server->n_held;)
		if (server->held[i].fd == connection->fd)
			server->held[i] = server->held[--server->n_held];
		else
			i++;
	(void)close(connection->fd);
	server->fds[connection->at] = -1;
	server->threads--;
	pthread_cond_broadcast(&server->changed);
	pthread_mutex_unlock(&server->lock);
	free(connection);
	return NULL;
}

static void *accept_all(void *arg)
{
	struct stub_server *server = arg;
	int fd;

	while ((fd = accept4(server->fd, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
		struct stub_server_connection *connection = malloc(sizeof(*connection));
		const int on = 1;
		uint32_t at = 0;
		pthread_t thread;

		/* An answer must not wait until the client has acknowledged the one before. */
		(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));

		ck_assert_ptr_nonnull(connection);
		pthread_mutex_lock(&server->lock);
		while (server->fds[at] >= 0)
			ck_assert_uint_lt(++at, STUB_SERVER_FDS);
		server->fds[at] = fd;
		server->threads++;
		pthread_mutex_unlock(&server->lock);
		*connection = (struct stub_server_connection){ server, at, fd };
		ck_assert_int_eq(pthread_create(&thread, NULL, serve, connection), 0);
		(void)pthread_detach(thread);
	}
	return NULL;
}

struct stub_server *stub_server_start(uint16_t port)
{
	static const struct stub_task tasks[] = {
		{ "stub:add", "n:i64, m:i64 -> i64" },
		{ "stub:args", "a:str, b:buf, x:f64 -> i64, f64" },
		{ "stub:turn", "data:iobuf -> i64" },
		{ "stub:say", "line:str -> i64" },
		{ "stub:hold", "n:i64 -> i64" },
		{ "stub:fail", "n:i64 -> i64" },
		{ "stub:full", "n:i64 -> i64" },
		{ "stub:junk", "n:i64 -> i64" },
	};
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };
	struct stub_server *server = calloc(1, sizeof(*server));
	socklen_t size = sizeof(address);
	const int on = 1;

	ck_assert_ptr_nonnull(server);
	pthread_mutex_init(&server->lock, NULL);
	pthread_cond_init(&server->changed, NULL);
	memset(server->fds, -1, sizeof(server->fds));
	memcpy(server->tasks, tasks, sizeof(tasks));
	server->n_tasks = ARRAY_SIZE(tasks);
	strcpy(server->module, "stub:");
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	server->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ck_assert_int_ge(server->fd, 0);
	(void)setsockopt(server->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	ck_assert_int_eq(bind(server->fd, (struct sockaddr *)&address, size), 0);
	ck_assert_int_eq(listen(server->fd, 64), 0);
	ck_assert_int_eq(getsockname(server->fd, (struct sockaddr *)&address, &size), 0);
	server->port = ntohs(address.sin_port);
	ck_assert_int_eq(pthread_create(&server->accepter, NULL, accept_all, server), 0);
	return server;
}

void stub_server_calls(struct stub_server *server, const struct stub_task *tasks_of, uint32_t n,
		       void (*take)(struct stub_call *call))
{
	ck_assert_uint_le(n, STUB_SERVER_TASKS);
	memcpy(server->tasks, tasks_of, n * sizeof(*tasks_of));
	server->n_tasks = n;
	server->take = take;
	(void)snprintf(server->module, sizeof(server->module), "%.*s",
		       (int)strcspn(tasks_of[0].name, ":") + 1, tasks_of[0].name);
}

static void stub_call_free(struct stub_call *call)
{
	free(call->data);
	free(call);
}

void stub_call_answer(struct stub_call *call, struct payload *payload,
		      const struct signature *signature, const void *results)
{
	pthread_mutex_lock(&call->server->lock);
	answer_frame(call->fd, call->handle, payload, signature, results,
		     clock_ns() - call->received_ns);
	pthread_mutex_unlock(&call->server->lock);
	stub_call_free(call);
}

void stub_call_raise(struct stub_call *call, const char *line)
{
	pthread_mutex_lock(&call->server->lock);
	answer(call->fd, PACKET_EXCEPTION, call->handle, line, strlen(line));
	answer(call->fd, PACKET_FAIL, call->handle, NULL, 0);
	pthread_mutex_unlock(&call->server->lock);
	stub_call_free(call);
}

uint16_t stub_server_port(const struct stub_server *server)
{
	return server->port;
}

void stub_server_cut(struct stub_server *server)
{
	pthread_mutex_lock(&server->lock);
	for (uint32_t i = 0; i < STUB_SERVER_FDS; i++)
		if (server->fds[i] >= 0)
			(void)shutdown(server->fds[i], SHUT_RDWR);
	server->n_held = 0;
	pthread_mutex_unlock(&server->lock);
}

void stub_server_stop(struct stub_server *server)
{
	(void)shutdown(server->fd, SHUT_RDWR);
	pthread_join(server->accepter, NULL);
	(void)close(server->fd);
	stub_server_cut(server);
	pthread_mutex_lock(&server->lock);
	while (server->threads)
		pthread_cond_wait(&server->changed, &server->lock);
	pthread_mutex_unlock(&server->lock);
	pthread_mutex_destroy(&server->lock);
	pthread_cond_destroy(&server->changed);
	free(server);
}

void stub_server_release(struct stub_server *server)
{
	pthread_mutex_lock(&server->lock);
	while (server->n_held) {
		const struct stub_server_held *held = &server->held[--server->n_held];
		const struct signature none = { .n_results = 1, .results_size = 8 };
		struct payload payload = { .is_json = 0 };

		answer_frame(held->fd, held->handle, &payload, &none, &held->n, 1000);
	}
	pthread_mutex_unlock(&server->lock);
}

struct stub_server_counts stub_server_counts(struct stub_server *server)
{
	struct stub_server_counts counts;

	pthread_mutex_lock(&server->lock);
	counts = server->counts;
	counts.held = server->n_held;
	pthread_mutex_unlock(&server->lock);
	return counts;
}

void stub_server_wait_held(struct stub_server *server, uint32_t n)
{
	pthread_mutex_lock(&server->lock);
	while (server->n_held < n)
		pthread_cond_wait(&server->changed, &server->lock);
	pthread_mutex_unlock(&server->lock);
}

void stub_server_change(struct stub_server *server)
{
	pthread_mutex_lock(&server->lock);
	server->tasks[0].signature = "n:i64, m:i64, o:i64 -> i64";
	pthread_mutex_unlock(&server->lock);
}

void stub_server_add_task(struct stub_server *server)
{
	pthread_mutex_lock(&server->lock);
	server->tasks[server->n_tasks++] = (struct stub_task){ "stub:later", "n:i64 -> i64" };
	pthread_mutex_unlock(&server->lock);
}

void stub_server_drip(struct stub_server *server)
{
	pthread_mutex_lock(&server->lock);
	server->drips = true;
	pthread_mutex_unlock(&server->lock);
}

void stub_server_leave(struct stub_server *server, uint32_t searches)
{
	pthread_mutex_lock(&server->lock);
	server->left = searches;
	pthread_mutex_unlock(&server->lock);
}
