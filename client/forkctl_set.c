/* SPDX-License-Identifier: MIT */
/*
 * client/forkctl_set.c - forkctl set: changes a setting of a running forkd
 *
 * WHAT IT IS
 *   One message and one answer on a connection of its own, without the segments of a client. The
 *   manager decides: who may do that, by what the kernel says of the peer, and what can be set.
 *
 * WHO CALLS IT, ON WHICH THREAD
 *   The one thread of forkctl.
 *
 * WHAT HAPPENS IF A PEER DIES HERE
 *   The manager: the connection ends, or nothing comes for 10 s (connect.c); either is reported.
 */
#include "client/forkctl.h"

#include <stdio.h>
#include <string.h>

#include "client/connect.h"
#include "common/cleanup.h"
#include "shm/proto.h"

/* Room in a message. Returns 0 or an exit code. */
static int set_copy(char *to, size_t size, const char *what, const char *text)
{
	if (strlen(text) >= size)
		return forkctl_fail(FORKCTL_USAGE,
				    "set: the %s has %zu bytes, %zu are possible: %.20s...", what,
				    strlen(text), size - 1, text);
	memcpy(to, text, strlen(text) + 1);
	return 0;
}

int forkctl_set(const char *socket, int argc, char *argv[])
{
	struct proto_set set = { .head = { PROTO_MAGIC, PROTO_SET } };
	const char *path = connect_path(socket);
	union proto_message answer = { .head = { 0 } };
	_cleanup_close_ int fd = -1;
	int fds[PROTO_MAX_FDS];
	uint32_t n_fds;
	int r;

	if (argc != 3)
		return forkctl_fail(FORKCTL_USAGE,
				    "set takes a name and a value: `forkctl set scheduler busy`");
	r = set_copy(set.name, sizeof(set.name), "name", argv[1]);
	if (!r)
		r = set_copy(set.value, sizeof(set.value), "value", argv[2]);
	if (r)
		return r;
	if (connect_socket(path, &fd) < 0)
		return forkctl_fail(FORKCTL_NO_DAEMON, "%s", fk_open_error());
	r = connect_ask(fd, path, &set, sizeof(set), &answer, fds, &n_fds);
	while (n_fds)
		(void)safe_close(fds[--n_fds]);
	if (r >= 0 && (answer.head.type != PROTO_SET_DONE || r < (int)sizeof(answer.set)))
		r = connect_not_understood(path);
	if (r < 0)
		return forkctl_fail(answer.head.type == PROTO_ERROR ? FORKCTL_FAILED
								    : FORKCTL_NO_DAEMON,
				    "%s", fk_open_error());
	answer.set.value[sizeof(answer.set.value) - 1] = '\0';
	(void)printf("%s = %s (was %s)\n", argv[1], argv[2], answer.set.value);
	return FORKCTL_OK;
}
