/* SPDX-License-Identifier: MIT */
/*
 * submit.h - a record's way from the free list and back, for one job and for many
 *
 *	slots_take() -> submit_fill() -> publish_record() ... submit_release() -> slots_give()
 *				      -> submit_undo(), if it was not published -> slots_give()
 *
 * The invariants stand in submit.c. Any thread; the record is the caller's alone in all of them.
 */
#ifndef CLIENT_LIB_SUBMIT_H
#define CLIENT_LIB_SUBMIT_H

#include "client/lib/client.h"
#include "common/crash_site.h"
#include "common/util.h"
#include "shm/fence.h"

/* The free records keep these fields at 0: a submission without options does not write them. */
static inline void submit_clear_options(struct client_slot *slot, struct job *job)
{
	/* Relaxed: publishing the record, or giving the slot back, releases them. */
	atomic_store_explicit(&job->next, 0, memory_order_relaxed);
	atomic_store_explicit(&job->deadline_ns, 0, memory_order_relaxed);
	atomic_store_explicit(&job->weight, 0, memory_order_relaxed);
	atomic_store_explicit(&job->group, 0, memory_order_relaxed);
	atomic_store_explicit(&job->place, 0, memory_order_relaxed);
	job_forget_end(job);
	atomic_store_explicit(&slot->options, 0, memory_order_relaxed);
}

/* The generation of the first job of a slot that was taken. */
uint64_t submit_first(struct fk_client *client, uint32_t index);

/*
 * Fills the record of a slot that was taken, but for its arguments and its options, and makes it
 * PENDING. Returns its handle.
 */
static inline fk_job submit_fill(struct fk_client *client, uint32_t index, const fk_task *task,
				 unsigned int flags, void *strings, uint64_t now_ns)
{
	struct client_slot *slot = &client->slots[index];
	struct job *job = &client->jobs[index];
	uint64_t generation = atomic_load_explicit(&slot->generation, memory_order_relaxed);

	if (unlikely(generation == CLIENT_UNUSED))
		generation = submit_first(client, index);
	/* ORDER job/reuse [J2]: release, the end of the last job's handle comes before what this
	 * job has in the record. Pairs with client_end_in_table(). */
	fence_release();
	/* Relaxed, all of them: ring_push() releases. */
	atomic_store_explicit(&slot->result_size, (uint16_t)task->signature.results_size,
			      memory_order_relaxed);
	atomic_store_explicit(&slot->strings, strings, memory_order_relaxed);
	atomic_store_explicit(&slot->submitted_ns, now_ns, memory_order_relaxed);
	atomic_store_explicit(&job->task, task->index, memory_order_relaxed);
	atomic_store_explicit(&job->flags, flags & FK_IDEMPOTENT ? JOB_IDEMPOTENT : 0,
			      memory_order_relaxed);
	atomic_store_explicit(&job->generation, (uint32_t)generation & JOB_GEN_MASK,
			      memory_order_relaxed);
	atomic_store_explicit(&job->args_size, task->signature.args_size, memory_order_relaxed);
	atomic_store_explicit(&job->task_hash, task->hash, memory_order_relaxed);
	FK_CRASH(submit_half);
	atomic_store_explicit(&job->state, job_state((uint32_t)generation, JOB_PENDING),
			      memory_order_relaxed);
	return generation << 16 | index;
}

/* The generation after this one. A record never has 0. */
static inline uint64_t submit_next(uint64_t generation)
{
	generation++;
	return generation & JOB_GEN_MASK ? generation : generation + 1;
}

/*
 * Ends a handle whose job may be released. True if its slot is the caller's then, to give back;
 * false: another release was first, or the job was spilled.
 */
static inline int submit_release(struct fk_client *client, struct client_slot *slot, fk_job job)
{
	uint64_t generation = job >> 16;
	void *strings;

	/* Relaxed: slots_give() publishes the slot. The CAS lets one of two releases win (I1). */
	if (!atomic_compare_exchange_strong_explicit(&slot->generation, &generation,
						     submit_next(generation), memory_order_relaxed,
						     memory_order_relaxed))
		return 0;
	FK_CRASH(submit_released);
	strings = atomic_load_explicit(&slot->strings, memory_order_relaxed);
	if (strings)
		(void)heap_free(&client->heap, strings);
	if (atomic_load_explicit(&slot->options, memory_order_relaxed))
		submit_clear_options(slot, client_job(client, job));
	return 1;
}

/* After a publication: the thread that looks for room on behalf of all that wait for it has to know
 * of the job (record_wait.c, I3). */
static inline void submit_published(struct fk_client *client)
{
	/* ORDER slots/ends [C5]: relaxed, behind the full fence of wake_published(). Pairs with
	 * slots_look(). */
	if (unlikely(atomic_load_explicit(&client->room_waiters, memory_order_relaxed)))
		client_kick(client);
}

/*
 * Takes back what was filled and never published: the generation is used again. The string block is
 * the caller's.
 */
void submit_undo(struct fk_client *client, uint32_t index);

#endif
