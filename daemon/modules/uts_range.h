/* SPDX-License-Identifier: MIT */
/*
 * modules/uts_range.h - ranges of children in a tree of uts_tree.h, for tasks that walk it
 *
 * The frame of a task is bounded: a walk over a range forks at most UTS_FANOUT parts.
 */
#pragma once

#include "modules/uts_tree.h"

#define UTS_FANOUT 8

/* A node, and some of its children. */
struct uts_range {
	struct uts_node node;
	int32_t first;
	int32_t count; /* 0 for a leaf, and for it only */
};

/* Returns the number of children for each fork of a walk over count children. */
static inline int32_t uts_step(int32_t count)
{
	if (count <= UTS_FANOUT)
		return 1;
	if (count <= UTS_FANOUT * UTS_FANOUT)
		return UTS_FANOUT;
	return (count + UTS_FANOUT - 1) / UTS_FANOUT;
}

/* Returns the range of the fork that begins at the child first + done. */
static inline struct uts_range uts_part(const struct uts_tree *tree, const struct uts_range *range,
					int32_t done)
{
	int32_t size = uts_step(range->count);
	struct uts_range part;

	if (range->count <= UTS_FANOUT) {
		uts_child(&range->node, range->first + done, &part.node);
		part.first = 0;
		part.count = uts_children(tree, &part.node);
		return part;
	}
	part.node = range->node;
	part.first = range->first + done;
	part.count = size < range->count - done ? size : range->count - done;
	return part;
}
