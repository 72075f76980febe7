/* SPDX-License-Identifier: MIT */
/* copies: copies of jobs' arguments, in a real forkd: they count against the limit of a job, and if
 * a pool dies while it writes them back, no job runs on half-written buffers */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "tests/support/jobs.h"
#define CHECK_TIMEOUT 120
#include "tests/support/check_unit.h"

#define JOBS 64u

static struct daemon d;

/* A client whose whole heap is one buffer of this size. */
static fk_client *open_with_buffer(size_t size, struct fk_buffer *ret_buffer)
{
	/* The overhead of the heap's allocator. */
	const struct fk_open_options options = { .heap_size = size + 65536 };
	fk_client *c = NULL;

	ck_assert_msg(fk_open(d.socket, &options, &c) == 0, "%s", fk_error_text());
	ck_assert_int_eq(fk_alloc(c, size, &ret_buffer->data), 0);
	ret_buffer->size = size;
	memset(ret_buffer->data, 1, size);
	return c;
}

/* Eight copies of the buffer for each of JOBS jobs at once. */
static void submit_all(fk_client *c, struct fk_buffer b, fk_job jobs[JOBS])
{
	const fk_task *eight = jobs_task(c, "bytes:eight");

	for (uint32_t i = 0; i < JOBS; i++)
		ck_assert_int_eq(fk_submit(c, eight, 0, &jobs[i], b, b, b, b, b, b, b, b), 0);
}

static void use_as_ever(fk_client *c, struct fk_buffer b)
{
	int64_t n = 0;

	ck_assert_int_eq(fk_call(c, "fib:fib", &n, INT64_C(15)), 0);
	ck_assert_int_eq(n, 610);
	ck_assert_int_eq(fk_call(c, "bytes:text", &n, "ab", INT64_C(1000)), 0);
	ck_assert_int_eq(n, ('a' + 'b') * 1000);
	ck_assert_int_eq(fk_call(c, "bytes:sum", &n, b), 0);
	ck_assert_int_eq(n, (int64_t)b.size);
}

START_TEST(copies_of_a_whole_heap_fail_only_their_jobs)
{
	const size_t heap = 16u << 20, arena = 64u << 20;
	struct fk_buffer whole, small;
	fk_client *greedy, *modest;
	fk_job jobs[JOBS];
	int64_t peak;
	pid_t pool;

	daemon_start(&d, "--workers=2", "--arena-max=64M", NULL);
	pool = daemon_pool(&d);
	greedy = open_with_buffer(heap, &whole);
	modest = open_with_buffer(100000, &small);
	for (int round = 0; round < 3; round++) {
		submit_all(greedy, whole, jobs);
		for (int i = 0; i < 20; i++)
			use_as_ever(modest, small);
		for (uint32_t i = 0; i < JOBS; i++) {
			int code = 0;

			jobs_see_end(greedy, jobs[i], "FAILED");
			(void)fk_outcome(greedy, jobs[i], &code, NULL);
			ck_assert_int_eq(code, -FK_E_COPIES);
			ck_assert_int_eq(fk_release(greedy, jobs[i]), 0);
		}
	}
	peak = daemon_proc_status(pool, "VmHWM") * 1024;
	printf("the pool had %" PRId64 " bytes at most\n", peak);
	/* The arena, both heaps, and forkd itself; eight copies are twice that. */
	if (!daemon_sanitized())
		ck_assert_int_le(peak, (int64_t)(arena + heap + (32u << 20)));
	ck_assert_uint_eq(daemon_counter(&d, "jobs_refused"), 0);
	ck_assert_int_eq(daemon_pool(&d), pool);
	ck_assert_int_eq(fk_close(greedy), 0);
	jobs_end(&d, modest);
}
END_TEST

START_TEST(copies_that_fit_are_made_and_freed_repeatedly)
{
	const size_t heap = 1u << 20;
	struct fk_buffer whole;
	fk_job jobs[JOBS];
	fk_client *c;

	daemon_start(&d, "--workers=2", "--arena-max=64M", NULL);
	c = open_with_buffer(heap, &whole);
	for (int round = 0; round < 2; round++) {
		submit_all(c, whole, jobs);
		for (uint32_t i = 0; i < JOBS; i++)
			jobs_see(c, jobs[i], 8 * (int64_t)heap);
	}
	/* Each worker keeps two stacklets, and publishes that when it is idle. */
	DAEMON_AWAIT(daemon_counter(&d, "stack_bytes") <= UINT64_C(2) * 3 * 4096);
	jobs_end(&d, c);
}
END_TEST

START_TEST(copies_count_for_stack_max)
{
	struct fk_buffer whole, part;
	fk_client *c;
	int64_t n = 0;

	daemon_start(&d, "--workers=2", "--stack-max=1M", NULL);
	c = open_with_buffer(2u << 20, &whole);
	part = (struct fk_buffer){ whole.data, 512u << 10 };
	for (int i = 0; i < 10; i++) {
		ck_assert_int_eq(fk_call(c, "bytes:sum", &n, whole), -FK_E_COPIES);
		ck_assert_int_eq(fk_call(c, "bytes:sum", &n, part), 0);
		ck_assert_int_eq(n, (int64_t)part.size);
		/* A task that works in place needs none. */
		ck_assert_int_eq(fk_call(c, "array:sum_i64", &n, whole), 0);
	}
	jobs_end(&d, c);
}
END_TEST

#ifdef FK_CRASH_SITES
/* Two buffers that are inverted; the pool dies after it has written back `after` of them. */
static void die_while_copying(uint32_t after, unsigned int flags)
{
	const size_t size = 100000;
	struct fk_buffer both, a, b;
	unsigned char *bytes;
	fk_client *c;
	fk_job job;

	daemon_mine(&d, "record_copying", after);
	daemon_start(&d, "--workers=2", NULL);
	c = open_with_buffer(2 * size, &both);
	bytes = both.data;
	a = (struct fk_buffer){ bytes, size };
	b = (struct fk_buffer){ bytes + size, size };
	ck_assert_int_eq(fk_submit(c, jobs_task(c, "bytes:invert_both"), flags, &job, a, b), 0);
	/* Inverted again it would have its old contents: DONE, and wrong. */
	jobs_see_end(c, job, "LOST");
	ck_assert(!daemon_is_mined(&d));
	ck_assert_uint_eq(bytes[0], after > 0 ? 0xfe : 1);
	ck_assert_uint_eq(bytes[size], 1);
	DAEMON_AWAIT(daemon_crashes(&d) == 1);
	ck_assert_uint_eq(d.board->crashes[0].requeued, 0);
	ck_assert_uint_eq(d.board->crashes[0].lost, 1);
	/* The record and the buffers are usable again. */
	ck_assert_int_eq(fk_release(c, job), 0);
	memset(bytes, 1, 2 * size);
	ck_assert_int_eq(fk_submit(c, jobs_task(c, "bytes:invert_both"), flags, &job, a, b), 0);
	jobs_see_end(c, job, "DONE");
	ck_assert_uint_eq(bytes[0], 0xfe);
	ck_assert_uint_eq(bytes[2 * size - 1], 0xfe);
	jobs_end(&d, c);
}

START_TEST(job_with_partly_written_buffers_is_LOST_and_not_rerun)
{
	for (uint32_t after = 0; after < 2; after++) {
		die_while_copying(after, FK_IDEMPOTENT);
		die_while_copying(after, 0);
	}
}
END_TEST
#endif

CHECK_MAIN("copies")
