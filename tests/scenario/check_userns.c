/* SPDX-License-Identifier: MIT */
/*
 * userns - uids and gids that a user namespace does not map, and the messages for their clients
 *
 * Tests that need such a namespace are left out if it cannot be created.
 */
#define CHECK_TIMEOUT 60

#include "daemon/manager/userns.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/util.h"
#include "tests/support/check_unit.h"
#include "tests/support/service.h"

#define OTHER_UID 65531u

START_TEST(map_is_complete_if_its_parts_are_all_uids)
{
	static const char *const whole[] = {
		"         0          0 4294967295\n",
		"0 0 1000\n1000 2000 4294966295\n",
	};
	static const char *const parts[] = {
		"",
		"0 0 1\n",
		"         0     100000      65536\n",
		"0 0 1000\n1000 2000 4294966294\n",
		"garbage",
	};

	for (uint32_t i = 0; i < ARRAY_SIZE(whole); i++)
		ck_assert_msg(userns_is_whole(whole[i]), "%s", whole[i]);
	for (uint32_t i = 0; i < ARRAY_SIZE(parts); i++)
		ck_assert_msg(!userns_is_whole(parts[i]), "%s", parts[i]);
}
END_TEST

/* The rest of the test runs in a new namespace; mapped: it maps the user, as root. */
static void enter(bool mapped)
{
	unsigned int uid = geteuid();
	char map[32];
	int fd;

	ck_assert_int_eq(unshare(CLONE_NEWUSER), 0);
	if (!mapped)
		return;
	/* Otherwise its files in /proc do not belong to it. */
	ck_assert_int_eq(prctl(PR_SET_DUMPABLE, 1), 0);
	fd = open("/proc/self/uid_map", O_WRONLY | O_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	(void)snprintf(map, sizeof(map), "0 %u 1\n", uid);
	ck_assert_int_eq(write(fd, map, strlen(map)), strlen(map));
	(void)close(fd);
	ck_assert_uint_eq(geteuid(), 0);
}

START_TEST(in_a_namespace_without_its_user_every_client_is_unmapped)
{
	pid_t pid;

	enter(false);
	ck_assert_uint_eq(userns_stranger(), geteuid());
	pid = SERVICE_READY("");
	service_refused_hello(service_hello(), -EACCES, "user namespace does not map your user");
	service_stop(pid);
}
END_TEST

/* A client with another uid: its exit status is 0 if it was refused with a text. */
static pid_t stranger(int pipe_fd)
{
	struct proto_hello h = service_hello();
	union proto_message m;
	int fds[PROTO_MAX_FDS], fd;
	uint32_t n;
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (pid)
		return pid;
	if (syscall(SYS_setgroups, 0, NULL) < 0 || setgid(OTHER_UID) < 0 || setuid(OTHER_UID) < 0)
		_exit(1);
	if (read(pipe_fd, service_socket, sizeof(service_socket)) != sizeof(service_socket))
		_exit(2);
	fd = service_dial();
	if (proto_send(fd, &h, sizeof(h), NULL, 0) < 0 ||
	    proto_recv(fd, &m, fds, &n, 0) != (int)sizeof(m.error))
		_exit(3);
	if (m.head.type != PROTO_ERROR || m.error.code != -EACCES ||
	    !strstr(m.error.text, "PrivateUsers"))
		_exit(4);
	_exit(0);
}

START_TEST(client_in_the_namespace_is_served_and_one_outside_is_refused)
{
	struct service_client c;
	int fds[2], status;
	pid_t pid, other = 0;

	ck_assert_int_eq(pipe(fds), 0);
	if (geteuid() == 0)
		other = stranger(fds[0]);
	enter(true);
	pid = SERVICE_READY("");
	c = service_attach();
	if (other) {
		ck_assert_int_eq(chmod(service_directory, 0711), 0);
		ck_assert_int_eq(write(fds[1], service_socket, sizeof(service_socket)),
				 sizeof(service_socket));
		ck_assert_int_eq(waitpid(other, &status, 0), other);
		ck_assert(WIFEXITED(status));
		ck_assert_int_eq(WEXITSTATUS(status), 0);
		ck_assert_uint_eq(c.board->manager.refused, 1);
	}
	service_do(&c, 0);
	service_stop(pid);
}
END_TEST

/* The namespace maps none of this process's groups: all look like nogroup there, which may be in a
 * list. */
START_TEST(unmapped_groups_do_not_count)
{
	struct service_client c;
	char list[64];
	pid_t pid;

	enter(true);
	(void)snprintf(list, sizeof(list), "--deny=@%u", (unsigned int)getegid());
	pid = SERVICE_READY("", list);
	c = service_attach();
	service_stop(pid);
	(void)snprintf(list, sizeof(list), "--allow=@%u,12345", (unsigned int)getegid());
	pid = SERVICE_READY("", list);
	service_refused_hello(service_hello(), -EACCES, "allow in forkd.conf");
	service_stop(pid);
	(void)close(c.fd);
}
END_TEST

static bool can_enter(void)
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(unshare(CLONE_NEWUSER) < 0);
	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int main(int argc, char *argv[])
{
	if (argc > 1 && streq(argv[1], "--pool"))
		return stub_run();
	if (!can_enter())
		check_unit_leave_out("no user namespace may be made here",
				     &in_a_namespace_without_its_user_every_client_is_unmapped,
				     &client_in_the_namespace_is_served_and_one_outside_is_refused,
				     &unmapped_groups_do_not_count);
	return check_unit_main("userns");
}
