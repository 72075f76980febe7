/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdint.h>

/* The trees of the Unbalanced Tree Search benchmark. See uts_tree.c. */

#ifdef __cplusplus
extern "C" {
#endif

/* A node determines the subtree below it. */
struct uts_node {
	uint32_t state[5]; /* the SHA-1 chaining words of this node */
	int32_t depth;	   /* of the root: 0 */
};

/* The result of a traversal; -1 in a tree's `known` means "not published". */
struct uts_count {
	int64_t nodes;
	int64_t leaves;
	int64_t depth; /* of the deepest node */
};

enum uts_shape {
	UTS_GEOMETRIC, /* number of children drawn from a geometric distribution, fixed mean */
	UTS_BINOMIAL,  /* `fanout` children with probability `q`, else none */
};

struct uts_tree {
	const char *name;
	enum uts_shape shape;
	uint32_t seed;
	int32_t root_children; /* binomial only: of the root, without a draw */
	int32_t fanout;	       /* binomial only */
	double q;	       /* binomial only */
	int32_t depth_limit;   /* geometric only: nodes this deep have no children */
	double log_fail;       /* geometric only: ln(1 - p) with p = 1 / (1 + mean) */
	struct uts_count known;
};

/* The sample tree of that name (T1, T1L, T1XXL, T3, T3L, T3XXL), or NULL. */
const struct uts_tree *uts_tree_find(const char *name);

/* The i-th sample tree, or NULL past the last one: for a list of the names. */
const struct uts_tree *uts_tree_at(unsigned int i);

void uts_root(const struct uts_tree *tree, struct uts_node *ret_root);

/* Returns the number of children of `node`, 0 for a leaf. At most 2000 in the sample trees. */
int32_t uts_children(const struct uts_tree *tree, const struct uts_node *node);

/* The i-th child, 0 <= i < uts_children(); one SHA-1 compression. */
void uts_child(const struct uts_node *node, int32_t i, struct uts_node *ret_child);

static inline struct uts_count uts_count_leaf(const struct uts_node *node)
{
	struct uts_count count = { 1, 1, node->depth };

	return count;
}

/* Adds the count of a subtree to that of the node above it. */
static inline void uts_count_add(struct uts_count *sum, const struct uts_count *part)
{
	sum->nodes += part->nodes;
	sum->leaves += part->leaves;
	if (sum->depth < part->depth)
		sum->depth = part->depth;
}

#ifdef __cplusplus
}
#endif
