/* SPDX-License-Identifier: MIT */
/*
 * One request and one answer on a separate connection, without the segments of a client. A trace
 * lasts as long as its connection. The manager checks the permissions of the user and executes the
 * request.
 *
 * If the manager dies, the connection ends, or no answer arrives for 10 s (connect.c); both are
 * reported. The answer to a reload has no time limit, because a reload waits for jobs.
 */
#include "client/forkctl/control.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "client/lib/connect.h"
#include "client/forkctl/common.h"
#include "shm/proto.h"
#include "common/cleanup.h"

/* Copies a text into a field of a message. Returns 0 or an exit code. */
static int control_copy(char *to, size_t size, const char *command, const char *what,
			const char *text)
{
	if (strlen(text) >= size)
		return forkctl_fail(FORKCTL_USAGE,
				    "%s: the %s has %zu bytes, the maximum is %zu: %.20s...",
				    command, what, strlen(text), size - 1, text);
	memcpy(to, text, strlen(text) + 1);
	return 0;
}

/* Sends a request and receives the answer. *ret_fd: the descriptor in the answer. *ret_connection:
 * the connection. Returns 0 or an exit code. */
static int control_connect(const char *socket, const void *request, size_t size, uint32_t type,
			   size_t least, union proto_message *ret_answer, int *ret_fd,
			   int *ret_connection)
{
	const char *path = connect_path(socket);
	const struct timeval for_ever = { 0 };
	union proto_message answer = { .head = { 0 } };
	_cleanup_close_ int fd = -1;
	int fds[PROTO_MAX_FDS];
	uint32_t n_fds;
	int r;

	if (connect_socket(path, &fd) < 0)
		return forkctl_fail(FORKCTL_NO_DAEMON, "%s", fk_error_text());
	if (((const struct proto_head *)request)->type == PROTO_RELOAD)
		(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &for_ever, sizeof(for_ever));
	r = connect_ask(fd, path, request, size, &answer, fds, &n_fds);
	while (n_fds > 1)
		(void)safe_close(fds[--n_fds]);
	if (r >= 0 && answer.head.type == PROTO_SET_SENT && type == PROTO_SET_DONE) {
		(void)fprintf(stderr,
			      "forkctl: the option was changed, but the pool has not answered "
			      "for 5 s: it uses the new value when it gets CPU time\n");
		answer.head.type = type;
	}
	if (r >= 0 && (answer.head.type != type || r < (int)least))
		r = connect_not_understood(path);
	if (r >= 0) {
		*ret_answer = answer;
		*ret_fd = n_fds ? fds[0] : -1;
		*ret_connection = steal_fd(&fd);
		return FORKCTL_OK;
	}
	if (n_fds)
		(void)safe_close(fds[0]);
	return forkctl_fail(answer.head.type == PROTO_ERROR ? FORKCTL_FAILED : FORKCTL_NO_DAEMON,
			    "%s", fk_error_text());
}

/* As control_connect(), and closes the connection. */
static int control_exchange(const char *socket, const void *request, size_t size, uint32_t type,
			    size_t least, union proto_message *ret_answer, int *ret_fd)
{
	_cleanup_close_ int connection = -1;

	return control_connect(socket, request, size, type, least, ret_answer, ret_fd, &connection);
}

int forkctl_control(const char *socket, const char *command, uint32_t type, const char *name,
		    const char *value, struct proto_set *ret_answer)
{
	struct proto_set request = { .head = { PROTO_MAGIC, type } };
	union proto_message answer;
	int fd = -1, r;

	r = control_copy(request.name, sizeof(request.name), command, "name", name);
	if (!r)
		r = control_copy(request.value, sizeof(request.value), command, "value", value);
	if (!r)
		r = control_exchange(socket, &request, sizeof(request), PROTO_SET_DONE,
				     sizeof(answer.set), &answer, &fd);
	if (r)
		return r;
	(void)safe_close(fd);
	answer.set.value[sizeof(answer.set.value) - 1] = '\0';
	*ret_answer = answer.set;
	return FORKCTL_OK;
}

int forkctl_cancel_for(const char *socket, const struct proto_ask *ask, uint64_t *ret_n)
{
	struct proto_ask request = *ask;
	union proto_message answer;
	int fd = -1, r;

	request.head = (struct proto_head){ PROTO_MAGIC, PROTO_CANCEL_FOR };
	r = control_exchange(socket, &request, sizeof(request), PROTO_TOLD, sizeof(answer.told),
			     &answer, &fd);
	if (r)
		return r;
	(void)safe_close(fd);
	*ret_n = answer.told.n;
	return FORKCTL_OK;
}

int forkctl_fetch(const char *socket, uint32_t type, uint64_t *ret_n, FILE **ret_file)
{
	struct proto_ask request = { .head = { PROTO_MAGIC, type } };
	union proto_message answer;
	int fd = -1, r;

	r = control_exchange(socket, &request, sizeof(request), PROTO_TOLD, sizeof(answer.told),
			     &answer, &fd);
	if (r)
		return r;
	/* The offset is shared with the writer, so it is at the end. */
	*ret_file = fd >= 0 && lseek(fd, 0, SEEK_SET) == 0 ? fdopen(fd, "r") : NULL;
	if (!*ret_file) {
		(void)safe_close(fd);
		return forkctl_fail(FORKCTL_FAILED, "cannot read the answer of forkd");
	}
	*ret_n = answer.told.n;
	return FORKCTL_OK;
}

int forkctl_trace_open(const char *socket, int *ret_connection, int *ret_fd)
{
	const struct proto_ask request = { .head = { PROTO_MAGIC, PROTO_TRACE } };
	union proto_message answer;

	return control_connect(socket, &request, sizeof(request), PROTO_TOLD, sizeof(answer.told),
			       &answer, ret_fd, ret_connection);
}
