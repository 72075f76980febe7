/* SPDX-License-Identifier: MIT */
/* check_fair_short.c - short jobs while long ones run: how long they wait, and which clients
 * pay. */
#include "common/util.h"
#include "tests/support/fair_clock.h"

/* A machine of WORKERS workers in virtual time. Each client has one job at a time, on one worker,
 * which forks every LEAF. At a fork the worker picks the best job and suspends the running one.
 * When a job ends, the worker resumes the newest suspended one. Client 0 has short jobs with
 * pauses; the others have long jobs without pauses. */
#define LEAF  (100 * US)
#define SHORT MS
#define LONG  (100 * MS)
#define NAPS  20000u /* maximum number of short jobs */

struct machine_worker {
	uint32_t runs;
	uint32_t aside[CLIENTS];
	uint32_t n_aside;
	uint64_t since;
};

static struct machine_worker workers[WORKERS];
static uint64_t left[CLIENTS];	/* of its job */
static uint64_t begun[CLIENTS]; /* time at which the job was or will be submitted */
static bool there[CLIENTS];
static uint64_t waits[NAPS]; /* per short job: time from submission to end, minus its length */
static uint32_t n_waits;

static void machine_begin(uint32_t n)
{
	memset(workers, 0, sizeof(workers));
	memset(there, 0, sizeof(there));
	for (uint32_t i = 0; i < WORKERS; i++)
		workers[i].runs = ACCOUNT_NOBODY;
	for (uint32_t i = 0; i < n; i++)
		begun[i] = now;
	n_waits = 0;
}

static void machine_go_on(uint32_t at, uint32_t row)
{
	workers[at].runs = row;
	workers[at].since = now;
	account_open(&accounts[at], row, now);
}

static void machine_leave(uint32_t at, bool last)
{
	uint32_t row;
	uint64_t ns = account_close(&accounts[at], now, &row);

	fair_charge(&fair, row, ns, last);
	workers[at].runs = ACCOUNT_NOBODY;
}

static void machine_end(uint32_t at, uint64_t pause)
{
	uint32_t slot = workers[at].runs / JOBS;

	machine_leave(at, true);
	atomic_fetch_add(&board[slot].jobs, 1);
	if (!slot && n_waits < NAPS)
		waits[n_waits++] = now - begun[slot] - SHORT;
	there[slot] = false;
	/* From half of the pause to one and a half of it. */
	begun[slot] = slot ? now : now + pause / 2 + n_waits * 7919 * US % (pause + 1);
}

/* At a fork, or without a job. */
static void machine_look(uint32_t at)
{
	struct machine_worker *w = &workers[at];
	uint32_t row;

	if (w->runs == ACCOUNT_NOBODY && w->n_aside)
		machine_go_on(at, w->aside[--w->n_aside]);
	fair_lock(&fair);
	fair_settle(&fair, now);
	if (fair_claims(&fair, at, w->runs, now - w->since) && fair_pick(&fair, at, &row, 1, now)) {
		if (w->runs != ACCOUNT_NOBODY) {
			w->aside[w->n_aside++] = w->runs;
			machine_leave(at, false);
		}
		machine_go_on(at, row);
	} else if (w->runs != ACCOUNT_NOBODY) {
		row = fair_turn(&fair, w->runs, w->aside, w->n_aside);
		for (uint32_t i = 0; i < w->n_aside && row != w->runs; i++) {
			if (w->aside[i] != row)
				continue;
			memmove(w->aside + i, w->aside + i + 1,
				(w->n_aside - i - 1) * sizeof(*w->aside));
			w->aside[w->n_aside - 1] = w->runs;
			machine_leave(at, false);
			machine_go_on(at, row);
		}
	}
	fair_unlock(&fair);
}

static void machine_run(uint32_t n, uint64_t ns, uint64_t pause)
{
	for (uint64_t end = now + ns; now < end; now += LEAF) {
		for (uint32_t i = 0; i < n; i++) {
			if (there[i] || begun[i] > now)
				continue;
			there[i] = true;
			left[i] = i ? LONG : SHORT;
			submit(i, 1, 0);
		}
		for (uint32_t at = 0; at < WORKERS; at++) {
			uint32_t runs = workers[at].runs;

			if (runs != ACCOUNT_NOBODY && !(left[runs / JOBS] -= LEAF))
				machine_end(at, pause);
			machine_look(at);
		}
	}
}

static int later(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Returns the wait time that per_cent of the short jobs do not exceed. */
static uint64_t quantile(uint32_t per_cent)
{
	ck_assert_uint_gt(n_waits, 500);
	qsort(waits, n_waits, sizeof(*waits), later);
	return waits[n_waits * per_cent / 100];
}

/* Checks that all long jobs got the same; see below. */
static void assert_equal_shares(uint32_t n)
{
	for (uint32_t i = 2; i < n; i++)
		assert_ratio(cpu(i), cpu(1), 0.9, 1.1);
}

static void short_beside_long(uint32_t n)
{
	machine_begin(n);
	machine_run(n, 2 * NSEC_PER_SEC, 7 * MS);
	n_waits = 0;
	machine_run(n, 10 * NSEC_PER_SEC, 7 * MS);
	ck_assert_uint_le(quantile(50), 3 * LEAF);
	ck_assert_uint_le(quantile(99), 5 * LEAF);
	assert_equal_shares(n);
}

START_TEST(rare_short_job_does_not_wait_for_time_slices_of_long_ones)
{
	one_uid(8);
	short_beside_long(8);
}
END_TEST

START_TEST(rare_short_job_does_not_wait_for_long_ones_of_other_uids)
{
	for (uint32_t i = 0; i < 8; i++) {
		tenant(i, 100);
		client(i, i, 100);
	}
	short_beside_long(8);
}
END_TEST

/* A long job that was cut into short ones gets what the others get, within the variation among
 * them: suspended jobs stay on their worker, as no worker steals here. */
START_TEST(client_with_only_short_jobs_gets_no_larger_share)
{
	uint64_t before[CLIENTS];

	one_uid(8);
	machine_begin(8);
	machine_run(8, 2 * NSEC_PER_SEC, 0);
	for (uint32_t i = 0; i < 8; i++)
		before[i] = cpu(i);
	machine_run(8, 20 * NSEC_PER_SEC, 0);
	for (uint32_t i = 1; i < 8; i++)
		assert_ratio(cpu(i) - before[i], cpu(0) - before[0], 0.88, 1.12);
}
END_TEST

START_TEST(queued_long_job_runs_among_short_ones)
{
	const uint64_t lengths[CLIENTS] = { [0 ... 6] = 50 * US, [7] = LONG };
	uint32_t row, waited = 0, most = 0;

	one_uid(8);
	keep_busy(0xff, 10 * NSEC_PER_SEC, lengths);
	for (uint32_t i = 0; i < 100000; i++) {
		for (uint32_t slot = 0; slot < 8; slot++)
			if (!fair.clients[slot].queued)
				submit(slot, 10, 0);
		row = pick_one();
		run(row, lengths[row / JOBS]);
		waited = row / JOBS == 7 ? 0 : waited + 1;
		most = max(most, waited);
	}
	/* For each LONG of its own, each other client has as much, plus a warp. */
	ck_assert_uint_le(most, 7 * (LONG + 5 * MS + MS) / (50 * US));
}
END_TEST

CHECK_MAIN("fair_short")
