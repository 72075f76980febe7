/* SPDX-License-Identifier: MIT */
/*
 * idle_trim.h - gives memory of deep jobs back to the system
 *
 * Pages of the deque that held continuations, of the C stack that held activations, and of free
 * stacklets (stacklet.c). A worker gives them back when it has searched in vain for as long as it
 * spins: the C stack at once, because that is little; the rest a quarter of a MiB at a time. During
 * such a call the kernel runs no other thread on the CPU, and locks that memory file, so a part
 * must be small. Between two parts the worker yields, and searches for work.
 *
 * Threads: the worker itself, in its loop, with an empty deque.
 *
 * INVARIANTS
 *   I1. The last of the kept entries is zero only if the entries after it have no pages: entries
 *       are filled from the first on, and it is cleared after the last part.
 */
#pragma once

#include <stdbool.h>

#include <forkd/task.h>

struct worker;

/* Gives a part back, and yields. *next: NULL when a search begins; moves up the deque. False:
 * nothing was left. */
bool trim_some(struct worker *worker, struct fk_entry **next);
