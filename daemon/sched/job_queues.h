/* SPDX-License-Identifier: MIT */
/*
 * job_queues.h - the queues that rows wait in: of each connection by weight, and by place
 *
 * Threads: fair_queue.c, with the lock of fair held. job_queues.c says how they hang together.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/relaxed.h"
#include "daemon/sched/fair_queue.h"
#include "daemon/sched/virtual_time.h"

/* From a client's number to one that counts: 0 is the default, and it is clamped. */
static inline uint32_t fairq_weight(uint32_t weight)
{
	return weight ? vtime_clamp(weight) : FAIR_WEIGHT;
}

/* Relaxed, both: they change while one thread has the row; fair_claims() may look at one that has
 * just ended, and takes what it finds. */
static inline uint32_t fairq_row_weight(struct fair *fair, uint32_t row)
{
	return fairq_weight(load_relaxed(&fair->rows[row].weight));
}

static inline uint64_t fairq_row_start(struct fair *fair, uint32_t row)
{
	return load_relaxed(&fair->rows[row].start);
}

/* Puts a row into its queue, at the end or at the front. Returns true if its client had none that
 * any worker may start, and has now. */
bool fairq_link(struct fair *fair, uint32_t row, bool front);

/* Takes a row out of its queue; it counts as given from now on. Returns true if its client had one
 * that any worker may start, and has none now. */
bool fairq_unlink(struct fair *fair, uint32_t row);

/* Takes rows of a client out, whichever they are, max at most, as fairq_unlink(). Returns how many;
 * *ret_empty: what the last of them said. */
uint32_t fairq_unlink_some(struct fair *fair, uint32_t client, uint32_t *ret_rows, uint32_t max,
			   bool *ret_empty);

/* The first row of a client that any worker may start: the one whose virtual end is the earliest of
 * the first ones of each weight. It has such rows. */
uint32_t fairq_first(struct fair *fair, const struct fair_client *client);

/* The first row of a client for this place, or ACCOUNT_NOBODY. */
uint32_t fairq_first_placed(const struct fair *fair, uint32_t client, uint32_t place);
