/* SPDX-License-Identifier: MIT */
/*
 * client/forkctl_tasks.c - forkctl tasks: what the modules offer, and what of it the caller may not
 * call
 *
 * Tasks and quarantine come from the board, what the option tasks says from the connection's own
 * segment.
 */
#include "client/forkctl.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/util.h"

/* Relaxed throughout: for display, and a task may go at any time. */

static int is_quarantined(const struct board *board, const struct board_task *task, uint32_t uid)
{
	for (uint32_t i = 0; i < LIMIT_QUARANTINE; i++) {
		const struct board_quarantine *q = &board->quarantine[i];

		if (atomic_load_explicit(&q->until_ns, memory_order_relaxed) &&
		    atomic_load_explicit(&q->uid, memory_order_relaxed) == uid &&
		    (!q->task[0] || !strncmp(q->task, task->name, sizeof(q->task))))
			return 1;
	}
	return 0;
}

/* What stands in front of the help. */
static const char *mark_of(const fk_client *client, uint32_t index)
{
	const struct board_task *task = &client->board->tasks[index];
	uint64_t denied =
		atomic_load_explicit(&client->segment->denied[index / 64], memory_order_relaxed);

	if (denied >> index % 64 & 1)
		return "(denied) ";
	return is_quarantined(client->board, task, geteuid()) ? "(in quarantine) " : "";
}

static void print_tasks(const fk_client *client)
{
	/* ORDER board/tasks [B1]: acquire, so that the entries are complete (board.h, I2). */
	uint32_t n = min(atomic_load_explicit(&client->board->n_tasks, memory_order_acquire),
			 LIMIT_TASKS);
	int name_width = 4;
	int signature_width = 9;

	for (uint32_t i = 0; i < n; i++) {
		const struct board_task *task = &client->board->tasks[i];

		name_width = max(name_width, (int)strnlen(task->name, sizeof(task->name)));
		signature_width = max(signature_width,
				      (int)strnlen(task->signature, sizeof(task->signature)));
	}
	printf("%-*s  %-*s  %s\n", name_width, "TASK", signature_width, "SIGNATURE", "HELP");
	for (uint32_t i = 0; i < n; i++) {
		const struct board_task *task = &client->board->tasks[i];

		if (atomic_load_explicit(&task->flags, memory_order_relaxed) & TASK_GONE)
			continue;
		printf("%-*s  %-*s  %s%s\n", name_width, task->name, signature_width,
		       task->signature, mark_of(client, i), task->help);
	}
}

int forkctl_tasks(const char *socket, int argc, char *argv[])
{
	fk_client *client;
	int err = forkctl_look(socket, argc, argv, &client);

	if (err)
		return err;
	print_tasks(client);
	(void)fk_close(client);
	return FORKCTL_OK;
}
