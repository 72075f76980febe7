/* SPDX-License-Identifier: MIT */
/*
 * options.def becomes a table (option_table.h), whose rows tell how a value is read and written
 * (option_value.h). Options have three sources, of which the later overrides the earlier: the
 * defaults, which are text in the table, forkd.conf with its directory (options_file.h,
 * options_dir.h), and the command line (options_args.h). This file has the code that they share.
 *
 * Threads: forkd's main(), before there are threads; later the manager and the dispatcher, for
 * forkctl set, each with options of its own.
 *
 * INVARIANTS
 *   I1. An error does not change the option.
 *   I2. Every error text is one line with the location, the given value and the allowed values.
 */
#include "common/options.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <hwloc.h>

#include "common/cleanup.h"
#include "common/log.h"
#include "common/option_list.h"
#include "common/option_table.h"
#include "common/option_value.h"
#include "common/text.h"
#include "common/util.h"

void options_error_set(struct options_error *error, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	(void)vsnprintf(error->text, sizeof(error->text), format, ap);
	va_end(ap);
	text_make_line(error->text, strlen(error->text));
}

static void value_error(struct options_error *error, const char *where,
			const struct option_row *row, const char *value,
			const struct option_fault *fault)
{
	bool whole = fault->size == 0 || fault->size == strlen(value);
	_cleanup_free_ char *text = NULL;
	size_t size;
	FILE *f;

	f = open_memstream(&text, &size);
	if (f) {
		if (!whole)
			fprintf(f, "\"%.*s\" in ", (int)min(fault->size, 100u), value + fault->at);
		fprintf(f, "\"%.*s\": ", whole ? 100 : 40, value);
		fputs(fault->why[0] ? fault->why : "must be ", f);
		if (!fault->why[0])
			option_value_print_allowed(row, f);
		(void)fclose(f);
	}
	options_error_set(error, "%s: %s: bad value %s", where, row->name, text ? text : "");
}

/* Sets the location of the entries that were just added to the list. */
static void list_said(struct options_list *list, const char *where)
{
	size_t size = strlen(where), kept = min(size, (size_t)OPTIONS_WHERE - 1);

	for (uint32_t i = list ? list->n : 0; i-- > 0 && !list->entries[i].where[0];)
		memcpy(list->entries[i].where, where + size - kept, kept + 1);
}

int options_set(struct options *o, const char *name, const char *value, const char *where,
		struct options_error *ret_error)
{
	uint64_t hang_timeout = o->hang_timeout;
	const struct option_row *row = option_find(name);
	struct option_fault fault = { .size = 0 };
	char text[sizeof(ret_error->text)];
	int r;

	if (!row) {
		option_unknown(where, name, text, sizeof(text));
		options_error_set(ret_error, "%s", text);
		return -ENOENT;
	}
	r = option_value_set(row, option_field(row, o), value, &fault);
	/* The only option with a gap between 0 and its range. */
	if (o->hang_timeout && o->hang_timeout < OPTIONS_HANG_LIMIT) {
		o->hang_timeout = hang_timeout;
		(void)snprintf(fault.why, sizeof(fault.why),
			       "must be 0, which disables it, or a duration of at least 100ms");
		r = -ERANGE;
	}
	if (r == -ENOMEM)
		options_error_set(ret_error, "%s: %s: out of memory", where, name);
	else if (r < 0)
		value_error(ret_error, where, row, value, &fault);
	else if (option_is_list(row))
		list_said(*(struct options_list **)option_field(row, o), where);
	return r;
}

/* Writes the names of runtime options, as a list. */
static void runtime_names(char *ret, size_t size)
{
	size_t n = 0;

	*ret = '\0';
	for (size_t i = 0; i < OPTION_ROWS && n < size; i++)
		if (option_is_runtime(&option_rows[i]))
			n += (size_t)snprintf(ret + n, size - n, "%s%s", n ? ", " : "",
					      option_rows[i].name);
}

int options_change(struct options *o, const char *name, const char *value,
		   struct options_error *ret_error)
{
	const struct option_row *row = option_find(name);
	char names[128];

	if (row && !option_is_runtime(row)) {
		runtime_names(names, sizeof(names));
		options_error_set(
			ret_error,
			"set: %s needs a %s: change it in forkd.conf%s; while forkd runs, "
			"only these can be set: %s",
			name, option_is_reloadable(row) ? "reload" : "restart",
			option_is_reloadable(row) ? ", then `forkctl reload`" : "", names);
		return -EPERM;
	}
	return options_set(o, name, value, "set", ret_error);
}

int options_init(struct options *o)
{
	*o = (struct options){ 0 };
	for (size_t i = 0; i < OPTION_ROWS; i++) {
		const struct option_row *row = &option_rows[i];
		struct option_fault fault;
		int r = option_value_set(row, option_field(row, o), row->def, &fault);

		if (r < 0) {
			options_fini(o);
			return r;
		}
	}
	return 0;
}

int options_copy(const struct options *o, struct options *ret)
{
	*ret = (struct options){ 0 };
	for (size_t i = 0; i < OPTION_ROWS; i++) {
		const struct option_row *row = &option_rows[i];
		int r = option_value_copy(row, option_const_field(row, o), option_field(row, ret));

		if (r < 0) {
			options_fini(ret);
			return r;
		}
	}
	return 0;
}

void options_fini(struct options *o)
{
	for (size_t i = 0; i < OPTION_ROWS; i++)
		option_value_fini(&option_rows[i], option_field(&option_rows[i], o));
}

int options_each_setting(const struct options *o,
			 void (*fn)(void *context, const char *name, const char *value),
			 void *context)
{
	for (size_t i = 0; i < OPTION_ROWS; i++) {
		_cleanup_free_ char *value = NULL;
		size_t size;
		FILE *f;

		if (!option_is_reloadable(&option_rows[i]) || !option_is_plain(&option_rows[i]))
			continue;
		f = open_memstream(&value, &size);
		if (!f)
			return -ENOMEM;
		option_value_print(&option_rows[i], option_const_field(&option_rows[i], o), f);
		if (fclose(f) != 0)
			return -ENOMEM;
		fn(context, option_rows[i].name, value);
	}
	return 0;
}

int options_check(const struct options *o, struct options_error *ret_error)
{
	unsigned int cpus = o->cpus ? (unsigned int)hwloc_bitmap_weight(o->cpus) : 0;

	if (o->shared_memory_max && o->heap_max > o->shared_memory_max) {
		options_error_set(ret_error,
				  "options: heap-max (%" PRIu64 " bytes) must not be more than "
				  "shared-memory-max (%" PRIu64 " bytes)",
				  o->heap_max, o->shared_memory_max);
		return -EINVAL;
	}
	if (cpus > option_find("workers")->max && o->workers == 0 &&
	    (o->threads_per_core == OPTIONS_THREADS_AUTO ||
	     o->threads_per_core == OPTIONS_THREADS_ALL)) {
		options_error_set(ret_error,
				  "options: cpus: %u CPUs are more than the %" PRIu64
				  " workers there can be: set workers as well",
				  cpus, option_find("workers")->max);
		return -EINVAL;
	}
	return 0;
}

int options_log_level(const struct options *o)
{
	return LOG_LEVEL_ERROR + (int)o->log_level;
}

uint32_t options_threads(const struct options *o)
{
	return o->threads_per_core == OPTIONS_THREADS_ALL ? UINT32_MAX : o->threads_per_core;
}

bool options_have_groups(const struct options *o)
{
	for (size_t i = 0; i < OPTION_ROWS; i++) {
		const struct option_row *row = &option_rows[i];

		if (option_list_has_groups(row, option_list(row, option_const_field(row, o))))
			return true;
	}
	return false;
}

uint32_t options_weight(const struct options *o, const struct options_peer *peer)
{
	return (uint32_t)option_list_number(o->user_weights, peer, OPTIONS_WEIGHT);
}
