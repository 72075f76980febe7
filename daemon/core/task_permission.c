/* SPDX-License-Identifier: MIT */
/* task_permission.c - which tasks may not be called, as the pool knows it: task_permission.h */
#include "daemon/core/task_permission.h"

#include <fnmatch.h>
#include <string.h>

#include "common/relaxed.h"
#include "daemon/host/module.h"

int permission_rule(struct permission *permit, uint32_t place, const char *pattern)
{
	if (place >= PERMISSION_RULES || strlen(pattern) >= PERMISSION_RULE)
		return -EINVAL;
	strcpy(permit->rules[place], pattern);
	return 0;
}

/* No task has an empty name, so unused places match none: PROTO_RULES_NONE. */
static bool permission_is_allowed(const struct permission *permit, const char *name,
				  const uint64_t *rules)
{
	for (uint32_t i = 0; i < PERMISSION_RULES; i++)
		if (rules[i / 64] >> i % 64 & 1 && !fnmatch(permit->rules[i], name, 0))
			return true;
	return false;
}

void permission_deny(const struct permission *permit, const struct modules *modules,
		     const uint64_t *rules, uint64_t ret_denied[PERMISSION_WORDS])
{
	uint64_t any = 0;

	memset(ret_denied, 0, PERMISSION_WORDS * sizeof(*ret_denied));
	for (uint32_t i = 0; i < PROTO_RULES; i++)
		any |= rules[i];
	/* An index without a task may get one: it is denied until this is called again. */
	for (uint32_t i = 0; any && i < LIMIT_TASKS; i++)
		if (i >= modules->n_tasks ||
		    !permission_is_allowed(permit, modules->tasks[i].name, rules))
			ret_denied[i / 64] |= UINT64_C(1) << i % 64;
}

/* Relaxed throughout: one writer; for readers see permission_check(). */
static void permission_show(struct permission_tenant *t)
{
	for (uint32_t i = 0; i < PERMISSION_WORDS; i++)
		store_relaxed(&t->refused[i], t->all ? UINT64_MAX : t->tasks[i]);
}

int permission_set(struct permission *permit, const struct modules *modules, uint32_t tenant,
		   uint64_t task, bool refused)
{
	struct permission_tenant *t;
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
	permission_show(t);
	return 0;
}

void permission_clear(struct permission *permit, uint32_t tenant)
{
	struct permission_tenant *t = &permit->tenants[tenant];

	t->all = false;
	memset(t->tasks, 0, sizeof(t->tasks));
	permission_show(t);
}
