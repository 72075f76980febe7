/* SPDX-License-Identifier: MIT */
/* protocol.c - a client of a Gearman job server, and the server: protocol.h */
#include "tests/gearman/protocol.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define OUT	 65536u /* bytes that wait for more */
#define FIRST_IN 65536u /* bytes */
#define TRIES	 10u	/* ports */
#define PATIENCE 6000u	/* looks at the server, one every 10 ms */

static int send_all(int fd, const void *data, size_t size, int flags)
{
	const char *at = data;

	while (size) {
		ssize_t n = send(fd, at, size, MSG_NOSIGNAL | flags);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		at += n;
		size -= (size_t)n;
	}
	return 0;
}

static int flush(struct protocol *protocol, int flags)
{
	int err = send_all(protocol->fd, protocol->out, protocol->out_size, flags);

	protocol->out_size = 0;
	return err;
}

/* Sends a packet, or keeps it if it is small. names: in front of data. */
static int put(struct protocol *protocol, enum packet_type type, const void *names,
	       size_t names_size, const void *data, size_t size)
{
	int err = 0;

	if (protocol->out_size + PACKET_HEAD + names_size > OUT)
		err = flush(protocol, 0);
	if (err)
		return err;
	packet_write_head(protocol->out + protocol->out_size, type, (uint32_t)(names_size + size));
	memcpy(protocol->out + protocol->out_size + PACKET_HEAD, names, names_size);
	protocol->out_size += PACKET_HEAD + names_size;
	if (protocol->out_size + size > OUT) {
		err = flush(protocol, MSG_MORE);
		return err ? err : send_all(protocol->fd, data, size, 0);
	}
	if (size)
		memcpy(protocol->out + protocol->out_size, data, size);
	protocol->out_size += size;
	return 0;
}

int protocol_submit(struct protocol *protocol, const char *function, const char *unique,
		    const void *payload, size_t size)
{
	char names[512];
	int n = snprintf(names, sizeof(names), "%s%c%s", function, '\0', unique);

	if (n < 0 || (size_t)n >= sizeof(names))
		return -ENAMETOOLONG;
	return put(protocol, PACKET_SUBMIT, names, (size_t)n + 1, payload, size);
}

/* Receives until n bytes are there. */
static int fill(struct protocol *protocol, size_t n)
{
	size_t have = protocol->end - protocol->at;

	if (n <= have)
		return 0;
	if (n > protocol->room - protocol->at) {
		char *in = n > protocol->room ? malloc(n) : protocol->in;

		if (!in)
			return -ENOMEM;
		memmove(in, protocol->in + protocol->at, have);
		if (in != protocol->in) {
			free(protocol->in);
			protocol->in = in;
			protocol->room = n;
		}
		protocol->at = 0;
		protocol->end = have;
	}
	while (protocol->end - protocol->at < n) {
		ssize_t got = recv(protocol->fd, protocol->in + protocol->end,
				   protocol->room - protocol->end, 0);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return got ? -errno : -ECONNRESET;
		protocol->end += (size_t)got;
	}
	return 0;
}

int protocol_read(struct protocol *protocol, struct protocol_packet *ret_packet)
{
	const char *data, *nul;
	uint32_t type, size;
	int err = flush(protocol, 0);

	if (!err)
		err = fill(protocol, PACKET_HEAD);
	if (err)
		return err;
	if (!packet_read_head(protocol->in + protocol->at, &type, &size))
		return -EPROTO;
	err = fill(protocol, PACKET_HEAD + (size_t)size);
	if (err)
		return err;
	data = protocol->in + protocol->at + PACKET_HEAD;
	protocol->at += PACKET_HEAD + (size_t)size;
	*ret_packet = (struct protocol_packet){ type, "", data, size };
	nul = memchr(data, '\0', size);
	if (ret_packet->type != PACKET_OPTION_SET && nul) {
		ret_packet->handle = data;
		ret_packet->data = nul + 1;
		ret_packet->size = size - (size_t)(nul + 1 - data);
	}
	return 0;
}

/* Returns a socket that is connected to a port of this machine, or a negative errno. */
static int connect_to(uint16_t port)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_port = htobe16(port),
		.sin_addr.s_addr = htobe32(INADDR_LOOPBACK),
	};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), err, one = 1;

	if (fd < 0)
		return -errno;
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
		err = -errno;
		(void)close(fd);
		return err;
	}
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

int protocol_open(struct protocol *protocol, uint16_t port)
{
	struct protocol_packet packet = { 0 };
	int err = 0;

	*protocol = (struct protocol){ .fd = connect_to(port) };
	if (protocol->fd < 0)
		return protocol->fd;
	protocol->out = malloc(OUT);
	protocol->in = malloc(FIRST_IN);
	protocol->room = FIRST_IN;
	if (!protocol->out || !protocol->in)
		err = -ENOMEM;
	if (!err)
		err = put(protocol, PACKET_OPTION, "exceptions", 10, NULL, 0);
	if (!err)
		err = protocol_read(protocol, &packet);
	if (!err && packet.type != PACKET_OPTION_SET)
		err = -EPROTO;
	if (err)
		protocol_close(protocol);
	return err;
}

void protocol_close(struct protocol *protocol)
{
	(void)close(protocol->fd);
	free(protocol->in);
	free(protocol->out);
	*protocol = (struct protocol){ .fd = -1 };
}

/* ------------------------------------------------------------------------------ the server */

/* Returns a port that is free now, or 0. */
static uint16_t free_port(void)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htobe32(INADDR_LOOPBACK),
	};
	socklen_t size = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return 0;
	if (bind(fd, (struct sockaddr *)&address, size) < 0 ||
	    getsockname(fd, (struct sockaddr *)&address, &size) < 0)
		address.sin_port = 0;
	(void)close(fd);
	return be16toh(address.sin_port);
}

static void exec_server(uint16_t port, pid_t parent)
{
	char option[32];

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	(void)snprintf(option, sizeof(option), "--port=%u", port);
	/* Debian has it in /usr/sbin, which is not in each PATH. */
	(void)execlp("gearmand", "gearmand", option, "--listen=127.0.0.1", "--job-retries=1",
		     "--log-file=stderr", "--verbose=FATAL", NULL);
	(void)execl("/usr/sbin/gearmand", "gearmand", option, "--listen=127.0.0.1",
		    "--job-retries=1", "--log-file=stderr", "--verbose=FATAL", NULL);
	_exit(127);
}

/* True if the process listens on the port: its administrative protocol has a command for that. */
static int is_listening(pid_t server, uint16_t port)
{
	int fd = connect_to(port), pid = 0;
	char line[64] = "";
	size_t n = 0;
	ssize_t got = fd < 0 || send_all(fd, "getpid\n", 7, 0) ? 0 : 1;

	while (got > 0 && n + 1 < sizeof(line) && !strchr(line, '\n')) {
		got = recv(fd, line + n, sizeof(line) - 1 - n, 0);
		n += got > 0 ? (size_t)got : 0;
	}
	if (fd >= 0)
		(void)close(fd);
	return sscanf(line, "OK %d", &pid) == 1 && pid == server;
}

/* Waits until the server accepts connections. Returns 0, or why it does not. */
static int await_server(pid_t server, uint16_t port)
{
	for (unsigned int i = 0; i < PATIENCE; i++) {
		static const struct timespec pause = { 0, 10000000 };
		int status;

		if (is_listening(server, port))
			return 0;
		if (waitpid(server, &status, WNOHANG) == server)
			return WIFEXITED(status) && WEXITSTATUS(status) == 127 ? -ENOENT
									       : -EADDRINUSE;
		(void)nanosleep(&pause, NULL);
	}
	protocol_kill(server);
	return -ETIMEDOUT;
}

pid_t protocol_server_at(uint16_t port)
{
	pid_t parent = getpid(), server = fork();
	int err;

	if (server < 0)
		return -errno;
	if (!server)
		exec_server(port, parent);
	err = await_server(server, port);
	return err ? err : server;
}

pid_t protocol_server(uint16_t *ret_port)
{
	pid_t server = -EADDRINUSE;

	for (unsigned int i = 0; i < TRIES && server == -EADDRINUSE; i++) {
		*ret_port = free_port();
		server = protocol_server_at(*ret_port);
	}
	return server;
}

void protocol_kill(pid_t child)
{
	(void)kill(child, SIGKILL);
	while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
		;
}
