/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdatomic.h>

#include "modules/uts_tree.h"

/* An iobuf of the task explore: see explore.c. */
struct explore_rest {
	_Atomic uint32_t stop;	 /* the client sets it to 1: the task ends soon */
	_Atomic uint32_t n;	 /* number of nodes; at first 0 */
	struct uts_node nodes[]; /* roots of the subtrees that were not visited */
};
