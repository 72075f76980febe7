/* SPDX-License-Identifier: MIT */
/*
 * job_queues.h - the queues of waiting rows: of each connection by weight, and by place
 *
 * Threads: fair_queue.c, with the lock of fair held. job_queues.c describes the structure.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/relaxed.h"
#include "daemon/sched/fair_queue.h"
#include "daemon/sched/virtual_time.h"

/* Returns the effective weight: the default for 0, otherwise clamped. */
static inline uint32_t fairq_weight(uint32_t weight)
{
	return weight ? vtime_clamp(weight) : FAIR_WEIGHT;
}

/* Relaxed, both: they change while one thread owns the row; fair_claims() may read them just after
 * the row has ended, and any value will do. */
static inline uint32_t fairq_row_weight(struct fair *fair, uint32_t row)
{
	return fairq_weight(load_relaxed(&fair->rows[row].weight));
}

static inline uint64_t fairq_row_start(struct fair *fair, uint32_t row)
{
	return load_relaxed(&fair->rows[row].start);
}

/* Puts a row into its queue, at the end or at the front. Returns true if it is now its client's
 * only row that any worker may start. */
bool fairq_link(struct fair *fair, uint32_t row, bool front);

/* Removes a row from its queue; from now on it counts as given. Returns true if its client had a
 * row that any worker may start, and now has none. */
bool fairq_unlink(struct fair *fair, uint32_t row);

/* Removes any rows of a client, at most max, as fairq_unlink() does. Returns their number;
 * *ret_empty: the result for the last of them. */
uint32_t fairq_unlink_some(struct fair *fair, uint32_t client, uint32_t *ret_rows, uint32_t max,
			   bool *ret_empty);

/* Returns the first row of a client that any worker may start: the one with the earliest virtual
 * end among the first rows of each weight. The client must have such rows. */
uint32_t fairq_first(struct fair *fair, const struct fair_client *client);

/* Returns the first row of a client for this place, or ACCOUNT_NOBODY. */
uint32_t fairq_first_placed(const struct fair *fair, uint32_t client, uint32_t place);
