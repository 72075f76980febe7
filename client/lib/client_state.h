/* SPDX-License-Identifier: MIT */
/* client_state.h - the state of a client, and functions that only read it */
#pragma once

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include <forkd/client.h>

#include "client/lib/events_list.h"
#include "client/lib/heap.h"
#include "client/lib/slot_stack.h"
#include "client/lib/wake_worker.h"
#include "common/clock.h"
#include "common/list.h"
#include "common/relaxed.h"
#include "common/util.h"
#include "shm/board.h"
#include "shm/fence.h"
#include "shm/job.h"
#include "shm/limits.h"
#include "shm/signature.h"
#include "shm/tenant.h"

/* Period in which threads that wait or poll check the socket. */
#define CLIENT_TICK_NS UINT64_C(500000000)

/* Steps of a spin between two reads of the clock. */
#define CLIENT_SPIN_BATCH 16u

/* Added to room_waiters by each thread that waits for several slots. */
#define CLIENT_ROOM_CHAIN 0x10000u

struct fk_client_task {
	struct fk_client_task *next; /* constant once the task is in the list */
	uint32_t index;		     /* on the board */
	uint64_t hash;
	uint64_t types; /* args_types() */
	struct signature signature;
	char name[64 + 1];
	char text[96 + 1];
	char help[80 + 1];
};

/* Of client_slot.options: an option field of the record is not 0; mask of the group's number. */
#define CLIENT_OPTIONS 0x80000000u
#define CLIENT_GROUP   0xffffu

/* A generation that no job and no handle has. */
#define CLIENT_UNUSED UINT64_MAX

/* How a job has ended. */
struct client_end {
	uint32_t outcome;     /* JOB_DONE, ... */
	int32_t code;	      /* of JOB_FAILED; otherwise 0 */
	uint32_t signo;	      /* of JOB_CRASHED; otherwise 0 */
	uint32_t result_size; /* bytes */
	uint64_t task_hash;   /* of JOB_FAILED; otherwise 0 */
	uint64_t wait_ns;     /* from submission to start */
	uint64_t run_ns;      /* from start to end */
	void *memory;	      /* args_pack() of the job, or NULL */
};

/* What the library keeps for each group. */
enum client_group_state {
	CLIENT_GROUP_FREE,
	CLIENT_GROUP_USED,
	CLIENT_GROUP_LIMBO, /* was freed while its count was not 0 (shm/group.h, I4) */
};

struct client_group {
	_Atomic uint32_t generation; /* of the valid handle, 0 for none */
	_Atomic uint64_t looked_ns;  /* last check of the records; client_due() */
	/* under group_lock */
	uint32_t last; /* generation of the last handle */
	enum client_group_state state;
};

/* An import (import.c): bytes of its mapping, from the start of all. size 0: none. */
struct client_import {
	uint64_t at;
	uint64_t size;
};

struct fk_client {
	/* constant after fk_open() */
	const _Atomic uint32_t *alive; /* 0 in a child: MADV_WIPEONFORK */
	const struct board *board;     /* read-only mapping */
	struct tenant_segment *tenant;
	struct client_segment *segment;
	struct job *jobs;
	struct group *groups;
	struct client_slot *slots;
	uint32_t n_workers;
	uint32_t n_jobs;
	uint32_t id;	     /* slot of this client */
	uint32_t generation; /* of that slot */
	char *path;	     /* of forkd's socket */
	int fd;
	uint32_t spin_max; /* ns; 0 with one CPU */
	uint64_t board_size;
	uint64_t tenant_size;
	uint64_t segment_size;
	struct list_link link; /* under the lock of client.c */
	struct heap heap;      /* has its own lock */
	struct events events;  /* has its own lock */
	void *spilled;	       /* tree of spill.c, under the lock of events */
	/* any thread */
	_Atomic(struct fk_client_task *) tasks;	     /* grows at its front */
	const fk_task *_Atomic own_tasks[2];	     /* task_own(); NULL: not found yet */
	pthread_mutex_t tasks_lock;		     /* held while a task is added */
	pthread_mutex_t group_lock;		     /* held while a group is made or freed */
	pthread_mutex_t grow_lock;		     /* held while a larger heap is requested */
	uint32_t grows;				     /* requests so far; under grow_lock */
	pthread_mutex_t import_lock;		     /* held while an import is made or freed */
	struct client_import imports[LIMIT_IMPORTS]; /* under import_lock */
	struct client_group group[LIMIT_GROUPS];
	_Alignas(64) _Atomic uint64_t free; /* { tag:32, slot + 1:32 } */
	_Alignas(64) _Atomic uint32_t last; /* worker of the last submission, a hint */
	_Atomic uint32_t random;
	_Atomic uint32_t spin;		    /* ns that a wait spins now */
	_Atomic uint32_t gone;		    /* the daemon is gone; never cleared */
	_Atomic uint32_t long_job;	    /* long_job_hint.h */
	_Atomic uint64_t looked_ns;	    /* last check of the socket, 0: never; client_look() */
	_Alignas(64) _Atomic uint32_t room; /* futex word: rises when a record becomes free */
	_Atomic uint32_t room_waiters;	    /* sum: 1 for one slot, CLIENT_ROOM_CHAIN for several */
	_Atomic uint32_t room_looker; /* a waiter sleeps on the ends of jobs (record_wait.c, I3) */
	_Alignas(64) struct waker waker;
};

/* 0, or -EPERM in a child. Costs one load. */
static inline int client_check(const struct fk_client *client)
{
	/* Relaxed: only a fork changes it. */
	return load_relaxed(client->alive) ? 0 : -EPERM;
}

/* True if the daemon is known to be gone. Relaxed: the value never returns to 0. */
static inline int client_is_gone(const struct fk_client *client)
{
	return load_relaxed(&client->gone) != 0;
}

/*
 * True once in tick_ns, for one of the threads that share looked_ns.
 * now_ns: clock_ns(), or clock_coarse_ns().
 */
static inline int client_due(_Atomic uint64_t *looked_ns, uint64_t now_ns, uint64_t tick_ns)
{
	/* Relaxed, and not one atomic step: two threads at the same time may both get true. */
	if (now_ns < load_relaxed(looked_ns) + tick_ns)
		return 0;
	store_relaxed(looked_ns, now_ns);
	return 1;
}

/* Returns when a timeout that is not 0 expires; UINT64_MAX: never. now_ns: clock_ns(). */
static inline uint64_t client_deadline(uint64_t now_ns, uint64_t timeout_ns)
{
	return timeout_ns > UINT64_MAX - now_ns ? UINT64_MAX : now_ns + timeout_ns;
}

/* Returns the time until a deadline, as a timeout; 0 for a deadline of 0. */
static inline uint64_t client_left(uint64_t deadline_ns)
{
	uint64_t now = deadline_ns && deadline_ns != UINT64_MAX ? clock_ns() : 0;

	return deadline_ns == UINT64_MAX ? FK_FOREVER : deadline_ns > now ? deadline_ns - now : 0;
}

/* Takes one step of a spin and counts it in *steps. False once the clock has reached end_ns. */
static inline int client_spin(uint32_t *steps, uint64_t end_ns)
{
	fence_pause();
	return ++*steps % CLIENT_SPIN_BATCH || clock_ns() < end_ns;
}

/*
 * Returns the slot of a job; NULL if the job was released or spilled, or never existed.
 */
static inline struct client_slot *client_slot(struct fk_client *client, fk_job job)
{
	uint64_t index = job & 0xffffu;
	struct client_slot *slot;

	if (index >= client->n_jobs)
		return NULL;
	slot = &client->slots[index];
	/* Relaxed: a valid handle was returned after the generation was set. */
	if (load_relaxed(&slot->generation) != job >> 16)
		return NULL;
	return slot;
}

static inline struct job *client_job(struct fk_client *client, fk_job job)
{
	return &client->jobs[job & 0xffffu];
}

/* The generation of a job, cut to the bits that its record holds. */
static inline uint32_t client_generation(fk_job job)
{
	return (uint32_t)(job >> 16) & JOB_GEN_MASK;
}

/*
 * Returns the outcome of a job in the table, JOB_PENDING if it has not ended; or -ESTALE. The job
 * is not in the table then, or its record is empty because forkd has taken the segment back.
 */
static inline int client_outcome_in_table(struct fk_client *client, fk_job job)
{
	uint32_t state;

	if (unlikely(!client_slot(client, job)))
		return -ESTALE;
	/* ORDER job/outcome [J1]: acquire, pairs with the exchange in job_finish(). */
	state = atomic_load_explicit(&client_job(client, job)->state, memory_order_acquire);
	if (unlikely(state >> JOB_GEN_SHIFT != client_generation(job)))
		return -ESTALE;
	return (int)(state & JOB_OUTCOME_MASK);
}
