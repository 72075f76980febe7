/* SPDX-License-Identifier: MIT */
/* peer_credentials.c - the process at the other end of a connection */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/log.h"
#include "common/options.h"
#include "daemon/manager/admission.h"
#include "daemon/manager/connection_internal.h"
#include "daemon/manager/connection_state.h"
#include "daemon/manager/loop.h"
#include "daemon/manager/quota.h"
#include "daemon/manager/socket_close.h"

/* Newer than the headers of Debian 12; a kernel before 6.5 fails with ENOPROTOOPT. */
#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

/* Finds the process behind a connection: sets s->pidfd, or s->unwatched. Without SO_PEERPIDFD the
 * pid could in theory be another process's by now; then the right process is dead, and the
 * connection ends. */
static void conn_watch(struct conn *s, int32_t pid)
{
	socklen_t size = sizeof(s->pidfd);

	if (getsockopt(s->fd, SOL_SOCKET, SO_PEERPIDFD, &s->pidfd, &size) == 0)
		return;
	s->pidfd = -1;
	if (errno == ENOPROTOOPT && pid <= 0)
		return;
	if (errno == ENOPROTOOPT)
		s->pidfd = pidfd_open(pid, 0);
	/* Under valgrind, only the end of the connection is seen. */
	s->unwatched = s->pidfd < 0 && errno != ENOSYS ? -errno : 0;
}

int conn_identify(struct conn *s)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);

	if (getsockopt(s->fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
		return -errno;
	s->uid = peer.uid;
	/* 0: of a pid namespace that this one cannot see; on the board 0 marks a free slot. */
	s->pid = peer.pid > 0 ? (uint32_t)peer.pid : UINT32_MAX;
	/* A process that cannot be watched is refused after its HELLO: if the HELLO came into a
	 * closed socket, the client could not read the reason. */
	conn_watch(s, peer.pid);
	return 0;
}

/* The groups of the process that made the connection, with that of SO_PEERCRED, without the
 * overflow group (userns.c). */
static int conn_gids(const struct conn *s, uint32_t **ret_gids, uint32_t *ret_n)
{
	_cleanup_free_ uint32_t *gids = NULL;
	struct ucred peer;
	socklen_t size = 0, size_peer = sizeof(peer);
	uint32_t all;

	/* Gets the number of groups, which may be 0. */
	if (getsockopt(s->fd, SOL_SOCKET, SO_PEERGROUPS, NULL, &size) < 0 && errno != ERANGE)
		return -errno;
	gids = malloc(size + sizeof(*gids));
	if (!gids)
		return -ENOMEM;
	if (getsockopt(s->fd, SOL_SOCKET, SO_PEERGROUPS, gids, &size) < 0 ||
	    getsockopt(s->fd, SOL_SOCKET, SO_PEERCRED, &peer, &size_peer) < 0)
		return -errno;
	all = size / sizeof(*gids);
	gids[all++] = peer.gid;
	*ret_n = 0;
	for (uint32_t i = 0; i < all; i++)
		if (gids[i] != s->table->strange_group)
			gids[(*ret_n)++] = gids[i];
	*ret_gids = gids;
	gids = NULL;
	return 0;
}

struct admission_peer conn_peer(const struct conn *s)
{
	struct pollfd p = { .fd = s->pidfd, .events = POLLIN };
	bool ended = s->pidfd >= 0 && poll(&p, 1, 0) > 0;

	return (struct admission_peer){
		.who.uid = s->uid,
		.pid = s->pid,
		.stranger = s->uid == s->table->stranger,
		.unwatched = ended ? -ESRCH : s->unwatched,
	};
}

struct log_about conn_about(const struct conn *s)
{
	return (struct log_about){
		.has = LOG_PID | LOG_UID | (s->slot == CONN_SLOT_NONE ? 0 : LOG_CLIENT),
		.client = s->slot,
		.pid = s->pid,
		.uid = s->uid,
	};
}

uint32_t *conn_groups(const struct conn *s, struct admission_peer *peer)
{
	uint32_t *gids = NULL;

	if (options_have_groups(s->table->options))
		peer->groupless = conn_gids(s, &gids, &peer->who.n_gids);
	peer->who.gids = gids;
	return gids;
}

void conn_comm(const struct conn *s, char *ret_comm, size_t size)
{
	char path[sizeof("/proc/4294967295/comm")];
	_cleanup_close_ int fd = -1;
	ssize_t n = 0;

	(void)snprintf(path, sizeof(path), "/proc/%u/comm", s->pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0)
		n = read(fd, ret_comm, size - 1);
	ret_comm[n > 0 ? n : 0] = '\0';
	ret_comm[strcspn(ret_comm, "\n")] = '\0';
}

int conn_await(struct conn *s, uint32_t events)
{
	int r = loop_poll(s->table->loop, &s->socket_source, s->fd, events);

	if (r == 0 && s->pidfd >= 0)
		r = loop_poll(s->table->loop, &s->pidfd_source, s->pidfd, POLLIN);
	return r;
}

void conn_disconnect(struct conn *s)
{
	struct loop *loop = s->table->loop;

	loop_forget(loop, &s->socket_source);
	loop_forget(loop, &s->pidfd_source);
	loop_forget(loop, &s->timer_source);
	s->fd = socket_close(s->table->closer, s->fd);
	s->pidfd = safe_close(s->pidfd);
}

void conn_judge(struct conn *s,
		void (*admission)(const struct options *options, const struct admission_peer *peer,
				  struct admission_verdict *ret),
		struct admission_verdict *ret_verdict)
{
	struct admission_peer peer = conn_peer(s);
	_cleanup_free_ uint32_t *gids = conn_groups(s, &peer);

	(void)gids; /* peer refers to them */
	admission(s->table->options, &peer, ret_verdict);
	s->rights = ret_verdict->rights;
}

uint64_t conn_cost(const struct conn_table *table, uint32_t uid, uint64_t ns)
{
	const struct admission_peer peer = { .who.uid = uid, .stranger = uid == table->stranger };

	return admission_is_operator(&peer, geteuid()) ? ns / QUOTA_OPERATOR : ns;
}
