/* SPDX-License-Identifier: MIT */
/* listener - the socket that clients connect to */
#include "daemon/manager/listener.h"

#include <errno.h>
#include <grp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/manager/fdstore.h"
#define CHECK_SETUP    begin
#define CHECK_TEARDOWN end
#include "tests/support/check_unit.h"

#define MANY 64u /* more than the queue holds in a flood */

static struct loop loop;
static char directory[32], path[64], error[512];
static struct store store;

static void begin(void)
{
	(void)strcpy(directory, "/tmp/check_listener.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(directory));
	(void)snprintf(path, sizeof(path), "%s/socket", directory);
	store = FDSTORE_INIT;
}

static void end(void)
{
	(void)rmdir(directory);
}

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

/* Connects while the listener does not accept. Returns how many are queued, at most MANY. */
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

START_TEST(listener_closed_in_a_flood_restores_its_queue)
{
	struct listener listener;
	int fd;

	ck_assert_int_eq(loop_init(&loop), 0);
	ck_assert_int_eq(listener_open(&listener, &store, path, 0600, LISTENER_NO_GROUP, error,
				       sizeof(error)),
			 0);
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
}
END_TEST

/* Returns a group of this process that new files do not have anyway; its own group if there is
 * none. */
static gid_t other_group(void)
{
	gid_t groups[64];
	int n = getgroups(64, groups);

	if (geteuid() == 0)
		return 1;
	for (int i = 0; i < n; i++)
		if (groups[i] != getegid())
			return groups[i];
	return getegid();
}

START_TEST(socket_file_has_mode_and_group)
{
	struct listener listener;
	struct stat st;

	ck_assert_int_eq(listener_open(&listener, &store, path, 0660, other_group(), error,
				       sizeof(error)),
			 0);
	ck_assert_int_eq(lstat(path, &st), 0);
	ck_assert_uint_eq(st.st_mode & 07777, 0660);
	ck_assert_uint_eq(st.st_gid, other_group());
	(void)close(listener_leave(&listener));
	ck_assert_int_eq(lstat(path, &st), -1);
}
END_TEST

START_TEST(group_that_is_not_permitted_is_refused_and_no_socket_stays)
{
	struct listener listener;
	struct stat st;

	if (geteuid() == 0) {
		ck_assert_int_eq(chown(directory, 65534, 65534), 0);
		ck_assert_int_eq(setgroups(0, NULL), 0);
		ck_assert_int_eq(setresgid(65534, 65534, 65534), 0);
		ck_assert_int_eq(setresuid(65534, 65534, 65534), 0);
	}
	ck_assert_int_eq(listener_open(&listener, &store, path, 0660, 0, error, sizeof(error)),
			 -EPERM);
	ck_assert_ptr_nonnull(strstr(error, "socket-group: cannot give "));
	ck_assert_ptr_nonnull(strstr(error, " to group 0: Operation not permitted: run forkd as"));
	ck_assert_int_eq(lstat(path, &st), -1);
}
END_TEST

CHECK_MAIN("listener")
