/* SPDX-License-Identifier: MIT */
/* import_check - which files a client can import, and the processes that check them */
#include "daemon/manager/import_check.h"

#include <errno.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "common/clock.h"
#include "common/util.h"
#include "shm/limits.h"
#include "tests/support/check_unit.h"
#include "tests/support/sealed.h"

#define PAGE 4096u
#define UID  1000u

static struct proto_error error;

static int check(int fd, uint64_t offset, uint64_t size)
{
	int r = import_check_file(fd, offset, size, &error);

	ck_assert_int_eq(r, r ? error.code : 0);
	ck_assert_msg(!r || strncmp(error.text, "import: ", 8) == 0, "%s", error.text);
	return r;
}

static int check_once(int fd, uint64_t offset, uint64_t size)
{
	int r = check(fd, offset, size);

	ck_assert_int_eq(close(fd), 0);
	return r;
}

START_TEST(memfds_with_the_seals_are_accepted)
{
	ck_assert_int_eq(check_once(sealed_file(3 * PAGE, 1, SEALED_FULLY, NULL), 0, 3 * PAGE), 0);
	ck_assert_int_eq(check_once(sealed_file(3 * PAGE, 1, SEALED_FULLY | F_SEAL_SEAL, NULL),
				    PAGE, 2 * PAGE),
			 0);
	ck_assert_int_eq(
		check_once(sealed_file(PAGE + 1, 1, SEALED_SIZE | F_SEAL_FUTURE_WRITE, NULL), 0,
			   PAGE + 1),
		0);
}
END_TEST

START_TEST(memfds_that_can_change_are_refused)
{
	static const int seals[] = { 0,
				     F_SEAL_SHRINK,
				     F_SEAL_GROW,
				     F_SEAL_WRITE,
				     SEALED_SIZE,
				     F_SEAL_SHRINK | F_SEAL_WRITE,
				     F_SEAL_GROW | F_SEAL_WRITE,
				     F_SEAL_GROW | F_SEAL_FUTURE_WRITE };

	for (size_t i = 0; i < ARRAY_SIZE(seals); i++)
		ck_assert_int_eq(check_once(sealed_file(PAGE, 1, seals[i], NULL), 0, PAGE),
				 -ETXTBSY);
}
END_TEST

START_TEST(ranges_beyond_the_end_are_refused)
{
	int fd = sealed_file(2 * PAGE + 100, 1, SEALED_FULLY, NULL);

	ck_assert_int_eq(check(fd, 0, 2 * PAGE + 100), 0);
	ck_assert_int_eq(check(fd, 2 * PAGE, 100), 0);
	ck_assert_int_eq(check(fd, 0, 2 * PAGE + 101), -EINVAL);
	ck_assert_int_eq(check(fd, PAGE, 2 * PAGE), -EINVAL);
	ck_assert_int_eq(check(fd, 3 * PAGE, 1), -EINVAL);
	ck_assert_int_eq(check(fd, 0, UINT64_MAX), -EINVAL);
	ck_assert_int_eq(check(fd, PAGE, UINT64_MAX), -EINVAL);
	ck_assert_int_eq(check(fd, UINT64_MAX, 1), -EINVAL);
	ck_assert_int_eq(close(fd), 0);
	fd = memfd_create("import", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	ck_assert_int_eq(ftruncate(fd, (off_t)LIMIT_IMPORT + 1), 0);
	ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, SEALED_FULLY), 0);
	ck_assert_int_eq(check_once(fd, 0, PAGE), -EFBIG);
}
END_TEST

START_TEST(ranges_with_pages_that_were_never_written_are_refused)
{
	unsigned char *bytes;
	int fd = memfd_create("import", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, 4 * PAGE), 0);
	/* Allocated, but the kernel can take such a page back. */
	ck_assert_int_eq(fallocate(fd, 0, 2 * PAGE, PAGE), 0);
	bytes = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ck_assert_ptr_ne(bytes, MAP_FAILED);
	bytes[0] = bytes[PAGE] = 1;
	ck_assert_int_eq(munmap(bytes, 2 * PAGE), 0);
	ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, SEALED_FULLY), 0);
	ck_assert_int_eq(check(fd, 0, 2 * PAGE), 0);
	ck_assert_int_eq(check(fd, PAGE, PAGE), 0);
	ck_assert_int_eq(check(fd, PAGE, PAGE + 1), -ENODATA);
	ck_assert_int_eq(check(fd, 2 * PAGE, PAGE), -ENODATA);
	ck_assert_int_eq(check(fd, 3 * PAGE, PAGE), -ENODATA);
	ck_assert_int_eq(close(fd), 0);
}
END_TEST

START_TEST(ranges_with_pages_that_were_only_read_are_refused)
{
	int fd = memfd_create("import", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	unsigned char *bytes;

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, 2 * PAGE), 0);
	bytes = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ck_assert_ptr_ne(bytes, MAP_FAILED);
	bytes[0] = 1;
	/* The kernel can take this page back: MADV_PAGEOUT. */
	ck_assert_int_eq(((volatile unsigned char *)bytes)[PAGE], 0);
	ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, SEALED_SIZE | F_SEAL_FUTURE_WRITE), 0);
	ck_assert_int_eq(check(fd, 0, PAGE), 0);
	ck_assert_int_eq(check(fd, 0, 2 * PAGE), -ENODATA);
	ck_assert_int_eq(munmap(bytes, 2 * PAGE), 0);
	ck_assert_int_eq(close(fd), 0);
}
END_TEST

/* The kernel may refuse some of these. */
static void refuses(int fd)
{
	if (fd >= 0)
		ck_assert_int_eq(check_once(fd, 0, PAGE), -ENOTSUP);
}

START_TEST(other_files_are_refused)
{
	int pair[2], fd, path;

	refuses(open("/dev/null", O_RDWR | O_CLOEXEC));
	refuses(open("/proc/self/stat", O_RDONLY | O_CLOEXEC));
	refuses(open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	refuses(epoll_create1(EPOLL_CLOEXEC));
	refuses(memfd_create("huge", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB));
	ck_assert_int_eq(pipe(pair), 0);
	refuses(pair[0]);
	refuses(pair[1]);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	refuses(pair[0]);
	refuses(pair[1]);
	/* A descriptor that is only a path. */
	fd = sealed_file(PAGE, 1, SEALED_FULLY, NULL);
	path = open("/proc/self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC);
	refuses(path);
	ck_assert_int_eq(close(fd), 0);
	/* A file in a tmpfs has no seals. */
	fd = open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd >= 0)
		ck_assert_int_ne(check_once(fd, 0, PAGE), 0);
}
END_TEST

/* ------------------------------------------------------------------------ processes */

static struct loop loop;
static uint32_t n_ended;
static int got; /* a descriptor, or the error; 0: neither */

static void on_ended(struct import_processes *all, uint32_t uid)
{
	ck_assert_uint_eq(uid, UID);
	ck_assert(!import_check_is_busy(all, uid));
	n_ended++;
	loop_stop(&loop);
}

static void on_checked(struct import_check *import, int fd, const struct proto_error *why)
{
	ck_assert_ptr_null(import->process);
	got = fd < 0 ? why->code : fd;
}

static struct import_processes all = { .loop = &loop, .ended = on_ended };

/* Starts a process for one end of a socket pair, which it closes here; returns the other. */
static int start(struct import_check *import)
{
	int pair[2];

	got = 0;
	loop.stopped = false;
	*import = (struct import_check){ .call = on_checked };
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	ck_assert_int_eq(import_check_start(&all, import, UID, pair[0], 0, PAGE), 0);
	ck_assert(import_check_is_busy(&all, UID));
	ck_assert(!import_check_is_busy(&all, UID + 1));
	ck_assert_int_eq(close(pair[0]), 0);
	return pair[1];
}

static int pass(int socket, const int *fds, uint32_t n)
{
	const struct proto_head head = { PROTO_MAGIC, PROTO_IMPORT_FILE };

	return proto_send(socket, &head, sizeof(head), fds, n);
}

START_TEST(process_passes_a_checked_file)
{
	int fd = sealed_file(PAGE, 7, SEALED_FULLY, NULL), socket;
	struct import_check import;
	char byte = 0;

	ck_assert_int_eq(loop_init(&loop), 0);
	socket = start(&import);
	ck_assert_int_eq(pass(socket, &fd, 1), 0);
	ck_assert_int_eq(loop_run(&loop), 0);
	ck_assert_int_gt(got, 0);
	ck_assert_int_eq(pread(got, &byte, 1, PAGE - 1), 1);
	ck_assert_int_eq(byte, 7);
	ck_assert_int_eq(close(got), 0);
	ck_assert_int_eq(close(fd), 0);
	ck_assert_int_eq(close(socket), 0);
	loop_fini(&loop);
}
END_TEST

START_TEST(process_reports_why_a_message_or_a_file_is_refused)
{
	int fds[2] = { sealed_file(PAGE, 7, SEALED_FULLY, NULL),
		       sealed_file(PAGE, 7, SEALED_SIZE, NULL) };
	struct import_check import;
	int socket;

	ck_assert_int_eq(loop_init(&loop), 0);
	for (uint32_t n = 0; n <= 3; n++) {
		socket = start(&import);
		if (n < 3)
			ck_assert_int_eq(pass(socket, n == 1 ? &fds[1] : fds, n), 0);
		else
			ck_assert_int_eq(shutdown(socket, SHUT_RDWR), 0);
		ck_assert_int_eq(loop_run(&loop), 0);
		ck_assert_int_eq(got, n == 1 ? -ETXTBSY : -EBADMSG);
		ck_assert_int_eq(close(socket), 0);
	}
	ck_assert_uint_eq(n_ended, 4);
	ck_assert_int_eq(close(fds[0]), 0);
	ck_assert_int_eq(close(fds[1]), 0);
	loop_fini(&loop);
}
END_TEST

START_TEST(process_that_is_forgotten_is_killed_without_a_call)
{
	struct import_check import;
	int socket;

	ck_assert_int_eq(loop_init(&loop), 0);
	socket = start(&import);
	import_check_forget(&import);
	ck_assert(import_check_is_busy(&all, UID));
	ck_assert_int_eq(loop_run(&loop), 0);
	ck_assert_uint_eq(n_ended, 1);
	ck_assert_int_eq(got, 0);
	ck_assert_int_eq(close(socket), 0);
	/* At the end of the manager. */
	socket = start(&import);
	import_check_fini(&all);
	ck_assert(!import_check_is_busy(&all, UID));
	ck_assert_int_eq(close(socket), 0);
	loop_fini(&loop);
}
END_TEST

CHECK_MAIN("import_check")
