/* SPDX-License-Identifier: MIT */
/*
 * Fibers that read, write, accept and poll, on the workers of a pool in this process. Available
 * data costs no wait, missing data blocks no worker. Every wait ends with its data, at its
 * deadline, or with its job. Tests check results and counters. Each test runs with the ring of this
 * kernel, and with that of an older kernel.
 */
#define CHECK_TIMEOUT  120
#define CHECK_SETUP    ignore_sigpipe
#define CHECK_TEARDOWN NULL

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <forkd/fiber.h>

#include "common/clock.h"
#include "daemon/fiber/io.h"
#include "shm/fence.h"
#include "tests/support/check_unit.h"
#include "tests/support/fiber_rig.h"
#include "tests/support/short_of_memory.h"

#define HOUR (3600 * NSEC_PER_SEC)
#ifdef FK_SANITIZE_THREAD
#define MANY 4000 /* TSan supports at most 8128 fibers */
#else
#define MANY 10000
#endif
#define SPARE 64 /* additional descriptors that a test needs */

static int a[2], b[2]; /* pipes, or pairs of sockets */
static int ends[MANY][2];

/* ------------------------------------------------------------------------ tasks */

/* Operations that need no wait: through a, whose other end is here as well. */
FK_FIBER_TASK(int64_t, at_once, (int64_t, n))
{
	char text[8] = "";

	FAILS(fk_fiber_write(a[1], "forkd", 5, FK_NEVER), 5);
	FAILS(fk_fiber_poll(a[0], POLLIN, FK_NEVER), POLLIN);
	FAILS(fk_fiber_poll(a[1], POLLOUT, 0), POLLOUT);
	FAILS(fk_rt_fiber_io((enum fk_io)4, a[0], text, 1, FK_NEVER), -EINVAL);
	FAILS(fk_fiber_read(a[0], text, 2, FK_NEVER), 2);
	FAILS(fk_fiber_read(a[0], text + 2, 6, 0), 3);
	FAILS(strcmp(text, "forkd"), 0);
	/* No data, and a timeout of 0. */
	FAILS(fk_fiber_read(a[0], text, 1, 0), -ETIMEDOUT);
	FAILS(fk_fiber_read(a[0], text, 1, clock_ns()), -ETIMEDOUT);
	FAILS(fk_fiber_poll(a[0], POLLIN, 0), -ETIMEDOUT);
	FAILS(fk_fiber_read(a[0], text, 0, FK_NEVER), 0);
	FAILS(fk_fiber_write(a[1], text, 0, FK_NEVER), 0);
	/* Invalid descriptors, the wrong end of a pair, invalid memory. */
	FAILS(fk_fiber_read(-1, text, 1, FK_NEVER), -EBADF);
	FAILS(fk_fiber_write(INT32_MAX, text, 1, FK_NEVER), -EBADF);
	FAILS(fk_fiber_poll(-1, POLLIN, FK_NEVER), -EBADF);
	FAILS(fk_fiber_poll(INT32_MAX, POLLIN, FK_NEVER), -EBADF);
	FAILS(fk_fiber_write(a[1], "x", 1, FK_NEVER), 1);
	FAILS(fk_fiber_read(a[0], (void *)8, 1, FK_NEVER), -EFAULT);
	/* A closed end. */
	(void)close(a[1]);
	FAILS(fk_fiber_read(a[0], text, 8, FK_NEVER), n);
	FAILS(fk_fiber_read(a[0], text, 8, FK_NEVER), 0);
	FAILS(fk_fiber_poll(a[0], 0, FK_NEVER) & POLLHUP, POLLHUP);
	(void)close(b[0]);
	FAILS(fk_fiber_write(b[1], text, 1, FK_NEVER), -EPIPE);
	return 0;
}
FK_EXPORT(at_once, 0, "The line of what is not as it should be, or 0")

static void writes_later(void *arg)
{
	(void)arg;
	while (!rig_counter(&rig, fiber_io_waiting))
		(void)fk_fiber_yield();
	if (write(a[1], "later", 5) == 5)
		atomic_fetch_add(&ended, 1);
}

static void reads_later(void *arg)
{
	struct pollfd pollfd = { .fd = a[0], .events = POLLIN };
	char text[4096];

	(void)arg;
	while (!rig_counter(&rig, fiber_io_waiting))
		(void)fk_fiber_yield();
	/* A socket is not writable as long as half of its buffer is full. */
	while (poll(&pollfd, 1, 0) == 1)
		if (read(a[0], text, sizeof(text)) <= 0)
			return;
	atomic_fetch_add(&ended, 1);
}

/* Operations that must wait. */
FK_FIBER_TASK(int64_t, waits, (int64_t, n))
{
	struct fk_counter all = FK_COUNTER;
	char text[4096] = "";
	int flags = fcntl(a[1], F_GETFL);

	for (int64_t i = 0; i < n; i++) {
		FAILS(fk_fiber_spawn(writes_later, NULL, &all), 0);
		if (i % 2) {
			FAILS(fk_fiber_poll(a[0], POLLIN, FK_NEVER), POLLIN);
			FAILS(fk_fiber_read(a[0], text, sizeof(text), FK_NEVER), 5);
		} else {
			FAILS(fk_fiber_read(a[0], text, sizeof(text), clock_ns() + HOUR), 5);
		}
		FAILS(memcmp(text, "later", 5), 0);
		FAILS(fk_counter_wait(&all, 0), 0);
	}
	(void)fcntl(a[1], F_SETFL, flags | O_NONBLOCK);
	while (write(a[1], text, sizeof(text)) > 0)
		continue;
	(void)fcntl(a[1], F_SETFL, flags);
	FAILS(fk_fiber_spawn(reads_later, NULL, &all), 0);
	FAILS(fk_fiber_write(a[1], text, sizeof(text), FK_NEVER) > 0, true);
	FAILS(fk_counter_wait(&all, 0), 0);
	return 0;
}
FK_EXPORT(waits, 0, "The line of what is not as it should be, or 0")

/* Reads n bytes from a, each now or later, and writes as many to b. */
FK_FIBER_TASK(int64_t, copies, (int64_t, n))
{
	char byte = 0;

	for (int64_t i = 0; i < n; i++) {
		FAILS(fk_fiber_read(a[0], &byte, 1, FK_NEVER), 1);
		FAILS(fk_fiber_write(b[1], &byte, 1, FK_NEVER), 1);
		atomic_fetch_add(&ended, 1);
	}
	return 0;
}
FK_EXPORT(copies, 0, "The line of what is not as it should be, or 0")

/* Polled data is available afterwards. */
FK_FIBER_TASK(int64_t, polls, (int64_t, n))
{
	char byte;

	for (int64_t i = 0; i < n; i++) {
		FAILS(fk_fiber_poll(a[0], POLLIN, FK_NEVER), POLLIN);
		FAILS(fk_fiber_read(a[0], &byte, 1, FK_NEVER), 1);
		atomic_fetch_add(&ended, 1);
	}
	return 0;
}
FK_EXPORT(polls, 0, "The line of what is not as it should be, or 0")

static void meets(void *arg)
{
	(void)arg;
	if (fk_fiber_poll(a[0], POLLIN, FK_NEVER) != POLLIN)
		(void)fk_fiber_fail(1);
	atomic_fetch_add(&ended, 1);
	while (atomic_load(&ended) < 2)
		fence_pause();
}

/* Two fibers that have their data at the same time, and each waits for the other. */
FK_FIBER_TASK(int64_t, meeting, (int64_t, n))
{
	struct fk_counter all = FK_COUNTER;

	for (int64_t i = 0; i < 2; i++)
		FAILS(fk_fiber_spawn(meets, NULL, &all), 0);
	FAILS(fk_counter_wait(&all, 0), 0);
	return n;
}
FK_EXPORT(meeting, 0, "The line of what is not as it should be, or n")

static void reads_one(void *arg)
{
	char byte;

	(void)arg;
	if (fk_fiber_read(a[0], &byte, 1, FK_NEVER) == 1)
		atomic_fetch_add(&ended, 1);
}

/* Calls tasks without forks until another fiber of its worker has read data. */
FK_FIBER_TASK(int64_t, calls, (int64_t, n))
{
	struct fk_counter all = FK_COUNTER;
	int64_t x;

	FAILS(fk_fiber_spawn(reads_one, NULL, &all), 0);
	while (!rig_counter(&rig, fiber_io_waits))
		(void)fk_fiber_yield();
	while (!atomic_load(&ended))
		FAILS(FK_FIBER_CALL(&x, fib, 1), 0);
	FAILS(fk_counter_wait(&all, 0), 0);
	return n;
}
FK_EXPORT(calls, 0, "The line of what is not as it should be, or n")

FK_FIBER_TASK(int64_t, files, (int64_t, fd))
{
	char text[16] = "";

	FAILS(fk_fiber_write((int)fd, "position", 8, FK_NEVER), 8);
	FAILS(lseek((int)fd, 3, SEEK_SET), 3);
	FAILS(fk_fiber_read((int)fd, text, 3, FK_NEVER), 3);
	FAILS(fk_fiber_read((int)fd, text + 3, 8, FK_NEVER), 2);
	FAILS(fk_fiber_read((int)fd, text, 8, FK_NEVER), 0);
	FAILS(strcmp(text, "ition"), 0);
	FAILS(fk_fiber_poll((int)fd, POLLIN, FK_NEVER), POLLIN);
	FAILS(fk_fiber_accept((int)fd, FK_NEVER), -ENOTSOCK);
	FAILS(fk_fiber_accept(-1, FK_NEVER), -EBADF);
	return 0;
}
FK_EXPORT(files, 0, "The line of what is not as it should be, or 0")

/* A connection for each number, which is sent through it. */
static void serves(void *arg)
{
	_Atomic int64_t *sum = arg;
	int64_t x = 0;
	int fd = fk_fiber_accept(a[0], FK_NEVER);

	if (fd < 0)
		return;
	if (fk_fiber_read(fd, &x, sizeof(x), FK_NEVER) == sizeof(x) &&
	    fk_fiber_write(fd, &x, sizeof(x), FK_NEVER) == sizeof(x) &&
	    fk_fiber_read(fd, &x, sizeof(x), FK_NEVER) == 0 && fcntl(fd, F_GETFD) == FD_CLOEXEC)
		atomic_fetch_add(sum, x);
	(void)close(fd);
}

FK_FIBER_TASK(int64_t, served, (int64_t, n))
{
	struct fk_counter all = FK_COUNTER;
	_Atomic int64_t sum = 0;

	for (int64_t i = 0; i < n; i++)
		(void)fk_fiber_spawn(serves, (void *)(uintptr_t)&sum, &all);
	(void)fk_counter_wait(&all, 0);
	/* No client connects any more. */
	FAILS(fk_fiber_accept(a[0], clock_ns() + NSEC_PER_MSEC), -ETIMEDOUT);
	return sum;
}
FK_EXPORT(served, 0, "Sum of what n connections have sent")

struct reader {
	int fd;
	int64_t n, sum, r;
};

static void reads_all(void *arg)
{
	struct reader *self = arg;
	int64_t x;

	while ((self->r = fk_fiber_read(self->fd, &x, sizeof(x), FK_NEVER)) == sizeof(x)) {
		self->n++;
		self->sum += x;
	}
}

/* A fiber for each pipe. Returns the sum of all numbers that were read, weighted by pipe. */
FK_FIBER_TASK(int64_t, readers, (int64_t, n))
{
	struct reader *readers = calloc((size_t)n, sizeof(*readers));
	struct fk_counter all = FK_COUNTER;
	int64_t sum = 0, bad = 0;

	for (int64_t i = 0; i < n; i++) {
		readers[i].fd = ends[i][0];
		if (fk_fiber_spawn_sized(reads_all, &readers[i], &all, 16384) < 0)
			bad++;
	}
	(void)fk_counter_wait(&all, 0);
	for (int64_t i = 0; i < n; i++) {
		sum += readers[i].sum * (i + 1) + readers[i].n;
		bad += readers[i].r != 0;
	}
	free(readers);
	return bad ? -bad : sum;
}
FK_EXPORT(readers, 0, "What was read through n pipes")

/* A frame waits for data of a pipe. */
FK_FIBER_TASK(int64_t, one_number, (int64_t, i))
{
	int64_t x = 0;

	return fk_fiber_read(ends[i][0], &x, sizeof(x), FK_NEVER) == sizeof(x) ? x : -1;
}

FK_TASK(int64_t, in_frames, (int64_t, from, int64_t, n), int64_t x; int64_t y;)
FK_NO_LEAF(in_frames)
{
	if (self->n == 1) {
		FK_CALL(x, one_number, self->from);
		FK_RETURN(self->x);
	}
	FK_FORK(x, in_frames, self->from, self->n / 2);
	FK_CALL(y, in_frames, self->from + self->n / 2, self->n - self->n / 2);
	FK_JOIN();
	FK_RETURN(self->x + self->y);
}
FK_END(in_frames)

FK_TASK(int64_t, frames, (int64_t, n), int64_t x;)
FK_NO_LEAF(frames)
{
	FK_CALL(x, in_frames, 0, self->n);
	FK_RETURN(self->x);
}
FK_END(frames)
FK_EXPORT(frames, 0, "Sum of the numbers that come through n pipes")

static void waits_in_vain(void *arg)
{
	int64_t how = (int64_t)(uintptr_t)arg, r;
	char text[8];

	switch (how % 4) {
	case 0:
		r = fk_fiber_read(a[0], text, sizeof(text), FK_NEVER);
		break;
	case 1:
		r = fk_fiber_read(a[0], text, sizeof(text), clock_ns() + HOUR);
		break;
	case 2:
		r = fk_fiber_poll(b[0], POLLIN, FK_NEVER);
		break;
	default:
		r = fk_fiber_poll(b[0], POLLIN, clock_ns() + HOUR);
		break;
	}
	if (r != -ECANCELED)
		return;
	atomic_fetch_add(&cut, 1);
	/* And at once, although the write would succeed. */
	if (fk_fiber_write(b[1], text, 1, FK_NEVER) == -ECANCELED)
		atomic_fetch_add(&ended, 1);
}

FK_FIBER_TASK(int64_t, vain, (int64_t, n))
{
	struct fk_counter all = FK_COUNTER;

	for (int64_t i = 0; i < n; i++)
		(void)fk_fiber_spawn(waits_in_vain, (void *)(uintptr_t)i, &all);
	return fk_counter_wait(&all, 0);
}
FK_EXPORT(vain, 0, "Fibers that wait for what does not come")

static void takes_one(void *arg)
{
	char x;

	if (fk_fiber_read((int)(intptr_t)arg, &x, 1, FK_NEVER) == 1)
		atomic_fetch_add(&ended, 1);
}

/* Twice as many fibers as n wait for a byte each, half of them at each of two pipes. */
FK_FIBER_TASK(int64_t, herds, (int64_t, n))
{
	struct fk_counter all = FK_COUNTER;

	for (int64_t i = 0; i < n; i++) {
		(void)fk_fiber_spawn(takes_one, (void *)(intptr_t)a[0], &all);
		(void)fk_fiber_spawn(takes_one, (void *)(intptr_t)b[0], &all);
	}
	return fk_counter_wait(&all, 0);
}
FK_EXPORT(herds, 0, "Fibers that read from the same two pipes")

static void waits_a_moment(void *arg)
{
	int64_t how = (int64_t)(uintptr_t)arg;
	uint64_t until = clock_ns() + NSEC_PER_MSEC;
	char text[8];
	int64_t r;

	r = how % 2 ? fk_fiber_read(a[0], text, sizeof(text), until)
		    : fk_fiber_poll(a[0], POLLIN, until);
	if (r == -ETIMEDOUT && clock_ns() >= until)
		atomic_fetch_add(&ended, 1);
}

FK_FIBER_TASK(int64_t, moments, (int64_t, n))
{
	struct fk_counter all = FK_COUNTER;

	for (int64_t i = 0; i < n; i++)
		(void)fk_fiber_spawn(waits_a_moment, (void *)(uintptr_t)i, &all);
	return fk_counter_wait(&all, 0);
}
FK_EXPORT(moments, 0, "Fibers that wait a moment for what does not come")

/* Data that arrives at the deadline of the wait is read now or at the next call. */
FK_FIBER_TASK(int64_t, at_that_time, (int64_t, n))
{
	int64_t got = 0;

	for (int64_t i = 0; i < n; i++) {
		struct fk_counter all = FK_COUNTER;
		char text[8];
		int64_t r = fk_fiber_read(a[0], text, 1,
					  clock_ns() + 20 * NSEC_PER_USEC + (uint64_t)i * 300);

		if (r == -ECANCELED)
			return -1;
		if (r == 1)
			got++;
		(void)fk_counter_wait(&all, 0);
	}
	return got;
}
FK_EXPORT(at_that_time, 0, "How many of n reads had their byte in time")

FK_FIBER_TASK(int64_t, no_memory, (int64_t, n))
{
	char text[8];

	atomic_store(&short_of_memory, true);
	FAILS(fk_fiber_read(a[0], text, 1, clock_ns() + HOUR), -ENOMEM);
	atomic_store(&short_of_memory, false);
	FAILS(fk_fiber_read(a[0], text, 1, clock_ns() + NSEC_PER_MSEC), -ETIMEDOUT);
	return n;
}
FK_EXPORT(no_memory, 0, "The line of what is not as it should be, or n")

FK_FIBER_TASK(int64_t, no_ring, (int64_t, n))
{
	char text[8];

	FAILS(fk_fiber_accept(a[0], FK_NEVER), -ENOSYS);
	FAILS(fk_fiber_read(a[0], text, 1, FK_NEVER), -ENOSYS);
	FAILS(fk_fiber_write(a[1], "x", 1, FK_NEVER), 1);
	FAILS(fk_fiber_read(a[0], text, 1, FK_NEVER), 1);
	return n;
}
FK_EXPORT(no_ring, 0, "The line of what is not as it should be, or n")

/* The first wait fails, because the ring would be one descriptor too many. */
FK_FIBER_TASK(int64_t, no_room_for_a_ring, (int64_t, n))
{
	struct rlimit before, none;
	char text[8];

	FAILS(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = before;
	none.rlim_cur = 0;
	FAILS(setrlimit(RLIMIT_NOFILE, &none), 0);
	FAILS(fk_fiber_read(a[0], text, 1, FK_NEVER), -ENOSYS);
	FAILS(setrlimit(RLIMIT_NOFILE, &before), 0);
	/* As all later ones. */
	FAILS(fk_fiber_poll(a[0], POLLIN, FK_NEVER), -ENOSYS);
	FAILS(fk_fiber_write(a[1], "x", 1, FK_NEVER), 1);
	FAILS(fk_fiber_read(a[0], text, 1, FK_NEVER), 1);
	return n;
}
FK_EXPORT(no_room_for_a_ring, 0, "The line of what is not as it should be, or n")

#define RACERS 4u

/* Each on one worker: they wait for data at the same time. Number n reads from ends[n]. */
FK_FIBER_TASK(int64_t, races, (int64_t, n))
{
	char byte = 0;

	atomic_fetch_add(&tasks_reached, 1);
	while (atomic_load(&tasks_reached) < RACERS)
		sched_yield();
	return fk_fiber_read(ends[n][0], &byte, 1, FK_NEVER) == 1 ? byte : 0;
}
FK_EXPORT(races, 0, "The byte that was read, or 0")

FK_LEAF_TASK(int64_t, no_fiber, (int64_t, n))
{
	char text[8] = "";

	return fk_fiber_read(a[0], text, 1, FK_NEVER) != -EPERM ||
	       fk_fiber_write(a[1], text, 1, FK_NEVER) != -EPERM ||
	       fk_fiber_accept(a[0], FK_NEVER) != -EPERM ||
	       fk_fiber_poll(a[0], POLLIN, FK_NEVER) != -EPERM;
}
FK_EXPORT(no_fiber, 0, "1 if a frame can do what only fibers can")

FK_MODULE(t, "What check_io runs")

/* ------------------------------------------------------------------------ tests */

/* A write to a closed end is an error, and no signal. */
static void ignore_sigpipe(void)
{
	(void)signal(SIGPIPE, SIG_IGN);
}

/* Waits until n fibers wait and no worker is busy. */
static void await_io(uint64_t n)
{
	while (rig_counter(&rig, fiber_io_waiting) != n || atomic_load(&rig.pool->idle.lazy.active))
		sched_yield();
}

static void make(int pair[2], bool sockets)
{
	if (sockets)
		ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	else
		ck_assert_int_eq(pipe(pair), 0);
}

static void drop(int pair[2])
{
	(void)close(pair[0]);
	(void)close(pair[1]);
}

/* On one worker and on two. */
#define EACH_WAY(workers) for (uint32_t way = 0, workers; workers = 1 + way, way < 2; way++)

START_TEST(available_data_needs_no_wait)
{
	EACH_WAY(workers)
	{
		for (int sockets = 0; sockets < 2; sockets++) {
			make(a, sockets);
			make(b, sockets);
			start(workers, false);
			ck_assert_int_eq(rig_call(&rig, "t:at_once", 1), 0);
			ck_assert_uint_eq(rig_counter(&rig, fiber_io_waits), 0);
			ck_assert_uint_gt(rig_counter(&rig, fiber_io_calls), 15);
			/* Nor a thread that waits. */
			ck_assert(!rig.pool->fibers->poller.started);
			stop();
			(void)close(a[0]);
			(void)close(b[1]);
		}
	}
}
END_TEST

START_TEST(missing_data_is_waited_for)
{
	EACH_WAY(workers)
	{
		for (int how = 0; how < 4; how++) {
			make(a, how % 2);
			if (how >= 2) {
				(void)fcntl(a[0], F_SETFL, O_NONBLOCK);
				(void)fcntl(a[1], F_SETFL, O_NONBLOCK);
			}
			start(workers, false);
			ck_assert_int_eq(rig_call(&rig, "t:waits", 20), 0);
			ck_assert_uint_eq(atomic_load(&ended), 21);
			ck_assert_uint_ge(rig_counter(&rig, fiber_io_waits), 20);
			ck_assert_uint_gt(rig_counter(&rig, poller_passes), 0);
			stop();
			drop(a);
		}
	}
}
END_TEST

/* The task waits, and n bytes arrive at once. The task must have noted this many then. */
static void comes(int n, uint32_t noted)
{
	const char bytes[32] = { 0 };

	while (!rig_counter(&rig, fiber_io_waiting) || atomic_load(&rig.pool->idle.lazy.active))
		sched_yield();
	ck_assert_int_eq(write(a[1], bytes, (size_t)n), n);
	while (atomic_load(&ended) != noted)
		sched_yield();
}

/* Each read that had to wait saves later reads their try: 1, 3 and 7 of them. Writes are counted
 * separately. */
START_TEST(fiber_that_waits_each_time_does_not_try_each_time)
{
	EACH_WAY(workers)
	{
		make(a, false);
		make(b, false);
		start(workers, false);
		submit(1, "t:copies", 43);
		comes(1 + 1, 2);
		comes(1 + 3, 6);
		comes(1 + 7, 14);
		comes(1 + 7, 22);
		ck_assert_uint_ge(rig_counter(&rig, fiber_io_waits), 22);
		/* The first try after that succeeds, and so do the following ones. */
		comes(1 + 7 + 13, 43);
		ck_assert_int_eq(result(1), 0);
		ck_assert_uint_eq(rig_counter(&rig, fiber_io_waits),
				  1 + 1 + 1 + 3 + 1 + 7 + 1 + 7 + 1 + 7);
		ck_assert_uint_eq(rig_counter(&rig, fiber_io_calls), 2 * 43);
		stop();
		drop(a);
		drop(b);
	}
}
END_TEST

START_TEST(fruitless_poll_does_not_affect_the_next_read)
{
	EACH_WAY(workers)
	{
		make(a, way);
		start(workers, false);
		submit(1, "t:polls", 20);
		for (uint32_t i = 1; i <= 20; i++)
			comes(1, i);
		ck_assert_int_eq(result(1), 0);
		ck_assert_uint_eq(rig_counter(&rig, fiber_io_waits), 20);
		stop();
		drop(a);
	}
}
END_TEST

/* Both fibers were sent to one worker, if they had waited there. */
START_TEST(computing_fiber_does_not_delay_the_data_of_others)
{
	make(a, false);
	start(2, false);
	for (int64_t i = 0; i < 100; i++) {
		atomic_store(&ended, 0);
		submit(1, "t:meeting", i);
		await_io(2);
		comes(1, 2);
		ck_assert_int_eq(result(1), i);
		ck_assert_int_eq(read(a[0], &(char){ 0 }, 1), 1);
	}
	stop();
	drop(a);
}
END_TEST

START_TEST(calling_fiber_yields_to_a_fiber_with_data)
{
	EACH_WAY(workers)
	{
		make(a, false);
		start(workers, false);
		submit(1, "t:calls", 5);
		while (rig_counter(&rig, fiber_io_waiting) != 1)
			sched_yield();
		ck_assert_int_eq(write(a[1], "x", 1), 1);
		ck_assert_int_eq(result(1), 5);
		stop();
		drop(a);
	}
}
END_TEST

START_TEST(files_are_read_and_written_at_their_position)
{
	EACH_WAY(workers)
	{
		char name[] = "/tmp/check_fiber_io.XXXXXX";
		int fd = mkstemp(name);

		ck_assert_int_ge(fd, 0);
		(void)unlink(name);
		start(workers, false);
		ck_assert_int_eq(rig_call(&rig, "t:files", fd), 0);
		stop();
		(void)close(fd);
	}
}
END_TEST

static void *connects(void *arg)
{
	const struct sockaddr_un *address = arg;

	for (int64_t i = 1; i <= 50; i++) {
		int fd = socket(AF_UNIX, SOCK_STREAM, 0);
		int64_t x = 0;

		ck_assert_int_eq(connect(fd, (const struct sockaddr *)(const void *)address,
					 sizeof(*address)),
				 0);
		ck_assert_int_eq(write(fd, &i, sizeof(i)), sizeof(i));
		ck_assert_int_eq(read(fd, &x, sizeof(x)), sizeof(x));
		ck_assert_int_eq(x, i);
		(void)close(fd);
	}
	return NULL;
}

START_TEST(connections_are_accepted_and_served)
{
	EACH_WAY(workers)
	{
		struct sockaddr_un address = { .sun_family = AF_UNIX };
		pthread_t client;

		/* An abstract address. */
		(void)snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1,
			       "check_fiber_io.%d.%u", getpid(), way);
		a[0] = socket(AF_UNIX, SOCK_STREAM | (way ? SOCK_NONBLOCK : 0), 0);
		ck_assert_int_eq(bind(a[0], (struct sockaddr *)(void *)&address, sizeof(address)),
				 0);
		ck_assert_int_eq(listen(a[0], 4), 0);
		start(workers, false);
		submit(1, "t:served", 50);
		ck_assert_int_eq(pthread_create(&client, NULL, connects, &address), 0);
		ck_assert_int_eq(result(1), 50 * 51 / 2);
		pthread_join(client, NULL);
		stop();
		(void)close(a[0]);
	}
}
END_TEST

/* Opens as many pairs as possible, at most MANY. */
static int64_t make_many(bool sockets)
{
	struct rlimit limit = { 2 * MANY + SPARE, 2 * MANY + SPARE };
	int64_t n;

	if (setrlimit(RLIMIT_NOFILE, &limit) < 0) {
		ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
		limit.rlim_cur = limit.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &limit);
	}
	n = min((int64_t)(limit.rlim_cur - SPARE) / 2, (int64_t)MANY);
	for (int64_t i = 0; i < n; i++)
		make(ends[i], sockets);
	return n;
}

START_TEST(ten_thousand_readers_block_no_worker)
{
	int64_t n = make_many(false);

	EACH_WAY(workers)
	{
		int64_t sum = 0;
		uint64_t moved;

		start(workers, false);
		submit(1, "t:readers", n);
		await_io((uint64_t)n);
		ck_assert_uint_eq(rig_counter(&rig, fiber_io_waits), (uint64_t)n);
		ck_assert_uint_eq(rig_counter(&rig, fiber_io_calls), (uint64_t)n);
		/* Other jobs run at the same time. */
		ck_assert_int_eq(rig_call(&rig, "t:fib", 15), 610);
		moved = rig_counter(&rig, frames_suspended);
		for (int64_t x = 1; x <= 3; x++) {
			for (int64_t i = 0; i < n; i++) {
				ck_assert_int_eq(write(ends[i][1], &x, sizeof(x)), sizeof(x));
				sum += x * (i + 1) + 1;
			}
			while (rig_counter(&rig, fiber_io_waits) != (uint64_t)(n * (x + 1)))
				sched_yield();
		}
		/* No fiber is preempted by others that have their data. */
		ck_assert_uint_eq(rig_counter(&rig, frames_suspended), moved);
		for (int64_t i = 0; i < n; i++)
			(void)close(ends[i][1]);
		ck_assert_int_eq(result(1), sum);
		/* The poller has handled more than one of them per pass. */
		ck_assert_uint_lt(rig_counter(&rig, poller_passes), (uint64_t)n * 5);
		stop();
		for (int64_t i = 0; i < n; i++) {
			(void)close(ends[i][0]);
			make(ends[i], way);
		}
	}
}
END_TEST

START_TEST(frame_waits_by_calling_a_fiber)
{
	EACH_WAY(workers)
	{
		for (int64_t i = 0; i < 64; i++)
			make(ends[i], false);
		start(workers, false);
		submit(1, "t:frames", 64);
		await_io(64);
		for (int64_t i = 0; i < 64; i++)
			ck_assert_int_eq(write(ends[i][1], &i, sizeof(i)), sizeof(i));
		ck_assert_int_eq(result(1), 63 * 64 / 2);
		stop();
		for (int64_t i = 0; i < 64; i++)
			drop(ends[i]);
	}
}
END_TEST

/* Each byte wakes all readers of the pipe, and one of them gets it. However often the others are
 * woken in vain, none of them holds a resource that others need. */
START_TEST(many_read_from_the_same_pipes)
{
	enum { READERS = 200 };

	EACH_WAY(workers)
	{
		uint32_t n = 0;

		make(a, false);
		make(b, false);
		start(workers, false);
		submit(1, "t:herds", READERS);
		await_io(2 * READERS);
		for (int i = 0; i < 2 * READERS; i++) {
			/* First most readers of one pipe; then those of the other. */
			int to = i < READERS - 20 || i >= 2 * READERS - 20 ? a[1] : b[1];

			ck_assert_int_eq(write(to, "x", 1), 1);
			n++;
			while (atomic_load(&ended) != n)
				sched_yield();
		}
		ck_assert_uint_eq(rig_wait(&rig, 1), JOB_DONE);
		stop();
		drop(a);
		drop(b);
	}
}
END_TEST

START_TEST(wait_ends_at_its_deadline)
{
	EACH_WAY(workers)
	{
		make(a, way);
		start(workers, false);
		ck_assert_int_eq(rig_call(&rig, "t:moments", 100), 0);
		ck_assert_uint_eq(atomic_load(&ended), 100);
		stop();
		drop(a);
	}
}
END_TEST

/* No byte that was read is lost, and none is read twice. */
START_TEST(data_at_the_deadline_is_read_once_or_times_out)
{
	EACH_WAY(workers)
	{
		int64_t got = 0, n = 0;
		char text[64];

		make(a, way);
		/* The task may have read its last byte while the pipe is full. */
		(void)fcntl(a[1], F_SETFL, O_NONBLOCK);
		start(workers, false);
		submit(1, "t:at_that_time", 1000);
		while (rig_counter(&rig, jobs_done) == 0) {
			uint64_t waits = rig_counter(&rig, fiber_io_waits);

			if (write(a[1], "x", 1) == 1)
				n++;
			for (uint64_t until = clock_ns() + 100 * NSEC_PER_USEC;
			     rig_counter(&rig, fiber_io_waits) == waits && clock_ns() < until;)
				sched_yield();
		}
		got = result(1);
		ck_assert_int_ge(got, 0);
		(void)fcntl(a[0], F_SETFL, O_NONBLOCK);
		for (ssize_t r; (r = read(a[0], text, sizeof(text))) > 0;)
			got += r;
		ck_assert_int_eq(got, n);
		stop();
		drop(a);
	}
}
END_TEST

START_TEST(cancel_ends_waits_for_io)
{
	EACH_WAY(workers)
	{
		make(a, way);
		make(b, way);
		for (int i = 0; i < 5; i++) {
			start(workers, false);
			submit(1, "t:vain", 200);
			await_io(200);
			see_cancelled(1);
			ck_assert_uint_eq(atomic_load(&cut), 200);
			ck_assert_uint_eq(atomic_load(&ended), 200);
			stop();
		}
		drop(a);
		drop(b);
	}
}
END_TEST

START_TEST(cancel_at_any_moment_leaves_nothing)
{
	EACH_WAY(workers)
	{
		make(a, way);
		make(b, way);
		start(workers, false);
		for (uint32_t i = 0; i < 150; i++) {
			ck_assert_uint_eq(cancel_after(i * 400, "t:vain", 30), JOB_CANCELLED);
		}
		stop();
		drop(a);
		drop(b);
	}
}
END_TEST

START_TEST(deadline_of_the_job_ends_waits_for_io)
{
	EACH_WAY(workers)
	{
		make(a, false);
		make(b, false);
		start(workers, false);
		see_expired("t:vain", 50);
		stop();
		drop(a);
		drop(b);
	}
}
END_TEST

START_TEST(close_of_a_descriptor_does_not_end_the_wait)
{
	EACH_WAY(workers)
	{
		int64_t x = 7;

		make(a, false);
		make(ends[0], way);
		start(workers, false);
		submit(1, "t:frames", 1);
		await_io(1);
		/* An operation that began later has ended, so the kernel has the descriptor. */
		ck_assert_int_eq(rig_call(&rig, "t:moments", 1), 0);
		(void)close(ends[0][0]);
		ck_assert_int_eq(write(ends[0][1], &x, sizeof(x)), sizeof(x));
		ck_assert_int_eq(result(1), 7);
		stop();
		drop(a);
		(void)close(ends[0][1]);
	}
}
END_TEST

START_TEST(wait_without_memory_is_an_error)
{
	make(a, false);
	start(1, false);
	ck_assert_int_eq(rig_call(&rig, "t:no_memory", 3), 3);
	stop();
}
END_TEST

static void take_ring(struct pool *pool)
{
	atomic_store(&pool->fibers->poller.begun, (uint32_t)-EPERM);
}

START_TEST(available_data_is_read_without_a_ring)
{
	make(a, false);
	rig_prepare = take_ring;
	start(1, false);
	ck_assert_int_eq(rig_call(&rig, "t:no_ring", 3), 3);
	stop();
}
END_TEST

START_TEST(ring_that_cannot_be_made_is_not_tried_again)
{
	make(a, false);
	start(1, false);
	ck_assert_int_eq(rig_call(&rig, "t:no_room_for_a_ring", 3), 3);
	stop();
	drop(a);
}
END_TEST

static void make_ring(struct pool *pool)
{
	ck_assert_int_eq(fiber_io_start(pool), 0);
	ck_assert(pool->fibers->poller.started);
}

START_TEST(ring_made_before_the_workers_is_used)
{
	make(a, false);
	rig_prepare = make_ring;
	start(2, false);
	ck_assert_int_eq(rig_call(&rig, "t:waits", 20), 0);
	stop();
	drop(a);
}
END_TEST

START_TEST(workers_that_wait_first_at_once_share_one_ring)
{
	for (uint32_t i = 0; i < RACERS; i++)
		make(ends[i], false);
	for (uint32_t round = 0; round < 20; round++) {
		start(RACERS, false);
		for (uint32_t i = 0; i < RACERS; i++)
			submit(i, "t:races", i);
		await_io(RACERS);
		for (uint32_t i = 0; i < RACERS; i++)
			ck_assert_int_eq(write(ends[i][1], &"abcd"[i], 1), 1);
		for (uint32_t i = 0; i < RACERS; i++)
			ck_assert_int_eq(result(i), 'a' + (int64_t)i);
		ck_assert_uint_eq(rig_counter(&rig, fiber_io_waits), RACERS);
		stop();
	}
	for (uint32_t i = 0; i < RACERS; i++)
		drop(ends[i]);
}
END_TEST

START_TEST(frames_do_not_wait_themselves)
{
	make(a, false);
	start(1, false);
	ck_assert_int_eq(rig_call(&rig, "t:no_fiber", 0), 0);
	stop();
}
END_TEST

CHECK_MAIN("fiber_io")
