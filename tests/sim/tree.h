/* SPDX-License-Identifier: MIT */
/*
 * tree.h - an irregular computation, walked once and stored coarsely
 *
 * An array of records in the order of a serial execution. The walk of the real tree calls
 * tree_begin() and tree_end() around each task, and tree_work() for its work in between. A subtree
 * of at most the cutoff becomes one record, and so do neighbours whose sum stays below it. So about
 * T_1 / cutoff records are stored, and T_1 is exact.
 *
 * INVARIANTS
 *   I1. The records of a subtree follow its first one, up to its end.
 *   I2. The sum of pre and own of all records is the work of the whole.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define TREE_NONE UINT32_MAX

struct tree_record {
	uint32_t end;	     /* the record after the subtree */
	uint32_t pre : 31;   /* ps that the parent works before this child */
	uint32_t called : 1; /* not forked */
	uint64_t own;	     /* a leaf's work; else what is done after the join; ps */
};

struct tree {
	struct tree_record *records;
	uint32_t n, max;
	uint64_t cutoff; /* ps */
	bool failed;	 /* out of memory, or too large */
};

/* A task that is being walked; on the walker's stack. */
struct tree_cursor {
	uint64_t total;	  /* ps so far, children included */
	uint64_t pending; /* of these, since the last child */
	uint32_t record;
	uint32_t leaf; /* the child before, if it is a leaf that was forked; else TREE_NONE */
};

/* cutoff in ps, below a millisecond. */
void tree_init(struct tree *tree, uint64_t cutoff);
void tree_fini(struct tree *tree);

/* A task begins; parent is NULL for the root. called: not forked. */
void tree_begin(struct tree *tree, struct tree_cursor *parent, bool called,
		struct tree_cursor *ret_cursor);
static inline void tree_work(struct tree_cursor *cursor, uint64_t ps)
{
	cursor->pending += ps;
}
void tree_end(struct tree *tree, struct tree_cursor *parent, struct tree_cursor *cursor);
