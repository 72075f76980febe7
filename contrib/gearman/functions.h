/* SPDX-License-Identifier: MIT */
/*
 * functions.h - the functions that a gateway registers: the tasks that its user may call, and one
 * function "MODULE:" for each of their modules, which lists them
 */
#pragma once

#include <stdint.h>

#include <forkd/client.h>

#include "contrib/gearman/gateway_options.h"
#include "shm/limits.h"

#define FUNCTIONS_NAME 65u /* bytes of MODULE:TASK, with the NUL */

/* Does not change. */
struct functions {
	uint32_t users; /* references; under the lock of the gateway */
	uint64_t mark;	/* functions_mark() when they were read */
	uint32_t n_tasks;
	uint32_t n_modules;
	char tasks[LIMIT_TASKS][FUNCTIONS_NAME];
	char modules[LIMIT_TASKS][FUNCTIONS_NAME]; /* "MODULE:" */
};

/* A number that changes with the tasks, and with those that the user may call. */
uint64_t functions_mark(const fk_client *client);

/* Reads the functions. Returns NULL without memory; the caller frees it. */
struct functions *functions_read(fk_client *client);

/* Logs each pattern of --idempotent that matches no task. */
void functions_check_patterns(const struct functions *functions,
			      const struct gateway_options *options);

/* True if the user may not call the task. */
int functions_denied(const fk_client *client, const fk_task *task);

/* The answer of "MODULE:", a JSON array: [{"name": ..., "signature": ..., "help": ...,
 * "jobs": ...}]. jobs: how many the gateway runs at a time. Returns NULL without memory; the caller
 * frees it. */
char *functions_list(fk_client *client, const char *module, uint32_t jobs);
