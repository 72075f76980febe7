/* SPDX-License-Identifier: MIT */
/* client_tasks.h - finds the tasks of a cluster */
#pragma once

#include <stddef.h>

struct cluster;

/*
 * Looks for a task at the gateways, and enters what they have into the board. Any thread; it waits
 * for the servers, for at most TASKS_TIMEOUT_S for each connection and each answer. If no gateway
 * has the module, it looks again, for a second in all. Signals are blocked until it returns.
 * name: MODULE:TASK, whose module is looked up; NULL: all modules; "": none, only the servers.
 * error: set on failure to one line.
 * Returns 0 if a server has answered, or
 *	-FK_E_NOT_LISTENING  none is there
 *	-FK_E_NO_ANSWER      they, or the gateways that have the module, do not answer in time
 *	-FK_E_NOT_FORKD      what answers is no job server
 *	-FK_E_NO_TASK        no gateway has the task; error says what they have
 *	-ENOMEM
 */
int tasks_find(struct cluster *cluster, const char *name, char *error, size_t size);
