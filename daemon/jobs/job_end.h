/* SPDX-License-Identifier: MIT */
/* job_end.h - a job gets its one outcome: job.c, I1 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/core/pool_state.h"
#include "daemon/core/clients.h"
#include "daemon/forkd/frame.h"
#include "daemon/jobs/job_input.h"
#include "shm/ledger.h"

struct job;
struct worker;

/* The root frame of a job: job.c. */
struct root {
	struct fk_frame fk;
	struct pool *pool;
	struct client_entry *client;
	struct job *job;
	uint32_t row;
	uint32_t generation;
	uint64_t drained_ns;
	uint64_t started_ns;
	struct record record; /* from its input_load() on */
};

/* The slot of the root's client. */
static inline uint32_t job_slot(const struct root *root)
{
	return clients_slot(&root->pool->clients, root->client);
}

/* Writes the state of a row that the caller holds. */
static inline void job_set_row(struct pool *pool, uint32_t at, uint32_t state, uint32_t outcome,
			       uint32_t worker)
{
	struct ledger_row row = ledger_row(pool->arena, at);

	row.state = state;
	row.outcome = outcome;
	row.worker = worker;
	/* ORDER cpu/charge [U2]: release, the charge was set to 0 before RUNNING. Pairs with
	 * cpu_limit_judge().
	 * ORDER ledger/row [L2]: release, the actions that led to the state come before it. While
	 * the pool lives other threads only use it to decide what to check next; the manager reads
	 * it after the pool's end. */
	atomic_store_explicit(&arena_rows(pool->arena)[at], ledger_pack(row), memory_order_release);
}

/*
 * Gives a job that was started its outcome. Then the root no longer exists, and the worker has no
 * job. A job's run time is 0 ns if and only if its task did not begin: then its code is the pool's.
 */
void job_end(struct worker *worker, struct root *root, uint32_t outcome, int32_t code);

/* Ends a job that was not started, with this outcome; the caller holds its row, which counts as
 * given in fair_queue.c. Any thread. */
void job_drop(struct pool *pool, uint32_t row, uint32_t outcome, int32_t code);

/* True if the end of this generation of the row's job was requested. Call after the row was made
 * QUEUED. */
bool job_is_cancelled(struct pool *pool, uint32_t row, uint32_t generation);
