/* SPDX-License-Identifier: MIT */
/*
 * task.c - finds tasks by their names
 *
 * INVARIANTS
 *   I1. A task in the list never changes and stays until fk_close(). New ones go to the front.
 *   I2. The hash of its name and signature identifies a task. Its index on the board is a hint: a
 *       new pool may have other modules, and other tasks at that index. Each submission compares
 *       the hashes here, and the pool compares them again.
 */
#include "client/lib/client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/relaxed.h"

int task_check(const struct fk_client *client, const fk_task *task)
{
	const struct board_task *entry = &client->board->tasks[task->index];

	/* ORDER board/tasks [B1]: acquire, a task that is not gone is callable. Pairs with
	 * module_write_entry(). It may be removed after this check; the pool compares the hash. */
	uint32_t flags = atomic_load_explicit(&entry->flags, memory_order_acquire);

	if (load_relaxed(&entry->hash) != task->hash || flags & TASK_GONE)
		return -FK_E_TASK_GONE;
	return 0;
}

/* Finds a task of the list that the board still has, or NULL. */
static const fk_task *known_task(fk_client *client, const char *name)
{
	/* ORDER tasks/add [C3]: acquire, so that the task is seen whole. Pairs with the release in
	 * add_task(). */
	const struct fk_client_task *task =
		atomic_load_explicit(&client->tasks, memory_order_acquire);

	for (; task; task = task->next)
		if (!strcmp(task->name, name) && !task_check(client, task))
			return task;
	return NULL;
}

const fk_task *task_of_hash(const struct fk_client *client, uint64_t hash)
{
	/* ORDER tasks/add [C3]: acquire, so that the task is seen whole. Pairs with the release in
	 * add_task(). */
	const struct fk_client_task *task =
		atomic_load_explicit(&client->tasks, memory_order_acquire);

	while (task && task->hash != hash)
		task = task->next;
	return task;
}

/* Adds the task of a board entry to the list. name: the expected name, or NULL for any. */
static int add_task(fk_client *client, uint32_t index, const char *name, const fk_task **ret_task)
{
	const struct board_task *entry = &client->board->tasks[index];
	_cleanup_free_ struct fk_client_task *task = NULL;
	int err;

	task = calloc(1, sizeof(*task));
	if (!task)
		return -ENOMEM;
	task->index = index;
	memcpy(task->name, entry->name, sizeof(entry->name));
	memcpy(task->text, entry->signature, sizeof(entry->signature));
	memcpy(task->help, entry->help, sizeof(entry->help));
	/* The hash of the copy: a new pool with other modules may be writing the entry (I2). */
	task->hash = signature_hash(task->name, task->text);
	if ((name && strcmp(task->name, name) != 0) || task_check(client, task))
		return -FK_E_NO_TASK;
	err = signature_parse(task->text, &task->signature, NULL);
	if (err)
		return -FK_E_TASK_UNREADABLE;
	task->types = args_types(&task->signature);
	task->next = load_relaxed(&client->tasks);
	/* ORDER tasks/add [C3]: release, the task is whole. Pairs with known_task() and
	 * task_of_hash(). */
	atomic_store_explicit(&client->tasks, task, memory_order_release);
	*ret_task = steal_ptr(task);
	return 0;
}

/* Asks the machines of a cluster for a task; NULL: for all. Returns 0, or an error with details. */
static int ask_cluster(fk_client *client, const char *name)
{
	const struct waker_local *local = client->waker.local;
	char text[CLIENT_TEXT] = "";
	int err;

	if (!local || !local->cluster)
		return 0;
	err = local->cluster->find(&client->waker, name, text, sizeof(text));
	return err ? error_detail(err, "%s", text) : 0;
}

static int find_task(fk_client *client, const char *name, const fk_task **ret_task)
{
	int index = board_find_task(client->board, name);
	int err = index < 0 ? ask_cluster(client, name) : 0;

	if (err)
		return err;
	if (index < 0)
		index = board_find_task(client->board, name);
	return index < 0 ? -FK_E_NO_TASK : add_task(client, (uint32_t)index, name, ret_task);
}

int fk_task_find(fk_client *client, const char *name, const fk_task **ret_task)
{
	const fk_task *task;
	int err = client_check(client);

	if (err)
		return err;
	task = known_task(client, name);
	if (!task) {
		pthread_mutex_lock(&client->tasks_lock);
		/* Another thread may have added it. */
		task = known_task(client, name);
		err = task ? 0 : find_task(client, name, &task);
		pthread_mutex_unlock(&client->tasks_lock);
	}
	if (err)
		return error_of_task(client, err, name);
	*ret_task = task;
	return 0;
}

/* Finds the task of the list that the board has at this index, or NULL. With the lock held. */
static const fk_task *task_at(fk_client *client, uint32_t index)
{
	const struct fk_client_task *task = load_relaxed(&client->tasks);

	while (task && (task->index != index || task_check(client, task)))
		task = task->next;
	return task;
}

int task_own(fk_client *client, uint32_t index, const fk_task **ret_task)
{
	/* ORDER tasks/add [C3]: acquire, so that the task is seen whole. Pairs with the release
	 * below. */
	const fk_task *task = atomic_load_explicit(&client->own_tasks[index], memory_order_acquire);
	int err = 0;

	if (unlikely(!task)) {
		pthread_mutex_lock(&client->tasks_lock);
		task = task_at(client, index);
		if (!task)
			err = add_task(client, index, NULL, &task);
		/* ORDER tasks/add [C3]: release, the task is whole. Pairs with the acquire
		 * above. */
		atomic_store_explicit(&client->own_tasks[index], task, memory_order_release);
		pthread_mutex_unlock(&client->tasks_lock);
	}
	*ret_task = task;
	return err;
}

int fk_task_next(fk_client *client, const fk_task **task)
{
	const fk_task *next = NULL;
	uint32_t index = *task ? (*task)->index + 1 : client_own_tasks(client);
	int err = client_check(client);
	uint32_t n;

	if (!err && !*task)
		err = ask_cluster(client, NULL);
	if (err)
		return error_of_task(client, err, "");
	err = -FK_E_NO_MORE_TASKS;
	/* ORDER board/tasks [B1]: acquire, an entry is complete before it is counted. Pairs with
	 * module_write_entry(). */
	n = min(atomic_load_explicit(&client->board->n_tasks, memory_order_acquire), LIMIT_TASKS);
	pthread_mutex_lock(&client->tasks_lock);
	/* Skip entries that are gone, or that are being written for another module. */
	for (; index < n && err != 0 && err != -ENOMEM; index++) {
		next = task_at(client, index);
		err = next ? 0 : add_task(client, index, NULL, &next);
	}
	pthread_mutex_unlock(&client->tasks_lock);
	if (!err)
		*task = next;
	return err && err != -ENOMEM ? -FK_E_NO_MORE_TASKS : err;
}

const char *fk_task_name(const fk_task *task)
{
	return task->name;
}

const char *fk_task_signature(const fk_task *task)
{
	return task->text;
}

const char *fk_task_help(const fk_task *task)
{
	return task->help;
}

size_t fk_task_args_size(const fk_task *task)
{
	return task->signature.args_size;
}

size_t fk_task_result_size(const fk_task *task)
{
	return task->signature.results_size;
}
