/* SPDX-License-Identifier: MIT */
/* manager_requests.h - reads the manager's requests from the channel and handles them */
#pragma once

#include <stdbool.h>

struct pool;

/* Handles the manager's messages to the end, also while the pool drains: a client may leave, or
 * cancel jobs that the pool would wait for. Returns true once the pool has ended after
 * PROTO_POOL_STOP or PROTO_POOL_HALT, false if the manager has gone. */
bool channel_serve(struct pool *pool);

/*
 * Changes a setting while workers run: a reloadable option whose value is a number or a word. An
 * option that only the manager uses has no effect.
 * Returns 0, or the result of options_set(); -EPERM if the option cannot be changed.
 */
int pool_set(struct pool *pool, const char *name, const char *value);
