/* SPDX-License-Identifier: MIT */
/* client.h - what the files of the library share; nothing of it is public */
#ifndef CLIENT_LIB_CLIENT_H
#define CLIENT_LIB_CLIENT_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include <forkd/client.h>

#include "client/lib/events.h"
#include "client/lib/heap.h"
#include "client/lib/publish.h"
#include "client/lib/slot_stack.h"
#include "client/lib/slots.h"
#include "client/lib/spill.h"
#include "common/clock.h"
#include "common/util.h"
#include "shm/board.h"
#include "shm/job.h"
#include "shm/signature.h"
#include "shm/tenant.h"

/* Who waits, or calls again and again and finds nothing, looks at the socket this often. */
#define CLIENT_TICK_NS UINT64_C(500000000)

/* Steps of a spin between two looks at the clock. */
#define CLIENT_SPIN_BATCH 16u

/* Of room_waiters: each that waits for several slots counts so much. */
#define CLIENT_ROOM_CHAIN 0x10000u

struct fk_client_task {
	struct fk_client_task *next; /* constant once the task is in the list */
	uint32_t index;		     /* on the board */
	uint64_t hash;
	uint64_t types; /* pack_types() */
	struct signature signature;
	char name[64 + 1];
	char text[96 + 1];
};

/* Of client_slot.options: the record's fields for them are not 0; the number of its group. */
#define CLIENT_OPTIONS 0x80000000u
#define CLIENT_GROUP   0xffffu

/* The generation of no job, and of no handle. */
#define CLIENT_UNUSED UINT64_MAX

/* How a job has ended. */
struct client_end {
	uint32_t outcome;     /* JOB_DONE, ... */
	int32_t code;	      /* 0, or that of JOB_FAILED */
	uint32_t signo;	      /* 0, or that of JOB_CRASHED */
	uint32_t result_size; /* bytes */
	uint64_t wait_ns;     /* from submission to start */
	uint64_t run_ns;      /* from start to end */
};

/* What the library keeps for each group. */
enum client_group_state {
	CLIENT_GROUP_FREE,
	CLIENT_GROUP_USED,
	CLIENT_GROUP_LIMBO, /* was freed with a count that is not 0 (shm/group.h, I4) */
};

struct client_group {
	_Atomic uint32_t generation; /* of the handle that is good, 0 for none */
	_Atomic uint64_t looked_ns;  /* at the records; client_due() */
	/* under the lock */
	uint32_t last; /* generation that was given out */
	enum client_group_state state;
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
	int fd;
	uint32_t spin_max; /* ns; 0 with one CPU */
	uint64_t board_size;
	uint64_t tenant_size;
	uint64_t segment_size;
	struct fk_client *list_next; /* under the lock of client.c */
	struct heap heap;	     /* has its own lock */
	struct events events;	     /* the same */
	void *spilled;		     /* tree of spill.c, under the lock of events */
	/* any thread */
	_Atomic(struct fk_client_task *) tasks; /* grows at its front */
	pthread_mutex_t tasks_lock;		/* of who adds */
	pthread_mutex_t group_lock;		/* of who makes and frees groups */
	struct client_group group[LIMIT_GROUPS];
	_Alignas(64) _Atomic uint64_t free; /* { tag:32, slot + 1:32 } */
	_Alignas(64) _Atomic uint32_t last; /* worker of the last submission, a hint */
	_Atomic uint32_t random;
	_Atomic uint32_t spin;		    /* ns that a wait spins now */
	_Atomic uint32_t gone;		    /* the daemon is; never cleared */
	_Atomic uint32_t lasting;	    /* lasting.h */
	_Atomic uint64_t looked_ns;	    /* at the socket, by client_look(); 0: never */
	_Alignas(64) _Atomic uint32_t room; /* futex word: goes up when a record came free */
	_Atomic uint32_t room_waiters;	    /* for one 1, for several CLIENT_ROOM_CHAIN */
	_Atomic uint32_t room_looker; /* one of them sleeps on the ends of jobs (slots.c, I5) */
	_Alignas(64) struct publish_waker waker;
};

/* 0, or -EPERM in a child. Costs one load. */
static inline int client_check(const struct fk_client *client)
{
	/* Relaxed: only a fork changes it. */
	return atomic_load_explicit(client->alive, memory_order_relaxed) ? 0 : -EPERM;
}

/* client.c: looks at the socket. True if the daemon is gone. A system call, unless it is known. */
int client_gone(struct fk_client *client);

/*
 * client.c: true once in tick_ns, for one of those that share looked_ns. now_ns: clock_ns(), or
 * clock_coarse_ns().
 */
int client_due(_Atomic uint64_t *looked_ns, uint64_t now_ns, uint64_t tick_ns);

/*
 * client.c: for who waits or polls and finds nothing, as often as it likes: once in CLIENT_TICK_NS,
 * all threads together, looks at the socket and does the publisher's part again (wake.h, W7); more
 * often while a worker that was woken for longer than PUBLISH_DOUBT does not wake up. True if the
 * daemon is gone. now_ns: as above.
 */
int client_look(struct fk_client *client, uint64_t now_ns);

/*
 * client.c: sleeps as long as *word is value, but not longer than CLIENT_TICK_NS, or PUBLISH_NAP
 * if a worker that was woken has not woken up yet; and then looks, unless it was woken.
 * Returns 0, for another look at the word; -ETIMEDOUT, without having slept, if deadline_ns
 * (CLOCK_MONOTONIC) is over, after a look if that is due; -ECONNRESET.
 */
int client_sleep(struct fk_client *client, const _Atomic uint32_t *word, uint32_t value,
		 uint64_t deadline_ns);

/* When a timeout that is not 0 is over. now_ns: clock_ns(). UINT64_MAX: never. */
static inline uint64_t client_deadline(uint64_t now_ns, uint64_t timeout_ns)
{
	return timeout_ns > UINT64_MAX - now_ns ? UINT64_MAX : now_ns + timeout_ns;
}

/* The timeout that is left of it; 0 for a deadline of 0. */
static inline uint64_t client_left(uint64_t deadline_ns)
{
	uint64_t now = deadline_ns && deadline_ns != UINT64_MAX ? clock_ns() : 0;

	return deadline_ns == UINT64_MAX ? FK_FOREVER : deadline_ns > now ? deadline_ns - now : 0;
}

/* A step of a spin, of which the caller counts in *steps: false once end_ns is over. */
static inline int client_spin(uint32_t *steps, uint64_t end_ns)
{
	fence_pause();
	return ++*steps % CLIENT_SPIN_BATCH || clock_ns() < end_ns;
}

/*
 * The slot of a job; NULL if the job is not in the table: it was released or spilled, or never was.
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

/* The generation of a job as its record has it. */
static inline uint32_t client_generation(fk_job job)
{
	return (uint32_t)(job >> 16) & JOB_GEN_MASK;
}

/*
 * The outcome of a job in the table, JOB_PENDING if it has not ended. -ESTALE: it is not there, or
 * its record is empty because forkd has taken the segment back.
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

/* The same of any job. Returns an outcome, -ESTALE (no such job) or -ECONNRESET (it has none, and
 * forkd has taken the segment back). Without the lock of events. */
static inline int client_outcome(struct fk_client *client, fk_job job)
{
	int outcome = client_outcome_in_table(client, job);

	return likely(outcome >= 0) ? outcome : spill_outcome(client, job);
}

/*
 * wait.c: reads how a job in the table has ended. result: LIMIT_RESULT bytes, or NULL.
 * Returns 0, -EINPROGRESS, or -ESTALE as client_outcome_in_table().
 */
int client_end_in_table(struct fk_client *client, fk_job job, struct client_end *ret_end,
			void *result);

/* batch.c: true if the pool has a worker on this NUMA node. */
int batch_has_node(const struct fk_client *client, uint32_t node);

/* group.c: the number of a group (its index + 1), or 0 if there is no such group. */
uint32_t group_number(struct fk_client *client, fk_group group);

/* group.c: takes n jobs that were counted and not published out of a group again. */
void group_take_back(struct fk_client *client, uint32_t number, uint32_t n);

/* pack.c: a buffer as it stands among the arguments. Returns 0 or -EFAULT (fk_buffer_ref()). */
int pack_buffer(const struct heap *heap, struct fk_buffer buffer, struct fk_ref *ret_ref);

/*
 * pack.c: packs values by a signature. args: LIMIT_ARGS bytes. Sets *ret_strings to a block that
 * holds the copied strings, or NULL. Returns 0, -EINVAL, -EFAULT, -ENOMEM as fk_submit_values().
 */
int pack_values(struct heap *heap, const struct signature *signature, const union fk_value *values,
		size_t n, uint8_t *args, void **ret_strings);

/* The types of a call (fk_call_typed()): the bits of the result begin here, those of the arguments
 * are below. */
#define PACK_RESULT	    48
#define PACK_ARGS	    (((uint64_t)1 << PACK_RESULT) - 1)
#define PACK_TYPE(types, i) ((uint32_t)((types) >> 4 * (i)) & 15u)

/* pack.c: the types of a call that fits a signature. */
uint64_t pack_types(const struct signature *signature);

/* pack.c: the error of pack_check(), with its text. */
int pack_misfit(const fk_task *task, uint64_t types, int with_result, size_t size);

/*
 * Compares the types of a call with a task's signature. with_result: of its result as well, of size
 * bytes. Returns 0, or -EINVAL with an error text that shows both.
 */
static inline int pack_check(const fk_task *task, uint64_t types, int with_result, size_t size)
{
	uint64_t differs = types ^ task->types;

	if (unlikely(differs & PACK_ARGS) ||
	    (with_result && unlikely(size != task->signature.results_size ||
				     (types >> PACK_RESULT && differs >> PACK_RESULT))))
		return pack_misfit(task, types, with_result, size);
	return 0;
}

/* error.c: sets what fk_error_text() returns, from a format. Returns err. */
int error_say(int err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * error.c: the same by a task's name and fk_strerror(), put together when it is asked for: -EAGAIN
 * may come often. Returns err.
 */
int error_of_task(int err, const char *name);

/* error.c: puts a task's name before what fk_error_text() returns. Returns err. */
int error_name(int err, const char *name);

/*
 * error.c: what became of a job, in words: "FAILED: No such file or directory". begun: its task
 * was; if not, the code is the pool's, otherwise the task's. Returns text.
 */
const char *error_outcome(char *text, size_t size, int outcome, int code, int signo, int begun);

/* The errno of a final outcome, 0 for JOB_DONE. */
int error_of_outcome(uint32_t outcome, int32_t code);

#endif
