/* SPDX-License-Identifier: MIT */
/* check_gateway_exporter.c - where forkd-gearman listens for metrics */
#include "contrib/gearman/gateway_exporter.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHECK_SETUP    setup
#define CHECK_TEARDOWN teardown

#include "tests/support/check_unit.h"

static char directory[] = "/tmp/check_gateway_exporter.XXXXXX", path[64];
static struct exporter first, second;

static void setup(void)
{
	ck_assert_ptr_nonnull(mkdtemp(directory));
	(void)snprintf(path, sizeof(path), "%s/socket", directory);
}

static void teardown(void)
{
	(void)unlink(path);
	ck_assert_int_eq(rmdir(directory), 0);
}

START_TEST(socket_in_use_is_not_replaced)
{
	struct stat before, after;

	ck_assert_int_eq(exporter_listen(&first, path), 0);
	ck_assert_int_eq(stat(path, &before), 0);
	ck_assert_int_eq(exporter_listen(&second, path), -EADDRINUSE);
	ck_assert_int_eq(stat(path, &after), 0);
	ck_assert_uint_eq(after.st_ino, before.st_ino);
}
END_TEST

START_TEST(socket_of_an_ended_gateway_is_replaced)
{
	ck_assert_int_eq(exporter_listen(&first, path), 0);
	ck_assert_int_eq(close(first.fd), 0);
	ck_assert_int_eq(exporter_listen(&second, path), 0);
	ck_assert_int_eq(exporter_listen(&first, path), -EADDRINUSE);
}
END_TEST

START_TEST(other_file_is_not_replaced)
{
	struct stat after;

	ck_assert_int_ge(creat(path, 0600), 0);
	ck_assert_int_eq(exporter_listen(&first, path), -EADDRINUSE);
	ck_assert_int_eq(stat(path, &after), 0);
	ck_assert(S_ISREG(after.st_mode));
}
END_TEST

CHECK_MAIN("gateway_exporter")
