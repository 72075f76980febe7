/* SPDX-License-Identifier: MIT */
/*
 * shm/ledger.h - the front of the arena: what the manager trusts after a crash of the pool
 *
 * WRITERS AND READERS
 *   The pool writes. After its death the manager reads, and then writes until it starts the next
 *   one. While a pool is alive the manager writes only parts that the pool has released: the rows
 *   of a slot without client, the heads of a tenant that left. It also reads whether workers run
 *   jobs, as a hint (daemon/manager/pool_watchdog.h). No client maps the arena.
 *
 * THE ROWS
 *   One row per job record of each client slot, at client * jobs_max + job. A row is one word
 *   { generation:24, state:4, outcome:4, flags:8, worker:8, task:16 }, so that it changes in one
 *   step.
 * 	FREE       no job; generation is that of the last accepted one
 * 	QUEUED     taken off a ring, not started
 * 	RUNNING    worker has started it
 * 	COPYING    it is done, and copies of buffers are written back into the client's heap
 * 	FINISHING  outcome is decided; the record is about to get it
 *
 * INVARIANTS
 *   I1. A row is QUEUED before the head moves past the job's slot, so a job is always in its ring
 *       or in the ledger. If it is in both, with the same generation, it was drained.
 *   I2. A row is FREE again only after its outcome is stored in the record.
 *   I3. A generation is accepted once. A record that has the row's generation, or arrives while the
 *       row is QUEUED, RUNNING or COPYING, was submitted twice and is refused. A new generation may
 *       take a row that is FINISHING: an honest client submits again only after it saw the outcome,
 *       and then the old generation no longer needs the row.
 *   I4. The head of a ring only grows while the slot has its tenant, and starts at 0 for the next
 *       one. The slots below it were consumed.
 *   I5. A task's stray write can reach every byte here. So the offset of the rows is a constant,
 *       and each reader keeps their number in private memory. Damage to the manager's numbers lasts
 *       until that pool is dead (daemon/manager/pool_segments.c).
 *   I6. A job that may run again finds its buffers as its client left them. Copied buffers
 *       (shm/job.h) are written back only when the row is COPYING, and then the job never returns
 *       to the queue. If a job runs in place, its client declares that it is idempotent.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "common/relaxed.h"
#include "shm/backtrace.h"
#include "shm/limits.h"
#include "shm/segment.h"

#define LEDGER_FREE	 0u
#define LEDGER_QUEUED	 1u
#define LEDGER_RUNNING	 2u
#define LEDGER_FINISHING 3u
#define LEDGER_COPYING	 4u

/* True for the state of a job that a worker has begun and that has no outcome. Not FINISHING: the
 * client may already have the outcome. */
static inline int ledger_is_started(uint32_t state)
{
	return state == LEDGER_RUNNING || state == LEDGER_COPYING;
}

#define LEDGER_FLAG_IDEMPOTENT 1u
#define LEDGER_FLAG_REQUEUED   2u /* the manager's: a pool died under it, for an unknown reason */

struct ledger_row {
	uint32_t generation; /* 24 bits */
	uint32_t state;	     /* LEDGER_* */
	uint32_t outcome;    /* JOB_*, once FINISHING */
	uint32_t flags;	     /* LEDGER_FLAG_* */
	uint32_t worker;     /* that started it */
	uint32_t task;	     /* on the board, + 1; 0: not known yet */
};

static inline uint64_t ledger_pack(struct ledger_row row)
{
	return (uint64_t)(row.generation & 0xffffffu) | (uint64_t)(row.state & 15u) << 24 |
	       (uint64_t)(row.outcome & 15u) << 28 | (uint64_t)(row.flags & 255u) << 32 |
	       (uint64_t)(row.worker & 255u) << 40 | (uint64_t)(row.task & 0xffffu) << 48;
}

static inline struct ledger_row ledger_unpack(uint64_t word)
{
	return (struct ledger_row){
		.generation = (uint32_t)word & 0xffffffu,
		.state = (uint32_t)(word >> 24) & 15u,
		.outcome = (uint32_t)(word >> 28) & 15u,
		.flags = (uint32_t)(word >> 32) & 255u,
		.worker = (uint32_t)(word >> 40) & 255u,
		.task = (uint32_t)(word >> 48),
	};
}

#define LEDGER_NO_TENANT UINT32_MAX

/* The consumer's side of a ring. */
struct ledger_ring {
	_Alignas(64) _Atomic uint64_t head;
	/* worker + 1 that holds the consumer role, LIMIT_WORKERS + 1 for the pool's dispatcher, 0
	 * for none; LEDGER_NO_TENANT: none may, there is no tenant */
	_Atomic uint32_t consumer;
	uint8_t reserved[52];
};

_Static_assert(sizeof(struct ledger_ring) == 64, "a line a ring");

/* Takes the consumer role of a ring. Returns false if another thread has it. */
static inline int ledger_ring_hold(struct ledger_ring *side, uint32_t consumer)
{
	uint32_t nobody = 0;

	/* ORDER ring/consumer [R3]: acquire, the head, the ring's slots and the walk of a chain by
	 * the last holder. Pairs with ledger_ring_leave(). */
	return atomic_compare_exchange_strong_explicit(&side->consumer, &nobody, consumer,
						       memory_order_acquire, memory_order_relaxed);
}

/* Gives it back. */
static inline void ledger_ring_leave(struct ledger_ring *side)
{
	/* ORDER ring/consumer [R3]: release, pairs with ledger_ring_hold(). */
	atomic_store_explicit(&side->consumer, 0, memory_order_release);
}

/* The job of a worker, to find the job to blame. The task is in the row of the job, because a thief
 * runs strands of jobs that other workers started. */
struct ledger_worker {
	_Alignas(64) _Atomic uint32_t job; /* row of the job it runs, UINT32_MAX for none */
	uint8_t reserved[60];
};

/* Why a worker is to blame. */
#define LEDGER_FAULT_CRASH 0u /* it got a fatal signal, or ended the process */
#define LEDGER_FAULT_HANG  1u /* its job ignored a cancel or deadline for held_ns */
#define LEDGER_FAULT_STACK 2u /* a C stack was too small, of a thread or of a fiber */

struct ledger_fault {
	_Alignas(64) _Atomic uint32_t worker; /* worker + 1, 0 for none */
	_Atomic uint32_t signo;
	_Atomic uint64_t address;
	_Atomic uint32_t reason; /* LEDGER_FAULT_* */
	/* of a hang, and of a fiber in a section that may block: the job, which may have ended by
	 * the time that the pool is dead */
	_Atomic uint32_t row; /* + 1, 0 for none */
	_Atomic uint64_t held_ns;
	_Atomic uint32_t generation; /* 24 bits */
	uint32_t reserved0;
	_Atomic uint64_t stack_size; /* bytes of the C stack that ended, 0: none did */
	uint8_t reserved1[16];
	char fiber[64]; /* the name of the fiber that the worker ran, empty if it ran none */
	char inner[64]; /* of the newest task that it ran, empty if that is not known */
	struct backtrace trace;
};

_Static_assert(sizeof(struct ledger_fault) == 1280, "20 lines");

/* The arena: this front, the rows, and after them the private part of the pool. */
struct arena {
	struct segment head;
	/* the manager writes it before each pool; the pool reads it when it starts */
	uint32_t n_workers;
	uint32_t clients_max;
	uint32_t jobs_max; /* rows per client */
	uint8_t reserved[52];
	/* futex word: pool and manager wake the dispatcher by it (wake.h, W10) */
	_Alignas(64) _Atomic uint32_t bell;
	/* the manager writes: bytes of each client's heap that references may be to (shm/job.h) */
	_Alignas(64) _Atomic uint64_t heap_sizes[LIMIT_CLIENTS];
	/* the pool's fault handler writes, or its dispatcher */
	struct ledger_fault fault;
	/* each worker writes its own */
	struct ledger_worker workers[LIMIT_WORKERS];
	/* the holder of a ring's consumer role writes */
	struct ledger_ring rings[LIMIT_TENANTS][LIMIT_WORKERS];
};

/* Bytes. The number is the same for each arena. */
static inline uint64_t arena_rows_offset(void)
{
	return (sizeof(struct arena) + 4095) & ~UINT64_C(4095);
}

/* Bytes: the pool's own part, page aligned. */
static inline uint64_t arena_workers_offset(uint32_t clients_max, uint32_t jobs_max)
{
	uint64_t end = arena_rows_offset() + (uint64_t)clients_max * jobs_max * sizeof(uint64_t);

	/* 2 MiB, so that the pool's part can use large pages. */
	return (end + 0x1fffff) & ~UINT64_C(0x1fffff);
}

static inline _Atomic uint64_t *arena_rows(struct arena *arena)
{
	return (_Atomic uint64_t *)(void *)((char *)arena + arena_rows_offset());
}

/* Returns the current row. Relaxed: for a reader that owns the row, or reads again after a stronger
 * load. */
static inline struct ledger_row ledger_row(struct arena *arena, uint64_t at)
{
	return ledger_unpack(load_relaxed(&arena_rows(arena)[at]));
}
