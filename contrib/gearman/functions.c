/* SPDX-License-Identifier: MIT */
/* functions.c - reads the board's tasks, and from the client's segment which of them are denied */
#include "contrib/gearman/functions.h"

#include <fnmatch.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "client/forkctl/output.h"
#include "client/lib/client_state.h"
#include "common/log.h"
#include "common/relaxed.h"
#include "common/util.h"

/* Relaxed throughout: a task may go at any time, and a job that calls it then fails. */

static int is_denied(const fk_client *client, uint32_t index)
{
	return (int)(load_relaxed(&client->segment->denied[index / 64]) >> index % 64 & 1);
}

int functions_denied(const fk_client *client, const fk_task *task)
{
	return is_denied(client, task->index);
}

/* Adds a word to a hash: FNV-1a, with words for bytes. */
static uint64_t mark_add(uint64_t mark, uint64_t word)
{
	return (mark ^ word) * UINT64_C(0x100000001b3);
}

uint64_t functions_mark(const fk_client *client)
{
	const struct board *board = client->board;
	/* ORDER board/tasks [B1]: acquire, so that the entries are complete (board.h, I2). */
	uint32_t n = min(atomic_load_explicit(&board->n_tasks, memory_order_acquire), LIMIT_TASKS);
	uint64_t mark = UINT64_C(0xcbf29ce484222325);

	for (uint32_t i = 0; i < n; i++) {
		if (load_relaxed(&board->tasks[i].flags) & TASK_GONE || is_denied(client, i))
			continue;
		mark = mark_add(mark, i);
		mark = mark_add(mark, load_relaxed(&board->tasks[i].hash));
	}
	return mark | 1; /* 0 is no mark */
}

/* The number of bytes of "MODULE:" in a name. */
static size_t module_size(const char *name)
{
	return strcspn(name, ":") + 1;
}

static void add_module(struct functions *functions, const char *task)
{
	size_t n = module_size(task);

	for (uint32_t i = 0; i < functions->n_modules; i++)
		if (!strncmp(functions->modules[i], task, n))
			return;
	memcpy(functions->modules[functions->n_modules++], task, n);
}

struct functions *functions_read(fk_client *client)
{
	struct functions *functions = calloc(1, sizeof(*functions));
	const fk_task *task = NULL;

	if (!functions)
		return NULL;
	/* Read first: a later change of tasks changes the mark. */
	functions->mark = functions_mark(client);
	while (functions->n_tasks < LIMIT_TASKS && !fk_task_next(client, &task)) {
		if (functions_denied(client, task))
			continue;
		memcpy(functions->tasks[functions->n_tasks++], task->name, sizeof(task->name));
		add_module(functions, task->name);
	}
	return functions;
}

static bool matches_a_task(const struct functions *functions, const char *pattern)
{
	for (uint32_t i = 0; i < functions->n_tasks; i++)
		if (!fnmatch(pattern, functions->tasks[i], 0))
			return true;
	return false;
}

void functions_check_patterns(const struct functions *functions,
			      const struct gateway_options *options)
{
	for (uint32_t i = 0; i < options->n_idempotent; i++)
		if (!matches_a_task(functions, options->idempotent[i]))
			log_warning("--idempotent=%s matches no task that this user may call: "
				    "`forkctl tasks` lists them",
				    options->idempotent[i]);
}

char *functions_list(fk_client *client, const char *module, uint32_t jobs)
{
	_cleanup_json_ json_t *list = json_array();
	const fk_task *task = NULL;
	size_t n = strlen(module);

	while (!fk_task_next(client, &task)) {
		if (strncmp(task->name, module, n) != 0 || functions_denied(client, task))
			continue;
		(void)json_array_append_new(list,
					    json_pack("{s:s, s:s, s:o, s:i}", "name", task->name,
						      "signature", task->text, "help",
						      out_text(task->help, sizeof(task->help)),
						      "jobs", (int)jobs));
	}
	return json_dumps(list, JSON_COMPACT);
}
