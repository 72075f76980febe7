/* SPDX-License-Identifier: MIT */
/*
 * gate.h - the manager decides whether the pool gets new executable memory
 *
 * The pool's filter (sandbox.c) hands mmap(2) with PROT_EXEC to the process that has the gate, by
 * SECCOMP_RET_USER_NOTIF; the thread that called waits for the answer. The gate is closed, and the
 * answer is EPERM, except while the pool loads modules on the manager's behalf.
 *
 * INVARIANTS
 *   I1. The kernel continues a call only while the gate is open, if the pool's main thread, which
 *       is the one that loads modules, has made it, and if it maps a private file that cannot be
 *       written there. A task's code can run on that thread, too: as the handler of a signal. The
 *       manager reads arguments of registers alone, which no other thread can change between the
 *       decision and the call. Which file a descriptor is of, it does not see: a task that has
 *       taken over the pool can exchange it while the gate is open.
 *   I2. The pool sends the gate before it has workers, and closes its own descriptor: no task can
 *       answer, and the manager receives no descriptor of a pool that has run a task.
 *   I3. One question is answered, then it is the turn of all other sources: tasks that ask without
 *       end keep the manager from nothing. While the gate is closed they do not wake it
 *       more often than once in a millisecond either.
 *
 * If the manager dies: the kernel answers ENOSYS, and kills the pool soon.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "daemon/manager/loop.h"

struct gate {
	struct loop *loop;
	struct loop_source source;
	int fd;	   /* -1: there is none */
	pid_t pid; /* of the pool: the only thread that may pass */
	bool open; /* the owner sets it */
};

/* The pool of this pid has sent its gate, which is closed at first. Takes fd. gate: with fd -1. */
void gate_begin(struct gate *gate, struct loop *loop, int fd, pid_t pid);

/* Fine if there is none. */
void gate_end(struct gate *gate);
