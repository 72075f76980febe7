/* SPDX-License-Identifier: MIT */
/*
 * task_permission.h - tasks that may not be called: by a client, because of the option allow-tasks,
 * or by a tenant, because they are in quarantine
 *
 * Threads: permission_rule(), permission_deny(), permission_set(), permission_clear(): the
 * channel's thread. permission_check(): any worker, for each job that it starts.
 *
 * INVARIANTS
 *   I1. The tasks that a client may not call by the option allow-tasks are stored with the client
 *       (clients.h). They are set before any of its words is read, and change when forkd.conf is
 *       read again. The quarantine is one bit for each tenant and task, in one cache line for each
 *       tenant.
 *   I2. Bits are of this pool's tasks, by index. The manager identifies tasks by hash, and
 *       rules by their place in the option allow-tasks. It sends them to each new pool: first the
 *       rules, then the tenants, then the clients. When rules change it sends all of them before
 *       the rules of each client, because a client's bits are computed from them. No pool can
 *       change what the next pool gets.
 *   I3. The next tenant of a slot is another user: all bits are cleared when a tenant leaves, while
 *       the slot has no client.
 *
 * If the pool dies: I2. What the manager keeps, and for how long: quarantine.c, connection.c.
 */
#pragma once

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <forkd/client.h>

#include "common/relaxed.h"
#include "common/util.h"
#include "shm/limits.h"
#include "shm/proto.h"

struct modules;

#define PERMISSION_WORDS (LIMIT_TASKS / 64)
#define PERMISSION_RULES (PROTO_RULES * 64)
#define PERMISSION_RULE	 64u /* bytes of a pattern, with its end */

struct permission_tenant {
	/* a bit for each task */
	_Alignas(64) _Atomic uint64_t refused[PERMISSION_WORDS]; /* that task alone, or all */
	uint64_t tasks[PERMISSION_WORDS];			 /* that task alone */
	bool all;
};

struct permission {
	struct permission_tenant tenants[LIMIT_TENANTS];
	/* the channel's thread: pattern of each entry of the option allow-tasks */
	char rules[PERMISSION_RULES][PERMISSION_RULE];
};

/* Sets the pattern at this place of the option allow-tasks. Returns 0, or -EINVAL for an invalid
 * place or a pattern that is too long. */
int permission_rule(struct permission *permit, uint32_t place, const char *pattern);

/* Sets a bit in ret_denied for each task that a client may not call. rules: a bit for each entry
 * that applies to the client; none: it may call all tasks (PROTO_POOL_CLIENT). */
void permission_deny(const struct permission *permit, const struct modules *modules,
		     const uint64_t *rules, uint64_t ret_denied[PERMISSION_WORDS]);

/* Refuses a task to a tenant, or allows it again. task: its hash, 0: every task. Returns 0, -ENOENT
 * if no module has the task (then there is nothing to refuse), -EINVAL for an invalid tenant. */
int permission_set(struct permission *permit, const struct modules *modules, uint32_t tenant,
		   uint64_t task, bool refused);

/* Clears the bits of a tenant that has left, for the slot's next one. tenant: a valid one. */
void permission_clear(struct permission *permit, uint32_t tenant);

/* Returns 0, or the error of the job: -FK_E_DENIED if the client may not call the task,
 * -EKEYREVOKED if the task is in quarantine for the tenant. task: a valid index. */
static inline int permission_check(const struct permission *permit,
				   const _Atomic uint64_t denied[PERMISSION_WORDS], uint32_t tenant,
				   uint32_t task)
{
	/* Relaxed: a job that starts during a change may see the old or the new value. */
	uint64_t refused = load_relaxed(&permit->tenants[tenant].refused[task / 64]);
	uint64_t never = load_relaxed(&denied[task / 64]);

	if (likely(!((never | refused) >> task % 64 & 1)))
		return 0;
	return never >> task % 64 & 1 ? -FK_E_DENIED : -EKEYREVOKED;
}
