/* SPDX-License-Identifier: MIT */
/*
 * vheap.h - a binary heap of nodes by virtual time
 *
 * nodes[0] has the smallest v less warp; among equals, the one that was picked longest ago. A node
 * knows its place, so it can be sifted or removed from anywhere. Virtual times wrap: those in one
 * heap are within 2^63 of each other (virtual_time.c, I4).
 *
 * Threads: virtual_time.c changes heaps, with the lock of fair held; fair_queue.c compares nodes.
 *
 * INVARIANTS
 *   I1. No node precedes its parent, except one whose v or warp has changed and which is moved
 *       next.
 *   I2. nodes[node->place - 1] is the node; place is 0 if it is in no heap.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct vheap_node {
	uint64_t v;	    /* virtual time used; compared modulo 2^64 */
	uint64_t warp;	    /* precedence: compared as if v were this much less */
	uint64_t picked_at; /* number of the choice that picked it last */
	uint32_t weight;    /* 1 to FAIR_WEIGHT_MAX */
	uint32_t place;	    /* in the heap + 1; 0: in none */
};

struct vheap {
	struct vheap_node **nodes; /* room for all nodes */
	uint32_t n;
};

/* True if a, which is ahead of b by this much, precedes b. Among equals, by picked_at. */
static inline bool vheap_leads(int64_t lead, const struct vheap_node *a, const struct vheap_node *b)
{
	return lead < 0 || (lead == 0 && a->picked_at < b->picked_at);
}

static inline bool vheap_before(const struct vheap_node *a, const struct vheap_node *b)
{
	return vheap_leads((int64_t)((a->v - a->warp) - (b->v - b->warp)), a, b);
}

static inline void vheap_put(struct vheap *heap, uint32_t at, struct vheap_node *node)
{
	heap->nodes[at] = node;
	node->place = at + 1;
}

/* Puts a node where it belongs, starting from a free place. */
static inline void vheap_sift(struct vheap *heap, uint32_t at, struct vheap_node *node)
{
	while (at && vheap_before(node, heap->nodes[(at - 1) / 2])) {
		vheap_put(heap, at, heap->nodes[(at - 1) / 2]);
		at = (at - 1) / 2;
	}
	for (;;) {
		uint32_t child = 2 * at + 1;

		if (child + 1 < heap->n && vheap_before(heap->nodes[child + 1], heap->nodes[child]))
			child++;
		if (child >= heap->n || !vheap_before(heap->nodes[child], node))
			break;
		vheap_put(heap, at, heap->nodes[child]);
		at = child;
	}
	vheap_put(heap, at, node);
}

/* Inserts a node that is in no heap. */
static inline void vheap_insert(struct vheap *heap, struct vheap_node *node)
{
	vheap_sift(heap, heap->n++, node);
}

/* Removes a node of this heap. */
static inline void vheap_remove(struct vheap *heap, struct vheap_node *node)
{
	struct vheap_node *last = heap->nodes[--heap->n];

	if (last != node)
		vheap_sift(heap, node->place - 1, last);
	node->place = 0;
}

/* Moves a node, in this heap or in none, whose v or warp has changed. */
static inline void vheap_moved(struct vheap *heap, struct vheap_node *node)
{
	if (node->place)
		vheap_sift(heap, node->place - 1, node);
}
