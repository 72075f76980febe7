/* SPDX-License-Identifier: MIT */
/* spawn.h - executes this program again as a child of the manager */
#pragma once

#include <sys/types.h>

struct runas;

#define SPAWN_FD      3
#define SPAWN_NO_USER 125 /* status of a child that could not become another user */
#define SPAWN_SHORT   126 /* status of a child for which memory or descriptors were short */
#define SPAWN_NO_EXEC 127 /* of one that could not be executed; also the loader's */

/* Added to the manager's oom_score_adj, up to 1000. A trial uses as much memory as a pool at its
 * start, while a pool serves jobs: so the kernel kills it first. */
#define SPAWN_OOM_POOL	100
#define SPAWN_OOM_TRIAL 1000

/* Called in a forked child of the manager (a pid): becomes this program with these arguments. It
 * has descriptors 0, 1, 2 and fd as SPAWN_FD, and no others; no signal is blocked. It is killed
 * with the manager, and before it if memory is short (oom). Its environment lacks the service
 * manager's variables. runas: the user that it becomes, NULL to stay the manager's. */
_Noreturn void spawn_exec(char *const *argv, pid_t manager, int fd, int oom,
			  const struct runas *runas);
