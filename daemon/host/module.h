/* SPDX-License-Identifier: MIT */
/*
 * module.h - modules: shared objects that contain tasks
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

/* State of a place in the table. */
#define MODULE_NONE	0u
#define MODULE_GONE	1u /* a task of an earlier pool, or one that no client may call yet */
#define MODULE_CALLABLE 2u

struct module_task {
	const struct fk_export *export;
	struct signature signature;
	uint64_t hash;
	/* MODULE:TASK and the signature; kept here because tasks can write on the board. */
	char name[sizeof(((struct board_task *)NULL)->name)];
	char text[sizeof(((struct board_task *)NULL)->signature)];
	_Atomic uint32_t state; /* MODULE_*; the last member: module.c, J1 */
};

struct modules {
	uint32_t n_tasks;    /* places up to the last task; without export: empty */
	uint32_t n_left_out; /* modules that were left out, completely or in part */
	uint64_t version;    /* of all files: changes if any of them does */
	uint64_t joinable;   /* the same for files that modules_join() may load */
	uint32_t n_files;    /* number of files; files has hashes of those that fit */
	struct module_task tasks[LIMIT_TASKS]; /* in the same places as on the board */
	uint64_t files[LIMIT_TASKS];
};

/*
 * Loads every NAME.so of a directory and enters its tasks on the board, which an earlier pool may
 * have used. A module that cannot be loaded is left out, and logged with one line that says what to
 * do. Returns the number of modules, or a negative errno for the directory (EPERM: it is not safe).
 */
int modules_load(struct modules *modules, struct board *board, const char *directory);

/* What to do about an error of modules_load(), for messages. */
const char *modules_advice(int err);

/* Adds the tasks of a module, without places. Returns 0, or the first error with one line in
 * ret_error; the other tasks are added all the same. modules: as for modules_load(), with n_tasks 0
 * before the first module. */
int modules_add(struct modules *modules, const struct fk_module *module, char *ret_error,
		uint64_t size);

/* Returns a task, at this place or after it, of a module that was compiled with FK_DEBUG_STEALS;
 * NULL: there is none. */
const struct module_task *modules_debug_steals(const struct modules *modules, uint32_t from);

/* Gives all added tasks their places, here and on the board, and marks other tasks on the board as
 * gone. Returns 0, or -ENOMEM with nothing changed. */
int modules_settle(struct modules *modules, struct board *board);

/* Loads the files of a directory that are not loaded yet, while workers run: module.c, JOINING.
 * Then their tasks have places, and modules_enter() makes them callable. version: of all files of
 * the directory; no loaded file may have changed. Returns 0 or a negative errno with one line in
 * ret_error; then no task has changed. */
int modules_join(struct modules *modules, struct board *board, const char *directory,
		 uint64_t version, char *ret_error, uint64_t size);

/* The same for one module of the file at path, which is loaded. Returns 0 or a negative errno with
 * one line in ret_error. */
int modules_join_module(struct modules *modules, struct board *board,
			const struct fk_module *module, const char *path, char *ret_error,
			uint64_t size);

/* Makes the tasks that these functions have added callable, and enters them on the board. */
void modules_enter(struct modules *modules, struct board *board);

/*
 * Opens and loads one file permanently, by a name that debuggers can open. Sets *ret_module and
 * *ret_status, the status of the loaded file, or ret_error (of size bytes) to one line. A new
 * version of a loaded file must be another file: renamed into place, not written over the old one.
 * Returns 0; MODULE_LATER: a resource was short, or the file was replaced; or a negative
 * errno.
 */
#define MODULE_LATER 1

int module_open(const char *path, const struct fk_module **ret_module, struct stat *ret_status,
		char *ret_error, uint64_t size);

/* The same, but tries again while a resource is short, because without the module its tasks fail
 * until the next pool. Only a few times, because a module may need more than is ever available:
 * then it returns -EAGAIN. */
int module_open_patiently(const char *path, const struct fk_module **ret_module,
			  struct stat *ret_status, char *ret_error, uint64_t size);
