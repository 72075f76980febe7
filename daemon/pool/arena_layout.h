/* SPDX-License-Identifier: MIT */
/*
 * arena_layout.h - what of the pool lies where in the arena
 *
 * Behind the front that the manager reads (ledger.h) the arena is the pool's own: a struct worker
 * for each worker, the deques of each, then the stacklets, in as many parts as there are groups.
 * Each part is on the NUMA node of its worker or group, so it begins at a page.
 *
 * Threads: the pool's main thread before there are others, and after they have ended.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct pool;
struct topology;

/* Maps board and arena, and reads what the manager says there (fds borrowed). Returns 0 or a
 * negative errno. */
int layout_map(struct pool *pool, int board_fd, int arena_fd);
void layout_unmap(struct pool *pool);

/*
 * Says where the workers are, once n_workers is set and before layout_make(): groups and victims.
 * topology: of n_workers; the pool's own from now on, on failure too. Returns 0 or -ENOMEM.
 */
int layout_place(struct pool *pool, struct topology *topology);
/* Frees what layout_place() made, and the topology. After the last worker has ended. */
void layout_unplace(struct pool *pool);

/*
 * Lays the pool's part of the arena out, each worker's and each group's on its NUMA node. What a
 * former pool used goes back to the system: of the stacklets' memory, which may be nearly all of
 * it, in time (stack_arena_inherit()); the rest now.
 * arena_fd: borrowed. Returns 0 or a negative errno.
 */
int layout_make(struct pool *pool, int arena_fd);
