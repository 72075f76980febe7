/* SPDX-License-Identifier: MIT */
/* page_populate - all pages of a segment are populated and released, piece by piece */
#define CHECK_SETUP    begin
#define CHECK_TEARDOWN fini

#include "daemon/manager/page_populate.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/low_latency.h"
#include "common/util.h"
#include "shm/segment.h"
#include "tests/support/check_unit.h"

#define SIZE (3 * PAGES_PIECE + 4096)

static struct loop loop;
static uint32_t calls;
static int last;

static void on_end(struct pages *pages, int result)
{
	(void)pages;
	calls++;
	last = result;
	loop_stop(&loop);
}

static struct pages pages = { .loop = &loop, .call = on_end };

/* Returns the final result. */
static int end(void)
{
	uint32_t before = calls;

	loop.stopped = false;
	ck_assert_int_eq(loop_run(&loop), 0);
	ck_assert_uint_eq(calls, before + 1);
	ck_assert_ptr_null(pages.source.op);
	return last;
}

static uint64_t bytes(int fd)
{
	struct stat st;

	ck_assert_int_eq(fstat(fd, &st), 0);
	return (uint64_t)st.st_blocks * 512;
}

static int fd; /* of a segment */

static void begin(void)
{
	fd = segment_create("check", SEGMENT_CLIENT, SIZE, 1, 0, 0600);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(loop_init(&loop), 0);
}

static void fini(void)
{
	loop_fini(&loop);
	(void)close(fd);
}

START_TEST(all_pages_are_populated_and_released_even_if_mapped)
{
	void *base;

	ck_assert_int_eq(pages_make(&pages, fd, 0, SIZE), 0);
	ck_assert_int_eq(end(), 0);
	ck_assert_uint_eq(bytes(fd), SIZE);
	ck_assert_int_eq(segment_map(fd, SEGMENT_CLIENT, 1, 1, &base, NULL), 0);
	((char *)base)[SIZE - 1] = 1;
	ck_assert_int_eq(pages_drop(&pages, fd, 0, SIZE), 0);
	ck_assert_int_eq(end(), 0);
	ck_assert_uint_eq(bytes(fd), 0);
	/* It is touched again: no signal, and a new page. */
	ck_assert_int_eq(((volatile char *)base)[SIZE - 1], 0);
	((char *)base)[SIZE - 1] = 2;
	ck_assert_uint_ge(bytes(fd), 4096);
	segment_unmap(base, SIZE);
}
END_TEST

START_TEST(pages_given_back_while_populated_are_gone_in_the_end)
{
	ck_assert_int_eq(pages_make(&pages, fd, 0, SIZE), 0);
	ck_assert_int_eq(pages_drop(&pages, fd, 0, SIZE), 0);
	ck_assert_int_eq(end(), 0);
	ck_assert_uint_eq(calls, 1);
	ck_assert_uint_eq(bytes(fd), 0);
	ck_assert_uint_eq(pages.done, SIZE);
}
END_TEST

START_TEST(failed_population_is_reported)
{
	/* Beyond its end, which is sealed: some pieces are populated. */
	ck_assert_int_eq(pages_make(&pages, fd, 0, SIZE + PAGES_PIECE), 0);
	ck_assert_int_eq(end(), -EPERM);
	ck_assert_uint_eq(bytes(fd), 3 * PAGES_PIECE);
	ck_assert_int_eq(pages_drop(&pages, fd, 0, SIZE), 0);
	ck_assert_int_eq(end(), 0);
	ck_assert_uint_eq(bytes(fd), 0);
	(void)close(fd);
	ck_assert_int_eq(pages_make(&pages, fd, 0, SIZE), 0);
	ck_assert_int_eq(end(), -EBADF);
	fd = -1;
}
END_TEST

/* On a file system with room for one and a half pieces, which only root can create. */
START_TEST(population_without_room_is_reported_and_undone)
{
	char path[] = "/tmp/check_page_populate.XXXXXX";
	char file[64], options[32];

	if (geteuid() != 0 || unshare(CLONE_NEWNS) < 0) {
		check_unit_not_run(population_without_room_is_reported_and_undone,
				   "only root can mount");
		return;
	}
	ck_assert_int_eq(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	ck_assert_ptr_nonnull(mkdtemp(path));
	(void)snprintf(options, sizeof(options), "size=%" PRIu64, PAGES_PIECE * 3 / 2);
	ck_assert_int_eq(mount("none", path, "tmpfs", 0, options), 0);
	(void)snprintf(file, sizeof(file), "%s/file", path);
	(void)close(fd);
	fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	ck_assert_int_eq(ftruncate(fd, (off_t)SIZE), 0);
	ck_assert_int_eq(pages_make(&pages, fd, 0, SIZE), 0);
	ck_assert_int_eq(end(), -ENOSPC);
	ck_assert_uint_eq(pages.done, PAGES_PIECE);
	ck_assert_int_eq(pages_drop(&pages, fd, 0, SIZE), 0);
	ck_assert_int_eq(end(), 0);
	ck_assert_uint_eq(bytes(fd), 0);
	(void)close(fd);
	fd = -1;
	(void)umount(path);
	(void)rmdir(path);
}
END_TEST

START_TEST(stopped_population_makes_no_call)
{
	ck_assert_int_eq(pages_make(&pages, fd, 0, SIZE), 0);
	pages_stop(&pages);
	ck_assert_ptr_null(pages.source.op);
	loop_fini(&loop);
	ck_assert_uint_eq(calls, 0);
	ck_assert_int_eq(loop_init(&loop), 0);
}
END_TEST

static uint32_t turns;
static int ready_fd;

/* Another source, which is always ready. */
static void on_turn(struct loop_source *source, int result)
{
	(void)result;
	turns++;
	ck_assert_int_eq(loop_poll(&loop, source, ready_fd, POLLIN), 0);
}

START_TEST(other_sources_are_served_between_two_pieces)
{
	struct loop_source source = { .call = on_turn };

	ready_fd = eventfd(1, EFD_CLOEXEC);
	ck_assert_int_eq(loop_poll(&loop, &source, ready_fd, POLLIN), 0);
	ck_assert_int_eq(pages_make(&pages, fd, 0, SIZE), 0);
	ck_assert_int_eq(end(), 0);
	ck_assert_uint_ge(turns, SIZE / PAGES_PIECE);
	ck_assert_int_eq(pages_drop(&pages, fd, 0, SIZE), 0);
	turns = 0;
	ck_assert_int_eq(end(), 0);
	ck_assert_uint_ge(turns, SIZE / PAGES_PIECE);
	loop_forget(&loop, &source);
	(void)close(ready_fd);
}
END_TEST

/* Returns the lowest nice value of io_uring's workers in this process; 20: there are none. */
static int least_nice(void)
{
	_cleanup_closedir_ DIR *d = opendir("/proc/self/task");
	struct dirent *e;
	int least = 20, n;

	ck_assert_ptr_nonnull(d);
	while ((e = readdir(d))) {
		if (e->d_name[0] == '.' || atoi(e->d_name) == getpid())
			continue;
		errno = 0;
		n = getpriority(PRIO_PROCESS, (id_t)atoi(e->d_name));
		if (errno == 0) /* otherwise it has just ended */
			least = min(least, n);
	}
	return least;
}

/* The manager has priority over its pool's workers; a thread that works for a client does not. */
START_TEST(populating_thread_is_not_urgent_if_the_manager_is)
{
	int least;

	low_latency_begin(true);
	ck_assert_int_eq(pages_make(&pages, fd, 0, SIZE), 0);
	ck_assert_int_eq(end(), 0);
	least = least_nice();
	ck_assert_int_ge(least, 0);
	ck_assert_int_lt(least, 20);
}
END_TEST

CHECK_MAIN("page_populate")
