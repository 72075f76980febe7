/* SPDX-License-Identifier: MIT */
/* daemon/permit.c - which tasks a tenant may not call now, as the pool knows it: permit.h */
#include "daemon/permit.h"

#include <errno.h>

#include "daemon/module.h"

static const int permit_errors[PERMIT_REASONS] = {
	[PERMIT_DENIED] = -EACCES,
	[PERMIT_REVOKED] = -EKEYREVOKED,
};

/* Relaxed throughout: there is one writer; for readers see permit_check(). */
#define permit_load(p)	   atomic_load_explicit((p), memory_order_relaxed)
#define permit_store(p, v) atomic_store_explicit((p), (v), memory_order_relaxed)

int permit_set(struct permit *permit, const struct modules *modules, uint32_t tenant, uint64_t task,
	       int error, bool refused)
{
	struct permit_tenant *t = &permit->tenants[min(tenant, LIMIT_TENANTS - 1)];
	uint32_t reason = 0, at = 0;

	while (reason < PERMIT_REASONS && permit_errors[reason] != error)
		reason++;
	if (tenant >= LIMIT_TENANTS || reason == PERMIT_REASONS)
		return -EINVAL;
	while (task && at < modules->n_tasks && modules->tasks[at].hash != task)
		at++;
	if (task && at == modules->n_tasks)
		return -ENOENT;
	if (task) {
		uint64_t bit = UINT64_C(1) << at % 64,
			 old = permit_load(&t->tasks[reason][at / 64]);

		permit_store(&t->tasks[reason][at / 64], refused ? old | bit : old & ~bit);
	} else {
		permit_store(&t->all[reason], refused);
	}
	for (uint32_t i = 0; i < PERMIT_WORDS; i++) {
		uint64_t word = 0;

		for (uint32_t r = 0; r < PERMIT_REASONS; r++)
			word |= permit_load(&t->all[r]) ? UINT64_MAX : permit_load(&t->tasks[r][i]);
		permit_store(&t->refused[i], word);
	}
	return 0;
}

void permit_clear(struct permit *permit, uint32_t tenant)
{
	struct permit_tenant *t = &permit->tenants[tenant];

	for (uint32_t i = 0; i < PERMIT_WORDS; i++)
		permit_store(&t->refused[i], 0);
	for (uint32_t r = 0; r < PERMIT_REASONS; r++) {
		permit_store(&t->all[r], 0);
		for (uint32_t i = 0; i < PERMIT_WORDS; i++)
			permit_store(&t->tasks[r][i], 0);
	}
}

int permit_error(const struct permit *permit, uint32_t tenant, uint32_t task)
{
	const struct permit_tenant *t = &permit->tenants[tenant];

	for (uint32_t r = 0; r < PERMIT_REASONS - 1; r++)
		if (permit_load(&t->all[r]) ||
		    permit_load(&t->tasks[r][task / 64]) >> task % 64 & 1)
			return permit_errors[r];
	/* The last one; also if it has been lifted since the look at the bit. */
	return permit_errors[PERMIT_REASONS - 1];
}
