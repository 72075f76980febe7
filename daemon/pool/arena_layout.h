/* SPDX-License-Identifier: MIT */
/*
 * arena_layout.h - the layout of the pool's part of the arena
 *
 * After the part that the manager reads (ledger.h) the arena belongs to the pool: a struct worker
 * for each worker, the deques of each, then the stacklets, in one part for each group. Each part is
 * on the NUMA node of its worker or group, so it begins at a page.
 *
 * Threads: the pool's main thread, before there are others and after they have ended.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct pool;
struct topology;

/* Maps board and arena (fds borrowed), and reads the manager's values there. Returns 0 or a
 * negative errno. */
int layout_map(struct pool *pool, int board_fd, int arena_fd);
void layout_unmap(struct pool *pool);

/*
 * Sets the workers' places, after n_workers is set and before layout_make(): groups and victims.
 * topology: of n_workers; owned by the pool from now on, even on failure. Returns 0 or -ENOMEM.
 */
int layout_place(struct pool *pool, struct topology *topology);
/* Frees the data of layout_place(), and the topology. After the last worker has ended. */
void layout_unplace(struct pool *pool);

/* Lays out the pool's part of the arena, with the part of each worker and group on its NUMA node.
 * Pages of an earlier pool are given back: those of stacklets, which may be nearly all, over time
 * (stack_arena_inherit()); the others now. arena_fd: borrowed. Returns 0 or a negative errno. */
int layout_make(struct pool *pool, int arena_fd);
