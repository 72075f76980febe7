/* SPDX-License-Identifier: MIT */
/*
 * virtual_time.h - virtual time of tenants and connections, and which of them are active
 *
 * Threads: fair_queue.c and job_queues.c, with the lock of fair held, except pure arithmetic. Only
 * virtual_time.c writes v, floors and heaps; it has the rules and their proofs.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/util.h"
#include "daemon/sched/fair_queue.h"
#include "daemon/core/vheap.h"

/* a - b, with wrapping. */
static inline int64_t vtime_ahead(uint64_t a, uint64_t b)
{
	return (int64_t)(a - b);
}

/* Virtual time of ns of CPU time. weight: not 0. */
static inline uint64_t vtime_of(uint64_t ns, uint64_t weight)
{
	/* 2^50 ns are 13 days. */
	return min(ns, UINT64_C(1) << 50) * FAIR_ONE / weight;
}

/* Returns a weight that can divide and starves no other (fair_queue.c, I3). */
static inline uint32_t vtime_clamp(uint32_t weight)
{
	return max(1u, min(weight, FAIR_WEIGHT_MAX));
}

/* Set the start of a new tenant, and of a client whose slot was cleared and that has its tenant,
 * board and weight. */
void vtime_add_tenant(struct fair *fair, struct fair_tenant *tenant);
void vtime_add_client(struct fair_client *client);

/* Changes the weight of a tenant, to a clamped one. */
void vtime_weigh(struct fair *fair, struct fair_tenant *tenant, uint32_t weight);

/* Activates a client that has rows. */
void vtime_activate(struct fair *fair, struct fair_client *client);
/* The client has no rows any more, and its slot may be reused. */
void vtime_remove_client(struct fair *fair, struct fair_client *client);

/* The client's queue has become non-empty, or empty, of rows that any worker may start. */
void vtime_enter(struct fair *fair, struct fair_client *client);
void vtime_leave(struct fair *fair, struct fair_client *client);

/* Charge a client in advance for a job given to a worker, and undo that if the job is returned. The
 * job counts as given before both. */
void vtime_advance(struct fair *fair, struct fair_client *client);
void vtime_take_back(struct fair *fair, struct fair_client *client);

/* Converts charges of workers to active clients since the last call into virtual time, deactivates
 * clients without jobs, and updates the floors. */
void vtime_settle(struct fair *fair);

/* Returns how far a is ahead of b at this level, warps included. a_short, b_short: whether the jobs
 * are short. */
static inline int64_t vtime_lead(const struct vheap_node *a, bool a_short,
				 const struct vheap_node *b, bool b_short)
{
	return vtime_ahead(a->v - (a_short ? FAIR_WARP : 0), b->v - (b_short ? FAIR_WARP : 0));
}

/* Sets the nodes of two clients at the level where they differ, their tenants' or their own. False:
 * they are the same client. */
bool vtime_part(const struct fair_client *a, const struct fair_client *b,
		const struct vheap_node **ret_a, const struct vheap_node **ret_b);
