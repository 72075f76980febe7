/* SPDX-License-Identifier: MIT */
/* listener - the socket that clients connect to */
#include "daemon/manager/listener.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/manager/fdstore.h"
#include "tests/support/check_unit.h"

#define MANY 64u /* more than the queue holds in a flood */

static struct loop loop;

/* One too many of its uid. */
static bool on_accepted(struct listener *listener, int fd)
{
	(void)listener;
	(void)close(fd);
	loop_stop(&loop);
	return false;
}

/* Returns a connection, or -1 if the queue is full. */
static int dial(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	(void)strcpy(address.sun_path, path);
	ck_assert_int_ge(fd, 0);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
		return fd;
	ck_assert_int_eq(errno, EAGAIN);
	(void)close(fd);
	return -1;
}

/* Connects while the listener does not accept. Returns how many wait in the queue, at most MANY. */
static uint32_t fill(const char *path)
{
	int fds[MANY];
	uint32_t n = 0;

	while (n < MANY && (fds[n] = dial(path)) >= 0)
		n++;
	for (uint32_t i = 0; i < n; i++)
		(void)close(fds[i]);
	return n;
}

START_TEST(a_listener_that_ends_in_a_flood_has_its_queue_again)
{
	char folder[] = "/tmp/check_listener.XXXXXX", path[64], error[256];
	struct store store = FDSTORE_INIT;
	struct listener listener;
	int fd;

	ck_assert_ptr_nonnull(mkdtemp(folder));
	(void)snprintf(path, sizeof(path), "%s/socket", folder);
	ck_assert_int_eq(loop_init(&loop), 0);
	ck_assert_int_eq(listener_open(&listener, &store, path, 0600, error, sizeof(error)), 0);
	listener_begin(&listener, &loop, on_accepted);
	fd = dial(path);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(loop_run(&loop), 0);
	ck_assert_uint_gt(listener.flood, 0);
	ck_assert_uint_lt(fill(path), MANY);
	listener_end(&listener);
	ck_assert_uint_eq(listener.flood, 0);
	ck_assert_uint_eq(fill(path), MANY);
	(void)close(fd);
	(void)close(listener_leave(&listener));
	loop_fini(&loop);
	(void)rmdir(folder);
}
END_TEST

CHECK_MAIN("listener")
