/* SPDX-License-Identifier: MIT */
/*
 * fdstore_rig.h - a store, and the notification socket of a service manager
 *
 * A store on a loop, and the notification socket that it sends to, in a private directory. Messages
 * stay in the socket until the test reads them.
 */
#pragma once

#include "daemon/manager/fdstore.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/util.h"
#include "daemon/manager/socket_close.h"
#include "tests/support/check_unit.h"
#include "tests/support/systemd_stub.h"

static struct loop loop;
static struct socket_closer closer = { .loop = &loop };
static struct store store;
static int ear; /* the service manager's end */
static char directory[32], path[64];
/* Number of descriptors that had to wait and now have been stored or refused. */
static uint32_t answers, wanted;
static int result_of[8];

static inline void listen_as_manager(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	ear = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(bind(ear, (struct sockaddr *)&address, sizeof(address)), 0);
}

/* max: FileDescriptorStoreMax=, or NULL if it is not set. */
static inline void begin(const char *max)
{
	ck_assert_int_eq(loop_init(&loop), 0);
	ck_assert_ptr_nonnull(mkdtemp(strcpy(directory, "/tmp/check_fdstore.XXXXXX")));
	(void)snprintf(path, sizeof(path), "%s/notify", directory);
	listen_as_manager();
	ck_assert_int_eq(setenv("NOTIFY_SOCKET", path, 1), 0);
	if (max)
		ck_assert_int_eq(setenv("FDSTORE", max, 1), 0);
	ck_assert_int_eq(fdstore_init(&store, &loop), 0);
}

static inline void end(void)
{
	fdstore_fini(&store);
	socket_close_fini(&closer);
	loop_fini(&loop);
	(void)close(ear);
	(void)unlink(path);
	(void)rmdir(directory);
}

/* Returns the next message, with spaces instead of line breaks; "" for none. */
static inline struct systemd_stub_message hear(void)
{
	struct systemd_stub_message m;

	(void)systemd_stub_hear(ear, &m);
	for (char *at = m.text; (at = strchr(at, '\n'));)
		*at = ' ';
	return m;
}

static inline void hear_that(const char *text, uint32_t n)
{
	struct systemd_stub_message m = hear();

	ck_assert_str_eq(m.text, text);
	ck_assert_uint_eq(m.n, n);
	while (m.n)
		(void)close(m.fds[--m.n]);
}

static inline void hear_nothing(void)
{
	hear_that("", 0);
}

static inline void hear_put(const char *name, uint32_t n)
{
	char text[64];

	(void)snprintf(text, sizeof(text), "FDSTORE=1 FDPOLL=0 FDNAME=%s", name);
	hear_that(text, n);
}

static inline void hear_remove(const char *name)
{
	char text[64];

	(void)snprintf(text, sizeof(text), "FDSTOREREMOVE=1 FDNAME=%s", name);
	hear_that(text, 0);
}

/* Checks that a child of the test has ended without an error. */
static inline void ends_well(pid_t pid)
{
	int status;

	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
}

static inline void on_put(struct fdstore_put *put, int result)
{
	(void)put;
	result_of[answers++] = result;
	if (answers == wanted)
		loop_stop(&loop);
}

/* Runs the loop until n waiting requests have an answer. */
static inline void turn_until(uint32_t n)
{
	wanted = n;
	loop.stopped = false;
	ck_assert_int_eq(loop_run(&loop), 0);
}

static inline int put_one(struct fdstore_put *put, const char *name)
{
	const int fd = STDERR_FILENO;

	*put = (struct fdstore_put){ .call = on_put };
	return fdstore_put(&store, put, name, &fd, 1);
}
