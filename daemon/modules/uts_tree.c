/* SPDX-License-Identifier: MIT */
#include "modules/uts_tree.h"

#include <endian.h>
#include <math.h>
#include <nettle/sha1.h>
#include <stddef.h>
#include <string.h>

/*
 * Purpose
 *   The implicit trees of the Unbalanced Tree Search benchmark (Olivier, Huan, Liu, Prins, Dinan,
 *   Sadayappan, Tseng: "UTS: An Unbalanced Tree Search Benchmark", LCPC 2006). No tree is stored: a
 *   node is 20 bytes of SHA-1 state, from which its children are computed. So any worker can walk a
 *   subtree, and the node count is always the same. The published sizes of the sample trees are in
 *   the table below.
 *   The functions are pure: any thread may call them.
 *
 * Invariants
 *   I1  state(root) = SHA-1 of 16 zero bytes and the seed, big-endian (20 bytes).
 *   I2  state(child i) = SHA-1 of the 20 bytes of the parent's state and i, big-endian.
 *   I3  The draw of a node is the last word of its state without the sign bit, over 2^31: u in [0,
 *   1). Binomial: `fanout` children if u < q. Geometric: floor(ln(1-u) / ln(1-p)). That is at most
 *   96 for the mean of 4 of all geometric samples, so the benchmark's cap of 100 children never
 *   applies.
 *
 * Which SHA-1
 *   Both messages fit into one block, so a node costs one compression of a block that is padded
 *   here. That needs a library with a public compression function. nettle exports
 *   nettle_sha1_compress() in its ordinary version node since 3.6. It works on five words, and
 *   selects its code (SHA-NI, ARMv8, assembly, C) when it is loaded. Time of a dependent chain of
 *   compressions on an EPYC 9004 core:
 *
 *       nettle_sha1_compress()           43 ns with SHA-NI    87 ns without
 *       nettle, init/update/digest       57 ns               115 ns
 *       OpenSSL 3.0, SHA1_Transform()    43 ns                66 ns
 *       OpenSSL 3.0, SHA1()             350 ns               380 ns
 *
 *   SHA1_Transform() is not faster with SHA-NI, is deprecated, needs its own context, and adds a
 *   library of 4.5 MB to the pool for one function.
 */

/* ln(1 - 1/5): the failure probability of a geometric distribution with mean 4. */
#define LOG_FAIL_MEAN_4 (-0.22314355131420971)

static const struct uts_tree trees[] = {
	{
		.name = "T1",
		.shape = UTS_GEOMETRIC,
		.seed = 19,
		.depth_limit = 10,
		.log_fail = LOG_FAIL_MEAN_4,
		.known = { .nodes = 4130071, .leaves = 3305118, .depth = 10 },
	},
	{
		.name = "T1L",
		.shape = UTS_GEOMETRIC,
		.seed = 29,
		.depth_limit = 13,
		.log_fail = LOG_FAIL_MEAN_4,
		.known = { .nodes = 102181082, .leaves = 81746377, .depth = 13 },
	},
	{
		.name = "T1XXL",
		.shape = UTS_GEOMETRIC,
		.seed = 19,
		.depth_limit = 15,
		.log_fail = LOG_FAIL_MEAN_4,
		.known = { .nodes = 4230646601, .leaves = -1, .depth = 15 },
	},
	{
		.name = "T3",
		.shape = UTS_BINOMIAL,
		.seed = 42,
		.root_children = 2000,
		.fanout = 8,
		.q = 0.124875,
		.known = { .nodes = 4112897, .leaves = 3599034, .depth = 1572 },
	},
	{
		.name = "T3L",
		.shape = UTS_BINOMIAL,
		.seed = 7,
		.root_children = 2000,
		.fanout = 5,
		.q = 0.200014,
		.known = { .nodes = 111345631, .leaves = 89076904, .depth = 17844 },
	},
	{
		.name = "T3XXL",
		.shape = UTS_BINOMIAL,
		.seed = 316,
		.root_children = 2000,
		.fanout = 2,
		.q = 0.499995,
		/* leaves: each inner node but the root has `fanout` children */
		.known = { .nodes = 2793220501, .leaves = 1396611250, .depth = -1 },
	},
};

const struct uts_tree *uts_tree_at(unsigned int i)
{
	return i < sizeof(trees) / sizeof(trees[0]) ? &trees[i] : NULL;
}

const struct uts_tree *uts_tree_find(const char *name)
{
	const struct uts_tree *tree;

	for (unsigned int i = 0; (tree = uts_tree_at(i)); i++)
		if (!strcmp(tree->name, name))
			return tree;
	return NULL;
}

/* SHA-1 of the first `words` words of `block` (big-endian, room for 16). */
static void hash(uint32_t *state, uint32_t *block, unsigned int words)
{
	static const uint32_t init[5] = { 0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476,
					  0xc3d2e1f0 };

	block[words] = htobe32(0x80000000);
	block[15] = htobe32(words * 32);
	memcpy(state, init, sizeof(init));
	nettle_sha1_compress(state, (const uint8_t *)block);
}

void uts_root(const struct uts_tree *tree, struct uts_node *ret_root)
{
	uint32_t block[16] = { 0 };

	block[4] = htobe32(tree->seed);
	hash(ret_root->state, block, 5);
	ret_root->depth = 0;
}

void uts_child(const struct uts_node *node, int32_t i, struct uts_node *ret_child)
{
	uint32_t block[16] = { 0 };

	for (int w = 0; w < 5; w++)
		block[w] = htobe32(node->state[w]);
	block[5] = htobe32((uint32_t)i);
	hash(ret_child->state, block, 6);
	ret_child->depth = node->depth + 1;
}

int32_t uts_children(const struct uts_tree *tree, const struct uts_node *node)
{
	double u = (node->state[4] & 0x7fffffff) / 2147483648.0;

	if (tree->shape == UTS_BINOMIAL) {
		if (!node->depth)
			return tree->root_children;
		return u < tree->q ? tree->fanout : 0;
	}
	if (node->depth >= tree->depth_limit)
		return 0;
	return (int32_t)floor(log(1.0 - u) / tree->log_fail);
}
