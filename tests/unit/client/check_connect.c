/* SPDX-License-Identifier: MIT */
/* connect: opening a client, its owner process, and closing it. Uses tests/support/fake.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/lib/connect.h"
#include "shm/proto.h"
#include "tests/support/check_unit.h"
#include "tests/support/fake.h"
#include "tests/support/local.h"

static void must_fail(const char *path, int err, const char *text)
{
	fk_client *client = NULL;
	int r = fk_open(path, NULL, &client);

	ck_assert_msg(r == err, "%s: %d, not %d: %s", path, r, err, fk_error_text());
	ck_assert_msg(strstr(fk_error_text(), text) != NULL, "%s", fk_error_text());
	ck_assert_ptr_null(client);
}

START_TEST(failed_connect_reports_a_remedy)
{
	char path[200], own[220];

	LOCAL_REFUSE("a socket");
	fake_start(1, 1);
	(void)snprintf(path, sizeof(path), "%s/none", fake.directory);
	must_fail(path, -FK_E_NOT_LISTENING, "correct this path");
	must_fail(path, -FK_E_NOT_LISTENING, path);
	must_fail("", -FK_E_SOCKET_PATH, "empty");
	memset(path, 'x', sizeof(path) - 1);
	path[sizeof(path) - 1] = '\0';
	must_fail(path, -ENAMETOOLONG, "199 bytes");
	fake.refuse = "forkd has 256 clients and takes no more (clients-max in forkd.conf)";
	must_fail(fake.path, -EUSERS, "clients-max in forkd.conf");
	fake.refuse = NULL;
	ck_assert_int_eq(setenv("FORKD_SOCKET", fake.path, 1), 0);
	fake.fds[0] = fake.fds[1];
	must_fail(NULL, -EPROTO, "different versions");
	fake_stop();
	/* The socket file without a daemon. */
	fake_listen();
	close(fake.listen_fd);
	must_fail(fake.path, -FK_E_NOT_LISTENING, "correct this path");
	/* The user's own socket. */
	ck_assert_int_eq(setenv("XDG_RUNTIME_DIR", fake.directory, 1), 0);
	(void)snprintf(path, sizeof(path), "%s/forkd", fake.directory);
	ck_assert_int_eq(mkdir(path, 0700), 0);
	(void)snprintf(own, sizeof(own), "%s/forkd.sock", path);
	ck_assert_int_eq(symlink(fake.path, own), 0);
	must_fail(own, -FK_E_NOT_LISTENING, "systemctl --user start forkd");
	unlink(own);
	rmdir(path);
	unlink(fake.path);
	rmdir(fake.directory);
}
END_TEST

START_TEST(another_program_on_the_socket_is_reported)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	fake_listen();
	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s.other", fake.path);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	ck_assert_int_eq(listen(fd, 1), 0);
	must_fail(address.sun_path, -FK_E_NOT_FORKD, "is not forkd");
	close(fd);
	unlink(address.sun_path);
	close(fake.listen_fd);
	unlink(fake.path);
	rmdir(fake.directory);
}
END_TEST

START_TEST(permission_errors_name_the_permissions)
{
	fake_listen();
	ck_assert_int_eq(chmod(fake.path, 0), 0);
	if (geteuid() == 0) {
		ck_assert_int_eq(chmod(fake.directory, 0755), 0);
		ck_assert_int_eq(seteuid(65534), 0);
	}
	must_fail(fake.path, -EACCES, "socket-mode");
	if (getuid() == 0)
		ck_assert_int_eq(seteuid(0), 0);
	unlink(fake.path);
	rmdir(fake.directory);
}
END_TEST

START_TEST(reserved_fields_other_than_0_are_refused)
{
	fk_client *client = NULL;

	fake_start(1, 1);
	for (size_t i = 0; i < 7; i++) {
		struct fk_open_options options = { .n_jobs = 64 };

		if (i == 6)
			options.reserved0 = 1;
		else
			options.reserved[i] = UINT64_C(1) << 40;
		ck_assert_int_eq(fk_open(fake.path, &options, &client), -FK_E_RESERVED);
		ck_assert_msg(strstr(fk_error_text(), "reserved") != NULL, "%s", fk_error_text());
		ck_assert_ptr_null(client);
	}
	ck_assert_uint_eq(atomic_load(&fake.n_connections), 0);
	fake_stop();
}
END_TEST

START_TEST(two_clients_of_a_process_are_independent)
{
	fk_client *a;
	fk_client *b;
	int64_t sum;

	fake_start(2, 2);
	a = must_open();
	b = must_open();
	ck_assert_int_eq(fk_call(a, "test:add", &sum, (int64_t)1, (int64_t)1), 0);
	ck_assert_int_eq(fk_call(b, "test:add", &sum, (int64_t)2, (int64_t)2), 0);
	ck_assert_int_eq(fk_close(a), 0);
	ck_assert_int_eq(fk_call(b, "test:add", &sum, (int64_t)3, (int64_t)3), 0);
	ck_assert_int_eq(sum, 6);
	ck_assert_int_eq(fk_close(b), 0);
	ck_assert_int_eq(fk_close(NULL), 0);
	fake_stop();
}
END_TEST

START_TEST(iteration_finds_each_task_that_can_be_called)
{
	static const char *const names[] = { "test:add",  "test:crash", "test:drop",
					     "test:fail", "test:hold",	"test:inc" };
	const fk_task *task = NULL, *found;

	fake_open(1, 1);
	(void)strcpy(fake_task("test:add")->help, "Adds two numbers");
	atomic_store(&fake_task("test:len")->flags, TASK_GONE);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		ck_assert_int_eq(fk_task_next(client, &task), 0);
		ck_assert_str_eq(fk_task_name(task), names[i]);
		ck_assert_str_eq(fk_task_help(task), i ? "" : "Adds two numbers");
		/* It is the task that has this name. */
		ck_assert_int_eq(fk_task_find(client, names[i], &found), 0);
		ck_assert_ptr_eq(found, task);
	}
	/* The last one has a signature that this library cannot read. */
	found = task;
	ck_assert_int_eq(fk_task_next(client, &task), -FK_E_NO_MORE_TASKS);
	ck_assert_ptr_eq(task, found);
	fake_close();
}
END_TEST

START_TEST(pool_info_is_read_from_the_board)
{
	struct fk_pool_info info;

	fake_open(3, 0);
	for (uint32_t i = 0; i < 3; i++)
		atomic_store(&fake.board->workers[i].node, i == 1 ? 4 : 2);
	atomic_store(&fake.board->manager.scheduler, FK_SCHEDULER_BUSY);
	atomic_store(&fake.board->manager.clients, 5);
	atomic_store(&fake.board->manager.tenants, 2);
	atomic_store(&fake.board->manager.pool_generation, 7);
	atomic_store(&fake.board->n_modules, 1);
	atomic_store(&fake_task("test:len")->flags, TASK_GONE);
	(void)strcpy(fake.board->manager.version, "0.1");
	ck_assert_int_eq(fk_pool_info(client, &info), 0);
	ck_assert_uint_eq(info.workers, 3);
	ck_assert_uint_eq(info.nodes, 2);
	ck_assert_uint_eq(info.scheduler, FK_SCHEDULER_BUSY);
	ck_assert_uint_eq(info.modules, 1);
	ck_assert_uint_eq(info.tasks, 7);
	ck_assert_uint_eq(info.connections, 5);
	ck_assert_uint_eq(info.users, 2);
	ck_assert_uint_eq(info.pools, 7);
	ck_assert_uint_eq(info.n_jobs, client->n_jobs);
	ck_assert_uint_eq(info.heap_size, client->heap.size);
	ck_assert_str_eq(info.version, "0.1");
	fake_close();
}
END_TEST

START_TEST(pool_info_of_a_lost_connection_is_refused)
{
	struct fk_pool_info info;

	fake_open(1, 1);
	fake_hang_up();
	while (!client_look(client, clock_ns()))
		atomic_store(&client->looked_ns, 0);
	ck_assert_int_eq(fk_pool_info(client, &info), -ECONNRESET);
	fake_close();
}
END_TEST

START_TEST(child_of_fork_may_not_use_the_parents_client)
{
	const fk_task *task;
	int64_t sum;
	int block[2];
	uint32_t id;
	fk_job job;
	int status;
	pid_t pid;
	char byte;

	fake_open(1, 1);
	ck_assert_int_eq(fk_call(client, "test:add", &sum, (int64_t)1, (int64_t)2), 0);
	task = must_find(client, "test:crash");
	ck_assert_int_eq(fk_submit(client, task, 0, &job), 0);
	ck_assert_int_eq(pipe(block), 0);
	pid = fork();
	if (!pid) {
		struct fk_ref ref;
		fk_group group;
		void *data;
		int bad = 0;

		bad |= fk_submit(client, task, 0, &job) != -EPERM;
		bad |= fk_call(client, "test:add", &sum, (int64_t)1, (int64_t)2) != -EPERM;
		bad |= fk_wait(client, job, FK_FOREVER) != -EPERM;
		bad |= fk_poll(client, job) != -EPERM;
		bad |= fk_release(client, job) != -EPERM;
		bad |= fk_alloc(client, 1, &data) != -EPERM;
		bad |= fk_buffer_ref(client, (struct fk_buffer){ NULL, 0 }, &ref) != -EPERM;
		bad |= fk_submit_batch(client, NULL, 0, 0, NULL) != -EPERM;
		bad |= fk_release_batch(client, NULL, 0) != -EPERM;
		bad |= fk_cancel(client, job) != -EPERM;
		bad |= fk_group_new(client, &group) != -EPERM;
		bad |= fk_group_wait(client, 1, 0) != -EPERM;
		bad |= fk_group_free(client, 1) != -EPERM;
		bad |= fk_close(client) != -EPERM;
		bad |= client->fd != -1;
		close(block[1]);
		/* Lives until the parent has closed: the daemon must see the end all the same. */
		(void)!read(block[0], &byte, 1);
		_exit(bad);
	}
	ck_assert_int_eq(fk_wait(client, job, FK_FOREVER), 0);
	id = client->id;
	ck_assert_int_eq(fk_close(client), 0);
	fake_see_close(id);
	close(block[1]);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	fake_stop();
}
END_TEST

/* A copy made by vfork() or clone(), or while another thread was in fk_open(). */
START_TEST(close_disconnects_even_if_a_process_has_a_copy_of_the_socket)
{
	union proto_message message;
	int copy;

	LOCAL_REFUSE("a socket");
	fake_open(1, 1);
	copy = dup(client->fd);
	ck_assert_int_eq(fk_close(client), 0);
	ck_assert_int_eq(fake_recv(0, &message, MSG_DONTWAIT), 0);
	close(copy);
	fake_stop();
}
END_TEST

START_TEST(user_socket_is_used_if_the_machine_has_none)
{
	char own[128], path[160];
	const char *machine = connect_path("/named");
	bool there;

	LOCAL_REFUSE("a socket");
	ck_assert_str_eq(machine, "/named");
	ck_assert_int_eq(unsetenv("FORKD_SOCKET"), 0);
	ck_assert_int_eq(unsetenv("XDG_RUNTIME_DIR"), 0);
	machine = connect_path(NULL);
	there = access(machine, F_OK) == 0;
	fake_start(1, 1);
	ck_assert_int_eq(setenv("XDG_RUNTIME_DIR", fake.directory, 1), 0);
	/* Its file does not exist. */
	ck_assert_str_eq(connect_path(NULL), machine);
	(void)snprintf(own, sizeof(own), "%s/forkd", fake.directory);
	ck_assert_int_eq(mkdir(own, 0700), 0);
	(void)snprintf(path, sizeof(path), "%s/forkd.sock", own);
	ck_assert_int_eq(symlink(fake.path, path), 0);
	ck_assert_str_eq(connect_path(NULL), there ? machine : path);
	if (!there) {
		fk_client *client;

		ck_assert_int_eq(fk_open(NULL, NULL, &client), 0);
		ck_assert_int_eq(fk_close(client), 0);
	}
	ck_assert_int_eq(setenv("XDG_RUNTIME_DIR", "relative", 1), 0);
	ck_assert_str_eq(connect_path(NULL), machine);
	ck_assert_int_eq(unlink(path), 0);
	ck_assert_int_eq(rmdir(own), 0);
	fake_stop();
}
END_TEST

CHECK_MAIN("connect")
