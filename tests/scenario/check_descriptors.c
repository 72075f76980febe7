/* SPDX-License-Identifier: MIT */
/* descriptors: a task uses up all descriptors of the pool. A client that connects then is refused,
 * and nothing else happens */
#include <errno.h>
#include <unistd.h>

#define CHECK_TIMEOUT 120
#include "tests/support/check_unit.h"
#include "tests/support/jobs.h"

static struct daemon d;

static int64_t descriptors(fk_client *c, int64_t most)
{
	int64_t n = 1;

	ck_assert_int_eq(fk_call(c, "ask:descriptors", &n, most), 0);
	return n;
}

START_TEST(client_that_connects_while_no_descriptor_is_left_is_refused)
{
	fk_client *c, *late = NULL;
	fk_job job;
	pid_t pool;

	c = JOBS_BEGIN(&d, "--workers=2", "--sandbox=normal", NULL);
	pool = daemon_pool(&d);
	ck_assert_int_eq(descriptors(c, STDERR_FILENO + 1), -EMFILE);
	job = jobs_submit(c, "crash:spin", 0, 60000, 0);
	for (int i = 0; i < 3; i++)
		ck_assert_int_lt(fk_open(d.socket, NULL, &late), 0);
	ck_assert(daemon_logged(&d, "cannot be mapped", "Too many open files"));
	jobs_cancel(c, job);
	ck_assert_int_eq(fk_release(c, job), 0);
	ck_assert_int_eq(descriptors(c, 0), 0);
	daemon_call_fib(&d);
	ck_assert_int_eq(daemon_pool(&d), pool);
	ck_assert_uint_eq(daemon_crashes(&d), 0);
	jobs_end(&d, c);
}
END_TEST

CHECK_MAIN("descriptors")
