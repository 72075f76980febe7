/* SPDX-License-Identifier: MIT */
/* visitor.h - a client that connects, uses forkd, leaves, and judges the answers */
#pragma once

#include "tests/support/daemon.h"

#define VISITOR_PATIENCE 30u /* seconds; only a call that hangs takes longer */

enum answer {
	RIGHT,
	ERROR, /* an error with a text, instead of the right answer */
	WRONG,
};

/* Opens, calls, submits a batch with a group, cancels and closes. restart: a task crashes the pool
 * first, so that the rest waits for the next one. Prints each answer that is not RIGHT to stderr,
 * after run. Returns the worst answer. */
enum answer visitor_comes(const struct daemon *d, const char *run, bool restart);
