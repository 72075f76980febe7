/* SPDX-License-Identifier: MIT */
/* import: files of clients that tasks read without a copy, in a real forkd */
#define CHECK_TIMEOUT 120

#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "client/lib/client.h"
#include "client/lib/connect.h"
#include "common/util.h"
#include "shm/proto.h"
#include "tests/support/check_unit.h"
#include "tests/support/local.h"
#include "tests/support/passed.h"
#include "tests/support/sealed.h"
#include "tests/support/takeover_rig.h"

#define PAGE 4096u
#define MIB  (UINT64_C(1) << 20)

/* Imports size bytes of one value, and closes the file. */
static void *import_of(fk_client *c, size_t size, int value)
{
	int fd = sealed_file(size, value, SEALED_FULLY, NULL);
	void *data = NULL;
	int err = fk_import(c, fd, 0, size, &data);

	ck_assert_msg(!err, "%s", fk_error_text());
	ck_assert_int_eq(close(fd), 0);
	return data;
}

/* Has tasks sum the bytes. */
static int64_t sum(fk_client *c, void *data, size_t size)
{
	int64_t ret = -1;
	int err = fk_call(c, "bytes:sum", &ret, FK_BUFFER(data, size));

	ck_assert_msg(!err, "%s", fk_error_text());
	return ret;
}

/* Imports a page that can still be written through *ret_gate, and submits a job that holds its
 * worker until the first byte is not 0. */
static fk_job hold(fk_client *c, unsigned int flags, unsigned char **ret_gate, void **ret_data)
{
	int fd = sealed_file(PAGE, 0, SEALED_SIZE | F_SEAL_FUTURE_WRITE, ret_gate);
	struct fk_buffer buffer = { NULL, 1 };
	fk_job job = 0;

	ck_assert_int_eq(fk_import(c, fd, 0, PAGE, &buffer.data), 0);
	ck_assert_int_eq(close(fd), 0);
	ck_assert_int_eq(fk_submit(c, jobs_task(c, "crash:hold"), flags, &job, buffer), 0);
	*ret_data = buffer.data;
	return job;
}

static void hold_runs(void)
{
	DAEMON_AWAIT(jobs_running(&d, "crash:hold") == 1);
}

START_TEST(tasks_read_imports_in_place)
{
	unsigned char *gate;
	int64_t number = 0;
	void *data, *held;
	fk_client *c;
	fk_job job;

	c = JOBS_BEGIN(&d, "--workers=2", NULL);
	data = import_of(c, 2 * MIB + 100, 3);
	ck_assert_int_eq(*((unsigned char *)data + 2 * MIB + 99), 3);
	ck_assert_int_eq(sum(c, data, 2 * MIB + 100), 3 * (int64_t)(2 * MIB + 100));
	ck_assert_int_eq(sum(c, (char *)data + MIB, 80), 240);
	ck_assert_uint_eq(heap_used(&c->heap), 0);
	/* What a writer does after the import is seen by a task that runs. */
	job = hold(c, 0, &gate, &held);
	hold_runs();
	*gate = 1;
	jobs_see_end(c, job, "DONE");
	ck_assert_int_eq(fk_release(c, job), 0);
	ck_assert_int_eq(sum(c, held, PAGE), 1);
	ck_assert_int_eq(fk_call(c, "bytes:text", &number, (char *)"ab", 1), 0);
	ck_assert_int_eq(fk_free(c, held), 0);
	ck_assert_int_eq(fk_free(c, data), 0);
	ck_assert_int_eq(fk_free(c, data), -FK_E_NOT_ALLOCATED);
	jobs_end(&d, c);
}
END_TEST

START_TEST(parts_of_a_file_are_imported)
{
	unsigned char *bytes;
	int fd = sealed_file(4 * PAGE, 0, SEALED_SIZE | F_SEAL_FUTURE_WRITE, &bytes);
	void *data;
	fk_client *c;

	c = JOBS_BEGIN(&d, "--workers=2", NULL);
	for (uint32_t i = 0; i < 4; i++)
		memset(bytes + i * PAGE, (int)i + 1, PAGE);
	ck_assert_int_eq(lseek(fd, 77, SEEK_SET), 77);
	ck_assert_int_eq(fk_import(c, fd, PAGE, 2 * PAGE, &data), 0);
	ck_assert_int_eq(sum(c, data, 2 * PAGE), 5 * PAGE);
	/* The position is the caller's. */
	ck_assert_int_eq(lseek(fd, 0, SEEK_CUR), 77);
	ck_assert_int_eq(fk_import(c, fd, 3 * PAGE, 8, &data), 0);
	ck_assert_int_eq(sum(c, data, 8), 32);
	ck_assert_int_eq(close(fd), 0);
	jobs_end(&d, c);
}
END_TEST

START_TEST(tasks_that_would_write_fail)
{
	int64_t result;
	fk_client *c;
	void *data;

	c = JOBS_BEGIN(&d, "--workers=2", NULL);
	data = import_of(c, PAGE, 1);
	/* Copied, and in place. */
	ck_assert_int_eq(fk_call(c, "bytes:invert", &result, FK_BUFFER(data, PAGE)), -EROFS);
	ck_assert_int_eq(fk_call(c, "array:prefix_i64", &result, FK_BUFFER(data, PAGE)), -EROFS);
	ck_assert_int_eq(sum(c, data, PAGE), PAGE);
	jobs_end(&d, c);
}
END_TEST

/* Runs bytes:sum on a reference as no library would make it. Returns its code. */
static int sum_ref(fk_client *c, uint64_t offset, uint64_t size)
{
	const struct fk_ref ref = { .offset = offset, .size = size };
	int outcome, code = 0;
	fk_job job;

	ck_assert_int_eq(fk_submit_packed(c, jobs_task(c, "bytes:sum"), &ref, sizeof(ref), 0, &job),
			 0);
	(void)jobs_outcome(c, job, NULL);
	outcome = fk_outcome(c, job, &code, NULL);
	ck_assert_int_eq(outcome, code ? FK_FAILED : FK_DONE);
	ck_assert_int_eq(fk_release(c, job), 0);
	return code;
}

START_TEST(references_are_within_the_imports)
{
	fk_client *c;

	c = JOBS_BEGIN(&d, "--workers=2", NULL);
	/* Before the first import there is nothing. */
	ck_assert_int_eq(sum_ref(c, LIMIT_HEAP, 8), -FK_E_REFERENCE);
	ck_assert_int_eq(sum_ref(c, LIMIT_HEAP, 0), -FK_E_REFERENCE);
	(void)import_of(c, PAGE, 1);
	ck_assert_int_eq(sum_ref(c, LIMIT_HEAP, PAGE), 0);
	ck_assert_int_eq(sum_ref(c, LIMIT_HEAP + 1, 8), -FK_E_REFERENCE);
	/* Zeros. */
	ck_assert_int_eq(sum_ref(c, LIMIT_HEAP + PAGE, 10 * PAGE), 0);
	ck_assert_int_eq(sum_ref(c, LIMIT_HEAP + LIMIT_IMPORT - 8, 8), 0);
	ck_assert_int_eq(sum_ref(c, LIMIT_HEAP + LIMIT_IMPORT - 8, 9), -FK_E_REFERENCE);
	ck_assert_int_eq(sum_ref(c, LIMIT_HEAP + LIMIT_IMPORT, 8), -FK_E_REFERENCE);
	ck_assert_int_eq(sum_ref(c, LIMIT_HEAP - 8, 16), -FK_E_REFERENCE);
	ck_assert_int_eq(sum_ref(c, UINT64_MAX - 7, 8), -FK_E_REFERENCE);
	ck_assert_int_eq(sum_ref(c, LIMIT_HEAP, UINT64_MAX), -FK_E_REFERENCE);
	jobs_end(&d, c);
}
END_TEST

START_TEST(arguments_that_are_wrong_are_refused)
{
	int fd = sealed_file(PAGE, 1, SEALED_FULLY, NULL);
	void *data = NULL;
	fk_client *c;

	c = JOBS_BEGIN(&d, "--workers=2", NULL);
	ck_assert_int_eq(fk_import(c, fd, 0, 0, &data), -EINVAL);
	ck_assert_int_eq(fk_import(c, fd, 1, 1, &data), -EINVAL);
	ck_assert_int_eq(fk_import(c, fd, 0, LIMIT_IMPORT + 1, &data), -EINVAL);
	ck_assert_int_eq(fk_import(c, fd, SIZE_MAX & ~(size_t)4095, PAGE, &data), -EINVAL);
	ck_assert_int_eq(fk_import(c, fd, PAGE, PAGE, &data), -EINVAL);
	ck_assert_int_eq(fk_import(c, -1, 0, PAGE, &data), -EBADF);
	ck_assert_int_eq(close(fd), 0);
	fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	ck_assert_int_eq(fk_import(c, fd, 0, PAGE, &data), -ENOTSUP);
	ck_assert_int_eq(close(fd), 0);
	ck_assert_ptr_null(data);
	ck_assert_int_eq(fk_free(c, c), -FK_E_NOT_ALLOCATED);
	serves(c);
	jobs_end(&d, c);
}
END_TEST

START_TEST(file_that_can_change_is_refused)
{
	int fd = sealed_file(PAGE, 1, SEALED_SIZE, NULL);
	void *data = NULL;
	fk_client *c;

	c = JOBS_BEGIN(&d, "--workers=2", NULL);
	ck_assert_int_eq(fk_import(c, fd, 0, PAGE, &data), -ETXTBSY);
	ck_assert_ptr_nonnull(strstr(fk_error_text(), "F_SEAL_WRITE"));
	ck_assert_int_eq(close(fd), 0);
	ck_assert_ptr_null(data);
	serves(c);
	jobs_end(&d, c);
}
END_TEST

START_TEST(a_connection_has_room_for_a_number_of_imports)
{
	void *data[LIMIT_IMPORTS], *more = NULL;
	int fd = sealed_file(PAGE, 1, SEALED_FULLY, NULL);
	fk_client *c;

	c = JOBS_BEGIN(&d, "--workers=2", NULL);
	for (int round = 0; round < 2; round++) {
		for (size_t i = 0; i < LIMIT_IMPORTS; i++)
			data[i] = import_of(c, (i + 1) * PAGE, (int)i + 1);
		ck_assert_int_eq(fk_import(c, fd, 0, PAGE, &more), -ENOSPC);
		for (size_t i = 0; i < LIMIT_IMPORTS; i++)
			ck_assert_int_eq(sum(c, data[i], (i + 1) * PAGE),
					 (int64_t)((i + 1) * (i + 1) * PAGE));
		for (size_t i = 0; i < LIMIT_IMPORTS; i++)
			ck_assert_int_eq(fk_free(c, data[i ^ 1]), 0);
	}
	ck_assert_int_eq(close(fd), 0);
	jobs_end(&d, c);
}
END_TEST

START_TEST(a_user_has_room_for_a_number_of_imports)
{
	int fd = sealed_file(PAGE, 1, SEALED_FULLY, NULL);
	fk_client *c, *others[8];
	void *data;

	c = JOBS_BEGIN(&d, "--workers=2", NULL);
	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		ck_assert_int_eq(fk_open(d.socket, NULL, &others[i]), 0);
		for (size_t k = 0; k < LIMIT_IMPORTS; k++)
			ck_assert_int_eq(fk_import(others[i], fd, 0, PAGE, &data), 0);
	}
	ck_assert_int_eq(fk_import(c, fd, 0, PAGE, &data), -FK_E_USER_IMPORTS);
	ck_assert_int_eq(fk_close(others[0]), 0);
	DAEMON_AWAIT(fk_import(c, fd, 0, PAGE, &data) == 0);
	ck_assert_int_eq(sum(c, data, PAGE), PAGE);
	for (size_t i = 1; i < ARRAY_SIZE(others); i++)
		ck_assert_int_eq(fk_close(others[i]), 0);
	ck_assert_int_eq(close(fd), 0);
	jobs_end(&d, c);
}
END_TEST

START_TEST(a_job_whose_import_is_freed_reads_zeros)
{
	unsigned char *gate;
	void *data, *open;
	fk_client *c;
	fk_job job;

	c = JOBS_BEGIN(&d, "--workers=2", NULL);
	job = hold(c, 0, &gate, &data);
	hold_runs();
	(void)import_of(c, PAGE, 2);
	ck_assert_int_eq(fk_free(c, data), 0);
	/* At another place. Its answer comes after the pool has unmapped the first one. */
	ck_assert_ptr_ne(import_of(c, 2 * PAGE, 2), data);
	*gate = 1;
	serves(c);
	ck_assert_int_eq(fk_outcome(c, job, NULL, NULL), FK_PENDING);
	/* The next import gets the same place. */
	open = import_of(c, PAGE, 1);
	ck_assert_ptr_eq(open, data);
	jobs_see_end(c, job, "DONE");
	ck_assert_int_eq(fk_release(c, job), 0);
	ck_assert_uint_eq(atomic_load(&d.board->manager.crashes), 0);
	jobs_end(&d, c);
}
END_TEST

/* ------------------------------------------------------------------------ ends */

START_TEST(imports_outlive_a_pool)
{
	unsigned char *gate;
	void *data, *held;
	fk_client *c;
	fk_job job;

	c = JOBS_BEGIN(&d, "--workers=2", NULL);
	data = import_of(c, MIB, 5);
	job = hold(c, FK_IDEMPOTENT, &gate, &held);
	hold_runs();
	jobs_drop(c, jobs_submit(c, "crash:segv", 0, 0, 0), "CRASHED");
	(void)jobs_crash(&d, 1);
	/* It runs again, and reads the file in the next pool. */
	hold_runs();
	*gate = 1;
	jobs_see_end(c, job, "DONE");
	ck_assert_int_eq(fk_release(c, job), 0);
	ck_assert_int_eq(sum(c, data, MIB), 5 * (int64_t)MIB);
	ck_assert_int_eq(fk_free(c, data), 0);
	data = import_of(c, MIB, 6);
	ck_assert_int_eq(sum(c, data, MIB), 6 * (int64_t)MIB);
	jobs_end(&d, c);
}
END_TEST

START_TEST(imports_outlive_a_manager)
{
	struct saved_state *saved;
	struct saved_range range;
	unsigned char *gate;
	void *data, *freed, *held;
	fk_client *c;
	fk_job job;

	c = TAKEOVER_BEGIN("--workers=2", "--clients-max=8", NULL);
	freed = import_of(c, PAGE, 1);
	data = import_of(c, MIB, 5);
	ck_assert_int_eq(fk_free(c, freed), 0);
	job = hold(c, FK_IDEMPOTENT, &gate, &held);
	hold_runs();
	for (int i = 0; i < 2; i++) {
		kept_kill(&d, store);
		kept_ready(&d, store);
		saved = systemd_stub_saved(store);
		range = saved_import(saved, c->id, 1);
		ck_assert_uint_eq(range.size, MIB);
		ck_assert_uint_eq(range.at, PAGE);
		ck_assert_uint_eq(saved_import(saved, c->id, 0).size, PAGE); /* of hold() */
		ck_assert_uint_eq(saved_import(saved, c->id, 2).size, 0);
		saved_unmap(saved);
		ck_assert_int_eq(sum(c, data, MIB), 5 * (int64_t)MIB);
	}
	*gate = 1;
	jobs_see_end(c, job, "DONE");
	ck_assert_int_eq(fk_release(c, job), 0);
	ck_assert_int_eq(fk_free(c, data), 0);
	ck_assert_int_eq(fk_free(c, held), 0);
	data = import_of(c, MIB, 6);
	ck_assert_int_eq(sum(c, data, MIB), 6 * (int64_t)MIB);
	takeover_end(c);
}
END_TEST

/* A process that imports a file, and has jobs run on it until it is killed. */
static pid_t start_client(int ready)
{
	pid_t pid = fork();

	if (pid == 0) {
		struct fk_buffer buffer = { NULL, PAGE };
		unsigned char *gate;
		fk_client *c = NULL;
		fk_job job;
		int fd;

		DAEMON_MUST(fk_open(d.socket, NULL, &c) == 0);
		fd = sealed_file(PAGE, 0, SEALED_SIZE | F_SEAL_FUTURE_WRITE, &gate);
		DAEMON_MUST(fk_import(c, fd, 0, PAGE, &buffer.data) == 0);
		DAEMON_MUST(fk_submit(c, jobs_task(c, "crash:hold"), 0, &job, buffer) == 0);
		DAEMON_MUST(write(ready, "", 1) == 1);
		for (;;)
			(void)pause();
	}
	ck_assert_int_gt(pid, 0);
	return pid;
}

START_TEST(clients_that_are_killed_leave_their_slots)
{
	fk_client *c;
	void *data;

	LOCAL_REFUSE("a client in another process");
	c = JOBS_BEGIN(&d, "--workers=2", "--hang-timeout=1s", NULL);
	data = import_of(c, PAGE, 1);
	for (int i = 0; i < 3; i++) {
		int ready[2], status;
		char byte;
		pid_t pid;

		ck_assert_int_eq(pipe(ready), 0);
		pid = start_client(ready[1]);
		ck_assert_int_eq(read(ready[0], &byte, 1), 1);
		hold_runs();
		ck_assert_int_eq(kill(pid, SIGKILL), 0);
		ck_assert_int_eq(waitpid(pid, &status, 0), pid);
		ck_assert_int_eq(close(ready[0]) | close(ready[1]), 0);
		/* Its job never forks, so the pool is replaced. */
		(void)jobs_crash(&d, (uint64_t)i + 1);
		ck_assert_int_eq(sum(c, data, PAGE), PAGE);
	}
	jobs_end(&d, c);
}
END_TEST

/* ------------------------------------------------------------------------ malformed requests */

static struct proto_import request_of(const fk_client *c, uint64_t at, uint64_t offset,
				      uint64_t size)
{
	return (struct proto_import){
		.head = { PROTO_MAGIC, PROTO_IMPORT },
		.client = c->id,
		.client_generation = c->generation,
		.at = at,
		.offset = offset,
		.size = size,
	};
}

/* Sends a message on a connection, with a descriptor if pass is one. Returns 0 for PROTO_TOLD, 1
 * for PROTO_IMPORT_READY, or an error. */
static int ask(int fd, const void *message, size_t size, int pass)
{
	union proto_message answer;
	int fds[PROTO_MAX_FDS], r;
	uint32_t n;

	r = connect_pass(fd, d.socket, message, size, pass, &answer, fds, &n);
	ck_assert_uint_eq(n, 0);
	return r < 0 ? r : answer.head.type == PROTO_IMPORT_READY;
}

static int request(const struct proto_import *import, int pass)
{
	const struct proto_head file = { PROTO_MAGIC, PROTO_IMPORT_FILE };
	int fd, r;

	ck_assert_int_eq(connect_socket(d.socket, &fd), 0);
	r = ask(fd, import, sizeof(*import), -1);
	if (r == 1)
		r = ask(fd, &file, sizeof(file), pass);
	ck_assert_int_eq(close(fd), 0);
	return r;
}

START_TEST(requests_that_are_malformed_are_refused)
{
	int fd = sealed_file(2 * PAGE, 1, SEALED_FULLY, NULL);
	struct proto_import import;
	fk_client *c;
	pid_t pid;
	int status;

	c = JOBS_BEGIN(&d, "--workers=2", NULL);
	import = request_of(c, PAGE / 2, 0, PAGE);
	ck_assert_int_eq(request(&import, fd), -EBADMSG);
	import = request_of(c, 0, 8, PAGE);
	ck_assert_int_eq(request(&import, fd), -EBADMSG);
	import = request_of(c, 0, 0, 0);
	ck_assert_int_eq(request(&import, fd), -EBADMSG);
	import = request_of(c, 0, 0, LIMIT_IMPORT + 1);
	ck_assert_int_eq(request(&import, fd), -EBADMSG);
	import = request_of(c, LIMIT_IMPORT, 0, PAGE);
	ck_assert_int_eq(request(&import, fd), -EBADMSG);
	import = request_of(c, LIMIT_IMPORT - PAGE, 0, PAGE + 1);
	ck_assert_int_eq(request(&import, fd), -EBADMSG);
	import = request_of(c, UINT64_MAX - 4095, 0, PAGE);
	ck_assert_int_eq(request(&import, fd), -EBADMSG);
	import = request_of(c, 0, UINT64_MAX - 4095, PAGE);
	ck_assert_int_eq(request(&import, fd), -EBADMSG);
	import = request_of(c, 0, 0, 2 * PAGE + 1);
	ck_assert_int_eq(request(&import, fd), -EINVAL);
	import = request_of(c, 0, 0, PAGE);
	import.client = LIMIT_CLIENTS;
	ck_assert_int_eq(request(&import, fd), -ENOENT);
	import = request_of(c, 0, 0, PAGE);
	import.client_generation++;
	ck_assert_int_eq(request(&import, fd), -ENOENT);
	/* Another process of the user. */
	import = request_of(c, 0, 0, PAGE);
	pid = fork();
	if (pid == 0)
		_exit(request(&import, fd) == -ENOENT ? 0 : 1);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	/* The last page of all, over another import, and without the library's knowledge. */
	import = request_of(c, LIMIT_IMPORT - PAGE, PAGE, PAGE);
	ck_assert_int_eq(request(&import, fd), 0);
	ck_assert_int_eq(request(&import, fd), 0);
	ck_assert_int_eq(sum_ref(c, LIMIT_HEAP + LIMIT_IMPORT - 2 * PAGE, 2 * PAGE), 0);
	import.head.type = PROTO_UNIMPORT;
	ck_assert_int_eq(request(&import, fd), 0);
	ck_assert_int_eq(request(&import, fd), 0);
	ck_assert_int_eq(close(fd), 0);
	serves(c);
	jobs_end(&d, c);
}
END_TEST

START_TEST(descriptors_of_other_kinds_are_refused)
{
	struct proto_import import;
	int fd, pair[2], peer;
	fk_client *c;

	c = JOBS_BEGIN(&d, "--workers=2", NULL);
	import = request_of(c, 0, 0, PAGE);
	ck_assert_int_eq(request(&import, -1), -EBADMSG);
	ck_assert_int_eq(pipe(pair), 0);
	ck_assert_int_eq(request(&import, pair[0]), -ENOTSUP);
	ck_assert_int_eq(close(pair[0]) | close(pair[1]), 0);
	ck_assert_int_eq(request(&import, c->fd), -ENOTSUP);
	fd = sealed_file(PAGE, 1, 0, NULL);
	ck_assert_int_eq(request(&import, fd), -ETXTBSY);
	ck_assert_int_eq(close(fd), 0);
	/* The last close of it waits. */
	fd = passed_lingering(&peer);
	ck_assert_int_eq(request(&import, fd), -ENOTSUP);
	ck_assert_int_eq(close(peer), 0);
	ck_assert_int_eq(close(fd), 0);
	serves(c);
	jobs_end(&d, c);
}
END_TEST

START_TEST(a_connection_that_sends_nothing_delays_only_imports_of_its_user)
{
	struct proto_import import;
	int fds[3], fd;
	fk_client *c;
	void *data;

	c = JOBS_BEGIN(&d, "--workers=2", NULL);
	import = request_of(c, 0, 0, PAGE);
	ck_assert_int_eq(connect_socket(d.socket, &fds[0]), 0);
	ck_assert_int_eq(ask(fds[0], &import, sizeof(import), -1), 1);
	for (int i = 1; i < 3; i++) {
		ck_assert_int_eq(connect_socket(d.socket, &fds[i]), 0);
		ck_assert_int_eq(proto_send(fds[i], &import, sizeof(import), NULL, 0), 0);
	}
	serves(c);
	daemon_call_fib(&d);
	/* One that waits leaves, and then the one whose process waits. */
	ck_assert_int_eq(close(fds[1]), 0);
	ck_assert_int_eq(close(fds[0]), 0);
	fd = sealed_file(PAGE, 9, SEALED_FULLY, NULL);
	ck_assert_int_eq(close(fds[2]), 0);
	ck_assert_int_eq(fk_import(c, fd, 0, PAGE, &data), 0);
	ck_assert_int_eq(sum(c, data, PAGE), 9 * PAGE);
	/* More than it may send, and the end of a client amid a request. */
	ck_assert_int_eq(connect_socket(d.socket, &fds[0]), 0);
	ck_assert_int_eq(ask(fds[0], &import, sizeof(import), -1), 1);
	for (int i = 0; i < 5; i++)
		(void)passed_send(fds[0], &import, sizeof(import), &fd, 1);
	ck_assert_int_eq(connect_socket(d.socket, &fds[1]), 0);
	ck_assert_int_eq(ask(fds[1], &import, sizeof(import), -1), 1);
	ck_assert_int_eq(fk_close(c), 0);
	ck_assert_int_eq(close(fds[0]) | close(fds[1]) | close(fd), 0);
	c = daemon_open(&d);
	ck_assert_int_eq(sum(c, import_of(c, PAGE, 2), PAGE), 2 * PAGE);
	jobs_end(&d, c);
}
END_TEST

CHECK_MAIN("import")
