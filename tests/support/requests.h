/* SPDX-License-Identifier: MIT */
/*
 * requests.h - a client with a request for each of its records, and checks of all of them
 *
 * Each request is of test:add, i + 1000, until the test changes it.
 */
#pragma once

#include <errno.h>
#include <poll.h>
#include <stdbool.h>

#include "client/lib/record_pool.h"
#include "tests/support/check_unit.h"
#include "tests/support/fake.h"
#include "tests/support/local.h"

#define JOBS 64u /* of fake_start() */

static struct fk_request requests[JOBS + 1];
static int64_t numbers[JOBS][2];
static fk_job jobs[JOBS];

static inline void start(uint32_t n_workers, uint32_t n_running)
{
	fake_open(n_workers, n_running);
	for (uint32_t i = 0; i < JOBS; i++) {
		numbers[i][0] = i;
		numbers[i][1] = 1000;
		requests[i] = (struct fk_request){
			.task = must_find(client, "test:add"),
			.args = numbers[i],
			.size = 16,
		};
	}
}

/* Checks that all records are free, and in the state that fk_submit_packed() expects. */
static inline void must_be_clean(void)
{
	for (uint32_t i = 0; i < JOBS; i++) {
		struct job *job = &client->jobs[i];

		ck_assert_int_ge(records_take(client), 0);
		ck_assert_uint_eq(job->next, 0);
		ck_assert_uint_eq(job->deadline_ns, 0);
		ck_assert_uint_eq(job->weight, 0);
		ck_assert_uint_eq(job->group, 0);
		ck_assert_uint_eq(job->place, 0);
		ck_assert_uint_eq(client->slots[i].options, 0);
		ck_assert_uint_ne(job_outcome(job), JOB_PENDING);
	}
	ck_assert_int_eq(records_take(client), -FK_E_NO_RECORD);
	for (uint32_t i = 0; i < JOBS; i++)
		records_give(client, i);
	ck_assert_uint_eq(heap_used(&client->heap), 0);
}

static inline void stop(void)
{
	must_be_clean();
	fake_close();
}

/* Returns the number of words that were put into the rings. */
static inline uint64_t words(void)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < fake.n_workers; i++)
		n += atomic_load(&fake.tenant->rings[i].tail);
	return n;
}

/* Ends one job, of any ring. */
static inline void run_one(void)
{
	uint32_t payload;

	ck_assert_int_ge(fake_take(&payload), 0);
	fake_run(payload);
}

static inline void run_all(void)
{
	uint32_t payload;

	while (fake_take(&payload) >= 0)
		fake_run(payload);
}

static inline bool is_readable(int fd)
{
	struct pollfd look = { .fd = fd, .events = POLLIN };

	return poll(&look, 1, 0) == 1;
}

/* Checks the results of n jobs made from the first n requests. */
static inline void must_be_sums(const fk_job *ended, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		int64_t sum = 0;

		ck_assert_int_eq(fk_result(client, ended[i], &sum, sizeof(sum)), 0);
		ck_assert_int_eq(sum, i + 1000);
	}
}
