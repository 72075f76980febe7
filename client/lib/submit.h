/* SPDX-License-Identifier: MIT */
/*
 * submit.h - the life of a record between two stays in the free list
 *
 *	records_take() -> submit_fill() -> publish_record() ... submit_release() -> records_give()
 *				      -> submit_undo(), if it was not published -> records_give()
 *
 * The invariants are in submit.c. Any thread; the caller owns the record exclusively.
 */
#pragma once

#include "client/lib/client.h"
#include "common/crash_site.h"
#include "common/relaxed.h"
#include "common/util.h"
#include "shm/fence.h"

/* Clears the option fields. They are 0 in free records, so most submissions do not write them. */
static inline void submit_clear_options(struct client_slot *slot, struct job *job)
{
	/* Relaxed: publishing the record, or giving the slot back, releases them. */
	store_relaxed(&job->next, 0);
	store_relaxed(&job->deadline_ns, 0);
	store_relaxed(&job->weight, 0);
	store_relaxed(&job->group, 0);
	store_relaxed(&job->place, 0);
	job_forget_end(job);
	store_relaxed(&slot->options, 0);
}

/* Sets and returns the generation of the first job of a slot that was taken. */
uint64_t submit_first(struct fk_client *client, uint32_t index);

/*
 * Fills the record of a slot that was taken, except for the arguments and options, and makes it
 * PENDING. Returns the handle of the job.
 */
static inline fk_job submit_fill(struct fk_client *client, uint32_t index, const fk_task *task,
				 unsigned int flags, void *memory, uint64_t now_ns)
{
	struct client_slot *slot = &client->slots[index];
	struct job *job = &client->jobs[index];
	uint64_t generation = load_relaxed(&slot->generation);

	if (unlikely(generation == CLIENT_UNUSED))
		generation = submit_first(client, index);
	/* ORDER job/reuse [J2]: release, the end of the last job's handle comes before the data of
	 * this job in the record. Pairs with client_end_in_table(). */
	fence_release();
	/* Relaxed, all of them: ring_push() releases. */
	store_relaxed(&slot->result_size, (uint16_t)task->signature.results_size);
	store_relaxed(&slot->memory, memory);
	store_relaxed(&slot->submitted_ns, now_ns);
	store_relaxed(&job->task, task->index);
	store_relaxed(&job->flags, flags & FK_IDEMPOTENT ? JOB_IDEMPOTENT : 0);
	store_relaxed(&job->generation, (uint32_t)generation & JOB_GEN_MASK);
	store_relaxed(&job->args_size, task->signature.args_size);
	store_relaxed(&job->task_hash, task->hash);
	FK_CRASH(submit_half);
	store_relaxed(&job->state, job_state((uint32_t)generation, JOB_PENDING));
	return generation << 16 | index;
}

/* Returns the next generation. Its bits in the record (JOB_GEN_MASK) are never 0. */
static inline uint64_t submit_next(uint64_t generation)
{
	generation++;
	return generation & JOB_GEN_MASK ? generation : generation + 1;
}

/*
 * Ends the handle of a job that may be released. True: the caller now owns the slot, which it must
 * give back, and *ret_memory (args_pack(), or NULL). False: the job was released or spilled before.
 */
static inline int submit_end(struct fk_client *client, struct client_slot *slot, fk_job job,
			     void **ret_memory)
{
	uint64_t generation = job >> 16;
	void *memory;

	/* Relaxed: records_give() publishes the slot. The CAS lets one of two releases win (I1). */
	if (!atomic_compare_exchange_strong_explicit(&slot->generation, &generation,
						     submit_next(generation), memory_order_relaxed,
						     memory_order_relaxed))
		return 0;
	FK_CRASH(submit_released);
	memory = load_relaxed(&slot->memory);
	if (memory) {
		/* ORDER job/reuse [J2]: release, the end of the handle comes before the end of its
		 * memory: fk_result() reads the memory first, and then the generation. */
		fence_release();
		store_relaxed(&slot->memory, NULL);
	}
	if (load_relaxed(&slot->options))
		submit_clear_options(slot, client_job(client, job));
	*ret_memory = memory;
	return 1;
}

/* As submit_end(), and frees the memory. */
static inline int submit_release(struct fk_client *client, struct client_slot *slot, fk_job job)
{
	void *memory;

	if (!submit_end(client, slot, job, &memory))
		return 0;
	if (memory)
		args_free(&client->heap, memory);
	return 1;
}

/* After a publication: notifies the looker, which waits for a free record, of the new job
 * (record_wait.c, I3). */
static inline void submit_published(struct fk_client *client)
{
	/* ORDER slots/ends [C5]: relaxed, after the full fence of wake_published(). Pairs with
	 * records_look(). */
	if (unlikely(load_relaxed(&client->room_waiters)))
		client_kick(client);
}

/*
 * Resets a record that was filled and not published. Its generation is used again. The caller
 * frees the memory.
 */
void submit_undo(struct fk_client *client, uint32_t index);
