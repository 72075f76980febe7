/* SPDX-License-Identifier: MIT */
/*
 * top_rig.h - forkctl top without a terminal and without a forkd: a board that the test fills,
 * samples of it, and the frame of the last two samples
 *
 * A test program includes it once; each test has a new board.
 */
#pragma once

#include <string.h>

#include "client/forkctl/top/top.h"
#include "common/util.h"
#include "shm/wake.h"
static inline void setup(void);
static inline void teardown(void);
#define CHECK_SETUP    setup
#define CHECK_TEARDOWN teardown
#include "tests/support/check_unit.h"

#define S	  NSEC_PER_SEC
#define MAX_JOBS  16u
#define N_WORKERS 4u

static struct board *board;
static struct top_sample old, now;
static struct top_frame frame;
static struct top top;

static inline void task(uint32_t index, const char *name)
{
	(void)strcpy(board->tasks[index].name, name);
	atomic_store(&board->n_tasks, index + 1);
}

static inline void client(uint32_t slot, uint32_t pid, uint32_t uid, const char *comm)
{
	struct board_client *c = &board->clients[slot];

	atomic_store(&c->pid, pid);
	atomic_store(&c->uid, uid);
	atomic_store(&c->user_weight, 100 * uid);
	atomic_store(&c->connected_ns, clock_ns());
	(void)strcpy(c->comm, comm);
}

/* Two uids that have no names, three connections, two tasks. */
static inline void setup(void)
{
	out_init();
	board = aligned_alloc(_Alignof(struct board), sizeof(*board));
	ck_assert_ptr_nonnull(board);
	memset(board, 0, sizeof(*board));
	board->manager.n_workers = N_WORKERS;
	board->manager.jobs_max = MAX_JOBS;
	board->manager.started_ns = clock_ns();
	atomic_store(&board->manager.state, BOARD_RUNNING);
	atomic_store(&board->manager.pool_generation, 1);
	atomic_store(&board->manager.pool_pid, 4711);
	atomic_store(&board->manager.clients, 3);
	(void)strcpy(board->manager.version, "0.1");
	for (uint32_t i = 0; i < LIMIT_WORKERS; i++)
		atomic_store(&board->running[i].job, UINT32_MAX);
	for (uint32_t i = 0; i < N_WORKERS; i++)
		atomic_store(&board->workers[i].wake, WAKE_SLEEPING);
	task(0, "fib:fib");
	task(1, "sort:i64");
	client(0, 100, 4000000001, "one");
	client(1, 101, 4000000002, "two");
	client(2, 102, 4000000001, "three");
	top_init(&top, S);
}

static inline void teardown(void)
{
	top_sample_fini(&old);
	top_sample_fini(&now);
	top_frame_fini(&frame);
	free(board);
}

/* Takes a sample; the previous one becomes old. */
static inline void look(uint64_t at_ns)
{
	struct top_sample taken = old;

	old = now;
	now = taken;
	top_sample_take(&now, board, at_ns);
	top_frame_make(&frame, &old, &now);
}

static inline const json_t *row(enum top_table table, size_t i)
{
	const json_t *r = json_array_get(frame.rows[table], i);

	ck_assert_ptr_nonnull(r);
	return r;
}

static inline double value(const json_t *r, const char *key)
{
	ck_assert_msg(json_is_number(json_object_get(r, key)), "%s is no number", key);
	return json_number_value(json_object_get(r, key));
}

static inline const char *string(const json_t *r, const char *key)
{
	ck_assert_ptr_nonnull(json_string_value(json_object_get(r, key)));
	return json_string_value(json_object_get(r, key));
}

/* A worker has run a job of a client since this time. */
static inline void run(uint32_t worker, uint32_t slot, uint32_t record, uint32_t of_task,
		       uint64_t since)
{
	atomic_store(&board->running[worker].job, slot * MAX_JOBS + record);
	atomic_store(&board->running[worker].since_ns, since);
	atomic_store(&board->workers[worker].wake, WAKE_BUSY);
	board_show_task(board, slot * MAX_JOBS + record, of_task);
}

/* Totals of a client's ended jobs. */
static inline void ended(uint32_t slot, uint64_t jobs, uint64_t failed, uint64_t cpu_ns)
{
	struct board_client *c = &board->clients[slot];

	atomic_fetch_add(&c->jobs, jobs);
	atomic_fetch_add(&c->accepted, (uint32_t)jobs);
	atomic_fetch_add(&c->failed, failed);
	atomic_fetch_add(&c->cpu_ns, cpu_ns);
	atomic_fetch_add(&c->run_ns, 2 * cpu_ns);
	atomic_fetch_add(&c->wait_ns, cpu_ns / 2);
}

static inline void keys(const char *text)
{
	for (; *text; text++)
		ck_assert(top_key(&top, (unsigned char)*text));
}
