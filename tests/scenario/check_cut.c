/* SPDX-License-Identifier: MIT */
/* cut: connections that end while their client lives: it gets outcomes or errors, and never a false
 * success */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/lib/client.h"
#include "tests/support/check_unit.h"
#include "tests/support/counts.h"
#include "tests/support/jobs.h"

static struct daemon d;

/* A client with a finished job, a finished group, and a running job. */
static struct cut {
	fk_client *c;
	fk_group group;
	fk_job done;
	fk_job busy;
} cut;

/* Of three clients one is the test's (tests/support/daemon.h), and one more may connect. */
static void begin(void)
{
	cut.c = JOBS_BEGIN(&d, "--workers=2", "--arena-max=64M", "--clients-max=3", NULL);
	ck_assert_int_eq(fk_group_new(cut.c, &cut.group), 0);
	cut.done = jobs_submit_in(cut.c, "fib:fib", 0, 15, cut.group);
	ck_assert_int_eq(fk_group_wait(cut.c, cut.group, FK_FOREVER), 0);
	cut.busy = jobs_submit_in(cut.c, "crash:spin", 0, 2 * DAEMON_PATIENCE * 1000, 0);
}

static void end(void)
{
	ck_assert_int_eq(fk_close(cut.c), 0);
	ck_assert_int_eq(daemon_stop(&d), 0);
}

/* Checks the result of a wait for the running job: it was cancelled, or its outcome is lost. */
static void busy_is_over(int err)
{
	int outcome = fk_outcome(cut.c, cut.busy, NULL, NULL);

	if (err == 0)
		ck_assert(outcome == FK_CANCELLED || outcome == -ECONNRESET);
	else
		ck_assert_int_eq(err, -ECONNRESET);
}

START_TEST(client_that_breaks_the_protocol_keeps_results_and_slot_until_it_closes)
{
	fk_client *other, *next;
	int64_t n = 0;
	int err;

	begin();
	ck_assert_int_eq(send(cut.c->fd, "garbage", 7, 0), 7);
	busy_is_over(fk_wait(cut.c, cut.busy, FK_FOREVER));
	DAEMON_AWAIT(counts_mapped(daemon_pool(&d), "forkd-client", NULL) == 1);
	/* Its WELCOME follows the report that the pool has released the first client. If that
	 * client's pages were released, this happens later, as both are of one user. */
	other = daemon_open(&d);
	ck_assert_int_eq(fk_wait(cut.c, cut.done, 0), 0);
	ck_assert_int_eq(fk_result(cut.c, cut.done, &n, sizeof(n)), 0);
	ck_assert_int_eq(n, 610);
	ck_assert_int_eq(fk_group_wait(cut.c, cut.group, 0), 0);
	ck_assert_int_eq(fk_outcome(cut.c, cut.busy, NULL, NULL), FK_CANCELLED);
	ck_assert_int_eq(fk_open(d.socket, NULL, &next), -EUSERS);
	ck_assert_int_eq(fk_close(cut.c), 0);
	DAEMON_AWAIT((err = fk_open(d.socket, NULL, &cut.c)) != -EUSERS);
	ck_assert_int_eq(err, 0);
	ck_assert_int_eq(fk_close(other), 0);
	end();
}
END_TEST

static void *wait_for_busy(void *arg)
{
	busy_is_over(fk_wait(cut.c, cut.busy, FK_FOREVER));
	return arg;
}

/* forkd takes the segment back: it cannot know that the process lives. */
static void everything_is_gone(void (*close_it)(void))
{
	pthread_t waiter;
	int64_t n = 0;

	begin();
	ck_assert_int_eq(pthread_create(&waiter, NULL, wait_for_busy, NULL), 0);
	close_it();
	DAEMON_AWAIT(cut.c->segment->head.magic == 0);
	ck_assert_int_eq(pthread_join(waiter, NULL), 0);
	for (uint32_t i = 0; i < 2; i++) {
		fk_job job = i ? cut.done : cut.busy;
		struct fk_timings timings;

		ck_assert_int_eq(fk_wait(cut.c, job, 0), -ECONNRESET);
		ck_assert_int_eq(fk_wait(cut.c, job, FK_FOREVER), -ECONNRESET);
		ck_assert_int_eq(fk_poll(cut.c, job), -ECONNRESET);
		ck_assert_int_eq(fk_outcome(cut.c, job, NULL, NULL), -ECONNRESET);
		ck_assert_int_eq(fk_result(cut.c, job, &n, sizeof(n)), -ECONNRESET);
		ck_assert_int_eq(fk_timings(cut.c, job, &timings), -ECONNRESET);
	}
	ck_assert_int_eq(fk_group_wait(cut.c, cut.group, 0), -ECONNRESET);
	ck_assert_int_eq(fk_group_wait(cut.c, cut.group, FK_FOREVER), -ECONNRESET);
	ck_assert_int_eq(fk_call(cut.c, "fib:fib", &n, INT64_C(15)), -ECONNRESET);
	end();
}

/* As a program that becomes a daemon, and soon opens another file with this number. */
static void replace(void)
{
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(dup2(fd, cut.c->fd), cut.c->fd);
	(void)close(fd);
}

START_TEST(client_that_replaces_its_socket_loses_everything)
{
	everything_is_gone(replace);
}
END_TEST

static void say_no_more(void)
{
	ck_assert_int_eq(shutdown(cut.c->fd, SHUT_WR), 0);
}

START_TEST(client_that_shuts_its_socket_down_loses_everything)
{
	everything_is_gone(say_no_more);
}
END_TEST

CHECK_MAIN("cut")
