/* SPDX-License-Identifier: MIT */
/* output_size.h - how large the output of a task is: the argument "@:" */
#pragma once

#include "client/forkctl/arguments.h"

/* True if there is something to ask for. */
int size_is_open(const struct forkctl_args *args);

/*
 * Has the module say how large the iobuf of this call must be that was given as "@:", on a
 * connection of its own. What cannot be a call of the task is left to forkctl_values(). Says what
 * is wrong. Returns 0 or an exit code.
 */
int size_ask(const char *socket, const char *task, struct forkctl_args *args);
