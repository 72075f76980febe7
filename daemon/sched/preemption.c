/* SPDX-License-Identifier: MIT */
/*
 * preemption.c - which running job yields to a waiting one, and when
 *
 * A running job and a waiting one, queued or suspended, are compared at the level where they
 * differ: by the virtual time of their tenants, their connections, or themselves. A short job runs
 * before a long one of others unless it is ahead by a warp (virtual_time.c, I6); jobs of unknown
 * length count as short. Between long jobs a switch costs time and gains nothing. So the waiting
 * job waits until the other is ahead by a quarter of the shorter one's time (fair_patience()). The
 * same numbers give the time of that, and no thread needs to check before.
 *
 * Threads: see fair_queue.h: with the lock held.
 *
 * INVARIANTS
 *   I1. While each worker keeps its job, no waiting job claims a worker, or has its turn, before
 *       the time that fair_claims_in() or fair_turn_in() returns. A virtual time grows with the CPU
 *       time that is used, at most by all workers that now use it; and a job loses its warp only
 *       when it has itself used FAIR_SHORT. A waiting job's virtual time may decrease a little when
 *       jobs that were given to workers end (virtual_time.c): but at such an end the worker checks
 *       anyway.
 *   I2. Patience is at most FAIR_TURN_LONG, so a job waits at most that long beyond its turn.
 *   I3. A caller that asks about all workers, or all suspended jobs, has them counted once
 *       (fair_count()): each answer costs the same, for any number of workers.
 */
#include "daemon/sched/fair_queue.h"

#include "common/relaxed.h"
#include "common/util.h"
#include "daemon/sched/job_queues.h"
#include "daemon/sched/virtual_time.h"

/* Returns a job's virtual time: a queued one has used nothing. */
static uint64_t fair_row_v(struct fair *fair, uint32_t row)
{
	uint64_t used = load_relaxed(&fair->rows[row].used);

	return fairq_row_start(fair, row) + vtime_of(used, fairq_row_weight(fair, row));
}

/* Returns the CPU time that a job has used, or its connection's jobs use on average. */
static uint64_t fair_size(struct fair *fair, uint32_t row)
{
	return max(load_relaxed(&fair->rows[row].used), fair->clients[row / fair->jobs_max].mean);
}

static bool fair_is_short(struct fair *fair, uint32_t row)
{
	return fair_size(fair, row) < FAIR_SHORT;
}

/* Returns how far a job is ahead of another, at the level where they differ, and the other's weight
 * there. */
static int64_t fair_lead(struct fair *fair, uint32_t row, uint32_t other, uint64_t *ret_weight)
{
	/* Not activated: a suspended row may belong to a client that has gone (virtual_time.c,
	 * I1). */
	const struct fair_client *a = &fair->clients[row / fair->jobs_max];
	const struct fair_client *b = &fair->clients[other / fair->jobs_max];
	const struct vheap_node *p, *q;

	/* A tenant that has left, which a suspended row may belong to, has no weight. */
	if (vtime_part(a, b, &p, &q)) {
		*ret_weight = max(q->weight, 1u);
		return vtime_lead(p, fair_is_short(fair, row), q, fair_is_short(fair, other));
	}
	*ret_weight = fairq_row_weight(fair, other);
	return vtime_ahead(fair_row_v(fair, row), fair_row_v(fair, other));
}

/* Returns how far a job may be ahead of another, which waits and is long too, ns; 0 if one of them
 * is short, as far as known. */
static uint64_t fair_patience(struct fair *fair, uint32_t row, uint32_t other)
{
	uint64_t shorter = min(fair_size(fair, row), fair_size(fair, other));

	return shorter < FAIR_SHORT ? 0 : min(shorter / 4, FAIR_TURN_LONG);
}

/* Returns how far a job may be ahead of a queued one before that one claims its worker: a long one
 * does not end a short one's turn. 0: FAIR_QUANTUM, see fair_claims(). */
static int64_t fair_claim_lead(struct fair *fair, uint32_t row, uint32_t first, uint64_t weight)
{
	if (fair_is_short(fair, first))
		return 0;
	return (int64_t)vtime_of(max(FAIR_TURN, fair_patience(fair, row, first)), weight);
}

/* Returns how far a job may be ahead of a suspended one before that one has its turn. A short job
 * that preempts huge ones is soon ahead of them, but not for long. */
static int64_t fair_turn_lead(struct fair *fair, uint32_t row, uint32_t other, uint64_t weight)
{
	return (int64_t)vtime_of(max(FAIR_TURN, fair_patience(fair, row, other)), weight);
}

uint32_t fair_turn(struct fair *fair, uint32_t row, const uint32_t *rows, uint32_t n)
{
	uint32_t best = row;
	uint64_t weight;

	for (uint32_t i = 0; i < n; i++) {
		int64_t lead = fair_lead(fair, best, rows[i], &weight);

		if (lead > (best == row ? fair_turn_lead(fair, row, rows[i], weight) : 0))
			best = rows[i];
	}
	return best;
}

bool fair_claims(struct fair *fair, uint32_t worker, uint32_t row, uint64_t ran_ns)
{
	uint32_t first = fair_first(fair, worker);
	uint64_t weight;
	int64_t ahead, lead;

	if (first == ACCOUNT_NOBODY || row == ACCOUNT_NOBODY)
		return first != ACCOUNT_NOBODY;
	ahead = fair_lead(fair, row, first, &weight);
	/* At equal times the waiting one is preferred; but do not suspend a job at each fork
	 * without need. */
	if (ahead < 0)
		return false;
	lead = fair_claim_lead(fair, row, first, weight);
	if (lead)
		return ahead >= lead;
	return ran_ns >= FAIR_QUANTUM || ahead >= (int64_t)vtime_of(FAIR_QUANTUM, weight);
}

bool fair_first_is_long(struct fair *fair, uint32_t worker)
{
	uint32_t first = fair_first(fair, worker);

	return first != ACCOUNT_NOBODY && !fair_is_short(fair, first);
}

static void fair_count_one(const struct fair *fair, struct fair_runs *runs)
{
	if (runs->counted != fair->counted)
		*runs = (struct fair_runs){ .counted = fair->counted };
	runs->n++;
}

void fair_count(struct fair *fair)
{
	fair->counted++;
	for (uint32_t i = 0; i < fair->n_accounts; i++) {
		uint32_t row = account_row(fair->accounts[i]);
		struct fair_client *client;

		if (row == ACCOUNT_NOBODY)
			continue;
		client = &fair->clients[row / fair->jobs_max];
		fair_count_one(fair, &fair->rows[row].runs);
		fair_count_one(fair, &client->runs);
		fair_count_one(fair, &client->tenant->runs);
	}
}

/* Returns the number of workers. */
static uint32_t fair_counted(const struct fair *fair, const struct fair_runs *runs)
{
	return runs->counted == fair->counted ? runs->n : 0;
}

/* Returns how many ns a running job takes to advance by v in virtual time, at the level where it
 * and another differ. The rate is that of all workers that now run jobs of this node. */
static uint64_t fair_gets_ahead_in(struct fair *fair, uint32_t row, uint32_t other, int64_t v)
{
	const struct fair_client *client = &fair->clients[row / fair->jobs_max];
	const struct fair_client *waits = &fair->clients[other / fair->jobs_max];
	const struct fair_runs *own = &fair->rows[row].runs, *runs = own;
	const struct vheap_node *node = NULL, *q;
	uint64_t used = load_relaxed(&fair->rows[row].used);
	uint64_t weight = fairq_row_weight(fair, row), in;

	if (v <= 0)
		return 0;
	if (vtime_part(client, waits, &node, &q)) {
		weight = node->weight;
		runs = client->tenant == waits->tenant ? &client->runs : &client->tenant->runs;
	}
	/* v is in units of FAIR_ONE per ns at weight 1. */
	in = (uint64_t)v / FAIR_ONE * weight + (uint64_t)v % FAIR_ONE * weight / FAIR_ONE;
	/* It may lose its warp before that. */
	if (node && fair_is_short(fair, row))
		in = min(in, FAIR_SHORT - used);
	/* Its worker's account may not be open yet. */
	return in / (fair_counted(fair, runs) + !fair_counted(fair, own));
}

uint64_t fair_claims_in(struct fair *fair, uint32_t worker, uint32_t row)
{
	uint32_t first = fair_first(fair, worker);
	uint64_t weight;
	int64_t ahead;

	if (first == ACCOUNT_NOBODY)
		return FAIR_NEVER;
	if (row == ACCOUNT_NOBODY)
		return 0;
	ahead = fair_lead(fair, row, first, &weight);
	return fair_gets_ahead_in(fair, row, first,
				  fair_claim_lead(fair, row, first, weight) - ahead);
}

uint64_t fair_turn_in(struct fair *fair, uint32_t row, const uint32_t *rows, uint32_t n)
{
	uint64_t first = FAIR_NEVER, weight;

	for (uint32_t i = 0; i < n; i++) {
		int64_t ahead = fair_lead(fair, row, rows[i], &weight);
		int64_t lead = fair_turn_lead(fair, row, rows[i], weight);

		first = min(first, fair_gets_ahead_in(fair, row, rows[i], lead - ahead));
	}
	return first;
}
