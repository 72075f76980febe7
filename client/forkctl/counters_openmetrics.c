/* SPDX-License-Identifier: MIT */
/*
 * counters_openmetrics.c - rows as OpenMetrics text 1.0, or in Prometheus's text format 0.0.4
 *
 * The samples of both formats are the same. Their comments differ: openmetrics.h.
 *
 * A member of the rows is a family of metrics, and each row is a sample. Times are in seconds, the
 * base unit of OpenMetrics. Only seconds are declared as a unit, because a declared unit must be
 * the end of the name.
 *
 * Metrics of clients are counted per connection; its number, pid, uid and command are the labels.
 * Wait times and run times of jobs are counted per user. Their buckets are powers of two from
 * METRICS_FROM to METRICS_TO, in ns. The board has four buckets for each power. Prometheus stores a
 * series for each bucket of each user, even if it is empty.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "client/forkctl/board_rows.h"
#include "client/forkctl/counters.h"
#include "client/forkctl/job_times.h"
#include "client/forkctl/openmetrics.h"
#include "common/clock.h"
#include "common/util.h"
#include "shm/wake.h"

struct family {
	const char *key; /* the member; NULL ends a list */
	const char *name;
	const char *type; /* counter or gauge */
	const char *unit; /* "seconds" (the member has ns), "bytes", or NULL */
	const char *help;
};

static const struct family of_manager[] = {
	{ "started_ns", "start_time_seconds", "gauge", "seconds",
	  "Start time of forkd since the Epoch" },
	{ NULL },
};

static const struct family of_pool[] = {
	{ "generation", "pool_generation", "gauge", NULL, "Pools since forkd started" },
	{ "crashes", "pool_crashes", "counter", NULL, "Crashes of the pool" },
	{ "workers", "workers", "gauge", NULL, "Workers of the pool" },
	{ "offline", "workers_offline", "gauge", NULL, "Workers whose CPUs forkd may not use" },
	{ NULL },
};

static const struct family of_connections[] = {
	{ "clients", "clients", "gauge", NULL, "Connections" },
	{ "most", "clients_most", "gauge", NULL, "Maximum number of connections" },
	{ "users", "users", "gauge", NULL, "Users with connections" },
	{ "accepted", "connections_accepted", "counter", NULL, "Accepted connections" },
	{ "refused", "connections_refused", "counter", NULL, "Refused connections" },
	{ "failed_by_manager", "jobs_failed_by_manager", "counter", NULL,
	  "Jobs that ended because their pool crashed or no pool could take them" },
	{ NULL },
};

static const struct family of_quarantine[] = {
	{ "n", "quarantined", "gauge", NULL, "Entries of the quarantine: tasks refused to a user" },
	{ NULL },
};

static const struct family of_worker[] = {
	{ "running", "worker_running", "gauge", NULL, "1 if the worker runs a job" },
	{ NULL },
};

static const struct family of_client[] = {
	{ "jobs", "client_jobs", "counter", NULL, "Jobs with an outcome" },
	{ "failed", "client_jobs_failed", "counter", NULL, "Jobs with an outcome other than DONE" },
	{ "refused", "client_jobs_refused", "counter", NULL,
	  "Jobs refused as malformed or not allowed" },
	{ "run_ns", "client_run_seconds", "counter", "seconds",
	  "Total time of jobs from start to end" },
	{ "wait_ns", "client_wait_seconds", "counter", "seconds",
	  "Total time that jobs waited for a worker" },
	{ "cpu_ns", "client_cpu_seconds", "counter", "seconds",
	  "CPU time of workers for jobs of the client" },
	{ "weight", "client_weight", "gauge", NULL,
	  "Weight of the connection among those of its user" },
	{ "memory_bytes", "client_memory_bytes", "gauge", "bytes",
	  "Memory that the client shares with forkd" },
	{ NULL },
};

static const struct family of_user[] = {
	{ "dropped", "user_jobs_dropped", "counter", NULL,
	  "Jobs that no worker started: cancelled, expired, or their client disconnected" },
	{ "failed_by_manager", "user_jobs_failed_by_manager", "counter", NULL,
	  "Jobs that ended because their pool crashed or no pool could take them" },
	{ NULL },
};

#define METRICS_FROM 10u /* a microsecond */
#define METRICS_TO   40u /* 18 minutes */

static const char *const user_labels[] = { "uid", "user", NULL };
static const char *const client_labels[] = { "client", "pid", "uid", "command", NULL };
static const char *const worker_labels[] = { "worker", NULL };
static const char *const no_labels[] = { NULL };

/* Prints labels without the closing bracket. */
static void print_some_labels(const struct openmetrics *out, const json_t *row,
			      const char *const *labels)
{
	struct out_cell cell;

	for (size_t i = 0; labels[i]; i++) {
		const json_t *value = json_object_get(row, labels[i]);

		(void)fprintf(out->file, "%s%s=\"", i ? "," : "{", labels[i]);
		openmetrics_escaped(out,
				    json_is_string(value) ? json_string_value(value)
							  : out_show(&cell, value, OUT_NUMBER),
				    true);
		(void)putc('"', out->file);
	}
}

static void print_labels(const struct openmetrics *out, const json_t *row,
			 const char *const *labels)
{
	print_some_labels(out, row, labels);
	if (labels[0])
		(void)putc('}', out->file);
}

static void print_value(const struct openmetrics *out, json_int_t value, const char *unit)
{
	if (unit && streq(unit, "seconds"))
		(void)fprintf(out->file, " %" PRIu64 ".%09" PRIu64 "\n",
			      (uint64_t)value / NSEC_PER_SEC, (uint64_t)value % NSEC_PER_SEC);
	else
		(void)fprintf(out->file, " %" JSON_INTEGER_FORMAT "\n", value);
}

static void print_families(const struct openmetrics *out, const json_t *rows,
			   const struct family *families, const char *const *labels)
{
	const json_t *row;
	size_t i;

	for (const struct family *f = families; f->key; f++) {
		openmetrics_head(out, f->name, f->type, f->unit, f->help);
		json_array_foreach(rows, i, row)
		{
			(void)fprintf(out->file, "forkd_%s%s", f->name,
				      openmetrics_suffix(f->type));
			print_labels(out, row, labels);
			print_value(out, json_integer_value(json_object_get(row, f->key)), f->unit);
		}
	}
}

/* The same for one row, which is freed. */
static void print_one(const struct openmetrics *out, json_t *row, const struct family *families)
{
	_cleanup_json_ json_t *rows = json_pack("[o]", row);

	print_families(out, rows, families, no_labels);
}

static void print_version(const struct openmetrics *out, const struct board *board)
{
	static const char *const labels[] = { "version", NULL };
	_cleanup_json_ json_t *row = rows_manager(board);

	openmetrics_head(out, "build", "info", NULL, "Version of forkd");
	(void)fputs("forkd_build_info", out->file);
	print_labels(out, row, labels);
	print_value(out, 1, NULL);
}

/* A counter of counters.def: of each worker, and of the pool's other threads; a gauge as a sum. */
static void print_counter(const struct openmetrics *out, const json_t *row)
{
	const char *kind = json_string_value(json_object_get(row, "kind"));
	const char *unit = json_string_value(json_object_get(row, "unit"));
	bool gauge = streq(kind, "gauge");
	const json_t *workers = json_object_get(row, "workers"), *value;
	char name[64], help[200];
	size_t i;

	(void)snprintf(name, sizeof(name), "worker_%s",
		       json_string_value(json_object_get(row, "name")));
	(void)snprintf(help, sizeof(help), "%s (%s)",
		       json_string_value(json_object_get(row, "help")), unit);
	openmetrics_head(out, name, kind, streq(unit, "bytes") ? unit : NULL, help);
	if (gauge) {
		(void)fprintf(out->file, "forkd_%s", name);
		print_value(out, json_integer_value(json_object_get(row, "sum")), NULL);
		return;
	}
	json_array_foreach(workers, i, value)
	{
		(void)fprintf(out->file, "forkd_%s%s{worker=\"%zu\"}", name,
			      openmetrics_suffix(kind), i);
		print_value(out, json_integer_value(value), NULL);
	}
	(void)fprintf(out->file, "forkd_%s%s{worker=\"pool\"}", name, openmetrics_suffix(kind));
	print_value(out, json_integer_value(json_object_get(row, "pool")), NULL);
}

/* Prints a histogram of times.def for one user. */
static void print_histogram(const struct openmetrics *out, const char *name, const json_t *user,
			    const struct histogram_sum *h)
{
	for (uint32_t octave = METRICS_FROM; octave <= METRICS_TO; octave++) {
		uint64_t ns = UINT64_C(1) << octave;

		(void)fprintf(out->file, "forkd_user_%s_seconds_bucket", name);
		print_some_labels(out, user, user_labels);
		(void)fprintf(out->file, ",le=\"%" PRIu64 ".%09" PRIu64 "\"} %" PRIu64 "\n",
			      ns / NSEC_PER_SEC, ns % NSEC_PER_SEC, histogram_below(h, octave));
	}
	(void)fprintf(out->file, "forkd_user_%s_seconds_bucket", name);
	print_some_labels(out, user, user_labels);
	(void)fprintf(out->file, ",le=\"+Inf\"} %" PRIu64 "\n", h->n);
	(void)fprintf(out->file, "forkd_user_%s_seconds_count", name);
	print_labels(out, user, user_labels);
	(void)fprintf(out->file, " %" PRIu64 "\n", h->n);
	(void)fprintf(out->file, "forkd_user_%s_seconds_sum", name);
	print_labels(out, user, user_labels);
	print_value(out, (json_int_t)h->sum_ns, "seconds");
}

static void print_times(const struct openmetrics *out, const struct board *board)
{
	_cleanup_free_ struct times *times = times_new();
	_cleanup_json_ json_t *users = NULL;

	times_read(times, board);
	users = times_users(times);
	print_families(out, users, of_user, user_labels);
	for (enum board_time which = 0; which < N_TIMES; which++) {
		const struct time_row *row = &board_time_rows[which];
		char name[64];
		size_t n = 0;

		(void)snprintf(name, sizeof(name), "user_%s_seconds", row->name);
		openmetrics_head(out, name, "histogram", "seconds", row->help);
		for (uint32_t i = 0; i < LIMIT_TENANTS; i++)
			if (times->users[i].since_ns)
				print_histogram(out, row->name, json_array_get(users, n++),
						&times->users[i].times[which]);
	}
}

static void print_workers(const struct openmetrics *out, const struct board *board)
{
	_cleanup_json_ json_t *rows = rows_workers(board);
	json_t *row;
	size_t i;

	json_array_foreach(rows, i, row)
	{
		const char *state = json_string_value(json_object_get(row, "state"));

		(void)json_object_set_new(row, "running", json_integer(streq(state, "running")));
	}
	print_families(out, rows, of_worker, worker_labels);
}

void metrics_print(const struct board *board, FILE *file, int openmetrics)
{
	const struct openmetrics sink = { file, openmetrics }, *out = &sink;
	_cleanup_json_ json_t *counters = rows_counters(board);
	_cleanup_json_ json_t *clients = rows_clients(board, ROWS_ALL);
	_cleanup_json_ json_t *quarantine = rows_quarantine(board);
	const json_t *row;
	size_t i;

	print_version(out, board);
	print_one(out, rows_manager(board), of_manager);
	print_one(out, rows_pool(board), of_pool);
	print_one(out, rows_connections(board), of_connections);
	print_one(out, json_pack("{s:o}", "n", out_number(json_array_size(quarantine))),
		  of_quarantine);
	print_workers(out, board);
	json_array_foreach(counters, i, row) print_counter(out, row);
	print_times(out, board);
	print_families(out, clients, of_client, client_labels);
	if (openmetrics)
		(void)fputs("# EOF\n", file);
}
