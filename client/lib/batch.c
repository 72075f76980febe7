/* SPDX-License-Identifier: MIT */
/*
 * batch.c - many jobs at once, each with its options
 *
 * One CAS takes n records. They are filled, linked by job->next, and counted into their groups.
 * One CAS of a ring's word publishes all of them (shm/job.h, CHAINS).
 *
 * 	check all -> take n -> fill, link, give out handles -> count into groups -> publish
 *
 * INVARIANTS
 *   I1. All or none: before the publication everything can be undone, and after it nothing fails.
 *       No other thread uses the records until then, whatever their state words contain.
 *   I2. Group counts rise before the publication (shm/group.h, I1). If it fails they fall again,
 *       which wakes a thread that sleeps on the group as the end of a job does.
 *   I3. The chain is stored twice: in job->next for the pool, and in the slots, which no other
 *       process writes. This file follows only the slots, and only until the publication. After it
 *       a job may end and be spilled (spill.c), and its slot may belong to another job. So the
 *       handles are stored before the publication.
 *   I4. Jobs that are watched from the start are linked before the publication (events.c, I7). If
 *       it fails because the daemon is gone, the batch counts as submitted: another thread may have
 *       reported some of its jobs.
 *
 * If this client dies before the word is in the ring, no job was submitted. The job table and its
 * group counts are destroyed with the client. If it dies later, all jobs were submitted.
 */
#include "client/lib/submit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "client/lib/events.h"
#include "client/lib/publish.h"
#include "client/lib/record_pool.h"
#include "common/crash_site.h"
#include "common/relaxed.h"
#include "common/util.h"

/* Flags of one request. FK_WAIT_ROOM belongs to the whole batch. */
#define BATCH_FLAGS (FK_IDEMPOTENT | FK_STRICT | FK_COPY_BUFFERS | FK_WATCH | FK_RELEASE)

static uint32_t batch_next(struct fk_client *client, uint32_t index)
{
	/* Relaxed: the slot is this thread's between taking and giving back. */
	return load_relaxed(&client->slots[index].next) - 1u;
}

int batch_has_node(const struct fk_client *client, uint32_t node)
{
	/* Relaxed: written once, before this client connected. */
	for (uint32_t i = 0; i < client->n_workers; i++)
		if (load_relaxed(&client->board->workers[i].node) == node)
			return 1;
	return 0;
}

static int batch_check_place(const struct fk_client *client, const struct fk_job_options *o)
{
	switch (o->place) {
	case FK_PLACE_ANY:
		if (!o->place_index && !(o->flags & FK_STRICT))
			return 0;
		return error_detail(-FK_E_OPTIONS, "FK_STRICT and place_index (%u) need a place",
				    o->place_index);
	case FK_PLACE_WORKER:
	case FK_PLACE_NODE:
		break;
	default:
		return error_detail(-FK_E_PLACE, "%u is no FK_PLACE_*", o->place);
	}
	if (client->waker.local && client->waker.local->cluster)
		return error_detail(-FK_E_PLACE,
				    "the cluster chooses the machine: submit the job without a "
				    "place");
	if (o->place == FK_PLACE_WORKER) {
		if (o->place_index < client->n_workers)
			return 0;
		return error_detail(-FK_E_PLACE,
				    "there is no such worker: %u; the pool has workers 0 to %u",
				    o->place_index, client->n_workers - 1);
	}
	if (o->place_index <= JOB_PLACE_INDEX_MASK && batch_has_node(client, o->place_index))
		return 0;
	return error_detail(-FK_E_PLACE, "no worker is on NUMA node %u", o->place_index);
}

/* True if a field is set that has no meaning yet. */
static int batch_reserved(const struct fk_job_options *o)
{
	uint64_t all = 0;

	for (size_t i = 0; i < ARRAY_SIZE(o->reserved); i++)
		all |= o->reserved[i];
	return all != 0;
}

/* same: options of an earlier request, whose place has been checked; or NULL. */
static int batch_check_options(struct fk_client *client, const struct fk_request *r,
			       const struct fk_job_options *same)
{
	const struct fk_job_options *o = &r->options;

	if (o->flags & ~BATCH_FLAGS)
		return error_detail(-FK_E_FLAGS, "options with unknown flags, or FK_WAIT_ROOM: %#x",
				    o->flags & ~BATCH_FLAGS);
	if (o->flags & FK_COPY_BUFFERS && !r->values)
		return error_detail(-FK_E_OPTIONS, "FK_COPY_BUFFERS needs values");
	if (o->flags & FK_RELEASE && !o->on_completion)
		return error_detail(-FK_E_OPTIONS, "FK_RELEASE needs on_completion()");
	if (batch_reserved(o))
		return error_detail(-FK_E_RESERVED, "a reserved field of struct fk_job_options is "
						    "not 0: use a designated initializer");
	if (o->weight > FK_WEIGHT_MAX)
		return error_detail(-FK_E_WEIGHT,
				    "the weight %u is too large: use 1 to %u, or 0 for the default",
				    o->weight, FK_WEIGHT_MAX);
	if (o->group && !group_number(client, o->group))
		return -FK_E_NO_GROUP;
	if (same && o->place == same->place && o->place_index == same->place_index &&
	    o->flags == same->flags)
		return 0;
	return batch_check_place(client, o);
}

static int batch_check(struct fk_client *client, const struct fk_request *r,
		       const struct fk_job_options *same)
{
	const struct signature *signature;
	int err;

	if (!r->task)
		return error_detail(-FK_E_NULL, "the task is NULL");
	signature = &r->task->signature;
	if (r->size != (r->values ? signature->n_args : signature->args_size))
		return error_detail(-FK_E_SIGNATURE, "%zu %s, but the signature (%s) has %u",
				    r->size, r->values ? "values" : "bytes of packed arguments",
				    r->task->text,
				    r->values ? signature->n_args : signature->args_size);
	if (!r->values && !r->args && r->size)
		return error_detail(-FK_E_NULL, "values and args are both NULL");
	err = batch_check_options(client, r, same);
	return err ? err : task_check(client, r->task);
}

static uint32_t batch_place(const struct fk_job_options *o)
{
	return job_place(o->place, o->place_index, (o->flags & FK_STRICT) != 0);
}

/* Fills one record. next: index + 1 of its successor, or 0. Returns 0 or args_pack()'s errors. */
static int batch_fill(struct fk_client *client, const struct fk_request *r, uint32_t index,
		      uint32_t next, uint64_t now, fk_job *ret_job)
{
	const struct fk_job_options *o = &r->options;
	struct client_slot *slot = &client->slots[index];
	struct job *job = &client->jobs[index];
	uint32_t group = o->group ? group_number(client, o->group) : 0;
	uint32_t place = batch_place(o);
	uint64_t deadline = 0;
	void *memory = NULL;

	if (r->values) {
		int err = args_pack(&client->heap, &r->task->signature, r->values, r->size,
				    o->flags & FK_COPY_BUFFERS, job->args, &memory);

		if (err)
			return err;
	} else if (r->size) {
		memcpy(job->args, r->args, r->size);
	}
	if (o->timeout_ns)
		deadline = o->timeout_ns > UINT64_MAX - now ? UINT64_MAX : now + o->timeout_ns;
	*ret_job = submit_fill(client, index, r->task, o->flags, memory, now);
	/* In a free record all of these fields are 0 (submit.c, I2). */
	if (next | deadline | o->weight | group | place) {
		store_relaxed(&job->next, next);
		store_relaxed(&job->deadline_ns, deadline);
		store_relaxed(&job->weight, o->weight);
		store_relaxed(&job->group, group);
		store_relaxed(&job->place, place);
		store_relaxed(&slot->options, CLIENT_OPTIONS | group);
	}
	return 0;
}

/* Resets the first n records of a chain and frees their memory. The records stay taken. */
static void batch_undo(struct fk_client *client, uint32_t first, uint32_t n)
{
	uint32_t index = first;

	for (uint32_t i = 0; i < n; i++) {
		/* Relaxed: the slot is this thread's. */
		args_free(&client->heap, load_relaxed(&client->slots[index].memory));
		submit_undo(client, index);
		index = batch_next(client, index);
	}
}

/* Counts n records into their groups, or out again. Neighbours of one group are one update. */
static void batch_count(struct fk_client *client, uint32_t first, uint32_t n, int up)
{
	uint32_t index = first;
	uint32_t group = 0;
	uint32_t run = 0;

	for (uint32_t i = 0; i <= n; i++) {
		uint32_t next =
			i < n ? load_relaxed(&client->slots[index].options) & CLIENT_GROUP : 0;

		if (next != group) {
			if (group && up) {
				group_add(&client->groups[group - 1], run);
				FK_CRASH(batch_counting);
			} else if (group) {
				group_take_back(client, group, run);
			}
			group = next;
			run = 0;
		}
		run++;
		if (i + 1 < n)
			index = batch_next(client, index);
	}
}

/* Fills, counts and publishes a chain that was taken. On failure all of that is undone. */
static int batch_submit(struct fk_client *client, const struct fk_request *requests, uint32_t n,
			uint32_t first, unsigned int flags, fk_job *ret_jobs, size_t *ret_failed)
{
	uint64_t now = clock_ns();
	uint32_t index = first;
	int grouped = 0;
	int watched = 0;
	int err;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t next = i + 1 < n ? batch_next(client, index) : index;

		/* Fetch the next record early: it is in the cache of the core that ran its job. */
		__builtin_prefetch(&client->jobs[next], 1);
		__builtin_prefetch(&client->jobs[next].state, 1);
		err = batch_fill(client, &requests[i], index, i + 1 < n ? next + 1 : 0, now,
				 &ret_jobs[i]);
		if (err) {
			batch_undo(client, first, i);
			*ret_failed = i;
			return err;
		}
		FK_CRASH(batch_filled);
		grouped |= requests[i].options.group != 0;
		watched |= events_wanted(&requests[i].options);
		index = next;
	}
	err = watched ? events_watch_batch(client, requests, ret_jobs, n) : 0;
	if (err) {
		batch_undo(client, first, n);
		return err;
	}
	if (grouped)
		batch_count(client, first, n, 1);
	FK_CRASH(batch_counted);
	err = publish_record(client, first, batch_place(&requests[0].options),
			     flags & FK_WAIT_ROOM);
	if (watched && !err)
		events_published(client);
	if (watched && err && events_unpublished(client, ret_jobs, n))
		err = 0;
	if (err) {
		if (grouped)
			batch_count(client, first, n, 0);
		FK_CRASH(batch_uncounted);
		batch_undo(client, first, n);
	}
	return err;
}

/* Returns the index of the last record in a chain of n. */
static uint32_t batch_last(struct fk_client *client, uint32_t first, uint32_t n)
{
	uint32_t index = first;

	while (--n)
		index = batch_next(client, index);
	return index;
}

int batch_try(fk_client *client, const struct fk_request *requests, size_t n, unsigned int flags,
	      fk_job *ret_jobs, size_t *ret_failed)
{
	int first;
	int err = client_check(client);

	if (err)
		return err;
	if (flags & ~FK_WAIT_ROOM)
		return error_detail(-FK_E_FLAGS, "flags of a batch are 0 or FK_WAIT_ROOM, not %#x",
				    flags);
	if (n > client->n_jobs)
		return -FK_E_BATCH_SIZE;
	/* If the daemon ends after this check, the wait for the job reports it. */
	if (client_is_gone(client))
		return -ECONNRESET;
	for (size_t i = 0; i < n; i++) {
		err = batch_check(client, &requests[i], i ? &requests[i - 1].options : NULL);
		if (err) {
			*ret_failed = i;
			return err;
		}
	}
	if (!n)
		return 0;
	first = records_take_chain(client, (uint32_t)n);
	if (unlikely(first < 0)) {
		first = records_take_slowly(client, (uint32_t)n, flags & FK_WAIT_ROOM);
		if (first < 0)
			return first;
	}
	err = batch_submit(client, requests, (uint32_t)n, (uint32_t)first, flags, ret_jobs,
			   ret_failed);
	if (err) {
		records_give_chain(client, (uint32_t)first,
				   batch_last(client, (uint32_t)first, (uint32_t)n));
		return err;
	}
	FK_CRASH(batch_published);
	submit_published(client);
	return 0;
}

int fk_submit_batch(fk_client *client, const struct fk_request *requests, size_t n,
		    unsigned int flags, fk_job *ret_jobs)
{
	size_t failed = n == 1 ? 0 : n;
	int err = batch_try(client, requests, n, flags, ret_jobs, &failed);
	const char *name;
	char text[96];

	if (likely(!err))
		return 0;
	name = failed < n && requests[failed].task ? requests[failed].task->name : "";
	if (n > 1 && failed < n) {
		(void)snprintf(text, sizeof(text), "request %zu: %s", failed, name);
		name = text;
	}
	return error_of_task(client, err, name);
}

int fk_release_batch(fk_client *client, const fk_job *jobs, size_t n)
{
	uint32_t first = 0; /* + 1 */
	uint32_t last = 0;
	int err = client_check(client);

	if (err)
		return err;
	for (size_t i = 0; i < n; i++)
		if (client_outcome_in_table(client, jobs[i]) == JOB_PENDING && !client_gone(client))
			return -EBUSY;
	for (size_t i = 0; i < n; i++) {
		struct client_slot *slot = client_slot(client, jobs[i]);

		if (unlikely(!slot) || !submit_release(client, slot, jobs[i])) {
			if (spill_release(client, jobs[i]))
				err = -ESTALE;
			continue;
		}
		/* Relaxed: records_give_chain() publishes them. */
		store_relaxed(&slot->next, (uint16_t)first);
		if (!first)
			last = (uint32_t)(jobs[i] & 0xffffu);
		first = (uint32_t)(jobs[i] & 0xffffu) + 1;
	}
	FK_CRASH(batch_linked);
	if (first)
		records_give_chain(client, first - 1, last);
	return err;
}
