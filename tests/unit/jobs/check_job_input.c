/* SPDX-License-Identifier: MIT */
/* record: a task's view of its job's record: the copies of its arguments and their addresses. The
 * copies are on the job's account as long as they exist. */
#include <check.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include <forkd/client.h>

#include "common/util.h"
#include "daemon/jobs/job_input.h"
#include "daemon/core/stacklet.h"
#include "tests/support/check_unit.h"
#include "tests/support/quiet.h"
#include "tests/support/rig.h"
#include "tests/support/stack_room.h"
#include "tests/support/tasks.h"

#define N_REFS 3u
#define GAP    64u /* minimum distance in bytes between referenced data in the heap */

static struct rig rig;
static struct job_ref refs[N_REFS]; /* text, data, more */
static _Atomic uint32_t wrong;

static unsigned char pattern(uint64_t at)
{
	return (unsigned char)(at * 31 + at / 251 + 1);
}

static void look(bool right)
{
	atomic_fetch_add(&wrong, !right);
}

static bool in_heap(const char *at)
{
	return at >= rig.heap && at < rig.heap + rig.client->heap_size;
}

static void look_at(struct fk_buf buf, uint32_t i)
{
	const unsigned char *bytes = buf.data;

	look(buf.size == refs[i].size && buf.data && !in_heap(buf.data));
	look((uintptr_t)buf.data % 16 == 0);
	for (uint64_t k = 0; k < buf.size; k++)
		if (bytes[k] != pattern(refs[i].offset + k)) {
			look(false);
			return;
		}
}

/* Checks the copies, and the account of job 0; then inverts the last buffer, and may fail. Its
 * frame changes workers if forks are stolen. */
FK_TASK(int64_t, looks,
	(struct fk_str, text, struct fk_buf, data, struct fk_iobuf, more, int64_t, n), int64_t held;
	int64_t x;)
FK_NO_LEAF(looks)
{
	self->held = (int64_t)atomic_load(&rig.pool->rows.stack_bytes[0]);
	look_at(FK_BUF(self->text), 0);
	look_at(self->data, 1);
	look_at(FK_BUF(self->more), 2);
	look(self->text.data[self->text.size] == '\0');
	FK_FORK(x, fib, 5);
	FK_JOIN();
	for (uint64_t k = 0; k < self->more.size; k++)
		((unsigned char *)self->more.data)[k] ^= 0xff;
	FK_FORK(x, fib, 5);
	FK_JOIN();
	if (self->n)
		FK_FAIL(99);
	look_at(FK_BUF(self->text), 0);
	look_at(self->data, 1);
	FK_RETURN(self->held);
}
FK_END(looks)

FK_EXPORT(looks, 0, "looks at its copies")
FK_MODULE(t, "test tasks")

static void fill_heap(void)
{
	for (uint64_t at = 0; at < rig.client->heap_size; at++)
		rig.heap[at] = (char)pattern(at);
}

/* Sets the references, each of this size. */
static void refer(uint64_t size)
{
	uint64_t at = GAP;

	for (uint32_t i = 0; i < N_REFS; i++) {
		/* A text needs no alignment. */
		refs[i] = (struct job_ref){ .offset = i ? at : at + 5, .size = size };
		at = align_up(at + size + GAP, 8);
	}
	ck_assert_uint_le(at, rig.client->heap_size);
}

static void submit(uint32_t job, int64_t fails)
{
	struct {
		struct job_ref refs[N_REFS];
		int64_t n;
	} args = { .n = fails };

	memcpy(args.refs, refs, sizeof(refs));
	rig_submit(&rig, job, "t:looks", &args, sizeof(args));
}

/* Checks that only the data of the last reference has changed, or nothing. */
static void look_at_heap(bool inverted)
{
	uint64_t from = refs[2].offset, to = from + refs[2].size, bad = 0;

	for (uint64_t at = 0; at < rig.client->heap_size; at++) {
		bool other = inverted && at >= from && at < to;

		bad += (unsigned char)rig.heap[at] != (pattern(at) ^ (other ? 0xff : 0));
	}
	ck_assert_msg(bad == 0, "%llu bytes, with buffers of %llu", (unsigned long long)bad,
		      (unsigned long long)refs[2].size);
}

static const uint64_t sizes[] = { 0,	1,     15,    16,    17,    240,   320,	  321,	 335,
				  336,	337,   500,   1000,  1024,  1365,  1366,  4095,	 4096,
				  4097, 20000, 21845, 21846, 65535, 65536, 65537, 300000 };

START_TEST(copies_of_every_size_are_correct_and_charged_while_they_exist)
{
	for (uint32_t workers = 1; workers <= 4; workers *= 4)
		for (int forced = 0; forced < 2; forced++) {
			rig_start(&rig, workers, &fk_module, forced);
			for (uint32_t i = 0; i < ARRAY_SIZE(sizes); i++) {
				uint64_t all = N_REFS * sizes[i];
				int64_t held;

				fill_heap();
				refer(sizes[i]);
				submit(0, 0);
				ck_assert_uint_eq(rig_wait(&rig, 0), JOB_DONE);
				ck_assert_uint_eq(atomic_load(&wrong), 0);
				look_at_heap(true);
				memcpy(&held, rig.jobs[0].result, sizeof(held));
				/* In between it depends on their neighbours. */
				if (all > INPUT_ROOM)
					ck_assert_int_ge(held, (int64_t)all);
				else if (all < INPUT_ROOM - N_REFS * 64)
					ck_assert_int_eq(held, 0);
				ck_assert_int_le(held,
						 max(2 * (int64_t)all + 256, (int64_t)STACK_MIN));
			}
			quiet(&rig);
			rig_stop(&rig);
		}
}
END_TEST

START_TEST(changes_of_a_failed_task_are_not_written_back)
{
	rig_start(&rig, 2, &fk_module, true);
	fill_heap();
	for (uint32_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		refer(sizes[i]);
		submit(0, 1);
		rig_fails(&rig, 0, 99);
	}
	ck_assert_uint_eq(atomic_load(&wrong), 0);
	look_at_heap(false);
	quiet(&rig);
	rig_stop(&rig);
}
END_TEST

/* Any of the three, whatever the size of the others. */
START_TEST(invalid_reference_fails_the_job_before_anything_is_allocated)
{
	static const struct job_ref bad[] = {
		{ 0, UINT64_MAX }, { UINT64_MAX, 1 },	  { UINT64_MAX - 7, 16 }, { 8, 1 << 20 },
		{ 1 << 20, 8 },	   { (1 << 20) - 8, 16 }, { (1 << 20) + 8, 0 },
	};
	uint64_t stacklets;

	rig_start(&rig, 1, &fk_module, false);
	(void)rig_call(&rig, "t:fib", 5);
	quiet(&rig);
	stacklets = rig_counter(&rig, stacklets);
	for (uint32_t i = 0; i < ARRAY_SIZE(bad); i++)
		for (uint32_t which = 0; which < N_REFS; which++) {
			refer(300000);
			refs[which] = bad[i];
			submit(0, 0);
			rig_fails(&rig, 0, -FK_E_REFERENCE);
		}
	/* Numbers must be at multiples of 8. */
	refer(16);
	refs[1].offset += 4;
	submit(0, 0);
	rig_fails(&rig, 0, -FK_E_REFERENCE);
	quiet(&rig);
	ck_assert_uint_eq(rig_counter(&rig, stacklets), stacklets);
	ck_assert_uint_eq(rig_counter(&rig, jobs_refused), 3 * ARRAY_SIZE(bad) + 1);
	rig_stop(&rig);
}
END_TEST

START_TEST(copies_beyond_the_limit_fail_only_their_job)
{
	rig_start(&rig, 2, &fk_module, false);
	atomic_store(&rig.pool->settings.stack_max, 128 << 10);
	fill_heap();
	for (int i = 0; i < 20; i++) {
		refer(100000);
		submit(0, 0);
		submit(1, 0);
		refer(64);
		submit(2, 0);
		for (uint32_t job = 0; job < 2; job++) {
			rig_fails(&rig, job, -FK_E_COPIES);
		}
		ck_assert_uint_eq(rig_wait(&rig, 2), JOB_DONE);
		fill_heap();
		refer(20000);
		submit(3, 0);
		ck_assert_uint_eq(rig_wait(&rig, 3), JOB_DONE);
		look_at_heap(true);
		fill_heap();
		quiet(&rig);
	}
	ck_assert_uint_eq(atomic_load(&wrong), 0);
	/* This is not an error of its record. */
	ck_assert_uint_eq(rig_counter(&rig, jobs_refused), 0);
	rig_stop(&rig);
}
END_TEST

static uint64_t power_of_two(uint64_t bytes)
{
	uint64_t power = STACK_MIN;

	while (power < bytes)
		power *= 2;
	return power;
}

START_TEST(blocks_are_charged_by_their_size_class_and_merge_again)
{
	_Atomic uint64_t account = 0;
	uint64_t seed = 7, left;

	room_begin(ROOM_MAX);
	left = atomic_load(&room_arena.left);
	stack_bill(&room_cache, &account, 16u << 20);
	ck_assert_ptr_null(stack_lump_take(&room_cache, (16u << 20) + 1));
	ck_assert_ptr_null(stack_lump_take(&room_cache, UINT64_MAX));
	ck_assert_uint_eq(atomic_load(&account), 0);
	for (int round = 0; round < 200; round++) {
		enum { N = 12 };
		char *blocks[N];
		uint64_t bytes[N], sum = 0;
		uint64_t bad = 0;
		uint32_t refused = 0;

		for (uint32_t i = 0; i < N; i++) {
			bytes[i] = 1 + room_random(&seed, UINT64_C(1) << (8 + i));
			if (round == 0)
				bytes[i] = UINT64_C(2) << 20;
			blocks[i] = stack_lump_take(&room_cache, bytes[i]);
			refused += !blocks[i];
			if (!blocks[i])
				continue;
			ck_assert_uint_eq((uintptr_t)blocks[i] % STACK_MIN, 0);
			/* No byte of it belongs to another block. */
			memset(blocks[i], (int)i + 1, bytes[i]);
			sum += power_of_two(bytes[i]);
		}
		ck_assert_uint_eq(refused, round == 0 ? N - 8 : 0);
		if (round)
			ck_assert_uint_eq(atomic_load(&account), sum);
		for (uint32_t i = 0; i < N; i++) {
			for (uint64_t k = 0; blocks[i] && k < bytes[i]; k++)
				bad += blocks[i][k] != (char)(i + 1);
			if (blocks[i])
				stack_lump_put(&room_cache, blocks[i], bytes[i]);
		}
		ck_assert_uint_eq(bad, 0);
		ck_assert_uint_eq(atomic_load(&account), 0);
		ck_assert_int_eq(room_cache.bytes, 0);
	}
	/* Except for the blocks that the worker keeps, as many as it keeps stacklets. */
	ck_assert_uint_ge(atomic_load(&room_arena.left), left - 6 * STACK_KEEP);
	room_end();
}
END_TEST

CHECK_MAIN("record")
