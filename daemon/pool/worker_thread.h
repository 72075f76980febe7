/* SPDX-License-Identifier: MIT */
/* worker_thread.h - the main loop of a worker's thread */
#pragma once

#include <stdint.h>

struct fk_entry;
struct pool;
struct worker;

/* Runs jobs and strands until the pool stops. The worker's thread. */
void worker_loop(struct worker *worker);

/* Prepares a worker's memory. entries: for the two deques. */
void worker_init(struct worker *worker, struct pool *pool, uint32_t index,
		 struct fk_entry *frame_entries, uint64_t n_frame_entries,
		 struct fk_entry *root_entries);

/* Frees the worker's heap memory, after its thread has ended. */
void worker_fini(struct worker *worker);

/* The worker's thread: finds work and runs it until the pool stops. */
void *worker_main(void *worker);
