/* SPDX-License-Identifier: MIT */
/*
 * group.c - groups of jobs that are waited for together
 *
 * INVARIANTS
 *   I1. shm/group.h describes the word in shared memory. The generation of a group's valid handle,
 *       and the group of each job, are in private memory.
 *   I2. The record of a job decides whether it is pending. A pool that dies can leave the count of
 *       a group above 0 for ever (shm/group.h, I4). So waits and polls check the records of each
 *       group once in CLIENT_TICK_NS, and a wait does at its timeout. A wait that shares a group
 *       with other waits checks within two ticks.
 *   I3. A group that was freed with such a count is in limbo. Its number is used again only after
 *       the count has become 0: a worker was late to count, and did not die.
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
	/* Relaxed: a valid handle was returned after the generation was set. */
	if (load_relaxed(&client->group[index].generation) != group >> 16)
		return 0;
	return (uint32_t)index + 1;
}

/* True if a job of the group has no outcome. */
static int group_has_pending(struct fk_client *client, uint32_t number)
{
	for (uint32_t i = 0; i < client->n_jobs; i++) {
		/* Relaxed: the caller synchronizes with the submissions that it waits for. */
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
	err = -FK_E_GROUPS_FULL;
	pthread_mutex_lock(&client->group_lock);
	for (uint32_t i = 0; i < LIMIT_GROUPS && err; i++) {
		struct client_group *group = &client->group[i];

		if (group->state == CLIENT_GROUP_USED ||
		    (group->state == CLIENT_GROUP_LIMBO &&
		     group_count(group_load(&client->groups[i]))))
			continue;
		group->state = CLIENT_GROUP_USED;
		group->last = group->last + 1 ? group->last + 1 : 1;
		/* Relaxed: the handle that is compared with it does not exist yet. */
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
		err = -FK_E_NO_GROUP;
	} else if (!group_count(group_load(&client->groups[number - 1]))) {
		client->group[number - 1].state = CLIENT_GROUP_FREE;
	} else if (!group_has_pending(client, number) || client_gone(client)) {
		client->group[number - 1].state = CLIENT_GROUP_LIMBO;
	} else {
		err = -EBUSY;
	}
	/* Relaxed: a later use of the handle is an error, which may be detected late. */
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

/* Sleeps until the group has ended. The count was not 0, and of this generation. */
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

/* Polls a group whose count was not 0. Returns 0, -ETIMEDOUT or -ECONNRESET. */
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
	/* Relaxed: a hint, which waits for single jobs adapt. */
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
		return -FK_E_NO_GROUP;
	err = group_wait(client, number, timeout_ns);
	/* A segment that forkd has taken back reads as zeros, which do not mean an end (wait.c). */
	return err || client->segment->head.magic ? err : -ECONNRESET;
}
