/* SPDX-License-Identifier: MIT */
/*
 * gate.h - the manager decides whether the pool gets new executable memory
 *
 * The pool's filter (sandbox.c) forwards mmap(2) with PROT_EXEC to the process that has the gate,
 * by SECCOMP_RET_USER_NOTIF; the calling thread waits for the answer. The gate is closed, and the
 * answer is EPERM, except while the pool loads modules on the manager's behalf.
 *
 * INVARIANTS
 *     I1. The kernel continues a call only if the gate is open and the call maps a private file
 *         without write access. The caller must be the pool's main thread, which loads modules. A
 *         task's code can run on that thread, too: as the handler of a signal. The manager reads
 *         only arguments in registers, which no other thread can change between the decision and
 *         the call. It does not see which file a descriptor refers to: a task that controls the
 *         pool can exchange it while the gate is open.
 *     I2. The pool sends the gate before it has workers, and closes its own descriptor: no task can
 *         answer, and the manager receives no descriptor from a pool that has run a task.
 *     I3. After one answer all other sources have their turn: tasks that ask continuously do not
 *         block the manager. While the gate is closed they wake it at most once in a millisecond.
 *
 *   If the manager dies: the kernel answers ENOSYS, and soon kills the pool.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "daemon/manager/loop.h"

struct gate {
	struct loop *loop;
	struct loop_source source;
	int fd;	   /* -1: none */
	pid_t pid; /* of the pool: the only thread that may pass */
	bool open; /* the owner sets it */
};

/* The pool of this pid has sent its gate, which is closed at first. Takes fd. gate: with fd -1. */
void gate_begin(struct gate *gate, struct loop *loop, int fd, pid_t pid);

/* Closes the gate. Does nothing if there is none. */
void gate_end(struct gate *gate);
