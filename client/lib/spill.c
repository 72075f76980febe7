/* SPDX-License-Identifier: MIT */
/*
 * A job holds a record of the job table until the job is released or spilled. A thread that finds
 * no free record spills: it moves all jobs that have ended into a tree in private memory and frees
 * their records. So the table limits only the jobs in flight, and a thread that holds all handles
 * does not block itself.
 *
 * 	record --client_end_in_table()--> struct spilled --fk_release()--> freed
 * 	      \-submit_release(), records_give_chain(): the next job's
 *
 * INVARIANTS
 *   I1. A handle is valid from its submission to fk_release(). Either its slot has its generation,
 *       or it is in the tree. A spill changes both in one hold of the lock of events. A generation
 *       has 48 bits and is never used twice, so a handle never names a second job.
 *   I2. Two threads may release a record: the owner of the job, and a thread that spills it. The
 *       CAS of the slot's generation decides (submit_end()). The loser drops its copy.
 *   I3. A reader copies from the record first and then checks the generations of state word and
 *       slot. If one has changed, the copy may be of a later job, and the tree is read instead.
 *       Client, pool and manager execute a release fence before they write data that readers
 *       copy (J2).
 *   I4. A job is spilled only if its state word has an outcome of the slot's generation. The word
 *       of a free record has an older generation; that of a record being filled has no outcome.
 *   I5. The watch entry of a spilled job moves to its copy (events.c). Groups do not refer to
 *       spilled jobs, because these have ended.
 *   I6. Copies of buffers that fk_result() copies back move to the tree; strings and other copies
 *       are freed. A pointer that was read from the record stays valid after the move (I3). Only
 *       fk_release() frees these copies, and no call for the same job may overlap it.
 *
 * If a peer dies: no peer sees the tree. Without a daemon, spilled results stay readable.
 */
#include "client/lib/spill.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/client.h"
#include "client/lib/events_list.h"
#include "client/lib/record_pool.h"
#include "client/lib/submit.h"
#include "common/relaxed.h"

struct spilled {
	fk_job job;
	struct client_end end;
	struct events_entry entry;
	uint8_t result[LIMIT_RESULT];
};

static int spill_compare(const void *a, const void *b)
{
	fk_job x = ((const struct spilled *)a)->job;
	fk_job y = ((const struct spilled *)b)->job;

	return x < y ? -1 : x > y;
}

/* The next ones: with the lock held. */

static struct spilled *spill_find(struct fk_client *client, fk_job job)
{
	struct spilled key = { .job = job };
	struct spilled *const *found = tfind(&key, &client->spilled, spill_compare);

	return found ? *found : NULL;
}

struct events_entry *spill_entry(struct fk_client *client, fk_job job)
{
	struct spilled *spilled = spill_find(client, job);

	return spilled ? &spilled->entry : NULL;
}

/* Moves the job of a record if it has ended. Returns 1, 0, or -ENOMEM. */
static int spill_record(struct fk_client *client, uint32_t index, int watch)
{
	struct client_slot *slot = &client->slots[index];
	/* Relaxed: submit_release() decides (I2). */
	uint64_t generation = load_relaxed(&slot->generation);
	struct spilled *spilled;
	struct client_end end;
	uint8_t result[LIMIT_RESULT];
	fk_job job = generation << 16 | index;
	void *memory;

	/* A record that was never used is not read, so its page is not allocated. */
	if (generation == CLIENT_UNUSED || (watch && job_watch(&client->jobs[index])) ||
	    client_end_in_table(client, job, &end, result))
		return 0;
	spilled = calloc(1, sizeof(*spilled));
	if (!spilled)
		return -ENOMEM;
	spilled->job = job;
	spilled->end = end;
	spilled->end.memory = NULL; /* until submit_end() decides */
	memcpy(spilled->result, result, end.result_size);
	if (!tsearch(spilled, &client->spilled, spill_compare)) {
		free(spilled);
		return -ENOMEM;
	}
	if (!submit_end(client, slot, job, &memory)) {
		(void)tdelete(spilled, &client->spilled, spill_compare);
		free(spilled);
		return 0;
	}
	spilled->end.memory = args_keep(&client->heap, memory);
	events_move(client, job, &spilled->entry);
	return 1;
}

/* The next ones: without the lock. */

int spill_ended(struct fk_client *client, int watch)
{
	uint32_t first = 0; /* + 1 */
	uint32_t last = 0;
	int n = 0;
	int err = 0;

	pthread_mutex_lock(&client->events.lock);
	for (uint32_t i = 0; i < client->n_jobs && err >= 0; i++) {
		err = spill_record(client, i, watch);
		if (err <= 0)
			continue;
		/* Relaxed: records_give_chain() publishes them. */
		store_relaxed(&client->slots[i].next, (uint16_t)first);
		if (!first)
			last = i;
		first = i + 1;
		n++;
	}
	/* With the lock held, so that fk_release() of such a job returns only after this. */
	if (first)
		records_give_chain(client, first - 1, last);
	pthread_mutex_unlock(&client->events.lock);
	return n || err >= 0 ? n : err;
}

int spill_read(struct fk_client *client, fk_job job, struct client_end *ret_end, void *result)
{
	struct spilled *spilled;
	int err = 0;

	pthread_mutex_lock(&client->events.lock);
	spilled = spill_find(client, job);
	if (spilled) {
		*ret_end = spilled->end;
		if (result)
			memcpy(result, spilled->result, spilled->end.result_size);
	} else {
		/* -ECONNRESET: in the table, with an empty record (wait.c). Relaxed: nothing else
		 * is read. */
		err = client_slot(client, job) && !load_relaxed(&client_job(client, job)->state)
			    ? -ECONNRESET
			    : -ESTALE;
	}
	pthread_mutex_unlock(&client->events.lock);
	return err;
}

int spill_outcome(struct fk_client *client, fk_job job)
{
	struct client_end end;
	int err = spill_read(client, job, &end, NULL);

	return err ? err : (int)end.outcome;
}

int spill_release(struct fk_client *client, fk_job job)
{
	struct spilled *spilled;

	pthread_mutex_lock(&client->events.lock);
	spilled = spill_find(client, job);
	if (spilled) {
		events_drop(client, &spilled->entry);
		(void)tdelete(spilled, &client->spilled, spill_compare);
	}
	pthread_mutex_unlock(&client->events.lock);
	if (!spilled)
		return -ESTALE;
	args_free(&client->heap, spilled->end.memory);
	free(spilled);
	return 0;
}

static void spill_free(void *node)
{
	struct spilled *spilled = node;

	/* Frees only the private part: the block is unmapped with the heap. */
	free(spilled->end.memory);
	free(spilled);
}

void spill_fini(struct fk_client *client)
{
	tdestroy(client->spilled, spill_free);
}
