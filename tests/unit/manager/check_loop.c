/* SPDX-License-Identifier: MIT */
/*
 * loop: operations for which the kernel has no memory are repeated, without spinning
 *
 * The pauses are counted, and take no time: the test replaces nanosleep(2).
 */
#include "daemon/manager/loop.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/list.h"
#include "common/util.h"
#include "daemon/manager/loop_inject.h"
#include "tests/support/check_unit.h"

#define REFUSALS 20u
#define MANY	 10u /* that wait */

static uint32_t naps;

int __wrap_nanosleep(const struct timespec *request, struct timespec *remaining);

int __wrap_nanosleep(const struct timespec *request, struct timespec *remaining)
{
	(void)request;
	(void)remaining;
	naps++;
	return 0;
}

/* Replaces the function of liburing: the kernel has no memory for submissions. */
static uint32_t short_of;

int __real_io_uring_submit_and_wait(struct io_uring *ring, unsigned int n);
int __wrap_io_uring_submit_and_wait(struct io_uring *ring, unsigned int n);

int __wrap_io_uring_submit_and_wait(struct io_uring *ring, unsigned int n)
{
	if (short_of && short_of--)
		return -EAGAIN;
	return __real_io_uring_submit_and_wait(ring, n);
}

static struct loop loop;
static struct loop_inject *faults;
static int ready; /* a readable descriptor */
static uint32_t calls, wanted;
static int last;

static void on_event(struct loop_source *source, int result)
{
	(void)source;
	last = result;
	if (++calls == wanted)
		loop_stop(&loop);
}

static struct loop_source sources[MANY];

static void begin(uint32_t n)
{
	char path[] = "/tmp/check_loop.XXXXXX";
	_cleanup_close_ int fd = mkstemp(path);
	int ends[2];

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, sizeof(*faults)), 0);
	faults = mmap(NULL, sizeof(*faults), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ck_assert_ptr_ne(faults, MAP_FAILED);
	ck_assert_int_eq(setenv("FORKD_LOOP_INJECT", path, 1), 0);
	ck_assert_int_eq(loop_init(&loop), 0);
	ck_assert_int_eq(unlink(path), 0);
	ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
	ck_assert_int_eq(write(ends[1], "", 1), 1);
	ready = ends[0];
	for (uint32_t i = 0; i < MANY; i++)
		sources[i].call = on_event;
	wanted = n;
}

/* Runs until each has been called once, and nothing is left of them. */
static void run(void)
{
	ck_assert_int_eq(loop_run(&loop), 0);
	ck_assert_uint_eq(calls, wanted);
	ck_assert(list_is_empty(&loop.ops));
	loop_fini(&loop);
}

START_TEST(failed_wait_of_the_kernel_is_repeated_after_a_pause)
{
	begin(1);
	loop_inject_arm(faults, LOOP_INJECT_POLL, -ENOMEM, 1, REFUSALS);
	ck_assert_int_eq(loop_poll(&loop, &sources[0], ready, POLLIN), 0);
	run();
	ck_assert_int_eq(last, POLLIN);
	ck_assert_uint_eq(atomic_load(&faults->kinds[LOOP_INJECT_POLL].seen), REFUSALS + 1);
	ck_assert_uint_eq(naps, REFUSALS);
}
END_TEST

START_TEST(repeated_poll_needs_no_memory_to_begin_again)
{
	begin(REFUSALS);
	sources[0].repeats = true;
	ck_assert_int_eq(loop_poll(&loop, &sources[0], ready, POLLIN), 0);
	loop_inject_arm(faults, LOOP_INJECT_ARM, -ENOMEM, 1, UINT32_MAX);
	ck_assert_int_eq(loop_run(&loop), 0);
	ck_assert_uint_eq(calls, REFUSALS);
	ck_assert_uint_eq(atomic_load(&faults->kinds[LOOP_INJECT_ARM].seen), 0);
	loop_fini(&loop);
}
END_TEST

START_TEST(timer_that_could_not_be_set_does_not_expire)
{
	begin(1);
	loop_inject_arm(faults, LOOP_INJECT_TIMER, -EAGAIN, 1, REFUSALS);
	ck_assert_int_eq(loop_timer(&loop, &sources[0], 1), 0);
	run();
	ck_assert_int_eq(last, 0);
	ck_assert_uint_eq(naps, REFUSALS);
}
END_TEST

START_TEST(many_failed_waits_share_their_pauses)
{
	begin(MANY);
	loop_inject_arm(faults, LOOP_INJECT_POLL, -ENOMEM, 1, MANY * REFUSALS);
	for (uint32_t i = 0; i < MANY; i++)
		ck_assert_int_eq(loop_poll(&loop, &sources[i], ready, POLLIN), 0);
	run();
	ck_assert_uint_ge(naps, REFUSALS);
	ck_assert_uint_le(naps, 2 * REFUSALS);
}
END_TEST

START_TEST(interrupted_wait_makes_no_pause)
{
	begin(1);
	loop_inject_arm(faults, LOOP_INJECT_POLL, -EINTR, 1, REFUSALS);
	ck_assert_int_eq(loop_poll(&loop, &sources[0], ready, POLLIN), 0);
	run();
	ck_assert_int_eq(last, POLLIN);
	ck_assert_uint_eq(naps, 0);
}
END_TEST

/* A caller that waits for a process would otherwise assume that it has ended. */
START_TEST(missing_entry_causes_no_call)
{
	begin(1);
	loop_inject_arm(faults, LOOP_INJECT_POLL, -ENOMEM, 1, 1);
	loop_inject_arm(faults, LOOP_INJECT_ENTRY, -ENOMEM, 2, REFUSALS);
	ck_assert_int_eq(loop_poll(&loop, &sources[0], ready, POLLIN), 0);
	run();
	ck_assert_int_eq(last, POLLIN);
	ck_assert_uint_eq(naps, 1 + REFUSALS);
}
END_TEST

START_TEST(failed_submission_is_repeated_after_a_pause)
{
	begin(1);
	short_of = REFUSALS;
	ck_assert_int_eq(loop_poll(&loop, &sources[0], ready, POLLIN), 0);
	run();
	ck_assert_int_eq(last, POLLIN);
	ck_assert_uint_eq(naps, REFUSALS);
}
END_TEST

START_TEST(entry_without_memory_is_called_later_unless_forgotten)
{
	begin(2);
	/* The first one is ready, the others never. */
	for (uint32_t i = 0; i < 3; i++)
		ck_assert_int_eq(loop_poll_later(&loop, &sources[i], ready, i ? POLLPRI : POLLIN),
				 0);
	ck_assert_int_eq(loop_poll_later(&loop, &sources[0], ready, POLLIN), -EBUSY);
	loop_forget(&loop, &sources[1]);
	loop_forget(&loop, &sources[2]);
	ck_assert_int_eq(loop_poll(&loop, &sources[2], ready, POLLIN), 0);
	run();
	ck_assert_int_eq(last, POLLIN);
	ck_assert_uint_eq(naps, 1);
}
END_TEST

START_TEST(entry_without_memory_is_forgotten_at_the_end)
{
	begin(0);
	ck_assert_int_eq(loop_poll_later(&loop, &sources[0], ready, POLLIN), 0);
	ck_assert_int_eq(loop_poll_later(&loop, &sources[1], ready, POLLIN), 0);
	loop_forget(&loop, &sources[1]);
	loop_fini(&loop);
	ck_assert_ptr_null(sources[0].op);
	ck_assert_uint_eq(calls, 0);
}
END_TEST

int main(void)
{
#ifndef FK_CRASH_SITES
	check_unit_leave_out("needs --enable-crash-sites",
			     &failed_wait_of_the_kernel_is_repeated_after_a_pause,
			     &repeated_poll_needs_no_memory_to_begin_again,
			     &timer_that_could_not_be_set_does_not_expire,
			     &many_failed_waits_share_their_pauses,
			     &interrupted_wait_makes_no_pause, &missing_entry_causes_no_call);
#endif
	return check_unit_main("loop");
}
