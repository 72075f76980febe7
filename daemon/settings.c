/* SPDX-License-Identifier: MIT */
/*
 * daemon/settings.c - options that change while forkd runs, as the manager handles them
 *
 * WHO CALLS IT, ON WHICH THREAD
 *   The manager's only thread. Who may ask is seen to by session.c; the pool's side is pool_set().
 *
 * WHAT HAPPENS IF A PEER DIES HERE
 *   The pool: the next one is started with the options as they are, and told once more when it is
 *   ready.
 */
#include "daemon/settings.h"

#include <stdio.h>

#include "common/log.h"
#include "common/util.h"
#include "shm/proto.h"

static void settings_tell(void *context, const char *name, const char *value)
{
	struct poolproc *pool = context;
	struct proto_pool set = { .head = { PROTO_MAGIC, PROTO_POOL_SET } };

	(void)snprintf(set.text, sizeof(set.text), "%s=%s", name, value);
	poolproc_send(pool, &set, -1);
}

void settings_tell_pool(const struct options *options, struct poolproc *pool)
{
	if (options_each_runtime(options, settings_tell, pool) == 0)
		return;
	log_error("out of memory for the settings of the pool: it is restarted");
	poolproc_kill(pool);
}

/* One of the settings, by its name, as text. */
struct settings_value {
	const char *name;
	char *text;
	size_t size;
};

static void settings_read(void *context, const char *name, const char *value)
{
	struct settings_value *wanted = context;

	if (streq(wanted->name, name))
		(void)snprintf(wanted->text, wanted->size, "%s", value);
}

int settings_change(struct options *options, struct fronts *fronts, struct poolproc *pool,
		    const char *name, const char *value, char *ret_old, size_t old_size,
		    char *ret_error, size_t error_size)
{
	struct settings_value old = { .name = name, .text = ret_old, .size = old_size };
	struct options_error error;
	int r;

	r = options_each_runtime(options, settings_read, &old);
	if (r < 0) {
		(void)snprintf(ret_error, error_size, "set: %s: out of memory", name);
		return r;
	}
	r = options_change(options, name, value, &error);
	if (r < 0) {
		(void)snprintf(ret_error, error_size, "%s", error.text);
		return r;
	}
	if (poolproc_set_options(pool, options) < 0)
		log_warning("out of memory: the next pool starts with the old %s, until it is told",
			    name);
	fronts_show_scheduler(fronts);
	settings_tell(pool, name, value);
	return 0;
}
