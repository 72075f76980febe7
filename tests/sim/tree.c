/* SPDX-License-Identifier: MIT */
#include "tests/sim/tree.h"

#include <stdlib.h>

#define TREE_PRE_MAX ((UINT32_C(1) << 31) - 1)

void tree_init(struct tree *tree, uint64_t cutoff)
{
	*tree = (struct tree){ .cutoff = cutoff };
}

void tree_fini(struct tree *tree)
{
	free(tree->records);
	tree->records = NULL;
}

static bool tree_grow(struct tree *tree)
{
	uint32_t max = tree->max ? 2 * tree->max : 1024;
	struct tree_record *records;

	if (tree->n < tree->max)
		return true;
	records = max > tree->max ? reallocarray(tree->records, max, sizeof(*records)) : NULL;
	if (!records) {
		tree->failed = true;
		return false;
	}
	tree->records = records;
	tree->max = max;
	return true;
}

void tree_begin(struct tree *tree, struct tree_cursor *parent, bool called,
		struct tree_cursor *ret_cursor)
{
	uint64_t pre = parent ? parent->pending : 0;

	*ret_cursor = (struct tree_cursor){ .record = TREE_NONE, .leaf = TREE_NONE };
	if (pre > TREE_PRE_MAX)
		tree->failed = true;
	if (tree->failed || !tree_grow(tree))
		return;
	ret_cursor->record = tree->n++;
	tree->records[ret_cursor->record] =
		(struct tree_record){ .pre = (uint32_t)(pre & TREE_PRE_MAX), .called = called };
	if (parent) {
		parent->total += pre;
		parent->pending = 0;
	}
}

void tree_end(struct tree *tree, struct tree_cursor *parent, struct tree_cursor *cursor)
{
	struct tree_record *record, *before;
	bool leaf;

	if (tree->failed)
		return;
	record = &tree->records[cursor->record];
	cursor->total += cursor->pending;
	leaf = cursor->total <= tree->cutoff || tree->n == cursor->record + 1;
	record->own = leaf ? cursor->total : cursor->pending;
	if (leaf)
		tree->n = cursor->record + 1;
	record->end = tree->n;
	if (!parent)
		return;
	parent->total += cursor->total;
	if (!leaf || record->called) {
		parent->leaf = TREE_NONE;
		return;
	}
	before = parent->leaf == TREE_NONE ? NULL : &tree->records[parent->leaf];
	if (!before || before->own + record->pre + record->own > tree->cutoff) {
		parent->leaf = cursor->record;
		return;
	}
	/* One leaf of both. */
	before->own += record->pre + record->own;
	tree->n--;
}
