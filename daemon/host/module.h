/* SPDX-License-Identifier: MIT */
/*
 * module.h - modules: shared objects with tasks in them
 *
 * Threads: modules_load(): the pool's main thread, before workers start. modules_join(),
 * modules_enter(): the same thread, which is the channel's, while workers run. Workers read tasks.
 * The rest: any.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>
#include <sys/stat.h>

#include <forkd/task.h>

#include "shm/board.h"
#include "shm/signature.h"

/* What is at a place of the table. */
#define MODULE_NONE	0u
#define MODULE_GONE	1u /* a task of an earlier pool, or one that no client may call yet */
#define MODULE_CALLABLE 2u

struct module_task {
	const struct fk_export *export;
	struct signature signature;
	uint64_t hash;
	/* MODULE:TASK and the signature, as on the board, where tasks can write. */
	char name[sizeof(((struct board_task *)NULL)->name)];
	char text[sizeof(((struct board_task *)NULL)->signature)];
	_Atomic uint32_t state; /* MODULE_*; the last member: module.c, J1 */
};

struct modules {
	uint32_t n_tasks;    /* places up to the last task; one without export has none */
	uint32_t n_left_out; /* modules that were, or of which a task was */
	uint64_t version;    /* of all files: another, if any of them is */
	uint64_t joinable;   /* the same of those files alone that modules_join() may load */
	uint32_t n_files;    /* that were there; of those that fit in files the hash */
	uint64_t files[LIMIT_TASKS];
	struct module_task tasks[LIMIT_TASKS]; /* in the places that they have on the board */
};

/*
 * Loads every NAME.so of a folder and enters its tasks on the board, which another pool may have
 * had. A module that cannot be loaded is logged, one line that says what to do, and left out.
 * Returns the number of modules, or a negative errno for the folder (EPERM: it is not safe).
 */
int modules_load(struct modules *modules, struct board *board, const char *folder);

/*
 * Adds the tasks of a module, which have no places yet. Returns 0, or the first error with one line
 * for it in ret_error; the other tasks are added all the same. modules: as modules_load() has it,
 * n_tasks 0 before the first.
 */
int modules_add(struct modules *modules, const struct fk_module *module, char *ret_error,
		uint64_t size);

/*
 * All that were added get their places, here and on the board, and what stands there besides is
 * gone. Returns 0 or -ENOMEM, and nothing has changed.
 */
int modules_settle(struct modules *modules, struct board *board);

/*
 * Loads the files of a folder that are not loaded yet, while workers run: module.c, JOINING. Their
 * tasks have places afterwards, and modules_enter() makes them callable. version: what all files
 * of the folder have together; no file that was loaded may have changed. Returns 0 or a negative
 * errno with one line in ret_error; then no task has changed.
 */
int modules_join(struct modules *modules, struct board *board, const char *folder, uint64_t version,
		 char *ret_error, uint64_t size);

/* Makes the tasks that modules_join() has added callable, and enters them on the board. */
void modules_enter(struct modules *modules, struct board *board);

/*
 * Opens and loads one file, for good, by a name that debuggers can open. Sets *ret_module and
 * *ret_status, which is that of the loaded file, or ret_error (of size bytes) to one line. A new
 * version of a file that this process has loaded must be another file: it was renamed, not written
 * over the old one. Returns 0; MODULE_LATER: something was short, or the file was replaced in the
 * meantime; or a negative errno.
 */
#define MODULE_LATER 1

int module_open(const char *path, const struct fk_module **ret_module, struct stat *ret_status,
		char *ret_error, uint64_t size);
