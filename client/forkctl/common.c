/* SPDX-License-Identifier: MIT */
/* common.c - what the commands of forkctl share: the connection, --json, output */
#include "client/forkctl/common.h"

#include <errno.h>
#include <inttypes.h>
#include <unistd.h>

#include "client/forkctl/options.h"
#include "common/util.h"

int forkctl_open(const char *socket, uint32_t n_jobs, uint64_t heap_size, fk_client **ret_client)
{
	struct fk_open_options options = { .n_jobs = n_jobs, .heap_size = heap_size };
	int err = fk_open(socket, &options, ret_client);

	/* Not everybody has a forkd.conf to write to. */
	if (err == -E2BIG && heap_size > FORKCTL_HEAP_SMALL)
		return forkctl_fail(FORKCTL_NO_DAEMON,
				    "%s; or `forkctl session --heap-max=%" PRIu64
				    "M -- forkctl ...`",
				    fk_error_text(), align_up(heap_size, 1 << 20) >> 20);
	if (err)
		return forkctl_fail(FORKCTL_NO_DAEMON, "%s", fk_error_text());
	return 0;
}

const struct forkctl_option forkctl_look_options[] = {
	{ "", "--json", NULL, "print all of it as JSON", FORKCTL_FLAG, 0, 0, 0 },
	{ 0 },
};

int forkctl_look(const char *socket, int argc, char *argv[], int *ret_json, fk_client **ret_client)
{
	int json = 0, err = forkctl_options(forkctl_look_options, &json, &argc, argv);

	if (err)
		return err;
	if (argc > 1)
		return forkctl_fail(FORKCTL_USAGE, "%s takes no arguments, not %s", argv[0],
				    argv[1]);
	*ret_json = json;
	return forkctl_open(socket, 1, FORKCTL_HEAP_SMALL, ret_client);
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
