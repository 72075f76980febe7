/* SPDX-License-Identifier: MIT */
/*
 * group.c - groups of jobs that are waited for together
 *
 * INVARIANTS
 *   I1. The word in shared memory is shm/group.h's. What a group's handle is good for, and which
 *       jobs are in it, stands in private memory.
 *   I2. Whether a job is pending says its record. So a group whose count stays above 0 because a
 *       pool died at the wrong moment (shm/group.h, I4) has ended all the same: waits and polls
 *       look at the records once in CLIENT_TICK_NS, of each group, and a wait when its time is
 *       over. A wait that sleeps beside others does so within two of them.
 *   I3. The number of a group that was freed with such a count is in limbo, and is given out again
 *       only if the count has become 0 meanwhile: it was a worker that had not come to counting.
 */
#include "client/lib/client.h"

#include <errno.h>

#include "common/crash_site.h"
#include "common/relaxed.h"
#include "common/util.h"
#include "shm/futex.h"

uint32_t group_number(struct fk_client *client, fk_group group)
{
	uint64_t index = group & 0xffffu;

	if (index >= LIMIT_GROUPS || !(group >> 16))
		return 0;
	/* Relaxed: a handle that is good was given out after the generation was set. */
	if (load_relaxed(&client->group[index].generation) != group >> 16)
		return 0;
	return (uint32_t)index + 1;
}

/* True if a job of the group has no outcome. */
static int group_has_pending(struct fk_client *client, uint32_t number)
{
	for (uint32_t i = 0; i < client->n_jobs; i++) {
		/* Relaxed: what was submitted before the wait is known to the waiter. */
		uint32_t options = load_relaxed(&client->slots[i].options);

		if (unlikely((options & CLIENT_GROUP) == number) &&
		    job_outcome(&client->jobs[i]) == JOB_PENDING)
			return 1;
	}
	return 0;
}

void group_take_back(struct fk_client *client, uint32_t number, uint32_t n)
{
	struct group *group = &client->groups[number - 1];
	int wake = group_done(group, n);

	FK_CRASH(group_taken_back);
	if (wake)
		(void)futex_wake(&group->word, INT32_MAX);
}

int fk_group_new(fk_client *client, fk_group *ret_group)
{
	int err = client_check(client);

	if (err)
		return err;
	err = -EAGAIN;
	pthread_mutex_lock(&client->group_lock);
	for (uint32_t i = 0; i < LIMIT_GROUPS && err; i++) {
		struct client_group *group = &client->group[i];

		if (group->state == CLIENT_GROUP_USED ||
		    (group->state == CLIENT_GROUP_LIMBO &&
		     group_count(group_load(&client->groups[i]))))
			continue;
		group->state = CLIENT_GROUP_USED;
		group->last = group->last + 1 ? group->last + 1 : 1;
		/* Relaxed: the handle that it is compared with does not exist before. */
		store_relaxed(&group->generation, group->last);
		*ret_group = (uint64_t)group->last << 16 | i;
		err = 0;
	}
	pthread_mutex_unlock(&client->group_lock);
	return err;
}

int fk_group_free(fk_client *client, fk_group handle)
{
	uint32_t number;
	int err = client_check(client);

	if (err)
		return err;
	pthread_mutex_lock(&client->group_lock);
	number = group_number(client, handle);
	if (!number) {
		err = -ESTALE;
	} else if (!group_count(group_load(&client->groups[number - 1]))) {
		client->group[number - 1].state = CLIENT_GROUP_FREE;
	} else if (!group_has_pending(client, number) || client_gone(client)) {
		client->group[number - 1].state = CLIENT_GROUP_LIMBO;
	} else {
		err = -EBUSY;
	}
	/* Relaxed: a later use of the handle is a mistake, and may see it late. */
	if (!err)
		store_relaxed(&client->group[number - 1].generation, 0);
	pthread_mutex_unlock(&client->group_lock);
	return err;
}

/* True if the count became 0 while spinning. */
static int group_spin(struct group *group, uint64_t end_ns)
{
	uint32_t steps = 0;

	do {
		if (!group_count(group_load(group)))
			return 1;
	} while (client_spin(&steps, end_ns));
	return 0;
}

/* The count is not 0, and of this generation. */
static int group_sleep(struct fk_client *client, uint32_t number, uint32_t generation,
		       uint64_t deadline)
{
	struct group *group = &client->groups[number - 1];
	int err;

	do {
		uint32_t value = group_announce(group, generation);

		if (!value)
			return 0;
		FK_CRASH(group_announced);
		if (client_due(&client->group[number - 1].looked_ns, clock_ns(), CLIENT_TICK_NS) &&
		    !group_has_pending(client, number))
			return 0;
		err = client_sleep(client, &group->word, value, deadline);
	} while (!err);
	return group_has_pending(client, number) ? err : 0;
}

/* The count is not 0. */
static int group_poll(struct fk_client *client, uint32_t number)
{
	uint64_t now = clock_coarse_ns();
	int gone = client_look(client, now);

	if ((gone || client_due(&client->group[number - 1].looked_ns, now, CLIENT_TICK_NS)) &&
	    !group_has_pending(client, number))
		return 0;
	return gone ? -ECONNRESET : -ETIMEDOUT;
}

static int group_wait(struct fk_client *client, uint32_t number, uint64_t timeout_ns)
{
	uint32_t word, spin;
	uint64_t start, deadline;

	word = group_load(&client->groups[number - 1]);
	if (!group_count(word))
		return 0;
	if (!timeout_ns)
		return group_poll(client, number);
	start = clock_ns();
	deadline = client_deadline(start, timeout_ns);
	/* Relaxed: a hint, that single waits adapt. */
	spin = load_relaxed(&client->spin);
	if (spin && group_spin(&client->groups[number - 1], min(start + spin, deadline)))
		return 0;
	return group_sleep(client, number, group_generation(word), deadline);
}

int fk_group_wait(fk_client *client, fk_group handle, uint64_t timeout_ns)
{
	uint32_t number;
	int err = client_check(client);

	if (err)
		return err;
	number = group_number(client, handle);
	if (!number)
		return -ESTALE;
	err = group_wait(client, number, timeout_ns);
	/* The zeros of a segment that forkd has taken back are no end (wait.c). */
	return err || client->segment->head.magic ? err : -ECONNRESET;
}
