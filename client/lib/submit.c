/* SPDX-License-Identifier: MIT */
/*
 * submit.c - one job: taking a record, filling it, publishing it, giving it back
 *
 * The hot path of a client: no lock, no allocation (except for strings), and no system call if a
 * worker is awake.
 *
 *	take a record (record_pool.c) -> fill it -> publish it (publish.c)
 *
 * INVARIANTS
 *   I1. A slot is in the free list or belongs to one job. Its generation changes only when the job
 *       is released or spilled (spill.c). The CAS that changes it decides which thread does that.
 *   I2. The records of the free list have 0 in next, deadline, weight, group, place and cancel. A
 *       thread that sets one of them marks the slot (CLIENT_OPTIONS). The release of a marked slot
 *       clears all of them. cancel: cancel.c, I4.
 *   I3. The slots of the free list have no memory. The thread that ends a slot's handle frees the
 *       memory; the thread that spills the job moves it to the spilled copy.
 */
#include "client/lib/submit.h"

#include <errno.h>
#include <string.h>

#include "client/lib/publish.h"
#include "client/lib/record_pool.h"
#include "client/lib/spill.h"
#include "common/crash_site.h"
#include "common/relaxed.h"
#include "common/util.h"

#define SUBMIT_FLAGS (FK_IDEMPOTENT | FK_WAIT_ROOM)

uint64_t submit_first(struct fk_client *client, uint32_t index)
{
	/* The ledger still has generations of the client that used this row before. The manager
	 * left the last one in the record. It is read only when the record is first used, because
	 * the access allocates its page. A read-modify-write, because a read could map the
	 * surrounding pages as well. Relaxed: the slot is this thread's. */
	uint32_t last =
		atomic_fetch_or_explicit(&client->jobs[index].state, 0, memory_order_relaxed) >>
		JOB_GEN_SHIFT;
	uint64_t next = submit_next(last);

	store_relaxed(&client->slots[index].generation, next);
	return next;
}

void submit_undo(struct fk_client *client, uint32_t index)
{
	struct client_slot *slot = &client->slots[index];
	struct job *job = &client->jobs[index];

	/* Relaxed: no other thread knows the record. */
	store_relaxed(&job->state, job_state((uint32_t)load_relaxed(&slot->generation), JOB_IDLE));
	if (load_relaxed(&slot->options))
		submit_clear_options(slot, job);
	store_relaxed(&slot->memory, NULL);
}

/* Returns the error of a submission whose size or flags are wrong, or without arguments. */
static int submit_refuse(const fk_task *task, size_t size, unsigned int flags)
{
	if (flags & ~SUBMIT_FLAGS)
		return error_detail(-FK_E_FLAGS,
				    "flags are FK_IDEMPOTENT, FK_WAIT_ROOM, or with values "
				    "FK_COPY_BUFFERS, not %#x",
				    flags & ~SUBMIT_FLAGS);
	if (size != task->signature.args_size)
		return error_detail(-FK_E_SIGNATURE,
				    "%zu bytes of packed arguments, but the signature (%s) has %u",
				    size, task->text, task->signature.args_size);
	return error_detail(-FK_E_NULL, "the packed arguments are NULL");
}

/* memory: freed with the job; on failure the caller still owns it. */
static int submit(struct fk_client *client, const fk_task *task, const void *args, size_t size,
		  void *memory, unsigned int flags, fk_job *ret_job)
{
	fk_job handle;
	int index;
	int err;

	if (unlikely(size != task->signature.args_size || flags & ~SUBMIT_FLAGS || (size && !args)))
		return submit_refuse(task, size, flags);
	/* If the daemon ends after this check, the wait for the job reports it. */
	if (unlikely(client_is_gone(client)))
		return -ECONNRESET;
	err = task_check(client, task);
	if (err)
		return err;
	index = records_take(client);
	if (unlikely(index < 0)) {
		index = records_take_slowly(client, 1, flags & FK_WAIT_ROOM);
		if (index < 0)
			return index;
	}
	publish_prepare(client);
	if (size)
		memcpy(client->jobs[index].args, args, size);
	FK_CRASH(submit_args);
	handle = submit_fill(client, (uint32_t)index, task, flags, memory, clock_ns());
	FK_CRASH(submit_filled);
	err = publish_record(client, (uint32_t)index, 0, flags & FK_WAIT_ROOM);
	if (unlikely(err)) {
		submit_undo(client, (uint32_t)index);
		FK_CRASH(submit_undone);
		records_give(client, (uint32_t)index);
		return err;
	}
	FK_CRASH(submit_published);
	submit_published(client);
	*ret_job = handle;
	return 0;
}

int fk_submit_packed(fk_client *client, const fk_task *task, const void *args, size_t size,
		     unsigned int flags, fk_job *ret_job)
{
	int err = client_check(client);

	if (err)
		return error_of_task(client, err, "");
	err = submit(client, task, args, size, NULL, flags, ret_job);
	return err ? error_of_task(client, err, task->name) : 0;
}

int fk_submit_values(fk_client *client, const fk_task *task, const union fk_value *values, size_t n,
		     unsigned int flags, fk_job *ret_job)
{
	uint8_t args[LIMIT_ARGS];
	void *memory;
	int err = client_check(client);

	if (err)
		return error_of_task(client, err, "");
	err = args_pack(&client->heap, &task->signature, values, n, flags & FK_COPY_BUFFERS, args,
			&memory);
	if (err)
		return error_of_task(client, err, task->name);
	err = submit(client, task, args, task->signature.args_size, memory,
		     flags & ~FK_COPY_BUFFERS, ret_job);
	if (likely(!err))
		return 0;
	args_free(&client->heap, memory);
	return error_of_task(client, err, task->name);
}

int fk_release(fk_client *client, fk_job job)
{
	struct client_slot *slot;
	int err = client_check(client);

	if (err)
		return err;
	if (client_outcome_in_table(client, job) == JOB_PENDING && !client_gone(client))
		return -EBUSY;
	slot = client_slot(client, job);
	if (unlikely(!slot) || !submit_release(client, slot, job))
		return spill_release(client, job);
	records_give(client, (uint32_t)(job & 0xffffu));
	return 0;
}
