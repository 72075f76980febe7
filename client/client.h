/* SPDX-License-Identifier: MIT */
/* client/client.h - what the files of the library share; nothing of it is public */
#ifndef CLIENT_CLIENT_H
#define CLIENT_CLIENT_H

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>

#include <forkd/client.h>

#include "client/heap.h"
#include "shm/board.h"
#include "shm/job.h"
#include "shm/signature.h"
#include "shm/tenant.h"

/* A waiting thread looks at its socket this often. */
#define CLIENT_TICK_NS UINT64_C(200000000)

/* Calls that find nothing, between two looks at the socket. */
#define CLIENT_LOOKS 1024u

struct fk_client_task {
	struct fk_client_task *next; /* constant once the task is in the list */
	uint32_t index;		     /* on the board */
	uint64_t hash;
	struct signature signature;
	char name[64 + 1];
	char text[96 + 1];
};

/* What the library keeps for each record of the job table, where no other process writes. */
struct client_slot {
	_Atomic uint32_t next;	     /* the free list's next slot + 1 */
	_Atomic uint32_t generation; /* of the job that has it, or will have it next; never 0 */
	/* the job's owner, before the handle exists */
	uint32_t result_size; /* bytes */
	void *strings;	      /* block of the heap, or NULL */
	uint64_t submitted_ns;
};

struct fk_client {
	/* constant after fk_open() */
	const _Atomic uint32_t *alive; /* 0 in a child: MADV_WIPEONFORK */
	const struct board *board;     /* read-only mapping */
	struct tenant_segment *tenant;
	struct client_segment *segment;
	struct job *jobs;
	struct client_slot *slots;
	uint32_t n_workers;
	uint32_t n_jobs;
	uint32_t id;	     /* slot of this client */
	uint32_t generation; /* of that slot */
	int fd;
	uint32_t spin_max; /* ns; 0 with one CPU */
	uint64_t board_size;
	uint64_t tenant_size;
	uint64_t segment_size;
	struct fk_client *list_next; /* under the lock of client.c */
	struct heap heap;	     /* has its own lock */
	/* any thread */
	_Atomic(struct fk_client_task *) tasks; /* grows at its front */
	pthread_mutex_t tasks_lock;		/* of who adds */
	_Alignas(64) _Atomic uint64_t free;	/* { tag:32, slot + 1:32 } */
	_Alignas(64) _Atomic uint32_t last;	/* worker of the last submission, a hint */
	_Atomic uint32_t random;
	_Atomic uint32_t spin; /* ns that a wait spins now */
	_Atomic uint32_t looks;
	_Atomic uint32_t gone;		    /* the daemon is; never cleared */
	_Alignas(64) _Atomic uint32_t room; /* futex word: goes up when a record came free */
	_Atomic uint32_t room_waiters;
	/* hints of who submits: { pool's generation:32, word of a worker when it was woken:32 } */
	_Alignas(64) _Atomic uint64_t woken[LIMIT_WORKERS];
};

/* 0, or -EPERM in a child. Costs one load. */
static inline int client_check(const struct fk_client *client)
{
	/* Relaxed: only a fork changes it. */
	return atomic_load_explicit(client->alive, memory_order_relaxed) ? 0 : -EPERM;
}

/* client.c: looks at the socket. True if the daemon is gone. A system call, unless it is known. */
int client_gone(struct fk_client *client);

/* The same for callers in a loop: makes the system call once in CLIENT_LOOKS. */
int client_gone_sometimes(struct fk_client *client);

/*
 * The slot of a job, or NULL if it was released or never was.
 */
static inline struct client_slot *client_slot(struct fk_client *client, fk_job job)
{
	uint64_t index = job & 0xffffu;
	struct client_slot *slot;

	if (index >= client->n_jobs)
		return NULL;
	slot = &client->slots[index];
	/* Relaxed: a handle that is good was given out after the generation was set. */
	if (atomic_load_explicit(&slot->generation, memory_order_relaxed) != job >> 16)
		return NULL;
	return slot;
}

static inline struct job *client_job(struct fk_client *client, fk_job job)
{
	return &client->jobs[job & 0xffffu];
}

/* submit.c: the free list. slots_take() returns an index or -EAGAIN. */
int slots_take(struct fk_client *client);
void slots_give(struct fk_client *client, uint32_t index);

/* submit.c: whose ring a job should go to; random: any number. */
uint32_t submit_pick(const struct board *board, struct tenant_segment *tenant, uint32_t n_workers,
		     uint32_t last, uint32_t random);

/* submit.c: how many jobs a ring holds, never too high, and more than half of the truth. */
uint64_t submit_length(struct ring *ring);

/*
 * submit.c: the publisher's part of shm/wake.h, after wake_published(), for a job in this ring.
 * woken: a word for each worker, 0 at first, that remembers what was woken already; or NULL.
 * Returns the worker that was found awake or was woken, or n_workers if the dispatcher has it now.
 */
uint32_t submit_wake(const struct board *board, uint32_t n_workers, uint32_t ring,
		     _Atomic uint64_t *woken);

/*
 * submit.c: publishes a payload in the ring that suits best, or in the next that has room.
 * Returns the ring, or -EAGAIN if all are full.
 */
int submit_publish(const struct board *board, struct tenant_segment *tenant, uint32_t n_workers,
		   uint32_t last, uint32_t random, uint32_t payload, _Atomic uint64_t *woken);

/* wait.c: waits for one job as fk_wait() does, with the checks done. */
int wait_job(struct fk_client *client, fk_job job, uint64_t timeout_ns);

/*
 * pack.c: packs values by a signature. args: LIMIT_ARGS bytes. Sets *ret_strings to a block that
 * holds the copied strings, or NULL. Returns 0, -EINVAL, -EFAULT, -ENOMEM as fk_submit_values().
 */
int pack_values(struct heap *heap, const struct signature *signature, const union fk_value *values,
		size_t n, uint8_t *args, void **ret_strings);

/* pack.c: takes the values of a signature off a va_list. values: SIGNATURE_MAX_ARGS. */
void pack_take(const struct signature *signature, union fk_value *values, va_list args);

/* error.c: sets what fk_open_error() returns, from a format. Returns err. */
int error_open(int err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The errno of a final outcome, 0 for JOB_DONE. */
int error_of_outcome(uint32_t outcome, int32_t code);

#endif
