/* SPDX-License-Identifier: MIT */
/* spawn.h - this program again, as a child of the manager's */
#pragma once

#include <sys/types.h>

struct runas;

#define SPAWN_FD      3
#define SPAWN_NO_USER 125 /* status of a child that could not become another user */
#define SPAWN_SHORT   126 /* status of a child for which the kernel was short of something */
#define SPAWN_NO_EXEC 127 /* of one that was not executed for another reason; the loader's */

/* By so much their oom_score_adj is above the manager's, up to 1000. A trial does what the pool
 * does at its start, beside a pool that is wanted: it goes first. */
#define SPAWN_OOM_POOL	100
#define SPAWN_OOM_TRIAL 1000

/*
 * In a child that the manager (a pid) has forked: becomes this program with these arguments. It has
 * descriptors 0, 1, 2 and fd as SPAWN_FD, and nothing else; no signal is blocked; it is killed with
 * the manager, and before it where memory is short (oom); its environment has nothing that belongs
 * to the service manager. runas: the user that it becomes, NULL to stay the manager's.
 */
_Noreturn void spawn_exec(char *const *argv, pid_t manager, int fd, int oom,
			  const struct runas *runas);
