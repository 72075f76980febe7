/* SPDX-License-Identifier: MIT */
/* task_permission.c - which tasks may not be called, as the pool knows it: task_permission.h */
#include "daemon/core/task_permission.h"

#include <fnmatch.h>
#include <string.h>

#include "common/relaxed.h"
#include "daemon/host/module.h"

int permit_rule(struct permit *permit, uint32_t place, const char *pattern)
{
	if (place >= PERMIT_RULES || strlen(pattern) >= PERMIT_RULE)
		return -EINVAL;
	strcpy(permit->rules[place], pattern);
	return 0;
}

/* No task has an empty name, so no place without a rule fits one: PROTO_RULES_NONE. */
static bool permit_is_allowed(const struct permit *permit, const char *name, const uint64_t *rules)
{
	for (uint32_t i = 0; i < PERMIT_RULES; i++)
		if (rules[i / 64] >> i % 64 & 1 && !fnmatch(permit->rules[i], name, 0))
			return true;
	return false;
}

void permit_deny(const struct permit *permit, const struct modules *modules, const uint64_t *rules,
		 uint64_t ret_denied[PERMIT_WORDS])
{
	uint64_t any = 0;

	memset(ret_denied, 0, PERMIT_WORDS * sizeof(*ret_denied));
	for (uint32_t i = 0; i < PROTO_RULES; i++)
		any |= rules[i];
	/* Where no task is, one may come: it is denied until this is called again. */
	for (uint32_t i = 0; any && i < LIMIT_TASKS; i++)
		if (i >= modules->n_tasks ||
		    !permit_is_allowed(permit, modules->tasks[i].name, rules))
			ret_denied[i / 64] |= UINT64_C(1) << i % 64;
}

/* Relaxed throughout: there is one writer; for readers see permit_check(). */
static void permit_show(struct permit_tenant *t)
{
	for (uint32_t i = 0; i < PERMIT_WORDS; i++)
		store_relaxed(&t->refused[i], t->all ? UINT64_MAX : t->tasks[i]);
}

int permit_set(struct permit *permit, const struct modules *modules, uint32_t tenant, uint64_t task,
	       bool refused)
{
	struct permit_tenant *t;
	uint64_t bit;
	uint32_t at = 0;

	if (tenant >= LIMIT_TENANTS)
		return -EINVAL;
	t = &permit->tenants[tenant];
	while (task && at < modules->n_tasks && modules->tasks[at].hash != task)
		at++;
	if (task && at == modules->n_tasks)
		return -ENOENT;
	bit = UINT64_C(1) << at % 64;
	if (!task)
		t->all = refused;
	else if (refused)
		t->tasks[at / 64] |= bit;
	else
		t->tasks[at / 64] &= ~bit;
	permit_show(t);
	return 0;
}

void permit_clear(struct permit *permit, uint32_t tenant)
{
	struct permit_tenant *t = &permit->tenants[tenant];

	t->all = false;
	memset(t->tasks, 0, sizeof(t->tasks));
	permit_show(t);
}
