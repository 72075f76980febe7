/* SPDX-License-Identifier: MIT */
/*
 * local_pool.h - the pool of this process, and its clients
 *
 * Threads: any, except for the pool's own, unless a function says otherwise.
 */
#pragma once

#include <stdint.h>

#include <forkd/pool.h>

struct client_place;
struct pool;

/* Jobs of a client at most. */
#define LOCAL_JOBS_MAX 4096u

/* Bytes of a client's heap, by default; it is address space until it is used. */
#define LOCAL_HEAP (UINT64_C(64) << 20)

/*
 * Adds a client, and starts the pool for the first one. Sets *ret_slot to its slot and *ret_place
 * to its segments, without local. Returns 0 or the errors of fk_open_local().
 */
int local_pool_open(const struct fk_local_options *options, uint32_t *ret_slot,
		    struct client_place *ret_place);

/* Ends the jobs of a client, and the client. The last one waits for the end of all jobs, and ends
 * the pool. */
void local_pool_close(uint32_t slot);

/* Cancels a job of a client, if it has no outcome. Any thread. */
void local_pool_cancel(uint32_t slot, uint32_t job, uint32_t generation);

/* Sets the address space of a client's imports: LIMIT_IMPORT bytes, which its end unmaps. */
void local_pool_import(uint32_t slot, char *base);

/* The dispatcher checks all rings. Any thread. */
void local_pool_ring(void);

/* Wakes a worker, which may have no thread yet. */
void local_pool_wake(uint32_t worker);

/* Loads a module: returns 0 or the errors of fk_load(), with one line in error. */
int local_pool_load(const char *path, char *error, size_t size);
