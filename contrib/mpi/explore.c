/* SPDX-License-Identifier: MIT */
/*
 * explore.c - a task that walks subtrees of uts_tree.h until it has to stop
 *
 * The task forks at every node, as uts:uts does. Its client can set the flag `stop` at any time.
 * Then the task enters no more nodes. Each frame puts its remaining children into the rest, and the
 * task ends within some microseconds. So the client gets the whole frontier of the walk, and can
 * send a part of it to another process.
 *
 * INVARIANTS
 *   I1. A walk over a range visits the children of range.node in the range, and the nodes below
 *       them. Nodes of the rest and the nodes below them are the exception. Each child is in one
 *       range, so it is visited once, or put into the rest once.
 *   I2. The first root is always visited, so a task visits at least one node.
 *   I3. The client can change the rest and the roots at any moment. An index is bounded by `room`,
 *       which the client cannot change. A node is copied before it is checked and used.
 *   I4. A part of the rest belongs to the task that has reserved it. If there is no room the walk
 *       continues as if stop was not set, so no node is lost.
 *
 * All operations are relaxed: the end of the job orders the rest before the client's reads.
 */
#include "contrib/mpi/explore.h"

#include <errno.h>

#include <forkd/task.h>

#include "modules/uts_range.h"

/* More than the depth of any sample tree. */
#define DEPTH_MAX (1 << 24)

struct batch {
	const struct uts_tree *tree;
	const struct uts_node *roots;
	struct explore_rest *rest;
	uint32_t room; /* nodes that fit into the rest */
};

static inline bool stopped(const struct batch *batch)
{
	return atomic_load_explicit(&batch->rest->stop, memory_order_relaxed);
}

/* Reserves room for n nodes of the rest; NULL if there is none. */
static struct uts_node *reserve(const struct batch *batch, uint32_t n)
{
	uint32_t old = atomic_load_explicit(&batch->rest->n, memory_order_relaxed);

	do {
		if (old > batch->room || n > batch->room - old)
			return NULL;
	} while (!atomic_compare_exchange_weak_explicit(
		&batch->rest->n, &old, old + n, memory_order_relaxed, memory_order_relaxed));
	return batch->rest->nodes + old;
}

/* Puts the children of a range into the rest, from the child first + done on. */
static bool put_children(const struct batch *batch, const struct uts_range *range, int32_t done)
{
	struct uts_node *nodes = reserve(batch, (uint32_t)(range->count - done));

	for (int32_t i = done; nodes && i < range->count; i++)
		uts_child(&range->node, range->first + i, nodes++);
	return nodes;
}

static bool put_roots(const struct batch *batch, int64_t first, int64_t n)
{
	struct uts_node *nodes = reserve(batch, (uint32_t)n);

	for (int64_t i = 0; nodes && i < n; i++)
		*nodes++ = batch->roots[first + i];
	return nodes;
}

/* The nodes below range.node. */
FK_FINE_TASK(struct uts_count, walk, (const struct batch *, batch, struct uts_range, range),
	     struct uts_count part[UTS_FANOUT];
	     int32_t done; int32_t parts;)
{
	if (!range.count)
		FK_LEAF(0, 1, range.node.depth);
}
FK_BODY(walk)
{
	struct uts_count sum;

	self->parts = 0;
	for (self->done = 0; self->done < self->range.count;
	     self->done += uts_step(self->range.count)) {
		if (stopped(self->batch) && put_children(self->batch, &self->range, self->done))
			break;
		FK_FORK(part[self->parts++], walk, self->batch,
			uts_part(self->batch->tree, &self->range, self->done));
	}
	FK_JOIN();
	sum = (struct uts_count){ 0, 0, self->range.node.depth };
	if (self->range.count <= UTS_FANOUT) /* each part is a child, and not a slice */
		sum.nodes = self->parts;
	for (int32_t i = 0; i < self->parts; i++)
		uts_count_add(&sum, &self->part[i]);
	FK_RETURN(sum.nodes, sum.leaves, sum.depth);
}
FK_END(walk)

/* n roots and the nodes below them, beginning with a root. */
FK_TASK(struct uts_count, forest, (const struct batch *, batch, int64_t, first, int64_t, n),
	struct uts_count part[2];)
{
	if (first && stopped(batch) && put_roots(batch, first, n))
		FK_LEAF(0, 0, 0);
}
FK_BODY(forest)
{
	struct uts_range range = { .first = 0 };
	int64_t half = self->n / 2;

	if (half) {
		FK_FORK(part[0], forest, self->batch, self->first, self->n / 2);
		FK_CALL(part[1], forest, self->batch, self->first + self->n / 2,
			self->n - self->n / 2);
		FK_JOIN();
		uts_count_add(&self->part[0], &self->part[1]);
		FK_RETURN(self->part[0].nodes, self->part[0].leaves, self->part[0].depth);
	}
	range.node = self->batch->roots[self->first];
	if (range.node.depth < 0 || range.node.depth > DEPTH_MAX)
		FK_FAIL(-EINVAL);
	range.count = uts_children(self->batch->tree, &range.node);
	FK_CALL(part[0], walk, self->batch, range);
	FK_RETURN(self->part[0].nodes + 1, self->part[0].leaves, self->part[0].depth);
}
FK_END(forest)

FK_TASK(struct uts_count, explore,
	(struct fk_str, tree, struct fk_buf, roots, struct fk_iobuf, rest), struct batch batch;
	struct uts_count sum;)
{
	if (!uts_tree_find(tree.data) || !roots.size || roots.size % sizeof(struct uts_node) ||
	    roots.size > UINT32_MAX || rest.size < sizeof(struct explore_rest))
		FK_LEAF_FAIL(-EINVAL);
}
FK_BODY(explore)
{
	uint64_t room = (self->rest.size - sizeof(struct explore_rest)) / sizeof(struct uts_node);

	self->batch = (struct batch){
		.tree = uts_tree_find(self->tree.data),
		.roots = self->roots.data,
		.rest = self->rest.data,
		.room = room < INT32_MAX ? (uint32_t)room : INT32_MAX,
	};
	FK_CALL(sum, forest, &self->batch, 0,
		(int64_t)(self->roots.size / sizeof(struct uts_node)));
	FK_RETURN(self->sum.nodes, self->sum.leaves, self->sum.depth);
}
FK_END(explore)

FK_EXPORT_RESULTS(explore, (int64_t, nodes, int64_t, leaves, int64_t, depth), FK_EXPORT_IN_PLACE,
		  "Walks the subtrees of roots, puts what is left into rest if it has to stop")
FK_MODULE(explore, "Unbalanced Tree Search in parts")
