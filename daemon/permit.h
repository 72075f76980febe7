/* SPDX-License-Identifier: MIT */
/*
 * daemon/permit.h - which tasks a tenant may not call now, as the pool knows it
 *
 * WHO CALLS IT, ON WHICH THREAD
 *   permit_set(): the channel's thread. permit_check(): any worker, for each job that it starts.
 *
 * INVARIANTS
 *   I1. The reasons are kept apart: one that ends leaves the others as they are. What a worker
 *       looks at is one bit, of all of them together, in one line for each tenant.
 *   I2. Bits are of this pool's tasks, by their index; the manager names them by hash, and tells
 *       each pool anew before it tells it of tenants and clients.
 *   I3. A slot's next tenant is another user: with the one that leaves all bits are cleared, while
 *       it has no client.
 *
 * WHAT HAPPENS IF A PEER DIES HERE
 *   The pool: I2. What the manager keeps, and for how long: quarantine.c.
 */
#ifndef DAEMON_PERMIT_H
#define DAEMON_PERMIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/util.h"
#include "shm/limits.h"

struct modules;

#define PERMIT_WORDS (LIMIT_TASKS / 64)

/* Why not, the first first: what the job fails with. */
enum permit_reason {
	PERMIT_DENIED,	/* -EACCES: this user may not call it */
	PERMIT_REVOKED, /* -EKEYREVOKED: in quarantine */
	PERMIT_REASONS,
};

struct permit_tenant {
	/* a bit for each task */
	_Alignas(64) _Atomic uint64_t refused[PERMIT_WORDS]; /* for whatever reason */
	_Atomic uint64_t tasks[PERMIT_REASONS][PERMIT_WORDS];
	_Atomic uint32_t all[PERMIT_REASONS]; /* 1: every task */
};

struct permit {
	struct permit_tenant tenants[LIMIT_TENANTS];
};

/*
 * Refuses a task to a tenant from now on, or does so no more. task: its hash, 0 for every task.
 * error: the reason, as its jobs fail. Returns 0, -ENOENT if no module has the task (it is nothing
 * to refuse then), -EINVAL for another tenant or error than there can be.
 */
int permit_set(struct permit *permit, const struct modules *modules, uint32_t tenant, uint64_t task,
	       int error, bool refused);

/* The tenant has left: nothing is refused to the slot's next one. tenant: one that there can be. */
void permit_clear(struct permit *permit, uint32_t tenant);

/* What a job fails with that is refused. */
int permit_error(const struct permit *permit, uint32_t tenant, uint32_t task);

/* Returns 0, or what the job fails with. task: an index that there is. */
static inline int permit_check(const struct permit *permit, uint32_t tenant, uint32_t task)
{
	/* Relaxed: a job that is started while it is told may be on either side of it. */
	uint64_t word = atomic_load_explicit(&permit->tenants[tenant].refused[task / 64],
					     memory_order_relaxed);

	return likely(!(word >> task % 64 & 1)) ? 0 : permit_error(permit, tenant, task);
}

#endif
