/* SPDX-License-Identifier: MIT */
/* A ring of events, step by step and with a worker that is faster than its reader; and a pool that
 * is traced repeatedly while it works. */
#include "shm/trace.h"

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "daemon/core/trace.h"
#include "tests/support/check_unit.h"
#include "tests/support/rig.h"
#include "tests/support/fib.h"

FK_EXPORT(fib, 0, "a number")
FK_MODULE(t, "fib")

static struct trace_ring *ring;
static struct trace_event events[TRACE_EVENTS];

static void make(void)
{
	ring = mmap(NULL, sizeof(*ring), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(ring, MAP_FAILED);
}

/* Returns the k-th event; each field contains k. */
static struct trace_event event(uint64_t k)
{
	return (struct trace_event){
		.time_ns = k,
		.row = (uint32_t)k,
		.generation = (uint32_t)k,
		.task = (uint32_t)k,
		.kind = (uint16_t)(k % 9 + 1),
		.peer = (uint16_t)k,
		.value = ~k,
	};
}

static void put(uint64_t from, uint64_t to)
{
	for (uint64_t k = from; k < to; k++) {
		struct trace_event e = event(k);

		trace_put(ring, &e);
	}
}

static void see(uint64_t from, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		struct trace_event e = event(from + i);

		ck_assert_mem_eq(&events[i], &e, sizeof(e));
	}
}

START_TEST(events_are_taken_once_and_in_order)
{
	uint64_t at = 0, lost = 0;

	make();
	ck_assert_uint_eq(trace_take(ring, &at, events, 100, &lost), 0);
	put(0, 250);
	for (uint32_t i = 0; i < 200; i += 100) {
		ck_assert_uint_eq(trace_take(ring, &at, events, 100, &lost), 100);
		see(i, 100);
	}
	put(250, 260);
	ck_assert_uint_eq(trace_take(ring, &at, events, 100, &lost), 60);
	see(200, 60);
	ck_assert_uint_eq(trace_take(ring, &at, events, 100, &lost), 0);
	ck_assert_uint_eq(at, 260);
	ck_assert_uint_eq(lost, 0);
}
END_TEST

START_TEST(late_reader_gets_the_newest_events_and_the_number_of_lost_ones)
{
	uint64_t at = 10, lost = 0;

	make();
	put(0, TRACE_EVENTS + 9);
	/* The slot that would be written next is no longer valid. */
	ck_assert_uint_eq(trace_take(ring, &at, events, TRACE_EVENTS, &lost), TRACE_EVENTS - 1);
	see(10, TRACE_EVENTS - 1);
	ck_assert_uint_eq(lost, 0);
	put(TRACE_EVENTS + 9, 5 * TRACE_EVENTS);
	ck_assert_uint_eq(trace_take(ring, &at, events, TRACE_EVENTS, &lost), TRACE_EVENTS - 1);
	see(4 * TRACE_EVENTS + 1, TRACE_EVENTS - 1);
	ck_assert_uint_eq(lost, 3 * TRACE_EVENTS - 8);
	ck_assert_uint_eq(at, 5 * TRACE_EVENTS);
}
END_TEST

START_TEST(event_that_may_be_half_written_is_lost)
{
	uint64_t at = 0, lost = 0;

	make();
	put(0, TRACE_EVENTS);
	/* Event TRACE_EVENTS, whose writer has written this much. */
	atomic_store(&ring->slots[0][1], UINT64_MAX);
	ck_assert_uint_eq(trace_take(ring, &at, events, TRACE_EVENTS, &lost), TRACE_EVENTS - 1);
	see(1, TRACE_EVENTS - 1);
	ck_assert_uint_eq(lost, 1);
}
END_TEST

START_TEST(head_that_no_worker_has_written_yields_no_events)
{
	const uint64_t heads[] = { 5, UINT64_MAX, UINT64_MAX / 2, 0, 1 };
	uint64_t at = 100, lost = 0;

	make();
	put(0, 100);
	for (uint32_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
		atomic_store(&ring->head, heads[i]);
		for (uint32_t n = 0; trace_take(ring, &at, events, 1000, &lost); n++)
			ck_assert_uint_lt(n, TRACE_EVENTS / 1000 + 2);
		ck_assert_uint_eq(at, heads[i]);
	}
}
END_TEST

#define MANY UINT64_C(1000000)

static void *write_many(void *arg)
{
	(void)arg;
	put(0, MANY);
	return NULL;
}

START_TEST(concurrent_reader_gets_whole_events_and_counts_lost_ones)
{
	uint64_t at = 0, next = 0, lost = 0;
	pthread_t writer;

	make();
	ck_assert_int_eq(pthread_create(&writer, NULL, write_many, NULL), 0);
	while (at < MANY) {
		uint64_t before = lost;
		uint32_t n = trace_take(ring, &at, events, TRACE_EVENTS, &lost);

		next += lost - before;
		see(next, n);
		next += n;
		ck_assert_uint_eq(next, at);
	}
	ck_assert_int_eq(pthread_join(writer, NULL), 0);
}
END_TEST

/* ------------------------------------------------------------------------ a pool */

static struct rig rig;

static int segment(uint32_t n_workers)
{
	int fd = segment_create("trace", SEGMENT_TRACE, trace_size(n_workers),
				rig.pool->board->head.epoch, 0, 0600);

	ck_assert_int_ge(fd, 0);
	return fd;
}

static const struct trace *look(int fd)
{
	void *base;

	ck_assert_int_eq(segment_map(fd, SEGMENT_TRACE, 0, 0, &base, NULL), 0);
	return base;
}

static uint64_t count(const struct trace *trace, uint32_t kind)
{
	uint64_t n = 0;

	for (uint32_t w = 0; w < rig.pool->n_workers; w++) {
		uint64_t at = 0, lost = 0;
		uint32_t taken = trace_take(&trace->rings[w], &at, events, TRACE_EVENTS, &lost);

		ck_assert_uint_eq(lost, 0);
		for (uint32_t i = 0; i < taken; i++)
			n += events[i].kind == kind;
	}
	return n;
}

START_TEST(traced_pool_reports_its_jobs)
{
	const struct trace *trace;
	_cleanup_close_ int fd = -1;

	rig_start(&rig, 2, &fk_module, false);
	fd = segment(2);
	trace = look(fd);
	ck_assert_int_eq(rig_call(&rig, "t:fib", 15), 610);
	ck_assert_int_eq(trace_begin(rig.pool, fd), 0);
	for (uint32_t i = 0; i < 20; i++)
		ck_assert_int_eq(rig_call(&rig, "t:fib", 15), 610);
	while (rig_counter(&rig, jobs_done) < 21)
		sched_yield();
	ck_assert_uint_eq(count(trace, TRACE_ROOT), 20);
	ck_assert_uint_eq(count(trace, TRACE_TASK), 20);
	ck_assert_uint_eq(count(trace, TRACE_JOB_END), 20);
	/* Its pages are gone, and later jobs are not written. */
	trace_end(rig.pool);
	ck_assert_int_eq(rig_call(&rig, "t:fib", 15), 610);
	ck_assert_uint_eq(count(trace, TRACE_ROOT), 0);
	rig_stop(&rig);
}
END_TEST

START_TEST(segment_of_wrong_size_is_refused_and_tracing_stays_off)
{
	_cleanup_close_ int larger = -1, fd = -1;

	rig_start(&rig, 2, &fk_module, false);
	larger = segment(3);
	fd = segment(2);
	ck_assert_int_eq(trace_begin(rig.pool, larger), -EBADMSG);
	ck_assert_int_eq(trace_begin(rig.pool, -1), -EBADF);
	ck_assert_int_eq(trace_begin(rig.pool, rig.board_fd), -EBADMSG);
	ck_assert_ptr_null(atomic_load(&rig.pool->workers[0].trace));
	ck_assert_int_eq(trace_begin(rig.pool, fd), 0);
	ck_assert_int_eq(trace_begin(rig.pool, larger), -EBADMSG);
	ck_assert_ptr_null(atomic_load(&rig.pool->workers[1].trace));
	ck_assert_int_eq(rig_call(&rig, "t:fib", 15), 610);
	rig_stop(&rig);
}
END_TEST

/* Every fork is a strand: some worker is always about to write. */
START_TEST(traces_begin_and_end_while_workers_write)
{
	struct trace *place = NULL;

	rig_start(&rig, 2, &fk_module, true);
	for (uint32_t round = 0; round < 60; round++) {
		_cleanup_close_ int fd = segment(2);
		const struct trace *trace = look(fd);
		int64_t n = 12;

		rig_submit(&rig, 0, "t:fib", &n, sizeof(n));
		ck_assert_int_eq(trace_begin(rig.pool, fd), 0);
		if (place)
			ck_assert_ptr_eq(rig.pool->trace, place);
		place = rig.pool->trace;
		ck_assert_uint_eq(rig_wait(&rig, 0), JOB_DONE);
		rig_submit(&rig, 0, "t:fib", &n, sizeof(n));
		while (!trace_head(&trace->rings[0]) && !trace_head(&trace->rings[1]))
			sched_yield();
		trace_end(rig.pool);
		ck_assert_uint_eq(rig_wait(&rig, 0), JOB_DONE);
		segment_unmap((void *)(uintptr_t)trace, trace_size(2));
	}
	rig_stop(&rig);
}
END_TEST

CHECK_MAIN("trace")
