/* SPDX-License-Identifier: MIT */
/* placement.h - which worker or group a place is */
#pragma once

#include <stdint.h>

struct pool;
struct worker;

/* The group of the NUMA node of this OS index; n_groups if it has no worker. */
uint32_t pool_group_on(struct pool *pool, uint32_t node);
/* The worker of this index; NULL if there is none. */
struct worker *pool_worker_at(struct pool *pool, uint32_t index);
/* A worker on the NUMA node of this OS index, near itself if it is there; NULL if there is none. */
struct worker *pool_worker_on(struct pool *pool, struct worker *near, uint32_t node);
