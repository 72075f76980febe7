/* SPDX-License-Identifier: MIT */
/*
 * virtual_time.h - virtual time of tenants and connections: how far each is, and which are there
 *
 * Threads: fair_queue.c and job_queues.c, with the lock of fair held, except what is pure
 * arithmetic. It alone writes v, floors and heaps. virtual_time.c has the rules and their proofs.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/util.h"
#include "daemon/sched/fair_queue.h"
#include "daemon/core/vheap.h"

/* a - b, where they wrap. */
static inline int64_t vtime_ahead(uint64_t a, uint64_t b)
{
	return (int64_t)(a - b);
}

/* Virtual time of so many ns. weight: not 0. */
static inline uint64_t vtime_of(uint64_t ns, uint64_t weight)
{
	/* 2^50 ns are 13 days. */
	return min(ns, UINT64_C(1) << 50) * FAIR_ONE / weight;
}

/* A weight that can be divided by, and that shuts no other out (fair_queue.c, I3). */
static inline uint32_t vtime_clamp(uint32_t weight)
{
	return max(1u, min(weight, FAIR_WEIGHT_MAX));
}

/* Where one starts: a tenant that was never there before, and a client whose slot was cleared, and
 * that has its tenant, board and weight. */
void vtime_add_tenant(struct fair *fair, struct fair_tenant *tenant);
void vtime_add_client(struct fair_client *client);

/* The weight of a tenant changes, to one that is clamped. */
void vtime_weigh(struct fair *fair, struct fair_tenant *tenant, uint32_t weight);

/* A client that is not active has rows. */
void vtime_activate(struct fair *fair, struct fair_client *client);
/* It has none any more, and its slot may be taken by another. */
void vtime_remove_client(struct fair *fair, struct fair_client *client);

/* Its queue, which was empty, has rows that any worker may start; and the other way round. */
void vtime_enter(struct fair *fair, struct fair_client *client);
void vtime_leave(struct fair *fair, struct fair_client *client);

/* Charges a client in advance for a job that goes to a worker, and takes that back if it comes
 * back; it counts as given before both. */
void vtime_advance(struct fair *fair, struct fair_client *client);
void vtime_take_back(struct fair *fair, struct fair_client *client);

/* What workers have charged to active clients since the last time becomes virtual time; one that
 * has nothing left is not active any more, and floors follow. */
void vtime_settle(struct fair *fair);

/* How far a is ahead of b at this level, warps included. a_short, b_short: are these jobs short? */
static inline int64_t vtime_lead(const struct vheap_node *a, bool a_short,
				 const struct vheap_node *b, bool b_short)
{
	return vtime_ahead(a->v - (a_short ? FAIR_WARP : 0), b->v - (b_short ? FAIR_WARP : 0));
}

/* Where two clients part: of each the node at that level, their tenants' or their own. False: they
 * are one. */
bool vtime_part(const struct fair_client *a, const struct fair_client *b,
		const struct vheap_node **ret_a, const struct vheap_node **ret_b);
