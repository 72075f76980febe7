/* SPDX-License-Identifier: MIT */
/*
 * crashes.c - forkctl crashes: how pools have died, and which job is blamed
 *
 * They are read from the board, the newest last. A crash during the read may overwrite the oldest
 * row.
 */
#include "client/forkctl/common.h"
#include "client/forkctl/forkctl.h"
#include "client/forkctl/listing.h"
#include "client/lib/client_state.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client/forkctl/board_rows.h"
#include "common/util.h"

static const struct out_column crashes_columns[] = {
	{ "time_ns", "WHEN", OUT_DATE },
	{ "pool_pid", "POOL", OUT_NUMBER },
	{ "cause", "CAUSE", OUT_TEXT },
	{ "end", "END", OUT_TEXT },
	{ "address", "ADDRESS", OUT_HEX },
	{ "worker", "WORKER", OUT_NUMBER },
	{ "pid", "PID", OUT_NUMBER },
	{ "uid", "UID", OUT_NUMBER },
	{ "id", "JOB", OUT_TEXT },
	{ "lost", "LOST", OUT_NUMBER },
	{ "requeued", "REQUEUED", OUT_NUMBER },
	{ "task", "TASK", OUT_TEXT },
	{ "inner", "INNER", OUT_TEXT },
	{ "fiber", "FIBER", OUT_TEXT },
	{ "code", "CODE", OUT_TEXT },
	{ NULL },
};

/* The end of the pool: "SEGV", "exit 3". */
static json_t *crash_end(const struct board_crash *crash)
{
	const char *name = crash->signo ? sigabbrev_np((int)crash->signo) : NULL;
	char text[32];

	if (name)
		return out_text(name, SIZE_MAX);
	(void)snprintf(text, sizeof(text), crash->signo ? "signal %d" : "exit %d",
		       crash->signo ? (int)crash->signo : (int)crash->status);
	return out_text(text, sizeof(text));
}

/* The cause, as far as it is known. */
static const char *crash_cause(const struct board_crash *crash)
{
	static const char *const causes[] = {
		[CRASH_FAULT] = "fault",  [CRASH_EXIT] = "exit", [CRASH_SIGNAL] = "outside",
		[CRASH_ENDED] = "itself", [CRASH_HANG] = "hang", [CRASH_STACK] = "stack",
	};

	return crash->reason && crash->reason < ARRAY_SIZE(causes) ? causes[crash->reason] : "?";
}

/* A name, or null. size: of its field, bytes. */
static json_t *crash_name(const char *name, size_t size)
{
	return name[0] ? out_text(name, size) : json_null();
}

/* The most telling place, as text; or null. */
static json_t *crash_code(const struct backtrace *trace)
{
	const struct backtrace_place *best = backtrace_best(trace);
	char text[BACKTRACE_TEXT];

	if (!best)
		return json_null();
	backtrace_print(best, text, sizeof(text));
	return out_text(text, sizeof(text));
}

static json_t *crash_trace(const struct backtrace *trace)
{
	json_t *places = json_array();

	for (uint32_t i = 0; i < backtrace_count(trace); i++) {
		const struct backtrace_place *place = &trace->places[i];

		(void)json_array_append_new(
			places, json_pack("{s:o, s:o, s:o}", "object",
					  crash_name(place->object, sizeof(place->object)),
					  "offset", out_number(place->offset), "function",
					  crash_name(place->function, sizeof(place->function))));
	}
	return places;
}

static json_t *crash_row(const struct board_crash *c)
{
	json_t *row = json_pack("{s:o, s:o, s:s, s:o, s:o, s:o}", "time_ns", out_number(c->time_ns),
				"pool_pid", out_number(c->pid), "cause", crash_cause(c), "end",
				crash_end(c), "address",
				c->address ? out_number(c->address) : json_null(), "worker",
				out_index(c->worker));
	json_t *blame =
		c->client_pid
			? json_pack("{s:o, s:o, s:o, s:o, s:o}", "pid", out_number(c->client_pid),
				    "uid", out_number(c->uid), "id",
				    json_sprintf("%" PRIu32 ".%" PRIu64, c->client, c->job),
				    "client", out_number(c->client), "job", out_number(c->job))
			: json_pack("{s:n, s:n, s:n, s:n, s:n}", "pid", "uid", "id", "client",
				    "job");
	json_t *cost = json_pack("{s:o, s:o}", "lost", out_number(c->lost), "requeued",
				 out_number(c->requeued));
	json_t *code =
		json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "task",
			  crash_name(c->task, sizeof(c->task)), "inner",
			  crash_name(c->inner, sizeof(c->inner)), "fiber",
			  crash_name(c->fiber, sizeof(c->fiber)), "code", crash_code(&c->trace),
			  "backtrace", crash_trace(&c->trace), "stack_size",
			  c->stack_size ? out_number(c->stack_size) : json_null());

	(void)json_object_update_new(row, blame);
	(void)json_object_update_new(row, cost);
	(void)json_object_update_new(row, code);
	return row;
}

json_t *rows_crashes(const struct board *board)
{
	/* ORDER board/crashes [B2]: acquire, so that the entries are complete. Pairs with the
	 * release in pool_segments_crashed(). */
	uint64_t n = atomic_load_explicit(&board->manager.crashes, memory_order_acquire);
	json_t *rows = json_array();

	for (uint64_t i = n > LIMIT_CRASHES ? n - LIMIT_CRASHES : 0; i < n; i++)
		(void)json_array_append_new(rows, crash_row(&board->crashes[i % LIMIT_CRASHES]));
	return rows;
}

int forkctl_crashes(const char *socket, int argc, char *argv[])
{
	_cleanup_json_ json_t *rows = NULL;
	fk_client *client;
	struct listing l;
	int err = listing_open(socket, forkctl_table_options, false, argc, argv, &l, &client);

	if (err)
		return err;
	rows = rows_crashes(client->board);
	(void)fk_close(client);
	if (l.json)
		return out_print_json(json_pack("{s:O}", "crashes", rows), 2);
	listing_print(&l, "", rows, crashes_columns);
	return FORKCTL_OK;
}
