/* SPDX-License-Identifier: MIT */
/* placement.h - finds the worker or group of a place */
#pragma once

#include <stdint.h>

struct pool;
struct worker;

/* Returns the group of the NUMA node with this OS index; n_groups if the node has no worker. */
uint32_t pool_group_on(struct pool *pool, uint32_t node);
/* Returns the worker of this index; NULL if there is none. */
struct worker *pool_worker_at(struct pool *pool, uint32_t index);
/* Returns a worker on the NUMA node of this OS index, near itself if it is there; NULL: none. */
struct worker *pool_worker_on(struct pool *pool, struct worker *near, uint32_t node);
