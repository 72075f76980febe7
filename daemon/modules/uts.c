/* SPDX-License-Identifier: MIT */
/*
 * modules/uts.c - walks a tree of the Unbalanced Tree Search benchmark
 *
 * A task for every node; the trees are in uts_tree.c. The frame of a task is bounded: a node with
 * more than UTS_FANOUT children forks slices of them, which are tasks of the same kind on the same
 * node. So the frames of the 17844 nested nodes of T3L are small, and the 2000 children of a root
 * can all run in parallel.
 *
 * INVARIANTS
 *   I1. A walk over a range counts the subtrees of the node's children in it, and the node itself
 *       if the range begins at 0. So exactly one undivided walk counts each node.
 */
#include <errno.h>

#include <forkd/task.h>

#include "modules/uts_range.h"

FK_FINE_TASK(struct uts_count, walk, (const struct uts_tree *, tree, struct uts_range, range),
	     struct uts_count part[UTS_FANOUT];
	     int32_t done; int32_t parts;)
{
	if (!range.count)
		FK_LEAF(1, 1, range.node.depth);
}
FK_BODY(walk)
{
	struct uts_count sum;

	self->parts = 0;
	for (self->done = 0; self->done < self->range.count;
	     self->done += uts_step(self->range.count))
		FK_FORK(part[self->parts++], walk, self->tree,
			uts_part(self->tree, &self->range, self->done));
	FK_JOIN();
	sum = (struct uts_count){ 0, 0, self->range.node.depth };
	if (!self->range.first && self->range.count <= UTS_FANOUT)
		sum.nodes = 1;
	for (int32_t i = 0; i < self->parts; i++)
		uts_count_add(&sum, &self->part[i]);
	FK_RETURN(sum.nodes, sum.leaves, sum.depth);
}
FK_END(walk)

struct result {
	int64_t nodes;
	int64_t depth;
	int64_t leaves;
};

FK_TASK(struct result, uts, (struct fk_str, tree), struct uts_count sum;)
{
	if (!uts_tree_find(tree.data))
		FK_LEAF_FAIL(-EINVAL);
}
FK_BODY(uts)
{
	const struct uts_tree *tree = uts_tree_find(self->tree.data);
	struct uts_range root = { .first = 0 };

	uts_root(tree, &root.node);
	root.count = uts_children(tree, &root.node);
	FK_CALL(sum, walk, tree, root);
	FK_RETURN(self->sum.nodes, self->sum.depth, self->sum.leaves);
}
FK_END(uts)

FK_EXPORT_RESULTS(uts, (int64_t, nodes, int64_t, depth, int64_t, leaves), 0,
		  "Walks a sample tree: T1, T1L, T1XXL, T3, T3L or T3XXL")
FK_MODULE(uts, "Unbalanced Tree Search")
