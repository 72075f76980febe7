/* SPDX-License-Identifier: MIT */
/* segment: seals, refused segments, and that a client cannot write to a board. */
#include "shm/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shm/board.h"
#include "tests/support/check_unit.h"

#define EPOCH 42u
#define SIZE  UINT64_C(8192)

static int make(int preallocate, uint32_t mode)
{
	int fd = segment_create("check", SEGMENT_CLIENT, SIZE, EPOCH, preallocate, mode);

	ck_assert_int_ge(fd, 0);
	return fd;
}

static int map(int fd)
{
	void *base = NULL;
	int r = segment_map(fd, SEGMENT_CLIENT, 1, EPOCH, &base, NULL);

	ck_assert_int_eq(r == 0, base != NULL);
	segment_unmap(base, SIZE);
	return r;
}

/* A segment with another value in a field of its head cannot be mapped. */
#define WRONG(field, value, err)                                                                   \
	do {                                                                                       \
		int fd = make(0, 0600);                                                            \
		struct segment head;                                                               \
                                                                                                   \
		ck_assert_int_eq(pread(fd, &head, sizeof(head), 0), sizeof(head));                 \
		head.field = value;                                                                \
		ck_assert_int_eq(pwrite(fd, &head, sizeof(head), 0), sizeof(head));                \
		ck_assert_int_eq(map(fd), err);                                                    \
	} while (0)

START_TEST(segment_can_be_mapped_and_written)
{
	int fd = make(1, 0600);
	uint64_t size = 0;
	struct stat st;
	void *base;

	ck_assert_int_eq(segment_map(fd, SEGMENT_CLIENT, 1, EPOCH, &base, &size), 0);
	ck_assert_uint_eq(size, SIZE);
	((char *)base)[SIZE - 1] = 1;
	segment_unmap(base, size);
	ck_assert_int_eq(fstat(fd, &st), 0);
	ck_assert_uint_eq((uint64_t)st.st_blocks * 512, SIZE);
	ck_assert_int_eq(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	segment_unmap(NULL, SIZE);
}
END_TEST

START_TEST(segment_without_preallocation_is_sparse)
{
	struct stat st;
	int fd = segment_create("check", SEGMENT_ARENA, UINT64_C(1) << 36, EPOCH, 0, 0600);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(fstat(fd, &st), 0);
	ck_assert_int_eq(st.st_size, INT64_C(1) << 36);
	ck_assert_int_le(st.st_blocks * 512, 1 << 21);
}
END_TEST

START_TEST(size_of_a_segment_is_sealed)
{
	int fd = make(1, 0600);

	ck_assert_int_eq(ftruncate(fd, 4096), -1);
	ck_assert_int_eq(errno, EPERM);
	ck_assert_int_eq(ftruncate(fd, 1 << 20), -1);
	ck_assert_int_eq(errno, EPERM);
	ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
	ck_assert_int_eq(errno, EPERM);
}
END_TEST

START_TEST(segment_with_a_wrong_head_is_refused)
{
	ck_assert_int_eq(map(make(0, 0600)), 0);
	WRONG(magic, 1, -EBADMSG);
	WRONG(kind, SEGMENT_BOARD, -EBADMSG);
	WRONG(size, SIZE * 2, -EBADMSG);
	WRONG(size, SIZE / 2, -EBADMSG);
	WRONG(version, 99, -EPROTO);
	WRONG(layout_hash, head.layout_hash + 1, -EPROTO);
	WRONG(epoch, EPOCH + 1, -ESTALE);
}
END_TEST

START_TEST(malformed_segment_is_refused)
{
	int good = make(0, 0600);
	int fd = memfd_create("check", MFD_ALLOW_SEALING);
	struct segment head;
	int pair[2];

	/* The same bytes, unsealed: it could be truncated while it is mapped. */
	ck_assert_int_eq(pread(good, &head, sizeof(head), 0), sizeof(head));
	ck_assert_int_eq(ftruncate(fd, (off_t)SIZE), 0);
	ck_assert_int_eq(pwrite(fd, &head, sizeof(head), 0), sizeof(head));
	ck_assert_int_eq(map(fd), -EBADMSG);
	ck_assert_int_eq(pipe(pair), 0);
	ck_assert_int_eq(map(pair[0]), -EBADMSG);
	ck_assert_int_eq(map(-1), -EBADF);
	ck_assert_int_eq(segment_create("check", SEGMENT_CLIENT, 10, EPOCH, 0, 0600), -EINVAL);
}
END_TEST

/* In another process, as another user if permitted. */
static void as_nobody(int readonly)
{
	char path[64];
	void *base;

	if (geteuid() == 0 && (setgid(65534) < 0 || setuid(65534) < 0))
		_exit(9);
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", readonly);
	if (segment_map(readonly, SEGMENT_BOARD, 0, EPOCH, &base, NULL) != 0)
		_exit(2);
	if (segment_map(readonly, SEGMENT_BOARD, 1, EPOCH, &base, NULL) != -EACCES)
		_exit(3);
	if (open(path, O_RDWR) >= 0 || errno != EACCES)
		_exit(4);
	if (pwrite(readonly, "x", 1, 0) >= 0)
		_exit(5);
	if (mprotect(base, 4096, PROT_READ | PROT_WRITE) == 0)
		_exit(6);
	if (geteuid() == 65534 && fchmod(readonly, 0666) == 0)
		_exit(7);
	_exit(0);
}

START_TEST(another_user_cannot_write_the_board)
{
	int fd = segment_create("board", SEGMENT_BOARD, sizeof(struct board), EPOCH, 0, 0400);
	int readonly, status;
	uint64_t size;
	void *base;
	pid_t pid;

	ck_assert_int_ge(fd, 0);
	readonly = segment_reopen_readonly(fd);
	ck_assert_int_ge(readonly, 0);
	ck_assert_int_eq(segment_map(fd, SEGMENT_BOARD, 1, EPOCH, &base, &size), 0);
	pid = fork();
	if (pid == 0)
		as_nobody(readonly);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
}
END_TEST

START_TEST(task_is_found_by_its_name)
{
	static struct board board;

	ck_assert_int_eq(board_find_task(&board, "fib:fib"), -ENOENT);
	(void)snprintf(board.tasks[0].name, 64, "gone:task");
	board.tasks[0].flags = TASK_GONE;
	(void)snprintf(board.tasks[1].name, 64, "fib:fib");
	(void)snprintf(board.tasks[2].name, 64, "gone:task");
	board.n_tasks = 2;
	ck_assert_int_eq(board_find_task(&board, "fib:fib"), 1);
	ck_assert_int_eq(board_find_task(&board, "fib:fi"), -ENOENT);
	ck_assert_int_eq(board_find_task(&board, "gone:task"), -ENOENT);
	board.n_tasks = 3;
	ck_assert_int_eq(board_find_task(&board, "gone:task"), 2);
	board.n_tasks = UINT32_MAX;
	ck_assert_int_eq(board_find_task(&board, "no:such"), -ENOENT);
}
END_TEST

START_TEST(counters_have_rows_in_order)
{
	static struct board board;

	ck_assert_uint_ge(board_n_counters, 25);
	ck_assert_str_eq(board_counter_rows[0].name, "jobs_started");
	board.counters[3].stack_bytes = 77;
	ck_assert_str_eq(board_counter_rows[24].name, "stack_bytes");
	ck_assert_uint_eq(board_counter(&board, 3, &board_counter_rows[24]), 77);
	ck_assert_uint_eq(board_counter(&board, 2, &board_counter_rows[24]), 0);
	board.counters[BOARD_POOL].stack_bytes = 5;
	board.manager.n_workers = 3;
	ck_assert_uint_eq(board_counter_sum(&board, &board_counter_rows[24]), 5);
	board.manager.n_workers = 4;
	ck_assert_uint_eq(board_counter_sum(&board, &board_counter_rows[24]), 82);
}
END_TEST

CHECK_MAIN("segment")
