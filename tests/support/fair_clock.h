/* SPDX-License-Identifier: MIT */
/*
 * fair_clock.h - tenants, clients and jobs of a test that provides the clock
 *
 * A job "runs" when the test sets how long it took. All times are virtual, so each result is the
 * same on any machine.
 */
#pragma once

#define CHECK_SETUP    setup
#define CHECK_TEARDOWN teardown

#include <stdlib.h>
#include <string.h>

#include "daemon/sched/fair_queue.h"
#include "tests/support/check_unit.h"

#define CLIENTS 16u
#define JOBS	4096u
#define TENANTS 8u
#define WORKERS 2u
#define US	NSEC_PER_USEC
#define MS	NSEC_PER_MSEC

/* ck_assert() without its system call for each assertion, for conditions checked 100,000 times. */
#define MUST(condition)                                                                            \
	do {                                                                                       \
		if (!(condition))                                                                  \
			ck_abort_msg("%s", #condition);                                            \
	} while (0)

static struct fair fair;
static struct board_client *board;
static struct account accounts[WORKERS];
static uint64_t now;
static uint32_t next_job[CLIENTS]; /* records, used in turn */

static inline void setup(void)
{
	board = calloc(CLIENTS, sizeof(*board));
	ck_assert_ptr_nonnull(board);
	ck_assert_int_eq(fair_init(&fair, board, CLIENTS, JOBS, TENANTS, WORKERS), 0);
	for (uint32_t i = 0; i < WORKERS; i++)
		fair_add_account(&fair, i, i, &accounts[i]);
	memset(accounts, 0, sizeof(accounts));
	memset(next_job, 0, sizeof(next_job));
	now = 5 * NSEC_PER_SEC;
}

static inline void teardown(void)
{
	fair_fini(&fair);
	free(board);
}

static inline void again(void)
{
	teardown();
	setup();
}

static inline void tenant(uint32_t slot, uint32_t weight)
{
	fair_add_tenant(&fair, slot, weight);
}

static inline void client(uint32_t slot, uint32_t of, uint32_t weight)
{
	fair_add_client(&fair, slot, of, weight);
}

/* Creates clients 0 to n - 1, of one uid. */
static inline void one_uid(uint32_t n)
{
	tenant(0, 100);
	for (uint32_t i = 0; i < n; i++)
		client(i, 0, 100);
}

/* Creates clients 0 and 1, of one uid each. */
static inline void two_uids(void)
{
	for (uint32_t i = 0; i < 2; i++) {
		tenant(i, 100);
		client(i, i, 100);
	}
}

static inline uint32_t row_of(uint32_t slot, uint32_t job)
{
	return slot * JOBS + job;
}

/* Queues n jobs of a client for a place. Returns the row of the first job; the others follow,
 * modulo JOBS. */
static inline uint32_t submit_to(uint32_t slot, uint32_t n, uint32_t weight, uint32_t place)
{
	uint32_t first = 0, before = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t row = row_of(slot, next_job[slot]++ % JOBS);

		fair_prepare(&fair, row, weight, place);
		if (i)
			fair.rows[before].next = row + 1;
		else
			first = row;
		before = row;
	}
	fair_lock(&fair);
	fair_push(&fair, first, n, now);
	fair_unlock(&fair);
	return first;
}

static inline uint32_t submit(uint32_t slot, uint32_t n, uint32_t weight)
{
	return submit_to(slot, n, weight, FAIR_ANYWHERE);
}

static inline bool is_placed(uint32_t row)
{
	return fair_place(&fair, row) > FAIR_NOWHERE;
}

static inline uint32_t pick_on(uint32_t worker, uint32_t *rows, uint32_t max)
{
	uint32_t n;

	fair_lock(&fair);
	n = fair_pick(&fair, worker, rows, max, now);
	fair_unlock(&fair);
	/* A job with a place is picked alone. */
	for (uint32_t i = 0; n > 1 && i < n; i++)
		MUST(!is_placed(rows[i]));
	return n;
}

static inline uint32_t pick(uint32_t *rows, uint32_t max)
{
	uint32_t n = pick_on(0, rows, max);

	MUST(!n || !is_placed(rows[0]));
	return n;
}

/* Returns the row that runs first. */
static inline uint32_t pick_one(void)
{
	uint32_t row;

	ck_assert_uint_eq(pick(&row, 1), 1);
	return row;
}

static inline bool cut(uint32_t row)
{
	bool was;

	fair_lock(&fair);
	was = fair_cut(&fair, row);
	fair_unlock(&fair);
	return was;
}

static inline void settle(void)
{
	fair_lock(&fair);
	fair_settle(&fair, now);
	fair_unlock(&fair);
}

/* A job has run for this time, and ended. */
static inline void run(uint32_t row, uint64_t ns)
{
	now += ns;
	fair_charge(&fair, row, ns, true);
	atomic_fetch_add(&board[row / JOBS].jobs, 1);
}

/* Runs all queued jobs, each for this time. */
static inline void run_queued(uint64_t ns)
{
	uint32_t rows[FAIR_BATCH_JOBS], n;

	while ((n = pick(rows, FAIR_BATCH_JOBS)))
		for (uint32_t i = 0; i < n; i++)
			run(rows[i], ns);
	ck_assert_uint_eq(fair_queued(&fair), 0);
}

static inline uint64_t cpu(uint32_t slot)
{
	return atomic_load(&board[slot].cpu_ns);
}

/* Simulates one worker for this time. These clients always have queued jobs, each client with its
 * own job length. */
static inline void keep_busy(uint32_t slots, uint64_t ns, const uint64_t *lengths)
{
	uint64_t end = now + ns;
	uint32_t rows[FAIR_BATCH_JOBS];

	while (now < end) {
		uint32_t n;

		for (uint32_t slot = 0; slot < CLIENTS; slot++)
			if (slots >> slot & 1 && fair.clients[slot].queued < 100)
				submit(slot, 100, 0);
		n = pick(rows, FAIR_BATCH_JOBS);
		MUST(n > 0);
		for (uint32_t i = 0; i < n; i++)
			run(rows[i], lengths[rows[i] / JOBS]);
	}
}

static inline void assert_ratio(uint64_t a, uint64_t b, double low, double high)
{
	double ratio = (double)a / (double)b;

	ck_assert_msg(ratio >= low && ratio <= high, "%llu / %llu = %.3f, not from %.3f to %.3f",
		      (unsigned long long)a, (unsigned long long)b, ratio, low, high);
}
