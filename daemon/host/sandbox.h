/* SPDX-License-Identifier: MIT */
/*
 * sandbox.h - what forkd's processes give up, by the option sandbox
 *
 * Threads: main() calls sandbox_hide() in manager, pool and trial, and runas_become() after it has
 * changed the user; the pool's main thread sandbox_pool(), once its modules are loaded and before
 * there are workers.
 */
#pragma once

#include <stdint.h>

/*
 * No process of forkd's own uid may look into this one any more: no ptrace(2), nothing of /proc
 * that shows memory or descriptors, no core file. mode: OPTIONS_SANDBOX_*; OFF does nothing.
 */
void sandbox_hide(uint32_t mode);

/* No program that this thread executes can get a capability. Only root can take them away; for
 * others this does nothing. Async-signal-safe. Returns 0 or a negative errno, also in errno. */
int sandbox_bound(void);

/*
 * Takes from this process, all of its threads and all that it starts what no task needs:
 * capabilities, new executable memory, and the system calls of the table in sandbox.c. There is no
 * way back. mode: OPTIONS_SANDBOX_*; OFF does nothing.
 * ret_gate: NULL, or where the descriptor goes by which another process decides about new
 * executable memory (gate.h), -1 if it is always denied.
 * Returns 0 or a negative errno: the kernel cannot do it, and some of it may be done.
 */
int sandbox_pool(uint32_t mode, int *ret_gate);

/* The calling thread, which is made before that, is to have no capability either. Returns 0 or a
 * negative errno. */
int sandbox_thread(uint32_t mode);
