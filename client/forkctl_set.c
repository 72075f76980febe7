/* SPDX-License-Identifier: MIT */
/*
 * client/forkctl_set.c - forkctl set: changes a setting of a running forkd
 *
 * WHAT IT IS
 *   One message and one answer on a connection of its own, without the segments of a client. The
 *   manager decides: who may do that, by what the kernel says of the peer, and what can be set.
 *
 * WHAT HAPPENS IF A PEER DIES HERE
 *   The manager: the connection ends, or nothing comes for SET_TIMEOUT_S; either is reported.
 */
#include "client/forkctl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include "common/cleanup.h"
#include "shm/proto.h"

#define SET_TIMEOUT_S 10

/* Connects. Returns an exit code. */
static int set_connect(const char *path, int *ret_fd)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct timeval timeout = { .tv_sec = SET_TIMEOUT_S };
	_cleanup_close_ int fd = -1;

	if (strlen(path) >= sizeof(address.sun_path))
		return forkctl_fail(FORKCTL_NO_DAEMON,
				    "the path of forkd's socket has %zu bytes, %zu are possible",
				    strlen(path), sizeof(address.sun_path) - 1);
	(void)strcpy(address.sun_path, path);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return forkctl_fail(FORKCTL_NO_DAEMON, "no socket: %s", strerror(errno));
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return forkctl_fail(FORKCTL_NO_DAEMON, "cannot connect to forkd on %s: %s: %s",
				    path, strerror(errno),
				    errno == EACCES || errno == EPERM
					    ? "only root and the user that forkd runs as may set"
					    : "start it, or name its socket with --socket");
	*ret_fd = steal_fd(&fd);
	return 0;
}

static int set_exchange(int fd, const struct proto_set *set, union proto_message *ret_answer)
{
	int fds[PROTO_MAX_FDS];
	uint32_t n_fds = 0;
	int r = proto_send(fd, set, sizeof(*set), NULL, 0);

	if (r < 0)
		return r;
	do {
		r = proto_recv(fd, ret_answer, fds, &n_fds, 0);
	} while (r == -EINTR);
	while (r > 0 && n_fds)
		(void)safe_close(fds[--n_fds]);
	return r;
}

int forkctl_set(const char *socket, int argc, char *argv[])
{
	struct proto_set set = { .head = { PROTO_MAGIC, PROTO_SET } };
	union proto_message answer;
	_cleanup_close_ int fd = -1;
	int r;

	if (argc != 3)
		return forkctl_fail(FORKCTL_USAGE,
				    "set takes a name and a value: `forkctl set scheduler busy`");
	if (strlen(argv[1]) >= sizeof(set.name) || strlen(argv[2]) >= sizeof(set.value))
		return forkctl_fail(FORKCTL_USAGE, "set: no name or value is as long as that");
	(void)strcpy(set.name, argv[1]);
	(void)strcpy(set.value, argv[2]);
	if (!socket)
		socket = getenv("FORKD_SOCKET");
	r = set_connect(socket && *socket ? socket : FK_SOCKET_PATH, &fd);
	if (r)
		return r;
	r = set_exchange(fd, &set, &answer);
	if (r == -EAGAIN)
		return forkctl_fail(FORKCTL_NO_DAEMON, "forkd does not answer within %d s",
				    SET_TIMEOUT_S);
	if (r <= 0)
		return forkctl_fail(FORKCTL_NO_DAEMON, "forkd has ended the connection%s%s",
				    r ? ": " : "", r ? strerror(-r) : "");
	if (answer.head.type == PROTO_ERROR) {
		answer.error.text[sizeof(answer.error.text) - 1] = '\0';
		return forkctl_fail(FORKCTL_FAILED, "%s", answer.error.text);
	}
	if (answer.head.type != PROTO_SET_DONE)
		return forkctl_fail(FORKCTL_NO_DAEMON,
				    "forkd's answer is not understood: use the forkctl that came "
				    "with it");
	answer.set.value[sizeof(answer.set.value) - 1] = '\0';
	(void)printf("%s = %s (was %s)\n", argv[1], argv[2], answer.set.value);
	return FORKCTL_OK;
}
