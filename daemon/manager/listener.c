/* SPDX-License-Identifier: MIT */
/*
 * listener.c - the socket that clients connect to
 *
 * listener_open() requires a process with one thread (umask).
 *
 * INVARIANTS
 *   I1. A socket file is replaced only if no process answers on it. forkd locks the directory until
 *       it listens, so of two that start together one finds the other.
 *   I2. At the end it unlinks the file that it made at the start, identified by device and inode:
 *       never the socket of a later forkd.
 *   I3. The file has its permissions from the moment it exists, and its group before the socket
 *       listens. Until then connect() fails.
 *   I4. This thread accepts connections, not io_uring. A killed forkd may leave its socket to the
 *       next one, and its io_uring survives it for some milliseconds. A pending accept in it would
 *       take a connection and drop it. Or it would consume the wakeup of a connection, because such
 *       an accept waits exclusively, and that connection would wait for the next one.
 *   I5. Accepting and closing costs more than connecting, and the manager has the higher priority.
 *       So while a uid connects far too often (connection_line.c), at most LISTENER_FEW connections
 *       are accepted in LISTENER_PACE_NS. The socket's queue is then so short that connect() blocks
 *       in loops. The kernel serves threads in connect() in order of arrival. Other clients wait
 *       for LISTENER_FLOOD / LISTENER_FEW paces in the queue, and one more for each LISTENER_FEW
 *       threads that are already in connect().
 */
#include "daemon/manager/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <systemd/sd-daemon.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/util.h"
#include "daemon/manager/fdstore.h"
#include "shm/proto.h"

#define LISTENER_PROBES	  10u /* connections that may be cut before one counts as an answer */
#define LISTENER_PROBE_MS 100
#define LISTENER_LOOKS	  3u   /* tries to read a file's status if memory is short */
#define LISTENER_TURN	  16u  /* connections accepted before other sources have their turn */
#define LISTENER_FLOOD	  16   /* length of the socket's queue in a flood */
#define LISTENER_FEW	  16u  /* accepted of these at a time */
#define LISTENER_CALM	  100u /* passes without excess connections that end a flood */
#define LISTENER_PACE_NS  NSEC_PER_MSEC
#define LISTENER_AGAIN_NS (100 * NSEC_PER_MSEC) /* after accept failed */

static __attribute__((format(printf, 4, 5))) int listener_fail(char *error, size_t size, int r,
							       const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	(void)vsnprintf(error, size, format, ap);
	va_end(ap);
	return r;
}

/* Takes one socket from systemd: returns 1, 0 if there is none. forkd's own descriptors from the
 * service manager's store are passed in the same way, and ignored here. */
static int listener_inherit(struct listener *l, struct store *store, char *error, size_t size)
{
	_cleanup_close_ int fd = -1;
	uint32_t n;

	fd = fdstore_take_socket(store, &n);
	if (n == 0)
		return 0;
	if (n > 1)
		return listener_fail(error, size, -EINVAL,
				     "systemd passed %u sockets: forkd.socket must have one, "
				     "ListenSequentialPacket=",
				     n);
	if (sd_is_socket_unix(fd, SOCK_SEQPACKET, 1, NULL, 0) <= 0)
		return listener_fail(error, size, -EINVAL,
				     "the socket from systemd is not a listening socket of the "
				     "right type: set ListenSequentialPacket= in forkd.socket");
	if (fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
		return -errno;
	l->fd = steal_fd(&fd);
	l->inherited = true;
	return 1;
}

/* Opens and locks the directory of the socket, and makes it if it is missing (I1). */
static int listener_directory(const char *path, char *error, size_t size)
{
	_cleanup_close_ int fd = -1;
	char directory[sizeof(((struct sockaddr_un *)0)->sun_path)];
	char *slash;

	(void)snprintf(directory, sizeof(directory), "%s", path);
	slash = strrchr(directory, '/');
	if (!slash)
		(void)snprintf(directory, sizeof(directory), ".");
	else if (slash == directory)
		slash[1] = '\0';
	else
		*slash = '\0';
	if (mkdir(directory, 0755) < 0 && errno != EEXIST && errno != EROFS) {
		int r = -errno;

		return listener_fail(error, size, r,
				     "cannot create the directory %s for the socket: %s: create "
				     "it, or choose another place with --socket",
				     directory, strerror(-r));
	}
	fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || flock(fd, LOCK_EX) < 0) {
		int r = -errno;

		return listener_fail(error, size, r,
				     "cannot open the directory %s of the socket: %s: choose "
				     "another place with --socket",
				     directory, strerror(-r));
	}
	return steal_fd(&fd);
}

/* Makes one connection. Returns 1 if it is made and stays, 0 if no process listens, -EAGAIN if it
 * was cut, or a negative errno. */
static int listener_probe(const struct sockaddr_un *address)
{
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct pollfd p = { .fd = fd, .events = POLLIN };
	struct ucred peer;
	socklen_t size = sizeof(peer);

	if (fd < 0)
		return -errno;
	if (connect(fd, (const struct sockaddr *)address, sizeof(*address)) < 0) {
		if (errno == ECONNREFUSED || errno == ENOENT)
			return 0;
		return errno == EAGAIN ? 1 : -errno; /* EAGAIN: its queue is full */
	}
	/* The io_uring of a killed forkd keeps the socket for some milliseconds: the process that
	 * called listen() is dead, or the connection is cut soon. */
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.pid > 0 &&
	    kill(peer.pid, 0) < 0 && errno == ESRCH)
		return 0;
	return poll(&p, 1, LISTENER_PROBE_MS) > 0 && p.revents & POLLHUP ? -EAGAIN : 1;
}

/* Returns 1 if a process listens there, 0 if none does, or a negative errno. */
static int listener_answers(const struct sockaddr_un *address)
{
	int r = -EAGAIN;

	for (uint32_t i = 0; i < LISTENER_PROBES && r == -EAGAIN; i++)
		r = listener_probe(address);
	return r == -EAGAIN ? 1 : r;
}

/* The path is in use: removes the file if it is a socket on which no process answers. */
static int listener_replace(const struct sockaddr_un *address, char *error, size_t size)
{
	const char *path = address->sun_path;
	struct stat st;
	int r;

	if (lstat(path, &st) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISSOCK(st.st_mode))
		return listener_fail(error, size, -EEXIST,
				     "%s exists and is not a socket: remove it, or choose another "
				     "place with --socket",
				     path);
	r = listener_answers(address);
	if (r > 0)
		return listener_fail(
			error, size, -EADDRINUSE,
			"another forkd listens on %s: stop it, or choose another place "
			"with --socket",
			path);
	if (r == -EPROTOTYPE)
		return listener_fail(error, size, -EADDRINUSE,
				     "another program listens on %s: choose another place with "
				     "--socket",
				     path);
	if (r < 0 || (unlink(path) < 0 && errno != ENOENT)) {
		r = r < 0 ? r : -errno;
		return listener_fail(error, size, r,
				     "cannot replace the old socket %s: %s: remove it, or choose "
				     "another place with --socket",
				     path, strerror(-r));
	}
	return 0;
}

static int listener_bind(int fd, const struct sockaddr_un *address, uint32_t mode)
{
	mode_t old = umask(~mode & 0777);
	int r = bind(fd, (const struct sockaddr *)address, sizeof(*address)) < 0 ? -errno : 0;

	(void)umask(old);
	return r;
}

/* Gives the socket's file its group. On failure the file is removed. */
static int listener_chown(const char *path, uint32_t gid, char *error, size_t size)
{
	int r;

	if (gid == LISTENER_NO_GROUP || lchown(path, (uid_t)-1, gid) == 0)
		return 0;
	r = -errno;
	(void)unlink(path);
	return listener_fail(
		error, size, r,
		"socket-group: cannot give %s to group %u: %s: run forkd as root or as "
		"a member of that group, or set another group",
		path, gid, strerror(-r));
}

int listener_open(struct listener *ret_listener, struct store *store, const char *path,
		  uint32_t mode, uint32_t gid, char *error, size_t error_size)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct listener l = LISTENER_INIT;
	_cleanup_close_ int directory = -1;
	_cleanup_close_ int fd = -1;
	struct stat st;
	int r;

	r = listener_inherit(&l, store, error, error_size);
	if (r < 0)
		return r;
	if (r > 0) {
		if (mode != LISTENER_MODE || gid != LISTENER_NO_GROUP)
			log_warning("socket-mode and socket-group: not used for a socket of "
				    "systemd: set SocketMode= and SocketGroup= in forkd.socket");
		proto_take_no_descriptors(l.fd);
		*ret_listener = l;
		return 0;
	}
	if (strlen(path) >= sizeof(address.sun_path))
		return listener_fail(error, error_size, -ENAMETOOLONG,
				     "the path of the socket is %zu bytes long, at most %zu are "
				     "possible: choose a shorter one with --socket",
				     strlen(path), sizeof(address.sun_path) - 1);
	(void)strcpy(address.sun_path, path);
	directory = listener_directory(path, error, error_size);
	if (directory < 0)
		return directory;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return listener_fail(error, error_size, -errno, "cannot create a socket: %s",
				     strerror(errno));
	/* Before a client can connect. */
	proto_take_no_descriptors(fd);
	r = listener_bind(fd, &address, mode);
	if (r == -EADDRINUSE) {
		r = listener_replace(&address, error, error_size);
		if (r < 0)
			return r;
		r = listener_bind(fd, &address, mode);
	}
	if (r < 0)
		return listener_fail(error, error_size, r,
				     "cannot listen on %s: %s: run forkd as a user that may write "
				     "to that directory, or choose another place with --socket",
				     path, strerror(-r));
	r = listener_chown(path, gid, error, error_size);
	if (r < 0)
		return r;
	if (listen(fd, SOMAXCONN) < 0 || lstat(path, &st) < 0) {
		r = -errno;
		(void)unlink(path);
		return listener_fail(error, error_size, r, "cannot listen on %s: %s", path,
				     strerror(-r));
	}
	l.fd = steal_fd(&fd);
	l.path = path;
	l.dev = st.st_dev;
	l.ino = st.st_ino;
	*ret_listener = l;
	return 0;
}

/* Waits for the next connection, or for pause_ns. */
static void listener_wait(struct listener *l, uint64_t pause_ns)
{
	if (!pause_ns && loop_poll(l->loop, &l->source, l->fd, POLLIN) == 0)
		return;
	if (loop_timer(l->loop, &l->source, pause_ns ? pause_ns : LISTENER_AGAIN_NS) < 0)
		log_error("out of memory: no connections are accepted any more: restart forkd");
}

/* A pass has ended, with or without excess connections of a uid (I5). */
static void listener_pace(struct listener *l, bool too_many)
{
	if (too_many && !l->flood)
		(void)listen(l->fd, LISTENER_FLOOD);
	if (too_many)
		l->flood = LISTENER_CALM;
	else if (l->flood && --l->flood == 0)
		(void)listen(l->fd, SOMAXCONN);
}

static void listener_on_connection(struct loop_source *source, int result)
{
	struct listener *l = container_of(source, struct listener, source);
	bool too_many = false;
	int fd = 0, error;

	(void)result;
	for (uint32_t i = 0; i < (l->flood ? LISTENER_FEW : LISTENER_TURN) && l->loop; i++) {
		fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd < 0)
			break;
		l->failed = false;
		too_many |= !l->accepted(l, fd);
	}
	if (!l->loop)
		return; /* accepted() has ended the listener */
	error = fd < 0 ? errno : EAGAIN;
	listener_pace(l, too_many);
	if (error == EAGAIN || error == ECONNABORTED || error == EINTR) {
		listener_wait(l, l->flood ? LISTENER_PACE_NS : 0);
		return;
	}
	if (!l->failed)
		log_warning("cannot accept a connection: %s; trying again", strerror(error));
	l->failed = true;
	listener_wait(l, LISTENER_AGAIN_NS);
}

void listener_begin(struct listener *l, struct loop *loop,
		    bool (*accepted)(struct listener *listener, int fd))
{
	l->loop = loop;
	l->accepted = accepted;
	l->source.call = listener_on_connection;
	/* An earlier forkd may have left it in a flood. */
	(void)listen(l->fd, SOMAXCONN);
	listener_wait(l, 0);
}

void listener_end(struct listener *l)
{
	if (!l->loop)
		return;
	loop_forget(l->loop, &l->source);
	l->loop = NULL;
	/* Connections wait in it until the next forkd accepts them. */
	if (l->flood)
		(void)listen(l->fd, SOMAXCONN);
	l->flood = 0;
}

/* I2. */
static bool listener_is_there(const struct listener *l)
{
	struct stat st;
	uint32_t tries = LISTENER_LOOKS;
	int r;

	do {
		r = lstat(l->path, &st);
	} while (r < 0 && errno == ENOMEM && --tries);
	return r == 0 && st.st_dev == l->dev && st.st_ino == l->ino;
}

int listener_leave(struct listener *listener)
{
	listener_end(listener);
	if (listener->fd >= 0 && listener->path && listener_is_there(listener))
		(void)unlink(listener->path);
	return steal_fd(&listener->fd);
}
