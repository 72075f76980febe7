/* SPDX-License-Identifier: MIT */
/*
 * counters.c - forkctl counters: each counter as a sum, for the pool's own threads, and per worker;
 * wait times and run times of users' jobs; CPU time per client
 *
 * The rows come from shm/counters.def and shm/times.def. The values are not read at one time.
 * OpenMetrics: counters_openmetrics.c. Changes per second: counters_watch.c.
 */
#include "client/forkctl/counters.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/forkctl/common.h"
#include "client/forkctl/forkctl.h"
#include "client/forkctl/listing.h"
#include "client/forkctl/openmetrics.h"
#include "client/lib/client_state.h"
#include "client/forkctl/board_rows.h"
#include "client/forkctl/job_times.h"
#include "common/util.h"

#define COUNTERS_COLUMNS 16u /* no columns of workers if there are more */
#define COUNTERS_FIXED	 4u

struct counters_options {
	struct listing listing;
	int openmetrics;
	int http;
	struct forkctl_limit watch;
	struct forkctl_limit duration;
	uint32_t count;
};

const struct forkctl_option forkctl_counters_options[] = {
	LISTING_JSON(offsetof(struct counters_options, listing)),
	LISTING_NO_HEADER(offsetof(struct counters_options, listing)),
	{ "", "--openmetrics", NULL, "Print OpenMetrics text, for Prometheus", FORKCTL_FLAG,
	  offsetof(struct counters_options, openmetrics), 0, 0 },
	{ "", "--http", NULL, "With --openmetrics: answer one HTTP request on standard input",
	  FORKCTL_FLAG, offsetof(struct counters_options, http), 0, 0 },
	{ "-w", "--watch", "TIME", "Print rates per second, repeatedly (default interval: 1s)",
	  FORKCTL_SECONDS, offsetof(struct counters_options, watch), 1000000,
	  UINT64_C(86400000000000), "1" },
	{ "-n", "--count", "N", "Stop --watch after N times (default: never)", FORKCTL_NUMBER,
	  offsetof(struct counters_options, count), 1, UINT32_MAX },
	{ "", "--duration", "TIME", "Stop --watch after this time (default: never)",
	  FORKCTL_SECONDS, offsetof(struct counters_options, duration), 1, UINT64_MAX },
	{ 0 },
};

static const struct out_column counters_fixed[COUNTERS_FIXED] = {
	{ "name", "COUNTER", OUT_TEXT },
	{ "unit", "UNIT", OUT_TEXT },
	{ "sum", "SUM", OUT_NUMBER },
	{ "pool", "POOL", OUT_NUMBER },
};

static const struct out_column counters_clients[] = {
	{ "pid", "PID", OUT_TEXT },
	{ "command", "COMMAND", OUT_TEXT },
	{ "jobs", "JOBS", OUT_NUMBER },
	{ "failed", "FAILED", OUT_NUMBER },
	{ "refused", "REFUSED", OUT_NUMBER },
	{ "run_ns", "RUN", OUT_TIME },
	{ "wait_ns", "WAIT", OUT_TIME },
	{ "state", "STATE", OUT_TEXT },
	{ NULL },
};

static const struct out_column counters_users[] = {
	{ "user", "USER", OUT_TEXT },
	{ "started", "STARTED", OUT_NUMBER },
	{ "dropped", "DROPPED", OUT_NUMBER },
	{ "failed_by_manager", "FAILED BY MANAGER", OUT_NUMBER },
	{ "age_ns", "KNOWN FOR", OUT_TIME },
	{ NULL },
};

static const struct out_column counters_times[] = {
	{ "user", "USER", OUT_TEXT },
	{ "time", "TIME", OUT_TEXT },
	{ "jobs", "JOBS", OUT_NUMBER },
	{ "sum_ns", "SUM", OUT_TIME },
	{ "p50_ns", "P50", OUT_TIME },
	{ "p90_ns", "P90", OUT_TIME },
	{ "p99_ns", "P99", OUT_TIME },
	{ "max_ns", "MAX", OUT_TIME },
	{ NULL },
};

static void print_counters(const struct board *board, const json_t *counters,
			   const struct listing *l)
{
	struct out_column columns[COUNTERS_FIXED + COUNTERS_COLUMNS + 1] = { 0 };
	uint32_t n = min(board->manager.n_workers, LIMIT_WORKERS);
	char titles[COUNTERS_COLUMNS][24];

	memcpy(columns, counters_fixed, sizeof(counters_fixed));
	for (uint32_t w = 0; n <= COUNTERS_COLUMNS && w < n; w++) {
		(void)snprintf(titles[w], sizeof(titles[w]), "WORKER %" PRIu32, w);
		columns[COUNTERS_FIXED + w] =
			(struct out_column){ "workers", titles[w], OUT_NUMBER, w + 1 };
	}
	listing_print(l, "", counters, columns);
}

static int counters_print(const struct board *board, const struct listing *l)
{
	_cleanup_json_ json_t *counters = rows_counters(board);
	_cleanup_json_ json_t *clients = rows_clients(board, ROWS_ALL);
	_cleanup_free_ struct times *times = times_new();
	_cleanup_json_ json_t *users = NULL, *rows = NULL;

	times_read(times, board);
	users = times_users(times);
	rows = times_rows(times, 0, false);
	if (l->json)
		return out_print_json(json_pack("{s:O, s:O, s:O, s:O}", "counters", counters,
						"users", users, "times", rows, "clients", clients),
				      2);
	print_counters(board, counters, l);
	listing_print(l, "\n", users, counters_users);
	listing_print(l, "\n", rows, counters_times);
	listing_print(l, "\n", clients, counters_clients);
	return FORKCTL_OK;
}

/* Answers one HTTP request for the metrics. Returns an exit code. */
static int counters_http(const char *socket)
{
	struct fk_open_options options = { .n_jobs = 1, .heap_size = FORKCTL_HEAP_SMALL };
	struct http_request request = http_read(STDIN_FILENO);
	_cleanup_free_ char *body = NULL;
	int r, status = FORKCTL_OK;
	fk_client *client;
	size_t size = 0;
	FILE *out;

	(void)signal(SIGPIPE, SIG_IGN);
	if (request.status == 200 && fk_open(socket, &options, &client)) {
		status = forkctl_fail(FORKCTL_NO_DAEMON, "%s", fk_error_text());
		request.status = 503;
	}
	if (request.status != 200) {
		r = http_answer(STDOUT_FILENO, &request, NULL, NULL, 0);
		return r < 0 ? FORKCTL_FAILED : status;
	}
	out = open_memstream(&body, &size);
	if (out)
		metrics_print(client->board, out, request.openmetrics);
	(void)fk_close(client);
	if (!out || fclose(out) != 0)
		return forkctl_fail(FORKCTL_FAILED, "out of memory");
	r = http_answer(STDOUT_FILENO, &request, openmetrics_media_type(request.openmetrics), body,
			size);
	return r < 0 ? forkctl_fail(FORKCTL_FAILED, "cannot write the HTTP response: %s",
				    strerror(-r))
		     : FORKCTL_OK;
}

/* Reads the options, and checks that they can be combined. Returns 0 or an exit code. */
static int counters_parse(struct counters_options *o, int argc, char *argv[])
{
	int err = forkctl_options(forkctl_counters_options, o, &argc, argv);

	if (!err)
		err = listing_check(&o->listing, argv[0]);
	if (err)
		return err;
	if (argc > 1)
		return forkctl_fail(FORKCTL_USAGE, "counters takes no arguments, not %s", argv[1]);
	if (o->openmetrics && (o->listing.json || o->watch.text))
		return forkctl_fail(FORKCTL_USAGE, "--openmetrics and --%s are mutually exclusive",
				    o->listing.json ? "json" : "watch");
	if (o->http && !o->openmetrics)
		return forkctl_fail(FORKCTL_USAGE, "--http requires --openmetrics");
	if ((o->count || o->duration.text) && !o->watch.text)
		return forkctl_fail(FORKCTL_USAGE, "--%s requires --watch",
				    o->count ? "count" : "duration");
	if (o->count && o->duration.text)
		return forkctl_fail(FORKCTL_USAGE, "--count and --duration are mutually exclusive");
	o->count += forkctl_intervals(&o->duration, o->watch.text ? o->watch.ns : 1);
	return 0;
}

int forkctl_counters(const char *socket, int argc, char *argv[])
{
	struct counters_options o = { 0 };
	fk_client *client;
	int err = counters_parse(&o, argc, argv);

	if (err)
		return err;
	if (o.http)
		return counters_http(socket);
	err = forkctl_open_machine(socket, 1, FORKCTL_HEAP_SMALL, &client);
	if (err)
		return err;
	if (o.openmetrics)
		metrics_print(client->board, stdout, 1);
	else if (o.watch.text)
		err = watch_run(client, o.watch.ns, o.count, o.listing.json);
	else
		err = counters_print(client->board, &o.listing);
	(void)fk_close(client);
	return err;
}
