/* SPDX-License-Identifier: MIT */
/* visitor.h - a client that comes, uses what there is, leaves, and judges the answers */
#pragma once

#include "tests/support/daemon.h"

#define VISITOR_PATIENCE 30u /* seconds: nothing takes as long, but what hangs */

enum answer {
	RIGHT,
	ERROR, /* in words, instead of the right one */
	WRONG,
};

/*
 * Opens, calls, submits a batch with a group, cancels and closes; if restart, has a task crash the
 * pool first, so that the rest waits for the next one. Whatever is not RIGHT is said on stderr,
 * with run in front. Returns the worst answer.
 */
enum answer visitor_comes(const struct daemon *d, const char *run, bool restart);
