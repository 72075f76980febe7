/* SPDX-License-Identifier: MIT */
/*
 * tasks.c - forkctl tasks: lists the tasks of the modules, and marks those the caller may not call
 *
 * The tasks and the quarantine are read from the board, the effect of the option allow-tasks from
 * the connection's segment.
 */
#include "client/forkctl/common.h"
#include "client/forkctl/forkctl.h"
#include "client/forkctl/listing.h"
#include "client/lib/client_state.h"
#include "client/lib/connect.h"
#include "common/relaxed.h"

#include <string.h>
#include <unistd.h>

#include "client/forkctl/board_rows.h"
#include "common/util.h"

static const struct out_column tasks_columns[] = {
	{ "task", "TASK", OUT_TEXT },
	{ "signature", "SIGNATURE", OUT_TEXT },
	{ "help", "HELP", OUT_TEXT },
	{ NULL },
};

/* Relaxed throughout: for display, and a task may go at any time. */

static int is_quarantined(const struct board *board, const struct board_task *task, uint32_t uid)
{
	for (uint32_t i = 0; i < LIMIT_QUARANTINE; i++) {
		const struct board_quarantine *q = &board->quarantine[i];

		if (load_relaxed(&q->until_ns) && load_relaxed(&q->uid) == uid &&
		    (!q->task[0] || !strncmp(q->task, task->name, sizeof(q->task))))
			return 1;
	}
	return 0;
}

static json_t *task_row(const fk_client *client, uint32_t index)
{
	const struct board_task *task = &client->board->tasks[index];
	uint64_t denied = load_relaxed(&client->segment->denied[index / 64]);
	uint32_t flags = load_relaxed(&task->flags);

	json_t *row = json_pack("{s:o, s:o, s:o, s:b, s:b, s:b}", "task",
				out_text(task->name, sizeof(task->name)), "signature",
				out_text(task->signature, sizeof(task->signature)), "help",
				out_text(task->help, sizeof(task->help)), "denied",
				(int)(denied >> index % 64 & 1), "quarantined",
				is_quarantined(client->board, task, geteuid()), "in_place",
				(flags & TASK_IN_PLACE) != 0);

	(void)json_object_update_new(row, rows_load(client->board, index));
	return row;
}

static json_t *task_rows(const fk_client *client)
{
	/* ORDER board/tasks [B1]: acquire, so that the entries are complete (board.h, I2). */
	uint32_t n = min(atomic_load_explicit(&client->board->n_tasks, memory_order_acquire),
			 LIMIT_TASKS);
	json_t *rows = json_array();

	for (uint32_t i = 0; i < n; i++)
		if (!(load_relaxed(&client->board->tasks[i].flags) & TASK_GONE))
			(void)json_array_append_new(rows, task_row(client, i));
	return rows;
}

/* Puts a mark before the help of a task that the caller may not call. */
static void mark(json_t *row)
{
	const char *help = json_string_value(json_object_get(row, "help"));
	const char *why = json_is_true(json_object_get(row, "denied"))	    ? "(denied) "
			: json_is_true(json_object_get(row, "quarantined")) ? "(in quarantine) "
									    : "";

	(void)json_object_set_new(row, "help", json_sprintf("%s%s", why, help));
}

const struct forkctl_option forkctl_tasks_options[] = {
	LISTING_JSON(0),
	LISTING_NO_HEADER(0),
	LISTING_QUIET(0),
	{ 0 },
};

int forkctl_tasks(const char *socket, int argc, char *argv[])
{
	_cleanup_json_ json_t *rows = NULL;
	fk_client *client;
	json_t *row;
	struct listing l;
	int err = listing_parse(forkctl_tasks_options, true, argc, argv, &l);
	const fk_task *first = NULL;
	size_t i;

	if (!err)
		err = forkctl_open(socket, 1, FORKCTL_HEAP_SMALL, &client);
	if (err)
		return err;
	/* Enters the tasks of a cluster into the board. */
	err = fk_task_next(client, &first);
	if (err && err != -FK_E_NO_MORE_TASKS) {
		(void)fk_close(client);
		return forkctl_fail(FORKCTL_NO_DAEMON, "%s", fk_error_text());
	}
	if (err && client->waker.local) {
		(void)fk_close(client);
		return forkctl_fail(FORKCTL_FAILED,
				    "no gateway is connected to %s: start forkd-gearman on the "
				    "machines that are to run tasks",
				    connect_path(socket));
	}
	rows = task_rows(client);
	listing_select(&l, rows, "task");
	(void)fk_close(client);
	if (l.json)
		return out_print_json(json_pack("{s:O}", "tasks", rows), 2);
	json_array_foreach(rows, i, row) mark(row);
	listing_print(&l, "", rows, tasks_columns);
	return FORKCTL_OK;
}
