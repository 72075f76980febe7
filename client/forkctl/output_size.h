/* SPDX-License-Identifier: MIT */
/* output_size.h - size of the output of a task: the argument "@:" */
#pragma once

#include "client/forkctl/arguments.h"

/* True if an argument is "@:". */
int size_is_open(const struct forkctl_args *args);

/* Calls a task of the module for the size of the iobuf that was given as "@:", on a separate
 * connection. Leaves arguments that do not fit the task to forkctl_values(). Prints errors. Returns
 * 0 or an exit code. */
int size_ask(const char *socket, const char *task, struct forkctl_args *args);
