/* SPDX-License-Identifier: MIT */
/*
 * idle_trim.h - what a deep job leaves behind goes back to the system
 *
 * Pages of the deque that its continuations stood in, of the C stack that its activations stood on,
 * and of stacklets that are free (stacklet.c). A worker gives them back when it has looked for work
 * in vain for as long as it spins: the C stack at once, for that is little, the rest a quarter of a
 * MiB at a time. The kernel lets no other thread run on the CPU meanwhile, nor change that memory
 * file, so a piece has to be short. Between two pieces the worker yields, and looks for work.
 *
 * Threads: the worker itself, in its loop, with an empty deque.
 *
 * INVARIANTS
 *   I1. The last of the entries that are kept is zero only if all behind it have no pages: entries
 *       are filled from the first on, and it is cleared after the last piece.
 */
#pragma once

#include <stdbool.h>

#include <forkd/task.h>

struct worker;

/* The calling thread is the worker: its C stack is known from now on. */
void trim_init(struct worker *worker);

/* Gives some of it back, and yields. *next: NULL when a search begins; moves up the deque. False:
 * there was nothing. */
bool trim_some(struct worker *worker, struct fk_entry **next);
