/* SPDX-License-Identifier: MIT */
/* service - the manager as a service: its socket, its messages to the service manager, its end */
#define CHECK_TIMEOUT 60

#include "daemon/manager/manager.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/check_unit.h"
#include "tests/support/service.h"

START_TEST(manager_is_ready_with_its_pool_and_stops_on_request)
{
	pid_t pid = SERVICE_READY("", "--socket-mode=0620");
	struct service_client c;
	struct stat st;

	service_expect("STATUS=Running: 2 workers");
	ck_assert_int_eq(lstat(service_socket, &st), 0);
	ck_assert_uint_eq(st.st_mode & 07777, 0620);
	c = service_attach();
	ck_assert_uint_eq(c.board->manager.pid, (uint32_t)pid);
	ck_assert_uint_eq(c.board->manager.state, BOARD_RUNNING);
	ck_assert_uint_eq(c.board->manager.clients, 1);
	ck_assert_uint_eq(c.board->clients[c.segment->client].pid, (uint32_t)getpid());
	ck_assert_uint_eq(c.tenant->uid, getuid());
	ck_assert_uint_eq(c.segment->n_jobs, 256);
	ck_assert_uint_eq(c.segment->heap_size, 1 << 20);
	service_do(&c, 0);
	service_stop(pid);
	ck_assert_uint_eq(c.board->manager.state, BOARD_STOPPED);
	ck_assert_int_eq(lstat(service_socket, &st), -1);
}
END_TEST

START_TEST(socket_from_the_service_manager_is_used_and_not_removed)
{
	struct service_client c;
	struct stat st;
	pid_t pid;
	int fd;

	service_setup("");
	fd = service_listen();
	pid = service_start(fd, NULL);
	service_expect("READY=1");
	c = service_attach();
	service_do(&c, 0);
	ck_assert_int_eq(kill(pid, SIGTERM), 0);
	ck_assert_int_eq(service_ends(pid), MANAGER_EXIT_OK);
	ck_assert_int_eq(lstat(service_socket, &st), 0);
	service_teardown();
}
END_TEST

START_TEST(mode_and_group_of_a_socket_from_the_service_manager_are_unchanged)
{
	int log = memfd_create("log", MFD_CLOEXEC), error = dup(STDERR_FILENO);
	struct stat before, after;
	char text[4096] = "";
	pid_t pid;
	int fd;

	service_setup("");
	fd = service_listen();
	ck_assert_int_eq(lstat(service_socket, &before), 0);
	ck_assert_int_eq(dup2(log, STDERR_FILENO), STDERR_FILENO);
	pid = service_start(fd, SERVICE_OPTIONS("--socket-mode=0640", "--socket-group=1"));
	ck_assert_int_eq(dup2(error, STDERR_FILENO), STDERR_FILENO);
	service_expect("READY=1");
	ck_assert_int_gt(pread(log, text, sizeof(text) - 1, 0), 0);
	ck_assert_ptr_nonnull(strstr(text, "set SocketMode= and SocketGroup= in forkd.socket"));
	ck_assert_int_eq(lstat(service_socket, &after), 0);
	ck_assert_uint_eq(after.st_mode, before.st_mode);
	ck_assert_uint_eq(after.st_gid, before.st_gid);
	(void)close(log);
	(void)close(error);
	ck_assert_int_eq(kill(pid, SIGTERM), 0);
	ck_assert_int_eq(service_ends(pid), MANAGER_EXIT_OK);
	service_teardown();
}
END_TEST

START_TEST(manager_whose_READY_is_lost_serves_and_sends_READY_again)
{
	struct service_client c;
	pid_t pid;

	service_setup("");
	service_deafen();
	pid = service_start(service_listen(), NULL);
	c = service_attach();
	service_do(&c, 0);
	service_expect("READY=1");
	service_stop(pid);
}
END_TEST

START_TEST(socket_of_the_wrong_type_is_refused)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	service_setup("");
	ck_assert_int_eq(service_ends(service_start(fd, NULL)), MANAGER_EXIT_LISTEN);
	service_teardown();
}
END_TEST

START_TEST(only_one_forkd_listens_and_the_socket_of_a_dead_one_is_replaced)
{
	pid_t pid = SERVICE_READY("");
	struct stat st;
	int fd;

	ck_assert_int_eq(service_ends(SERVICE_START()), MANAGER_EXIT_LISTEN);
	ck_assert_int_eq(lstat(service_socket, &st), 0);
	ck_assert_int_eq(kill(pid, SIGKILL), 0);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
	ck_assert_int_eq(lstat(service_socket, &st), 0);
	pid = SERVICE_START();
	service_expect("READY=1");
	(void)service_attach();
	ck_assert_int_eq(kill(pid, SIGTERM), 0);
	ck_assert_int_eq(service_ends(pid), MANAGER_EXIT_OK);

	/* A file that is not a socket stays. */
	fd = open(service_socket, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(service_ends(SERVICE_START()), MANAGER_EXIT_LISTEN);
	ck_assert_int_eq(lstat(service_socket, &st), 0);
	ck_assert(S_ISREG(st.st_mode));
	service_teardown();
}
END_TEST

START_TEST(jobs_beyond_the_time_limit_are_cancelled)
{
	pid_t pid = SERVICE_READY("stuck", "--stop-timeout=50ms");
	struct service_client c = service_attach();

	service_submit(&c, 0, STUB_HANG, 0);
	service_submit(&c, 1, STUB_QUEUE, 0);
	service_do(&c, 2);
	service_stop(pid);
	ck_assert_uint_eq(service_outcome(&c, 0), JOB_CANCELLED);
	ck_assert_uint_eq(service_outcome(&c, 1), JOB_CANCELLED);
}
END_TEST

START_TEST(second_signal_does_not_wait_for_the_timeout)
{
	pid_t pid = SERVICE_READY("stuck", "--stop-timeout=3000s");
	struct service_client c = service_attach();

	service_submit(&c, 0, STUB_HANG, 0);
	ck_assert_int_eq(kill(pid, SIGTERM), 0);
	service_expect("STOPPING=1");
	ck_assert_int_eq(kill(pid, SIGINT), 0);
	ck_assert_int_eq(service_ends(pid), MANAGER_EXIT_OK);
	ck_assert_uint_eq(service_outcome(&c, 0), JOB_CANCELLED);
	service_teardown();
}
END_TEST

SERVICE_MAIN("service")
