/* SPDX-License-Identifier: MIT */
/* settings.c - options that change while forkd runs; the pool's side is pool_set() */
#include "daemon/manager/settings.h"

#include <stdio.h>

#include "common/log.h"
#include "common/option_table.h"
#include "common/option_value.h"
#include "common/options.h"
#include "common/util.h"
#include "daemon/manager/pool_process.h"
#include "daemon/manager/pool_segments.h"
#include "shm/proto.h"

static void settings_tell(void *context, const char *name, const char *value)
{
	struct pool_process *pool = context;
	struct proto_pool set = { .head = { PROTO_MAGIC, PROTO_POOL_SET } };

	(void)snprintf(set.text, sizeof(set.text), "%s=%s", name, value);
	pool_process_send(pool, &set, -1);
}

/* Only the tasks of each rule: PROTO_POOL_CLIENT has the rules that apply to a client. */
static void settings_tell_rules(const struct options_list *tasks, struct pool_process *pool)
{
	struct proto_pool rule = { .head = { PROTO_MAGIC, PROTO_POOL_RULE } };

	for (uint32_t i = 0; tasks && i < tasks->n; i++) {
		rule.n_jobs = i;
		(void)snprintf(rule.text, sizeof(rule.text), "%s", tasks->entries[i].task);
		pool_process_send(pool, &rule, -1);
	}
}

void settings_tell_pool(const struct options *options, struct pool_process *pool)
{
	settings_tell_rules(options->allow_tasks, pool);
	if (options_each_setting(options, settings_tell, pool) == 0)
		return;
	log_error("out of memory for the settings of the pool: restarting it");
	pool_process_kill(pool);
}

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

int settings_change(struct options *options, struct pool_segments *pool_segments,
		    struct pool_process *pool, const char *name, const char *value, char *ret_old,
		    size_t old_size, char *ret_error, size_t error_size)
{
	struct settings_value old = { .name = name, .text = ret_old, .size = old_size };
	struct options_error error;
	int r;

	r = options_each_setting(options, settings_read, &old);
	if (r < 0) {
		(void)snprintf(ret_error, error_size, "set: %s: out of memory", name);
		return r;
	}
	r = options_change(options, name, value, &error);
	if (r < 0) {
		(void)snprintf(ret_error, error_size, "%s", error.text);
		return r;
	}
	if (pool_process_set_options(pool, options) < 0)
		log_warning("out of memory: the next pool starts with the old %s, and gets the new "
			    "one later",
			    name);
	pool_segments_show_scheduler(pool_segments);
	settings_tell(pool, name, value);
	return 0;
}

static void settings_name(struct settings_names *names, const char *name)
{
	size_t n = strlen(names->text);

	(void)snprintf(names->text + n, sizeof(names->text) - n, "%s%s", n ? ", " : "", name);
}

void settings_exchange(struct options *options, struct options *new,
		       struct settings_names *ret_changed)
{
	ret_changed->text[0] = '\0';
	for (size_t i = 0; i < OPTION_ROWS; i++) {
		const struct option_row *row = &option_rows[i];
		void *field = option_field(row, options), *other = option_field(row, new);

		if (!option_is_reloadable(row) || option_value_equals(row, field, other))
			continue;
		option_value_swap(row, field, other);
		settings_name(ret_changed, row->name);
	}
}

void settings_compare(const struct options *configured, const struct options *new,
		      struct settings_names *ret_restart)
{
	ret_restart->text[0] = '\0';
	for (size_t i = 0; i < OPTION_ROWS; i++) {
		const struct option_row *row = &option_rows[i];

		if (!option_is_reloadable(row) &&
		    !option_value_equals(row, option_const_field(row, configured),
					 option_const_field(row, new)))
			settings_name(ret_restart, row->name);
	}
}
