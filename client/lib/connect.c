/* SPDX-License-Identifier: MIT */
#include "client/lib/connect.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "client/lib/client.h"
#include "client/lib/plugin.h"
#include "common/cleanup.h"
#include "common/crash_site.h"

/* Returns the socket path of the user's own instance, or NULL if the file does not exist. */
static const char *connect_own(void)
{
	static _Thread_local char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
	const char *directory = secure_getenv("XDG_RUNTIME_DIR");
	int n;

	if (!directory || directory[0] != '/')
		return NULL;
	n = snprintf(path, sizeof(path), "%s/forkd/forkd.sock", directory);
	return n < (int)sizeof(path) && access(path, F_OK) == 0 ? path : NULL;
}

const char *connect_machine(void)
{
	/* The forkd of the machine first: one pool is better than one for each user. */
	const char *own = access(FK_SOCKET_PATH, F_OK) < 0 ? connect_own() : NULL;

	return own ? own : FK_SOCKET_PATH;
}

const char *connect_path(const char *socket)
{
	if (socket)
		return socket;
	socket = secure_getenv("FORKD_SOCKET");
	if (socket && *socket)
		return socket;
	return connect_machine();
}

/* What to do if no forkd listens there. */
static const char *connect_advice(const char *path)
{
	const char *own = connect_own();

	if (streq(path, FK_SOCKET_PATH))
		return "start it with `systemctl start forkd`, or use `forkctl session -- COMMAND`";
	if (own && streq(path, own))
		return "start it with `systemctl --user start forkd`";
	return "correct this path (an argument, or FORKD_SOCKET), or start forkd with this "
	       "--socket";
}

/* Sets the error text of a connect() that has failed. err: negative. Returns an error. */
static int connect_error(const char *path, int err)
{
	switch (-err) {
	case ENOENT:
	case ECONNREFUSED:
		return error_say(-FK_E_NOT_LISTENING, "no forkd listens on %s: %s", path,
				 connect_advice(path));
	case EACCES:
	case EPERM:
		return error_say(-EACCES,
				 "not allowed to connect to %s: its permissions, or those of its "
				 "directory, exclude this user (socket-mode in forkd.conf)",
				 path);
	case EPROTOTYPE:
		return error_say(-FK_E_NOT_FORKD, "what listens on %s is not forkd", path);
	case EAGAIN:
		return error_say(-FK_E_NO_ANSWER, "forkd on %s accepts no connection in %d s", path,
				 CONNECT_TIMEOUT_S);
	default:
		return error_say(err, "cannot connect to %s: %s", path, strerrordesc_np(-err));
	}
}

int connect_socket(const char *path, int *ret_fd)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct timeval timeout = { .tv_sec = CONNECT_TIMEOUT_S };
	_cleanup_close_ int fd = -1;
	size_t length = strlen(path);
	int err;

	if (plugin_opens(path))
		return error_say(-EOPNOTSUPP,
				 "%s is a cluster, which takes jobs only: name the socket of a "
				 "machine's forkd",
				 path);
	if (!length)
		return error_say(-FK_E_SOCKET_PATH, "%s", fk_strerror(FK_E_SOCKET_PATH));
	if (length >= sizeof(address.sun_path))
		return error_say(
			-ENAMETOOLONG,
			"the path of forkd's socket has %zu bytes, %zu are possible: %.60s...",
			length, sizeof(address.sun_path) - 1, path);
	memcpy(address.sun_path, path, length);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0) {
		err = -errno;
		return error_say(err, "no socket: %s", strerrordesc_np(-err));
	}
	/* SO_SNDTIMEO also limits connect(), which blocks if the daemon does not accept. */
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
	do {
		err = connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ? -errno : 0;
	} while (err == -EINTR); /* no connection is in progress then: it is a local socket */
	if (err)
		return connect_error(path, err);
	FK_CRASH(connect_open);
	*ret_fd = steal_fd(&fd);
	return 0;
}

/* True if this process can open as many descriptors as forkd sends. fd: any descriptor. */
static int connect_can_receive(int fd)
{
	int copies[3], n = 0;

	while (n < 3 && (copies[n] = fcntl(fd, F_DUPFD_CLOEXEC, 0)) >= 0)
		n++;
	for (int i = 0; i < n; i++)
		(void)close(copies[i]);
	return n == 3;
}

int connect_pass(int fd, const char *path, const void *request, size_t request_size, int pass,
		 union proto_message *ret_answer, int *ret_fds, uint32_t *ret_n_fds)
{
	union proto_message message;
	int err = proto_send(fd, request, request_size, &pass, pass < 0 ? 0 : 1);
	int size;

	*ret_n_fds = 0;
	/* After -EPIPE the socket may still contain the reason of a refusal. */
	if (err && err != -EPIPE)
		return error_say(err, "cannot write to %s: %s", path, strerrordesc_np(-err));
	FK_CRASH(connect_asked);
	size = proto_recv(fd, &message, ret_fds, ret_n_fds, 0);
	if (size == -EAGAIN)
		return error_say(-FK_E_NO_ANSWER, "forkd on %s does not answer", path);
	if (size == -EBADMSG && !connect_can_receive(fd))
		return error_say(-EMFILE,
				 "this process has no descriptors left for those of forkd on %s: "
				 "raise its limit (ulimit -n)",
				 path);
	if (size == -EBADMSG)
		return connect_not_understood(path);
	if (size < 0)
		return error_say(size, "cannot read from %s: %s", path, strerrordesc_np(-size));
	if (size == 0)
		return error_say(-ECONNRESET, "forkd on %s closed the connection at once", path);
	*ret_answer = message;
	if (message.head.type == PROTO_ERROR && size >= (int)sizeof(message.error)) {
		message.error.text[sizeof(message.error.text) - 1] = '\0';
		err = message.error.code;
		if (err >= 0 || (err < -4095 && !error_is_own(err)))
			err = -EACCES;
		return error_say(err, "%s", message.error.text);
	}
	return size;
}

int connect_not_understood(const char *path)
{
	return error_say(-FK_E_NOT_FORKD, "what listens on %s answers in a way that is not forkd's",
			 path);
}
