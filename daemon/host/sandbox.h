/* SPDX-License-Identifier: MIT */
/*
 * sandbox.h - what forkd's processes give up, according to the option sandbox
 *
 * Threads: main() calls sandbox_hide() in manager, pool and trial; so does runas_become() after it
 * has changed the user. The pool's main thread calls sandbox_pool(), when its modules are loaded
 * and before there are workers.
 */
#pragma once

#include <stdint.h>

/* Prevents other processes of forkd's uid from inspecting this one: no ptrace(2), no memory or
 * descriptors in /proc, no core file. mode: OPTIONS_SANDBOX_*; OFF does nothing. */
void sandbox_hide(uint32_t mode);

/* Prevents programs that this thread executes from getting capabilities. Does nothing unless root.
 * Async-signal-safe. Returns 0 or a negative errno, also in errno. */
int sandbox_bound(void);

/*
 * Removes what no task needs from this process, all of its threads and all that it starts:
 * capabilities, new executable memory, and system calls by the table in sandbox.c. Permanent. mode:
 * OPTIONS_SANDBOX_*; OFF does nothing.
 * ret_gate: NULL, or set to the descriptor by which another process decides about new executable
 * memory (gate.h), -1 if it is always denied.
 * Returns 0 or a negative errno: the kernel does not support it, and part of it may be done.
 */
int sandbox_pool(uint32_t mode, int *ret_gate);

/* Removes the capabilities of the calling thread, which was started before sandbox_pool(). Returns
 * 0 or a negative errno. */
int sandbox_thread(uint32_t mode);
