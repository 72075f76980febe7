/* SPDX-License-Identifier: MIT */
/* common.c - code shared by the commands of forkctl: the connection, output */
#include "client/forkctl/common.h"

#include <errno.h>
#include <inttypes.h>
#include <unistd.h>

#include "client/lib/connect.h"
#include "client/lib/plugin.h"
#include "common/util.h"

int forkctl_open(const char *socket, uint32_t n_jobs, uint64_t heap_size, fk_client **ret_client)
{
	struct fk_open_options options = { .n_jobs = n_jobs, .heap_size = heap_size };
	int err = fk_open(socket, &options, ret_client);

	/* A user without write access to forkd.conf can use a session. */
	if (err == -FK_E_HEAP_SIZE && heap_size > FORKCTL_HEAP_SMALL)
		return forkctl_fail(FORKCTL_NO_DAEMON,
				    "%s; or `forkctl session --heap-max=%" PRIu64
				    "M -- forkctl ...`",
				    fk_error_text(), align_up(heap_size, 1 << 20) >> 20);
	if (err)
		return forkctl_fail(FORKCTL_NO_DAEMON, "%s", fk_error_text());
	return 0;
}

int forkctl_open_machine(const char *socket, uint32_t n_jobs, uint64_t heap_size,
			 fk_client **ret_client)
{
	const char *path = connect_path(socket);

	if (plugin_opens(path))
		return forkctl_fail(
			FORKCTL_USAGE,
			"%s is a cluster: this command is for one machine's forkd, whose "
			"socket --socket names; a cluster has `call` and `tasks`",
			path);
	return forkctl_open(socket, n_jobs, heap_size, ret_client);
}

int forkctl_write(int fd, const void *data, size_t size)
{
	const char *at = data;

	while (size) {
		ssize_t n = write(fd, at, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		at += n;
		size -= (size_t)n;
	}
	return 0;
}
