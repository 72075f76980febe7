/* SPDX-License-Identifier: MIT */
/*
 * observers.c - forkctl status, top, counters, jobs and trace for a pool in a program
 *
 * An observer gets the board, read-only, in answer to HELLO, as from the manager. The segments for
 * jobs that belong to the answer are its own, and the pool does not know them: an observer cannot
 * submit. Each later message ends its connection, so that a submission fails at once.
 *
 * Threads: observers_begin(), observers_end(): one thread. The rest: the observers' own thread,
 * which is the channel's thread for traces (daemon/core/trace.h).
 *
 * The program's user and root may connect. If an observer dies, its connection ends.
 */
#include "daemon/local/observers.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/stale_socket.h"
#include "common/util.h"
#include "daemon/core/clients.h"
#include "daemon/core/pool_state.h"
#include "daemon/core/trace.h"
#include "shm/job.h"
#include "shm/job_list.h"
#include "shm/layout.h"
#include "shm/ledger.h"
#include "shm/proto.h"
#include "shm/segment.h"
#include "shm/tenant.h"
#include "shm/trace.h"

#define OBSERVERS	16u
#define OBSERVER_HEAP	65536u /* bytes */
#define OBSERVERS_PAUSE 100    /* ms without a descriptor */

struct observers {
	struct pool *pool;
	pthread_t thread;
	int board_fd;
	int listener;
	int trace_fd; /* -1: no trace */
	uint32_t n;
	struct observer {
		int fd;
		bool greeted; /* has the board, or a trace */
		bool traces;
	} all[OBSERVERS];
	struct sockaddr_un address;
	struct stat file; /* of the socket */
};

static void observer_refuse(int fd, int code, const char *text)
{
	struct proto_error error = { .head = { PROTO_MAGIC, PROTO_ERROR }, .code = code };

	(void)snprintf(error.text, sizeof(error.text), "%s", text);
	(void)proto_send(fd, &error, sizeof(error), NULL, 0);
}

/* Makes a segment with this content after its head. Returns a descriptor or a negative errno. */
static int observer_segment(uint32_t kind, uint64_t size, const void *content, uint64_t length)
{
	_cleanup_close_ int fd = segment_create("forkd-observer", kind, size, 1, 0, 0600);

	if (fd >= 0 && pwrite(fd, (const char *)content + sizeof(struct segment),
			      length - sizeof(struct segment),
			      sizeof(struct segment)) != (ssize_t)(length - sizeof(struct segment)))
		return -errno;
	return steal_fd(&fd);
}

static bool observer_welcome(struct observers *all, int fd, const struct proto_hello *hello)
{
	const struct proto_welcome welcome = { { PROTO_MAGIC, PROTO_WELCOME }, .epoch = 1 };
	const struct tenant_segment tenant = { .n_rings = all->pool->n_workers };
	const struct client_segment client = {
		.n_jobs = 1,
		.jobs_offset = sizeof(client),
		.heap_offset = client_segment_heap_offset(1),
		.heap_max = OBSERVER_HEAP,
		.heap_size = OBSERVER_HEAP,
	};
	_cleanup_close_ int board_fd = segment_reopen_readonly(all->board_fd);
	_cleanup_close_ int tenant_fd = -1, client_fd = -1;
	int fds[3];

	if (hello->version != PROTO_VERSION || hello->layout_hash != LAYOUT_HASH) {
		observer_refuse(fd, -EPROTO, "forkctl and libforkpool are of different versions");
		return false;
	}
	tenant_fd = observer_segment(SEGMENT_TENANT, tenant_segment_size(all->pool->n_workers),
				     &tenant, sizeof(tenant));
	client_fd = observer_segment(SEGMENT_CLIENT, client.heap_offset + OBSERVER_HEAP, &client,
				     sizeof(client));
	if (board_fd < 0 || tenant_fd < 0 || client_fd < 0) {
		observer_refuse(fd, -EMFILE, "the program has no descriptors for an observer");
		return false;
	}
	memcpy(fds, (int[]){ board_fd, tenant_fd, client_fd }, sizeof(fds));
	return proto_send(fd, &welcome, sizeof(welcome), fds, ARRAY_SIZE(fds)) == 0;
}

static void observer_print(struct pool *pool, uint32_t slot, uint32_t state, FILE *file,
			   uint64_t *n)
{
	struct client_entry *client = clients_get(pool, slot);

	if (!client)
		return;
	job_list_write(file, pool->arena,
		       &(struct job_list_client){
			       .slot = slot,
			       .generation = client->generation,
			       .row = (uint64_t)slot * pool->jobs_max,
			       .n_jobs = client->n_jobs,
			       .jobs = client->jobs,
		       },
		       state, n);
	clients_put(pool, client);
}

static void observer_tell_jobs(struct observers *all, int fd)
{
	static const uint32_t states[] = { LEDGER_RUNNING, LEDGER_QUEUED };
	struct proto_told told = { .head = { PROTO_MAGIC, PROTO_TOLD } };
	int memory = segment_memfd("forkd-jobs");
	FILE *file = memory < 0 ? NULL : fdopen(memory, "w");

	for (size_t k = 0; file && k < ARRAY_SIZE(states); k++)
		for (uint32_t i = 0; i < all->pool->clients_max; i++)
			observer_print(all->pool, i, states[k], file, &told.n);
	if (file && fflush(file) == 0)
		(void)proto_send(fd, &told, sizeof(told), &memory, 1);
	else
		observer_refuse(fd, -EMFILE, "the program has no descriptor for a list of jobs");
	if (file)
		fclose(file);
	else
		(void)safe_close(memory);
}

static bool observer_trace(struct observers *all, struct observer *o)
{
	const struct proto_told told = { .head = { PROTO_MAGIC, PROTO_TOLD } };
	_cleanup_close_ int fd = -1;
	int r = 0;

	if (all->trace_fd < 0) {
		all->trace_fd = segment_create("forkd-trace", SEGMENT_TRACE,
					       trace_size(all->pool->n_workers), 1, 0, 0400);
		r = all->trace_fd < 0 ? all->trace_fd : trace_begin(all->pool, all->trace_fd);
	}
	fd = r < 0 ? r : segment_reopen_readonly(all->trace_fd);
	o->traces = fd >= 0 && proto_send(o->fd, &told, sizeof(told), &fd, 1) == 0;
	if (!o->traces)
		observer_refuse(o->fd, r < 0 ? r : fd, "the program cannot make a trace");
	return o->traces;
}

/* Handles the first message. False: the connection ends. */
static bool observer_serve(struct observers *all, struct observer *o)
{
	union proto_message m;
	int fds[PROTO_MAX_FDS], size;
	uint32_t n_fds = 0;

	size = proto_recv(o->fd, &m, fds, &n_fds, MSG_DONTWAIT);
	while (n_fds)
		(void)close(fds[--n_fds]);
	if (size == -EAGAIN)
		return true;
	if (size < (int)sizeof(m.head) || o->greeted)
		return false;
	o->greeted = true;
	switch (m.head.type) {
	case PROTO_HELLO:
		return size >= (int)sizeof(m.hello) && observer_welcome(all, o->fd, &m.hello);
	case PROTO_JOBS:
		observer_tell_jobs(all, o->fd);
		return false;
	case PROTO_TRACE:
		return observer_trace(all, o);
	default:
		observer_refuse(o->fd, -EOPNOTSUPP,
				"a pool in a program is only shown: forkctl status, top, counters, "
				"jobs and trace");
		return false;
	}
}

static void observer_leave(struct observers *all, uint32_t i)
{
	bool traced = false;

	(void)close(all->all[i].fd);
	all->all[i] = all->all[--all->n];
	for (i = 0; i < all->n; i++)
		traced |= all->all[i].traces;
	if (all->trace_fd < 0 || traced)
		return;
	trace_end(all->pool);
	all->trace_fd = safe_close(all->trace_fd);
}

/* False: there is no descriptor for it, for now. */
static bool observer_accept(struct observers *all)
{
	int fd = accept4(all->listener, NULL, NULL, SOCK_CLOEXEC);
	struct ucred peer;
	socklen_t size = sizeof(peer);

	if (fd < 0)
		return errno == EAGAIN || errno == ECONNABORTED || errno == EINTR;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 ||
	    (peer.uid && peer.uid != geteuid()) || all->n == OBSERVERS) {
		observer_refuse(fd, -EACCES,
				"only the program's user and root may observe it, 16 at a time");
		(void)close(fd);
		return true;
	}
	all->all[all->n++] = (struct observer){ .fd = fd };
	return true;
}

static void *observers_main(void *arg)
{
	struct observers *all = arg;
	struct pollfd p[OBSERVERS + 1];
	bool accepts = true;

	pthread_setname_np(pthread_self(), "forkd-socket");
	for (;;) {
		uint32_t n = all->n;

		p[n] = (struct pollfd){ .fd = all->listener, .events = accepts ? POLLIN : 0 };
		for (uint32_t i = 0; i < n; i++)
			p[i] = (struct pollfd){ .fd = all->all[i].fd, .events = POLLIN };
		if (poll(p, n + 1, accepts ? -1 : OBSERVERS_PAUSE) < 0)
			continue;
		if (p[n].revents & POLLHUP)
			return NULL;
		/* From the end, because the last one takes the place of one that leaves. */
		for (uint32_t i = n; i-- > 0;)
			if (p[i].revents && !observer_serve(all, &all->all[i]))
				observer_leave(all, i);
		accepts = !p[n].revents || observer_accept(all);
	}
}

/* The socket gets its name when it listens: so another program never finds it stale. */
static int observers_listen(struct observers *all)
{
	struct sockaddr_un own = { .sun_family = AF_UNIX };
	int r;

	if (snprintf(own.sun_path, sizeof(own.sun_path), "%s.%d", all->address.sun_path,
		     (int)getpid()) >= (int)sizeof(own.sun_path))
		return -ENAMETOOLONG;
	all->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (all->listener < 0)
		return -errno;
	(void)unlink(own.sun_path);
	if (bind(all->listener, (const struct sockaddr *)&own, sizeof(own)) < 0)
		return -errno;
	r = listen(all->listener, OBSERVERS) < 0 || lstat(own.sun_path, &all->file) < 0 ? -errno
											: 0;
	if (r == 0 && link(own.sun_path, all->address.sun_path) < 0)
		r = errno == EEXIST ? -EADDRINUSE : -errno;
	if (r == -EADDRINUSE && socket_is_stale(&all->address, SOCK_SEQPACKET)) {
		(void)unlink(all->address.sun_path);
		r = link(own.sun_path, all->address.sun_path) < 0 ? -EADDRINUSE : 0;
	}
	(void)unlink(own.sun_path);
	return r;
}

/* Removes the socket, unless another program has replaced it. */
static void observers_unlink(const struct observers *all)
{
	struct stat st;

	if (lstat(all->address.sun_path, &st) == 0 && st.st_dev == all->file.st_dev &&
	    st.st_ino == all->file.st_ino)
		(void)unlink(all->address.sun_path);
}

int observers_begin(struct pool *pool, int board_fd, const char *path,
		    struct observers **ret_observers)
{
	struct observers *all = calloc(1, sizeof(*all));
	int r = 0;

	if (!all)
		return -ENOMEM;
	all->pool = pool;
	all->board_fd = board_fd;
	all->trace_fd = all->listener = -1;
	all->address.sun_family = AF_UNIX;
	if (strlen(path) >= sizeof(all->address.sun_path))
		r = -ENAMETOOLONG;
	else
		strcpy(all->address.sun_path, path);
	if (r == 0)
		r = observers_listen(all);
	if (r == 0) {
		r = -pthread_create(&all->thread, NULL, observers_main, all);
		if (r < 0)
			observers_unlink(all);
	}
	if (r < 0) {
		(void)safe_close(all->listener);
		free(all);
		return r;
	}
	*ret_observers = all;
	return 0;
}

void observers_end(struct observers *all)
{
	if (!all)
		return;
	(void)shutdown(all->listener, SHUT_RDWR);
	pthread_join(all->thread, NULL);
	while (all->n)
		observer_leave(all, 0);
	observers_unlink(all);
	(void)close(all->listener);
	free(all);
}

void observers_forget(struct observers *all)
{
	if (!all)
		return;
	for (uint32_t i = 0; i < all->n; i++)
		(void)close(all->all[i].fd);
	(void)safe_close(all->trace_fd);
	(void)close(all->listener);
	free(all);
}
