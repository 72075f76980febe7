/* SPDX-License-Identifier: MIT */
/* client.h - internal functions of the library's small units */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <forkd/client.h>

#include "client/lib/client_state.h"
#include "client/lib/heap.h"
#include "client/lib/spill.h"
#include "common/util.h"
#include "shm/job.h"
#include "shm/signature.h"

/* The segments of a client whose pool is in this process, mapped by the pool. */
struct client_place {
	const struct waker_local *local;
	const struct board *board;
	uint64_t board_size;
	struct tenant_segment *tenant;
	uint64_t tenant_size;
	struct client_segment *segment;
	uint64_t segment_size;
};

/* client.c: makes a client of a pool in this process. fk_close() calls place->local->close().
 * Returns 0, -ENOMEM, or -EBADMSG (a segment's head is wrong); then the segments stay. */
int client_open_in_process(const struct client_place *place, fk_client **ret_client);

/* client.c: fk_open() of a socket, with options. */
int client_open_socket(const char *path, const struct fk_open_options *options,
		       fk_client **ret_client);

/* open.c: opens a pool in this process. daemon/local sets it before main(); NULL in libforkclient,
 * which has no pool. */
extern int (*client_open_local)(const struct fk_open_options *options, fk_client **ret_client);

/* liveness.c: checks the socket, unless the daemon is known to be gone. True if it is gone. */
int client_gone(struct fk_client *client);

/*
 * liveness.c: for a thread that waits or polls in vain, at any rate. Once in CLIENT_TICK_NS for all
 * threads together, checks the socket and wakes a worker again if rings are not empty (wake.h, W7).
 * Does so more often while a worker does not wake up within WAKER_DOUBT after its wake. True if the
 * daemon is gone. now_ns: clock_ns(), or clock_coarse_ns().
 */
int client_look(struct fk_client *client, uint64_t now_ns);

/*
 * liveness.c: sleeps while *word is value, for at most CLIENT_TICK_NS; or WAKER_NAP, if a worker
 * that was woken has not woken up yet. Checks the socket after that, unless it was woken.
 * Returns 0: the caller must read the word again; -ETIMEDOUT: deadline_ns (CLOCK_MONOTONIC) had
 * passed before the sleep; -ECONNRESET; -EDEADLK: the thread is a worker of a pool in this process.
 */
int client_sleep(struct fk_client *client, const _Atomic uint32_t *word, uint32_t value,
		 uint64_t deadline_ns);

/* liveness.c: wakes all threads that sleep on the count of ends, to check again. */
void client_kick(struct fk_client *client);

/* heap_api.c: struct heap.grow of a client: requests a larger heap from forkd. */
int client_grow_heap(struct heap *heap, size_t size);

/* import.c: unmaps all imports; without locks. */
void import_fini(struct fk_client *client);

/* import.c: fk_free() of an address that may be an import: returns as that. */
int import_free(struct fk_client *client, void *data);

/* task.c: returns 0, or -FK_E_TASK_GONE if the board has another task in its place (task.c, I2). */
int task_check(const struct fk_client *client, const fk_task *task);

/* Number of tasks of the pool itself, the first ones on the board: program_tasks.h. */
static inline uint32_t client_own_tasks(const struct fk_client *client)
{
	return client->waker.local ? client->waker.local->n_tasks : 0;
}

#define CLIENT_TEXT 400u /* bytes of a text of a cluster, with its NUL */

/* task.c: finds the pool's own task at this index. Returns 0 or -ENOMEM. */
int task_own(fk_client *client, uint32_t index, const fk_task **ret_task);

/* task.c: the task of the list with this hash of its name and signature, or NULL. */
const fk_task *task_of_hash(const struct fk_client *client, uint64_t hash);

/* As client_outcome_in_table(), also for spilled jobs. Returns an outcome, -ESTALE (no such job) or
 * -ECONNRESET (no outcome: forkd has taken the segment back). Without the lock of events. */
static inline int client_outcome(struct fk_client *client, fk_job job)
{
	int outcome = client_outcome_in_table(client, job);

	return likely(outcome >= 0) ? outcome : spill_outcome(client, job);
}

/*
 * outcome.c: reads how a job in the table has ended. result: LIMIT_RESULT bytes, or NULL.
 * Returns 0, -EINPROGRESS, or -ESTALE as client_outcome_in_table().
 */
int client_end_in_table(struct fk_client *client, fk_job job, struct client_end *ret_end,
			void *result);

/*
 * batch.c: fk_submit_batch() without error_of_task(). Sets *ret_failed to the index of the request
 * that is the reason of a failure, if one of them is.
 */
int batch_try(fk_client *client, const struct fk_request *requests, size_t n, unsigned int flags,
	      fk_job *ret_jobs, size_t *ret_failed);

/* batch.c: true if the pool has a worker on this NUMA node. */
int batch_has_node(const struct fk_client *client, uint32_t node);

/* group.c: the number of a group (its index + 1), or 0 if there is no such group. */
uint32_t group_number(struct fk_client *client, fk_group group);

/* group.c: subtracts n jobs from a group that were counted but not published. */
void group_take_back(struct fk_client *client, uint32_t number, uint32_t n);

/* arguments.c: converts a buffer to its packed form. Returns what fk_buffer_ref() does. */
int args_buffer(const struct heap *heap, struct fk_buffer buffer, struct fk_ref *ret_ref);

/*
 * arguments.c: packs values by a signature. args: LIMIT_ARGS bytes. copy: copies buffers that are
 * not usable in place (FK_COPY_BUFFERS). Sets *ret_memory to the memory of the copied strings and
 * buffers, or NULL. Returns what fk_submit_values() does.
 */
int args_pack(struct heap *heap, const struct signature *signature, const union fk_value *values,
	      size_t n, int copy, uint8_t *args, void **ret_memory);

/* arguments.c: copies the iobufs of a DONE job to the caller. memory: of args_pack(), or NULL. */
void args_copy_back(const struct heap *heap, void *memory);

/* arguments.c: frees the memory of args_pack(). memory: may be NULL. */
void args_free(struct heap *heap, void *memory);

/*
 * arguments.c: for a job that is spilled. Returns the part of its memory that fk_result() needs, or
 * NULL, and frees the rest. memory: may be NULL.
 */
void *args_keep(struct heap *heap, void *memory);

/* The types of a call (fk_call_typed()): the bits of the result begin here, after those of the
 * arguments. */
#define ARGS_RESULT	    48
#define ARGS_TYPES	    (((uint64_t)1 << ARGS_RESULT) - 1)
#define ARGS_TYPE(types, i) ((uint32_t)((types) >> 4 * (i)) & 15u)

/* arguments.c: the types of a call that fits a signature. */
uint64_t args_types(const struct signature *signature);

/* arguments.c: sets the error text of args_check(). Returns -FK_E_SIGNATURE. */
int args_misfit(const fk_task *task, uint64_t types, int with_result, size_t size);

/*
 * Compares the types of a call with a task's signature. with_result: also compares the result, of
 * size bytes. Returns 0, or -FK_E_SIGNATURE with an error text that shows both.
 */
static inline int args_check(const fk_task *task, uint64_t types, int with_result, size_t size)
{
	uint64_t differs = types ^ task->types;

	if (unlikely(differs & ARGS_TYPES) ||
	    (with_result && unlikely(size != task->signature.results_size ||
				     (types >> ARGS_RESULT && differs >> ARGS_RESULT))))
		return args_misfit(task, types, with_result, size);
	return 0;
}

/*
 * error.c: describes the next failure of this thread in more detail than fk_strerror() does. For
 * functions whose callers end with error_of_task(). An error that has details has them always.
 * Returns err.
 */
int error_detail(int err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* error.c: sets the text of fk_error_text() from a format. Returns err. */
int error_say(int err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* error.c: fk_strerror(); if the pool is local, in this process, without remedies for the
 * machine's forkd. */
const char *error_text(int err, int local);

/*
 * error.c: sets it to a task's name and the details of err, or error_text(). fk_error_text()
 * formats it, because some errors may be frequent. client: NULL is one of the machine's forkd.
 * Returns err.
 */
int error_of_task(const struct fk_client *client, int err, const char *name);

/* error.c: sets the name in the text of fk_error_text(). Returns err. */
int error_name(int err, const char *name);

/*
 * error.c: describes the outcome of a job, with the meaning of its code: "FAILED: Bad message: the
 * data is damaged, or has another format". begun: its task has run, and the code is the task's;
 * otherwise the pool's. local: as in error_text(). Returns text.
 */
const char *error_outcome(char *text, size_t size, int outcome, int code, int signo, int begun,
			  int local);

/* call.c: waits for the job of a call of this name, takes its result as fk_result() does, and
 * releases the job. Returns as fk_call() does. */
int call_finish(fk_client *client, fk_job job, const char *name, void *result, size_t size);

/* error.c: true if err is a negative enum fk_error. */
int error_is_own(int err);

/* Returns the negative errno of a final outcome, 0 for JOB_DONE. */
int error_of_outcome(uint32_t outcome, int32_t code, int begun);
