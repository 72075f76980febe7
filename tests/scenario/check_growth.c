/* SPDX-License-Identifier: MIT */
/* growth: the heap of a connection grows, up to the limits, in a real forkd */
#define CHECK_TIMEOUT 120

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/client.h"
#include "shm/proto.h"
#include "tests/support/check_unit.h"
#include "tests/support/takeover_rig.h"
#include "tests/support/threads.h"

#define KIB UINT64_C(1024)
#define MIB (UINT64_C(1) << 20)

/* Opens with a heap of 64 KiB. */
static fk_client *open_small(void)
{
	struct fk_open_options options = { .heap_size = 64 * KIB };
	fk_client *c = NULL;

	ck_assert_int_eq(fk_open(d.socket, &options, &c), 0);
	ck_assert_uint_eq(c->heap.size, 64 * KIB);
	return c;
}

/* Fills a block of the heap, and has a task sum its bytes. */
static void sum_is_right(fk_client *c, void *data, size_t size)
{
	int64_t sum = 0;

	memset(data, 3, size);
	ck_assert_int_eq(fk_call(c, "bytes:sum", &sum, FK_BUFFER(data, size)), 0);
	ck_assert_int_eq(sum, 3 * (int64_t)size);
}

/* The memory of the client as the board has it. */
static uint64_t memory_of(const fk_client *c)
{
	return atomic_load(&d.board->clients[c->id].memory);
}

static uint64_t memory_with(const fk_client *c, uint64_t heap_size)
{
	return client_segment_heap_offset(c->n_jobs) + heap_size;
}

/* Sends a request as no library would. Returns the answer. */
static int ask(fk_client *c, uint64_t heap_size)
{
	const struct proto_grow grow = {
		.head = { PROTO_MAGIC, PROTO_GROW },
		.number = ++c->grows,
		.heap_size = heap_size,
	};

	ck_assert_int_eq(proto_send(c->fd, &grow, sizeof(grow), NULL, 0), 0);
	DAEMON_AWAIT(atomic_load(&c->segment->grow_answer) == grow.number);
	return atomic_load(&c->segment->grow_error);
}

START_TEST(blocks_that_do_not_fit_make_the_heap_grow_until_heap_max)
{
	void *data[3], *rest = NULL;
	fk_client *c;

	daemon_start(&d, "--workers=2", "--heap-max=8M", NULL);
	c = open_small();
	ck_assert_uint_eq(c->heap.max, 8 * MIB);
	ck_assert_int_eq(fk_alloc(c, 40 * KIB, &data[0]), 0);
	ck_assert_uint_eq(memory_of(c), memory_with(c, 64 * KIB));
	/* Twice as large. */
	ck_assert_int_eq(fk_alloc(c, 40 * KIB, &data[1]), 0);
	ck_assert_uint_eq(c->heap.size, 128 * KIB);
	ck_assert_uint_eq(memory_of(c), memory_with(c, 128 * KIB));
	/* As large as is needed. */
	ck_assert_int_eq(fk_alloc(c, 6 * MIB, &data[2]), 0);
	ck_assert_uint_ge(c->heap.size, 6 * MIB + 80 * KIB);
	ck_assert_uint_eq(memory_of(c), memory_with(c, c->heap.size));
	sum_is_right(c, data[0], 40 * KIB);
	sum_is_right(c, data[1], 40 * KIB);
	sum_is_right(c, data[2], 6 * MIB);
	ck_assert_int_eq(fk_alloc(c, 2 * MIB, &rest), -FK_E_HEAP_FULL);
	ck_assert_ptr_null(rest);
	ck_assert_int_eq(fk_free(c, data[2]), 0);
	ck_assert_int_eq(fk_alloc(c, 8 * MIB - 80 * KIB, &data[2]), 0);
	ck_assert_uint_eq(c->heap.size, 8 * MIB);
	sum_is_right(c, data[2], 8 * MIB - 80 * KIB);
	ck_assert_int_eq(fk_alloc(c, 1, &rest), -FK_E_HEAP_FULL);
	daemon_stop_close(&d, c);
}
END_TEST

START_TEST(copies_and_strings_make_the_heap_grow)
{
	const size_t size = 2 * MIB;
	unsigned char *bytes;
	int64_t sum = 0;
	fk_client *c;

	daemon_start(&d, "--workers=2", NULL);
	c = open_small();
	bytes = malloc(size);
	ck_assert_ptr_nonnull(bytes);
	memset(bytes, 1, size);
	ck_assert_int_eq(fk_call(c, "bytes:invert", &sum, FK_BUFFER(bytes, size)), 0);
	ck_assert_int_eq(sum, (int64_t)size);
	for (size_t i = 0; i < size; i++)
		ck_assert_uint_eq(bytes[i], 0xfe);
	memset(bytes, 'a', size - 1);
	bytes[size - 1] = '\0';
	ck_assert_int_eq(fk_call(c, "bytes:text", &sum, (char *)bytes, 1), 0);
	ck_assert_int_eq(sum, (int64_t)(size - 1) * 'a');
	ck_assert_uint_eq(heap_used(&c->heap), 0);
	free(bytes);
	daemon_stop_close(&d, c);
}
END_TEST

static fk_client *shared;

/* Keeps blocks of 3 MiB in all. */
static void *alloc_and_free(void *number)
{
	unsigned char *blocks[12];
	int byte = (int)(uintptr_t)number;

	for (size_t i = 0; i < ARRAY_SIZE(blocks); i++) {
		void *data;

		if (fk_alloc(shared, 256 * KIB, &data))
			return number;
		blocks[i] = memset(data, byte, 256 * KIB);
	}
	for (size_t i = 0; i < ARRAY_SIZE(blocks); i++) {
		for (size_t k = 0; k < 256 * KIB; k++)
			if (blocks[i][k] != byte)
				return number;
		if (fk_free(shared, blocks[i]))
			return number;
	}
	return NULL;
}

START_TEST(threads_make_one_heap_grow_together)
{
	pthread_t threads[8];

	daemon_start(&d, "--workers=2", "--heap-max=24M", NULL);
	shared = open_small();
	threads_start(threads, ARRAY_SIZE(threads), alloc_and_free);
	threads_join(threads, ARRAY_SIZE(threads));
	ck_assert_uint_eq(heap_used(&shared->heap), 0);
	daemon_stop_close(&d, shared);
}
END_TEST

START_TEST(a_heap_that_would_exceed_what_a_user_may_have_stays)
{
	fk_client *c, *other;
	void *data = NULL;

	daemon_start(&d, "--workers=2", "--user-shared-memory-max=4M", NULL);
	c = open_small();
	ck_assert_int_eq(fk_alloc(c, 5 * MIB, &data), -FK_E_USER_MEMORY);
	ck_assert_int_eq(fk_alloc(c, 2 * MIB, &data), 0);
	sum_is_right(c, data, 2 * MIB);
	/* If twice the size is refused, the needed size may still be granted. */
	ck_assert_uint_lt(c->heap.size, 4 * MIB);
	other = open_small();
	ck_assert_int_eq(fk_alloc(other, 2 * MIB, &data), -FK_E_USER_MEMORY);
	ck_assert_int_eq(fk_close(c), 0);
	DAEMON_AWAIT(fk_alloc(other, 2 * MIB, &data) == 0);
	sum_is_right(other, data, 2 * MIB);
	daemon_stop_close(&d, other);
}
END_TEST

START_TEST(a_heap_that_would_exceed_what_all_may_have_stays)
{
	fk_client *c;
	void *data = NULL;

	daemon_start(&d, "--workers=2", "--shared-memory-max=16M", "--user-shared-memory-max=16M",
		     "--heap-max=16M", NULL);
	c = open_small();
	ck_assert_uint_eq(c->heap.max, 16 * MIB);
	ck_assert_int_eq(fk_alloc(c, 16 * MIB - 4 * KIB, &data), -FK_E_SHARED_MEMORY);
	ck_assert_uint_eq(memory_of(c), memory_with(c, 64 * KIB));
	ck_assert_int_eq(fk_alloc(c, 8 * MIB, &data), 0);
	sum_is_right(c, data, 8 * MIB);
	daemon_stop_close(&d, c);
}
END_TEST

START_TEST(tasks_get_nothing_of_the_segment_after_the_heap)
{
	const fk_task *task;
	struct fk_ref ref;
	fk_client *c;
	fk_job job;
	int code;

	daemon_start(&d, "--workers=2", NULL);
	c = open_small();
	task = jobs_task(c, "bytes:sum");
	ck_assert_uint_gt(c->heap.max, 128 * KIB);
	for (uint64_t end = 64 * KIB; end <= 64 * KIB + 8; end += 8) {
		ref = (struct fk_ref){ .offset = end - 64, .size = 64 };
		ck_assert_int_eq(fk_submit_packed(c, task, &ref, sizeof(ref), 0, &job), 0);
		ck_assert_int_eq(jobs_outcome(c, job, NULL), end > 64 * KIB ? FK_FAILED : FK_DONE);
		ck_assert_int_eq(fk_outcome(c, job, &code, NULL),
				 end > 64 * KIB ? FK_FAILED : FK_DONE);
		ck_assert_int_eq(code, end > 64 * KIB ? -FK_E_REFERENCE : 0);
		ck_assert_int_eq(fk_release(c, job), 0);
	}
	/* The pool ignores the size that the client writes over that of the manager. */
	atomic_store(&c->segment->heap_size, 1 * MIB);
	ck_assert_int_eq(fk_submit_packed(c, task, &ref, sizeof(ref), 0, &job), 0);
	ck_assert_int_eq(jobs_outcome(c, job, NULL), FK_FAILED);
	ck_assert_int_eq(fk_release(c, job), 0);
	daemon_stop_close(&d, c);
}
END_TEST

START_TEST(requests_that_mean_nothing_are_answered_or_end_the_connection)
{
	struct proto_grow grow = { .head = { PROTO_MAGIC, PROTO_GROW }, .heap_size = MIB };
	fk_client *c;

	daemon_start(&d, "--workers=2", "--heap-max=8M", NULL);
	c = open_small();
	ck_assert_int_eq(ask(c, UINT64_MAX), -FK_E_HEAP_FULL);
	ck_assert_int_eq(ask(c, UINT64_MAX - 4095), -FK_E_HEAP_FULL);
	ck_assert_int_eq(ask(c, 8 * MIB + 1), -FK_E_HEAP_FULL);
	ck_assert_int_eq(ask(c, 0), 0);
	ck_assert_int_eq(ask(c, 64 * KIB), 0);
	ck_assert_uint_eq(memory_of(c), memory_with(c, 64 * KIB));
	/* Whole pages. */
	ck_assert_int_eq(ask(c, 64 * KIB + 1), 0);
	ck_assert_uint_eq(memory_of(c), memory_with(c, 68 * KIB));
	ck_assert_int_eq(ask(c, 8 * MIB), 0);
	ck_assert_int_eq(ask(c, 8 * MIB), 0);
	ck_assert_uint_eq(memory_of(c), memory_with(c, 8 * MIB));
	serves(c);
	/* A request without a number could not be answered. */
	ck_assert_int_eq(proto_send(c->fd, &grow, sizeof(grow), NULL, 0), 0);
	DAEMON_AWAIT(client_gone(c));
	ck_assert_int_eq(fk_close(c), 0);
	daemon_call_fib(&d);
	daemon_stop(&d);
}
END_TEST

START_TEST(clients_that_leave_while_their_heaps_grow_leave_nothing)
{
	const struct proto_grow grow = {
		.head = { PROTO_MAGIC, PROTO_GROW },
		.number = 1,
		.heap_size = 48 * MIB,
	};
	fk_client *c;
	void *data;

	daemon_start(&d, "--workers=2", "--heap-max=48M", "--shared-memory-max=64M",
		     "--user-shared-memory-max=64M", NULL);
	for (int i = 0; i < 20; i++) {
		c = open_small();
		ck_assert_int_eq(proto_send(c->fd, &grow, sizeof(grow), NULL, 0), 0);
		ck_assert_int_eq(fk_close(c), 0);
	}
	c = open_small();
	DAEMON_AWAIT(fk_alloc(c, 48 * MIB, &data) == 0);
	sum_is_right(c, data, 48 * MIB);
	daemon_stop_close(&d, c);
}
END_TEST

START_TEST(a_heap_that_has_grown_outlives_a_pool)
{
	fk_client *c;
	void *data;

	daemon_start(&d, "--workers=2", NULL);
	c = open_small();
	ck_assert_int_eq(fk_alloc(c, 2 * MIB, &data), 0);
	jobs_drop(c, jobs_submit(c, "crash:segv", 0, 0, 0), "CRASHED");
	(void)jobs_crash(&d, 1);
	sum_is_right(c, data, 2 * MIB);
	ck_assert_int_eq(fk_alloc(c, 4 * MIB, &data), 0);
	sum_is_right(c, data, 4 * MIB);
	daemon_stop_close(&d, c);
}
END_TEST

START_TEST(a_heap_that_has_grown_outlives_a_manager)
{
	struct saved_state *saved;
	void *data, *more;
	fk_client *c;

	c = TAKEOVER_BEGIN("--workers=2", NULL);
	ck_assert_int_eq(fk_alloc(c, 2 * MIB, &data), 0);
	kept_kill(&d, store);
	kept_ready(&d, store);
	sum_is_right(c, data, 2 * MIB);
	/* The next manager counts what has grown. */
	saved = systemd_stub_saved(store);
	ck_assert_uint_eq(saved_client(saved, c->id).memory, memory_with(c, c->heap.size));
	ck_assert_int_eq(fk_alloc(c, 4 * MIB, &more), 0);
	ck_assert_uint_eq(saved_client(saved, c->id).memory, memory_with(c, c->heap.size));
	saved_unmap(saved);
	sum_is_right(c, more, 4 * MIB);
	takeover_end(c);
}
END_TEST

CHECK_MAIN("growth")
