/* SPDX-License-Identifier: MIT */
/*
 * task_rules.c - compares the patterns of the option allow-tasks with the loaded tasks
 *
 * A pattern that matches no task is most likely a mistake: its user may call fewer tasks than
 * intended. It cannot be an error, because modules come and go without changes of forkd.conf.
 */
#include "daemon/manager/task_rules.h"

#include <fnmatch.h>
#include <string.h>

#include "common/log.h"
#include "common/options.h"
#include "common/relaxed.h"
#include "common/util.h"
#include "shm/board.h"
#include "shm/limits.h"

static bool task_rules_fit(const char *pattern, const struct board *board, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		char name[sizeof(board->tasks[i].name)];

		/* Relaxed: the pool has loaded its modules. */
		if (load_relaxed(&board->tasks[i].flags) & TASK_GONE)
			continue;
		/* The pool writes there, and so may its tasks. */
		memcpy(name, board->tasks[i].name, sizeof(name));
		name[sizeof(name) - 1] = '\0';
		if (!fnmatch(pattern, name, 0))
			return true;
	}
	return false;
}

void task_rules_look(const struct options *options, const struct board *board)
{
	const struct options_list *tasks = options->allow_tasks;
	/* ORDER board/tasks [B1]: acquire, so that the entries are complete (board.h, I2). */
	uint32_t n = min(atomic_load_explicit(&board->n_tasks, memory_order_acquire), LIMIT_TASKS);

	for (uint32_t i = 0; n && tasks && i < tasks->n; i++)
		if (!task_rules_fit(tasks->entries[i].task, board, n))
			log_warning(
				"%s: allow-tasks: \"%s\" matches no task of any module: `forkctl "
				"tasks` lists their names",
				tasks->entries[i].where, tasks->entries[i].task);
}
