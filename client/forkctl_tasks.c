/* SPDX-License-Identifier: MIT */
/* client/forkctl_tasks.c - forkctl tasks: what the modules offer, from the board */
#include "client/forkctl.h"

#include <stdio.h>
#include <string.h>

#include "common/util.h"

int forkctl_tasks(const char *socket, int argc, char *argv[])
{
	fk_client *client;
	uint32_t n;
	int name_width = 4;
	int signature_width = 9;
	int err = forkctl_look(socket, argc, argv, &client);

	if (err)
		return err;
	/* ORDER board/tasks [B1]: acquire, so that the entries are complete (board.h, I2). */
	n = min(atomic_load_explicit(&client->board->n_tasks, memory_order_acquire), LIMIT_TASKS);
	for (uint32_t i = 0; i < n; i++) {
		const struct board_task *task = &client->board->tasks[i];

		name_width = max(name_width, (int)strnlen(task->name, sizeof(task->name)));
		signature_width = max(signature_width,
				      (int)strnlen(task->signature, sizeof(task->signature)));
	}
	printf("%-*s  %-*s  %s\n", name_width, "TASK", signature_width, "SIGNATURE", "HELP");
	for (uint32_t i = 0; i < n; i++) {
		const struct board_task *task = &client->board->tasks[i];

		/* Relaxed: a task may go at any time. */
		if (atomic_load_explicit(&task->flags, memory_order_relaxed) & TASK_GONE)
			continue;
		printf("%-*s  %-*s  %s\n", name_width, task->name, signature_width, task->signature,
		       task->help);
	}
	(void)fk_close(client);
	return FORKCTL_OK;
}
