/* SPDX-License-Identifier: MIT */
/* manager_requests.h - what the manager asks of the pool: read from the channel and done */
#pragma once

#include <stdbool.h>

struct pool;

/*
 * Does what the manager says, to the end, while the pool drains too: a client may leave, or cancel
 * what the pool would wait for. Returns true once the pool has ended after PROTO_POOL_STOP or
 * PROTO_POOL_HALT, false if the manager is gone.
 */
bool channel_serve(struct pool *pool);

/*
 * Changes a setting while workers run: an option that can be changed then, and is a number or a
 * word. Nothing comes of one that the manager alone uses.
 * Returns 0, or what options_set() returns; -EPERM for one that cannot be changed.
 */
int pool_set(struct pool *pool, const char *name, const char *value);
