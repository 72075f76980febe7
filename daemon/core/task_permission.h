/* SPDX-License-Identifier: MIT */
/*
 * task_permission.h - which tasks may not be called, as the pool knows it: by a client, by its
 * rules, and by a tenant now, because they are in quarantine
 *
 * Threads: permission_rule(), permission_deny(), permission_set(), permission_clear(): the
 * channel's thread. permission_check(): any worker, for each job that it starts.
 *
 * INVARIANTS
 *   I1. What a client may not call by the option allow-tasks is the client's own (clients.h): it is
 *       known before any word of it is, and changes when forkd.conf is read again. What is in
 *       quarantine changes as well, and is one bit for each tenant and task, in one line for each
 *       tenant.
 *   I2. Bits are of this pool's tasks, by their index. The manager names tasks by hash, and rules
 *       by their place in the option allow-tasks; it tells each pool again, first of the rules,
 *       then of tenants, then of clients. Where rules change it tells of all of them before it
 *       tells which are a client's now: what a client may not call is bits of tasks, and waits for
 *       that. No pool can change what the next one is told.
 *   I3. A slot's next tenant is another user: with the one that leaves all bits are cleared, while
 *       it has no client.
 *
 * If a peer dies: the pool: I2. What the manager keeps, and for how long: quarantine.c,
 * connection.c.
 */
#pragma once

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

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
	_Alignas(64) _Atomic uint64_t refused[PERMISSION_WORDS]; /* by itself, or with all */
	uint64_t tasks[PERMISSION_WORDS];			 /* by itself */
	bool all;
};

struct permission {
	struct permission_tenant tenants[LIMIT_TENANTS];
	/* the channel's thread: of the option allow-tasks, what each entry lets one call */
	char rules[PERMISSION_RULES][PERMISSION_RULE];
};

/* The entry at this place of the option allow-tasks has this pattern now. Returns 0, or -EINVAL for
 * another place or a longer one than there can be. */
int permission_rule(struct permission *permit, uint32_t place, const char *pattern);

/*
 * The tasks that a client may not call: a bit for each in ret_denied. rules: the entries that say
 * what it may call, a bit for each; none: it may call all (PROTO_POOL_CLIENT).
 */
void permission_deny(const struct permission *permit, const struct modules *modules,
		     const uint64_t *rules, uint64_t ret_denied[PERMISSION_WORDS]);

/*
 * Refuses a task to a tenant from now on, or does so no more. task: its hash, 0 for every task.
 * Returns 0, -ENOENT if no module has the task (it is nothing to refuse then), -EINVAL for another
 * tenant than there can be.
 */
int permission_set(struct permission *permit, const struct modules *modules, uint32_t tenant,
		   uint64_t task, bool refused);

/* The tenant has left: nothing is refused to the slot's next one. tenant: one that there can be. */
void permission_clear(struct permission *permit, uint32_t tenant);

/* Returns 0, or what the job of a client fails with, of a tenant: -EACCES if the client may not
 * call the task, -EKEYREVOKED if it is in quarantine. task: an index that there is. */
static inline int permission_check(const struct permission *permit,
				   const _Atomic uint64_t denied[PERMISSION_WORDS], uint32_t tenant,
				   uint32_t task)
{
	/* Relaxed: a job that is started while it is told may be on either side of it. */
	uint64_t refused = load_relaxed(&permit->tenants[tenant].refused[task / 64]);
	uint64_t never = load_relaxed(&denied[task / 64]);

	if (likely(!((never | refused) >> task % 64 & 1)))
		return 0;
	return never >> task % 64 & 1 ? -EACCES : -EKEYREVOKED;
}
